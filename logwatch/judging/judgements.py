"""Level 2: cycles judged per phase and conditions.

Every item passes through unchanged and in order; a cycle is followed by its judgements: first those of the
bands, phase by phase, then those of the charts that found something. A chart is kept for each phase and
bucket of conditions, of one rank in each data-parallel group (the others step with it and would say the same);
it stays silent while it finds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logwatch.judging.bands import DEFAULT_BAND, Band, Rules, band_for
from logwatch.judging.charts import Chart, ChartMemory
from logwatch.judging.conditions import TOKENS, bucket_of, bucket_text, group_of, samples_of, telling
from logwatch.model import Change, Cycle, Finding, Item, Judgement, Limits, RunStarted, Signal, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from logwatch.judging.baseline import Baseline

YEAR_S = 365.25 * 86400
USUAL_RATE = 1 / 3
"""Samples per second and series where the log has no times: a report of 100 cycles of 30 ms."""

MOST_SERIES = 128
MOST_GROUPS = 64
FORGOTTEN = 20_000
"""Samples of all series after which one that had none may make room."""

TOKENS_EFFECT = 0.10
"""Tokens per cycle follow what is asked; a tenth less is news, a hundredth is not."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """A baseline that `logwatch tune` learnt: charts begin with it instead of learning.

    Attributes:
        phase: The phase.
        bucket: Its conditions, as `bucket_text` gives them.
    """

    phase: str
    bucket: str
    baseline: Baseline


@dataclass
class SeriesMemory:
    """One chart, and how often its series is sampled; `seen` is when it last was, in samples of all series."""

    chart: ChartMemory = field(default_factory=ChartMemory)
    samples: int = 0
    first_s: float | None = None
    last_s: float | None = None
    seen: int = 0


@dataclass
class JudgementsMemory:
    """What `Judgements` remembers.

    Attributes:
        series: By `rank/phase/bucket`, the least recently seen first.
        settings: The run's settings that can make a difference.
        speakers: By data-parallel group the rank whose samples the charts see.
        samples: Samples of all series.
    """

    series: dict[str, SeriesMemory] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    speakers: dict[str, str] = field(default_factory=dict)
    samples: int = 0


class Judgements:
    """Judges each phase of each cycle by the band that holds under its conditions, and by its chart.

    Args:
        bands: What the user calls tuned; a phase without a band is judged by its chart alone.
        rules: For the charts: false alarms per year and the smallest effect.
        tuned: Baselines that charts begin with.
    """

    def __init__(
        self,
        bands: Sequence[Band] = (DEFAULT_BAND,),
        rules: Rules | None = None,
        tuned: Sequence[Tuned] = (),
    ) -> None:
        self.bands = tuple(bands)
        self.rules = rules or Rules()
        self.tuned = {(each.phase, each.bucket): each.baseline for each in tuned}
        self.memory = JudgementsMemory()

    def feed(self, item: Item) -> Iterator[Item]:
        """Pass the item on and, after a cycle, its judgements."""
        yield item
        if isinstance(item, Cycle):
            yield from self.by_bands(item)
            if item.complete and not item.warm_up and self._speaks(item.rank):
                yield from self._by_charts(item)
        elif isinstance(item, RunStarted):
            self._run(item)

    def finish(self) -> Iterator[Item]:
        """Nothing is held back."""
        return iter(())

    def by_bands(self, cycle: Cycle) -> Iterator[Judgement]:
        """What the bands say of each phase."""
        for phase, value in cycle.phases_s.items():
            band = band_for(self.bands, phase, cycle.conditions)
            if band is not None:
                limits = band.limits(cycle.conditions)
                yield Judgement(cycle, phase, value, "band", value, limits, side_of(value, limits))

    def _speaks(self, rank: str | None) -> bool:
        """Whether this rank's samples are its group's."""
        speakers, group = self.memory.speakers, group_of(rank)
        name = rank or ""
        if group in speakers or len(speakers) < MOST_GROUPS:
            speakers[group] = min(speakers.get(group, name), name)
        return speakers.get(group) == name

    def _by_charts(self, cycle: Cycle) -> Iterator[Judgement]:
        for phase, value in samples_of(cycle).items():
            bucket = bucket_of(phase, cycle.conditions)
            if bucket is None:
                continue
            series = self._series(cycle, phase, bucket_text(bucket))
            if series is None:
                continue
            context = cycle.conditions.context_tokens
            finding = self.charted(series, phase, value, cycle.place.line, cycle.time, context)
            if finding is not None:
                yield judgement_of(cycle, phase, value, finding, series.chart)

    def _series(self, cycle: Cycle, phase: str, bucket: str) -> SeriesMemory | None:
        """The series' memory, moved to the end; a new one needs room that a forgotten one leaves."""
        known = self.memory.series
        self.memory.samples += 1
        key = f"{cycle.rank or '-'}/{phase}/{bucket}"
        series = known.pop(key, None)
        if series is None:
            series = SeriesMemory()
            baseline = self.tuned.get((phase, bucket))
            if baseline is not None:
                self.chart(series, phase).adopt(baseline)
            if len(known) >= MOST_SERIES:
                oldest = next(iter(known))
                if self.memory.samples - known[oldest].seen < FORGOTTEN:
                    return None
                del known[oldest]
        series.seen = self.memory.samples
        known[key] = series
        return series

    def charted(
        self,
        series: SeriesMemory,
        phase: str,
        value: float,
        line: int,
        time: str | None,
        context: float | None,
    ) -> Finding | None:
        """Let a series' chart take one sample; what it found that is worth a word."""
        series.samples += 1
        if not series.chart.frozen:
            now = seconds_of(time)
            if now is not None:
                series.first_s = now if series.first_s is None else series.first_s
                series.last_s = now
        chart = self.chart(series, phase)
        finding = chart.update(value, line, time, None if phase == TOKENS else context)
        series.chart = chart.memory
        return None if finding is not None and phase == TOKENS and finding.direction == "high" else finding

    def chart(self, series: SeriesMemory, phase: str) -> Chart:
        """A series' chart, as it is to go on."""
        least = TOKENS_EFFECT if phase == TOKENS else self.rules.least_effect
        run_length = (
            0.0 if series.chart.frozen else self._run_length(series)
        )  # no bank will be built any more
        return Chart(run_length, least, self.rules.least_samples, series.chart)

    def _run_length(self, series: SeriesMemory) -> float:
        """Samples of one series between two false alarms, that all series together keep to the budget."""
        rate = USUAL_RATE
        if series.first_s is not None and series.last_s is not None and series.samples > 1:
            rate = (series.samples - 1) / max(series.last_s - series.first_s, 1.0)
        rate = min(max(rate, 1e-4), 100.0)
        return max(rate * YEAR_S * self.rules.series / self.rules.false_alarms_per_year, 1e4)

    def _run(self, item: RunStarted) -> None:
        """A run with other settings is another server: its baselines begin anew."""
        settings = telling(item.settings)
        if settings and self.memory.settings and settings != self.memory.settings:
            self.memory.series = {}
        self.memory.settings = settings or self.memory.settings


def side_of(value: float, limits: Limits) -> Signal:
    """On which side of the limits a value lies; the limits themselves are inside."""
    if value > limits.high:
        return Signal.ABOVE
    return Signal.BELOW if value < limits.low else Signal.IN_BAND


def judgement_of(cycle: Cycle, phase: str, value: float, finding: Finding, memory: ChartMemory) -> Judgement:
    """What a chart found at a cycle; its memory is as it found it."""
    over = finding.change is Change.RESOLVED
    signal = Signal.IN_BAND if over else Signal.ABOVE if finding.direction == "high" else Signal.BELOW
    margin = 4 * memory.base.scale if memory.base else 0.0
    centre = finding.before
    limits = Limits(centre - margin, centre, centre + margin)
    statistic = max(memory.bank.state, default=0.0)
    return Judgement(cycle, phase, value, finding.kind, statistic, limits, signal, finding)
