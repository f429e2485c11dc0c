"""Level 2: bands and baselines learnt from logs that are known to be good.

A band is as wide as the false alarms allow: `open_after` samples in a row outside it by chance,
autocorrelation counted in, as often as asked for; never narrower than what matters, nor than the rounding.
Where the context moves a phase, the band moves with it, and is wider by what a report's own tokens blur its
context. A log that holds a change inside, or that differs from the others, is refused.

Imports numpy, scipy and ruptures: for commands, never on the watch path.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, median, pstdev

import numpy as np
from scipy import stats

from logwatch.errors import BandError, Problem
from logwatch.judging.bands import Band
from logwatch.judging.baseline import Baseline, Learning, baseline_of, grid_step, inliers, learn, robust_line
from logwatch.judging.charts import FIRST
from logwatch.judging.compare import at_common_context, compare
from logwatch.judging.conditions import TOKENS
from logwatch.judging.judgements import USUAL_RATE, YEAR_S, Tuned
from logwatch.judging.runs import Observed, Run, series_of
from logwatch.judging.segments import SHORTEST, noise, steps
from logwatch.model import seconds_of

FEWEST = 8
WIDEST = 0.5
"""Half a band's width over its centre, beyond which it tells nothing."""
SURE_SLOPE = 4.0
OPEN_AFTER = 3
WIDEST_Z = 12.0


@dataclass(frozen=True, slots=True)
class TunedBand:
    """A band with where it comes from."""

    band: Band
    samples: int
    level_s: float
    deviation_s: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was learnt.

    Attributes:
        skipped: (phase, conditions, why) of what has no band.
    """

    bands: tuple[TunedBand, ...]
    baselines: tuple[Tuned, ...]
    skipped: tuple[tuple[str, str, str], ...]


def tune(runs: list[Run], false_alarms_per_year: float = 1.0, floor: float = 0.02) -> Tuning:
    """Learn from known-good runs.

    Raises:
        BandError: A run holds a change inside or differs from the others (every place), or is too short.
    """
    each = [series_of(run) for run in runs]
    problems = [
        problem
        for run, series in zip(runs, each, strict=True)
        for phase, buckets in series.items()
        for samples in buckets.values()
        for problem in _changes(run, phase, samples, floor)
    ]
    if not problems:
        problems = list(_disagreements(runs, floor))
    if problems:
        raise BandError(*problems)
    bands: list[TunedBand] = []
    baselines: list[Tuned] = []
    skipped: list[tuple[str, str, str]] = []
    for (phase, bucket), samples in _pooled(each).items():
        if _is_sum(phase, each):
            continue
        if phase != TOKENS:
            found = _band(phase, bucket, samples, false_alarms_per_year, floor)
            if isinstance(found, str):
                skipped.append((phase, bucket, found))
            else:
                bands.append(found)
        if len(samples) >= FIRST:
            baselines.append(Tuned(phase, bucket, _baseline(samples)))
    if not bands:
        where = ", ".join(run.label for run in runs)
        hint = f"{FEWEST} samples at equal conditions are needed; give a longer, steady log"
        why = [f"no band for {_named(*each[:2])}: {each[2]}" for each in skipped]
        raise BandError(*(Problem(where, what, hint) for what in why or ["no samples at equal conditions"]))
    return Tuning(tuple(bands), tuple(baselines), tuple(skipped))


def _named(phase: str, bucket: str) -> str:
    return f"{phase} at {bucket or 'any conditions'}"


def _changes(run: Run, phase: str, samples: list[Observed], floor: float) -> list[Problem]:
    if phase == TOKENS or len(samples) < FEWEST:
        return []
    known = [each.context for each in samples if each.context is not None]
    context = fmean(known) if len(known) == len(samples) else None
    values = np.array(at_common_context(samples, context))
    least = max(floor, 0.02) * abs(float(np.median(values)))
    return [
        Problem(
            f"{run.path}:{samples[step.index].line}",
            f"{phase} changes here from {step.before * 1e3:.2f} ms to {step.after * 1e3:.2f} ms, so this log "
            "is not known good as a whole",
            "give only logs, or runs (`LOG#2`), from before the change",
        )
        for step in steps(values, least, min(SHORTEST, len(samples) // 2))
    ]


def _disagreements(runs: list[Run], floor: float) -> list[Problem]:
    found = []
    for other in runs[1:]:
        for change in compare(runs[0], other, floor=floor).phases:
            if change.verdict == "changed" and change.phase != TOKENS:
                what = (
                    f"{change.phase} takes {change.after * 1e3:.2f} ms here, {change.before * 1e3:.2f} ms in "
                    f"{runs[0].label}"
                )
                found.append(Problem(other.label, what, "tune each kind of server by itself"))
    return found


def _pooled(each: list[dict[str, dict[str, list[Observed]]]]) -> dict[tuple[str, str], list[Observed]]:
    pooled: dict[tuple[str, str], list[Observed]] = {}
    for series in each:
        for phase, buckets in series.items():
            for bucket, samples in buckets.items():
                pooled.setdefault((phase, bucket), []).extend(samples)
    return pooled


def _is_sum(phase: str, each: list[dict[str, dict[str, list[Observed]]]]) -> bool:
    """Whether its parts have bands of their own."""
    return phase == "total_cycle" and any("target_verify" in series for series in each)


def _band(
    phase: str, bucket: str, samples: list[Observed], false_alarms_per_year: float, floor: float
) -> TunedBand | str:
    """The band, or why there is none."""
    n = len(samples)
    if n < FEWEST:
        return f"{n} samples are too few"
    values = [each.value for each in samples]
    contexts = [each.context for each in samples if each.context is not None]
    step = grid_step(values)
    slope = 0.0
    if len(contexts) == n:
        slope, error = robust_line(values, contexts, step)
        slope = slope if slope > SURE_SLOPE * error else 0.0
    offsets = contexts if slope else [0.0] * n
    flat = [value - slope * offset for value, offset in zip(values, offsets, strict=True)]
    kept = [flat[index] for index in inliers(flat, step)]
    level, deviation = fmean(kept), max(pstdev(kept), step / math.sqrt(12))
    _, phi = noise(np.array(flat))
    per_year = _rate(samples) * YEAR_S
    independent = 1 + (OPEN_AFTER - 1) * (1 - phi)
    chance = min((false_alarms_per_year / (2 * per_year)) ** (1 / independent), 0.2)
    z = min(float(stats.t.isf(chance, df=max(n - 2, 1))), WIDEST_Z)
    centre = level + slope * fmean(offsets)
    blur = slope * median([each.tokens for each in samples])
    half = max(z * deviation * math.sqrt(1 + 1 / n) + blur, floor * centre, 1.5 * step)
    if half > WIDEST * centre:
        return (
            f"its {n} samples scatter too widely ({centre * 1e3:.2f} ms, deviation {deviation * 1e3:.2f} ms)"
        )
    band = Band(
        phase=phase,
        low_s=_rounded(max(level - half, 0.0)),
        high_s=_rounded(level + half),
        open_after=OPEN_AFTER,
        when=_when(bucket),
        severity="critical" if phase in {"target_verify", "total_cycle", "inferred_cycle"} else "warning",
        per_context_token_s=float(f"{slope:.4g}"),
    )
    return TunedBand(band, n, centre, deviation)


def _baseline(samples: list[Observed]) -> Baseline:
    memory = Learning()
    for each in samples:
        learn(memory, each.value, each.context)
    return baseline_of(memory)


def _rate(samples: list[Observed]) -> float:
    """Samples per second; what is usual where the log has no times."""
    times = [at for each in samples if (at := seconds_of(each.time)) is not None]
    if len(times) < 2 or times[-1] <= times[0]:
        return USUAL_RATE
    return min(max((len(times) - 1) / (times[-1] - times[0]), 1e-4), 100.0)


def _when(bucket: str) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    for part in filter(None, bucket.split(",")):
        name, _, value = part.partition("=")
        found[name] = value if name == "batch_size" else int(value)
    return found


def _rounded(seconds: float) -> float:
    """To a thousandth of a millisecond: more digits would only pretend."""
    return round(seconds, 6)
