"""Level 3: one stream read, file after file: chunks of bytes, late lines, and where to go on."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from logwatch.intake.beside import NOBODY, UNKNOWN_TIME
from logwatch.intake.chunks import Chunk
from logwatch.intake.names import readable
from logwatch.intake.opened import PackedFile
from logwatch.intake.parts import Changed, Finished, Moved, Part
from logwatch.intake.saved import part_of, written
from logwatch.intake.shop import Shop
from logwatch.intake.succession import PIECE_BYTES, Succession
from logwatch.model import Level

LATE_S = 60.0
"""A rotated file stays open this long after its last byte: another process may still be writing to it."""
MOST_LATE = 2
BULK_BYTES = 1 << 22
"""Pieces of a large backlog: commits wait for the end of one, and so do alerts and signals."""
SETTLED_NS = 50_000_000


class Lineage(Succession):
    """A succession of files that is read.

    Attributes:
        behind: Whether the last turn left bytes unread for want of budget.
        behind_since: When bytes were first found that are not read yet; None where there are none.
    """

    def __init__(self, shop: Shop, stream: str, path: str) -> None:
        super().__init__(shop, stream, path)
        self.behind = False
        self.behind_since: float | None = None
        self._looked_ns = 0
        self._seen: tuple[int, ...] = ()
        self._late: list[tuple[Part, Finished, float]] = []

    descriptors: tuple[int, ...] = ()

    @property
    def restless(self) -> bool:
        """Whether it needs a turn although nothing points at its path."""
        return self.behind or len(self.parts) > 1 or bool(self._late) or self.missing_since is not None

    @property
    def unread(self) -> int:
        """Bytes not yet given out, as far as sizes tell."""
        return sum(max(0, part.size - part.offset) for part in self.parts if not part.packed)

    @property
    def unfinished(self) -> int:
        """Bytes given out since the last line end."""
        return self.parts[0].unfinished if self.parts else 0

    @property
    def at_line_start(self) -> bool:
        """Whether what was given out last ended a line."""
        return not self.parts or self.parts[0].at_line_start

    # -- reading ------------------------------------------------------------------------------------------------

    def turn(self, budget: int) -> Iterator[Chunk]:
        """Look, then give out what is there, in order, up to a budget of bytes."""
        self.look()
        self.behind = False
        if self._header is not None:
            offset, line = self._header
            self._header = None
            yield Chunk(self.stream, readable(self.path), offset, line, 1)
        yield from self._read_late()
        while self.parts:
            part = self.parts[0]
            budget = yield from self._drain(part, budget)
            if self._flush:
                self._flush = False
                yield Chunk(self.stream, part.shown, part.offset, b"", part.line, ends=True)
                continue
            if self.behind:
                break
            if self.parts[0] is part and not self._is_over(part):
                live = self.parts[-1]
                if live is part or live.modified_ns in {live.since_ns, self._looked_ns}:
                    break
                self._looked_ns = live.modified_ns
                self._look_before(live)  # written and emptied again while it waits to be read
                if self.parts[1] is live:
                    break
            if self.parts[0] is part:
                yield from self._finish(part)
        self._note_lag()

    def is_idle(self) -> bool:
        """Whether all was read, and nothing changed since the last turn: thousands of files are so at each scan."""
        if (
            len(self.parts) != 1
            or not self.parts[0].is_quiet
            or self.restless
            or self.changed
            or self._header
            or self._mounted
        ):
            return False
        try:
            now = os.stat(self.path)
        except OSError:
            return False
        seen = self._seen
        self._seen = (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
        return seen == self._seen

    def _is_over(self, part: Part) -> bool:
        """Whether a drained part is done with: a file after it holds data, or it was deleted a while ago."""
        if part.gone:
            return True
        deleted = self.missing_since is not None and self._shop.clock() - self.missing_since > LATE_S
        if (since := self._unreadable.get(part.path)) is not None:
            if part.final and self._shop.clock() - since > LATE_S:
                self._gone(part, "cannot be read")  # what is written now must not wait for ever
            return part.gone
        if part.file is None:
            # Its descriptor was given back before it was deleted: nothing leads to it any more.
            if deleted and not part.final and not self.beside.find(part):
                self._gone(part)
            return part.gone
        if part.packed and part.final:
            return True
        if len(self.parts) > 1:
            after = self.parts[1]
            return after.final or after.size > 0
        return deleted and part.file.facts().links == 0

    def _finish(self, part: Part) -> Iterator[Chunk]:
        if not part.final:
            self._say("deleted", f"{self.path} was deleted; it is read to its end")
        self.parts.remove(part)
        self.changed = True
        done = self._finished(part)
        self.beside.finish(done)
        if part.file is None or part.packed or part.gone:
            self._shop.close(part)
        else:
            part.finished = True
            self._late.append((part, done, self._shop.clock() + LATE_S))
            for late, _, _ in self._late[:-MOST_LATE]:
                self._shop.close(late)
            del self._late[:-MOST_LATE]
        yield Chunk(self.stream, part.shown, part.offset, b"", part.line, ends=True)

    def _finished(self, part: Part) -> Finished:
        """What is to be remembered of a part."""
        identity, modified_ns = part.identity, part.modified_ns
        if part.packed_as is not None:
            identity, modified_ns = part.packed_as.identity, part.packed_as.modified_ns
        elif part.file is not None and not part.packed:
            facts = part.file.facts()
            modified_ns = facts.modified_ns if facts.size == part.offset else UNKNOWN_TIME
        if any(other.identity == identity for other in self.parts):
            identity = NOBODY  # truncated: the file goes on, and this is no longer in it
        return Finished(part.path, identity, part.mark_at(part.offset), part.line, modified_ns)

    def _drain(self, part: Part, budget: int) -> Generator[Chunk, None, int]:
        """Give out a part's bytes to its end; leaves `behind` set where the budget ended first."""
        if part.gone or part.is_quiet or not self._open(part):
            return budget
        self._look_before(part)
        if self.parts[0] is not part:
            return budget
        while budget > 0:
            bulk = self._is_large(part)
            data = self._next(part, BULK_BYTES if bulk else min(PIECE_BYTES, budget))
            if not data:
                return budget
            self.changed = True
            if data[0] == 0 and part.at_line_start:
                with suppress(Changed):  # truncated meanwhile: the next look finds out
                    self._skip_nuls(part)
                continue
            if bulk:
                whole = data.rfind(b"\n") + 1
                bulk, data = whole > 0, data[: whole or None]
            offset, line = part.offset, part.line
            part.advance(data)
            budget -= len(data)
            yield Chunk(self.stream, part.shown, offset, data, line, bulk=bulk)
        self.behind = part.packed or part.size > part.offset
        return budget

    def _next(self, part: Part, count: int) -> bytes:
        """A part's next bytes; none where it is drained, cannot be read or was truncated."""
        try:
            data = part.read(count)
        except Changed:
            if part.final:
                self._gone(part)
            else:
                self._rewritten(part)
            return b""
        except OSError as error:
            self._cannot_read(part.path, error)
            return b""
        self._unreadable.pop(part.path, None)
        if not data:
            self._damaged(part)
            if time.time_ns() - part.modified_ns > SETTLED_NS:  # a later write has a later time, then
                part.quiet_ns = part.modified_ns
        return data

    def _is_large(self, part: Part) -> bool:
        """Whether a part's next whole lines are for the bulk path."""
        bulk = self._shop.bulk_bytes
        return bulk is not None and not part.packed and part.size - part.offset >= bulk and part.at_line_start

    def _skip_nuls(self, part: Part) -> None:
        """Pass over NULs at the start of a line: a writer without O_APPEND leaves them after a truncation."""
        file = part.file
        assert file is not None
        first, end = part.offset, part.offset
        while True:
            end = max(end, file.data_from(end))
            data = file.read_at(end, PIECE_BYTES)
            rest = data.lstrip(b"\0")
            end += len(data) - len(rest)
            if rest or not data:
                break
        part.jump(end, 0)
        self._say(
            "skipped", f"{end - first} NUL bytes in {part.path} passed over", Level.WARNING, end - first
        )

    def _read_late(self) -> Iterator[Chunk]:
        """Whole lines that another process still wrote to a file rotated away and already finished."""
        for late in list(self._late):
            part, done, until = late
            if part.file is None:
                self._late.remove(late)
                continue
            if not self.at_line_start:
                continue
            try:
                data = part.read(PIECE_BYTES)
            except (Changed, OSError):
                data, until = b"", 0.0
            data = data[: data.rfind(b"\n") + 1]
            if data:
                offset, line = part.offset, part.line
                part.advance(data)
                done.mark, done.line = part.mark_at(part.offset), part.line
                done.modified_ns = UNKNOWN_TIME
                self._late[self._late.index(late)] = (part, done, self._shop.clock() + LATE_S)
                self.changed = True
                yield Chunk(self.stream, part.shown, offset, data, line)
            elif self._shop.clock() > until:
                self._shop.close(part)
                self._late.remove(late)

    # -- what is said and kept ----------------------------------------------------------------------------------

    def _note_lag(self) -> None:
        if not self.unread and not self.behind:
            self.behind_since = None
        elif self.behind_since is None:
            self.behind_since = self._shop.clock()

    def _damaged(self, part: Part) -> None:
        if isinstance(part.file, PackedFile) and part.file.damage:
            self._say("damaged", f"{part.path}: {part.file.damage}", Level.ERROR)

    def close(self) -> None:
        """Give all descriptors back."""
        for part in (*self.parts, *(late for late, _, _ in self._late)):
            self._shop.close(part)
        self._late.clear()

    def position(self, pending: int) -> dict[str, Any]:
        """Where to go on after a restart, as JSON-able values.

        Args:
            pending: Bytes given out that the reader has not used yet: an unfinished line.
        """
        self.changed = False
        part = self.parts[0] if self.parts else None
        saved = None
        if part is not None:
            if pending and part.file is None:
                self._open(part)
            saved = written(part, min(pending, part.offset))
        return {
            "path": self.path,
            "part": saved,
            "queue": [written(each) for each in self.parts[1:]],
            "finished": self.beside.dump(),
            "absent_ns": self.absent_ns,
        }

    @classmethod
    def restore(cls, shop: Shop, stream: str, saved: Mapping[str, Any], *, moved_host: bool) -> Lineage:
        """A lineage that goes on where `position` was taken."""
        lineage = cls(shop, stream, saved["path"])
        lineage.moved_host = moved_host
        lineage.absent_ns = saved.get("absent_ns", 0)
        lineage.beside.load(saved["finished"])
        if saved["part"] is not None:
            lineage.parts.append(part_of(saved["part"]))
            shop.known[lineage.parts[0].identity] = lineage
            lineage._queue_again(saved.get("queue", ()))
        for done in lineage.beside.finished[-MOST_LATE:]:
            lineage.reopen(done)
        return lineage

    def _queue_again(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Line up what waited to be read, up to the first that is not there any more.

        What was packed or removed meanwhile is looked for as what was rotated unseen is, and so are those after it.
        """
        before = self.parts[0]
        for each in saved:
            if not before.gone and not self.beside.find(before):
                break
            with suppress(OSError, Moved, Changed):  # tried again, and said, when it is to be read
                before.open()
                self._shop.opened(before)
            before = part_of(each)
            if not self.beside.find_by_identity(before):
                break
            self.parts.append(before)
            self._shop.known[before.identity] = self

    def reopen(self, done: Finished) -> None:
        """Look once more after a file that was finished before a restart: somebody may have gone on writing to it."""
        if done.mark is None or done.passed:
            return
        late = Part(
            done.path, done.identity, done.mark.offset, done.line, final=True, mark=done.mark, finished=True
        )
        with suppress(OSError, Moved, Changed):  # packed, removed or overwritten: what was there was read
            if self.beside.find_by_identity(late):
                late.open()
                self._shop.opened(late)
                self._late.append((late, done, self._shop.clock() + LATE_S))
