"""Level 3: an open log, plain or compressed, read by offset in its uncompressed bytes."""

from __future__ import annotations

import errno
import os
from typing import Protocol

from logwatch.errors import SourceError
from logwatch.intake.archive import Archive, form_of, open_archive
from logwatch.intake.identity import Facts, facts_of

_SKIP_BYTES = 1 << 20
_FORM_BYTES = 6


class Opened(Protocol):
    """What a follower needs of an open file."""

    def facts(self) -> Facts:
        """What the file system says now of the very file that is open, whatever its name is."""

    def read_at(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes from `offset`; fewer only at the end. Raises OSError."""

    def data_from(self, offset: int) -> int:
        """The first offset, from `offset` on, that is not in a hole."""

    def close(self) -> None:
        """Give the descriptor back."""


class PlainFile(Opened):
    """A log as it is written.

    Attributes:
        descriptor: Its descriptor; `/proc/self/fd/N` opens the same file after it was renamed or deleted.
    """

    packed = False

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def facts(self) -> Facts:
        """As `Opened.facts`."""
        return facts_of(self.descriptor)

    def read_at(self, offset: int, count: int) -> bytes:
        """As `Opened.read_at`."""
        data = os.pread(self.descriptor, count, offset)
        while 0 < len(data) < count:
            more = os.pread(self.descriptor, count - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def data_from(self, offset: int) -> int:
        """As `Opened.data_from`."""
        size = os.fstat(self.descriptor).st_size  # asked for first: what is appended now lies behind it
        try:
            return os.lseek(self.descriptor, offset, os.SEEK_DATA)
        except OSError as error:  # only a hole is left, or the file system does not know holes
            return max(offset, size) if error.errno == errno.ENXIO else offset

    def close(self) -> None:
        """As `Opened.close`."""
        os.close(self.descriptor)


class PackedFile(Opened):
    """A compressed log: reads forward, and from the start again where an earlier offset is asked for."""

    packed = True

    def __init__(self, path: str) -> None:
        self._path = path
        self._archive: Archive | None = None
        self._position = 0
        self._held = b""  # bytes before `_position`, so that a window and what follows it need no second pass
        try:
            self._archive = open_archive(path)
        except SourceError as error:
            raise OSError(str(error)) from None

    def facts(self) -> Facts:
        """As `Opened.facts`."""
        return facts_of(self._archive.descriptor if self._archive else self._path)

    @property
    def damage(self) -> str | None:
        """What is wrong with the archive, known once its end was read."""
        return self._archive.damage if self._archive else None

    def read_at(self, offset: int, count: int) -> bytes:
        """As `Opened.read_at`."""
        if offset < self._position - len(self._held):
            self.close()
            try:
                self._archive = open_archive(self._path)
            except SourceError as error:
                raise OSError(str(error)) from None
            self._position, self._held = 0, b""
        while self._position < offset + count and (piece := self._piece()):
            self._position += len(piece)
            kept = max(count, _SKIP_BYTES) + len(piece)
            self._held = (self._held + piece)[-kept:]
        start = len(self._held) - (self._position - offset)
        return self._held[max(0, start) : max(0, start + count)]

    def _piece(self) -> bytes:
        return self._archive.read(_SKIP_BYTES) if self._archive else b""

    def data_from(self, offset: int) -> int:
        """As `Opened.data_from`."""
        return offset

    def close(self) -> None:
        """As `Opened.close`."""
        if self._archive:
            self._archive.close()
            self._archive = None


def open_log(path: str) -> PlainFile | PackedFile:
    """Open a log; what it holds, not its name, decides whether it is compressed.

    Raises:
        OSError: It is gone, or may not be read.
    """
    plain = PlainFile(path)
    try:
        form = form_of(plain.read_at(0, _FORM_BYTES))
    except OSError:
        plain.close()
        raise
    if form == "plain":
        return plain
    plain.close()
    return PackedFile(path)
