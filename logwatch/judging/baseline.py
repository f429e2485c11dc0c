"""Level 1: what is normal for one series, learnt robustly in bounded memory.

The first `HEAD` samples give a provisional line (level, and slope over the context where the log has one),
scale and lag-1 autocorrelation. From then on clipped residuals from that line are summed, and a `Baseline`
can be taken at any time: the sums correct the provisional figures. Rounding to a grid sets floors for the
scale: the median's and the MAD's answers of 0 or one step are never trusted alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median

HEAD = 256
CLIP = 4.0
FAR = 0.2
"""A second mode lies at least this share of the level away: spikes at 4 scales may be too common to tell."""

BINS = 65
BIN = 2 * CLIP / (BINS - 1)
SEGMENTS = 16
BLOCKS = (16, 64, 256)
"""Block lengths at which long memory is looked for."""

TINY = 1e-12
"""Floor of the scale of a series that is 0 throughout."""

LEAST_SCALE = 1e-4
"""Floor of the scale, as a share of the level."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is normal, frozen.

    Attributes:
        level: Mean at `context`, clipped at 4 scales.
        scale: Standard deviation around the line, clipped likewise.
        per_token: Rise per token of context; 0 where the context does not matter or is unknown.
        context: Mean context while learning.
        low_context, high_context: The contexts learnt from; beyond them the line is not trusted.
        phi: Lag-1 autocorrelation of the residuals.
        samples: Samples learnt from.
        bins: Counts of innovations in steps of `BIN` from -4 to 4; those beyond lie in the outermost. They
            were
            counted with provisional figures: `bin_scale * e + bin_shift` is an innovation of this baseline.
        hits_low, hits_high: How often a stretch of values beyond -`far`, `far` began.
        memory: For each of `BLOCKS`: variance of block means over what AR(1) predicts, 1 where not larger.
    """

    level: float
    scale: float
    per_token: float = 0.0
    context: float = 0.0
    low_context: float = 0.0
    high_context: float = 0.0
    phi: float = 0.0
    samples: int = 0
    bins: tuple[int, ...] = ()
    bin_scale: float = 1.0
    bin_shift: float = 0.0
    hits_low: int = 0
    hits_high: int = 0
    memory: tuple[float, ...] = (1.0, 1.0, 1.0)

    def expected(self, context: float | None) -> float:
        """The level at this context."""
        return self.level if context is None else self.level + self.per_token * (context - self.context)

    def knows(self, context: float | None) -> bool:
        """Whether this context is near enough to those learnt from."""
        if not self.per_token:
            return True
        if context is None:
            return False
        margin = 0.25 * (self.high_context - self.low_context)
        return self.low_context - margin <= context <= self.high_context + margin

    @property
    def far(self) -> float:
        """Where a second mode begins, in scales."""
        return max(CLIP, FAR * abs(self.level) / self.scale)

    @property
    def mean_error(self) -> float:
        """Standard error of the level, in scales."""
        factor = math.sqrt((1 + self.phi) / (1 - self.phi)) * math.sqrt(max(self.memory))
        return factor / math.sqrt(max(self.samples, 1))


@dataclass
class Block:
    """Running sums of block means of one length."""

    filled: int = 0
    total: float = 0.0
    count: int = 0
    squares: float = 0.0
    means: float = 0.0


@dataclass
class Learning:
    """What is remembered while learning; `head` is emptied once the provisional figures are known."""

    head: list[float] = field(default_factory=list)
    head_contexts: list[float] = field(default_factory=list)
    level: float = 0.0
    per_token: float = 0.0
    context: float = 0.0
    scale: float = 0.0
    least_scale: float = 0.0
    phi: float = 0.0
    low_context: float = 0.0
    high_context: float = 0.0
    samples: int = 0
    sum_r: float = 0.0
    sum_rr: float = 0.0
    sum_c: float = 0.0
    sum_cc: float = 0.0
    sum_rc: float = 0.0
    sum_lag: float = 0.0
    sum_pp: float = 0.0
    previous: float = 0.0
    outside: int = 0
    beyond: int = 0
    bins: list[int] = field(default_factory=lambda: [0] * BINS)
    hits_low: int = 0
    hits_high: int = 0
    segment: int = 1
    segments: list[float] = field(default_factory=list)
    segment_filled: int = 0
    segment_total: float = 0.0
    blocks: list[Block] = field(default_factory=lambda: [Block() for _ in BLOCKS])


def learn(memory: Learning, value: float, context: float | None) -> None:
    """Take one sample into the sums.

    A series whose context is sometimes unknown is learnt without contexts.
    """
    if memory.scale:
        _sum(memory, value, context or 0.0)
        return
    memory.head.append(value)
    memory.head_contexts.append(-1.0 if context is None else context)
    if len(memory.head) >= HEAD:
        _begin(memory)


def baseline_of(memory: Learning) -> Baseline:
    """The baseline as the sums stand; needs at least `HEAD` samples."""
    n = memory.samples
    mean_r, mean_c = memory.sum_r / n, memory.sum_c / n
    level = memory.level + memory.per_token * mean_c + memory.scale * mean_r
    per_token = memory.per_token
    variance = memory.sum_rr / n - mean_r**2
    spread_c = memory.sum_cc / n - mean_c**2
    if per_token and spread_c > 0:
        tilt = (memory.sum_rc / n - mean_r * mean_c) / spread_c
        per_token += memory.scale * tilt
        variance -= tilt**2 * spread_c
    power = memory.sum_pp / n - mean_r**2
    phi = min(max((memory.sum_lag / n - mean_r**2) / max(power, 1e-12), -0.5), 0.95)
    scale = max(memory.scale * math.sqrt(max(variance, 0.0)), memory.least_scale)
    whiter = math.sqrt((1 - memory.phi**2) / (1 - phi**2))
    return Baseline(
        level=level,
        scale=scale,
        per_token=per_token,
        context=memory.context + mean_c if memory.per_token else 0.0,
        low_context=memory.low_context,
        high_context=memory.high_context,
        phi=phi,
        samples=n,
        bins=tuple(memory.bins),
        bin_scale=whiter * memory.scale / scale,
        bin_shift=-(1 - memory.phi) / math.sqrt(1 - phi**2) * mean_r * memory.scale / scale,
        hits_low=memory.hits_low,
        hits_high=memory.hits_high,
        memory=tuple(
            _excess(block, length, phi, variance) for block, length in zip(memory.blocks, BLOCKS, strict=True)
        ),
    )


def change_inside(memory: Learning) -> tuple[float, float]:
    """The surest step between two parts of the learning window and its error, in the value's unit.

    The error comes from how the parts' means scatter on either side of the step: neither a step nor
    autocorrelation within the parts deceives it.
    """
    means = memory.segments
    best, best_error = 0.0, math.inf
    for cut in range(2, len(means) - 1):
        before, after = means[:cut], means[cut:]
        step = fmean(after) - fmean(before)
        rest = sum((m - fmean(part)) ** 2 for part in (before, after) for m in part) / (len(means) - 2)
        error = math.sqrt(max(rest, 1 / memory.segment) * (1 / cut + 1 / (len(means) - cut)))
        if abs(step) * best_error > abs(best) * error:
            best, best_error = step, error
    return best * memory.scale, best_error * memory.scale


def grid_step(values: list[float]) -> float:
    """The grid on which values were rounded, or 0 where they look continuous.

    >>> grid_step([0.01914, 0.01915, 0.01914, 0.01917, 0.01914, 0.01915])
    1e-05
    """
    distinct = sorted(set(values))
    if len(distinct) < 2 or len(distinct) > len(values) / 2:
        return 0.0
    gap = min(b - a for a, b in pairwise(distinct))
    return float(f"{gap:.2g}")


def robust_level(values: list[float], first_scale: float = 0.0) -> tuple[float, float]:
    """Mean and standard deviation clipped at 4 deviations, iterated from median and MAD."""
    middle = median(values)
    scale = max(
        1.4826 * median([abs(value - middle) for value in values]), first_scale, abs(middle) * 1e-9, TINY
    )
    for _ in range(10):
        low, high = middle - CLIP * scale, middle + CLIP * scale
        clipped = [min(max(value, low), high) for value in values]
        middle = fmean(clipped)
        new = math.sqrt(fmean([(value - middle) ** 2 for value in clipped]))
        if abs(new - scale) <= 1e-4 * scale:
            break
        scale = max(new, first_scale / math.sqrt(12), abs(middle) * 1e-9, TINY)
    return middle, scale


def robust_line(values: list[float], contexts: list[float], step: float = 0.0) -> tuple[float, float]:
    """Slope over the context, and its standard error; slope 0 where the contexts do not differ.

    Begins with the medians of the outer thirds, then least squares on what lies within 4 deviations.
    """
    order = sorted(range(len(values)), key=contexts.__getitem__)
    third = max(len(order) // 3, 1)
    near, far = order[:third], order[-third:]
    run = median([contexts[i] for i in far]) - median([contexts[i] for i in near])
    if run <= 0 or len(values) < 8:
        return 0.0, math.inf
    slope = (median([values[i] for i in far]) - median([values[i] for i in near])) / run
    error = math.inf
    for _ in range(8):
        flat = [value - slope * context for value, context in zip(values, contexts, strict=True)]
        kept = inliers(flat, step)
        centre, level = fmean([contexts[i] for i in kept]), fmean([flat[i] for i in kept])
        power = sum((contexts[i] - centre) ** 2 for i in kept)
        if power <= 0:
            return 0.0, math.inf
        tilt = sum((flat[i] - level) * (contexts[i] - centre) for i in kept) / power
        slope += tilt
        rest = sum((flat[i] - level - tilt * (contexts[i] - centre)) ** 2 for i in kept)
        error = math.sqrt(max(rest, step * step / 12) / max(len(kept) - 2, 1) / power)
        if abs(tilt) < 0.01 * error:
            break
    return slope, error


def inliers(values: list[float], step: float = 0.0) -> list[int]:
    """Indices of what lies within 4 deviations of the median: the MAD's, or a grid step if larger."""
    middle = median(values)
    spread = 1.4826 * median([abs(v - middle) for v in values])
    deviation = max(spread, step, LEAST_SCALE * abs(middle), TINY)
    return [index for index, value in enumerate(values) if abs(value - middle) <= CLIP * deviation]


def _begin(memory: Learning) -> None:
    """Provisional figures from the head, which is then summed as the rest will be."""
    values, contexts = memory.head, memory.head_contexts
    step = grid_step(values)
    if min(contexts) >= 0:
        slope, error = robust_line(values, contexts, step)
        if abs(slope) > 5 * error:
            memory.per_token, memory.context = slope, fmean(contexts)
    flat = [v - memory.per_token * (c - memory.context) for v, c in zip(values, contexts, strict=True)]
    memory.level, scale = robust_level(flat, step)
    memory.least_scale = max(step / math.sqrt(12), abs(memory.level) * LEAST_SCALE, TINY)
    memory.scale = max(scale, memory.least_scale)
    unit = [min(max((v - memory.level) / memory.scale, -CLIP), CLIP) for v in flat]
    power = sum(r * r for r in unit)
    lag = sum(a * b for a, b in pairwise(unit)) / power if power else 0.0
    memory.phi = min(max(lag, -0.5), 0.95)
    if memory.per_token:
        memory.low_context, memory.high_context = min(contexts), max(contexts)
    memory.head, memory.head_contexts = [], []
    for value, context in zip(values, contexts, strict=True):
        _sum(memory, value, context)


def _sum(memory: Learning, value: float, context: float) -> None:
    offset = context - memory.context if memory.per_token else 0.0
    r = (value - memory.level - memory.per_token * offset) / memory.scale
    _hit(memory, r)
    r = CLIP if r > CLIP else max(r, -CLIP)
    memory.samples += 1
    memory.sum_r += r
    memory.sum_rr += r * r
    memory.sum_lag += r * memory.previous
    memory.sum_pp += memory.previous * memory.previous
    if memory.per_token:
        memory.sum_c += offset
        memory.sum_cc += offset * offset
        memory.sum_rc += r * offset
        memory.low_context = min(memory.low_context, context)
        memory.high_context = max(memory.high_context, context)
    e = r if memory.outside else (r - memory.phi * memory.previous) / math.sqrt(1 - memory.phi**2)
    side = outlier_side(r, e)
    memory.previous = 0.0 if side else r
    memory.outside = side
    index = round((min(max(e, -CLIP), CLIP) + CLIP) / BIN)
    memory.bins[(BINS - 1 if side > 0 else 0) if side else min(max(index, 1), BINS - 2)] += 1
    _segment(memory, r)
    for block, length in zip(memory.blocks, BLOCKS, strict=True):
        block.total += r
        block.filled += 1
        if block.filled == length:
            close_block(block)


def outlier_side(z: float, e: float) -> int:
    """1 or -1 where a value or its innovation lies beyond 4 scales: such a sample predicts nothing."""
    if z >= CLIP or e > CLIP:
        return 1
    return -1 if z <= -CLIP or e < -CLIP else 0


def far_side(z: float, far: float) -> int:
    """1 or -1 where a value lies where a second mode would."""
    return 1 if z >= far else -1 if z <= -far else 0


def _hit(memory: Learning, r: float) -> None:
    side = far_side(r, max(CLIP, FAR * abs(memory.level) / memory.scale))
    if side and side != memory.beyond:
        if side > 0:
            memory.hits_high += 1
        else:
            memory.hits_low += 1
    memory.beyond = side


def _segment(memory: Learning, r: float) -> None:
    """Means of equal parts of the window: when all are filled, neighbours merge and the parts double."""
    memory.segment_total += r
    memory.segment_filled += 1
    if memory.segment_filled < memory.segment:
        return
    close_segment(memory)


def close_segment(memory: Learning) -> None:
    """Keep the mean of a part that is filled."""
    memory.segments.append(memory.segment_total / memory.segment)
    memory.segment_total, memory.segment_filled = 0.0, 0
    if len(memory.segments) == 2 * SEGMENTS:
        means = memory.segments
        memory.segments = [(a + b) / 2 for a, b in zip(means[::2], means[1::2], strict=True)]
        memory.segment *= 2


def close_block(block: Block) -> None:
    """Count the mean of a block that is filled."""
    mean = block.total / block.filled
    block.means += mean
    block.squares += mean * mean
    block.count += 1
    block.filled, block.total = 0, 0.0


def _excess(block: Block, length: int, phi: float, variance: float) -> float:
    """Variance of block means over what AR(1) predicts, where it is larger beyond chance; else 1."""
    if block.count < 8 or variance <= 0:
        return 1.0
    mean = block.means / block.count
    found = (block.squares / block.count - mean * mean) * block.count / (block.count - 1)
    ratio = (1 + phi) / (1 - phi) - 2 * phi * (1 - phi**length) / (length * (1 - phi) ** 2)
    excess = found / (variance * ratio / length)
    return excess if excess > 1 + 3 * math.sqrt(2 / block.count) else 1.0
