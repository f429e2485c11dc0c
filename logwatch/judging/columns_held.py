"""Level 2: evidence for a shift that reached its threshold and is held back there, sample after sample.

A baseline that was learnt from few samples is off by a little, and for a shift too small to matter the evidence
stays high for as long as it lasts. What `Chart` then does with each sample is done here for many: the statistic is
added up with its ceiling, and the gates of `firing.py` are asked of all samples. Where the answer is not surely
"held back" for one of the two plain reasons (too few samples, too small a shift), the sample is left to the chart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logwatch.columns import first_true, summed
from logwatch.judging.baseline import CLIP
from logwatch.judging.charts import CEILING, RING_EXTRA
from logwatch.judging.firing import LARGE, SURE_MEAN, Firing, Newest, opened
from logwatch.model import Moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from logwatch.columns import Bools, Floats, Ints
    from logwatch.judging.baseline import Baseline
    from logwatch.judging.charts import Chart

MARGIN = 1e-9
"""More than the mean of some dozen values below 4 scales can be off by rounding."""

BEGIN, BACK_AGAIN = 1, 2
"""A stretch of outliers begins, or is back near the level: what it told is taken back."""


@dataclass(slots=True)
class Climb:
    """A shift's statistic, added up.

    Attributes:
        states: After each sample, before the ceiling.
        begun: The samples with which it began to grow.
    """

    states: Floats
    begun: list[int]

    @classmethod
    def of(cls, state: float, before: float, gains: Floats, events: Ints) -> Climb:
        """As `bank.weigh_shift` and `Chart` do, where the statistic is never told.

        Args:
            state: Before the samples.
            before: When the stretch of outliers began that lasts, if one does.
            gains: What each sample adds or takes.
            events: What comes before that: `BEGIN`, `BACK_AGAIN` or 0.
        """
        states: list[float] = []
        begun: list[int] = []
        for at, (gain, event) in enumerate(zip(gains.tolist(), events.tolist(), strict=True)):
            if event == BEGIN:
                before = state
            elif event:
                state = min(state, before)
            if gain > 0.0:
                if state == 0.0:
                    begun.append(at)
                state += gain
            elif state != 0.0:
                state += gain
                if state < 0.0:  # noqa: PLR1730 - a call here costs half of the loop
                    state = 0.0
            states.append(state)
            if state > CEILING:  # noqa: PLR1730 - as above
                state = CEILING
        return cls(np.array(states), begun)

    def after(self, count: int) -> tuple[float, int]:
        """The statistic after `count` samples, and the sample with which it last began to grow, or -1."""
        before = int(np.searchsorted(self.begun, count))
        return min(self.states[count - 1].item(), CEILING), self.begun[before - 1] if before else -1


class Gates:
    """What holds back the statistics.

    Args:
        chart: As it was before the samples.
        base: The chart's.
        z, clipped: The samples.
        climbs: Statistics by number.

    Attributes:
        quiet: Samples before the first at which a statistic may be told, or dropped.
    """

    def __init__(
        self, chart: Chart, base: Baseline, z: Floats, clipped: Floats, climbs: Mapping[int, Climb]
    ) -> None:
        self._chart = chart
        self._base = base
        self._z = z
        self._climbs = climbs
        self._totals = summed(chart.memory.total, clipped)
        self._effect = max(chart.least_effect, chart.memory.coarsest) * abs(base.level)
        self._ring = [value for value, _, _ in chart.memory.ring]
        sure = np.ones(len(z), np.bool_)
        for row, each in climbs.items():
            places = np.flatnonzero(each.states >= 1.0)
            sure[places] &= self._holds(row, places)
        places = np.flatnonzero(np.any([each.states >= 1.0 for each in climbs.values()], axis=0))
        sure[places] &= self._near(places)
        self.quiet = first_true(~sure)

    def reason(self, count: int, contexts: Floats) -> str:
        """Why the last of the first `count` samples that brought a statistic to 1 was held back; empty if none did."""
        highest = {row: np.flatnonzero(each.states[:count] >= 1.0) for row, each in self._climbs.items()}
        at = max(int(places[-1]) if len(places) else -1 for places in highest.values())
        if at < 0:
            return ""
        here = {row: each.states[at].item() for row, each in self._climbs.items() if each.states[at] >= 1.0}
        row = min(reversed(here), key=here.__getitem__)  # of equal ones the last
        since, means = self._means(row, np.array([at]))
        context = contexts[at].item()
        run = self._chart.least_samples
        newest = [*self._ring, *self._z[max(at + 1 - run - RING_EXTRA, 0) : at + 1].tolist()][
            -(run + RING_EXTRA) :
        ]
        found = opened(
            kind="level_shift",
            size=self._chart.memory.bank.size[row],
            since=since[0].item(),
            mean=means[0].item(),
            hits=0,
            onset=Moment(0),
            seen=Newest([(value, 0, None) for value in newest], run),
            base=self._base,
            level=self._base.expected(None if math.isnan(context) else context),
            least=self._effect,
        )
        assert not isinstance(found, Firing)  # `quiet` says so
        return found.reason

    def _means(self, row: int, places: Ints) -> tuple[Ints, Floats]:
        """Samples since the statistic began to grow, and their mean, at these samples."""
        memory, begun = self._chart.memory, np.array([-1, *self._climbs[row].begun])
        first = begun[np.searchsorted(begun, places, side="right") - 1]
        since = places - first + 1
        before = self._totals[first]
        earlier = first < 0
        since[earlier] = memory.seen + places[earlier] + 2 - memory.bank.origin[row]
        before[earlier] = memory.total_at[row]
        return since, (self._totals[places + 1] - before) / since

    def _holds(self, row: int, places: Ints) -> Bools:
        """Whether the statistic surely is not told where the newest samples are near the level."""
        since, means = self._means(row, places)
        sign = 1.0 if self._chart.memory.bank.size[row] > 0 else -1.0
        small = (np.abs(means) <= SURE_MEAN) & (sign * means * self._base.scale < self._effect)
        few: Bools = since < self._chart.least_samples
        return few | small

    def _near(self, places: Ints) -> Bools:
        """Whether the newest samples' clipped mean lies so near to the level that their onset is not looked for."""
        run = self._chart.least_samples
        ring = self._ring[-(run - 1) :]
        missing = run - 1 - len(ring)  # so many samples have too few before them
        newest = np.concatenate([np.zeros(missing), ring, self._z])
        windows = np.lib.stride_tricks.sliding_window_view(newest, run)[places]
        middle = np.median(windows, axis=1, keepdims=True)
        wide = np.ptp(windows, axis=1) > CLIP
        means = np.where(
            wide, np.clip(windows, middle - CLIP, middle + CLIP).mean(axis=1), windows.mean(axis=1)
        )
        near: Bools = (places >= missing) & (np.abs(means) < LARGE - MARGIN)
        return near
