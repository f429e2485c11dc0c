"""Level 3: small charts in text: where a phase lies against its band, and how it went.

Both are readable without colour: height and place say it, colour only repeats it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwatch.model import Limits
    from logwatch.outlets.report.distribution import Bin
    from logwatch.outlets.report.summary import PhaseSummary

BLOCKS = "▁▂▃▄▅▆▇█"
OWN = 0.25
"""Where no band is known, the middle of a course is the median and its edge this share away."""


def position(phase: PhaseSummary, width: int) -> str:
    """The band as brackets, the 5 to 95 % range as a line, the median as a diamond, on one axis.

    The axis reaches one band's width beyond the band, or as far as the values do. Empty without a band, and
    where it moved.
    """
    band = phase.fixed_band
    if band is None:
        return ""
    span = max(band.high - band.low, 1e-9)
    low = min(band.low - span / 2, phase.p05_s)
    high = max(band.high + span / 2, phase.p95_s)
    step = (high - low) / (width - 1)
    cells = [" "] * width
    for at in range(_cell(band.low, low, step), _cell(band.high, low, step) + 1):
        cells[at] = "·"
    for at in range(_cell(phase.p05_s, low, step), _cell(phase.p95_s, low, step) + 1):
        cells[at] = "─"
    cells[_cell(band.low, low, step)] = "["
    cells[_cell(band.high, low, step)] = "]"
    cells[_cell(phase.median_s, low, step)] = "◆"
    return "".join(cells)


def _cell(value: float, low: float, step: float) -> int:
    return round((value - low) / step)


def course(bins: Sequence[Bin], centre: float, band: Limits | None, width: int) -> list[tuple[str, bool]]:
    """How a phase went: a block a piece and whether most of it lay outside the band.

    Blocks of middle height lie in the band (the lowest two and the highest three outside), or within `OWN` of
    `centre` where there is no band.
    """
    low, high = (band.low, band.high) if band else (centre * (1 - OWN), centre * (1 + OWN))
    return [
        (
            _block(piece, low, high),
            2 * sum(each.outside for each in piece) > sum(each.count for each in piece),
        )
        for piece in _pieces(bins, width)
    ]


def _pieces(bins: Sequence[Bin], width: int) -> list[Sequence[Bin]]:
    count = min(width, len(bins))
    edges = [round(at * len(bins) / count) for at in range(count + 1)] if count else []
    return [bins[start:end] for start, end in pairwise(edges)]


def _block(piece: Sequence[Bin], low: float, high: float) -> str:
    mean = sum(each.total for each in piece) / sum(each.count for each in piece)
    span = (high - low) or 1e-9
    if mean < low:  # heights 1 and 2: below
        return BLOCKS[1 if low - mean < span / 2 else 0]
    if mean > high:  # heights 6, 7 and 8: above
        return BLOCKS[5 if mean - high < span / 4 else 6 if mean - high < span else 7]
    return BLOCKS[min(4, 2 + int(3 * (mean - low) / span))]
