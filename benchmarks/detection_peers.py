"""What else people use, on the same series: online rules, many series at once, and offline segmentations."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

WINDOW = 1200
"""An hour of reports, one in 3 s."""


def band_rule(learnt: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Fixed band of +-2 % around the learnt mean, 5 samples in a row: alarms, (series, samples) bool."""
    level = learnt.mean(axis=1, keepdims=True)
    return _in_a_row(np.abs(x / level - 1) > 0.02, 5)


def promql_rule(learnt: np.ndarray, x: np.ndarray) -> np.ndarray:
    """abs(avg_over_time(x[15s]) - avg_over_time(x[1h])) > 3 * stddev_over_time(x[1h]), sliding."""
    both = np.concatenate([learnt[:, -WINDOW:], x], axis=1)
    one = np.cumsum(np.pad(both, ((0, 0), (1, 0))), axis=1)
    two = np.cumsum(np.pad((both - both.mean()) ** 2, ((0, 0), (1, 0))), axis=1)
    mean = (one[:, WINDOW:] - one[:, :-WINDOW]) / WINDOW
    square = (two[:, WINDOW:] - two[:, :-WINDOW]) / WINDOW
    deviation = np.sqrt(np.maximum(square - (mean - both.mean()) ** 2, 1e-18))
    short = (one[:, 5:] - one[:, :-5]) / 5
    return np.abs(short[:, -x.shape[1] :] - mean[:, 1:]) > 3 * deviation[:, 1:]


def shewhart(learnt: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Limits at 4.892 sd: one alarm in 1e6 normal samples."""
    return np.abs(x - learnt.mean(axis=1, keepdims=True)) > 4.892 * learnt.std(axis=1, keepdims=True)


def ewma(learnt: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Weight 0.1; limits for one alarm in 1e6 normal samples (4.4 of its own deviations)."""
    from scipy.signal import lfilter

    z = (x - learnt.mean(axis=1, keepdims=True)) / learnt.std(axis=1, keepdims=True)
    return np.abs(lfilter([0.1], [1.0, -0.9], z, axis=1)) > 4.4 * np.sqrt(0.1 / 1.9)


def cusum(learnt: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Textbook tabular CUSUM, both sides, for +0.5 % at sd 0.2 (k 0.24): Siegmund's h for one in 1e6."""
    z = (x - learnt.mean(axis=1, keepdims=True)) / learnt.std(axis=1, keepdims=True)
    k, h = 0.24, 23.3
    up, down = np.zeros(len(x)), np.zeros(len(x))
    alarms = np.zeros(x.shape, dtype=bool)
    for j in range(x.shape[1]):
        up, down = np.maximum(up + z[:, j] - k, 0), np.maximum(down - z[:, j] - k, 0)
        fired = (up > h) | (down > h)
        alarms[:, j] = fired
        up[fired], down[fired] = 0.0, 0.0
    return alarms


ONLINE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "band +-2 %, 5 in a row": band_rule,
    "PromQL z-score, 1 h": promql_rule,
    "Shewhart": shewhart,
    "EWMA": ewma,
    "CUSUM, textbook": cusum,
}


def river_rules(folder: str | None) -> dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]:
    """Detectors of river with their defaults, where river is installed (in `folder`, or beside us)."""
    if folder:
        sys.path.append(folder)
    try:
        from river import drift
    except ImportError:
        return {}

    def run(make: Callable[[], object], scale: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        def alarms(learnt: np.ndarray, x: np.ndarray) -> np.ndarray:
            out = np.zeros(x.shape, dtype=bool)
            for i, row in enumerate(x):
                detector = make()
                for value in (learnt[i, -2000:] * scale).tolist():
                    detector.update(value)
                for j, value in enumerate((row * scale).tolist()):
                    detector.update(value)
                    out[i, j] = detector.drift_detected
            return out

        return alarms

    return {"river PageHinkley": run(drift.PageHinkley, 1.0), "river ADWIN": run(drift.ADWIN, 1.0)}


def events(alarms: np.ndarray, apart: int = 20) -> int:
    """Alarms counted once while they last: those at least `apart` samples after the one before."""
    total = 0
    for row in alarms:
        last = -apart
        for index in np.nonzero(row)[0]:
            total += index - last >= apart
            last = index
    return total


def e_divisive(python: str | None, series: list[np.ndarray]) -> list[list[int]] | None:
    """Apache Otava's change points with its defaults, in its own environment; None where there is none."""
    if python is None or not Path(python).exists():
        return None
    program = (
        "import json, sys\n"
        "from otava.analysis import compute_change_points\n"
        "out = [[int(c.index) for c in compute_change_points(s)[0]] for s in json.load(sys.stdin)]\n"
        "json.dump(out, sys.stdout)\n"
    )
    done = subprocess.run(
        [python, "-c", program], input=json.dumps([s.tolist() for s in series]), text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    return [[int(i) for i in points] for points in json.loads(done.stdout)]


def pelt_l2(values: np.ndarray) -> list[int]:
    """Textbook least squares segmentation: penalty 2 log n times the plain variance of differences."""
    import ruptures

    variance = float(np.var(np.diff(values))) / 2
    model = ruptures.KernelCPD(kernel="linear", min_size=2).fit((values / np.sqrt(variance))[:, None])
    return [int(i) for i in model.predict(pen=2 * np.log(len(values)))[:-1]]


def _in_a_row(outside: np.ndarray, count: int) -> np.ndarray:
    run = np.cumsum(np.pad(outside, ((0, 0), (count, 0))), axis=1)
    return run[:, count:] - run[:, :-count] == count
