"""Level 3: the HTTP server: a socket bound before readiness is told, and uvicorn in a thread of its own.

Clients cannot hold it up: connections, header sizes and the time for a request are bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from logwatch.errors import ConfigError, Problem
from logwatch.outlets.web import door
from logwatch.outlets.web.door import Door
from logwatch.outlets.web.webfile import WebFile

MAX_HEADER_BYTES = 16 * 1024
REQUEST_S = 10.0
STUCK_S = 60.0
KEEP_ALIVE_S = 75
"""Longer than usual scrape intervals, so that Prometheus keeps its connection."""
STOP_S = 2
START_S = 30.0
TICK_S = 1.0
SWITCH_S = 0.001
FIRST_SYSTEMD_FD = 3


def bind(listen: str, environment: Mapping[str, str] | None = None) -> socket.socket:
    """A listening socket for `HOST:PORT`; the one that systemd passed, where it passed one.

    Raises:
        ConfigError: The address cannot be had; in use, say.
    """
    passed = _passed(os.environ if environment is None else environment)
    if passed is not None:
        given = socket.socket(fileno=passed)
        given.setblocking(False)
        return given
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    # Bytes, for text would load the tables of internationalised names, at every start.
    name = host.encode() if host.isascii() else host
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            name or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(door.QUEUE)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        hint = "stop what listens there, or set another address with `[http] listen` (LOGWATCH_HTTP__LISTEN)"
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(Problem(f"http.listen {listen}", f"cannot listen there: {reason}", hint)) from None
    bound.setblocking(False)
    return bound


def is_passed() -> bool:
    """Whether systemd listens for us: then it alone says where."""
    return _passed(os.environ) is not None


def _passed(environment: Mapping[str, str]) -> int | None:
    """The socket of a `.socket` unit; stored log descriptors, which come the same way, are left alone."""
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return None
    names = environment.get("LISTEN_FDNAMES", "").split(":")
    for number in range(int(environment.get("LISTEN_FDS") or 0)):
        name = names[number] if number < len(names) else ""
        if name == "http" or name.endswith(".socket"):
            return FIRST_SYSTEMD_FD + number
    return None


class GuardedProtocol(H11Protocol):
    """HTTP/1.1 with a limit on the time that a client may take over a request."""

    allowed_names: tuple[str, ...] = ()
    """Names, one of which a client's certificate must have; none: any."""

    _request_since: float | None = None
    _idle_since: float = 0.0
    _stuck_since: float | None = None
    _unwanted_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """A client connects: one whose name is not allowed is turned away at once."""
        super().connection_made(transport)
        self._request_since = self._idle_since = time.monotonic()
        if not self._is_allowed(transport):
            transport.abort()

    def leaves_for_others(self, now: float, *, stuck: bool) -> tuple[bool, float] | None:
        """Who is too slow in asking (slow loris) goes first, then who has had an answer, the longest ago."""
        if not self._is_waiting() or self.transport.get_write_buffer_size() > 0:
            return None
        if self._request_since is None:
            return False, now - self._idle_since
        if self._unwanted_since is None:
            self._unwanted_since = now
        unwanted_s = now - self._unwanted_since
        return (True, unwanted_s) if stuck and unwanted_s > door.GRACE_S else None

    def send_away(self) -> None:
        """What was answered arrives."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """The clock of a request runs from its first byte to its last header."""
        if self._is_waiting() and self._request_since is None:
            self._request_since = time.monotonic()
        super().data_received(data)
        if not self._is_waiting():
            self._request_since = self._unwanted_since = None
            self._idle_since = time.monotonic()

    def check(self, now: float) -> None:
        """Cut the connection if its client is too slow in asking or in taking the answer."""
        stuck = not self._is_waiting() and self.flow.write_paused
        self._stuck_since = (self._stuck_since or now) if stuck else None
        late = self._request_since is not None and now - self._request_since > REQUEST_S
        if late or (self._stuck_since is not None and now - self._stuck_since > STUCK_S):
            self.transport.abort()

    def _is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _is_allowed(self, transport: asyncio.Transport) -> bool:
        if not self.allowed_names:
            return True
        certificate = transport.get_extra_info("peercert") or {}
        return any(name in self.allowed_names for _, name in certificate.get("subjectAltName", ()))


class Server:
    """Serves an app on a bound socket, in a thread of its own, until `stop`.

    Args:
        app: What `build_app` made.
        bound: What `bind` gave.
        web: The web configuration, which may ask for TLS; looked at again every second.
        tick: Called about once a second on the server's thread; must be quick.
    """

    def __init__(
        self,
        app: Starlette,
        bound: socket.socket,
        web: WebFile | None = None,
        tick: Callable[[], None] | None = None,
    ) -> None:
        self._app = app
        self._socket = bound
        self.address = _address(bound, "https" if web and web.tls else "http")
        """Where it is found: `http://127.0.0.1:9877`."""
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=GuardedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            workers=1,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        )
        self._loop = _Loop(config, bound, web, tick)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    @property
    def beat(self) -> float:
        """When the server's loop last went round, on `time.monotonic`: older than some seconds, it hangs."""
        return self._loop.beat

    def start(self) -> None:
        """Serve from now on; returns when requests are answered.

        The interpreter changes threads every millisecond from now on: with its usual five, a scrape beside a busy
        pipeline waited out several turns (measured: nine in ten scrapes within 8 instead of 37 ms).
        """
        sys.setswitchinterval(SWITCH_S)
        self._thread.start()
        if not self._loop.running.wait(START_S):
            raise RuntimeError("the HTTP server did not start")

    def stop(self) -> None:
        """End streams, finish what is being answered, close the socket."""
        self._app.state.stopping.set()
        self._loop.leave()
        self._thread.join(STOP_S + 3.0)

    def _run(self) -> None:
        self._loop.run(sockets=[self._socket])


class _Loop(uvicorn.Server):
    """uvicorn, told to stop by an event instead of looking ten times a second, and able to change its TLS."""

    def __init__(
        self,
        config: uvicorn.Config,
        bound: socket.socket,
        web: WebFile | None,
        tick: Callable[[], None] | None,
    ) -> None:
        super().__init__(config)
        self.beat = time.monotonic()
        self.running = threading.Event()
        self.servers: list[Door] = []  # type: ignore[assignment]  # uvicorn only closes them
        self._socket = bound
        self._web = web
        self._tick = tick
        self._tls: ssl.SSLContext | None = None
        self._leave: Callable[[], object] = lambda: None

    def leave(self) -> None:
        """Stop serving; from any thread, and also before serving began."""
        self.should_exit = True
        self._leave()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002  # uvicorn's signature; ours is bound already
        """Listen on the bound socket."""
        await self.lifespan.startup()
        self._listen()
        self.started = True

    async def main_loop(self) -> None:
        """Serve until told to leave; look after clients and the web configuration once a second."""
        leaving, loop = asyncio.Event(), asyncio.get_running_loop()
        self._leave = lambda: loop.call_soon_threadsafe(leaving.set)
        self.running.set()
        while not await self.on_tick(0) and not leaving.is_set():
            self.beat = time.monotonic()
            for connection in list(self.server_state.connections):
                if isinstance(connection, GuardedProtocol):
                    connection.check(self.beat)
            if self._web is not None:
                self._web.refresh()
                if self._web.tls is not self._tls:
                    self._listen()
            if self._tick is not None:
                self._tick()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(leaving.wait(), TICK_S)

    def _listen(self) -> None:
        """Take connections with the TLS in force now; those that are there go on as they are."""
        loop, before = asyncio.get_running_loop(), self.servers
        tls = self._tls = self._web.tls if self._web else None
        wanted = self._web.config.tls_server_config if self._web else None

        def protocol() -> GuardedProtocol:
            made = GuardedProtocol(
                config=self.config, server_state=self.server_state, app_state={}, _loop=loop
            )
            made.allowed_names = wanted.client_allowed_sans if wanted else ()
            return made

        self.servers = [Door(self._socket.dup(), protocol, self._guests, tls, REQUEST_S)]
        for server in before:
            server.close()

    def _guests(self) -> Iterator[GuardedProtocol]:
        for each in self.server_state.connections:
            if isinstance(each, GuardedProtocol) and not each.transport.is_closing():
                yield each


def _address(bound: socket.socket, scheme: str) -> str:
    host, port = bound.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
