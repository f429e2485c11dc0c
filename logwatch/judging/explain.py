"""Level 2: why something was called a change, or was not: `replay --explain`.

Runs the same charts over gathered runs again and writes down every candidate: what was tested, what it
scored, and which rule kept or dropped it. Beside the charts stand the rows of samples outside a band, and the
cuts of an offline segmentation as a second opinion. Imports numpy and ruptures.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from logwatch.judging.bands import Band, Rules, band_for
from logwatch.judging.charts import FIRST, SUSPECT
from logwatch.judging.compare import at_common_context
from logwatch.judging.conditions import bucket_of, bucket_text, samples_of
from logwatch.judging.judgements import Judgements, Tuned, side_of
from logwatch.judging.runs import Run, series_of
from logwatch.judging.segments import candidates
from logwatch.model import Change, Cycle, Judgement, Moment, RunStarted, Signal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SEGMENTED_FROM = 12


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that might have been a change.

    Attributes:
        test: `band`, `chart` or `segmentation`.
        where: Rank and conditions, for people.
        score: Band: samples in a row. Chart: evidence, 1 tells. Segmentation: size in standard errors.
        kept: Whether it is told as a change.
        rule: What kept or dropped it, with its figures.
    """

    run: int
    phase: str
    test: str
    where: str
    onset: Moment
    score: float
    kept: bool
    rule: str

    def __str__(self) -> str:
        verdict = "kept" if self.kept else "dropped"
        at = f"line {self.onset.line}" + (f" ({self.onset.time})" if self.onset.time else "")
        where = f" [{self.where}]" if self.where else ""
        what = f"run {self.run + 1} {self.phase}{where}, {at}"
        return f"{what}: {self.test} scored {self.score:.2f}: {verdict}, {self.rule}"


def explain(
    runs: Sequence[Run], bands: Sequence[Band], rules: Rules | None = None, tuned: Sequence[Tuned] = ()
) -> list[Candidate]:
    """Every candidate of these runs of one stream, in their order."""
    found: list[Candidate] = []
    judge = Judgements(bands, rules, tuned)
    for run in runs:
        number = run.number - 1
        started = (
            RunStarted(run.cycles[0].place, run.path, number, run.started, run.facts.settings)
            if run.cycles
            else None
        )
        if started is not None:
            list(judge.feed(started))
        found += _bands(number, run, bands)
        found += _charts(number, run, judge)
        found += _segments(number, run, (rules or Rules()).least_effect)
        found += _unjudged(number, run, judge)
    return found


def _bands(number: int, run: Run, bands: Sequence[Band]) -> Iterator[Candidate]:
    """Rows of samples on one side of a band."""
    rows: dict[str, tuple[Signal, Moment, int, Band]] = {}

    def told(key: str) -> Iterator[Candidate]:
        if key in rows:
            _, onset, count, band = rows.pop(key)
            kept = count >= band.open_after
            rule = f"{count} in a row outside, open_after = {band.open_after}"
            rank, phase = key.split("/", 1)
            yield Candidate(number, phase, "band", rank, onset, float(count), kept, rule)

    for cycle in run.cycles:
        for phase, value in cycle.phases_s.items():
            band = band_for(bands, phase, cycle.conditions)
            if band is None:
                continue
            key = f"{cycle.rank or '-'}/{phase}"
            side = side_of(value, band.limits(cycle.conditions))
            if key in rows and rows[key][0] is not side:
                yield from told(key)
            if side is not Signal.IN_BAND:
                onset, count = rows[key][1:3] if key in rows else (Moment(cycle.place.line, cycle.time), 0)
                rows[key] = (side, onset, count + 1, band)
    for key in list(rows):
        yield from told(key)


def _charts(number: int, run: Run, judge: Judgements) -> Iterator[Candidate]:
    """Stretches in which a chart's evidence passed half of what tells."""
    peaks: dict[str, tuple[float, Moment, str]] = {}
    for cycle in run.cycles:
        findings = [j for j in judge.feed(cycle) if isinstance(j, Judgement) and j.finding is not None]
        for phase, where, key in _keys(cycle):
            series = judge.memory.series.get(key)
            if series is None:
                continue
            memory = series.chart
            told = next((j.finding for j in findings if j.phase == phase), None)
            if told is not None and told.change is Change.OPENED:
                peaks.pop(key, None)
                size = told.after / told.before - 1 if told.before else 0.0
                rule = f"{told.kind} of {size:+.2%} over {told.samples} samples passed every gate"
                yield Candidate(number, phase, "chart", where, told.onset, 1.0, True, rule)
                continue
            top = max(memory.bank.state, default=0.0)
            if top >= SUSPECT:
                index = memory.bank.state.index(top)
                what = _statistic(memory.bank.kinds[index], memory.bank.size[index])
                held = memory.held_back if top >= 1.0 else "its evidence fell back"
                if key not in peaks or top > peaks[key][0]:
                    peaks[key] = (top, Moment(*memory.moment_at[index]), f"{what}: {held}")
            elif key in peaks and top == 0.0:
                yield _fell_back(number, phase, where, *peaks.pop(key))
    for key, peak in peaks.items():
        rank, phase, bucket = key.split("/", 2)
        yield _fell_back(number, phase, f"{rank} {bucket}".strip(), *peak)


def _fell_back(number: int, phase: str, where: str, score: float, onset: Moment, rule: str) -> Candidate:
    return Candidate(number, phase, "chart", where, onset, score, kept=False, rule=rule)


def _segments(number: int, run: Run, least_effect: float) -> Iterator[Candidate]:
    """The offline second opinion."""
    for phase, buckets in series_of(run).items():
        for bucket, samples in buckets.items():
            if len(samples) < SEGMENTED_FROM:
                continue
            known = [each.context for each in samples if each.context is not None]
            context = fmean(known) if len(known) == len(samples) else None
            values = np.array(at_common_context(samples, context))
            least = max(least_effect, 1e-6) * abs(float(np.median(values)))
            for step in candidates(values, least):
                first = samples[step.index]
                size = f"{step.after / step.before - 1:+.2%}" if step.before else ""
                rule = f"{size} {step.dropped or 'is sure and lasts'}".strip()
                onset = Moment(first.line, first.time)
                yield Candidate(
                    number, phase, "segmentation", bucket, onset, step.score, not step.dropped, rule
                )


def _unjudged(number: int, run: Run, judge: Judgements) -> Iterator[Candidate]:
    """Series that no chart has judged, and why."""
    if not run.cycles:
        return
    last = run.cycles[-1]
    onset = Moment(run.cycles[0].place.line, run.cycles[0].time)
    for phase, where, key in _keys(last):
        series = judge.memory.series.get(key)
        if series is not None and series.chart.base is None:
            rule = f"{series.samples} samples are too few to learn what is normal, {FIRST} are needed"
            yield Candidate(number, phase, "chart", where, onset, 0.0, kept=False, rule=rule)


def _keys(cycle: Cycle) -> Iterator[tuple[str, str, str]]:
    """(phase, where, key of its series) of everything in a cycle that a chart may judge."""
    for phase in samples_of(cycle):
        bucket = bucket_of(phase, cycle.conditions)
        if bucket is not None:
            text = bucket_text(bucket)
            yield phase, f"{cycle.rank or '-'} {text}".strip(), f"{cycle.rank or '-'}/{phase}/{text}"


def _statistic(kind: str, size: float) -> str:
    if kind == "level_shift":
        return f"level shift of {size:+.2f} deviations"
    return "doubled spread" if kind == "spread" else f"a second mode with {size:.0%} of the samples"
