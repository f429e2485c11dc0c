"""The waker: what wakes it, how fast, and what it says when it cannot hear."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from logwatch.intake.wake import HandWaker, Waker

PATIENCE_S = 5.0


@pytest.fixture
def waker(tmp_path):
    notices = []
    made = Waker(notices.append)
    made.notices = notices
    made.changed()
    made.watch([str(tmp_path)])
    yield made
    made.close()


def hints(waker, wanted):
    """Hints as they come, until a path is among them."""
    found = set()
    deadline = time.monotonic() + PATIENCE_S
    while str(wanted) not in found and time.monotonic() < deadline:
        waker.wait(PATIENCE_S)
        found |= waker.changed() or set()
    return found


def append(path):
    with path.open("a") as file:
        file.write("x\n")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(append, id="appended"),
        pytest.param(lambda path: path.rename(path.with_name("b.log")), id="renamed"),
        pytest.param(lambda path: path.unlink(), id="deleted"),
        pytest.param(lambda path: os.truncate(path, 0), id="truncated"),
        pytest.param(lambda path: path.chmod(0o600), id="mode changed"),
    ],
)
def test_change_in_a_directory_is_hinted(tmp_path, waker, change):
    """Whatever may concern a follower comes as the path's hint."""
    path = tmp_path / "a.log"
    path.write_text("x\n")
    hints(waker, path)
    change(path)
    assert str(path) in hints(waker, path)


def test_reading_does_not_wake(tmp_path, waker):
    """Opening, reading and closing a file is no news: else the follower would wake itself."""
    path = tmp_path / "a.log"
    path.write_text("x\n")
    hints(waker, path)
    while waker.wait(0.05):
        waker.changed()
    path.read_text()
    assert not waker.wait(0.05)


def test_append_wakes_within_milliseconds(tmp_path, waker):
    """Also right after a file was moved out of the directory, which holds up watchdog's own observer."""
    path, moved = tmp_path / "a.log", tmp_path / "moved.log"
    append(path)
    append(moved)
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    took = []
    for number in range(20):
        while waker.wait(0.01):
            waker.changed()
        if number == 10:
            moved.rename(elsewhere / "moved.log")
        started = time.monotonic()
        append(path)
        assert str(path) in hints(waker, path)
        took.append(time.monotonic() - started)
    assert sorted(took)[len(took) // 2] < 0.02
    assert max(took) < 0.3


def test_hand_wakes_from_another_thread_and_from_a_signal(waker):
    """`wake` ends a sleep from anywhere, and is remembered if nobody sleeps."""
    threading.Timer(0.02, waker.wake).start()
    assert waker.wait(PATIENCE_S)
    before = signal.signal(signal.SIGUSR1, lambda *_: waker.wake())
    try:
        threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        assert waker.wait(PATIENCE_S)
        waker.wake()
        waker.wake()
        assert waker.wait(0)
        assert not waker.wait(0)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_descriptor_wakes(waker):
    """A pipe that has something to read ends the sleep."""
    reader, writer = os.pipe()
    waker.listen([reader])
    assert not waker.wait(0.01)
    os.write(writer, b"x")
    assert waker.wait(PATIENCE_S)
    os.close(reader)
    os.close(writer)


def test_directory_made_again_is_watched_again(tmp_path, waker):
    """A watch goes with its directory; the next `watch` takes up the new one of the same name."""
    directory = tmp_path / "logs"
    directory.mkdir()
    waker.watch([str(tmp_path), str(directory)])
    directory.rmdir()
    hints(waker, directory)
    directory.mkdir()
    hints(waker, directory)
    waker.watch([str(tmp_path), str(directory)])
    append(directory / "a.log")
    assert str(directory / "a.log") in hints(waker, directory / "a.log")


def test_directory_not_watched_any_more(tmp_path, waker):
    """What is not asked for any more gives no hints."""
    waker.watch([])
    append(tmp_path / "a.log")
    assert not waker.wait(0.05)


def test_polling_hints_at_everything():
    """In poll mode each look is a look at everything, and nothing is said."""
    notices = []
    waker = Waker(notices.append, "poll")
    assert waker.polling
    assert waker.changed() is None
    waker.watch(["/"])
    assert waker.changed() is None
    waker.close()
    assert notices == []


@pytest.mark.needs("root")
def test_directory_that_may_not_be_watched(tmp_path):
    """A directory without permission is said once, and the others are watched."""
    for parent in (tmp_path, *list(tmp_path.parents)[:2]):
        parent.chmod(0o755)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    notices = []
    Waker(notices.append).close()  # imports what nobody may not read
    os.seteuid(65534)
    try:
        waker = Waker(notices.append)
        for _ in range(2):
            waker.watch([str(tmp_path), str(closed)])
    finally:
        os.seteuid(0)
    assert [notice.kind for notice in notices] == ["watch_failed"]
    assert not waker.polling
    waker.changed()
    append(tmp_path / "a.log")
    assert str(tmp_path / "a.log") in hints(waker, tmp_path / "a.log")
    waker.close()


def test_hand_waker_never_sleeps():
    """The tests' waker gives back at once whether it was woken."""
    waker = HandWaker()
    assert not waker.wait(1000)
    waker.wake()
    assert waker.wait(1000)
    assert waker.changed() is None
