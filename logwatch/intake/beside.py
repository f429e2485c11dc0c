"""Level 3: the rotated, copied and compressed files beside a followed one: which is which, and what is still unread."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from logwatch.intake.identity import (
    ENOUGH_BYTES,
    Facts,
    Identity,
    Mark,
    facts_of,
)
from logwatch.intake.likeness import (
    COARSE_NS,
    age,
    asks,
    holds,
    is_backup,
    lines_differ,
    mark_at_end,
    may_become,
    name_age,
    repeats,
    same_time,
)
from logwatch.intake.names import is_packed_name, unpacked_name
from logwatch.intake.opened import PackedFile, PlainFile, open_log
from logwatch.intake.parts import Changed, Finished, Moved, Part
from logwatch.intake.shop import Shop
from logwatch.model import Level, Notice

if TYPE_CHECKING:
    from logwatch.intake.succession import Succession

MOST_FINISHED = 64
NOBODY = Identity(0, 0, 0)
UNKNOWN_TIME = 0


class Beside:
    """The files beside a lineage's name.

    Attributes:
        finished: Files read to their end or passed over, the newest last: those that still exist, and the last
            `MOST_FINISHED` and some more of those that do not.
    """

    def __init__(self, shop: Shop, lineage: Succession) -> None:
        self.finished: list[Finished] = []
        self._by_identity: dict[Identity, Finished] = {}
        self._most = 2 * MOST_FINISHED
        self._shop = shop
        self._lineage = lineage

    # -- finished files -----------------------------------------------------------------------------------------

    def finish(self, done: Finished) -> None:
        """Remember a file as done with."""
        self.finished.append(done)
        self._by_identity[done.identity] = done
        self._shop.known[done.identity] = self._lineage
        if len(self.finished) >= self._most:
            self._forget_old()

    def _forget_old(self) -> None:
        """Forget the oldest files that are no longer beside; as many as still are there must be remembered."""
        there = {facts.identity for _, facts in self._candidates()}
        old = [done for done in self.finished[:-MOST_FINISHED] if done.identity not in there]
        for done in old:
            self._by_identity.pop(done.identity, None)
            self._shop.known.pop(done.identity, None)
        gone = {id(done) for done in old}
        self.finished = [done for done in self.finished if id(done) not in gone]
        self._most = max(MOST_FINISHED, len(self.finished)) + MOST_FINISHED

    def pass_over(self, path: str, facts: Facts) -> None:
        """Never read a file: it is older than the following. Its end is marked, in case it is overwritten."""
        mark = None
        try:
            file = open_log(path)
        except OSError:
            file = None
        if file is not None:
            if isinstance(file, PlainFile):
                mark = mark_at_end(file, facts.size)
            file.close()
        self.finish(Finished(path, facts.identity, mark, modified_ns=facts.modified_ns, passed=True))

    def take_back(self, facts: Facts) -> Finished | None:
        """A file that was passed over as an old copy, but is written to: it is alive."""
        done = self.done_with(facts.identity)
        if done is None or not done.passed or done.mark is None or facts.size <= done.mark.offset:
            return None
        self.finished.remove(done)
        del self._by_identity[facts.identity]
        return done

    def done_with(self, identity: Identity) -> Finished | None:
        """What is remembered of a file that is done with."""
        return self._by_identity.get(identity)

    def is_unknown(self, path: str, facts: Facts) -> bool:
        """Whether nobody has read, reads or passed over this file; one overwritten since counts as unknown."""
        owner = self._shop.known.get(facts.identity)
        if owner is None:
            return True
        done = owner.beside.done_with(facts.identity)
        reading = any(part.identity == facts.identity for part in owner.parts)
        if done is None or reading or same_time(done.modified_ns, facts.modified_ns):
            return False
        if done.mark is not None and holds(path, done.mark) and not self._may_be_rewritten(path, done):
            done.modified_ns = facts.modified_ns
            return False
        del owner.beside._by_identity[facts.identity]  # noqa: SLF001  # of the same class
        done.identity = NOBODY  # its content may live on in a copy: the mark stays
        del self._shop.known[facts.identity]
        return True

    def _may_be_rewritten(self, path: str, done: Finished) -> bool:
        """Whether a file that was written since, yet holds the same and no more, may hold another generation.

        Lines that are all the same make generations alike; who appends makes a file longer.
        """
        assert done.mark is not None
        offset = done.mark.offset
        return done.modified_ns != UNKNOWN_TIME and not asks(path, lambda file: file.read_at(offset, 1))

    def dump(self) -> list[dict[str, Any]]:
        """The finished files as JSON-able values."""
        return [asdict(done) for done in self.finished]

    def load(self, saved: Iterable[Mapping[str, Any]]) -> None:
        """Take back what `dump` gave."""
        for item in saved:
            mark = Mark(**item["mark"]) if item["mark"] else None
            identity = Identity(**item["identity"])
            self.finish(
                Finished(item["path"], identity, mark, item["line"], item["modified_ns"], item["passed"])
            )

    # -- unread files -------------------------------------------------------------------------------------------

    def part(self, path: str, facts: Facts) -> Part:
        """A file to read from its start; opened at once, before it can lose its name."""
        made = Part(path, facts.identity, final=True, since_ns=facts.modified_ns)
        made.see(facts)
        self._shop.known[facts.identity] = self._lineage
        with suppress(OSError, Moved, Changed):  # tried again, and said, when it is to be read
            made.open()
            self._shop.opened(made)
        return made

    def find(self, old: Part) -> bool:
        """Learn the name that a file which lost its own has now; a packed copy stands in for it if it is gone."""
        if old.file is not None:
            old.see(old.file.facts())
            self.find_by_identity(old)
            return True
        if self.find_by_identity(old):
            return True
        if (copy := next(self.copies_of(old), None)) is not None:
            self.continue_in(old, *copy)
            return True
        return False

    def find_by_identity(self, old: Part) -> bool:
        """Learn a renamed file's name; False: it is not beside."""
        for path, facts in self._candidates():
            if facts.identity == old.identity:
                old.path = path
                old.see(facts)
                return True
        return False

    def copies_of(self, part: Part, *, moved: bool = True) -> Iterator[tuple[str, Facts]]:
        """Unknown files beside that hold what was read of a file, oldest first.

        If what was read has `moved` from where it was, the youngest of these files is taken for its copy, though a
        finished file may have held the same.
        """
        mark = part.mark_at(part.offset)
        copies = [
            (path, facts)
            for path, facts in self._candidates()
            if path != self._lineage.path
            and facts.modified_ns >= part.since_ns - COARSE_NS
            and self.is_unknown(path, facts)
            and self.is_copy(path, mark)
        ]
        certain = {copies[-1][0]} if moved and copies else set()
        certain |= {path for path, facts in copies if same_time(facts.modified_ns, part.modified_ns)}
        copies.sort(
            key=lambda copy: (
                not same_time(copy[1].modified_ns, part.modified_ns),
                not may_become(part.path, copy[0]),
            )
        )
        for path, facts in copies:
            if not self._is_read(path, facts, by_name=path not in certain):
                yield path, facts

    def continue_in(self, part: Part, path: str, facts: Facts) -> None:
        """Read the rest of a file in its copy."""
        part.path, part.identity, part.packed = path, facts.identity, is_packed_name(path)
        part.see(facts)
        self._shop.known[facts.identity] = self._lineage

    def is_copy(self, path: str, mark: Mark) -> bool:
        """Whether a file holds, up to the mark, what was read, and enough of it to tell."""
        enough = mark.window_bytes >= min(ENOUGH_BYTES, mark.offset) and mark.offset > 0
        return enough and holds(path, mark)

    def between(self, since_ns: int, apart_from: set[Identity], until_ns: int | None = None) -> list[Part]:
        """Files that came and went under the followed name: unknown ones, last written in a span of time."""
        found = []
        for path, facts in self._candidates():
            if path == self._lineage.path or facts.identity in apart_from:
                continue
            if facts.size == 0 or facts.modified_ns < since_ns - COARSE_NS * is_packed_name(path):
                continue
            if until_ns is not None and facts.modified_ns > until_ns:
                continue
            if self.is_unknown(path, facts) and not self.holds_nothing_new(path, facts):
                found.append(self.part(path, facts))
        return found

    def holds_nothing_new(self, path: str, facts: Facts) -> bool:
        """Whether an unknown file beside is a copy of what is read elsewhere.

        Lines that are all the same make files alike that are none: besides the content the time must tell, or the
        name and that the other file is gone.
        """
        if is_packed_name(path) and os.path.isfile(unpacked_name(path)):
            return True  # it is being packed
        return self._is_read(path, facts) or self._is_being_read(path, facts)

    def resembles(self, path: str, facts: Facts) -> bool:
        """Whether an unknown file beside has the content of one that is or was read; it stays unknown."""
        if is_packed_name(path) and os.path.isfile(unpacked_name(path)):
            return True
        return bool(self._alike(path)) or any(self._repeating(path, facts))

    def _alike(self, path: str) -> list[Finished]:
        """Finished files with the content of this one, those of the oldest names first."""
        alike = asks(
            path,
            lambda file: [
                done
                for done in reversed(self.finished)
                if (mark := done.mark)
                and mark.offset
                and mark.fits(file.read_at)
                and not file.read_at(mark.offset, 1)
            ],
        )
        return sorted(alike or [], key=lambda done: name_age(done.path))

    def _is_read(self, path: str, facts: Facts, *, by_name: bool = True) -> bool:
        """Whether an unknown file is a copy of one that was read to its end; it is noted as such.

        `by_name`: a finished file that is gone may live on in this one although its time is another.
        """
        alike = self._alike(path)
        if not alike:
            return False
        candidates = self._candidates()
        there = {each.identity for _, each in candidates}
        same = next((done for done in alike if same_time(done.modified_ns, facts.modified_ns)), None)
        if same is None:
            if by_name:
                self._read_others(path, candidates)
            for done in alike:
                if not may_become(done.path, path):
                    continue
                if done.identity in there:
                    return True  # it is being packed, or was copied: which of them goes on is seen later
                if by_name and done.path != path and done in self.finished:
                    same = done
                    self._say_if_doubtful(done, path)
                    break
        if same is None:
            return False
        if same.identity not in there:
            self._forget(same)  # a file lives on in one other at most
        self.finish(Finished(path, facts.identity, same.mark, same.line, facts.modified_ns))
        return True

    def _say_if_doubtful(self, done: Finished, path: str) -> None:
        """Name a file that is passed over although, of lines that are all the same, it may be another generation."""
        assert done.mark is not None
        if asks(path, partial(lines_differ, done.mark.offset)):
            return
        what = f"{path} is taken for {done.path}, which was read and is gone: it holds as many lines, all the same"
        doubt = f"its time is another, so these may be {done.mark.offset} bytes that were not read"
        self._shop.notify(
            Notice(
                "taken_by_name", f"{what}; {doubt}", Level.WARNING, self._lineage.stream, self._lineage.path
            )
        )

    def _read_others(self, but: str, candidates: Iterable[tuple[str, Facts]]) -> None:
        """Note all unknown files but one that are more surely copies of files that were read: by time, or packed."""
        for path, facts in candidates:
            if path not in {but, self._lineage.path} and facts.identity not in self._shop.known:
                self._is_read(path, facts, by_name=is_packed_name(path) and not is_packed_name(but))

    def _forget(self, done: Finished) -> None:
        self.finished = [each for each in self.finished if each is not done]
        if self._by_identity.get(done.identity) is done:
            del self._by_identity[done.identity]
            self._shop.known.pop(done.identity, None)

    def _repeating(self, path: str, facts: Facts) -> Iterator[tuple[Part, Facts]]:
        """Parts that are read and begin with this file's content, or are, packed, this file; and their facts now."""

        def is_repeated(original: PlainFile | PackedFile) -> Facts | None:
            if not isinstance(original, PlainFile) or not asks(path, partial(repeats, facts.size, original)):
                return None
            return original.facts()

        for part in self._lineage.parts:
            now = asks(part.path, is_repeated) if part.file is None else is_repeated(part.file)
            if now is not None and now.identity == part.identity:
                yield part, now

    def _is_being_read(self, path: str, facts: Facts) -> bool:
        """Whether an unknown file is a copy of one that is being read."""
        for part, now in self._repeating(path, facts):
            if is_packed_name(path):
                if (part.packed_as is None or part.packed_as.identity == facts.identity) and (
                    same_time(facts.modified_ns, now.modified_ns)
                    or (may_become(part.path, path) and self._is_nameless(part))
                ):
                    part.packed_as = facts
                    self._shop.known[facts.identity] = self._lineage
                    return True
            elif same_time(facts.modified_ns, now.modified_ns) or is_backup(part, now, path, facts):
                return True
        return False

    def _is_nameless(self, part: Part) -> bool:
        return all(facts.identity != part.identity for _, facts in self._candidates())

    def _candidates(self) -> list[tuple[str, Facts]]:
        """Files beside the followed name, and beside what it points to, that look rotated; oldest content first."""
        lineage = self._lineage
        places = dict.fromkeys(
            [lineage.path, os.path.realpath(lineage.path), *(p.path for p in lineage.parts)]
        )
        found: dict[Identity, tuple[str, Facts]] = {}
        for place in places:
            for path in (place, *self._shop.listings.siblings(place)):
                try:
                    facts = facts_of(path)
                except OSError:
                    continue
                if stat.S_ISREG(facts.mode):
                    found.setdefault(facts.identity, (path, facts))
                    if (done := self._by_identity.get(facts.identity)) is not None:
                        done.path = path
        return sorted(found.values(), key=lambda found: age(found[0], found[1].modified_ns))
