"""Level 2: bytes to lines (`reading/lines.py`), independent of how the bytes were cut into chunks.

The rule, which the bulk entrance repeats:

1. Lines end at `\\n`, and only these are counted as lines. NUL bytes are removed wherever they stand (a
   writer without O_APPEND leaves a hole of them after a truncation). A byte order mark at the very beginning
   of a file is removed.
2. A line of more than `max_bytes` bytes is cut to its first and its last `max_bytes // 2` bytes, and these
   two pieces stand for it: what a line of megabytes holds is at its ends.
3. Each piece is parted at `\\r` (progress bars rewrite themselves with it, CRLF ends with it). Every part
   that is not empty becomes one `Line`, all with the same line number; a line without any such part becomes
   one empty `Line`.
4. Text is decoded as UTF-8; what is not UTF-8 becomes U+FFFD.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logwatch.model import Level, Line, Notice, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwatch.model import Notify

MAX_BYTES = 1 << 20
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


@dataclass(slots=True)
class LinesMemory:
    """Where the unfinished line at the end begins.

    Its bytes are not remembered: they are still in the file, and who restores this reads on from `offset`.

    Attributes:
        line: Number of the unfinished line, from 1.
        offset: Byte offset of its first byte.
    """

    line: int = 1
    offset: int = 0


def _quiet(notice: Notice) -> None:
    """The `Notify` of who does not want to know."""


class Lines:
    """Cuts bytes into `Line`s, whatever the chunks they come in; the rule is in the module's docstring.

    Memory is bounded by `max_bytes` however long a line is.

    Args:
        path: What the lines' places say.
        first_line: Number of the first line.
        offset: Byte offset of the first byte that will be fed.
        max_bytes: Longer lines are cut to their two ends, and the rest is told to `notify`; at least 8.
        notify: Is told of lines too long (`line_too_long`) and of UTF-16 files (`unsupported_encoding`).
    """

    def __init__(
        self,
        path: str,
        first_line: int = 1,
        offset: int = 0,
        max_bytes: int = MAX_BYTES,
        notify: Notify = _quiet,
    ) -> None:
        self.path = path
        self.memory = LinesMemory(first_line, offset)
        self._half = max_bytes // 2
        self._max = max_bytes
        self._notify = notify
        self._head = bytearray()  # the unfinished line without NULs, its first `max_bytes` bytes
        self._tail = bytearray()  # what follows them, cut from the left to at least its last half
        self._length = 0  # of the unfinished line, without NULs
        self._raw = 0  # of the unfinished line, as read

    @property
    def pending_bytes(self) -> int:
        """Bytes fed since the last line end: who stops here must read them again."""
        return self._raw

    def start(self, path: str, first_line: int = 1, offset: int = 0) -> None:
        """Go on with another file (call `finish` first: an unfinished line is dropped)."""
        self.path = path
        self.memory = LinesMemory(first_line, offset)
        self._drop()

    def feed(self, data: bytes) -> Iterator[Line]:
        """Take the next bytes, give the lines that they end (iterate to the end before feeding again)."""
        end = data.find(b"\n")
        if end < 0:
            self._hold(data)
            return
        start = 0
        if self._raw or self.memory.offset == 0:
            self._hold(data[:end])
            yield from self._end_of_line()
            start = end + 1
        last = data.rfind(b"\n") + 1
        if start < last:
            yield from self._whole_lines(data[start:last])
        if last < len(data):
            self._hold(data[last:])

    def finish(self) -> Iterator[Line]:
        """Give the last line, if it lacks its line end, with `complete` False."""
        if self._length:
            yield from self._pieces(complete=False)
            self.memory.line += 1
            self.memory.offset += self._raw
        self._drop()

    def _whole_lines(self, body: bytes) -> Iterator[Line]:
        """Lines of bytes that begin at a line's start and end with a line end."""
        memory, path = self.memory, self.path
        text = body.decode("utf-8", "replace")
        if text.isascii() and "\0" not in text and "\r" not in text and len(text) <= self._max:
            line, offset = memory.line, memory.offset
            pieces = text.split("\n")
            pieces.pop()
            for piece in pieces:
                yield Line(Place(path, offset, line), piece)
                line += 1
                offset += len(piece) + 1
            memory.line, memory.offset = line, offset
            return
        raws = body.split(b"\n")
        raws.pop()
        for raw in raws:
            if len(raw) > self._max or b"\r" in raw or b"\0" in raw:
                self._hold(raw)
                yield from self._end_of_line()
            else:
                yield Line(Place(path, memory.offset, memory.line), raw.decode("utf-8", "replace"))
                memory.line += 1
                memory.offset += len(raw) + 1

    def _end_of_line(self) -> Iterator[Line]:
        """The held line has met its `\\n`."""
        yield from self._pieces(complete=True)
        self.memory.line += 1
        self.memory.offset += self._raw + 1
        self._drop()

    def _hold(self, data: bytes) -> None:
        """Add bytes without a line end to the unfinished line, in bounded memory."""
        if b"\0" in data:
            if not self._length:
                # A hole may be gigabytes long: it is passed over for good, not read again after a restart.
                text = data.lstrip(b"\0")
                self.memory.offset += len(data) - len(text)
                data = text
            self._raw += len(data)
            data = data.replace(b"\0", b"")
        else:
            self._raw += len(data)
        self._length += len(data)
        room = self._max - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._max :]
            if len(self._tail) > 2 * self._max:
                del self._tail[: -self._max]

    def _drop(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._length = self._raw = 0

    def _pieces(self, *, complete: bool) -> Iterator[Line]:
        """The held line's `Line`s."""
        memory = self.memory
        head, offset = bytes(self._head), memory.offset
        if offset == 0:
            head, offset = self._without_mark(head)
        length = self._length - (offset - memory.offset)
        if length <= self._max:
            head += bytes(self._tail)
            yield from self._parts(head, offset, complete=complete)
            return
        end = memory.offset + self._raw
        both = head + bytes(self._tail)
        first = both[: self._half]
        for back in (1, 2, 3):  # a character cut in two would become U+FFFD
            lead = first[-back]
            if lead >= 0xC0 and _wanted_bytes(lead) > back:
                first = first[:-back]
            if lead < 0x80 or lead >= 0xC0:
                break
        last = both[-self._half :]
        last = last[:4].lstrip(_CONTINUATION_BYTES) + last[4:]
        skipped = length - len(first) - len(last)
        self._notify(
            Notice(
                "line_too_long",
                f"line {memory.line} has {length:,} bytes: only its beginning and end were read",
                Level.ERROR,
                path=self.path,
                bytes=skipped,
            )
        )
        yield from self._parts(first, offset, complete=False, or_empty=False)
        yield from self._parts(last, end - len(last), complete=False)

    def _parts(self, raw: bytes, offset: int, *, complete: bool, or_empty: bool = True) -> Iterator[Line]:
        """One piece, parted at `\\r`."""
        line, given = self.memory.line, False
        for part in raw.split(b"\r"):
            if part:
                yield Line(Place(self.path, offset, line), part.decode("utf-8", "replace"), complete)
                given = True
            offset += len(part) + 1
        if not given and or_empty:
            yield Line(Place(self.path, offset - len(raw) - 1, line), "", complete)

    def _without_mark(self, head: bytes) -> tuple[bytes, int]:
        """A file's first bytes without the byte order mark, and where the text begins."""
        if head.startswith(_UTF8_MARK):
            return head[3:], 3
        if head.startswith(_UTF16_MARKS):
            self._notify(
                Notice(
                    "unsupported_encoding",
                    "the file is UTF-16, of which only ASCII characters can be read: convert it to UTF-8",
                    Level.ERROR,
                    path=self.path,
                )
            )
            return head[2:], 2
        return head, 0


def _wanted_bytes(lead: int) -> int:
    """Bytes of the UTF-8 character that begins with `lead`."""
    return 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2
