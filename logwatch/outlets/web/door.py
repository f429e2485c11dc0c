"""Level 3: who comes in: connections are taken off the listening socket only while there is room for them.

All others wait in the kernel's queue, where they cost us nothing: a thousand scrapes at once are answered one after
the other. Clients that never finish what they ask for, or their TLS handshake, cannot keep those out who do.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Protocol

MAX_CONNECTIONS = 128
QUEUE = 1024
"""How many may wait outside; the kernel's `somaxconn` may say less."""
GRACE_S = 0.5
"""How long others wait, and nobody can be let in, before those go who are still at their handshake or request."""
LOOK_S = 0.02
"""How often to look for room while somebody waits."""
EXHAUSTED_S = 1.0
"""How long to leave it when the process has no descriptor left."""


class Guest(Protocol):
    """A connection, as far as the door is concerned."""

    def leaves_for_others(self, now: float, *, stuck: bool) -> tuple[bool, float] | None:
        """How it ranks among those who may be sent away, the greatest first; None: it may not.

        Args:
            now: Monotonic seconds.
            stuck: Whether also those must go who have not asked yet.
        """

    def send_away(self) -> None:
        """End the connection."""


class Door:
    """Lets clients in, from now until `close`.

    Args:
        listening: The socket, which belongs to the door.
        make: Makes the protocol of a connection.
        guests: Connections that are in, without those that are leaving.
        tls: What they speak, or None.
        handshake_s: How long a handshake may take.
    """

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], asyncio.Protocol],
        guests: Callable[[], Iterable[Guest]],
        tls: ssl.SSLContext | None,
        handshake_s: float,
    ) -> None:
        self._socket, self._make, self._guests = listening, make, guests
        self._tls, self._handshake_s = tls, handshake_s if tls else None
        self._loop = asyncio.get_running_loop()
        self._greeting: dict[asyncio.Task[object], float | None] = {}
        self._let_in = time.monotonic()
        self._later: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        listening.listen(QUEUE)
        self._watch()

    def close(self) -> None:
        """Let nobody in any more; who is in stays, also amid a handshake."""
        self._leave_for(None)
        self._socket.close()

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""

    def _watch(self) -> None:
        self._later = None
        self._loop.add_reader(self._socket.fileno(), self._take)

    def _leave_for(self, pause_s: float | None) -> None:
        """Look no more, or after a while."""
        if self._later is not None:
            self._later.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._later = None if pause_s is None else self._loop.call_later(pause_s, self._watch)

    def _take(self) -> None:
        """Somebody waits."""
        stuck = time.monotonic() - self._let_in > GRACE_S
        for _ in range(MAX_CONNECTIONS):
            if not self._has_room(stuck=stuck):
                self._leave_for(LOOK_S)
                return
            try:
                taken, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._leave_for(EXHAUSTED_S)
                return
            self._greet(taken)
            self._let_in = time.monotonic()

    def _greet(self, taken: socket.socket) -> None:
        """Begin to speak with who came in: a handshake, where there is one, and then requests."""
        taken.setblocking(False)
        greeting = self._loop.create_task(
            self._loop.connect_accepted_socket(
                self._make, taken, ssl=self._tls, ssl_handshake_timeout=self._handshake_s
            )
        )
        self._greeting[greeting] = None

        def greeted(_done: object) -> None:
            self._greeting.pop(greeting, None)
            if greeting.cancelled() or greeting.exception() is not None:
                taken.close()

        greeting.add_done_callback(greeted)

    def _has_room(self, *, stuck: bool) -> bool:
        """Whether one more may come in; somebody who has had his answer, or his time, is sent away for that."""
        guests = list(self._guests())
        if len(guests) + len(self._greeting) < MAX_CONNECTIONS:
            return True
        # From the first look on, and not from the connection: what came meanwhile must have been read by then.
        now = time.monotonic()
        for greeting, since in self._greeting.items():
            if since is None:
                self._greeting[greeting] = now
            elif stuck and now - since > GRACE_S:
                del self._greeting[greeting]
                greeting.cancel()
                return True
        asked = ((guest, guest.leaves_for_others(now, stuck=stuck)) for guest in guests)
        ranks = {guest: rank for guest, rank in asked if rank is not None}
        if ranks:
            max(ranks, key=ranks.__getitem__).send_away()
        return bool(ranks)
