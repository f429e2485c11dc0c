"""Level 2: the rule of consecutive samples (`stretch.py`) over many samples where it surely changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logwatch.columns import first_true
from logwatch.judging.stretch import HISTORY, WORSE, Row, forget

if TYPE_CHECKING:
    from logwatch.columns import Floats, Ints


@dataclass(slots=True)
class Watched:
    """Samples of one watched value, all usable.

    Attributes:
        key: Of its row.
        open_after: Of its rule.
        reports: Index of the report that each sample belongs to, ascending.
        values, shares: The samples, and as shares of what they should have been.
        sides: 1 too high, -1 too low, 0 good.
    """

    key: str
    open_after: int
    reports: Ints
    values: Floats
    shares: Floats
    sides: Ints


def until(row: Row | None, watched: Watched, begin: int) -> int:
    """Report at which the row may change, no earlier than report `begin`; past all reports where none may.

    Changes nothing itself. Where the row is in a state that only `stretch.count` knows, that is `begin`.
    """
    first = int(np.searchsorted(watched.reports, begin))
    count = len(watched.reports) - first
    if not count:
        return np.iinfo(np.int64).max
    quiet = 0 if row is None else _quiet(row, watched, first)
    return np.iinfo(np.int64).max if quiet == count else int(watched.reports[first + quiet])


def advance(row: Row, watched: Watched, begin: int, end: int) -> None:
    """Take the samples of the reports from `begin` on and before `end`, all before `until`."""
    first, last = (int(at) for at in np.searchsorted(watched.reports, (begin, end)))
    if first == last:
        return
    kept = slice(max(first, last - HISTORY), last)
    shares = watched.shares[kept].tolist()
    if not row.is_open:
        forget(row)
        row.good = [*row.good, *shares][-HISTORY:]
        return
    row.inside, row.inside_shares = 0, []
    row.samples += last - first
    row.values = [*row.values, *watched.values[kept].tolist()][-HISTORY:]
    row.shares = [*row.shares, *shares][-HISTORY:]


def _quiet(row: Row, watched: Watched, first: int) -> int:
    sides = watched.sides[first:]
    if not row.is_open:
        return first_true(sides != 0)
    window = min(watched.open_after, HISTORY)
    if len(row.shares) < window or row.samples < 2 * watched.open_after:
        return 0
    count = first_true(sides != (1 if row.side == "high" else -1))
    if not count:
        return 0
    before = row.shares[len(row.shares) - window + 1 :]
    newest = np.concatenate([before, watched.shares[first : first + count]])
    views = np.lib.stride_tricks.sliding_window_view(newest, window)
    if row.side == "high":
        further = views.min(axis=1) / max(row.told, 1e-12)
    else:
        further = row.told / np.maximum(views.max(axis=1), 1e-12)
    return first_true(further >= WORSE)
