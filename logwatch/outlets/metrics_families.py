"""Level 3: the metric families: name, type and help of each, and how memory becomes samples.

Only this file knows the names; the contract fixes them. Samples carry no time stamps:
the scrape's time is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from prometheus_client.core import Metric
from prometheus_client.samples import Exemplar, Sample
from prometheus_client.utils import floatToGoString

from logwatch.outlets.metrics_memory import (
    EDGES_S,
    MetricsMemory,
    PhaseMemory,
    RankMemory,
    Sighting,
    StreamMemory,
)

_UNITS = ("seconds", "bytes", "ratio")
_EDGES = (*(floatToGoString(edge) for edge in EDGES_S), "+Inf")  # type: ignore[no-untyped-call]  # it has no types

RUN_LABELS = ("num_steps", "topk", "draft_tokens", "graph", "tp_size", "version")

HELP: Mapping[str, tuple[str, str]] = {
    # Phases: EAGLE3_PROFILE reports, or cycles inferred from decode lines (phase `inferred_cycle`).
    "phase_seconds": ("gauge", "Seconds per cycle of the phase in the last sample."),
    "band_low_seconds": ("gauge", "Lower edge of the band that judges the phase, from configuration."),
    "band_high_seconds": ("gauge", "Upper edge of the band that judges the phase, from configuration."),
    "phase_in_band": ("gauge", "1 if the last judged sample of the phase was in its band, 0 if not."),
    "cycle_phase_seconds": ("counter", "Seconds spent in the phase: seconds per cycle times cycles."),
    "cycles": ("counter", "Cycles covered by the reports that gave the phase."),
    "phase_duration_seconds": ("histogram", "Samples of the phase, seconds per cycle, one per report."),
    # Speculation: reports, decode lines and the configured baseline.
    "tokens_per_cycle": (
        "gauge",
        "Tokens per cycle (accepted drafts + 1) in the last report or decode line.",
    ),
    "estimated_tokens_per_second": ("gauge", "Tokens per cycle over seconds per cycle, of the whole batch."),
    "breakeven_tokens_per_cycle": (
        "gauge",
        "Tokens per cycle at which speculation equals the configured baseline.",
    ),
    "speculation_speedup_ratio": ("gauge", "Speculation's throughput over the configured baseline's."),
    "running_requests": ("gauge", "Running requests in the last decode line."),
    "generation_tokens_per_second": ("gauge", "Generation throughput that the last decode line states."),
    # Incidents.
    "incident_open": ("gauge", "1 while an incident of this kind is open, else 0."),
    "incidents": ("counter", "Incidents opened."),
    # What runs there.
    "run": ("info", "Settings of the newest run, from its server_args line."),
    # Reading.
    "lines": ("counter", "Lines read, by outcome: matched a grammar, ignored, or malformed."),
    "malformed_lines": ("counter", "Lines that start as a record but do not finish as one, by reason."),
    "read_bytes": ("counter", "Bytes read, line ends included."),
    "lag_bytes": ("gauge", "Bytes written to the source but not yet read."),
    "lag_seconds": ("gauge", "How long the oldest of the bytes not yet read have been waiting."),
    "rotations": ("counter", "Rotations of the source's file seen."),
    "truncations": ("counter", "Truncations of the source's file seen, by how they were detected."),
    "lost_bytes": ("counter", "Bytes that their writer destroyed before they could be read."),
    "skipped_bytes": ("counter", "Bytes read but given up, such as the rest of a line that is too long."),
    "rejected_values": ("counter", "Values that were NaN, infinite or negative and entered no metric."),
    "last_sample_timestamp_seconds": ("gauge", "Time of the last sample by the log's own clock, Unix time."),
    "last_sample_read_timestamp_seconds": ("gauge", "When the last sample was read, Unix time."),
    # logwatch itself.
    "open_files": ("gauge", "Followed files held open."),
    "alerts": ("counter", "Notifications to alert receivers, by outcome."),
    "alerts_pending": ("gauge", "Notifications not yet delivered."),
    "notices": ("counter", "Events beside the data, by kind and level."),
    "notify_overflow": ("counter", "Notices that were dropped because too many came at once."),
    "label_overflow": ("counter", "Values booked under `overflow` because a label had too many values."),
    "state_commits": ("counter", "Commits of the state file since this process started."),
    "state_commit_errors": ("counter", "Commits of the state file that failed since this process started."),
    "config_last_reload_successful": ("gauge", "1 if the last load of the configuration succeeded, else 0."),
    "config_last_reload_success_timestamp_seconds": (
        "gauge",
        "When the configuration was last loaded well, Unix time.",
    ),
    "build": ("info", "Version of logwatch, and of the Python that runs it."),
}
"""Every family by its name without prefix and without `_total` or `_info`: its type and its help."""


Bands: TypeAlias = Mapping[str, tuple[float, float]]
"""Low and high edge by phase, seconds: shown until a sample of the phase has been judged."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is exposed besides the memory: what the process knows of itself now."""

    build: Mapping[str, str]
    open_files: int
    alerts_pending: int
    state_commits: int
    state_commit_errors: int
    commit_failed: bool
    reload_successful: bool
    reload_s: float


def empty_families() -> dict[str, Metric]:
    """All families by their key in `HELP`, without samples."""
    families = {}
    for name, (kind, text) in HELP.items():
        unit = next((unit for unit in _UNITS if name.endswith(f"_{unit}")), "")
        families[name] = Metric(f"logwatch_{name}", text, kind, unit)
    return families


class Writer:
    """Turns memory into families. One use each; the caller holds the lock."""

    def __init__(self) -> None:
        self.families = empty_families()

    def add(self, name: str, labels: dict[str, str], value: float | None) -> None:
        """Add a sample, unless the value is not known."""
        if value is not None:
            family = self.families[name]
            suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
            family.samples.append(Sample(family.name + suffix, labels, float(value)))

    def write(self, memory: MetricsMemory, facts: Facts) -> Iterable[Metric]:
        """All families with their samples."""
        for name, stream in memory.streams.items():
            self._stream({"stream": name}, stream, memory.bands)
            for tags, rank in stream.ranks.items():
                labels = {"rank": tags, "stream": name}
                self._rank(labels, rank)
                for phase, each in rank.phases.items():
                    self._phase(labels | {"phase": phase}, each, memory.bands)
                    self._histogram(labels | {"phase": phase}, each)
        if not memory.streams:
            self._bands({"rank": "", "stream": ""}, memory.bands)
        self._incidents(memory)
        self._itself(memory, facts)
        return self.families.values()

    def _stream(self, labels: dict[str, str], stream: StreamMemory, bands: Bands) -> None:
        for outcome, count in stream.lines.items():
            self.add("lines", labels | {"outcome": outcome}, count)
        for kind, reasons in stream.malformed.items():
            for reason, count in reasons.items():
                self.add("malformed_lines", labels | {"kind": kind, "reason": reason}, count)
        for detection, count in stream.truncations.items():
            self.add("truncations", labels | {"detection": detection}, count)
        self.add("read_bytes", labels, stream.read_bytes)
        self.add("lag_bytes", labels, stream.lag_bytes)
        self.add("lag_seconds", labels, stream.lag_s)
        self.add("rotations", labels, stream.rotations)
        self.add("lost_bytes", labels, stream.lost_bytes)
        self.add("skipped_bytes", labels, stream.skipped_bytes)
        self.add("rejected_values", labels, stream.rejected)
        if stream.run:
            self.add("run", labels | stream.run, 1)
        if not stream.ranks:
            self._bands(labels | {"rank": ""}, bands)

    def _bands(self, labels: dict[str, str], bands: Bands) -> None:
        for phase, (low_s, high_s) in bands.items():
            self.add("band_low_seconds", labels | {"phase": phase}, low_s)
            self.add("band_high_seconds", labels | {"phase": phase}, high_s)

    def _rank(self, labels: dict[str, str], rank: RankMemory) -> None:
        self.add("tokens_per_cycle", labels, rank.tokens_per_cycle)
        self.add("estimated_tokens_per_second", labels, rank.estimated_tokens_per_second)
        self.add("breakeven_tokens_per_cycle", labels, rank.breakeven_tokens_per_cycle)
        self.add("speculation_speedup_ratio", labels, rank.speedup_ratio)
        self.add("running_requests", labels, rank.running_requests)
        self.add("generation_tokens_per_second", labels, rank.generation_tokens_per_second)
        self.add("last_sample_timestamp_seconds", labels, rank.sample_s)
        self.add("last_sample_read_timestamp_seconds", labels, rank.sample_read_s)

    def _phase(self, labels: dict[str, str], phase: PhaseMemory, bands: Bands) -> None:
        low_s, high_s = bands.get(labels["phase"], (None, None))
        self.add("phase_seconds", labels, phase.last_s)
        self.add("band_low_seconds", labels, low_s if phase.low_s is None else phase.low_s)
        self.add("band_high_seconds", labels, high_s if phase.high_s is None else phase.high_s)
        self.add("phase_in_band", labels, phase.in_band)
        self.add("cycle_phase_seconds", labels, phase.seconds)
        self.add("cycles", labels, phase.cycles)

    def _histogram(self, labels: dict[str, str], phase: PhaseMemory) -> None:
        family = self.families["phase_duration_seconds"]
        name, count = f"{family.name}_bucket", 0
        for bucket, (edge, samples) in enumerate(zip(_EDGES, phase.buckets, strict=True)):
            count += samples
            family.samples.append(
                Sample(name, labels | {"le": edge}, count, None, _exemplar(phase.sightings.get(bucket)))
            )
        family.samples.append(Sample(f"{family.name}_count", labels, count))
        family.samples.append(Sample(f"{family.name}_sum", labels, phase.sum_s))

    def _incidents(self, memory: MetricsMemory) -> None:
        is_open = {(each.stream, each.rank, each.phase, each.kind) for each in memory.open_incidents.values()}
        for name, tags, phase, kind, count in _incident_counts(memory):
            labels = {"kind": kind, "phase": phase, "rank": tags, "stream": name}
            self.add("incidents", labels, count)
            self.add("incident_open", labels, (name, tags, phase, kind) in is_open)

    def _itself(self, memory: MetricsMemory, facts: Facts) -> None:
        for receiver, outcomes in memory.alerts.items():
            for outcome, count in outcomes.items():
                self.add("alerts", {"receiver": receiver, "outcome": outcome}, count)
        for kind, levels in memory.notices.items():
            for level, count in levels.items():
                self.add("notices", {"kind": kind, "level": level}, count)
        for name, count in memory.overflow.items():
            self.add("label_overflow", {"label": name}, count)
        self.add("open_files", {}, facts.open_files)
        self.add("alerts_pending", {}, facts.alerts_pending)
        self.add("notify_overflow", {}, memory.notify_overflow)
        self.add("state_commits", {}, facts.state_commits)
        self.add("state_commit_errors", {}, facts.state_commit_errors)
        self.add("config_last_reload_successful", {}, facts.reload_successful)
        self.add("config_last_reload_success_timestamp_seconds", {}, facts.reload_s)
        self.add("build", dict(facts.build), 1)


def _exemplar(seen: Sighting | None) -> Exemplar | None:
    """Where the bucket's newest sample stands, within the 128 characters that an exemplar may have."""
    if seen is None:
        return None
    # Plain characters only: not every parser of OpenMetrics reads escapes in an exemplar.
    labels = {"file": re.sub(r"[^\w.+-]", "_", seen.file), "line": str(seen.line)}
    return Exemplar(labels | ({"offset": str(seen.offset)} if seen.offset >= 0 else {}), seen.value_s)


def _incident_counts(memory: MetricsMemory) -> Iterator[tuple[str, str, str, str, int]]:
    """Stream, rank, phase, kind and count of everything counted in `RankMemory.incidents`."""
    for name, stream in memory.streams.items():
        for tags, rank in stream.ranks.items():
            for phase, kinds in rank.incidents.items():
                for kind, count in kinds.items():
                    yield name, tags, phase, kind, count
