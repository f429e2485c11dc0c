"""Level 3: the metric families: name, type and help of each, and what memory puts into them.

Only this file knows the names; the contract fixes them. What is put goes to a pen: `metrics_samples.py` makes
`prometheus_client`'s samples of it, `metrics_text.py` the text of a scrape at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from prometheus_client.core import Metric

from logwatch.outlets.metrics_memory import MetricsMemory, PhaseMemory, RankMemory, StreamMemory

_UNITS = ("seconds", "bytes", "ratio")

RUN_LABELS = ("num_steps", "topk", "draft_tokens", "graph", "tp_size", "version")

HELP: Mapping[str, tuple[str, str]] = {
    # Phases: EAGLE3_PROFILE reports, or cycles inferred from decode lines (phase `inferred_cycle`).
    "phase_seconds": ("gauge", "Seconds per cycle of the phase in the last sample."),
    "band_low_seconds": ("gauge", "Lower edge of the band that judges the phase, from configuration."),
    "band_high_seconds": ("gauge", "Upper edge of the band that judges the phase, from configuration."),
    "phase_in_band": ("gauge", "1 if the run's last judged sample of the phase was in its band, 0 if not."),
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
    "incident_severity": (
        "gauge",
        "Severity of the open incident of this kind: 3 critical, 2 warning, 1 info; 0 if none is open.",
    ),
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

SEVERITIES = {"info": 1, "warning": 2, "critical": 3}
"""Values of `incident_severity`."""

OF_LOGWATCH = tuple(list(HELP)[list(HELP).index("open_files") :])
"""The last families: those that no stream has a part in."""

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


class Pen(Protocol):
    """Takes down what memory puts into the families. Labels are not altered once they were given."""

    def add(self, name: str, labels: Mapping[str, str], value: float | None) -> None:
        """A sample of the family, unless the value is not known."""

    def histogram(self, name: str, labels: Mapping[str, str], phase: PhaseMemory) -> None:
        """The samples of a phase's histogram."""


def write_stream(pen: Pen, name: str, stream: StreamMemory, bands: Bands) -> None:
    """What a stream has besides its ranks."""
    labels = {"stream": name}
    for outcome, count in stream.lines.items():
        pen.add("lines", labels | {"outcome": outcome}, count)
    for kind, reasons in stream.malformed.items():
        for reason, count in reasons.items():
            pen.add("malformed_lines", labels | {"kind": kind, "reason": reason}, count)
    for detection, count in stream.truncations.items():
        pen.add("truncations", labels | {"detection": detection}, count)
    pen.add("read_bytes", labels, stream.read_bytes)
    pen.add("lag_bytes", labels, stream.lag_bytes)
    pen.add("lag_seconds", labels, stream.lag_s)
    pen.add("rotations", labels, stream.rotations)
    pen.add("lost_bytes", labels, stream.lost_bytes)
    pen.add("skipped_bytes", labels, stream.skipped_bytes)
    pen.add("rejected_values", labels, stream.rejected)
    if stream.run:
        pen.add("run", labels | stream.run, 1)
    if not stream.ranks:
        write_bands(pen, name, bands)


def write_bands(pen: Pen, stream: str, bands: Bands) -> None:
    """The configured edges, where nothing was judged yet."""
    for phase, (low_s, high_s) in bands.items():
        labels = {"phase": phase, "rank": "", "stream": stream}
        pen.add("band_low_seconds", labels, low_s)
        pen.add("band_high_seconds", labels, high_s)


def write_rank(
    pen: Pen, stream: str, tags: str, rank: RankMemory, is_open: Mapping[tuple[str, str], int]
) -> None:
    """What a rank has besides its phases. Severities of open incidents are given by phase and kind."""
    labels = {"rank": tags, "stream": stream}
    pen.add("tokens_per_cycle", labels, rank.tokens_per_cycle)
    pen.add("estimated_tokens_per_second", labels, rank.estimated_tokens_per_second)
    pen.add("breakeven_tokens_per_cycle", labels, rank.breakeven_tokens_per_cycle)
    pen.add("speculation_speedup_ratio", labels, rank.speedup_ratio)
    pen.add("running_requests", labels, rank.running_requests)
    pen.add("generation_tokens_per_second", labels, rank.generation_tokens_per_second)
    pen.add("last_sample_timestamp_seconds", labels, rank.sample_s)
    pen.add("last_sample_read_timestamp_seconds", labels, rank.sample_read_s)
    for phase, kinds in rank.incidents.items():
        for kind, count in kinds.items():
            which = labels | {"phase": phase, "kind": kind}
            pen.add("incidents", which, count)
            pen.add("incident_open", which, (phase, kind) in is_open)
            pen.add("incident_severity", which, is_open.get((phase, kind), 0))


def write_phase(pen: Pen, stream: str, tags: str, name: str, phase: PhaseMemory, bands: Bands) -> None:
    """A phase of a rank."""
    labels, (low_s, high_s) = {"phase": name, "rank": tags, "stream": stream}, bands.get(name, (None, None))
    pen.add("phase_seconds", labels, phase.last_s)
    pen.add("band_low_seconds", labels, low_s if phase.low_s is None else phase.low_s)
    pen.add("band_high_seconds", labels, high_s if phase.high_s is None else phase.high_s)
    pen.add("phase_in_band", labels, phase.in_band)
    pen.add("cycle_phase_seconds", labels, phase.seconds)
    pen.add("cycles", labels, phase.cycles)
    pen.histogram("phase_duration_seconds", labels, phase)


def write_itself(pen: Pen, memory: MetricsMemory, facts: Facts) -> None:
    """The families `OF_LOGWATCH`."""
    for receiver, outcomes in memory.alerts.items():
        for outcome, count in outcomes.items():
            pen.add("alerts", {"receiver": receiver, "outcome": outcome}, count)
    for kind, levels in memory.notices.items():
        for level, count in levels.items():
            pen.add("notices", {"kind": kind, "level": level}, count)
    for name, count in memory.overflow.items():
        pen.add("label_overflow", {"label": name}, count)
    pen.add("open_files", {}, facts.open_files)
    pen.add("alerts_pending", {}, facts.alerts_pending)
    pen.add("notify_overflow", {}, memory.notify_overflow)
    pen.add("state_commits", {}, facts.state_commits)
    pen.add("state_commit_errors", {}, facts.state_commit_errors)
    pen.add("config_last_reload_successful", {}, facts.reload_successful)
    pen.add("config_last_reload_success_timestamp_seconds", {}, facts.reload_s)
    pen.add("build", dict(facts.build), 1)


def open_kinds(memory: MetricsMemory) -> dict[tuple[str, str], dict[tuple[str, str], int]]:
    """Severity of the open incidents by phase and kind, by stream and rank: the gravest of each."""
    found: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
    for each in memory.open_incidents.values():
        kinds = found.setdefault((each.stream, each.rank), {})
        what = each.phase, each.kind
        kinds[what] = max(kinds.get(what, 0), SEVERITIES.get(each.severity, SEVERITIES["critical"]))
    return found
