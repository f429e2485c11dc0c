"""Level 3: sources that cannot be read twice: FIFOs and standard input."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from logwatch.intake.chunks import Chunk
from logwatch.intake.names import readable
from logwatch.model import Level, Notice, Notify

STANDARD_INPUT = "-"
PIECE_BYTES = 1 << 16


def is_fifo(path: str) -> bool:
    """Whether a FIFO has this name now."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


class Pipe:
    """A FIFO, reopened when its writer leaves, or standard input. What was in it at a crash is gone with it."""

    unread = 0
    behind_since: float | None = None

    def __init__(self, stream: str, path: str, notify: Notify) -> None:
        self.stream, self.path = stream, path
        self._shown = readable(path)
        self.behind = False
        self.changed = False
        self._notify = notify
        self._descriptor = -1
        self._offset, self._line = 0, 1
        self._since_end = 0
        self._refused = False
        self._open()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What to sleep on."""
        return (self._descriptor,) if self._descriptor >= 0 else ()

    def turn(self, budget: int) -> Iterator[Chunk]:
        """Give out what is in the pipe now."""
        self.behind = False
        if self._descriptor < 0 and self.path != STANDARD_INPUT:
            self._open()
        while self._descriptor >= 0:
            if budget <= 0:
                self.behind = True
                return
            try:
                data = os.read(self._descriptor, min(budget, PIECE_BYTES))
            except BlockingIOError:
                return
            except OSError as error:
                self._say("unreadable", f"{self.path} cannot be read ({error.strerror})", Level.WARNING)
                data = b""
            if not data:
                yield from self._end()
                return
            chunk = Chunk(self.stream, self._shown, self._offset, data, self._line)
            self._offset += len(data)
            self._since_end += len(data)
            self._line += data.count(b"\n")
            budget -= len(data)
            yield chunk

    def _end(self) -> Iterator[Chunk]:
        """All writers left, or none has come yet."""
        if self._since_end or self.path == STANDARD_INPUT:
            self._since_end = 0
            ended = Chunk(self.stream, self._shown, self._offset, b"", self._line, ends=True)
            self.close()
            if self.path != STANDARD_INPUT:
                self._open()
            yield ended
        elif not self._is_named():  # it was deleted, and perhaps made again: writers open the new one
            self.close()
            self._open()

    def _is_named(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
        except OSError:
            return False

    def _open(self) -> None:
        if self.path == STANDARD_INPUT:
            self._descriptor = os.dup(0)
            os.set_blocking(self._descriptor, False)
            return
        if not is_fifo(self.path):
            return  # none there now; it may be made again
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if not self._refused:
                self._say("unreadable", f"{self.path} cannot be opened ({error.strerror})", Level.WARNING)
            self._refused = True
        else:
            self._refused = False

    def _say(self, kind: str, message: str, level: Level) -> None:
        self._notify(Notice(kind, message, level, self.stream, self.path))

    def position(self, pending: int) -> dict[str, str]:  # noqa: ARG002  # a pipe has no position to go back to
        """Nothing to go back to."""
        self.changed = False
        return {"pipe": self.path}

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
