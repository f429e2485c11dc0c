"""Level 3: one file of a stream while it is read, and what is kept of it when it is closed or done."""

from __future__ import annotations

from dataclasses import dataclass, field

from logwatch.intake.identity import HEAD_BYTES, WINDOW_BYTES, Facts, Identity, Mark, digest
from logwatch.intake.names import readable
from logwatch.intake.opened import PackedFile, PlainFile, open_log
from logwatch.intake.rungs import CLOCK, Rungs
from logwatch.intake.rungs import WINDOW_BYTES as RUNG_BYTES

RECENT_BYTES = 1 << 16
_CLOCK_BYTES = 1024


class Changed(Exception):  # noqa: N818  # a finding, not an error
    """The file no longer holds what was read from it."""


class Moved(Exception):  # noqa: N818  # a finding, not an error
    """Another file has the name."""


@dataclass(slots=True)
class Part:
    """One file (or one generation of it, after a truncation) in the order in which a stream is read.

    Attributes:
        path: Where it was last seen.
        offset: Next byte to read, in uncompressed bytes.
        line: Number of the line in which `offset` lies.
        size: Bytes it held when last looked at (compressed ones, if it is packed).
        modified_ns: When it was last written, as last seen.
        final: Nobody follows it by name any more: it ends when it is drained.
        nameless: Its name means another file, or none: only its descriptor leads to it for sure.
        gone: Nothing of it can be read any more; it only ends.
        since_ns: When it had been written last when it was first seen: its copies are younger.
        shown: What its chunks call it: its first name, though it be renamed in the middle of a line.
        quiet_ns: When it had been written last when it was found drained; -1: look again.
        unfinished: Bytes given out since the last line end.
        finished: Drained after it was rotated away; kept open for what may still be written late.
        packed_as: What is known of the file into which it was packed while it was still read.
        mark: What stood before `offset` when it was closed; None while it is open.
        rungs: Places to go back to where it is cut back.
    """

    path: str
    identity: Identity
    offset: int = 0
    line: int = 1
    size: int = 0
    modified_ns: int = 0
    packed: bool = False
    final: bool = False
    gone: bool = False
    nameless: bool = False
    finished: bool = False
    packed_as: Facts | None = None
    mark: Mark | None = field(default_factory=Mark)
    since_ns: int = 0
    shown: str = ""
    quiet_ns: int = -1
    unfinished: int = 0
    file: PlainFile | PackedFile | None = None
    head: bytearray = field(default_factory=bytearray)
    recent: bytearray = field(default_factory=bytearray)
    rungs: Rungs = field(default_factory=Rungs)

    def __post_init__(self) -> None:
        self.shown = self.shown or readable(self.path)

    @property
    def may_close(self) -> bool:
        """Whether its descriptor can be spared: it has a name by which it will be found, or was read to its end."""
        return (not (self.final or self.nameless) and self.at_line_start) or self.finished

    @property
    def is_quiet(self) -> bool:
        """Whether nothing was written since it was found drained."""
        drained = self.packed or self.size == self.offset
        return drained and self.modified_ns == self.quiet_ns and not self.final

    @property
    def at_line_start(self) -> bool:
        """Whether the last byte given out ended a line; what is closed was."""
        return self.file is None or self.offset == 0 or self.recent[-1:] == b"\n"

    def see(self, facts: Facts) -> None:
        """Remember what the file system says."""
        self.size, self.modified_ns = facts.size, facts.modified_ns

    def open(self) -> None:
        """Open it where it was left.

        Raises:
            OSError: Not there, or not readable.
            Moved: Another file has its name.
            Changed: It holds something else.
        """
        if self.file is not None:
            return
        file = open_log(self.path)
        try:
            same = file.facts().identity == self.identity
            if same:
                self.adopt(file)
        except (OSError, Changed):
            file.close()
            raise
        if not same:
            file.close()
            raise Moved

    def adopt(self, file: PlainFile | PackedFile) -> None:
        """Go on in an open file.

        Raises:
            Changed: It does not hold what the mark says.
        """
        # In this order, and each byte once: a packed file reads forward only.
        head = file.read_at(0, min(self.offset, HEAD_BYTES))
        start = max(0, self.offset - RECENT_BYTES)
        recent = file.read_at(start, self.offset - start)
        if len(recent) < self.offset - start:
            raise Changed
        if (mark := self.mark) is not None:
            same = not mark.head_bytes or digest(head[: mark.head_bytes]) == mark.head
            if not same or (mark.window_bytes and digest(recent[-mark.window_bytes :]) != mark.window):
                raise Changed
        self.head, self.recent = bytearray(head), bytearray(recent)
        self.file, self.packed, self.mark = file, file.packed, None

    def close(self) -> None:
        """Give the descriptor back; what stood before `offset` is kept as a hash."""
        if (file := self.release()) is not None:
            file.close()

    def release(self) -> PlainFile | PackedFile | None:
        """Let go of the open file without closing it."""
        file = self.file
        if file is not None:
            self.mark = self.mark_at(self.offset)
            self.file, self.head, self.recent = None, bytearray(), bytearray()
        return file

    def mark_at(self, offset: int) -> Mark:
        """The mark at an offset not after what was read and not before what is remembered."""
        if self.mark is not None:
            return self.mark
        behind = self.offset - offset
        window = bytes(
            self.recent[max(0, len(self.recent) - behind - WINDOW_BYTES) : len(self.recent) - behind]
        )
        if behind + WINDOW_BYTES > RECENT_BYTES and self.file is not None:
            size = min(offset, WINDOW_BYTES)
            window = self.file.read_at(offset - size, size)
        head = bytes(self.head[:offset])
        return Mark(offset, len(head), digest(head), len(window), digest(window))

    def mark_before(self, pending: int) -> tuple[Mark, int]:
        """The mark `pending` bytes before `offset`, and the number of the line there."""
        mark = self.mark_at(self.offset - pending)
        behind = self.offset - mark.offset
        return mark, self.line - (self.recent[-behind:].count(b"\n") if behind else 0)

    def read(self, count: int) -> bytes:
        """The next bytes, after a look at those before them; empty at the end. Moves nothing.

        Raises:
            Changed: What was read before is no longer there.
            OSError: Reading failed.
        """
        if self.file is None:
            return b""
        known = bytes(self.recent[-WINDOW_BYTES:])
        data = self.file.read_at(self.offset - len(known), len(known) + count)
        if data[: len(known)] != known:
            raise Changed
        if not self.packed and self.file.read_at(0, len(self.head)) != self.head:
            raise Changed
        return data[len(known) :]

    def advance(self, data: bytes) -> None:
        """Count bytes as given out."""
        if len(self.head) < HEAD_BYTES and self.offset == len(self.head):
            self.head += data[: HEAD_BYTES - len(self.head)]
        self.recent += data[-RECENT_BYTES:]
        del self.recent[:-RECENT_BYTES]
        self.offset += len(data)
        self.line += data.count(b"\n")
        newline = data.rfind(b"\n")
        self.unfinished = len(data) - newline - 1 + (self.unfinished if newline < 0 else 0)
        self.size = max(self.size, 0 if self.packed else self.offset)
        if not self.packed and self.rungs.is_due(start := self.offset - self.unfinished):
            end = len(self.recent) - self.unfinished
            self.rungs.add(start, self.line, bytes(self.recent[max(0, end - RUNG_BYTES) : max(0, end)]))

    def jump(self, offset: int, lines: int) -> None:
        """Go to a later offset without having given out what lies between (a range for the bulk path).

        Raises:
            Changed: The bytes are not there.
        """
        file = self.file
        assert file is not None
        self.offset, self.line, self.unfinished = offset, self.line + lines, 0
        self.mark = Mark()
        self.adopt(file)

    def kept_after_truncation(self, size: int) -> int | None:
        """How much of what was read is still there, if a truncation plainly cut the file in its middle.

        A new run may begin with the very bytes of the one before (its banner), so the common part must hold a clock
        time to count; None: take the content as new.
        """
        if self.file is None:
            return None
        start = self.offset - len(self.recent)
        if size <= start:
            return None
        now = self.file.read_at(start, min(size, self.offset) - start)
        common = _common(now, self.recent)
        before = bytes(self.recent[max(0, common - _CLOCK_BYTES) : common])
        if (start and not common) or not CLOCK.search(before):
            return None
        return start + common

    def cut_back(self, offset: int) -> None:
        """Forget what was read after an offset that lies within the remembered bytes."""
        lost = self.recent[len(self.recent) - (self.offset - offset) :]
        self.line -= lost.count(b"\n")
        del self.recent[len(self.recent) - len(lost) :]
        del self.head[offset:]
        self.offset, self.unfinished = offset, 0
        self.rungs.cut(offset)

    def go_back(self) -> bool:
        """Go back to the last rung that still holds; False: none does.

        Raises:
            OSError: It cannot be read.
            Changed: It changes right now.
        """
        file = self.file or open_log(self.path)
        try:
            rung = self.rungs.last_that_holds(file.read_at)
            if rung is None or file.packed or file.facts().identity != self.identity:
                return False
            self.rungs.cut(rung.offset)
            self.offset, self.line, self.unfinished = rung.offset, rung.line, 0
            self.mark = Mark()
            self.adopt(file)
            return True
        finally:
            if self.file is not file:
                file.close()


def _common(first: bytes, second: bytes | bytearray) -> int:
    """Length of the common beginning."""
    limit = min(len(first), len(second))
    if first[:limit] == second[:limit]:
        return limit
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if first[:middle] == second[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(slots=True)
class Finished:
    """A file that was read to its end (or is to be passed over), so that its copies are not read again.

    Attributes:
        since_ns: When it had been written last when it was first seen: its copies are younger.
        mark: What stood at its end; None: known by identity only.
        passed: It was never read, only taken for an old copy.
    """

    path: str
    identity: Identity
    mark: Mark | None = None
    line: int = 1
    modified_ns: int = 0
    passed: bool = False
