"""What could be reached at all: one-sided CUSUMs on the true likelihood ratio, for the same false alarms.

They know the family, its parameters, the change and its size. Thresholds come from the excursions of long quiet
runs, read at 1e4 samples to a false alarm and moved by log(ARL / 1e4), as likelihood ratios allow.
"""

from __future__ import annotations

import numpy as np

from benchmarks.detection_series import (
    BASE,
    PHI,
    RAMP_SAMPLES,
    RAMP_TO,
    SD,
    SHIFTS,
    SPIKE_ALPHA,
    SPIKE_CAP,
    SPIKE_SCALE,
    SPIKES,
    Source,
)  # fmt: skip

READ_AT = 1e4
GRID = np.arange(-4.0, 230.0, 0.004)


class Score:
    """Log likelihood ratio of each sample, changed against quiet.

    Args:
        family, change: See `detection_series`. `mix` is scored as `ar` (its bound).
    """

    def __init__(self, family: str, change: str) -> None:
        self.family = "ar" if family == "mix" else family
        self.change = change
        self.sd, self.phi = SD[self.family], PHI.get(self.family, 0.0)
        if self.family == "spike":
            quiet = _spiked_density(self.sd)
            self.table = np.log(self._changed(quiet) + 1e-300) - np.log(quiet + 1e-300)
            self.table = np.clip(self.table, -20, 20)

    def _changed(self, quiet: np.ndarray) -> np.ndarray:
        if self.change in SHIFTS:
            return np.interp(GRID - BASE * SHIFTS[self.change], GRID, quiet, left=0.0)
        if self.change == "var2":
            return _spiked_density(self.sd * np.sqrt(2))
        return 0.9 * quiet + 0.1 * np.interp(GRID - BASE * 0.5, GRID, quiet, left=0.0)

    def __call__(self, x: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Of samples x after the samples `before`, ms."""
        y = x - BASE
        if self.family == "spike":
            return np.interp(y, GRID, self.table)
        e = (y - self.phi * (before - BASE)) / (self.sd * np.sqrt(1 - self.phi**2))
        if self.change in SHIFTS:
            theta = BASE * SHIFTS[self.change] * (1 - self.phi) / (self.sd * np.sqrt(1 - self.phi**2))
            return theta * (e - theta / 2)
        if self.change == "var2":
            return -np.log(2) / 2 + e * e / 4
        far = BASE * 0.5 / (self.sd * np.sqrt(1 - self.phi**2))
        return np.log(0.9 + 0.1 * np.exp(np.clip(far * (e - far / 2), -50, 50)))


def _spiked_density(sd: float) -> np.ndarray:
    step = GRID[1] - GRID[0]
    spike = np.where(
        (GRID >= SPIKE_SCALE) & (GRID < SPIKE_CAP),
        SPIKE_ALPHA * SPIKE_SCALE**SPIKE_ALPHA / np.maximum(GRID, SPIKE_SCALE) ** (SPIKE_ALPHA + 1),
        0.0,
    )
    core = np.exp(-0.5 * (GRID / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
    near = np.arange(-6 * sd, 6 * sd + step, step)
    kernel = np.exp(-0.5 * (near / sd) ** 2)
    blurred = np.convolve(spike, kernel / kernel.sum(), mode="same")
    return (1 - SPIKES) * core + SPIKES * blurred


def threshold(family: str, change: str, run_length: float, rng: np.random.Generator, series: int = 1000,
              samples: int = 8000) -> float:  # fmt: skip
    """Evidence at which one false alarm comes in `run_length` quiet samples."""
    family = "ar" if family == "mix" else family
    source, ratio = Source(family, series, rng), Score(family, change)
    before = source.draw(1)[:, 0]
    s, peak = np.zeros(series), np.zeros(series)
    peaks: list[np.ndarray] = []
    for _ in range(samples // 1000):
        x = source.draw(1000)
        for j in range(1000):
            s = np.maximum(s + ratio(x[:, j], before), 0.0)
            before = x[:, j]
            over = (s == 0) & (peak > 0)
            if over.any():
                peaks.append(peak[over])
            peak = np.where(s == 0, 0.0, np.maximum(peak, s))
    ordered = np.sort(np.concatenate([*peaks, peak[peak > 0]]))
    if not len(ordered):
        return 0.0  # nothing in quiet samples ever looks like it: the first that does is enough
    expected = series * samples / READ_AT
    index = max(len(ordered) - round(expected), 0)
    return float(ordered[index]) + np.log(run_length / READ_AT)


def delays(
    family: str, change: str, run_length: float, rng: np.random.Generator, series: int = 1000
) -> np.ndarray:
    """Delays of the optimum, samples."""
    family = "ar" if family == "mix" else family
    h = threshold(family, change, run_length, rng)
    source, ratio = Source(family, series, rng), Score(family, change)
    s, found = np.zeros(series), np.full(series, -1)
    x = source.draw(300)
    before = x[:, 0]
    for j in range(1, 300):
        s = np.maximum(s + ratio(x[:, j], before), 0.0)
        s[s >= h] = 0.0
        before = x[:, j]
    x = source.draw(4000, change, 0)
    for j in range(x.shape[1]):
        s = np.maximum(s + ratio(x[:, j], before), 0.0)
        before = x[:, j]
        found[(s > 0) & (s >= h) & (found < 0)] = j + 1
        if (found >= 0).all():
            break
    return np.where(found < 0, x.shape[1], found)


def ramp_bound(family: str, run_length: float) -> float:
    """Samples until the cumulated information of the ramp is log(run length)."""
    phi = PHI.get(family, 0.0)
    sd = SD[family] * np.sqrt((1 + phi) / (1 - phi))
    shift = BASE * RAMP_TO * np.minimum(1, np.arange(1, 100_000) / RAMP_SAMPLES) / sd
    return float(np.searchsorted(np.cumsum(shift**2 / 2), np.log(run_length)) + 1)
