"""Level 3: Prometheus collector: a sink fed on the pipeline's thread, read by scrapes in other threads.

One lock makes a scrape a consistent picture (a histogram's `_count` is its `+Inf` bucket). All that rises
lies in `Metrics.memory`, which the state file keeps stream by stream, so that counters go on after a restart. A
scrape of the daemon shows what was last committed: a count that a kill takes back was never seen.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from logwatch import __version__
from logwatch.judging.bands import DEFAULT_BAND, Band
from logwatch.model import Item, Notice
from logwatch.outlets.metrics_books import Books
from logwatch.outlets.metrics_families import Facts, empty_families
from logwatch.outlets.metrics_memory import MetricsMemory, StreamMemory, label
from logwatch.outlets.metrics_process import OwnProcess
from logwatch.outlets.metrics_samples import families_of

if TYPE_CHECKING:
    from prometheus_client.core import Metric

NAME = "metrics"
"""Under which the memory is kept; that of a stream follows behind a slash."""


class Metrics:
    """All of logwatch's metrics: a `Sink`, and a collector for `prometheus_client`.

    Streams that are known beforehand are added with `add_stream`, so that their series exist with 0 before
    the first event. The caller reports what following knows (`observe_source`, `observe_files`) and calls
    `expire` now and then; a stream of which nothing was heard for `ttl_s` goes away with all its series.

    Args:
        bands: What judges phases; their edges are shown from the start.
        baseline_tokens_per_second: Throughput without speculation, or None.
        ttl_s: How long a vanished stream is still shown.
        committed: Whether a scrape shows the counts of the last commit (those that `written` gave and
            `observe_commit` confirmed), or those of now.
        clock: Unix time, seconds.
    """

    def __init__(
        self,
        bands: Sequence[Band] = (DEFAULT_BAND,),
        baseline_tokens_per_second: float | None = None,
        ttl_s: float = 3600.0,
        *,
        committed: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.ttl_s = ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        self._books = Books(bands, baseline_tokens_per_second, clock)
        self._written = self._books.memory.copy()
        self._committed = self._written if committed else None
        self._facts = Facts(
            build={"version": __version__, "python": platform.python_version()},
            open_files=0,
            alerts_pending=0,
            state_commits=0,
            state_commit_errors=0,
            commit_failed=False,
            reload_successful=True,
            reload_s=clock(),
        )

    @property
    def memory(self) -> MetricsMemory:
        """All counters and last values; assign what the state file read back."""
        return self._books.memory

    @memory.setter
    def memory(self, memory: MetricsMemory) -> None:
        with self._lock:
            self._books.restore(memory)
            self._written = memory.copy()
            if self._committed is not None:
                self._committed = self._written

    def written(self) -> dict[str, MetricsMemory | StreamMemory | None]:
        """What to keep, by name, of what changed since the last call: a commit that fails keeps it as well.

        None: forget it. What is given is never altered.
        """
        with self._lock:
            changed, self._books.changed = self._books.changed, {}
            now = self._written = self.memory.copy(self._written, changed)
        streams = {f"{NAME}/{name}": now.streams.get(name) for name in changed}
        return {NAME: replace(now, streams={}), **streams}

    def recall(self, names: Iterable[str], read_back: Callable[[type[Any], str], Any]) -> None:
        """Go on from what `written` gave an earlier life.

        Args:
            names: Under which something was kept, by whomever.
            read_back: Gives what was kept under a name, or None where it cannot be used.
        """
        memory = read_back(MetricsMemory, NAME)
        streams = {
            name.partition("/")[2]: read_back(StreamMemory, name)
            for name in names
            if name.startswith(f"{NAME}/")
        }
        found = {name: stream for name, stream in streams.items() if stream is not None}
        if memory is not None or found:
            memory = memory or MetricsMemory()
            memory.streams |= found
            self.memory = memory

    # What the pipeline gives.

    def take(self, item: Item) -> None:
        """Count one item of the pipeline."""
        with self._lock:
            self._books.book(item)

    def notice(self, notice: Notice) -> None:
        """Count what happened beside the data."""
        with self._lock:
            self._books.notice(notice)

    def close(self) -> None:
        """Nothing is held back."""

    # What others tell.

    def add_stream(self, stream: str, path: str | None = None) -> None:
        """Make a stream known, and a file whose lines belong to it: its series exist with 0 from now on."""
        with self._lock:
            self._books.stream(stream).seen_s = self._clock()
            if path is not None:
                self._books.learn(path, stream)
            # One that found no room is booked under `overflow`, and has no series of its own.
            if label(stream) in self.memory.streams and label(stream) not in self._shown.streams:
                self._show(label(stream), StreamMemory())

    def observe_source(self, stream: str, lag_bytes: int, lag_s: float) -> None:
        """What following knows of a source that is alive: how far reading is behind its writer."""
        with self._lock:
            now, lag = self._books.stream(stream), (max(0, lag_bytes), max(0.0, lag_s))
            now.lag_bytes, now.lag_s = lag
            now.seen_s = self._clock()
            shown = self._shown.streams.get(label(stream))
            if shown is not None and (shown.lag_bytes, shown.lag_s) != lag:
                self._show(label(stream), replace(shown, lag_bytes=lag[0], lag_s=lag[1]))

    def observe_files(self, open_files: int) -> None:
        """How many followed files are held open."""
        with self._lock:
            self._facts = replace(self._facts, open_files=open_files)

    def observe_commit(self, *, failed: bool = False) -> None:
        """One commit of the state file. If it succeeded, what `written` gave before it may be shown."""
        with self._lock:
            commits, errors = self._facts.state_commits + 1, self._facts.state_commit_errors + failed
            self._facts = replace(
                self._facts, state_commits=commits, state_commit_errors=errors, commit_failed=failed
            )
            if not failed and self._committed is not None:
                self._committed = self._written

    def add_receiver(self, receiver: str) -> None:
        """Make an alert receiver known: its series exist with 0 from now on."""
        with self._lock:
            self._books.alerts(receiver)
            name, shown = label(receiver), self._committed
            if shown is not None and name in self.memory.alerts and name not in shown.alerts:
                known = shown.alerts | {name: {"delivered": 0, "failed": 0}}
                self._committed = replace(shown, alerts=known)

    def observe_alert(self, receiver: str, outcome: str) -> None:
        """One attempt to deliver to a receiver; outcomes are `delivered` and `failed`."""
        with self._lock:
            outcomes = self._books.alerts(receiver)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1

    def observe_pending(self, pending: int) -> None:
        """How many notifications wait for delivery."""
        with self._lock:
            self._facts = replace(self._facts, alerts_pending=pending)

    def observe_reload(self, *, successful: bool) -> None:
        """The configuration was loaded again, or could not be."""
        with self._lock:
            reload_s = self._clock() if successful else self._facts.reload_s
            self._facts = replace(self._facts, reload_successful=successful, reload_s=reload_s)

    def configure(self, bands: Sequence[Band], baseline_tokens_per_second: float | None) -> None:
        """Judge by other bands and another baseline from now on; counters go on."""
        with self._lock:
            self._books.configure(bands, baseline_tokens_per_second)
            if self._committed is not None:
                self._committed = self._committed.copy()
                self._committed.judge_by(self.memory.bands)

    def expire(self, alive: Iterable[str] = ()) -> list[str]:
        """Forget streams of which nothing was heard for `ttl_s`, and give their names.

        Args:
            alive: Streams that are being followed: a clock that jumps forward takes none of them.
        """
        with self._lock:
            now, gone = self._clock(), []
            streams = self.memory.streams
            # A stream that is heard of now and then is seldom among these, so that thousands cost nothing.
            odd = [name for name, each in streams.items() if not 0 <= now - each.seen_s <= self.ttl_s]
            living = {label(name) for name in alive} if odd else set()
            for name in odd:
                if name in living or streams[name].seen_s > now:
                    streams[name].seen_s = now
                else:
                    gone.append(name)
            if gone:
                self._books.forget(set(gone))
                if self._committed is not None:
                    left = {name: each for name, each in self._committed.streams.items() if name not in gone}
                    self._committed = replace(self._committed, streams=left)
            return gone

    # Scrapes and pages.

    def sources(self) -> dict[str, StreamMemory]:
        """A copy of what is known of each stream, without what is known of its phases."""
        with self._lock:
            return {
                name: replace(
                    stream,
                    lines=dict(stream.lines),
                    ranks={tags: replace(rank, phases={}) for tags, rank in stream.ranks.items()},
                )
                for name, stream in self.memory.streams.items()
            }

    @property
    def facts(self) -> Facts:
        """What the process knows of itself now."""
        return self._facts

    def collect(self) -> Iterable[Metric]:
        """All families with their samples, of one instant."""
        with self.still() as shown:
            pass
        return families_of(*shown)

    @contextmanager
    def still(self) -> Iterator[tuple[MetricsMemory, Facts]]:
        """What a scrape shows now, while whoever counts waits.

        It is not altered later either: streams, ranks and phases that change are replaced by other objects.
        """
        with self._lock:
            yield (self.memory.copy() if self._committed is None else self._committed), self._facts

    @property
    def _shown(self) -> MetricsMemory:
        return self.memory if self._committed is None else self._committed

    def _show(self, name: str, stream: StreamMemory) -> None:
        """Show this of a stream, beside what was committed of the others."""
        if self._committed is not None:
            self._committed = replace(self._committed, streams={**self._committed.streams, name: stream})

    def describe(self) -> Iterable[Metric]:
        """All families without samples: `name[]` needs their names."""
        return empty_families().values()


def build_registry(metrics: Metrics) -> CollectorRegistry:
    """A registry of these metrics and of the process's own (`process_resident_memory_bytes`, ...)."""
    registry = CollectorRegistry()
    registry.register(metrics)
    OwnProcess(registry=registry)
    return registry
