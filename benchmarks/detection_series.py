"""Synthetic series modelled on the field's verify phase: noise families and changes, many series at a time.

base 19.145 ms. g005/g02/g1: normal noise, sd 0.005/0.2/1.0. spike: sd 0.2 and with probability 0.5 % 2 ms x
Pareto(1.5) more, at most 200 ms. ar: AR(1) phi 0.6, marginal sd 0.2. round: sd 0.005 rounded to 0.01. mix: ar,
spikes and rounding. Besides: laplace (sd 0.2), student (t with 3 degrees of freedom, sd
0.2), ar9 (phi 0.9), bursts (spikes that last a geometric 4 samples).
"""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

BASE = 19.145
SPIKES, SPIKE_SCALE, SPIKE_ALPHA, SPIKE_CAP = 0.005, 2.0, 1.5, 200.0
SD = {
    "g005": 0.005, "g02": 0.2, "g1": 1.0, "spike": 0.2, "ar": 0.2, "round": 0.005, "mix": 0.2,
    "laplace": 0.2, "student": 0.2, "ar9": 0.2, "bursts": 0.2,
}  # fmt: skip
FAMILIES = ("g005", "g02", "g1", "spike", "ar", "round", "mix")
UNSEEN = ("laplace", "student", "ar9", "bursts")
PHI = {"ar": 0.6, "mix": 0.6, "ar9": 0.9}
SHIFTS = {"s0.5": 0.005, "s1": 0.01, "s2": 0.02, "s5": 0.05, "s50": 0.5}
CHANGES = (*SHIFTS, "ramp2", "var2", "bimod10")
TRANSIENTS = ("t1x3", "t3x1.5", "t10x1.5")
RAMP_SAMPLES, RAMP_TO = 5000, 0.02


class Source:
    """Endless noise of one family for many series; AR states go on from block to block.

    Args:
        family: One of `FAMILIES` or `UNSEEN`.
        series: How many at a time.
        rng: Where the randomness comes from.
    """

    def __init__(self, family: str, series: int, rng: np.random.Generator) -> None:
        self.family, self.series, self.rng = family, series, rng
        self.phi = PHI.get(family, 0.0)
        self.state = rng.normal(0, SD[family], series)
        self.burst = np.zeros(series, dtype=bool)

    def noise(self, samples: int) -> np.ndarray:
        """Core noise, shape (series, samples), ms."""
        sd, shape, rng = SD[self.family], (self.series, samples), self.rng
        if self.family == "laplace":
            return rng.laplace(0, sd / np.sqrt(2), shape)
        if self.family == "student":
            return rng.standard_t(3, shape) * sd / np.sqrt(3)
        e = rng.normal(0, sd * np.sqrt(1 - self.phi**2), shape)
        if not self.phi:
            return e
        out, _ = lfilter([1.0], [1.0, -self.phi], e, axis=1, zi=self.phi * self.state[:, None])
        self.state = out[:, -1]
        return out

    def draw(self, samples: int, change: str = "none", tau: int = 0) -> np.ndarray:
        """The next samples, shape (series, samples), ms; a change begins at index `tau` of this block."""
        z, rng = self.noise(samples), self.rng
        after = samples - tau
        if change == "var2":
            z[:, tau:] *= np.sqrt(2.0)
        x = BASE + z
        if change in SHIFTS:
            x[:, tau:] += BASE * SHIFTS[change]
        elif change == "ramp2":
            x[:, tau:] += BASE * RAMP_TO * np.minimum(1, np.arange(1, after + 1) / RAMP_SAMPLES)
        elif change == "bimod10":
            x[:, tau:] += BASE * 0.5 * (rng.random((self.series, after)) < 0.10)
        elif change == "t1x3":
            x[:, tau] += 2 * BASE
        elif change in {"t3x1.5", "t10x1.5"}:
            x[:, tau : tau + int(change[1:-4])] += 0.5 * BASE
        if self.family in {"spike", "mix", "bursts"}:
            hit = rng.random(x.shape) < (SPIKES / 4 if self.family == "bursts" else SPIKES)
            if self.family == "bursts":
                for step in range(samples):
                    stay = self.burst & (rng.random(self.series) < 0.75)
                    self.burst = stay | hit[:, step]
                    hit[:, step] = self.burst
            size = SPIKE_SCALE * (1 - rng.random(x.shape)) ** (-1 / SPIKE_ALPHA)
            x += hit * np.minimum(SPIKE_CAP, size)
        return np.round(x, 2) if self.family in {"round", "mix"} else x
