"""Level 3: endless byte sources: files, globs and directories, through rotation, truncation and restarts.

`Tail.read` gives `Chunk`s (and `Range`s of a large backlog); `Tail.positions` gives, as JSON text a stream, where to go
on, for the state file to commit together with what was made of the chunks. Events are hints: what to read is decided
by `stat` and the position.

Stream names: a source's `name`, else the file's name. A second file of that name gets the name of its directory added
(`server.log~node2`), or a number. A stream keeps its name over restarts. Rotated copies belong to the stream of the
file they came from, also where a glob matches them.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from typing import Any

from logwatch.intake.beside import Shop, age
from logwatch.intake.chunks import Chunk, Lag, Range, Source
from logwatch.intake.identity import Facts, facts_of
from logwatch.intake.journal import Journal
from logwatch.intake.lineage import Lineage
from logwatch.intake.names import (
    bases_of,
    covers,
    directories_of,
    expand,
    is_packed_name,
    is_pattern,
    mount_points,
)
from logwatch.intake.opened import PlainFile
from logwatch.intake.parts import Changed
from logwatch.intake.pipes import STANDARD_INPUT, Pipe, is_fifo
from logwatch.intake.saved import OVERVIEW, read_back
from logwatch.intake.wake import HandWaker, Hints
from logwatch.model import Level, Notice, Notify

__all__ = ["Chunk", "Lag", "Range", "Source", "Tail"]

FULL_SCAN_S = 10.0
RETIRE_S = 300.0


class Tail:
    """Follows sources. One thread owns it.

    Args:
        sources: What to follow.
        saved: What `positions` gave before the restart, by stream.
        notify: Told of rotations, truncations, losses and what cannot be read.
        waker: Gives hints of what changed; by default everything is looked at in every turn.
        clock: Monotonic seconds.
        bulk_bytes: A backlog of at least this many bytes in one file is given as `Range`s; None: never.
        held: Descriptors of logs that outlived the last life (see `descriptors`); they are this tail's from now on.

    Attributes:
        behind: Whether the last `read` left bytes for want of budget: read on without sleeping.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        saved: Mapping[str, str],
        notify: Notify,
        *,
        waker: Hints | None = None,
        clock: Callable[[], float] = time.monotonic,
        bulk_bytes: int | None = None,
        most_open: int = 64,
        held: Iterable[int] = (),
    ) -> None:
        self.behind = False
        self._waker: Hints = waker or HandWaker()
        self._notify, self._clock = notify, clock
        self._shop = Shop(notify, clock, bulk_bytes, most_open)
        self._feeds: dict[str, Lineage | Pipe | Journal] = {}
        self._endless: dict[str, Pipe | Journal] = {}
        self._by_path: dict[str, Lineage] = {}
        self._parked: dict[str, tuple[str, dict[str, Any]]] = {}
        self._restless: set[str] = set()
        self._moved: set[str] = set()
        self._retired: list[str] = []
        self._changed_parked: dict[str, str] = {}
        self._scanned = -1e18
        self._overview_changed = True
        overview, self._saved = read_back(saved, notify)
        self._seen: set[str] = set(overview.get("sources", ()))
        self._moved_host = overview.get("host", _host()) != _host()
        for stream, position in self._saved.items():
            if "part" in position:
                source = _source_of(position["path"], sources)
                if source is not None and _names(source, position["path"], stream):
                    self._add(Lineage.restore(self._shop, stream, position, moved_host=self._moved_host))
                else:
                    self._parked[os.path.abspath(position["path"])] = (stream, position)
        for descriptor in held:
            self._adopt(descriptor)
        self.sources: tuple[Source, ...] = ()
        self.reconfigure(sources)

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, budget_bytes: int = 1 << 20) -> Iterator[Chunk | Range]:
        """What is new, at most `budget_bytes` a file (a `Range` may be larger), files in turn.

        What was yielded counts as used once the next item is asked for, or `positions` is called.
        """
        hints = self._waker.changed()
        now = self._clock()
        everything = hints is None or now - self._scanned >= FULL_SCAN_S
        if everything or self._is_news(hints or set()):
            self._scan()
            self._scanned = now if everything else self._scanned
        self.behind = False
        for feed in self._due(None if everything else hints):
            yield from feed.turn(budget_bytes)
            self.behind = self.behind or feed.behind
            if feed.changed:
                self._moved.add(feed.stream)
            if isinstance(feed, Lineage) and feed.restless:
                self._restless.add(feed.stream)
            else:
                self._restless.discard(feed.stream)
        if everything:
            self._retire(now)

    def _is_news(self, hints: set[str]) -> bool:
        return any(path not in self._by_path for path in hints)

    def _due(self, hints: set[str] | None) -> list[Lineage | Pipe | Journal]:
        """Feeds to give a turn: all, or those that are pointed at, not done yet, or (in a quiet moment) open."""
        if hints is None:
            return list(self._feeds.values())
        due: dict[str, Lineage | Pipe | Journal] = dict(self._endless)
        due |= {stream: self._feeds[stream] for stream in self._restless if stream in self._feeds}
        for path in hints:
            if (lineage := self._by_path.get(path)) is not None:
                due[lineage.stream] = lineage
            else:  # a file beside: it may have been a followed one a moment ago
                near = os.path.dirname(path)
                for beside, lineage in self._by_path.items():
                    if os.path.dirname(beside) == near:
                        due[lineage.stream] = lineage
        if not hints:
            due |= {each.stream: each for each in self._lineages if each.is_open}
        return list(due.values())

    @property
    def _lineages(self) -> Iterator[Lineage]:
        return (feed for feed in self._feeds.values() if isinstance(feed, Lineage))

    # -- which files --------------------------------------------------------------------------------------------

    def reconfigure(self, sources: Sequence[Source]) -> None:
        """Follow other sources from now on; what stays keeps its position."""
        self.sources = tuple(sources)
        for stream, feed in list(self._feeds.items()):
            if isinstance(feed, Lineage):
                source = _source_of(feed.path, sources)
                if source is None or not _names(source, feed.path, stream):
                    self._park(feed)
            elif not any(_is_endless(source, feed) for source in sources):
                self._drop(stream)
        for source in sources:
            if source.journal:
                self._add_journal(source)
            elif source.path == STANDARD_INPUT or is_fifo(source.path):
                self._add_pipe(source)
        self._scanned = -1e18

    def _park(self, lineage: Lineage) -> None:
        """No source means this file any more, or it has another name: keep its position in case one will."""
        position = lineage.position(lineage.unfinished)
        self._parked[os.path.abspath(lineage.path)] = (lineage.stream, position)
        self._changed_parked[lineage.stream] = json.dumps(position)
        self._remove(lineage.stream)

    def _begin(self, source: Source, path: str) -> tuple[Lineage, bool]:
        """A lineage for a path, and whether it goes on where an earlier one was parked."""
        stream, position = self._parked.pop(os.path.abspath(path), ("", None))
        if position is None:
            lineage = Lineage(self._shop, self._name(source, path), path)
        else:
            name = stream if _names(source, path, stream) else self._name(source, path)
            if name != stream:
                self._retired.append(stream)
                self._changed_parked.pop(stream, None)
            lineage = Lineage.restore(self._shop, name, position, moved_host=self._moved_host)
        self._add(lineage)
        return lineage, position is not None

    def _add_journal(self, source: Source) -> None:
        if not any(isinstance(feed, Journal) and feed.unit == source.path for feed in self._feeds.values()):
            stream = self._name(source, source.path)
            self._feeds[stream] = self._endless[stream] = Journal(
                stream,
                source.path,
                self._saved.pop(stream, None),
                self._notify,
                start=source.start,
                clock=self._clock,
            )

    def _add_pipe(self, source: Source) -> None:
        if not any(isinstance(feed, Pipe) and feed.path == source.path for feed in self._feeds.values()):
            stream = self._name(source, source.path)
            self._feeds[stream] = self._endless[stream] = Pipe(stream, source.path, self._notify)

    def _scan(self) -> None:
        directories: set[str] = set()
        self._shop.mounts = mount_points()
        if self._shop.renamed:
            for lineage, path in self._shop.renamed.items():
                lineage.path = path
            self._shop.renamed.clear()
            lineages = [feed for feed in self._feeds.values() if isinstance(feed, Lineage)]
            self._by_path.clear()
            self._shop.lineages.clear()
            for lineage in lineages:
                self._add(lineage)
        for source in self.sources:
            if source.journal or source.path == STANDARD_INPUT:
                continue
            directories.update(directories_of(source.path))
            first = source.path not in self._seen
            self._scan_source(source, first=first)
            if first:
                self._seen.add(source.path)
                self._overview_changed = True
        directories.update(os.path.dirname(path) for path in self._by_path)
        self._waker.watch(path for path in directories if os.path.isdir(path))
        self._waker.listen(fd for feed in self._feeds.values() for fd in feed.descriptors)

    def _scan_source(self, source: Source, *, first: bool) -> None:
        paths = list(expand(source.path))
        if (
            not paths
            and not is_pattern(source.path)
            and not any(feed.path == source.path for feed in self._feeds.values())
        ):
            self._begin(source, source.path)
            return
        new = [path for path in paths if os.path.abspath(path) not in self._by_path]
        there = set(paths)
        late = []
        for path in new:
            directory, name = os.path.split(path)
            if is_fifo(path):
                self._add_pipe(Source(path, source.name))
                continue
            try:
                facts = facts_of(path)
            except OSError:
                continue
            if not stat.S_ISREG(facts.mode):
                continue
            if any(os.path.join(directory, base) in there for base in bases_of(name)):
                late.append((path, facts))
            elif facts.identity not in self._shop.known:
                self._discover(source, path, facts, first=first)
        for path, facts in sorted(late, key=lambda found: age(found[0], found[1].modified_ns)):
            self._discover_rotated(source, path, facts, first=first)

    def _discover(self, source: Source, path: str, facts: Facts, *, first: bool) -> None:
        lineage, goes_on = self._begin(source, path)
        if first and source.start == "end" and not goes_on:
            lineage.begin_at_end(facts)
        else:
            lineage.look()

    def _discover_rotated(self, source: Source, path: str, facts: Facts, *, first: bool) -> None:
        """A file that matches a source and looks like a rotated copy of another one there."""
        directory, name = os.path.split(os.path.abspath(path))
        bases = (self._shop.lineages.get(os.path.join(directory, each)) for each in bases_of(name))
        base = next((each for each in bases if each is not None), None)
        if base is None:
            if facts.identity not in self._shop.known:
                self._discover(source, path, facts, first=first)
            return
        if not first and base.beside.is_unknown(path, facts):
            base.check()  # a truncation or rotation that nobody saw yet explains most unknown copies
        if not base.beside.is_unknown(path, facts):
            if (alive := base.beside.take_back(facts)) is not None:
                lineage = Lineage(self._shop, self._name(source, path), path)
                lineage.go_on(alive, facts)
                self._add(lineage)
            return
        if first and source.start == "end":
            base.beside.pass_over(path, facts)
        elif first:
            base.put_before(path, facts)
        elif not base.beside.holds_nothing_new(path, facts) and not is_packed_name(name):
            self._discover(source, path, facts, first=False)

    def _add(self, lineage: Lineage) -> None:
        self._feeds[lineage.stream] = lineage
        self._shop.lineages[os.path.abspath(lineage.path)] = lineage
        self._by_path[os.path.abspath(lineage.path)] = lineage
        real = os.path.realpath(lineage.path)
        self._by_path.setdefault(real, lineage)

    def _name(self, source: Source, path: str) -> str:
        plain = source.name or ("stdin" if path == STANDARD_INPUT else os.path.basename(path))
        if plain not in self._feeds:
            return plain
        candidates = [f"{plain}~{os.path.basename(path)}"] if source.name else []
        candidates.append(f"{plain}~{os.path.basename(os.path.dirname(os.path.abspath(path)))}")
        for candidate in candidates:
            if candidate not in self._feeds:
                return candidate
        number = 2
        while f"{plain}~{number}" in self._feeds:
            number += 1
        return f"{plain}~{number}"

    def _retire(self, now: float) -> None:
        """Forget files of globs that were deleted a while ago."""
        fixed = {source.path for source in self.sources}
        for stream, feed in list(self._feeds.items()):
            if (
                isinstance(feed, Lineage)
                and feed.missing_since is not None
                and not feed.parts
                and feed.path not in fixed
                and now - feed.missing_since > RETIRE_S
            ):
                self._drop(stream)

    def _drop(self, stream: str) -> None:
        self._remove(stream)
        self._retired.append(stream)

    def _remove(self, stream: str) -> None:
        feed = self._feeds.pop(stream)
        self._endless.pop(stream, None)
        feed.close()
        if isinstance(feed, Lineage):
            self._by_path = {path: other for path, other in self._by_path.items() if other is not feed}
            self._shop.lineages.pop(os.path.abspath(feed.path), None)
            self._shop.known = {who: other for who, other in self._shop.known.items() if other is not feed}

    # -- what is kept and told ----------------------------------------------------------------------------------

    def positions(self, pending: Callable[[str], int]) -> dict[str, str | None]:
        """Where to go on, as JSON text, for each stream whose position moved since the last call.

        Args:
            pending: Bytes of a stream that were given out but not used yet (its unfinished line).

        Returns:
            By stream; None where a stream is gone for good and its position is to be forgotten.
        """
        self._moved.clear()
        found: dict[str, str | None] = dict.fromkeys(self._retired)
        self._retired.clear()
        found |= self._changed_parked
        self._changed_parked.clear()
        for stream, feed in self._feeds.items():
            if feed.changed:
                found[stream] = json.dumps(feed.position(pending(stream)))
        if self._overview_changed:
            self._overview_changed = False
            found[OVERVIEW] = json.dumps({"sources": sorted(self._seen), "host": _host()})
        return found

    def forget_commit(self) -> None:
        """The last `positions` were not committed after all: give them all again next time."""
        self._overview_changed = True
        for feed in self._feeds.values():
            feed.changed = True

    def lag(self) -> dict[str, Lag]:
        """How far each stream is behind."""
        now = self._clock()
        return {
            stream: Lag(feed.unread, now - feed.behind_since if feed.behind_since is not None else 0.0)
            for stream, feed in self._feeds.items()
        }

    @property
    def changed(self) -> bool:
        """Whether there are positions that were not asked for yet."""
        return bool(self._retired or self._changed_parked or self._moved or self._overview_changed)

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of all streams."""
        return tuple(self._feeds)

    @property
    def open_files(self) -> int:
        """Files that hold a descriptor."""
        return len(self._shop.open_parts)

    def descriptors(self) -> dict[str, int]:
        """Descriptors of plain files that are being read, by names that do not change while they are.

        A file keeps its bytes as long as somebody holds it open: what a service manager keeps over a restart can
        be read to its end although it was deleted meanwhile.
        """
        return {
            f"log-{part.identity.device}-{part.identity.inode}": part.file.descriptor
            for part in self._shop.open_parts.values()
            if isinstance(part.file, PlainFile)
        }

    def _adopt(self, descriptor: int) -> None:
        """Go on in a held file if a lineage was in it; else it is of no use any more."""
        try:
            facts = facts_of(descriptor)
            owner = self._shop.known.get(facts.identity)
            parts = owner.parts if owner is not None else []
            part = next((part for part in parts if part.identity == facts.identity), None)
            if part is not None and part.file is None and not part.packed:
                file = PlainFile(f"/proc/self/fd/{descriptor}")
                try:
                    part.adopt(file)
                except Changed:
                    file.close()
                else:
                    part.see(facts)
                    self._shop.opened(part)
        except OSError as error:
            message = f"a log that was kept open over the restart cannot be read: {error}"
            self._notify(Notice("held_unreadable", message, Level.WARNING))
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Give back every descriptor and child."""
        for feed in self._feeds.values():
            feed.close()


def _source_of(path: str, sources: Iterable[Source]) -> Source | None:
    """The first source that means a path."""
    return next((source for source in sources if not source.journal and covers(source.path, path)), None)


def _names(source: Source, path: str, stream: str) -> bool:
    """Whether a source would give a path this stream's name."""
    name = source.name or os.path.basename(path)
    return stream == name or stream.startswith(f"{name}~")


def _is_endless(source: Source, feed: Pipe | Journal) -> bool:
    if isinstance(feed, Journal):
        return source.journal and feed.unit == source.path
    return not source.journal and covers(source.path, feed.path)


def _host() -> str:
    try:
        with open("/etc/machine-id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return os.uname().nodename
