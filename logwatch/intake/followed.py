"""Level 3: which files the sources mean: found, named, put aside when no source means them, and forgotten.

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
from pathlib import Path
from typing import Any

from logwatch.intake.chunks import Source
from logwatch.intake.identity import Facts, facts_of
from logwatch.intake.journal import Journal
from logwatch.intake.likeness import age
from logwatch.intake.lineage import LATE_S, Lineage
from logwatch.intake.names import (
    bases_of,
    covers,
    directories_of,
    expand,
    is_packed_name,
    is_pattern,
    mount_points,
    readable,
)
from logwatch.intake.pipes import STANDARD_INPUT, Pipe, is_fifo
from logwatch.intake.saved import read_back
from logwatch.intake.shop import Shop
from logwatch.model import Notify

RETIRE_S = 300.0


class Followed:
    """What is followed, by stream.

    Args:
        shop: What all lineages share.
        saved: Positions of an earlier life, by stream.

    Attributes:
        feeds: All of them, by stream.
        endless: Those that cannot be read twice, by stream.
        by_path: Lineages by absolute path of the name that they follow, and of the file that it leads to.
        retired: Streams that are gone for good since this was last cleared.
        changed_parked: Positions, as JSON text, of streams put aside since this was last cleared.
        overview_changed: Whether `overview` differs from what was last asked for.
    """

    def __init__(self, shop: Shop, sources: Sequence[Source], saved: Mapping[str, str]) -> None:
        self.shop = shop
        self.feeds: dict[str, Lineage | Pipe | Journal] = {}
        self.endless: dict[str, Pipe | Journal] = {}
        self.by_path: dict[str, Lineage] = {}
        self.retired: list[str] = []
        self.changed_parked: dict[str, str] = {}
        self.overview_changed = True
        self.sources: tuple[Source, ...] = ()
        self._notify: Notify = shop.notify
        self._clock: Callable[[], float] = shop.clock
        self._parked: dict[str, tuple[str, dict[str, Any]]] = {}
        overview, self._saved = read_back(saved, shop.notify)
        self._seen: set[str] = set(overview.get("sources", ()))
        self._looked_ns: int = overview.get("looked_ns", 0)
        self._moved_host = overview.get("host", _host()) != _host()
        for stream, position in self._saved.items():
            if "part" in position:
                source = _source_of(position["path"], sources)
                if source is not None and _names(source, position["path"], stream):
                    self._add(Lineage.restore(shop, stream, position, moved_host=self._moved_host))
                else:
                    self._parked[os.path.abspath(position["path"])] = (stream, position)

    @property
    def lineages(self) -> Iterator[Lineage]:
        """Those that follow files."""
        return (feed for feed in self.feeds.values() if isinstance(feed, Lineage))

    def overview(self) -> str:
        """Which sources were seen before, when files were last looked for, and on which host, as JSON text."""
        return json.dumps({"sources": sorted(self._seen), "host": _host(), "looked_ns": self._looked_ns})

    def reconfigure(self, sources: Sequence[Source]) -> None:
        """Follow other sources from now on; what stays keeps its position."""
        self.sources = tuple(sources)
        for stream, feed in list(self.feeds.items()):
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

    def _park(self, lineage: Lineage) -> None:
        """No source means this file any more, or it has another name: keep its position in case one will."""
        position = lineage.position(lineage.unfinished)
        self._parked[os.path.abspath(lineage.path)] = (lineage.stream, position)
        self.changed_parked[lineage.stream] = json.dumps(position)
        self._remove(lineage.stream)

    def is_parked(self, stream: str) -> bool:
        """Whether a stream's position is kept though no source means it."""
        return any(stream == parked for parked, _ in self._parked.values())

    def _begin(self, source: Source, path: str) -> tuple[Lineage, bool]:
        """A lineage for a path, and whether it goes on where an earlier one was parked."""
        stream, position = self._parked.pop(os.path.abspath(path), ("", None))
        if position is None:
            lineage = Lineage(self.shop, self._name(source, path), path)
        else:
            name = stream if _names(source, path, stream) else self._name(source, path)
            if name != stream:
                self.retired.append(stream)
                self.changed_parked.pop(stream, None)
            lineage = Lineage.restore(self.shop, name, position, moved_host=self._moved_host)
        self._add(lineage)
        return lineage, position is not None

    def _add_journal(self, source: Source) -> None:
        if not any(isinstance(feed, Journal) and feed.unit == source.path for feed in self.feeds.values()):
            stream = self._name(source, source.path)
            self.feeds[stream] = self.endless[stream] = Journal(
                stream,
                source.path,
                self._saved.pop(stream, None),
                self._notify,
                start=source.start,
                clock=self._clock,
            )

    def _add_pipe(self, source: Source) -> None:
        if not any(isinstance(feed, Pipe) and feed.path == source.path for feed in self.feeds.values()):
            stream = self._name(source, source.path)
            self.feeds[stream] = self.endless[stream] = Pipe(stream, source.path, self._notify)

    def scan(self) -> set[str]:
        """Look for files that came, and begin to follow them; the directories in which more may come."""
        directories: set[str] = set()
        began_ns = time.time_ns()
        self.shop.mounts = mount_points()
        if self.shop.renamed:
            self._rename()
        for source in self.sources:
            if source.journal or source.path == STANDARD_INPUT:
                continue
            directories.update(directories_of(source.path))
            first = source.path not in self._seen
            self._scan_source(source, first=first)
            if first:
                self._seen.add(source.path)
                self.overview_changed = True
        self._looked_ns = began_ns
        directories.update(os.path.dirname(path) for path in self.by_path)
        return {path for path in directories if os.path.isdir(path)}

    def _rename(self) -> None:
        """Lineages whose files exchanged names follow the names that their files have now."""
        for lineage, path in self.shop.renamed.items():
            lineage.path = path
        self.shop.renamed.clear()
        self.by_path.clear()
        self.shop.lineages.clear()
        for lineage in list(self.lineages):
            self._add(lineage)

    def _scan_source(self, source: Source, *, first: bool) -> None:
        paths = list(expand(source.path))
        waiting = self.by_path.get(os.path.abspath(source.path))
        if waiting is not None and not waiting.unread and is_fifo(source.path):
            self._drop(waiting.stream)
        if (
            not paths
            and not is_pattern(source.path)
            and not any(feed.path == source.path for feed in self.feeds.values())
        ):
            self._begin(source, source.path)
            return
        new = [path for path in paths if os.path.abspath(path) not in self.by_path]
        there = set(paths)
        late = []
        for path in new:
            directory, name = os.path.split(path)
            if is_fifo(path):
                self._add_pipe(Source(path, source.name))
            elif (facts := _regular(path)) is None:
                continue
            elif any(self._is_base(os.path.join(directory, base), there) for base in bases_of(name)):
                late.append((path, facts))
            elif facts.identity not in self.shop.known:
                self._discover(source, path, facts, first=first)
        for path, facts in sorted(late, key=lambda found: age(found[0], found[1].modified_ns)):
            self._discover_rotated(source, path, facts, first=first)

    def _is_base(self, path: str, there: set[str]) -> bool:
        """Whether a file of this name may have been rotated: it is there, or it is followed and will come again."""
        return path in there or os.path.abspath(path) in self.shop.lineages

    def _discover(self, source: Source, path: str, facts: Facts, *, first: bool) -> None:
        lineage, goes_on = self._begin(source, path)
        if first and source.start == "end" and not goes_on:
            lineage.begin_at_end(facts)
            return
        if not first and not goes_on:
            lineage.absent_ns = self._looked_ns
        lineage.look()

    def _discover_rotated(self, source: Source, path: str, facts: Facts, *, first: bool) -> None:
        """A file that matches a source and looks like a rotated copy of another one there."""
        directory, name = os.path.split(os.path.abspath(path))
        bases = (self.shop.lineages.get(os.path.join(directory, each)) for each in bases_of(name))
        base = next((each for each in bases if each is not None), None)
        if base is None:
            if facts.identity not in self.shop.known:
                self._discover(source, path, facts, first=first)
            return
        if not first and base.beside.is_unknown(path, facts):
            base.check()  # a truncation or rotation that nobody saw yet explains most unknown copies
        if not base.beside.is_unknown(path, facts):
            if (alive := base.beside.take_back(facts)) is not None:
                lineage = Lineage(self.shop, self._name(source, path), path)
                lineage.go_on(alive, facts)
                self._add(lineage)
            return
        if first and source.start == "end":
            base.beside.pass_over(path, facts)
        elif first:
            base.put_before(path, facts)
        elif base.missing_since is not None and self._clock() - base.missing_since < LATE_S:
            return  # rotated a moment ago: it is read before the log that comes next
        elif facts.size and not base.beside.resembles(path, facts) and not is_packed_name(name):
            self._discover(source, path, facts, first=False)

    def _add(self, lineage: Lineage) -> None:
        self.feeds[lineage.stream] = lineage
        self.shop.lineages[os.path.abspath(lineage.path)] = lineage
        self.by_path[os.path.abspath(lineage.path)] = lineage
        real = os.path.realpath(lineage.path)
        self.by_path.setdefault(real, lineage)

    def _name(self, source: Source, path: str) -> str:
        plain = source.name or ("stdin" if path == STANDARD_INPUT else readable(os.path.basename(path)))
        taken = self.feeds.keys() | {stream for stream, _ in self._parked.values()}
        if plain not in taken:
            return plain
        directory, name = os.path.split(readable(os.path.abspath(path)))
        candidates = [f"{plain}~{name}"] if source.name else []
        candidates.append(f"{plain}~{os.path.basename(directory)}")
        for candidate in candidates:
            if candidate not in taken:
                return candidate
        number = 2
        while f"{plain}~{number}" in taken:
            number += 1
        return f"{plain}~{number}"

    def retire(self, now: float) -> None:
        """Forget files of globs that were deleted a while ago."""
        fixed = {source.path for source in self.sources}
        for stream, feed in list(self.feeds.items()):
            if (
                isinstance(feed, Lineage)
                and feed.missing_since is not None
                and not feed.parts
                and feed.path not in fixed
                and now - feed.missing_since > RETIRE_S
                # As long as rotated copies lie there, it must be remembered that they were read.
                and next(self.shop.listings.siblings(feed.path), None) is None
            ):
                self._drop(stream)

    def _drop(self, stream: str) -> None:
        self._remove(stream)
        self.retired.append(stream)

    def _remove(self, stream: str) -> None:
        feed = self.feeds.pop(stream)
        self.endless.pop(stream, None)
        feed.close()
        if isinstance(feed, Lineage):
            self.by_path = {path: other for path, other in self.by_path.items() if other is not feed}
            self.shop.lineages.pop(os.path.abspath(feed.path), None)
            self.shop.known = {who: other for who, other in self.shop.known.items() if other is not feed}


def _source_of(path: str, sources: Iterable[Source]) -> Source | None:
    """The first source that means a path."""
    return next((source for source in sources if not source.journal and covers(source.path, path)), None)


def _names(source: Source, path: str, stream: str) -> bool:
    """Whether a source would give a path this stream's name."""
    name = source.name or readable(os.path.basename(path))
    return stream == name or stream.startswith(f"{name}~")


def _is_endless(source: Source, feed: Pipe | Journal) -> bool:
    if isinstance(feed, Journal):
        return source.journal and feed.unit == source.path
    return not source.journal and covers(source.path, feed.path)


def _host() -> str:
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        return os.uname().nodename


def _regular(path: str) -> Facts | None:
    """Facts of a regular file; None where there is none."""
    try:
        facts = facts_of(path)
    except OSError:
        return None
    return facts if stat.S_ISREG(facts.mode) else None
