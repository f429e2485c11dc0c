"""Level 1: a chart that has fired: the gates before it speaks, the size that follows, and recovery.

Sizes are in the baseline's scales inside, in the value's unit in findings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, median
from typing import TYPE_CHECKING

from logwatch.judging.bank import WINSOR, Bank
from logwatch.judging.baseline import CLIP, Baseline
from logwatch.model import Change, Finding, Moment

if TYPE_CHECKING:
    from collections.abc import Sequence

EVIDENCE = math.log(1000)
"""Odds of the old level against the new one that end an incident."""

SIZE_AFTER = 200
"""Samples after the alarm from which the size is told with its interval."""

LARGE = 1.5
"""A shift of the newest samples, in scales, whose onset is looked for among them."""

SURE_MEAN = 3.0
"""The mean since the evidence began, in scales, up to which it is the shift's size."""

WORSE = 1.5
TRIMMED = 2
SURE = 1.64
"""Standard errors by which the newest samples may fall short of half the shift."""


@dataclass
class Firing:
    """What is remembered of a change that was told.

    Attributes:
        finding: As last told.
        effect: The shift in scales (spread: ratio of deviations less 1; second mode: distance of the mode).
        told: The effect last told.
        followed: Samples since the alarm; `total`, `squares` and `first_half` sum them.
        back: Evidence that it is over, `back_since` where that began.
    """

    kind: str
    finding: Finding
    effect: float
    told: float
    size: float
    level: float
    followed: int = 0
    total: float = 0.0
    squares: float = 0.0
    first_half: float = 0.0
    back: float = 0.0
    back_since: Moment | None = None
    over: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """Why a statistic's evidence is not told; `gone` where it is to be dropped."""

    reason: str
    gone: bool = False


class Newest:
    """A chart's newest samples, and their clipped mean, which several statistics may ask for."""

    def __init__(self, ring: Sequence[tuple[float, int, str | None]], run: int) -> None:
        self.ring = ring
        self.values = [z for z, _, _ in ring]
        self.run = run

    @cached_property
    def recent(self) -> float:
        """The mean of the last `run`, clipped at 4 scales from their median."""
        return _clipped_mean(self.values[-self.run :])


def opened(
    *,
    kind: str,
    size: float,
    since: int,
    mean: float,
    hits: int,
    onset: Moment,
    seen: Newest,
    base: Baseline,
    level: float,
    least: float,
) -> Firing | Held:
    """The firing of a statistic whose evidence passes the gates, or which gate holds it back."""
    if kind == "level_shift":
        return _shift(size, since, mean, onset, seen, base, level, least)
    newest = seen.values
    if kind == "spread":
        inner = [z for z in newest if abs(z) <= CLIP] or [0.0]
        middle = fmean(inner)
        deviation = math.sqrt(fmean([(z - middle) ** 2 for z in inner]))
        if abs(middle) > 0.75:
            return Held("the level moved: that explains the spread")
        if deviation < 1.1 or sum(abs(z) > 1.0 for z in inner) < 6:
            return Held("the newest samples are no wider than usual")
        detail = f"The spread is {deviation:.1f} times what it was; the level is judged apart."
        finding = Finding(
            Change.OPENED, kind, "high", onset, base.scale, base.scale * deviation, since, detail=detail
        )
        return Firing(kind, finding, deviation - 1, deviation - 1, size, level)
    sign = 1.0 if kind == "more_high" else -1.0
    far = [z for z in newest if sign * z >= base.far] or [sign * base.far]
    mode = level + median(far) * base.scale
    if abs(mode - level) < least:
        return Held("the second mode lies too near to matter")
    share = hits / since
    detail = (
        f"About {share:.0%} of the samples lie near {mode:.4g}, the others where they were ({level:.4g})."
    )
    side = "high" if sign > 0 else "low"
    finding = Finding(Change.OPENED, "second_mode", side, onset, level, mode, since, detail=detail)
    return Firing(kind, finding, median(far), median(far), size, level)


def follow(
    firing: Firing,
    e: float,
    here: Moment,
    ring: Sequence[tuple[float, int, str | None]],
    base: Baseline,
    bank: Bank,
    run: int,
) -> Finding | None:
    """One sample after the alarm: recovery, worsening, or the size with its interval."""
    if _recovered(firing, e, here, ring, base, bank, run):
        firing.over = True
        return replace(firing.finding, change=Change.RESOLVED, resolved=firing.back_since)
    if firing.kind != "level_shift":
        return None
    z = ring[-1][0]
    inner = firing.told + min(max(z - firing.told, -CLIP), CLIP)
    firing.followed += 1
    firing.total += inner
    firing.squares += inner * inner
    if firing.followed == SIZE_AFTER // 2:
        firing.first_half = firing.total
    samples = firing.finding.samples + firing.followed
    if firing.followed == SIZE_AFTER:
        finding = _sized(firing, base, samples)
        firing.finding = replace(finding, samples=firing.finding.samples)
        return finding
    if firing.followed % run == 0 and _worse(firing, ring, base, run):
        after = firing.level + firing.told * base.scale
        firing.finding = replace(firing.finding, after=after)
        return replace(firing.finding, change=Change.WORSENED, samples=samples)
    return None


def _shift(
    size: float,
    since: int,
    mean: float,
    onset: Moment,
    samples: Newest,
    base: Baseline,
    level: float,
    least: float,
) -> Firing | Held:
    sign = 1.0 if size > 0 else -1.0
    newest, run, recent = samples.values, samples.run, samples.recent
    start = _onset_in_ring(newest, recent) if abs(recent) >= LARGE else 0
    if start:
        since, onset = len(newest) - start, Moment(*samples.ring[start][1:])
    if since < run:
        return Held(f"only {since} samples, {run} are needed")
    effect = recent if start or abs(mean) > SURE_MEAN else mean
    if sign * effect * base.scale < least:
        return Held(f"the shift of {_share(effect * base.scale, level)} is too small to matter")
    half = run // 2
    long_run = math.sqrt((1 + base.phi) / (1 - base.phi))
    seen = sign * fmean(sorted(newest[-run:])[TRIMMED:-TRIMMED])
    goal = 0.5 * max(abs(effect), seen)  # unclipped: what came and went was larger
    if seen < 0.5 * abs(effect) - SURE * long_run / math.sqrt(run):
        return Held("it went away meanwhile", gone=True)
    halves = (newest[-run:-half], newest[-half:])
    if seen < 0.5 * abs(effect) or any(
        sign * _clipped_mean(part) < goal - SURE * long_run / math.sqrt(half) for part in halves
    ):
        return Held("it may have gone away meanwhile")
    after = level + effect * base.scale
    finding = Finding(
        change=Change.OPENED,
        kind="level_shift",
        direction="high" if sign > 0 else "low",
        onset=onset,
        before=level,
        after=after,
        samples=since,
        detail=f"A provisional size; the onset is good to about {_onset_error(effect, base)} samples.",
    )
    return Firing("level_shift", finding, effect, effect, size, level)


def _onset_in_ring(newest: Sequence[float], shift: float) -> int:
    """Index in the ring from which a shift of this size explains the samples best; 0: from before it."""
    best, best_score, score = 0, 0.0, 0.0
    for index, z in enumerate(newest):
        low, high = sorted((0.0, shift))
        inner = min(max(z, low - CLIP), high + CLIP)
        score -= shift * (inner - shift / 2)  # evidence against a shift before this sample's successor
        if score > best_score:
            best, best_score = index + 1, score
    return min(best, len(newest) - 1)


def _onset_error(effect: float, base: Baseline) -> int:
    """Half-width, in samples, of the onset's 90 % range: 12 over the squared shift, in long-run deviations.

    It would be 7 for a known shift; at the alarm the shift is told too large, and the evidence may have begun with
    chance before the change, for longer where neighbours are alike. Found by simulation, both ways of being wrong.
    """
    factor = (1 + base.phi) / (1 - base.phi)
    return math.ceil(12 * math.pow(factor, 1.3) / max(effect * effect, 1e-9))


def _recovered(
    firing: Firing,
    e: float,
    here: Moment,
    ring: Sequence[tuple[float, int, str | None]],
    base: Baseline,
    bank: Bank,
    run: int,
) -> bool:
    """Sum the evidence for the old state against the told one."""
    if firing.kind == "level_shift":
        gain = math.sqrt((1 - base.phi) / (1 + base.phi)) / bank.unit
        shift = min(max(firing.told * gain, -WINSOR), WINSOR)
        u = (min(max(e, -WINSOR), WINSOR) - bank.centre) / bank.unit
        evidence = -shift * (u - shift / 2)
    elif firing.kind == "spread":
        v = e / bank.spread_unit
        evidence = 0.0 if abs(e) > CLIP else math.log(2) / 2 - v * v / 4
        run = 5
    else:
        z = ring[-1][0]
        hit = z >= base.far if firing.kind == "more_high" else z <= -base.far
        rate = firing.size
        evidence = -EVIDENCE / 2 if hit else -math.log(1 - rate)
        run = 5
    if firing.back == 0.0 and evidence > 0:
        firing.back_since = here
    firing.back = max(0.0, firing.back + min(evidence, EVIDENCE / (run - 0.5)))
    return firing.back >= EVIDENCE


def _worse(firing: Firing, ring: Sequence[tuple[float, int, str | None]], base: Baseline, run: int) -> bool:
    recent = _clipped_mean([z for z, _, _ in ring][-run:])
    noise = 4 * math.sqrt((1 + base.phi) / (1 - base.phi) / run)
    if recent * firing.told <= 0 or abs(recent) < WORSE * abs(firing.told) + noise:
        return False
    firing.told = recent
    return True


def _sized(firing: Firing, base: Baseline, samples: int) -> Finding:
    n = firing.followed
    mean = firing.total / n
    spread = math.sqrt(max(firing.squares / n - mean * mean, 0.0))
    factor = math.sqrt((1 + base.phi) / (1 - base.phi) * max(base.memory))
    error = math.sqrt((factor * max(spread, 1e-9)) ** 2 / n + base.mean_error**2)
    firing.effect = firing.told = mean
    told, low, high = (_share((mean + side * 1.96 * error) * base.scale, firing.level) for side in (0, -1, 1))
    parts = [f"The shift is {told} (95 % interval {low} to {high})."]
    second = (firing.total - firing.first_half) / (n - n // 2)
    first = firing.first_half / (n // 2)
    rise = second - first
    if rise * mean > 0 and abs(rise) > max(4 * factor * spread * math.sqrt(4 / n), 0.25 * abs(mean)):
        parts.append("It is still growing: a drift, not a step.")
    return replace(
        firing.finding,
        change=Change.EXPLAINED,
        after=firing.level + mean * base.scale,
        samples=samples,
        detail=" ".join(parts),
    )


def _clipped_mean(values: Sequence[float]) -> float:
    if max(values) - min(values) <= CLIP:  # as nearly always, none is that far from the median
        return fmean(values)
    middle = median(values)
    return fmean([min(max(value, middle - CLIP), middle + CLIP) for value in values])


def _share(shift: float, level: float) -> str:
    """A shift as a share of the level for people; as it is where the level is 0."""
    return f"{shift / level:+.2%}" if level else f"{shift:+.4g}"
