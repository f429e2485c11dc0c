"""Level 3: compressed files: whatever a log was packed with, its bytes, as far as they can be read.

The form is told by content, not by name: a plain file called `.gz` is read as it is. Archives may have
several members (rotated logs are often concatenated). A damaged archive gives what can be had (the last of it
may be wrong: decoders check late) and then says in `Archive.damage` what happened; nothing is raised, because
last month's log is worth reading up to its hole.
`expand` turns what a user typed (files, directories, globs, `-`) into the inputs to open.
"""

from __future__ import annotations

import bz2
import difflib
import glob
import io
import lzma
import os
import re
import stat
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self

from logwatch.errors import Problem, SourceError
from logwatch.intake.addresses import expand_address, open_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STANDARD_INPUT = "-"
PIECE = 1 << 16  # compressed bytes handed to a decoder at once
CHUNK = 1 << 20  # bytes a decoder may give back at once, so that a bomb of zeros stays small
LOG_NAME = re.compile(
    r"(\.(log|out|err|txt|jsonl?)|^(log|std(out|err)|nohup\.out|messages|syslog))"  # what it is called
    r"([-._][-0-9T]*)?(\.(gz|zst|xz|bz2))?$",  # a rotation's number or date, and packed
    re.IGNORECASE,
)
_SKIPPABLE_ZSTD = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")


class _Decoder(Protocol):
    """What `bz2`, `lzma` and `zstd` have in common: one member, bounded output."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gzip:
    """One gzip member behind the same interface: `zlib` keeps unconsumed input in another attribute."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        out = self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)
        # A full answer may leave more inside zlib although all input is consumed.
        self.needs_input = not self._inflate.unconsumed_tail and len(out) < max_length
        return out


_DECODERS: dict[str, Callable[[], _Decoder]] = {
    "gz": _Gzip,
    "zst": zstd.ZstdDecompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
    "bz2": bz2.BZ2Decompressor,
}
_ERRORS = (zlib.error, lzma.LZMAError, zstd.ZstdError, EOFError, OSError, ValueError, MemoryError)


def form_of(head: bytes) -> str:
    """`gz`, `zst`, `xz`, `bz2` or `plain`, from the first bytes (six are enough).

    >>> form_of(b"BZh91AY&SY"), form_of(b"BZh, said the log")
    ('bz2', 'plain')
    """
    if head.startswith(b"\x1f\x8b\x08"):
        return "gz"
    if head.startswith(b"\xfd7zXZ\0"):
        return "xz"
    if re.match(rb"BZh[1-9][1\x17][A\x72]", head):  # a block's or the end's magic follows the level
        return "bz2"
    if head.startswith(b"\x28\xb5\x2f\xfd") or _SKIPPABLE_ZSTD.match(head):
        return "zst"
    return "plain"


class Archive:
    """One input, decompressed while it is read.

    Args:
        path: How the user named it; for messages only.
        source: The raw bytes. Where it can seek, a damaged archive gives every byte before the damage; where
            it cannot (a pipe), up to `PIECE` compressed bytes before the damage are lost too.

    Attributes:
        form: `plain`, `gz`, `zst`, `xz` or `bz2`.
        damage: One sentence, known once `read` has given its last byte; None where all is well.
        consumed: Raw (compressed) bytes read so far, for progress.
    """

    def __init__(self, path: str, source: BinaryIO) -> None:
        self.path = path
        self.damage: str | None = None
        self.consumed = 0
        self._source = source
        self._head = self._raw(PIECE)
        while 0 < len(self._head) < 6 and (more := self._raw(PIECE)):  # a pipe gives what it has
            self._head += more
        self.form = form_of(self._head)
        self._pieces = self._unpacked()
        self._left = self._head if self.form == "plain" else b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def descriptor(self) -> int:
        """Of the source, which must be a file."""
        return self._source.fileno()

    def close(self) -> None:
        """Close the source."""
        self._pieces, self._left = iter(()), b""
        self._source.close()

    def read(self, size: int = CHUNK) -> bytes:
        """Up to `size` bytes (all that is left where negative), at least one unless the input has ended."""
        if size < 0:
            return b"".join(iter(self.read, b""))
        while not self._left:
            if self.form == "plain":  # in one piece, however large: copies cost more than the log does
                return b"" if self._source.closed else self._raw(size)
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._left = piece
        given, self._left = self._left[:size], self._left[size:]
        return given

    def _raw(self, size: int) -> bytes:
        try:
            data = self._source.read(size)
        except OSError as error:
            self.damage = f"cannot be read beyond byte {self.consumed}: {error.strerror or error}"
            return b""
        self.consumed += len(data)
        return data

    def _unpacked(self) -> Iterator[bytes]:
        """Members one after the other, zero padding between them passed over."""
        data, self._head = self._head, b""
        start, given = 0, 0  # of the member: first raw byte, bytes given so far
        decoder = _DECODERS[self.form]()
        while data:
            begin = self.consumed - len(data)
            try:
                for out in _drain(decoder, data):
                    given += len(out)
                    yield out
            except _ERRORS as error:
                yield from self._before_damage(start, begin, given)
                self._damaged(f"{error}", begin)
                return
            if not decoder.eof:
                data = self._raw(PIECE)
                continue
            data = self._next_member(decoder.unused_data)
            start, given = self.consumed - len(data), 0
            if data and form_of(data) != self.form:
                self._damaged(f"what follows is not {self.form}", start)
                return
            decoder = _DECODERS[self.form]()
            if not data:
                return
        self.damage = (
            self.damage
            or f"cut short: the {self.form} data ends after {self.consumed} bytes without its end mark"
        )

    def _next_member(self, data: bytes) -> bytes:
        data = data.lstrip(b"\0")
        while len(data) < 6 and (more := self._raw(PIECE)):
            data = (data + more).lstrip(b"\0")
        return data

    def _before_damage(self, start: int, begin: int, given: int) -> Iterator[bytes]:
        """What a decoder swallowed when it failed: its answer went with the error, so go byte by byte."""
        if not self._source.seekable():
            return
        consumed = self.consumed
        decoder, skip = _DECODERS[self.form](), given
        try:
            self._source.seek(start)
            position = start
            while position < consumed:
                data = self._source.read(1 if position >= begin else min(PIECE, begin - position))
                position += len(data)
                for out in _drain(decoder, data):
                    fresh = out[skip:]
                    skip = max(0, skip - len(out))
                    if fresh:
                        yield fresh
                if decoder.eof or not data:
                    return
        except _ERRORS:
            return

    def _damaged(self, what: str, near: int) -> None:
        self.damage = (
            self.damage or f"damaged {self.form} data near byte {near}: {what[:1].lower()}{what[1:]}"
        )


def _drain(decoder: _Decoder, data: bytes) -> Iterator[bytes]:
    """All output that `data` gives, in pieces of at most `CHUNK`."""
    while True:
        out = decoder.decompress(data, CHUNK)
        if out:
            yield out
        if decoder.eof or decoder.needs_input:
            return
        data = b""


def open_archive(path: str | Path, source: BinaryIO | None = None) -> Archive:
    """Open a file (`-`: standard input), or an already open `source` that `path` names in messages.

    Raises:
        SourceError: It does not exist, is a directory, or may not be read.
    """
    name = str(path)
    if source is not None:
        return Archive(name, source)
    if name == STANDARD_INPUT:
        return Archive(name, sys.stdin.buffer)
    if "://" in name:
        return Archive(name, open_address(name))
    try:
        return Archive(name, Path(name).open("rb", buffering=0))
    except OSError as error:
        raise SourceError(_unreadable(name, error)) from None


def _unreadable(name: str, error: OSError) -> Problem:
    if isinstance(error, FileNotFoundError):
        return Problem(name, "no such file", _nearest(name))
    if isinstance(error, PermissionError):
        return Problem(name, "no permission to read it", "run as a user who may, or `chmod a+r` it")
    if isinstance(error, IsADirectoryError):
        return Problem(name, "is a directory", "name files in it, or a glob in quotes")
    return Problem(name, f"cannot be read: {error.strerror or error}", "check the path")


def _nearest(name: str) -> str:
    """A hint: a name in the same directory that looks like the one asked for."""
    folder, base = os.path.split(name)
    try:
        near = difflib.get_close_matches(base, (entry.name for entry in os.scandir(folder or ".")), n=1)
    except OSError:
        return (
            f"directory {folder} does not exist" if folder and not Path(folder).is_dir() else "check the path"
        )
    return f"did you mean {os.path.join(folder, near[0])}?" if near else "check the path"  # "./" stays


def expand(paths: Sequence[str]) -> tuple[str, ...]:
    """The inputs that a user's arguments name, each once, in the order of the arguments.

    A directory gives the logs in it (all levels, names as `LOG_NAME` knows them, hidden ones not); a glob
    gives its files, sorted; so do addresses such as `s3://bucket/logs/*.zst`; `-` is standard input.

    Raises:
        SourceError: With every argument that gives nothing.
    """
    found: dict[str, None] = {}
    problems: list[Problem] = []
    for path in paths:
        try:
            found.update(dict.fromkeys(_files(path)))
        except SourceError as error:
            problems.extend(error.problems)
    if problems:
        raise SourceError(*problems)
    return tuple(found)


def _files(path: str) -> list[str]:
    if path == STANDARD_INPUT:
        return [path]
    if "://" in path:
        return expand_address(path, LOG_NAME)
    try:
        mode = os.stat(path).st_mode  # an odd name may not survive Path()
    except OSError as error:
        if glob.has_magic(path):
            return _matching(path)
        raise SourceError(_unreadable(path, error)) from None
    if not stat.S_ISDIR(mode):
        if not os.access(path, os.R_OK, effective_ids=True):
            raise SourceError(_unreadable(path, PermissionError()))
        return [path]
    files = [
        os.path.join(folder, name)  # keep the user's spelling of the folder
        for folder, folders, names in os.walk(path)
        for name in _visible(folders, names)
    ]
    if not files:
        raise SourceError(
            Problem(
                path,
                "no logs in this directory",
                "looked for *.log, *.log.1, *.out, *.txt, *.jsonl, also packed; name other files, or a glob",
            )
        )
    return sorted(files, key=natural)


def _visible(folders: list[str], names: list[str]) -> list[str]:
    folders[:] = [folder for folder in folders if not folder.startswith(".")]
    return [name for name in names if not name.startswith(".") and LOG_NAME.search(name)]


def _matching(pattern: str) -> list[str]:
    files = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
    if not files:
        raise SourceError(
            Problem(pattern, "no file matches", "put the glob in quotes; `**` crosses directories")
        )
    return sorted(files, key=natural)


def natural(name: str) -> list[tuple[int, str]]:
    """Sort key by which `rank2.log` comes before `rank10.log`.

    >>> sorted(["rank10.log", "rank2.log"], key=natural)
    ['rank2.log', 'rank10.log']
    """
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def in_memory(data: bytes, path: str = "memory") -> Archive:
    """Archive over bytes at hand."""
    return Archive(path, io.BytesIO(data))
