"""Level 1: the bank of capped CUSUMs that watches one series, and its thresholds.

Each statistic sums the evidence for one kind of change (a shift of one size, doubled variance, more
outliers), never falls below 0, and fires at 1: all are divided by their threshold. No single sample may add
more than a k-th of it, so that fewer than k samples cannot fire. Thresholds follow from the average run
length to a false alarm alone, corrected for the series' own tails (Cramer's root of its innovations), for
its long memory, and for the error that the baseline has from having been learnt from so many samples and no
more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

from logwatch.judging.baseline import BIN, BINS, BLOCKS, CLIP, Baseline

WINSOR = 2.5
"""Innovations count up to here for a shift's evidence: of little cost on normal noise, of much use under
spikes."""

LARGEST = 2.0
SIZES = 8
SPREAD_RUN = 5
SPREAD_NEEDS = 60.0
"""Samples to learn from, a unit of budget, until the scale is known well enough to watch for spread."""

SPREAD_EASE = 4.0
"""The spread's evidence overshoots by about this: found by simulation, see `benchmarks/detection.py`."""

SHIFT_RUN = 8
"""Samples that a shift's evidence needs at least; the gate of `firing.py` demands the user's own number."""

HIT_RATES = (0.03, 0.10)
EASE = math.log(3)
"""Neighbouring sizes fire together: their false alarms are fewer than their sum by about this factor."""

LEAST_ROOT = 0.2
"""Below this Cramer root a statistic would need so much evidence that it is switched off."""


@dataclass
class Bank:
    """Thresholds and states, index by index: first `shifts` of shifts, then of spread, then of outliers.

    Attributes:
        kinds: `level_shift`, `spread`, `more_high`, `more_low`.
        slope, drop: An innovation u adds `slope * u - drop` (outliers: `slope` for a hit, `-drop` for none).
        cap: Most that one sample may add; a shift's sample `shift_cap`, its outliers `outlier_cap`.
        state: Evidence, 1 fires.
        origin: Number of the sample with which the evidence began, for each.
        smallest: Smallest shift watched for, in scales.
        spread: Index of the spread's statistic, -1 where there is none.
        modes: Whether any evidence of a second mode is above 0.
        root: Deviation of innovations, in scales; `far` where a second mode begins.
    """

    shifts: int = 0
    kinds: list[str] = field(default_factory=list)
    size: list[float] = field(default_factory=list)
    slope: list[float] = field(default_factory=list)
    drop: list[float] = field(default_factory=list)
    cap: list[float] = field(default_factory=list)
    state: list[float] = field(default_factory=list)
    origin: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    centre: float = 0.0
    unit: float = 1.0
    spread_unit: float = 1.0
    smallest: float = 0.0
    root: float = 1.0
    far: float = 0.0
    shift_cap: float = 1.0
    outlier_cap: float = 1.0
    spread: int = -1
    modes: bool = False


def build(baseline: Baseline, run_length: float, least_effect: float, least_samples: int) -> Bank:
    """The bank for one baseline.

    Args:
        baseline: What is normal.
        run_length: Samples to a false alarm of the whole bank.
        least_effect: Smallest shift worth finding, in the baseline's scales.
        least_samples: Fewest samples on which a shift may fire.
    """
    shape = _Shape.of(baseline)
    bank = Bank(centre=shape.centre, unit=shape.unit, spread_unit=shape.spread_unit)
    bank.root, bank.far = math.sqrt(1 - baseline.phi**2), baseline.far
    run = min(SHIFT_RUN, least_samples)
    bank.shift_cap, bank.outlier_cap = 1 / (run - 0.5), 1 / (least_samples - 0.5)
    count = 2 * SIZES + 1 + 2 * len(HIT_RATES)
    budget = math.log(run_length * count)
    gain = math.sqrt((1 - baseline.phi) / (1 + baseline.phi)) / shape.unit
    smallest = max(least_effect * gain, _smallest(budget, shape))
    for theta in _grid(min(smallest, LARGEST)):
        for sign in (1.0, -1.0):
            goal = budget - EASE - math.log(2 / theta**2) - 1.166 * theta
            error = 2 / (theta**2 * shape.samples) + shape.loose
            h = _with_error(goal, error)
            if h is None:
                continue
            increments = [
                (sign * theta * u - theta**2 / 2, p, run if 0 < i < BINS - 1 else least_samples)
                for i, (u, p) in enumerate(shape.shift)
            ]
            found = _settle(h, increments)
            if found is None:
                continue
            h = found * _memory(baseline, h, theta)
            _add(bank, "level_shift", sign * theta, sign * theta / h, theta**2 / 2 / h, run, h)
    bank.shifts = len(bank.kinds)
    bank.smallest = smallest / gain
    _add_spread(bank, budget, shape)
    _add_outliers(bank, budget, baseline)
    bank.state = [0.0] * len(bank.kinds)
    bank.origin = [0] * len(bank.kinds)
    return bank


def needed_samples(run_length: float, least_effect: float, phi: float) -> int:
    """Samples to learn from until shifts of `least_effect` scales, and more spread, can be watched for."""
    budget = math.log(run_length * (2 * SIZES + 1 + 2 * len(HIT_RATES)))
    theta = min(max(least_effect * math.sqrt((1 - phi) / (1 + phi)), 1e-3), LARGEST)
    return math.ceil(budget * max(13.0 / theta**2, SPREAD_NEEDS))


def weigh_shift(bank: Bank, e: float, outlier: int, begun: list[int]) -> float:
    """Add an innovation to the shifts' evidence; the largest. Indices whose evidence begins go to `begun`.

    Outliers count for less: fewer of them than a shift needs samples cannot tell.
    """
    state, slope, drop = bank.state, bank.slope, bank.drop
    cap = bank.outlier_cap if outlier else bank.shift_cap
    u = ((WINSOR if e > WINSOR else max(e, -WINSOR)) - bank.centre) / bank.unit
    top = 0.0
    for index in range(bank.shifts):  # the hot path: comparisons instead of min and max
        gain = slope[index] * u - drop[index]
        old = state[index]
        if gain > 0.0:
            if gain > cap:  # noqa: PLR1730 - a call here costs a third of the loop
                gain = cap
            if old == 0.0:
                begun.append(index)
        elif old == 0.0:
            continue
        new = old + gain
        if new > top:  # noqa: PLR1730 - as above
            top = new
        state[index] = new if new > 0.0 else 0.0  # noqa: FURB136 - as above
    return top


def forget_outliers(bank: Bank, before: list[float]) -> None:
    """Take back what a stretch of outliers added to the shifts' evidence."""
    for index in range(bank.shifts):
        bank.state[index] = min(bank.state[index], before[index])


def weigh_rest(bank: Bank, e: float, sides: tuple[int, int], began: bool, begun: list[int]) -> float:
    """The same for spread and a second mode.

    `sides` are those of an outlier, and of a value where a second mode would be: 1, -1 or 0. `began` says
    that the sample before was not there.
    """
    outlier, side = sides
    top = _weigh_spread(bank, e, begun) if bank.spread >= 0 and not outlier else 0.0
    if not side and not bank.modes:
        return top
    state = bank.state
    bank.modes = False
    for index in range(bank.shifts + (bank.spread >= 0), len(state)):
        if side == (1 if bank.kinds[index] == "more_high" else -1):
            gain = bank.slope[index] if began else 0.0
        else:
            gain = -bank.drop[index]
        old = state[index]
        new = max(old + min(gain, bank.cap[index]), 0.0)
        if old == 0.0 and new > 0.0:
            begun.append(index)
        state[index] = new
        bank.modes = bank.modes or new > 0.0
        top = max(top, new)
    return top


def _weigh_spread(bank: Bank, e: float, begun: list[int]) -> float:
    index = bank.spread
    old = bank.state[index]
    v = e / bank.spread_unit  # squared by multiplying, as `columns_charts` does: a power may round otherwise
    new = old + min(bank.slope[index] * (v * v) - bank.drop[index], bank.cap[index])
    if new <= 0.0:
        new = 0.0
    elif old == 0.0:
        begun.append(index)
    bank.state[index] = new
    return new


@dataclass(frozen=True, slots=True)
class _Shape:
    """The innovations' distribution: (standardised value, probability) as the statistics see it."""

    samples: int
    centre: float
    unit: float
    spread_unit: float
    shift: list[tuple[float, float]]
    spread: list[tuple[float, float]]
    loose: float
    spread_loose: float

    @classmethod
    def of(cls, baseline: Baseline) -> _Shape:
        n = max(baseline.samples, 2)
        counts = baseline.bins if len(baseline.bins) == BINS else _normal_bins(n)
        total = sum(counts) + 2
        weights = [count / total for count in counts]
        weights[0] += 1 / total  # one more outlier on either side than was seen
        weights[-1] += 1 / total
        points = [(index * BIN - CLIP) * baseline.bin_scale + baseline.bin_shift for index in range(BINS)]
        clipped = [min(max(point, -WINSOR), WINSOR) for point in points]
        # Outliers are left out here: what they add is taken back when they go away.
        inner = sum(weights[1:-1]) or 1.0
        pairs = list(zip(weights[1:-1], clipped[1:-1], strict=True))
        centre = sum(w * u for w, u in pairs) / inner
        unit = math.sqrt(sum(w * (u - centre) ** 2 for w, u in pairs) / inner) or 1.0
        second = sum(w * p * p for w, p in zip(weights[1:-1], points[1:-1], strict=True)) / inner or 1.0
        fourth = sum(w * p**4 for w, p in zip(weights[1:-1], points[1:-1], strict=True)) / inner
        kurtosis = max(fourth / second**2, 1.5)
        return cls(
            samples=n,
            centre=centre,
            unit=unit,
            spread_unit=math.sqrt(second),
            shift=[((u - centre) / unit, w) for w, u in zip(weights, clipped, strict=True)],
            spread=[
                (p * p / second if 0 < i < BINS - 1 else -1.0, w)
                for i, (w, p) in enumerate(zip(weights, points, strict=True))
            ],
            loose=((kurtosis - 1) / 2 + 2 * (1 - baseline.phi**2)) / n,
            spread_loose=5.3 * (kurtosis - 1) / n,
        )


def _normal_bins(total: int) -> tuple[int, ...]:
    """What normal innovations would have given."""
    edges = [(index - 0.5) * BIN - CLIP for index in range(1, BINS)]
    below = [0.0, *(0.5 * math.erfc(-edge / math.sqrt(2)) for edge in edges), 1.0]
    return tuple(round(total * (b - a)) for a, b in pairwise(below))


def _grid(smallest: float) -> list[float]:
    """Geometric sizes from `smallest` to `LARGEST`, at most `SIZES`, never nearer than a third."""
    if smallest >= LARGEST:
        return [LARGEST]
    count = min(SIZES, max(2, math.ceil(math.log(LARGEST / smallest) / math.log(4 / 3)) + 1))
    ratio = (LARGEST / smallest) ** (1 / (count - 1))
    return [smallest * ratio**index for index in range(count)]


def _smallest(budget: float, shape: _Shape) -> float:
    return math.sqrt(13.0 * budget / shape.samples)


def _with_error(goal: float, error: float) -> float | None:
    """Threshold at which the average over the baseline's error still keeps `goal`: h - error * h^2 = goal."""
    goal = max(goal, 3.0)
    rest = 1 - 4 * error * goal
    return None if rest < 0.05 else (1 - math.sqrt(rest)) / (2 * error)


def _settle(h: float, increments: list[tuple[float, float, int]]) -> float | None:
    """Threshold corrected by Cramer's root of the capped increments; the caps depend on it in turn.

    Increments are (evidence, probability, samples that such evidence needs at least).
    """
    found = h
    for _ in range(3):
        root = _cramer_root([(min(inc, found / (run - 0.5)), p) for inc, p, run in increments])
        if root < LEAST_ROOT:
            return None
        found = h / root
    return found


def _cramer_root(increments: list[tuple[float, float]]) -> float:
    """The positive w with E exp(w * increment) = 1, at most 2; 0 where increments do not fall on average."""
    if sum(p * inc for inc, p in increments) >= 0:
        return 0.0
    low, high = 0.0, 2.0
    if sum(p * math.exp(high * inc) for inc, p in increments) < 1:
        return high
    for _ in range(22):
        middle = (low + high) / 2
        if sum(p * math.exp(middle * inc) for inc, p in increments) < 1:
            low = middle
        else:
            high = middle
    return low


def _memory(baseline: Baseline, h: float, theta: float) -> float:
    """Factor for long memory at the lengths over which this statistic collects its evidence."""
    horizon = 2 * h / theta**2
    found = [
        excess
        for excess, length in zip(baseline.memory, BLOCKS, strict=True)
        if length <= max(2 * horizon, BLOCKS[0])
    ]
    return max(1.0, *found)


def _add_spread(bank: Bank, budget: float, shape: _Shape) -> None:
    h = _with_error(budget - SPREAD_EASE, shape.spread_loose)
    if h is None:
        return
    increments = [(v / 4 - math.log(2) / 2 if v >= 0 else 0.0, p, SPREAD_RUN) for v, p in shape.spread]
    found = _settle(h, increments)
    if found is not None:
        bank.spread = len(bank.kinds)
        _add(bank, "spread", 2.0, 0.25 / found, math.log(2) / 2 / found, SPREAD_RUN, found)


def _add_outliers(bank: Bank, budget: float, baseline: Baseline) -> None:
    n = max(baseline.samples, 1)
    for kind, hits in (("more_high", baseline.hits_high), ("more_low", baseline.hits_low)):
        usual = (hits + 2 * math.sqrt(hits + 1) + 1) / n
        for least in HIT_RATES:
            rate = min(max(least, 3 * usual), 0.5)
            if rate < 1.5 * usual:
                continue
            hit, miss = math.log(rate / usual), -math.log((1 - rate) / (1 - usual))
            _add(bank, kind, rate, hit / budget, miss / budget, SPREAD_RUN, budget)


def _add(bank: Bank, kind: str, size: float, slope: float, drop: float, run: int, threshold: float) -> None:
    bank.kinds.append(kind)
    bank.size.append(size)
    bank.slope.append(slope)
    bank.drop.append(drop)
    bank.cap.append(1 / (run - 0.5))
    bank.threshold.append(threshold)
