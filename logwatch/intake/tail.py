"""Level 3: endless byte sources: files, globs and directories, through rotation, truncation and restarts.

`Tail.read` gives `Chunk`s; `Tail.positions` gives, as JSON text a stream, where to go on, for the state file to commit
together with what was made of the chunks. Events are hints: what to read is decided by `stat` and the position.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from logwatch.intake.chunks import Chunk, Lag, Source
from logwatch.intake.followed import Followed
from logwatch.intake.identity import facts_of
from logwatch.intake.journal import Journal
from logwatch.intake.lineage import Lineage
from logwatch.intake.names import readable
from logwatch.intake.opened import PlainFile
from logwatch.intake.parts import Changed
from logwatch.intake.pipes import Pipe
from logwatch.intake.saved import OVERVIEW
from logwatch.intake.shop import Shop
from logwatch.intake.wake import HandWaker, Hints
from logwatch.model import Level, Notice, Notify

__all__ = ["Chunk", "Lag", "Source", "Tail"]

FULL_SCAN_S = 10.0
NO_LAG = Lag(0, 0.0)
RETIRE_S = 300.0


class Tail:
    """Follows sources. One thread owns it.

    Args:
        sources: What to follow.
        saved: What `positions` gave before the restart, by stream.
        notify: Told of rotations, truncations, losses and what cannot be read.
        waker: Gives hints of what changed; by default everything is looked at in every turn.
        clock: Monotonic seconds.
        bulk_bytes: A backlog of at least this many bytes in one file is given for the bulk path; None: never.
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
        self._tell, self._clock = notify, clock
        self._shop = Shop(self._notify, clock, bulk_bytes, most_open)
        self._followed = Followed(self._shop, sources, saved)
        self._restless: set[str] = set()
        self._moved: set[str] = set()
        self._lagging: set[str] = set()
        self._scanned = -1e18
        for descriptor in held:
            self._adopt(descriptor)
        self.reconfigure(sources)

    def _notify(self, notice: Notice) -> None:
        path = None if notice.path is None else readable(notice.path)
        self._tell(replace(notice, message=readable(notice.message), path=path))

    def reconfigure(self, sources: Sequence[Source]) -> None:
        """Follow other sources from now on; what stays keeps its position, and so does what comes back."""
        self._followed.reconfigure(sources)
        self._scanned = -1e18

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, budget_bytes: int = 1 << 20) -> Iterator[Chunk]:
        """What is new, at most `budget_bytes` a file (one chunk for the bulk path may be larger), files in turn.

        What was yielded counts as used once the next item is asked for, or `positions` is called.
        """
        hints = self._waker.changed()
        now = self._clock()
        everything = hints is None or now - self._scanned >= FULL_SCAN_S
        if everything or self._is_news(hints or set()):
            try:
                self._waker.watch(self._followed.scan())
            except OSError as error:
                self._cannot_read(error, error.filename or "a file")
        # Should the caller not take all, its next call looks at everything: these hints are used up.
        self._scanned, scanned = -1e18, now if everything else self._scanned
        self.behind = False
        for feed in self._due(None if everything else hints):
            if isinstance(feed, Lineage) and feed.is_idle():
                continue
            try:
                yield from feed.turn(budget_bytes)
            except OSError as error:
                self._cannot_read(error, feed.path, feed.stream)
            self.behind = self.behind or feed.behind
            if feed.changed:
                self._moved.add(feed.stream)
            if feed.unread:
                self._lagging.add(feed.stream)
            else:
                self._lagging.discard(feed.stream)
            if isinstance(feed, Lineage) and feed.restless:
                self._restless.add(feed.stream)
            else:
                self._restless.discard(feed.stream)
        self._waker.listen(fd for feed in self._followed.endless.values() for fd in feed.descriptors)
        self._scanned = scanned
        if everything:
            self._followed.retire(now)

    def _cannot_read(self, error: OSError, path: str, stream: str | None = None) -> None:
        """A disk or file server failed in the middle of something: it is looked at again in the next turn."""
        message = f"{path} cannot be read ({error.strerror or error}); tried again"
        self._notify(Notice("unreadable", message, Level.WARNING, stream))

    def _is_news(self, hints: set[str]) -> bool:
        return any(path not in self._followed.by_path for path in hints)

    def _due(self, hints: set[str] | None) -> list[Lineage | Pipe | Journal]:
        """Feeds to give a turn: all, or those that are pointed at, not done yet, or (in a quiet moment) open."""
        if hints is None:
            return list(self._followed.feeds.values())
        due: dict[str, Lineage | Pipe | Journal] = dict(self._followed.endless)
        due |= {
            stream: self._followed.feeds[stream]
            for stream in self._restless
            if stream in self._followed.feeds
        }
        near: set[str] = set()
        for path in hints:
            if (lineage := self._followed.by_path.get(path)) is not None:
                due[lineage.stream] = lineage
            else:  # a file beside: it may have been a followed one a moment ago
                near.add(os.path.dirname(path))
        if near:
            for beside, lineage in self._followed.by_path.items():
                if os.path.dirname(beside) in near:
                    due[lineage.stream] = lineage
        if not hints:
            known, feeds = self._shop.known, self._followed.feeds
            owners = (known.get(part.identity) for part in self._shop.open_parts.values())
            due |= {
                each.stream: feeds[each.stream]
                for each in owners
                if each is not None and each.stream in feeds
            }
        return list(due.values())

    # -- what is kept and told ----------------------------------------------------------------------------------

    def positions(self, pending: Callable[[str], int]) -> dict[str, str | None]:
        """Where to go on, as JSON text, for each stream whose position moved since the last call.

        Args:
            pending: Bytes of a stream that were given out but not used yet (its unfinished line).

        Returns:
            By stream; None where a stream is gone for good and its position is to be forgotten.
        """
        self._moved.clear()
        found: dict[str, str | None] = dict.fromkeys(self._followed.retired)
        self._followed.retired.clear()
        found |= self._followed.changed_parked
        self._followed.changed_parked.clear()
        for stream, feed in self._followed.feeds.items():
            if feed.changed:
                found[stream] = json.dumps(feed.position(pending(stream)))
        if (
            found or self._followed.overview_changed
        ):  # when files were looked for last is kept with what was found
            self._followed.overview_changed = False
            found[OVERVIEW] = self._followed.overview()
        return found

    def forget_commit(self) -> None:
        """The last `positions` were not committed after all: give them all again next time."""
        self._followed.overview_changed = True
        for feed in self._followed.feeds.values():
            feed.changed = True

    def lag(self) -> dict[str, Lag]:
        """How far each stream is behind."""
        now = self._clock()
        found = dict.fromkeys(self._followed.feeds, NO_LAG)
        for stream in self._lagging:
            feed = self._followed.feeds.get(stream)
            if feed is not None:
                found[stream] = Lag(
                    feed.unread, now - feed.behind_since if feed.behind_since is not None else 0.0
                )
        return found

    def keeps(self, stream: str) -> bool:
        """Whether a stream is put aside: no source means it now, and it would go on where it was."""
        return self._followed.is_parked(stream)

    @property
    def changed(self) -> bool:
        """Whether there are positions that were not asked for yet."""
        return bool(
            self._followed.retired
            or self._followed.changed_parked
            or self._moved
            or self._followed.overview_changed
        )

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of all streams."""
        return tuple(self._followed.feeds)

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
        for feed in self._followed.feeds.values():
            feed.close()
