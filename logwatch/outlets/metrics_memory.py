"""Level 3: what the metrics remember: plain values by stream, rank and phase, which the state file keeps.

Counters and histograms only ever rise. Label values that come from a log are bounded: what is beyond a cap is
booked under the label value `overflow`, so that sums stay right while the number of series stays small.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pydantic import NonNegativeFloat, NonNegativeInt

from logwatch.model import Place

EDGES_S: tuple[float, ...] = (
    *(0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.010, 0.012, 0.014, 0.016, 0.017, 0.0175),
    *(0.018, 0.0185, 0.019, 0.0195, 0.020, 0.0205, 0.021, 0.0215, 0.022, 0.0225, 0.023, 0.0235, 0.024),
    *(0.026, 0.028, 0.030, 0.035, 0.040, 0.060, 0.100, 0.250, 1.0),
)
"""Upper edges of the histogram's buckets, seconds; `+Inf` follows. Dense around the tuned 19 ms."""

Ranks: TypeAlias = Mapping[str, Collection[str]]
"""Phases that changed, by rank; a rank without any changed itself."""

Changed: TypeAlias = Mapping[str, Ranks]
"""Ranks that changed, by stream; a stream without any changed itself."""

Counts: TypeAlias = dict[str, NonNegativeInt]
"""Of something by its label value. No damaged state file makes a counter negative: a scraper refuses all then."""

RUN_LABELS = ("num_steps", "topk", "draft_tokens", "graph", "tp_size", "version")
"""Labels of `logwatch_run_info` that say how a run was set up."""

OVERFLOW = "overflow"
MAX_STREAMS = 512
MAX_RANKS = 128
MAX_PHASES = 24
MAX_PHASE_SERIES = 512
MAX_NAMES = 64
MAX_LABEL = 100
MAX_FILE = 60


@dataclass(slots=True)
class Sighting:
    """Where a sample stands in its log: the file's name, line and byte offset (-1 where unknown)."""

    value_s: float
    file: str
    line: int
    offset: int


@dataclass(slots=True)
class PhaseMemory:
    """One phase of one rank.

    Attributes:
        last_s: Last sample, seconds per cycle.
        in_band: What the band said of the run's last judged sample, or None where there is none.
        low_s, high_s: That band's edges as they were applied, or None.
        seconds: Sum of seconds per cycle times cycles.
        cycles: Cycles of the reports that gave this phase.
        buckets: Samples by bucket of `EDGES_S`, the last one above all edges; not cumulative.
        sum_s: Sum of the samples.
        sightings: Newest sample by bucket.
    """

    last_s: float | None = None
    in_band: bool | None = None
    low_s: float | None = None
    high_s: float | None = None
    seconds: NonNegativeFloat = 0.0
    cycles: NonNegativeInt = 0
    buckets: list[NonNegativeInt] = field(default_factory=lambda: [0] * (len(EDGES_S) + 1))
    sum_s: NonNegativeFloat = 0.0
    sightings: dict[int, Sighting] = field(default_factory=dict)

    def copy(self) -> PhaseMemory:
        """An independent copy."""
        return replace(self, buckets=self.buckets.copy(), sightings=dict(self.sightings))

    def observe(self, value_s: float, cycles: int, place: Place) -> None:
        """Count one sample that covers so many cycles."""
        bucket = bisect_left(EDGES_S, value_s)
        file = label(place.path.rpartition("/")[2][-MAX_FILE:])
        self.sightings[bucket] = Sighting(value_s, file, place.line, place.offset)
        self.last_s = value_s
        self.seconds += value_s * cycles
        self.cycles += cycles
        self.buckets[bucket] += 1
        self.sum_s += value_s


@dataclass(slots=True)
class RankMemory:
    """One rank of a stream; rank "" where the log has no tags.

    Attributes:
        incidents: Opened incidents by phase, then kind.
        sample_s: Log's time of the last sample, Unix seconds (the time of reading where the log has none).
        sample_read_s: When the last sample was read, Unix seconds.
    """

    phases: dict[str, PhaseMemory] = field(default_factory=dict)
    tokens_per_cycle: float | None = None
    estimated_tokens_per_second: float | None = None
    breakeven_tokens_per_cycle: float | None = None
    speedup_ratio: float | None = None
    running_requests: float | None = None
    generation_tokens_per_second: float | None = None
    incidents: dict[str, Counts] = field(default_factory=dict)
    sample_s: float | None = None
    sample_read_s: float | None = None

    def copy(self, before: RankMemory | None = None, changed: Collection[str] = ()) -> RankMemory:
        """An independent copy; phases that did not change since the copy `before` are shared with it."""
        kept = {} if before is None else before.phases
        phases = {
            name: phase.copy() if name in changed or name not in kept else kept[name]
            for name, phase in self.phases.items()
        }
        incidents = {phase: dict(kinds) for phase, kinds in self.incidents.items()}
        return replace(self, phases=phases, incidents=incidents)


@dataclass(slots=True)
class OpenIncident:
    """Where an open incident shows in `logwatch_incident_open`, and how grave it is."""

    stream: str
    rank: str
    phase: str
    kind: str
    severity: str = "critical"


@dataclass(slots=True)
class StreamMemory:
    """One source.

    Attributes:
        lines: Lines by outcome: matched, ignored, malformed.
        malformed: Malformed lines by record kind, then reason.
        truncations: Truncations by how they were detected.
        rejected: Values that were not finite or negative, and left out.
        run: Labels of `logwatch_run_info`, empty before the first run.
        seen_s: When it was last alive, Unix seconds.
    """

    ranks: dict[str, RankMemory] = field(default_factory=dict)
    lines: Counts = field(default_factory=lambda: {"matched": 0, "ignored": 0, "malformed": 0})
    malformed: dict[str, Counts] = field(default_factory=dict)
    read_bytes: NonNegativeInt = 0
    rotations: NonNegativeInt = 0
    truncations: Counts = field(default_factory=lambda: {"size": 0, "content": 0})
    lost_bytes: NonNegativeInt = 0
    skipped_bytes: NonNegativeInt = 0
    rejected: NonNegativeInt = 0
    lag_bytes: int = 0
    lag_s: float = 0.0
    run: dict[str, str] = field(default_factory=dict)
    seen_s: float = 0.0

    def copy(self, before: StreamMemory | None = None, changed: Ranks | None = None) -> StreamMemory:
        """An independent copy; ranks that did not change since the copy `before` are shared with it."""
        kept, phases = {} if before is None else before.ranks, {} if changed is None else changed
        return replace(
            self,
            ranks={
                name: rank.copy(kept.get(name), phases.get(name, ()))
                if name in phases or name not in kept
                else kept[name]
                for name, rank in self.ranks.items()
            },
            lines=dict(self.lines),
            malformed={name: dict(reasons) for name, reasons in self.malformed.items()},
            truncations=dict(self.truncations),
        )


@dataclass(slots=True)
class MetricsMemory:
    """All that the metrics remember.

    Attributes:
        bands: Edges by phase, seconds, that were configured when it was written.
        open_incidents: By the incident's key.
        alerts: Notifications by receiver, then outcome.
        notices: Notices by kind, then level.
        overflow: Values booked under `overflow`, by the label that was full.
    """

    bands: dict[str, tuple[float, float]] = field(default_factory=dict)
    streams: dict[str, StreamMemory] = field(default_factory=dict)
    open_incidents: dict[str, OpenIncident] = field(default_factory=dict)
    alerts: dict[str, Counts] = field(default_factory=dict)
    notices: dict[str, Counts] = field(default_factory=dict)
    overflow: Counts = field(default_factory=lambda: dict.fromkeys(("stream", "rank", "phase", "other"), 0))
    notify_overflow: NonNegativeInt = 0

    def copy(self, before: MetricsMemory | None = None, changed: Changed | None = None) -> MetricsMemory:
        """An independent copy. Small values are shared: they are replaced when they change, never altered.

        Args:
            before: An earlier copy, with which streams, ranks and phases are shared that did not change since.
            changed: Those that did.
        """
        kept, ranks = {} if before is None else before.streams, {} if changed is None else changed
        return replace(
            self,
            streams={
                name: stream.copy(kept.get(name), ranks.get(name))
                if name in ranks or name not in kept
                else kept[name]
                for name, stream in self.streams.items()
            },
            open_incidents=dict(self.open_incidents),
            alerts={name: dict(outcomes) for name, outcomes in self.alerts.items()},
            notices={name: dict(levels) for name, levels in self.notices.items()},
            overflow=dict(self.overflow),
        )

    def phase_series(self) -> int:
        """How many series `logwatch_phase_seconds` has."""
        return sum(len(rank.phases) for stream in self.streams.values() for rank in stream.ranks.values())

    def phases(self) -> Iterator[PhaseMemory]:
        """Every phase of every rank of every stream."""
        for stream in self.streams.values():
            for rank in stream.ranks.values():
                yield from rank.phases.values()

    def judge_by(self, bands: dict[str, tuple[float, float]]) -> None:
        """Other bands: what the old ones said of the last sample no longer holds."""
        if bands != self.bands:
            for phase in self.phases():
                phase.low_s = phase.high_s = phase.in_band = None
        self.bands = bands

    def adopt(self) -> None:
        """Make what was read back fit: what another version counted otherwise, or not at all, starts anew."""
        self.overflow = MetricsMemory().overflow | self.overflow
        for stream in self.streams.values():
            stream.lines = StreamMemory().lines | stream.lines
            stream.truncations = StreamMemory().truncations | stream.truncations
            if stream.run:  # its keys become names of labels
                stream.run = {name: stream.run.get(name, "") for name in RUN_LABELS}
        for phase in self.phases():
            if len(phase.buckets) != len(EDGES_S) + 1:
                phase.buckets, phase.sum_s, phase.sightings = [0] * (len(EDGES_S) + 1), 0.0, {}


def label(text: str) -> str:
    """Text as a label value: not longer than `MAX_LABEL` characters, encodable, no control characters."""
    text = text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def is_amount(value: float) -> bool:
    """Whether a value may enter a counter or a histogram: finite, not negative."""
    return math.isfinite(value) and value >= 0
