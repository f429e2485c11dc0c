"""Many charts at once with numpy: learning, bank and gates as in `logwatch.judging.charts`, for scoring.

Held equal to the charts by `tests/judging/test_fleet.py`. Values are in ms; all baselines are frozen.
"""

from __future__ import annotations

import math

import numpy as np

from logwatch.judging.bank import WINSOR, Bank, build, needed_samples
from logwatch.judging.baseline import (
    BIN,
    BINS,
    BLOCKS,
    CLIP,
    FAR,
    HEAD,
    LEAST_SCALE,
    Baseline,
    grid_step,
    robust_level,
)  # fmt: skip
from logwatch.judging.charts import BACK, MOST, RING_EXTRA
from logwatch.judging.firing import Firing, Newest, opened
from logwatch.model import Moment


def baselines(x: np.ndarray) -> list[Baseline]:
    """What `Learning` would know after the samples x (series, samples), without contexts."""
    return [_baseline(row) for row in x]


def _baseline(row: np.ndarray) -> Baseline:
    head = row[:HEAD].tolist()
    step = grid_step(head)
    level, scale = robust_level(head, step)
    least = max(step / math.sqrt(12), abs(level) * LEAST_SCALE)
    scale = max(scale, least)
    unit = np.clip((row[:HEAD] - level) / scale, -CLIP, CLIP)
    phi0 = float(np.clip(unit[1:] @ unit[:-1] / (unit @ unit), -0.5, 0.95))
    raw = (row - level) / scale
    r = np.clip(raw, -CLIP, CLIP)
    n = len(r)
    mean, variance = r.mean(), r.var()
    side = _sides(r, phi0)
    kept = np.where(side == 0, r, 0.0)
    before = np.concatenate([[0.0], kept[:-1]])
    power = before @ before / n - mean**2
    phi = float(np.clip((r @ before / n - mean**2) / max(power, 1e-12), -0.5, 0.95))
    e = _innovations(r, side, phi0)
    index = np.clip(np.rint((np.clip(e, -CLIP, CLIP) + CLIP) / BIN).astype(int), 1, BINS - 2)
    index = np.where(side > 0, BINS - 1, np.where(side < 0, 0, index))
    bins = np.bincount(index, minlength=BINS)
    far = max(CLIP, FAR * abs(level) / scale)
    beyond = (raw >= far).astype(int) - (raw <= -far)
    began = (beyond != 0) & (beyond != np.concatenate([[0], beyond[:-1]]))
    memory = []
    for length in BLOCKS:
        count = n // length
        if count < 8:
            memory.append(1.0)
            continue
        means = r[: count * length].reshape(count, length).mean(axis=1)
        ratio = (1 + phi) / (1 - phi) - 2 * phi * (1 - phi**length) / (length * (1 - phi) ** 2)
        excess = means.var(ddof=1) / (variance * ratio / length)
        memory.append(float(excess) if excess > 1 + 3 * math.sqrt(2 / count) else 1.0)
    final = float(max(scale * math.sqrt(variance), least))
    return Baseline(
        level=float(level + scale * mean),
        scale=final,
        bin_scale=math.sqrt((1 - phi0**2) / (1 - phi**2)) * scale / final,
        bin_shift=float(-(1 - phi0) / math.sqrt(1 - phi**2) * mean * scale / final),
        phi=phi,
        samples=n,
        bins=tuple(bins.tolist()),
        hits_low=int((began & (beyond < 0)).sum()),
        hits_high=int((began & (beyond > 0)).sum()),
        memory=tuple(memory),
    )


def _innovations(r: np.ndarray, side: np.ndarray, phi: float) -> np.ndarray:
    before = np.concatenate([[0.0], r[:-1]])
    blind = np.concatenate([[False], side[:-1] != 0])
    return np.where(blind, r, (r - phi * before) / math.sqrt(1 - phi**2))


def _sides(r: np.ndarray, phi: float) -> np.ndarray:
    """`outlier_side` along a row, where each answer depends on whether the sample before was an outlier."""
    side = (r >= CLIP).astype(int) - (r <= -CLIP)
    for _ in range(64):
        e = _innovations(r, side, phi)
        new = ((r >= CLIP) | (e > CLIP)).astype(int)
        new = np.where((new == 0) & ((r <= -CLIP) | (e < -CLIP)), -1, new)
        if (new == side).all():
            break
        side = new
    return side


def enough(x: np.ndarray, run_length: float, least_effect: float) -> int:
    """Samples after which a chart of these series would freeze its baseline."""
    seen = 512
    while True:
        base = _baseline(x[0, :seen])
        need = min(needed_samples(run_length, least_effect * base.level / base.scale, base.phi), MOST)
        if seen >= need or seen >= x.shape[1]:
            return min(seen, x.shape[1])
        seen = min(2 * seen, max(need, seen + 1))


class Fleet:
    """Charts of many series, fed sample by sample.

    Args:
        learnt: Learning window, (series, samples).
        run_length, least_effect, least_samples: As `Chart`.
    """

    def __init__(
        self, learnt: np.ndarray, run_length: float, least_effect: float = 0.0025, least_samples: int = 20
    ) -> None:
        self.run, self.least_effect = least_samples, least_effect
        self.bases = baselines(learnt)
        self.banks = [
            build(b, run_length, least_effect * b.level / b.scale, least_samples) for b in self.bases
        ]
        width = max(len(bank.kinds) for bank in self.banks)
        self.series, self.width = len(self.banks), width
        self.slope, self.drop, self.cap = (np.zeros((self.series, width)) for _ in range(3))
        self.role = np.zeros((self.series, width), dtype=int)  # 0 shift, 1 spread, 2 high, 3 low, 4 none
        self.role[:] = 4
        codes = {"level_shift": 0, "spread": 1, "more_high": 2, "more_low": 3}
        for i, bank in enumerate(self.banks):
            k = len(bank.kinds)
            self.slope[i, :k], self.drop[i, :k], self.cap[i, :k] = bank.slope, bank.drop, bank.cap
            self.role[i, :k] = [codes[kind] for kind in bank.kinds]
        self.level, self.scale, self.phi, self.far = (
            np.array([getattr(b, name) for b in self.bases]) for name in ("level", "scale", "phi", "far")
        )
        self.centre, self.unit, self.spread_unit, self.shift_cap, self.outlier_cap = (
            np.array([getattr(b, name) for b in self.banks])
            for name in ("centre", "unit", "spread_unit", "shift_cap", "outlier_cap")
        )
        self.root = np.sqrt(1 - self.phi**2)
        self.previous = np.zeros(self.series)
        self.ring = np.zeros((self.series, least_samples + RING_EXTRA))
        self.filled = 0
        self.restart(np.arange(self.series), first=True)

    def restart(self, which: np.ndarray, *, first: bool = False) -> None:
        """Clear the evidence of some series."""
        if first:
            self.state = np.zeros((self.series, self.width))
            self.before = np.zeros((self.series, self.width))
            self.origin = np.zeros((self.series, self.width), dtype=np.int64)
            self.total_at = np.zeros((self.series, self.width))
            self.hits_at = np.zeros((self.series, self.width), dtype=np.int64)
            self.seen = 0
            self.total, self.hits = np.zeros(self.series), np.zeros(self.series, dtype=np.int64)
            self.outside = np.zeros(self.series, dtype=int)
            self.beyond = np.zeros(self.series, dtype=int)
        self.state[which] = 0.0

    def step(self, x: np.ndarray) -> list[tuple[int, Firing]]:
        """One sample of every series; the series that told a change, which go on as if it had not been."""
        z = (x - self.level) / self.scale
        self.ring[:, :-1] = self.ring[:, 1:]
        self.ring[:, -1] = z
        self.filled = min(self.filled + 1, self.ring.shape[1])
        clipped = np.clip(z, -CLIP, CLIP)
        e = np.where(self.outside != 0, clipped, (clipped - self.phi * self.previous) / self.root)
        self.seen += 1
        u = (np.clip(e, -WINSOR, WINSOR) - self.centre) / self.unit
        high = (z >= CLIP) | (e > CLIP)
        side = high.astype(int) - (~high & ((z <= -CLIP) | (e < -CLIP)))
        starting = (side != 0) & (self.outside == 0)
        back = (side == 0) & (self.outside != 0) & (np.abs(z) < BACK)
        if starting.any():
            self.before[starting] = self.state[starting]
        if back.any():
            kept = np.where(self.role == 0, np.minimum(self.state, self.before), self.state)
            self.state = np.where(back[:, None], kept, self.state)
        self.outside = side
        beyond = (z >= self.far).astype(int) - (z <= -self.far)
        began = (beyond != 0) & (beyond != self.beyond)
        self.beyond = beyond
        self.previous = np.where(side == 0, clipped, 0.0)
        v = np.where(side == 0, (e / self.spread_unit) ** 2, -1.0)
        cap = np.where(side != 0, self.outlier_cap, self.shift_cap)[:, None]
        gain = np.where(self.role == 0, np.minimum(self.slope * u[:, None] - self.drop, cap), 0.0)
        one = self.role == 1
        gain = np.where(one & (v >= 0)[:, None], self.slope * v[:, None] - self.drop, gain)
        for role, sign in ((2, 1), (3, -1)):
            hit = np.where((beyond == sign) & began, 1.0, 0.0)[:, None] * self.slope
            gain = np.where(self.role == role, np.where((beyond == sign)[:, None], hit, -self.drop), gain)
        new = np.maximum(self.state + np.minimum(gain, self.cap), 0.0)
        starts = (self.state == 0.0) & (new > 0.0)
        if starts.any():
            self.origin[starts] = self.seen
            rows = np.nonzero(starts)[0]
            self.total_at[starts] = self.total[rows]
            self.hits_at[starts] = self.hits[rows]
        self.state = new
        self.total += clipped
        self.hits += began
        told = []
        for i in np.nonzero(new.max(axis=1) >= 1.0)[0].tolist():
            firing = self._told(i)
            if firing is not None:
                told.append((i, firing))
                self.state[i] = 0.0
        return told

    def _told(self, i: int) -> Firing | None:
        bank: Bank = self.banks[i]
        base = self.bases[i]
        state = self.state[i, : len(bank.kinds)]
        ring = self.ring[i, -self.filled :].tolist()
        newest = Newest([(z, self.seen - len(ring) + 1 + j, None) for j, z in enumerate(ring)], self.run)
        for index in sorted(range(len(state)), key=state.__getitem__, reverse=True):
            if state[index] < 1.0:
                break
            since = int(self.seen - self.origin[i, index] + 1)
            firing = opened(
                kind=bank.kinds[index],
                size=bank.size[index],
                since=since,
                mean=float(self.total[i] - self.total_at[i, index]) / since,
                hits=int(self.hits[i] - self.hits_at[i, index]),
                onset=Moment(self.seen - since + 1),
                seen=newest,
                base=base,
                level=base.level,
                least=self.least_effect * abs(base.level),
            )
            if isinstance(firing, Firing):
                return firing
            self.state[i, index] = 0.0 if firing.gone else min(self.state[i, index], 2.0)
        return None
