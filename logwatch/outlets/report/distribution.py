"""Level 3: distributions and their course in constant memory, however long the log was."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil, floor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwatch.columns import Floats, Ints

DISTINCT = 1 << 14
"""Different values that a `Distribution` keeps apart before it rounds them."""

DIGITS = 4
"""Significant digits left after rounding: at most 0.05 % away."""


class Distribution:
    """Values counted by value.

    Servers round what they print, so a month of reports holds a few thousand different values and every
    quantile is exact. Where there are more than `DISTINCT` (inferred cycle times), values are rounded to
    `DIGITS` significant digits; count and mean stay exact.

    >>> values = Distribution()
    >>> for value in (4.0, 1.0, 3.0, 2.0):
    ...     values.add(value)
    >>> values.quantile(0.5), values.mean
    (2.5, 2.5)
    """

    __slots__ = ("_counts", "_rounded", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._counts: dict[float, int] = {}
        self._rounded = False

    def add(self, value: float, times: int = 1) -> None:
        """Count a value so many times."""
        self.count += times
        self.total += value * times
        self._keep(value, times)

    def _keep(self, value: float, times: int) -> None:
        counts = self._counts
        if value in counts:
            counts[value] += times
        elif self._rounded:
            value = _rounded(value)
            counts[value] = counts.get(value, 0) + times
        else:
            counts[value] = times
            if len(counts) > DISTINCT:
                self._round()

    def add_many(self, values: Floats) -> None:
        """Count each of these once: the same as one by one, to the last digit of the total."""
        import numpy as np  # noqa: PLC0415 - who gives arrays has loaded it

        from logwatch.columns import summed  # noqa: PLC0415 - as above

        self.count += len(values)
        self.total = float(summed(self.total, values)[-1])
        distinct, times = np.unique(values, return_counts=True)
        for value, count in zip(distinct.tolist(), times.tolist(), strict=True):
            self._keep(value, count)

    def merge(self, other: Distribution) -> None:
        """Add all of another distribution."""
        count, total = self.count + other.count, self.total + other.total
        for value, times in other._counts.items():
            self.add(value, times)
        self.count, self.total = count, total

    @property
    def mean(self) -> float:
        """Arithmetic mean; 0 of nothing."""
        return self.total / self.count if self.count else 0.0

    def quantiles(self, *shares: float) -> list[float]:
        """Quantiles, between neighbours on a straight line (as numpy does by default); zeros of nothing."""
        if not self.count:
            return [0.0] * len(shares)
        values = sorted(self._counts)
        reach = list(accumulate(self._counts[value] for value in values))
        answers = []
        for share in shares:
            position = share * (self.count - 1)
            low = values[bisect_right(reach, floor(position))]
            high = values[bisect_right(reach, ceil(position))]
            answers.append(low + (high - low) * (position - floor(position)))
        return answers

    def quantile(self, share: float) -> float:
        """One quantile; 0 of nothing."""
        return self.quantiles(share)[0]

    def _round(self) -> None:
        self._rounded = True
        old, self._counts = self._counts, {}
        for exact, times in old.items():
            value = _rounded(exact)
            self._counts[value] = self._counts.get(value, 0) + times


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


@dataclass(slots=True)
class Bin:
    """Neighbouring samples of a course, as one.

    Attributes:
        line, time: Of the first sample.
        last_line, last_time: Of the last sample.
        outside: How many lay outside their band.
    """

    line: int
    time: str | None
    last_line: int
    last_time: str | None
    count: int
    total: float
    low: float
    high: float
    outside: int

    @property
    def mean(self) -> float:
        """Arithmetic mean of the samples."""
        return self.total / self.count


@dataclass(slots=True)
class Course:
    """The course of a value over a log in at most `width` bins of equally many samples.

    When all bins are used, neighbours are joined and each bin takes twice as many from then on.
    """

    width: int = 64
    per_bin: int = 1
    bins: list[Bin] = field(default_factory=list)

    def add(self, line: int, time: str | None, value: float, *, outside: bool) -> None:
        """Take the next sample."""
        last = self.bins[-1] if self.bins else None
        if last is not None and last.count < self.per_bin:
            last.last_line, last.last_time = line, time
            last.count += 1
            last.total += value
            if value < last.low:  # comparisons: a call here costs as much as the rest
                last.low = value
            elif value > last.high:
                last.high = value
            last.outside += outside
            return
        if len(self.bins) == self.width:
            self.bins = [_joined(self.bins[i : i + 2]) for i in range(0, self.width, 2)]
            self.per_bin *= 2
            self.add(line, time, value, outside=outside)
            return
        self.bins.append(Bin(line, time, line, time, 1, value, value, value, int(outside)))

    def add_many(self, lines: Ints, times: Sequence[str | None], values: Floats, outside: Ints) -> None:
        """Take these samples in order, `outside` 1 where a band was left: the same as one by one."""
        from logwatch.columns import summed  # noqa: PLC0415 - who gives arrays has loaded numpy

        at = 0
        while at < len(values):
            room = self.per_bin - self.bins[-1].count if self.bins else 0
            if room <= 0:
                self.add(lines[at].item(), times[at], values[at].item(), outside=bool(outside[at]))
                at += 1
                continue
            last, part = self.bins[-1], values[at : at + room]
            at += len(part)
            last.last_line, last.last_time = lines[at - 1].item(), times[at - 1]
            last.count += len(part)
            last.total = float(summed(last.total, part)[-1])
            last.low = min(last.low, part.min().item())
            last.high = max(last.high, part.max().item())
            last.outside += int(outside[at - len(part) : at].sum())


def _joined(bins: list[Bin]) -> Bin:
    first, last = bins[0], bins[-1]
    return Bin(
        first.line,
        first.time,
        last.last_line,
        last.last_time,
        sum(bin_.count for bin_ in bins),
        sum(bin_.total for bin_ in bins),
        min(bin_.low for bin_ in bins),
        max(bin_.high for bin_ in bins),
        sum(bin_.outside for bin_ in bins),
    )
