"""Level 2: a chart takes many samples at once where it surely stays silent.

`take_quiet` gives its chart's memory the same as `Chart.update` would, to the last digit, for as many samples at
the beginning as are no outliers and bring no statistic to its threshold. How high the statistics get is known
from cumulative sums but for rounding, so a margin is kept; where a statistic was surely 0 for the last time, it
is added up again as the chart adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logwatch.columns import first_true, summed
from logwatch.judging.bank import WINSOR
from logwatch.judging.baseline import CLIP
from logwatch.judging.charts import RING_EXTRA, SUSPECT
from logwatch.judging.columns_learning import learn_many, residuals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwatch.columns import Floats, Ints
    from logwatch.judging.bank import Bank
    from logwatch.judging.baseline import Baseline
    from logwatch.judging.charts import ChartMemory

MARGIN = 1e-9
"""More than a thousand additions of the evidence can be off by rounding, as a share of the largest sum."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of one series; contexts are NaN where unknown."""

    values: Floats
    contexts: Floats
    lines: Ints
    times: Sequence[str | None]

    def __len__(self) -> int:
        """How many."""
        return len(self.values)

    def part(self, begin: int, end: int) -> Samples:
        """Some of them."""
        cut = slice(begin, end)
        return Samples(self.values[cut], self.contexts[cut], self.lines[cut], self.times[cut])

    def only(self, which: Ints) -> Samples:
        """Those of these indices."""
        return Samples(
            self.values[which],
            self.contexts[which],
            self.lines[which],
            [self.times[at] for at in which.tolist()],
        )


def take_quiet(memory: ChartMemory, least_samples: int, samples: Samples) -> int:
    """Take samples from the beginning while it is sure that the chart has nothing to say; how many.

    Args:
        memory: The chart's.
        least_samples: The chart's.
        samples: At most some thousand.
    """
    base, bank = memory.base, memory.bank
    if base is None or memory.firing is not None or memory.outside or memory.beyond:
        return 0
    if not memory.frozen and not memory.learning.scale:
        return 0
    if max(bank.state, default=0.0) >= 1.0 - MARGIN:
        return 0
    places = None
    if base.per_token:  # a context that it does not know is passed over
        places = np.flatnonzero(_knows(base, samples.contexts))
        if len(places) < len(samples):
            whole, samples = len(samples), samples.only(places)
            return _skipped(places, whole, _take(memory, base, least_samples, samples))
    return _take(memory, base, least_samples, samples)


def _skipped(places: Ints, whole: int, taken: int) -> int:
    return whole if taken == len(places) else int(places[taken])


def _take(memory: ChartMemory, base: Baseline, least_samples: int, samples: Samples) -> int:
    if not len(samples):
        return 0
    bank = memory.bank
    z = _scaled(base, samples)
    e = (z - base.phi * np.concatenate([[memory.previous], z[:-1]])) / bank.root
    count = first_true(~((np.abs(z) < CLIP) & (np.abs(e) <= CLIP)))
    if not memory.frozen:
        count = min(count, memory.build_at - memory.learning.samples - 1)
    if count <= 0:
        return 0
    evidence = _Evidence(bank, e[:count])
    count = evidence.quiet
    learnt = np.zeros(0, np.int64)
    if not memory.frozen and count:
        count = min(count, first_true(np.abs(evidence.top[:count] - SUSPECT) <= evidence.margin))
        learnt = np.flatnonzero(evidence.top[:count] < SUSPECT)
        r = residuals(memory.learning, samples.values[learnt], samples.contexts[learnt])
        if len(r) < len(learnt):
            count = int(learnt[len(r)])
            learnt = learnt[: len(r)]
    if count <= 0:
        return 0
    if not memory.frozen:
        learn_many(memory.learning, r, samples.contexts[learnt])
    _commit(memory, evidence, z[:count], samples)
    kept = slice(max(count - least_samples - RING_EXTRA, 0), count)
    ring = zip(z[kept].tolist(), samples.lines[kept].tolist(), samples.times[kept], strict=True)
    memory.ring = [*memory.ring, *ring][-(least_samples + RING_EXTRA) :]
    return count


def _scaled(base: Baseline, samples: Samples) -> Floats:
    if base.per_token:
        expected = base.level + base.per_token * (samples.contexts - base.context)
        return (samples.values - expected) / base.scale
    return (samples.values - base.level) / base.scale


def _knows(base: Baseline, contexts: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    margin = 0.25 * (base.high_context - base.low_context)
    return (base.low_context - margin <= contexts) & (contexts <= base.high_context + margin)


class _Evidence:
    """What innovations, none an outlier, add to the statistics of a bank.

    Attributes:
        rows: The statistics that may move: (n_statistics).
        gains: (n_statistics, n_samples).
        quiet: Samples before the first that may bring a statistic to 1.
        top: The largest evidence after each sample, within `margin`.
        zero: Where a statistic surely is 0.
    """

    def __init__(self, bank: Bank, e: Floats) -> None:
        last = len(bank.kinds) if bank.modes else bank.shifts + (bank.spread >= 0)
        self.rows = range(last)
        slope, drop, cap = (np.array(each[:last])[:, None] for each in (bank.slope, bank.drop, bank.cap))
        moves = np.zeros((last, len(e)))
        moves[: bank.shifts] = (np.clip(e, -WINSOR, WINSOR) - bank.centre) / bank.unit
        cap[: bank.shifts] = bank.shift_cap
        if bank.spread >= 0:
            v = e / bank.spread_unit
            moves[bank.spread] = v * v
        self.gains = np.minimum(slope * moves - drop, cap)
        self.start = bank.state[:last]
        path = np.cumsum(self.gains, axis=1)
        path += np.array(self.start)[:, None]
        lowest = np.minimum(np.minimum.accumulate(path, axis=1), 0.0)
        self.margin = MARGIN * (1.0 + float(np.abs(path).max(initial=0.0)))
        raw = path.copy()
        raw[:, 1:] -= lowest[:, :-1]
        self.zero = raw <= -self.margin
        self.top = np.maximum(raw, 0.0).max(axis=0, initial=0.0)
        self.quiet = first_true(self.top >= 1.0 - self.margin)

    def follow(self, row: int, count: int) -> tuple[float, int]:
        """The statistic after `count` samples, and the sample with which it last began to grow, or -1."""
        gains = self.gains[row, :count]
        rising = np.flatnonzero(gains > 0.0)
        begin, state = 0, self.start[row]
        if len(rising):
            zeros = np.flatnonzero(self.zero[row, : rising[-1]])
            if len(zeros):
                begin, state = int(zeros[-1]) + 1, 0.0
        begun = -1
        for at, gain in enumerate(gains[begin:].tolist(), begin):
            if gain > 0.0:
                if state == 0.0:
                    begun = at
                state += gain
            elif state != 0.0:
                state += gain
                state = max(0.0, state)
        return state, begun


def _commit(memory: ChartMemory, evidence: _Evidence, z: Floats, samples: Samples) -> None:
    bank, count = memory.bank, len(z)
    totals = summed(memory.total, z)
    for row in evidence.rows:
        bank.state[row], begun = evidence.follow(row, count)
        if begun >= 0:
            bank.origin[row] = memory.seen + begun + 1
            memory.total_at[row] = totals[begun].item()
            memory.hits_at[row] = memory.hits
            memory.moment_at[row] = (samples.lines[begun].item(), samples.times[begun])
    if bank.modes:
        bank.modes = any(state > 0.0 for state in bank.state[bank.shifts + (bank.spread >= 0) :])
    memory.seen += count
    memory.total = totals[-1].item()
    memory.previous = z[-1].item()
