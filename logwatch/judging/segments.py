"""Level 1: a finished series cut where its level changes, as a second opinion and before anything is learnt.

Least squares segmentation (ruptures' KernelCPD) on values clipped at 4 deviations, with a penalty in long-run
variances. Deviation and autocorrelation are taken from differences, which a change of level touches but once.
Segments that are too short, or steps too small to matter, are dropped. Imports numpy and ruptures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import ruptures
from numpy.typing import NDArray

Array = NDArray[np.float64]
CLIP = 4.0
PENALTY = 3.0
SURE = 4.0
SHORTEST = 5
FEW = 64
LONGEST = 4000
"""Longer series are cut as means of blocks: the cost grows with the square."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level: the index of its first sample, and the levels before and after.

    Attributes:
        score: Its size in its own standard errors.
        dropped: Why it does not count, or empty.
    """

    index: int
    before: float
    after: float
    score: float
    dropped: str = ""


def steps(values: Array, least: float, shortest: int = SHORTEST) -> list[Step]:
    """Where the level changes for good."""
    return [each for each in candidates(values, least, shortest) if not each.dropped]


def candidates(values: Array, least: float, shortest: int = SHORTEST) -> list[Step]:
    """Every cut that was tried, in order of time; those that do not count say why.

    Args:
        values: In order of time.
        least: Smallest step that matters, in the values' unit.
        shortest: Fewest samples of a segment.
    """
    if len(values) > LONGEST:
        block = math.ceil(len(values) / LONGEST)
        whole = len(values) // block * block
        means = np.median(values[:whole].reshape(-1, block), axis=1)
        found = candidates(means, least, max(2, shortest // block))
        return [replace(each, index=each.index * block) for each in found]
    if len(values) < 2 * shortest:
        return []
    deviation, phi = noise(values)
    if deviation <= 0:
        return []
    long_run = deviation * math.sqrt((1 + phi) / (1 - phi))
    clipped = _clipped(values, deviation)
    model = ruptures.KernelCPD(kernel="linear", min_size=shortest).fit((clipped / long_run)[:, None])
    cuts = [0, *model.predict(pen=PENALTY * math.log(len(values)))]
    return sorted(_judged(clipped, cuts, least, long_run), key=lambda each: each.index)


def noise(values: Array) -> tuple[float, float]:
    """Deviation and lag-1 autocorrelation around a level that may change now and then."""
    d = np.diff(values)
    scale = 1.4826 * float(np.median(np.abs(d - np.median(d)))) or float(np.std(d))
    # Of a few differences the two of one spike would make the scale as large as the spike.
    most = 2 * max(scale, 1.4826 * float(np.median(np.abs(d)))) if len(d) < FEW else math.inf
    for _ in range(8):
        inner = np.clip(d, -CLIP * scale, CLIP * scale)
        new = min(float(np.sqrt(np.mean(inner**2))), most)
        if abs(new - scale) <= 1e-3 * scale:
            break
        scale = new
    inner = np.clip(d, -CLIP * scale, CLIP * scale)
    power = float(np.mean(inner**2))
    if power <= 0:
        return 0.0, 0.0
    lag = float(np.mean(inner[1:] * inner[:-1])) / power
    phi = min(max(1 + 2 * lag, 0.0), 0.9)
    return math.sqrt(power / (2 * (1 - phi))), phi


def _clipped(values: Array, deviation: float) -> Array:
    """Values within 4 deviations of their neighbourhood's median, so that spikes weigh no more than that.

    The neighbourhood is short in a short series: else a step in it would be clipped away.
    """
    half = min(10, len(values) // 4)
    padded = np.pad(values, half, mode="reflect")  # a spike at the end is one only
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)
    clipped: Array = np.clip(values, middle - CLIP * deviation, middle + CLIP * deviation)
    return clipped


def _judged(values: Array, cuts: list[int], least: float, long_run: float) -> list[Step]:
    """Drop the weakest cut until all that are left matter and are sure."""
    dropped: list[Step] = []
    while len(cuts) > 2:
        levels = [float(np.mean(values[a:b])) for a, b in pairwise(cuts)]
        sizes = [b - a for a, b in pairwise(cuts)]
        errors = [long_run * math.sqrt(1 / a + 1 / b) for a, b in pairwise(sizes)]
        found = [
            Step(cut, before, after, abs(after - before) / error)
            for cut, (before, after), error in zip(cuts[1:-1], pairwise(levels), errors, strict=True)
        ]
        worth = [min(abs(each.after - each.before) / least, each.score / SURE) for each in found]
        weakest = int(np.argmin(worth))
        if worth[weakest] >= 1:
            return [*dropped, *found]
        small = abs(found[weakest].after - found[weakest].before) < least
        dropped.append(replace(found[weakest], dropped="too small to matter" if small else "not sure enough"))
        del cuts[weakest + 1]
    return dropped
