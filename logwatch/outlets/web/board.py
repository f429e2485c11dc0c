"""Level 3: what the status page and the JSON interface show: the newest samples, runs and incidents.

`Board` is a sink fed on the pipeline's thread and read by HTTP threads; every reader gets a copy of one
instant. Its memory is bounded whatever the log says. Over a restart it keeps the runs; the caller gives it
samples and incidents of the history with `restore`.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from logwatch.judging.conditions import telling
from logwatch.model import Change, Cycle, Incident, Item, Judgement, Limits, Notice, RunStarted, Signal
from logwatch.outlets.metrics_memory import is_amount, label

RING = 240
MAX_RINGS = 256
MAX_RUNS = 128
MAX_OPEN = 256
MAX_PAST = 200
MAX_EVENTS = 50
MAX_SETTINGS = 600
MAX_SETTING = 200


@dataclass(frozen=True, slots=True)
class Sample:
    """One phase's seconds per cycle in one report.

    Attributes:
        time: ISO 8601 as the log wrote it, or None.
        read_s: When it was read, Unix seconds.
        in_band: What its band said, or None where no band applies.
        band: The band's edges where it was taken, or None.
    """

    stream: str
    rank: str
    run: int
    phase: str
    value_s: float
    time: str | None
    read_s: float
    line: int
    cycles: int
    share: float | None = None
    batch_size: float | None = None
    graph: bool | None = None
    in_band: bool | None = None
    band: Limits | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """The newest run of a stream.

    Attributes:
        settings: Flat map of the server's settings.
        changed: Settings that the run before had otherwise: name, before, after; None where it was absent.
    """

    number: int
    started: str | None
    settings: Mapping[str, str] = field(default_factory=dict)
    changed: tuple[tuple[str, str | None, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """Something beside the data: `count` times in a row, the last time at `at_s` (Unix seconds)."""

    at_s: float
    notice: Notice
    count: int = 1


@dataclass(slots=True)
class BoardMemory:
    """What the board keeps over a restart: the newest run by stream."""

    runs: dict[str, Run] = field(default_factory=dict)


RingKey: TypeAlias = tuple[str, str, str]
"""Stream, rank, phase."""


@dataclass(frozen=True, slots=True)
class View:
    """All that the board knew at one instant.

    Attributes:
        rings: Newest samples, oldest first, by stream, rank and phase, in order of their first appearance.
        runs: Newest run by stream.
        open: Open incidents, newest onset first.
        past: Resolved incidents, the last resolved first.
        events: What happened beside the data, the newest first.
    """

    rings: Mapping[RingKey, tuple[Sample, ...]]
    runs: Mapping[str, Run]
    open: tuple[Incident, ...]
    past: tuple[Incident, ...]
    events: tuple[Event, ...] = ()


def newest_run(ring: Sequence[Sample]) -> list[Sample]:
    """Samples of the run that the newest sample belongs to: a restart begins another story."""
    return [sample for sample in ring if sample.run == ring[-1].run]


class Board:
    """Sink that keeps the newest of everything for people to look at.

    Args:
        clock: Unix time, seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._rings: OrderedDict[RingKey, deque[Sample]] = OrderedDict()
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._open: OrderedDict[str, Incident] = OrderedDict()
        self._past: deque[Incident] = deque(maxlen=MAX_PAST)
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self.version = 0
        """Rises with every change: who shows the board needs to look again only then."""

    @property
    def memory(self) -> BoardMemory:
        """The runs; assign what the state file read back."""
        return BoardMemory(dict(self._runs))

    @memory.setter
    def memory(self, memory: BoardMemory) -> None:
        with self._lock:
            self._runs = OrderedDict(memory.runs)
            self.version += 1

    def take(self, item: Item) -> None:
        """Remember one item of the pipeline."""
        if isinstance(item, Cycle):
            with self._lock:
                self._cycle(item)
        elif isinstance(item, Judgement):
            with self._lock:
                self._judgement(item)
        elif isinstance(item, Incident):
            with self._lock:
                self._incident(item)
        elif isinstance(item, RunStarted):
            with self._lock:
                self._run_started(item)
        else:
            return
        self.version += 1

    def notice(self, notice: Notice) -> None:
        """Remember what happened beside the data; the same again only counts on."""
        with self._lock:
            last = self._events[0] if self._events else None
            again = last is not None and (last.notice.kind, last.notice.path) == (notice.kind, notice.path)
            count = self._events.popleft().count + 1 if again else 1
            self._events.appendleft(Event(self._clock(), notice, count))
        self.version += 1

    def close(self) -> None:
        """Nothing is held back."""

    def restore(self, samples: Iterable[Sample], incidents: Iterable[Incident]) -> None:
        """Take over what an earlier process knew: samples and incidents, oldest first."""
        with self._lock:
            for sample in samples:
                self._ring((sample.stream, sample.rank, sample.phase)).append(sample)
            for incident in incidents:
                self._incident(incident)
            self.version += 1

    def forget(self, streams: Iterable[str]) -> None:
        """Streams have expired: their samples and runs go. Their incidents stay, as past ones."""
        gone = set(streams)
        if not gone:
            return
        with self._lock:
            for key in [key for key in self._rings if key[0] in gone]:
                del self._rings[key]
            for name in gone:
                self._runs.pop(name, None)
            for ended in [each for each in self._open.values() if each.stream in gone]:
                self._past.appendleft(self._open.pop(ended.key))
            self.version += 1

    def view(self) -> View:
        """All that is known, of one instant."""
        with self._lock:
            return View(
                rings={key: tuple(ring) for key, ring in self._rings.items()},
                runs=dict(self._runs),
                open=tuple(reversed(self._open.values())),
                past=tuple(self._past),
                events=tuple(self._events),
            )

    def _ring(self, key: RingKey) -> deque[Sample]:
        ring = self._rings.get(key)
        if ring is None:
            if len(self._rings) >= MAX_RINGS:
                stalest = min(self._rings, key=lambda each: self._rings[each][-1].read_s)
                del self._rings[stalest]
            ring = self._rings[key] = deque(maxlen=RING)
        return ring

    def _cycle(self, item: Cycle) -> None:
        now, rank, stream = self._clock(), label(item.rank or ""), label(item.stream)
        for phase, value_s in item.phases_s.items():
            if is_amount(value_s):
                name = label(phase)
                self._ring((stream, rank, name)).append(
                    Sample(
                        stream=stream,
                        rank=rank,
                        run=item.run,
                        phase=name,
                        value_s=value_s,
                        time=item.time,
                        read_s=now,
                        line=item.place.line,
                        cycles=item.cycles,
                        share=item.shares.get(phase),
                        batch_size=item.conditions.batch_size,
                        graph=item.conditions.graph,
                    )
                )

    def _judgement(self, item: Judgement) -> None:
        key = (label(item.cycle.stream), label(item.cycle.rank or ""), label(item.phase))
        ring = self._rings.get(key)
        if item.chart == "band" and ring and ring[-1].line == item.cycle.place.line:
            ring[-1] = replace(ring[-1], in_band=item.signal is Signal.IN_BAND, band=item.limits)

    def _incident(self, item: Incident) -> None:
        if item.change is Change.RESOLVED:
            self._open.pop(item.key, None)
            self._past.appendleft(item)
        else:
            if item.key not in self._open and len(self._open) >= MAX_OPEN:
                self._open.popitem(last=False)
            self._open[item.key] = item

    def _run_started(self, item: RunStarted) -> None:
        name = label(item.stream)
        before = self._runs.pop(name, None)
        settings = {
            label(key): value[:MAX_SETTING] for key, value in list(item.settings.items())[:MAX_SETTINGS]
        }
        self._runs[name] = Run(item.run, item.time, settings, _changed(before, settings))
        if len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)


def _changed(
    before: Run | None, settings: Mapping[str, str]
) -> tuple[tuple[str, str | None, str | None], ...]:
    """Settings that could matter and differ from the run before; none where a run does not say them."""
    if before is None or not before.settings or not settings:
        return ()
    old, new = telling(before.settings), telling(settings)
    names = [*new, *(name for name in old if name not in new)]
    return tuple((name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name))
