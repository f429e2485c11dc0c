"""Level 3: the systemd journal of a unit, through `journalctl`, which knows its formats and locks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from logwatch.intake.chunks import Chunk
from logwatch.model import Level, Notice, Notify

PIECE_BYTES = 1 << 16
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0


class Journal:
    """Entries of one unit as lines of JSON, whole lines only; the cursor of the last one is the position.

    Args:
        saved: What `position` gave before the restart, or None.
        start: Where to begin without a saved cursor.
        clock: Monotonic seconds, for the pause before a dead child is started again.
    """

    unread = 0
    behind_since: float | None = None

    def __init__(
        self,
        stream: str,
        unit: str,
        saved: Mapping[str, Any] | None,
        notify: Notify,
        *,
        start: Literal["end", "beginning"],
        clock: Callable[[], float],
    ) -> None:
        self.stream, self.unit, self.path = stream, unit, f"journal:{unit}"
        self.behind = False
        self.changed = False
        self._notify, self._start, self._clock = notify, start, clock
        self._cursor: str | None = saved["cursor"] if saved else None
        self._line: int = saved["line"] if saved else 1
        self._offset: int = saved["offset"] if saved else 0
        self._held = b""
        self._child: subprocess.Popen[bytes] | None = None
        self._next_start, self._wait_s = -1e18, FIRST_WAIT_S

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What to sleep on."""
        return (self._child.stdout.fileno(),) if self._child and self._child.stdout else ()

    def turn(self, budget: int) -> Iterator[Chunk]:
        """Give out the entries that have come, and keep a child running."""
        self.behind = False
        if self._child is None:
            self._spawn()
        while self._child is not None and self._child.stdout is not None:
            if budget <= 0:
                self.behind = True
                return
            try:
                data = os.read(self._child.stdout.fileno(), PIECE_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._died()
                return
            whole, newline, rest = (self._held + data).rpartition(b"\n")
            self._held = rest
            budget -= len(data)
            if newline:
                yield self._chunk(whole + newline)

    def _chunk(self, data: bytes) -> Chunk:
        chunk = Chunk(self.stream, self.path, self._offset, data, self._line)
        self._offset += len(data)
        self._line += data.count(b"\n")
        for line in reversed(data.splitlines()):
            if cursor := _cursor(line):
                self._cursor = cursor
                break
        self._wait_s = FIRST_WAIT_S
        self.changed = True
        return chunk

    def _spawn(self) -> None:
        if self._clock() < self._next_start:
            return
        command = ["journalctl", "--follow", "--output=json", "--quiet", "--all", f"--unit={self.unit}"]
        if self._cursor is not None:
            command += [f"--after-cursor={self._cursor}", "--lines=all"]
        else:
            command.append("--lines=all" if self._start == "beginning" else "--lines=0")
        try:
            self._child = subprocess.Popen(  # noqa: S603  # the unit's name is the operator's own configuration
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            self._pause(f"journalctl cannot be started ({error.strerror})")
            return
        assert self._child.stdout is not None
        os.set_blocking(self._child.stdout.fileno(), False)

    def _died(self) -> None:
        child = self._child
        assert child is not None
        status = child.wait()
        if child.stdout is not None:
            child.stdout.close()
        self._child, self._held = None, b""  # a cut entry comes whole from the next child
        self._pause(f"journalctl ended with status {status}")

    def _pause(self, why: str) -> None:
        message = f"{why}; started again in {self._wait_s:g} s"
        self._notify(Notice("journal_restarted", message, Level.WARNING, self.stream, self.path))
        self._next_start = self._clock() + self._wait_s
        self._wait_s = min(self._wait_s * 2, LONGEST_WAIT_S)

    def position(self, pending: int) -> dict[str, Any]:  # noqa: ARG002  # chunks are whole lines
        """The cursor to go on after."""
        self.changed = False
        return {"cursor": self._cursor, "line": self._line, "offset": self._offset}

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.terminate()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def _cursor(line: bytes) -> str | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    cursor = entry.get("__CURSOR") if isinstance(entry, dict) else None
    return cursor if isinstance(cursor, str) else None
