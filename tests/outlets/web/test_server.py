"""The server: its socket, its end, and clients that mean no good."""

import contextlib
import errno
import http.client
import os
import socket
import threading
import time

import pytest

from logwatch.errors import ConfigError
from logwatch.outlets.web import door
from logwatch.outlets.web import server as server_module
from logwatch.outlets.web.app import build_app
from logwatch.outlets.web.server import GuardedProtocol, Server, bind


def test_a_port_in_use_is_one_clear_line():
    """Before readiness the user reads which address, why not, and what to do."""
    with bind("127.0.0.1:0") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            bind(f"127.0.0.1:{port}")
    assert str(caught.value) == (
        f"http.listen 127.0.0.1:{port}: cannot listen there: address already in use; stop what listens there, "
        "or set another address with `[http] listen` (LOGWATCH_HTTP__LISTEN)"
    )


@pytest.mark.parametrize(
    "listen",
    [
        pytest.param("host.invalid:0", id="a host that does not exist"),
        pytest.param("203.0.113.1:0", id="an address of another machine"),
    ],
)
def test_an_address_that_cannot_be_had_is_a_config_error(listen):
    """Any failure to listen is a problem of the configuration."""
    with pytest.raises(ConfigError, match="cannot listen there"):
        bind(listen)


@pytest.mark.parametrize(
    ("listen", "family"), [("[::1]:0", socket.AF_INET6), ("127.0.0.1:0", socket.AF_INET)]
)
def test_both_families_can_be_listened_on(listen, family):
    """IPv6 addresses are written in brackets."""
    with bind(listen) as bound:
        assert family == bound.family


def test_a_socket_of_systemd_is_used(monkeypatch):
    """With socket activation the address comes from the unit; stored log descriptors are left alone."""
    with socket.create_server(("127.0.0.1", 0)) as passed:
        monkeypatch.setattr(server_module, "FIRST_SYSTEMD_FD", passed.fileno() - 1)
        environment = {
            "LISTEN_PID": str(os.getpid()),
            "LISTEN_FDS": "2",
            "LISTEN_FDNAMES": "log:logwatch.socket",
        }
        bound = bind("127.0.0.1:1", environment)
        assert passed.getsockname() == bound.getsockname()
        bound.detach()


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param(
            {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "http"}, id="for another process"
        ),
        pytest.param(
            {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "log"}, id="a stored log"
        ),
        pytest.param({}, id="no systemd"),
    ],
)
def test_descriptors_that_are_not_ours_are_left_alone(environment):
    """Without a socket for us the configured address is bound."""
    with bind("127.0.0.1:0", environment) as bound:
        assert bound.getsockname()[0] == "127.0.0.1"


def test_stop_closes_the_port(site):
    """After `stop` nobody listens, and the loop had gone round."""
    server = Server(build_app(site), bind("127.0.0.1:0"))
    server.start()
    port = int(server.address.rpartition(":")[2])
    assert time.monotonic() - server.beat < 5
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()


def test_the_loop_calls_back_while_it_serves(site, serve):
    """The caller's tick runs on the server's thread, about once a second."""
    ticked = threading.Event()
    serve(site, tick=ticked.set)
    assert ticked.wait(5)


def connect(client):
    return socket.create_connection(("127.0.0.1", client.port), timeout=10)


def is_cut(connection):
    """Whether the server ends the connection without a word."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="says nothing"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ", id="never ends its headers"),
    ],
)
def test_a_client_that_asks_too_slowly_is_cut(client, monkeypatch, sent):
    """Slow-loris: a request has a few seconds from its first byte, then the connection is gone."""
    monkeypatch.setattr(server_module, "REQUEST_S", 0.05)
    with connect(client) as connection:
        connection.sendall(sent)
        assert is_cut(connection)
    assert client.get("/-/healthy").status == 200


def test_a_connection_may_rest_between_requests(client, monkeypatch):
    """Keep-alive is not slowness: the limit runs only while a request is being sent."""
    monkeypatch.setattr(server_module, "REQUEST_S", 0.05)
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
    with contextlib.closing(connection):
        for _ in range(2):
            connection.request("GET", "/-/healthy")
            assert connection.getresponse().read() == b"logwatch is healthy.\n"
            socket_before = connection.sock
            assert server_ticks(client, 2)
        assert connection.sock is socket_before


def server_ticks(client, count):
    """Wait until the server's loop has looked at its clients so many times."""
    seen = threading.Semaphore(0)
    original = GuardedProtocol.check

    def check(self, now):
        original(self, now)
        seen.release()

    GuardedProtocol.check = check
    try:
        return all(seen.acquire(timeout=10) for _ in range(count))
    finally:
        GuardedProtocol.check = original


def test_headers_are_bounded(client):
    """A request whose headers never end costs a few kilobytes, then it is refused."""
    with connect(client) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 100_000)
        answer = b""
        try:
            while piece := connection.recv(4096):
                answer += piece
        except ConnectionResetError:
            pass
    assert answer.startswith(b"HTTP/1.1 400") or not answer


def test_a_body_is_not_waited_for(client):
    """Nothing here takes a body: a gigabyte that is announced is answered after its headers."""
    with connect(client) as connection:
        connection.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        connection.sendall(b"a" * 100_000)
        assert connection.recv(4096).startswith(b"HTTP/1.1 405")
    assert client.get("/-/healthy").status == 200


HEALTHY = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n"


def is_answered(connection):
    """Whether the answer to `HEALTHY` comes, whole."""
    said = b""
    while piece := connection.recv(4096):
        said += piece
        if said.endswith(b"logwatch is healthy.\n"):
            return said.startswith(b"HTTP/1.1 200")
    return False


def test_a_thousand_scrapes_at_once_are_all_answered(client, monkeypatch):
    """All but a few wait outside, and none is turned away, although each keeps its connection."""
    monkeypatch.setattr(door, "MAX_CONNECTIONS", 8)
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(connect(client)) for _ in range(300)]
        for connection in crowd:
            connection.sendall(HEALTHY)
        assert all(is_answered(connection) for connection in crowd)


def test_who_had_an_answer_makes_room(client, monkeypatch):
    """Where all places are taken, the connection that rested longest is ended."""
    monkeypatch.setattr(door, "MAX_CONNECTIONS", 3)
    with contextlib.ExitStack() as stack:
        inside = [stack.enter_context(connect(client)) for _ in range(3)]
        for connection in inside:
            connection.sendall(HEALTHY)
            assert is_answered(connection)
        assert client.get("/-/healthy").status == 200
        assert is_cut(inside[0])
        inside[2].sendall(HEALTHY)
        assert is_answered(inside[2])


def test_who_never_finishes_a_request_makes_room_after_a_moment(client, monkeypatch):
    """Slow clients in all places keep the others out for a second at most, though nothing is too late yet."""
    monkeypatch.setattr(door, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(door, "GRACE_S", 0.1)
    with contextlib.ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(connect(client)).sendall(HEALTHY[:9])
        assert client.get("/-/healthy").status == 200


def test_without_descriptors_others_wait(client, monkeypatch):
    """A process that cannot take a connection looks again later; it neither spins nor gives up."""
    monkeypatch.setattr(door, "EXHAUSTED_S", 0.05)
    original, refused = socket.socket.accept, []

    def accept(listening):
        if len(refused) < 3:
            refused.append(listening)
            raise OSError(errno.EMFILE, "Too many open files")
        return original(listening)

    monkeypatch.setattr(socket.socket, "accept", accept)
    assert client.get("/-/healthy").status == 200
    assert len(refused) == 3
