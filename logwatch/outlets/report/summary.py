"""Level 3: the sink of a replay: what all inputs together say, in constant memory.

`Collector` takes what pipelines give and makes a `Summary`, which the forms (`as_table`, `as_json`,
`as_markdown`) print. Runs that are over keep their figures only.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from logwatch.judging.economics import Economics, cycle_time_s, economics
from logwatch.model import (
    Change,
    Cycle,
    Incident,
    Item,
    Judgement,
    Limits,
    Malformed,
    Read,
    Record,
    RunStarted,
    Signal,
)
from logwatch.outlets.report.collected import LAST_PHASES, MAX_PHASES, MOST_STRAY, Phase, Rank
from logwatch.outlets.report.distribution import Bin, Distribution

if TYPE_CHECKING:
    from collections.abc import Mapping

    from logwatch.columns import CycleColumns

FIRST_PHASES = ("draft_forward", "target_verify", "draft_extend")
MAX_RUNS = 4096
_NUMBER = re.compile(r"[0-9]+$")
MAX_MALFORMED = 10
MAX_INCIDENTS = 1000
MAX_CRASHES = 100


@dataclass(frozen=True, slots=True)
class PhaseSummary:
    """One phase of one rank in one run. Times in seconds.

    Attributes:
        share: Mean share of the cycle (0-1), or None.
        band: The band that judged it last, or None.
        band_moves: Whether others did before: it depends on the context or the batch size.
        in_band: Whether at least half of the judged samples lay inside, or None where no band applies.
        outside: Judged samples that lay outside.
        course: How it went, in at most 64 bins.
    """

    phase: str
    samples: int
    median_s: float
    mean_s: float
    p05_s: float
    p95_s: float
    share: float | None
    band: Limits | None
    in_band: bool | None
    outside: int
    course: tuple[Bin, ...]
    band_moves: bool = False

    @property
    def fixed_band(self) -> Limits | None:
        """The band, where one judged all samples: only then can they be drawn against it."""
        return None if self.band_moves else self.band


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One rank in one run.

    Attributes:
        started: As the log wrote it, or None; `settings` likewise.
        tokens_per_cycle: Mean over all cycles, bonus token counted.
        economics: From the median cycle time and `tokens_per_cycle`.
    """

    stream: str
    rank: str | None
    run: int
    started: str | None
    settings: Mapping[str, str]
    phases: tuple[PhaseSummary, ...]
    tokens_per_cycle: float | None
    economics: Economics


@dataclass(frozen=True, slots=True)
class InputSummary:
    """One input as it was read; `damage` says what could not be."""

    path: str
    bytes: int = 0
    lines: int = 0
    records: int = 0
    malformed: int = 0
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The answer of a replay.

    Attributes:
        verdict: `in_band`, `out_of_band` (an incident, or a phase whose samples mostly lie outside its band)
            or `no_data`.
        incidents: Each as it was known at the end, in the order in which they were noticed.
        more_incidents: How many beyond `MAX_INCIDENTS` are counted only.
        crashes: The first line of each crash, the first `MAX_CRASHES`.
        seen: Records by kind.
        malformed: Examples of malformed lines.
        explained: Why changes were told or not, where that was asked.
    """

    verdict: str
    inputs: tuple[InputSummary, ...]
    runs: tuple[RunSummary, ...]
    incidents: tuple[Incident, ...]
    more_incidents: int
    seen: Mapping[str, int]
    malformed: tuple[Malformed, ...]
    crashes: tuple[Record, ...] = ()
    explained: tuple[str, ...] = ()


class Collector:
    """Sink that sums up what one or several pipelines give.

    Args:
        baseline_tokens_per_second: Throughput without speculation, or None.
    """

    def __init__(self, baseline_tokens_per_second: float | None = None) -> None:
        self.baseline = baseline_tokens_per_second
        self._inputs: dict[str, InputSummary] = {}
        self._starts: dict[tuple[str, int], RunStarted] = {}
        self._ranks: dict[tuple[str, int, str | None], Rank] = {}
        self._done: list[RunSummary] = []
        self._incidents: dict[str, Incident] = {}
        self._more_incidents = 0
        self._seen: Counter[str] = Counter()
        self._malformed: list[Malformed] = []
        self._crashes: list[Record] = []
        self._crashed: set[str] = set()
        """Files whose run has told of its crash: each rank does, and the launcher too."""

    def take(self, item: Item) -> None:
        """Take one item."""
        if isinstance(item, Record):
            self._seen[item.kind] += 1
            if item.kind == "event" and item.fields["event"] == "crash":
                self._crash(item)
        elif isinstance(item, Judgement):
            self._judgement(item)
        elif isinstance(item, Cycle):
            self._cycle(item)
        elif isinstance(item, Read):
            self._read(item)
        elif isinstance(item, Incident):
            self._incident(item)
        elif isinstance(item, RunStarted):
            self._started(item)
        elif len(self._malformed) < MAX_MALFORMED:
            self._malformed.append(item)

    def take_many(self, cycles: CycleColumns) -> None:
        """Take many cycles of one rank, with what their bands said: the same as one by one."""
        from logwatch.outlets.report.columns import collect  # noqa: PLC0415 - numpy, for replay alone

        collect(self._rank(cycles.stream, cycles.run, cycles.rank), cycles)

    def close(self) -> None:
        """Nothing is held open."""

    def merge(self, other: Collector) -> None:
        """Take over what another collector has of other streams."""
        self._inputs.update(other._inputs)
        self._starts.update(other._starts)
        self._ranks.update(other._ranks)
        self._done += other._done
        for key, incident in other._incidents.items():
            if len(self._incidents) < MAX_INCIDENTS:
                self._incidents[key] = incident
            else:
                self._more_incidents += 1
        self._more_incidents += other._more_incidents
        self._seen += other._seen
        self._malformed = (self._malformed + other._malformed)[:MAX_MALFORMED]
        self._crashes = (self._crashes + other._crashes)[:MAX_CRASHES]

    def seen(self, kind: str, count: int) -> None:
        """Count records of a kind that came without an object each."""
        self._seen[kind] += count

    def opened(self, path: str) -> None:
        """An input that will be read: it is listed even where nothing comes of it."""
        self._inputs.setdefault(path, InputSummary(path))

    def damaged(self, path: str, damage: str) -> None:
        """What could not be read of an input."""
        self._inputs[path] = replace(self._inputs.get(path, InputSummary(path)), damage=damage)

    def summary(self) -> Summary:
        """The answer. May be asked at any time."""
        known = (*self._done, *map(self._run_summary, self._ranks.values()))
        every = [run for run in known if run.phases]  # others told of no more than their acceptance
        order = {stream: at for at, stream in enumerate(dict.fromkeys(run.stream for run in every))}
        runs = tuple(sorted(every, key=lambda run: (order[run.stream], run.run, _natural(run.rank or ""))))
        incidents = tuple(map(self._as_known_now, self._incidents.values()))
        out = bool(incidents) or any(phase.in_band is False for run in runs for phase in run.phases)
        verdict = "out_of_band" if out else "in_band" if runs else "no_data"
        return Summary(
            verdict=verdict,
            inputs=tuple(self._inputs.values()),
            runs=runs,
            incidents=incidents,
            more_incidents=self._more_incidents,
            seen=dict(self._seen),
            malformed=tuple(self._malformed),
            crashes=tuple(self._crashes),
        )

    def _read(self, item: Read) -> None:
        old = self._inputs.get(item.path, InputSummary(item.path))
        self._inputs[item.path] = replace(
            old,
            bytes=old.bytes + item.bytes,
            lines=old.lines + item.lines,
            records=old.records + item.matched,
            malformed=old.malformed + item.malformed,
        )

    def _started(self, item: RunStarted) -> None:
        """The stream's earlier runs are over: their figures are enough from here on."""
        over = [key for key in self._ranks if key[0] == item.stream and key[1] < item.run]
        for key in over:
            if len(self._done) < MAX_RUNS:
                self._done.append(self._run_summary(self._ranks[key]))
            del self._ranks[key]
        for start in [key for key in self._starts if key[0] == item.stream and key[1] < item.run]:
            del self._starts[start]
        self._starts[item.stream, item.run] = item
        self._crashed.discard(item.place.path)

    def _crash(self, item: Record) -> None:
        if item.place.path not in self._crashed and len(self._crashes) < MAX_CRASHES:
            self._crashed.add(item.place.path)
            self._crashes.append(item)

    def _cycle(self, cycle: Cycle) -> None:
        rank = self._rank(cycle.stream, cycle.run, cycle.rank)
        line, time, shares = cycle.place.line, cycle.time, cycle.shares
        phases = rank.phases
        for name, value in cycle.phases_s.items():
            phase = phases.get(name)
            if phase is None:
                if len(phases) == MAX_PHASES:
                    continue
                phase = phases[name] = Phase()
            phase.values.add(value)
            phase.course.add(line, time, value, outside=False)
            share = shares.get(name)
            if share is None:
                share = _share(cycle, name)
            if share is not None:
                phase.share += share
                phase.shared += 1
        cycle_s = cycle_time_s(cycle)
        if cycle_s is not None:
            rank.cycle_s.add(cycle_s)
        if cycle.conditions.batch_size is not None:
            rank.batch.add(cycle.conditions.batch_size)
        if cycle.tokens_per_cycle is not None:
            rank.tokens += cycle.tokens_per_cycle * cycle.cycles
            rank.token_cycles += cycle.cycles

    def _rank(self, stream: str, run: int, rank: str | None) -> Rank:
        known = self._ranks.get((stream, run, rank))
        if known is None:
            known = self._ranks[stream, run, rank] = Rank(stream, rank, run)
        return known

    def _judgement(self, item: Judgement) -> None:
        """A band's judgement follows its cycle."""
        if item.chart != "band":
            return
        rank = self._ranks.get((item.cycle.stream, item.cycle.run, item.cycle.rank))
        phase = rank.phases.get(item.phase) if rank else None
        if phase is None:
            return
        phase.judge_by(item.limits)
        phase.judged += 1
        if item.signal in {Signal.ABOVE, Signal.BELOW}:
            phase.outside += 1
            phase.course.bins[-1].outside += 1
            phase.stray = [*phase.stray[-(MOST_STRAY - 1) :], item.value]
            if phase.stretch is not None:
                phase.stretch.add(item.value)

    def _incident(self, item: Incident) -> None:
        self._follow(item)
        if item.key in self._incidents or len(self._incidents) < MAX_INCIDENTS:
            self._incidents[item.key] = item
        elif item.change == "opened":
            self._more_incidents += 1

    def _follow(self, item: Incident) -> None:
        """An incident says its level when it opens: what comes after is followed here, until it resolves."""
        rank = self._ranks.get((item.stream, item.run, item.rank))
        phase = rank.phases.get(item.phase) if rank else None
        if phase is None or item.kind != "out_of_band":
            return
        if item.change is Change.RESOLVED:
            phase.stretch = None
        elif item.change in {Change.OPENED, Change.WORSENED}:
            phase.stretch = Distribution()
            for value in phase.stray[-min(item.samples, MOST_STRAY) :]:
                phase.stretch.add(value)

    def _as_known_now(self, item: Incident) -> Incident:
        """An open incident with the level of all its samples."""
        rank = self._ranks.get((item.stream, item.run, item.rank))
        phase = rank.phases.get(item.phase) if rank else None
        if item.resolved or phase is None or phase.stretch is None or item.kind != "out_of_band":
            return item
        after = phase.stretch.quantile(0.5)
        ratio = after / (item.after / item.ratio) if item.after and item.ratio else item.ratio
        return replace(item, after=after, ratio=ratio, samples=max(item.samples, phase.stretch.count))

    def _run_summary(self, rank: Rank) -> RunSummary:
        start = self._starts.get((rank.stream, rank.run))
        tokens = rank.tokens / rank.token_cycles if rank.token_cycles else None
        steps = start.settings.get("speculative_num_steps", "None") if start else "None"
        plain = tokens == 1.0 and rank.phases.keys() == {"inferred_cycle"} and steps == "None"
        return RunSummary(
            stream=rank.stream,
            rank=rank.rank,
            run=rank.run,
            started=start.time if start else None,
            settings=start.settings if start else {},
            phases=tuple(_phase_summary(name, rank.phases[name]) for name in sorted(rank.phases, key=_order)),
            tokens_per_cycle=tokens,
            economics=economics(
                rank.cycle_s.quantile(0.5) if rank.cycle_s.count else None,
                tokens,
                None if plain else self.baseline,
                rank.batch.quantile(0.5) if rank.batch.count else None,
            ),
        )


def _phase_summary(name: str, phase: Phase) -> PhaseSummary:
    p05, median, p95 = phase.values.quantiles(0.05, 0.5, 0.95)
    return PhaseSummary(
        phase=name,
        samples=phase.values.count,
        median_s=median,
        mean_s=phase.values.mean,
        p05_s=p05,
        p95_s=p95,
        share=phase.share / phase.shared if phase.shared else None,
        band=phase.band,
        band_moves=phase.band_moves,
        in_band=2 * phase.outside <= phase.judged if phase.judged else None,
        outside=phase.outside,
        course=tuple(phase.course.bins),
    )


def _share(cycle: Cycle, phase: str) -> float | None:
    """A phase's share where the report gives none, but a total."""
    if phase in LAST_PHASES:
        return None
    total = cycle.phases_s.get("total_cycle")
    return cycle.phases_s[phase] / total if total else None


def _order(phase: str) -> tuple[int, int]:
    """In the order of a cycle: draft, verify, extend; others; the whole."""
    if phase in FIRST_PHASES:
        return 0, FIRST_PHASES.index(phase)
    return (2, LAST_PHASES.index(phase)) if phase in LAST_PHASES else (1, 0)


def _natural(rank: str) -> list[tuple[str, int]]:
    """`TP2` before `TP10`."""
    return [
        (word.rstrip("0123456789"), int(found[0]) if (found := _NUMBER.search(word)) else -1)
        for word in rank.split()
    ]
