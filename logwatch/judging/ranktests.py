"""Level 1: two samples compared by ranks, honest about autocorrelation, rounding and few samples.

Equal logs differ by chance more than independent samples would: neighbouring reports are alike. The variance
of the rank statistic is therefore taken with the integrated autocorrelation time of the ranks (Geyer's
initial positive sequence). Strata (batch sizes) are compared within, and their evidence is added (van
Elteren). The shift is Hodges and Lehmann's, the median of all pairwise differences; its interval inverts the
same test. Values on a grid are to be spread over their grid step before, seeded, so that ties neither hide
nor fake a shift.

Imports numpy and scipy: for commands, never on the watch path.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = NDArray[np.float64]
EXACT_BELOW = 9
MOST_EXACT = 200_000
CORRELATED = 1.5
HIDDEN, HIDDEN_MORE = 4.0, 40.0
"""Found by simulation: equal AR(1) series of 30 to 2,000 samples, see `benchmarks/README.md`."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """Two samples taken under equal conditions, each in its order of time."""

    a: Array
    b: Array


@dataclass(frozen=True, slots=True)
class Difference:
    """How b differs from a.

    Attributes:
        shift: Hodges-Lehmann shift, b less a.
        low, high: Its interval.
        time_a, time_b: Autocorrelation times, in samples; n / time samples count as independent.
    """

    shift: float
    low: float
    high: float
    time_a: float
    time_b: float


def spread_over_grid(values: Array, step: float, seed: int) -> Array:
    """Rounded values spread over their grid step."""
    return values + np.random.default_rng(seed).uniform(-step / 2, step / 2, len(values)) if step else values


def difference(stratum: Stratum, confidence: float = 0.95) -> Difference:
    """Shift of b against a with its interval; at least 2 values each."""
    a, b = stratum.a, stratum.b
    time_a, time_b = _times(stratum)
    freedom = max(len(a) / time_a + len(b) / time_b - 2, 1.0)
    margin = float(stats.t.ppf(0.5 + confidence / 2, freedom)) * _deviation(len(a), len(b), time_a, time_b)
    low, high = (quantile_of_differences(a, b, share) for share in (0.5 - margin, 0.5 + margin))
    return Difference(quantile_of_differences(a, b, 0.5), low, high, time_a, time_b)


def p_value(strata: Sequence[Stratum]) -> float:
    """Two-sided rank test over strata (van Elteren): exact for few samples, else by autocorrelation times."""
    few = all(min(len(s.a), len(s.b)) < EXACT_BELOW and max(_times(s)) < CORRELATED for s in strata)
    if few and math.prod(len(s.a) * len(s.b) + 1 for s in strata) <= MOST_EXACT:
        return _exact(strata)
    score = variance = 0.0
    freedom = -2.0
    for s in strata:
        n, m = len(s.a), len(s.b)
        times = _times(s)
        freedom += n / times[0] + m / times[1]
        weight = n * m / (n + m + 1)
        above = _pairs_above(s) / (n * m)
        score += weight * (above - 0.5)
        variance += (weight * _deviation(n, m, *times)) ** 2
    return min(float(2 * stats.t.sf(abs(score) / math.sqrt(variance), max(freedom, 1.0))), 1.0)


def quantile_of_differences(a: Array, b: Array, share: float) -> float:
    """The `share` quantile of all b - a, without forming them: bisection on how many lie below."""
    a, b = np.sort(a), np.sort(b)
    low, high = float(b[0] - a[-1]), float(b[-1] - a[0])
    goal = min(max(share, 0.0), 1.0) * len(a) * len(b) - 1e-9
    for _ in range(60):
        middle = (low + high) / 2
        if _pairs_at_most(a, b, middle, ordered=True) < goal:
            low = middle
        else:
            high = middle
        if high - low <= 1e-12 * max(abs(low), abs(high)):
            break
    return (low + high) / 2


def correlation_time(values: Array) -> float:
    """Integrated autocorrelation time, at least 1 (Geyer's initial positive sequence).

    Taking the mean out of few samples hides autocorrelation, and short sums of it scatter: the time is raised by
    its own share of the samples, and by the share's square.
    """
    n = len(values)
    centred = values - values.mean()
    power = float(centred @ centred)
    if n < 8 or power <= 0:
        return 1.0
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    rho = np.fft.irfft(spectrum * np.conj(spectrum), size)[:n] / power
    total, lag = 1.0, 1
    while lag + 1 < n // 2:
        pair = float(rho[lag] + rho[lag + 1])
        if pair <= 0:
            break
        total += 2 * pair
        lag += 2
    if lag == 1 and rho[1] > 0:
        total += 2 * float(rho[1])
    total = max(total, 1.0)
    if total == 1.0:
        return total
    share = total / n
    return min(total * (1 + HIDDEN * share + HIDDEN_MORE * share * share), n / 2)


def shape_p_value(a: Array, b: Array, times: tuple[float, float]) -> float:
    """Kolmogorov-Smirnov on the centred samples, counting only independent ones: spread, or a second mode."""
    a, b = a - np.median(a), b - np.median(b)
    n, m = len(a) / times[0], len(b) / times[1]
    distance = float(stats.ks_2samp(a, b, method="asymp").statistic)
    return float(stats.kstwobign.sf(distance * math.sqrt(n * m / (n + m))))


def _times(stratum: Stratum) -> tuple[float, float]:
    a, b = stratum.a, stratum.b
    return correlation_time(_placements(a, b)), correlation_time(_placements(b, a))


def _deviation(n: int, m: int, time_a: float, time_b: float) -> float:
    """Standard deviation of the share of pairs with b above a, if both samples are alike."""
    return math.sqrt((time_a / n + time_b / m) / 12 * (1 + 1 / (n + m)))


def _exact(strata: Sequence[Stratum]) -> float:
    """Share of all assignments, within strata, that are at least as far out as the one found."""
    total = {0.0: 1.0}
    found = 0.0
    for s in strata:
        n, m = len(s.a), len(s.b)
        weight = 1 / (n + m + 1)
        u = _pairs_above(s)
        found += weight * (u - n * m / 2)
        counts = _rank_sum_counts(n, m)
        new: dict[float, float] = {}
        for sum_so_far, share in total.items():
            for value, ways in enumerate(counts):
                key = round(sum_so_far + weight * (value - n * m / 2), 9)
                new[key] = new.get(key, 0.0) + share * ways / sum(counts)
        total = new
    return min(sum(share for value, share in total.items() if abs(value) >= abs(found) - 1e-9), 1.0)


def _rank_sum_counts(n: int, m: int) -> list[int]:
    """Of all orders of n and m values: how many have 0, 1, ... n * m pairs with the second above."""
    counts = {(0, 0): [1]}
    for i in range(n + 1):
        for j in range(m + 1):
            if i or j:
                ways = [0] * (i * j + 1)
                for before, added in (((i - 1, j), j), ((i, j - 1), 0)):
                    for value, count in enumerate(counts.get(before, [])):
                        ways[value + added] += count
                counts[i, j] = ways
    return counts[n, m]


def _placements(values: Array, others: Array) -> Array:
    """Share of the others below each value, ties half: what the rank statistic averages."""
    ordered = np.sort(others)
    left = np.searchsorted(ordered, values, "left")
    right = np.searchsorted(ordered, values, "right")
    return (left + right) / (2.0 * len(others))


def _pairs_above(stratum: Stratum) -> float:
    """Pairs with b above a, ties half."""
    ordered = np.sort(stratum.b)
    below = (
        np.searchsorted(ordered, stratum.a, "left").sum() + np.searchsorted(ordered, stratum.a, "right").sum()
    )
    return len(stratum.a) * len(stratum.b) - float(below) / 2


def _pairs_at_most(a: Array, b: Array, limit: float, *, ordered: bool = False) -> int:
    """Pairs with b - a <= limit."""
    ordered_b = b if ordered else np.sort(b)
    return int(np.searchsorted(ordered_b, a + limit, "right").sum())
