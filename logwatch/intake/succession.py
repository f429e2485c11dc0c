"""Level 3: which files a stream consists of, and in which order: rotations, truncations, switched links.

A stream is followed by its file's name. When the name means another file than before, the one before is finished
first; what was rotated away in between is found beside it and comes in between; when a file was truncated, what was
not read yet is looked for in its copy. In doubt a file is read rather than passed over.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress

from logwatch.intake.beside import Beside
from logwatch.intake.header import last_header
from logwatch.intake.identity import ENOUGH_BYTES, Facts, facts_of
from logwatch.intake.likeness import age
from logwatch.intake.parts import Changed, Finished, Moved, Part
from logwatch.intake.shop import Shop
from logwatch.model import Level, Notice

IDLE_S = 600.0
PIECE_BYTES = 1 << 18
TICK_NS = 20_000_000
"""Times of files are this coarse at most."""


class Succession:
    """One stream's files, one after the other.

    Args:
        stream: Its name.
        path: The name that is followed.

    Attributes:
        parts: Files to read, in order; the last is the live one unless it is `final`.
        changed: Whether the position moved since it was last asked for.
        missing_since: When the followed name was first found to mean nothing; None while it means a file.
        absent_ns: Unix time of the last look that found nothing there: what was written since is new. 0: no such look.
        moved_host: The position was kept on another host, so that identities mean nothing.
    """

    def __init__(self, shop: Shop, stream: str, path: str) -> None:
        self.stream, self.path = stream, path
        self.parts: list[Part] = []
        self.beside = Beside(shop, self)
        self.changed = True
        self.moved_host = False
        self.missing_since: float | None = None
        self.absent_ns = 0
        self._shop = shop
        self._unreadable: dict[str, float] = {}
        self._header: tuple[int, bytes] | None = None
        self._flush = False
        self._end: tuple[Part, int] | None = None
        self._grown = (-1, 0.0)
        self._mounted = self._stopped_said = False

    # -- beginning ----------------------------------------------------------------------------------------------

    def begin_at_end(self, facts: Facts) -> None:
        """Take the existing file from its end: from the start of its unfinished line, if it has one."""
        part = self._live(facts)
        self._end = (part, facts.size)
        if self._open(part) and part.packed:
            self._shop.close(part)
            self.parts.remove(part)
            self.beside.finish(Finished(part.path, facts.identity, modified_ns=facts.modified_ns))

    def _pass_to(self, part: Part, end: int) -> None:
        """Pass over what stood in a file when it was first seen; perhaps it could not be opened before."""
        file = part.file
        assert file is not None
        start = max(0, end - PIECE_BYTES)
        newline = file.read_at(start, end - start).rfind(b"\n")
        offset = start + newline + 1 if newline >= 0 else (0 if start == 0 else end)
        self._header = last_header(file.read_at, offset)
        part.jump(offset, 0)

    def go_on(self, done: Finished, facts: Facts) -> None:
        """Take a file from where another lineage passed it over."""
        assert done.mark is not None
        part = self._live(facts)
        part.offset, part.mark = done.mark.offset, done.mark

    def put_before(self, path: str, facts: Facts) -> None:
        """Read a rotated copy that exists at the first start before what is already to be read."""
        part = self.beside.part(path, facts)
        at = sum(other.final for other in self.parts)
        self.parts.insert(at, part)

    # -- what the name means now --------------------------------------------------------------------------------

    def look(self) -> None:
        """Compare the name with the files known and note rotations and truncations."""
        asked_ns = time.time_ns()
        try:
            facts = facts_of(self.path)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                self.absent_ns = asked_ns
                self._miss()
            else:
                self._cannot_read(self.path, error)
            return
        if not stat.S_ISREG(facts.mode):
            self._miss()  # a directory, FIFO or socket has the name
            return
        was_missing, self.missing_since = self.missing_since is not None, None
        live = self.parts[-1] if self.parts and not self.parts[-1].final else None
        if live is None:
            self._arrive(facts)
        elif facts.identity == live.identity:
            if was_missing:
                live.nameless = False
                live.path = os.path.realpath(self.path) if os.path.islink(self.path) else self.path
            self._look_at_size(live, facts)
        elif self._shop.known.get(facts.identity) in {None, self}:
            self._rotated(live, facts)
        else:
            self._follow_renamed(live)

    def _look_at_size(self, live: Part, facts: Facts) -> None:
        """A file only grows: one that became smaller was truncated."""
        shrunk = not live.packed and facts.size < max(live.size, live.offset)
        before, before_ns = live.size, live.modified_ns
        live.see(facts)
        if shrunk:
            self._truncated(live, before, "size")
        elif not facts.size and facts.modified_ns != before_ns:
            self._look_before(live)  # written and emptied again between two looks
        if live.offset != self._grown[0]:
            self._grown = (live.offset, self._shop.clock())
        if self._mounted:
            self._watch_mount(facts)

    def _follow_renamed(self, live: Part) -> None:
        """Names were exchanged among followed files: each goes on with its own."""
        for lineage in list(self._shop.lineages.values()):
            try:
                facts = facts_of(lineage.path)
            except OSError:
                continue
            if facts.identity == live.identity:
                self._shop.renamed[self] = lineage.path
                live.path = lineage.path
                live.see(facts)
                return

    def _watch_mount(self, facts: Facts) -> None:
        idle = self._shop.clock() - self._grown[1] > IDLE_S
        if (facts.links == 0 or idle) and not self._stopped_said:
            self._stopped_said = True
            self._say(
                "stopped_growing",
                f"{self.path} stopped growing; it is mounted as a single file, and was probably rotated outside",
                Level.WARNING,
            )

    def check(self) -> None:
        """Look, and make sure that the live file still holds what was read of it."""
        self.look()
        if self.parts and not self.parts[-1].final:
            self._verify(self.parts[-1])

    def _verify(self, live: Part) -> None:
        if live.packed or not self._open(live):
            return
        try:
            live.read(1)
        except Changed:
            self._rewritten(live)
        except OSError as error:
            self._cannot_read(live.path, error)
        else:
            self._look_before(live)

    def _look_before(self, live: Part) -> None:
        """Look for truncations that the little that was read so far cannot show, by the copies that they left."""
        if live.final or live.offset >= ENOUGH_BYTES:
            return
        if live.offset:
            # So few bytes may begin any file: only one that is older than this one's last bytes can be its copy.
            limit = age(live.path, live.modified_ns)
            for path, facts in self.beside.copies_of(live, moved=False):
                if age(path, facts.modified_ns) < limit and not self.beside.holds_nothing_new(path, facts):
                    self._rewritten(live)
                    break
            return
        at = self.parts.index(live)
        self.parts[at:at] = self.beside.between(live.since_ns, {live.identity}, until_ns=live.modified_ns)

    def _rewritten(self, live: Part) -> None:
        assert live.file is not None
        before = live.size
        live.see(live.file.facts())
        self._truncated(live, before, "content")

    def _arrive(self, facts: Facts) -> None:
        done = self.beside.done_with(facts.identity)
        if done is not None and not self.beside.is_unknown(self.path, facts):
            return
        if self.parts:
            self._succeed(self.parts[-1], facts)
            return
        live = self._live(facts)
        if self.absent_ns:
            # A file may have come and been rotated away since, between two looks or around a kill.
            self.parts[:0] = self.beside.between(self.absent_ns - TICK_NS, {live.identity})
            self.absent_ns = 0

    def _succeed(self, old: Part, facts: Facts) -> int:
        """Follow the file that has the name now, after the one that lost it; how many came between.

        Raises:
            OSError: What is beside cannot be looked at: nothing has changed.
        """
        live = self._live(facts)
        try:
            return self._line_up(old, live)
        except OSError:
            self._shop.close(live)
            self.parts.remove(live)
            self._shop.known.pop(live.identity, None)
            raise

    def _line_up(self, old: Part, live: Part) -> int:
        old.nameless = True
        was, seen_ns = old.identity, old.modified_ns
        found = self.beside.find(old)
        if found:
            self._verify(old)  # it may have been truncated before it was renamed
            old = self.parts[self.parts.index(live) - 1]
        old.final = True
        since_ns = old.modified_ns if old.identity == was else seen_ns  # a copy may have a time of its own
        between = self.beside.between(since_ns, {live.identity, old.identity})
        if not found:
            if old.offset == 0 and between:
                old.size = 0  # nothing was read of it, so its copy is among those in between
            self._gone(old)
        at = self.parts.index(live)
        self.parts[at:at] = between
        return len(between)

    def _live(self, facts: Facts) -> Part:
        part = self.beside.part(self.path, facts)
        part.final = False
        if os.path.islink(self.path):
            # The link may point elsewhere by the time that the file is looked for.
            part.path = os.path.realpath(self.path)
        self.parts.append(part)
        self.changed = True
        self._mounted = os.path.abspath(self.path) in self._shop.mounts
        if self._mounted:
            self._say(
                "bind_mounted",
                f"{self.path} is mounted as a single file and keeps the old file when it is rotated outside; "
                "mount its directory instead",
                Level.WARNING,
            )
        return part

    def _miss(self) -> None:
        if self.missing_since is None:
            self.missing_since = self._shop.clock()
            if self.parts and not self.parts[-1].final:
                live = self.parts[-1]
                live.nameless = True
                if self.beside.find(live):
                    live.final = live.packed

    def _rotated(self, old: Part, facts: Facts) -> None:
        if old.file is None and not self.beside.find_by_identity(old) and self._is_moved(old, facts):
            old.identity, old.path = facts.identity, self.path
            old.see(facts)
            self._shop.known[facts.identity] = self
            return
        count = self._succeed(old, facts)
        self._say("rotated", f"{self.path} was rotated; {1 + count} file(s) to finish first")

    def _is_moved(self, old: Part, facts: Facts) -> bool:
        """Whether state and logs came here from another host or file system: then only the content tells."""
        elsewhere = self.moved_host or facts.identity.device != old.identity.device
        return elsewhere and old.mark is not None and self.beside.is_copy(self.path, old.mark)

    def _gone(self, part: Part, why: str = "is gone") -> None:
        part.gone = True
        lost = 0 if part.packed else max(0, part.size - part.offset)
        if lost:
            self._lost(lost, f"{part.path} {why}, and with it {lost} bytes that were not read")
        part.size = part.offset

    def _truncated(self, part: Part, size_before: int, how: str) -> None:
        """The live file lost what we had read of it: finish in its copy, then read it from its start."""
        self.changed = True
        mark = part.mark_at(part.offset)
        copy = next(self.beside.copies_of(part), None)
        if copy is None and (kept := part.kept_after_truncation(part.size)) is not None:
            self._say(f"truncated_by_{how}", f"{part.path} was cut back to byte {kept}", Level.WARNING)
            part.cut_back(kept)
            self._flush = True
            return
        if copy is None and self._go_back(part):
            return
        rest = Part(
            part.path, part.identity, part.offset, part.line, part.offset, part.modified_ns, mark=mark
        )
        rest.shown = part.shown
        rest.final, rest.gone = True, copy is None
        if copy is not None:
            self.beside.continue_in(rest, *copy)
        fresh = Part(part.path, part.identity, size=part.size, modified_ns=part.modified_ns)
        fresh.since_ns, fresh.shown, fresh.nameless = part.since_ns, part.shown, part.nameless
        between = self.beside.between(part.since_ns, {part.identity}, until_ns=part.modified_ns)
        if (file := part.release()) is not None:  # the descriptor goes on: the file may have lost its name
            fresh.adopt(file)
        else:
            with suppress(OSError, Moved, Changed):  # tried again, and said, when it is to be read
                fresh.open()
        self._shop.opened(fresh)
        at = self.parts.index(part)
        self.parts[at : at + 1] = [*([rest] if part.offset else []), *between, fresh]
        unread = max(0, size_before - part.offset)
        if unread and copy is None and not (between and not part.offset):
            self._lost(unread, f"{part.path} was truncated before {unread} bytes of it were read")
        self._say(f"truncated_by_{how}", f"{part.path} was truncated; read anew from its start")

    def _go_back(self, part: Part) -> bool:
        """Read on where a file that lost its end, in a power cut say, still holds what was read."""
        before = part.offset
        with suppress(OSError, Changed):
            if part.go_back():
                self._shop.opened(part)
                self._flush = True
                message = f"{part.path} lost its end, at most {before - part.offset} bytes that were read"
                self._say("truncated_by_cut", f"{message}: read again from byte {part.offset}", Level.WARNING)
                return True
        return False

    # -- helpers ------------------------------------------------------------------------------------------------

    def _open(self, part: Part, *, again: bool = True) -> bool:
        was_open = part.file is not None
        try:
            part.open()
        except Changed:
            if part.final:
                self._gone(part)
            else:
                self._truncated(part, part.size, "content")
            return False
        except (Moved, FileNotFoundError):
            if part.final and not self.beside.find(part):
                self._gone(part)
            elif part.final and again:
                return self._open(part, again=False)
            return False
        except OSError as error:
            self._cannot_read(part.path, error)
            return False
        self._shop.opened(part)
        if not was_open:
            self._unreadable.pop(part.path, None)
        if self._end is not None and self._end[0] is part and not part.packed:
            with suppress(Changed):  # truncated meanwhile: seen at the next look
                self._pass_to(*self._end)
            self._end = None
        return True

    def _say(self, kind: str, message: str, level: Level = Level.INFO, count: int = 0) -> None:
        self._shop.notify(Notice(kind, message, level, self.stream, self.path, count))

    def _lost(self, count: int, message: str) -> None:
        self._say("lost", message, Level.ERROR, count)

    def _cannot_read(self, path: str, error: OSError) -> None:
        if path not in self._unreadable:
            self._unreadable[path] = self._shop.clock()
            self._say("unreadable", f"{path} cannot be read ({error.strerror}); tried again", Level.WARNING)
