"""Level 3: the daemon's word to systemd: ready, reloading, stopping, status, watchdog, stored descriptors.

Without `$NOTIFY_SOCKET` everything here does nothing. A message that cannot be sent is not an error: systemd
may be restarting, and watching logs goes on.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_FIRST_FD = 3
_NAME_LIMIT = 255


class Systemd:
    """Talks to the service manager that started this process, if one did.

    Args:
        environment: Where `NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`, `LISTEN_PID`, `LISTEN_FDS` and
            `LISTEN_FDNAMES` are looked up.
        pid: This process.
    """

    def __init__(self, environment: Mapping[str, str] | None = None, pid: int | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._pid = os.getpid() if pid is None else pid
        self._status = ""

    @property
    def address(self) -> str | None:
        """Address of the notification socket (`@` begins an abstract one), or None."""
        return self._environment.get("NOTIFY_SOCKET") or None

    def notify(self, *assignments: str, descriptors: Sequence[int] = ()) -> bool:
        """Send assignments (`"READY=1"`) and descriptors; whether they were sent."""
        address = self.address
        if address is None:
            return False
        if address.startswith("@"):
            address = "\0" + address[1:]
        rights = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        )
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.connect(address)
                channel.sendmsg(["\n".join(assignments).encode()], rights)
        except (OSError, ValueError):
            return False
        return True

    def ready(self, status: str) -> bool:
        """Sources are opened, state is recovered, HTTP is bound; also the end of a reload."""
        return self.notify("READY=1", f"STATUS={_line(status)}")

    def reloading(self) -> bool:
        """A reload begins; `ready` ends it."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        return self.notify("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    def stopping(self) -> bool:
        """The daemon is on its way out."""
        return self.notify("STOPPING=1", "STATUS=Committing and delivering what is due")

    def status(self, text: str) -> bool:
        """One line on what is going on, for `systemctl status`; sent only if it changed."""
        if text == self._status:
            return False
        self._status = text
        return self.notify(f"STATUS={_line(text)}")

    def extend_start(self, seconds: float) -> bool:
        """Recovery takes longer: do not give up on the start for so long."""
        return self.notify(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    @property
    def watchdog_s(self) -> float | None:
        """Seconds without a sign of life after which systemd kills this process; None where it does not."""
        owner = self._environment.get("WATCHDOG_PID")
        try:
            limit_us = int(self._environment.get("WATCHDOG_USEC", ""))
            mine = owner is None or int(owner) == self._pid
        except ValueError:
            return None
        return limit_us / 1e6 if mine and limit_us > 0 else None

    def store(self, name: str, descriptor: int) -> bool:
        """Keep a descriptor over a restart: what it shows may have lost its name by then."""
        return self.notify("FDSTORE=1", f"FDNAME={_name(name)}", "FDPOLL=0", descriptors=[descriptor])

    def forget(self, name: str) -> bool:
        """Drop the descriptors kept under this name."""
        return self.notify("FDSTOREREMOVE=1", f"FDNAME={_name(name)}")

    def stored(self) -> list[tuple[str, int]]:
        """Names and descriptors that an earlier life stored (or a socket unit passes), oldest first.

        They belong to the caller from now on; children do not inherit them.
        """
        try:
            mine = int(self._environment.get("LISTEN_PID", "")) == self._pid
            count = int(self._environment.get("LISTEN_FDS", "")) if mine else 0
        except ValueError:
            return []
        names = self._environment.get("LISTEN_FDNAMES", "").split(":")
        found = []
        for number in range(count):
            descriptor = _FIRST_FD + number
            with contextlib.suppress(OSError):
                os.set_inheritable(descriptor, False)
                found.append((names[number] if number < len(names) else "unknown", descriptor))
        return found


class Watchdog:
    """Signs of life that mean something: one is sent only after every part has moved since the last one.

    Args:
        parts: Names of what must move: reading, committing, serving, ...
        clock: Monotonic seconds.

    Each part calls `moved` at each turn of its loop, idle turns included. Whoever has a timer calls `check`.
    """

    def __init__(
        self, systemd: Systemd, parts: Iterable[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._systemd = systemd
        self._clock = clock
        self._lock = threading.Lock()
        self._parts = frozenset(parts)
        self._moved: set[str] = set()
        limit_s = systemd.watchdog_s
        self.interval_s = limit_s / 2 if limit_s else None
        """Seconds between signs of life, None where nobody waits for them."""
        self._next_s = clock()
        self._since_s = clock()

    def moved(self, part: str) -> None:
        """This part has done a turn."""
        with self._lock:
            self._moved.add(part)

    def check(self) -> bool:
        """Send a sign of life if one is due and every part has moved; whether it was sent."""
        if self.interval_s is None:
            return False
        now_s = self._clock()
        with self._lock:
            if now_s < self._next_s or not self._parts <= self._moved:
                return False
            self._moved.clear()
            # Half of the interval early: a check that comes late must not cost the next sign.
            self._next_s, self._since_s = now_s + self.interval_s / 2, now_s
        return self._systemd.notify("WATCHDOG=1")

    def hung(self) -> frozenset[str]:
        """Parts that have not moved for a whole interval, for the log; empty while all is well."""
        if self.interval_s is None or self._clock() - self._since_s < self.interval_s:
            return frozenset()
        with self._lock:
            return self._parts - self._moved


def _line(text: str) -> str:
    return " ".join(text.split())


def _name(name: str) -> str:
    """A descriptor's name as systemd allows it: printable ASCII without colons."""
    kept = "".join(char if char.isascii() and char.isprintable() and char != ":" else "-" for char in name)
    return kept[:_NAME_LIMIT] or "unnamed"
