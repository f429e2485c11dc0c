"""The word to systemd, over real sockets; the real systemd is in `test_unit_in_systemd.py`."""

import itertools
import os
import socket

import pytest

from logwatch.outlets.systemd import Systemd, Watchdog


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """A service manager's socket, and what the service finds in its environment."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        if request.param == "path":
            address = str(tmp_path / "notify")
            listener.bind(address)
        else:
            address = f"@logwatch-test-{os.getpid()}"
            listener.bind("\0" + address[1:])
        listener.settimeout(10)
        yield listener, {"NOTIFY_SOCKET": address}


@pytest.mark.parametrize(
    ("say", "expected"),
    [
        pytest.param(
            lambda s: s.ready("3 files,\nlag 0 B"), ["READY=1", "STATUS=3 files, lag 0 B"], id="ready"
        ),
        pytest.param(
            lambda s: s.stopping(), ["STOPPING=1", "STATUS=Committing and delivering what is due"], id="stop"
        ),
        pytest.param(lambda s: s.status("all is well"), ["STATUS=all is well"], id="status"),
        pytest.param(lambda s: s.extend_start(2.5), ["EXTEND_TIMEOUT_USEC=2500000"], id="extend"),
        pytest.param(lambda s: s.forget("log-1:2\n"), ["FDSTOREREMOVE=1", "FDNAME=log-1-2-"], id="forget"),
    ],
)
def test_messages(manager, say, expected):
    """Each word arrives as systemd reads it, over named and abstract sockets."""
    listener, environment = manager
    assert say(Systemd(environment))
    assert listener.recv(4096).decode().split("\n") == expected


def test_reloading_has_the_monotonic_clock(manager):
    """`notify-reload` wants to know when the reload began."""
    listener, environment = manager
    Systemd(environment).reloading()
    reloading, stamp = listener.recv(4096).decode().split("\n")
    assert reloading == "RELOADING=1"
    assert int(stamp.removeprefix("MONOTONIC_USEC=")) > 0


def test_a_status_is_said_once(manager):
    """The same status twice is one message."""
    _, environment = manager
    systemd = Systemd(environment)
    assert systemd.status("a")
    assert not systemd.status("a")


def test_a_stored_descriptor_arrives(manager, tmp_path):
    """The descriptor itself goes to the manager, under its name."""
    listener, environment = manager
    path = tmp_path / "log"
    path.write_text("still here")
    with path.open() as file:
        assert Systemd(environment).store("log-8-77", file.fileno())
    path.unlink()
    message, descriptors, _, _ = socket.recv_fds(listener, 4096, 4)
    assert message.decode().split("\n") == ["FDSTORE=1", "FDNAME=log-8-77", "FDPOLL=0"]
    with os.fdopen(descriptors[0]) as kept:
        assert kept.read() == "still here"


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/no/such/socket"}])
def test_without_systemd_nothing_happens(environment):
    """No socket, or one that is gone: nothing is sent and nothing fails."""
    systemd = Systemd(environment)
    assert not systemd.ready("x")
    assert not systemd.status("x")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30.0, id="ours"),
        pytest.param({"WATCHDOG_USEC": "30000000"}, 30.0, id="nobody's in particular"),
        pytest.param({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None, id="another process's"),
        pytest.param({"WATCHDOG_USEC": "x"}, None, id="not a number"),
        pytest.param({}, None, id="none"),
    ],
)
def test_watchdog_is_ours_or_not(environment, expected):
    """A sign of life is owed only if this process is the one that is waited for."""
    assert Systemd(environment, pid=7).watchdog_s == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"LISTEN_PID": "7", "LISTEN_FDS": "0"}, [], id="none"),
        pytest.param({"LISTEN_PID": "8", "LISTEN_FDS": "2"}, [], id="another process's"),
        pytest.param({"LISTEN_PID": "", "LISTEN_FDS": ""}, [], id="empty"),
    ],
)
def test_no_stored_descriptors(environment, expected):
    """Descriptors are taken only if they were passed to this process."""
    assert Systemd(environment, pid=7).stored() == expected


class Recorder(Systemd):
    """A systemd that waits for signs of life every ten seconds."""

    def __init__(self):
        super().__init__({"WATCHDOG_USEC": "10000000"})
        self.said = []

    def notify(self, *assignments, descriptors=()):
        self.said += assignments
        return True


def test_a_sign_of_life_needs_every_part():
    """As long as one part does not move, no sign is sent, however often the timer fires; then it is named."""
    now = [0.0]
    systemd = Recorder()
    watchdog = Watchdog(systemd, ["reading", "committing"], lambda: now[0])
    watchdog.moved("reading")
    assert not watchdog.check()
    watchdog.moved("committing")
    assert watchdog.check()
    for _ in range(20):
        now[0] += 1
        watchdog.moved("reading")
        assert not watchdog.check()
    assert watchdog.hung() == {"committing"}
    watchdog.moved("committing")
    assert watchdog.check()
    assert systemd.said == ["WATCHDOG=1"] * 2
    assert watchdog.hung() == frozenset()


def test_signs_of_life_come_within_half_the_limit():
    """While all parts move, a sign is sent at least every half limit, and not at every turn."""
    now = [0.0]
    systemd = Recorder()
    watchdog = Watchdog(systemd, ["reading"], lambda: now[0])
    sent = []
    for _ in range(600):
        now[0] += 0.1
        watchdog.moved("reading")
        if watchdog.check():
            sent.append(now[0])
    gaps = [later - earlier for earlier, later in itertools.pairwise(sent)]
    assert max(gaps) <= 5
    assert len(sent) < 60


def test_without_a_watchdog_none_is_served():
    """Where systemd waits for nothing, nothing is sent."""
    watchdog = Watchdog(Systemd({}), ["reading"])
    watchdog.moved("reading")
    assert not watchdog.check()
    assert watchdog.hung() == frozenset()
