"""Level 2: a chart takes many samples at once where it surely stays silent.

`take_quiet` gives its chart's memory the same as `Chart.update` would, to the last digit, for as many samples at
the beginning as bring no statistic to its threshold, or only such as are held back there (`columns_held.py`). How
high the statistics get at most is known from cumulative sums, but for rounding, so a margin is kept, and for what is
taken back when outliers went away; where a statistic was surely 0 for the last time, it is added up again as the
chart adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logwatch.columns import first_true, summed
from logwatch.judging.bank import WINSOR
from logwatch.judging.charts import BACK, RING_EXTRA, SUSPECT
from logwatch.judging.columns_held import BACK_AGAIN, BEGIN, Climb, Gates
from logwatch.judging.columns_learning import learn_many
from logwatch.judging.columns_outliers import began, far_sides, innovations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwatch.columns import Bools, Floats, Ints
    from logwatch.judging.bank import Bank
    from logwatch.judging.baseline import Baseline
    from logwatch.judging.charts import Chart, ChartMemory
    from logwatch.judging.columns_outliers import Innovations

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


def take_quiet(chart: Chart, samples: Samples) -> int:
    """Take samples from the beginning while it is sure that the chart has nothing to say; how many.

    Args:
        chart: Its memory is read and written.
        samples: At most some thousand.
    """
    memory = chart.memory
    base = memory.base
    if base is None or memory.firing is not None or not (memory.frozen or memory.learning.scale):
        return 0
    if base.per_token:  # a context that it does not know is passed over
        places = np.flatnonzero(_knows(base, samples.contexts))
        if len(places) < len(samples):
            taken = _take(chart, base, samples.only(places))
            return len(samples) if taken == len(places) else int(places[taken])
    return _take(chart, base, samples)


def _take(chart: Chart, base: Baseline, samples: Samples) -> int:
    if not len(samples):
        return 0
    memory = chart.memory
    z = _scaled(base, samples)
    found = innovations(z, memory.previous, memory.outside, base.phi, memory.bank.root)
    evidence = _Evidence(memory, z, found)
    gates = None
    count = evidence.quiet
    if any((climb.states >= 1.0).any() for climb in evidence.climbs.values()):
        gates = Gates(chart, base, z, found.clipped, evidence.climbs)
        count = min(count, gates.quiet)
    learnt = np.zeros(0, np.int64)
    if not memory.frozen:
        count = min(count, first_true(np.abs(evidence.top - SUSPECT) <= evidence.margin))
        learnt = np.flatnonzero(evidence.top < SUSPECT)
        room = memory.build_at - memory.learning.samples - 1
        count = min(count, int(learnt[room])) if room < len(learnt) else count
    ordinary = np.flatnonzero(found.sides[:count] == 0)
    if not len(ordinary):
        return 0
    count = int(ordinary[-1]) + 1  # a stretch of outliers is left whole
    if not memory.frozen:
        learnt = learnt[learnt < count]
        learn_many(memory.learning, samples.values[learnt], samples.contexts[learnt])
    if gates:
        memory.held_back = gates.reason(count, samples.contexts) or memory.held_back
    _commit(memory, evidence, found, samples, count)
    kept = slice(max(count - chart.least_samples - RING_EXTRA, 0), count)
    ring = zip(z[kept].tolist(), samples.lines[kept].tolist(), samples.times[kept], strict=True)
    memory.ring = [*memory.ring, *ring][-(chart.least_samples + RING_EXTRA) :]
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
    """What innovations add to the statistics of a chart.

    Attributes:
        rows: The statistics that may move: (n_statistics), the first `shifts` of them of shifts.
        gains: (n_statistics, n_samples).
        events: What becomes of the shifts' evidence before each sample; see `columns_held`.
        hits: Stretches that began where a second mode would be, before each sample.
        climbs: Shifts that may come to 1, or to where learning pauses, added up sample by sample.
        quiet: Samples before the first that may bring another statistic to 1.
        top: The largest evidence after each sample, within `margin`; where `climbs` know better, as they know it.
        raw: The evidence after each sample at most, below 0 where it was taken to be 0, within `margin`.
        out: Where outliers are.
    """

    def __init__(self, memory: ChartMemory, z: Floats, found: Innovations) -> None:
        bank = memory.bank
        self.shifts = bank.shifts
        out = found.sides != 0
        beyond = far_sides(z, bank.far)
        new = began(beyond, memory.beyond)
        self.hits = np.concatenate([[0], np.cumsum(new)])
        self.events = np.where(found.behind, BACK_AGAIN * (np.abs(z) < BACK), BEGIN * out)
        self.before = memory.before_outliers
        modes = bank.shifts + (bank.spread >= 0)
        last = len(bank.kinds) if bank.modes or beyond.any() else modes
        self.rows = range(last)
        self.start = bank.state[:last]
        self.climbs: dict[int, Climb] = {}
        self.gains = _gains(bank, found, beyond, new, last)
        path = np.cumsum(self.gains, axis=1)
        path += np.array(self.start)[:, None]
        lowest = np.minimum(np.minimum.accumulate(path, axis=1), 0.0)
        self.margin = MARGIN * (1.0 + float(np.abs(path).max(initial=0.0)))
        raw = path.copy()
        raw[:, 1:] -= lowest[:, :-1]
        self.raw, self.out = raw, out
        shifts = raw[: bank.shifts]
        self.climbs = self._climbs(shifts.max(axis=1, initial=0.0) >= 1.0 - self.margin)
        if not memory.frozen and (self.events == BACK_AGAIN).any():
            # What is taken back may make learning go on.
            top = np.max([np.zeros(len(z)), *(climb.states for climb in self.climbs.values())], axis=0)
            others = shifts[:, top < SUSPECT]
            self.climbs |= self._climbs(others.max(axis=1, initial=0.0) >= SUSPECT - self.margin)
        self.quiet = first_true(raw[bank.shifts :].max(axis=0, initial=0.0) >= 1.0 - self.margin)
        for row, climb in self.climbs.items():
            raw[row] = climb.states
        if bank.spread >= 0:
            raw[bank.spread, out] = 0.0  # an outlier's evidence is that of shifts and modes
        self.top = raw.max(axis=0, initial=0.0)

    def follow(self, row: int, count: int) -> tuple[float, int]:
        """The statistic after `count` samples, and the sample with which it last began to grow, or -1."""
        if row in self.climbs:
            return self.climbs[row].after(count)
        begin = 0
        rising = np.flatnonzero(self.gains[row, :count] > 0.0)
        if len(rising):
            earlier = slice(0, rising[-1])
            zeros = np.flatnonzero((self.raw[row, earlier] <= -self.margin) & ~self.out[earlier])
            begin = (
                int(zeros[-1]) + 1 if len(zeros) else 0
            )  # it surely was 0, and no stretch of outliers lasted
        state, begun = self._climb(row, begin, count).after(count - begin)
        return state, begun + begin if begun >= 0 else -1

    def _climbs(self, rows: Bools) -> dict[int, Climb]:
        wanted = (row for row in np.flatnonzero(rows).tolist() if row not in self.climbs)
        return {row: self._climb(row, 0, len(self.events)) for row in wanted}

    def _climb(self, row: int, begin: int, end: int) -> Climb:
        """Add up from where the statistic is known: 0 but at the beginning."""
        state, before = (0.0, 0.0) if begin else (self.start[row], self.before[row] if self.before else 0.0)
        events = self.events[begin:end] if row < self.shifts else np.zeros(end - begin, np.int64)
        return Climb.of(state, before, self.gains[row, begin:end], events)


def _gains(bank: Bank, found: Innovations, beyond: Ints, new: Bools, last: int) -> Floats:
    """What each sample adds to each statistic, or takes."""
    slope, drop, cap = (np.array(each[:last])[:, None] for each in (bank.slope, bank.drop, bank.cap))
    gains = np.empty((last, len(found.e)))
    shifts, out = slice(0, bank.shifts), found.sides != 0
    u = (np.clip(found.e, -WINSOR, WINSOR) - bank.centre) / bank.unit
    gains[shifts] = slope[shifts] * u - drop[shifts]
    np.minimum(gains[shifts], np.where(out, bank.outlier_cap, bank.shift_cap), out=gains[shifts])
    if bank.spread >= 0:
        v, row = found.e / bank.spread_unit, bank.spread
        gains[row] = np.where(out, 0.0, np.minimum(slope[row] * (v * v) - drop[row], cap[row]))
    for row in range(bank.shifts + (bank.spread >= 0), last):
        there = beyond == (1 if bank.kinds[row] == "more_high" else -1)
        gains[row] = np.where(there, np.where(new, min(bank.slope[row], bank.cap[row]), 0.0), -bank.drop[row])
    return gains


def _commit(
    memory: ChartMemory, evidence: _Evidence, found: Innovations, samples: Samples, count: int
) -> None:
    bank = memory.bank
    totals = summed(memory.total, found.clipped[:count])
    for row in evidence.rows:
        bank.state[row], begun = evidence.follow(row, count)
        if begun >= 0:
            bank.origin[row] = memory.seen + begun + 1
            memory.total_at[row] = totals[begun].item()
            memory.hits_at[row] = memory.hits + int(evidence.hits[begun])
            memory.moment_at[row] = (samples.lines[begun].item(), samples.times[begun])
    bank.modes = any(state > 0.0 for state in bank.state[bank.shifts + (bank.spread >= 0) :])
    memory.seen += count
    memory.total = totals[-1].item()
    memory.hits += int(evidence.hits[count])
    if memory.outside or found.sides[:count].any():
        memory.before_outliers = []
    memory.outside = memory.beyond = 0
    memory.previous = found.clipped[count - 1].item()
