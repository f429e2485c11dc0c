"""Level 3: stretches of a chunk that last less than a minute, by the clocks of all their lines at once.

Used by `bulk_requests.py`: answers within a stretch make no record then.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from logwatch.intake.bulk_layouts import Mask, words_from
from logwatch.reading.requests import LONG_S, MANY

if TYPE_CHECKING:
    from logwatch.intake.bulk_found import Ints
    from logwatch.intake.bulk_layouts import Bools, Bytes, Words

_STAMP: Final = b"[2026-02-11 08:57:52"
_FRACTION: Final = b".123"
_PLACES: Final = (1, 2, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19)
_YEAR, _MONTH, _DAY = 372 * 86_400, 31 * 86_400, 86_400
_SECONDS: Final = (
    1000 * _YEAR, 100 * _YEAR, 10 * _YEAR, _YEAR, 10 * _MONTH, _MONTH, 10 * _DAY, _DAY,
    36_000, 3_600, 600, 60, 10, 1,
)  # fmt: skip
"""The worth of these digits, had all months 31 days: where one ends, a stretch may be taken for a long one."""
MOST_BLANK: Final = 4
"""Lines a stretch, on average, that begin with a blank: more are not worth a look."""
_FAR: Final = 10**12
_WORDS: Final = 4
_TIMELESS: Final = re.compile(rb" +[A-Za-z][^\]\n]*\n")
"""A line in which no framing finds a time."""


def _mask(text: bytes) -> Mask:
    return Mask(text, [at for at, char in enumerate(text) if chr(char).isdigit()])


_STAMPED, _FRACTIONED = _mask(_STAMP), _mask(_STAMP + _FRACTION)


def are_short(text: bytes, starts: Ints, begins: Ints, ends: Ints) -> Bools:
    """Which stretches surely last less than a minute, and hold fewer lines than make a record without times.

    False where some line's clock is not plain to see.

    Args:
        text: A chunk.
        starts: Where its lines begin.
        begins: Where the line before each stretch begins.
        ends: Where the line behind it does.
    """
    data = np.frombuffer(text, np.uint8)
    first = np.searchsorted(starts, begins) + 1
    sizes = np.searchsorted(starts, ends) - first
    if not sizes.all():
        short: Bools = sizes == 0
        short[~short] = are_short(text, starts, begins[~short], ends[~short])
        return short
    bounds = np.concatenate([[0], sizes.cumsum()])
    begin = starts[np.arange(bounds[-1]) + np.repeat(first - bounds[:-1], sizes)]
    rows = words_from(data, begin, _WORDS)
    # Most lines have the clock of the line before: only the first of these is looked at, as far as that goes.
    head = np.zeros(len(rows), np.bool_)
    for word in range(_STAMPED.words):
        head[1:] |= rows[1:, word] != rows[:-1, word]
    head[bounds[:-1]] = True
    head |= (data[begin] == ord(" ")) | (rows.view(np.uint8)[:, len(_STAMP)] == ord("."))
    heads = np.flatnonzero(head)
    rows, begin, at = rows[heads], begin[heads], np.searchsorted(heads, bounds[:-1])
    stamped = _is_stamped(rows)
    good = stamped.copy()
    blank = np.flatnonzero(data[begin] == ord(" "))
    if len(blank) <= MOST_BLANK * len(begins):
        good[blank] = [_TIMELESS.match(text, position) is not None for position in begin[blank].tolist()]
    digits = rows.view(np.uint8).T[list(_PLACES)] & 0x0F
    seconds = (digits * np.array(_SECONDS, np.int64)[:, np.newaxis]).sum(axis=0)
    latest = np.maximum.reduceat(np.where(stamped, seconds, -_FAR), at)
    earliest = np.minimum.reduceat(np.where(stamped, seconds, _FAR), at)
    short = np.logical_and.reduceat(good, at) & (latest - earliest < LONG_S) & (sizes < MANY)
    torn = _second_dates(data)
    short &= np.searchsorted(torn, begins) == np.searchsorted(torn, ends)
    return short


def _is_stamped(rows: Words) -> Bools:
    """By line, whether it begins with a date and a clock without a zone."""
    bytes_ = rows.view(np.uint8)
    plain: Bools = _STAMPED.fits(rows[:, : _STAMPED.words]) & _is_closed(bytes_, len(_STAMP))
    other = np.flatnonzero(~plain)
    if len(other):
        size = len(_STAMP + _FRACTION)
        plain[other] = _FRACTIONED.fits(rows[other, : _FRACTIONED.words]) & _is_closed(bytes_[other], size)
    return plain


def _is_closed(bytes_: np.ndarray[tuple[int, int], np.dtype[np.uint8]], at: int) -> Bools:
    """Whether a bracket or a rank follows."""
    sign, letter = bytes_[:, at], bytes_[:, at + 1]
    closed: Bools = (sign == ord("]")) | ((sign == ord(" ")) & (letter >= ord("A")) & (letter <= ord("Z")))
    return closed


def _second_dates(data: Bytes) -> Ints:
    """Where what may be a date in a bracket stands within a line."""
    at = np.flatnonzero((data[1:-2] == ord("[")) & (data[:-3] != ord("\n"))) + 1
    found: Ints = at[(data[at + 1] == ord("2")) & (data[at + 2] == ord("0"))]
    return found
