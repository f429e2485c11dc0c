"""Level 3: many cycles of one rank taken into its track at once, as `track.Tracker` takes them one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from logwatch.columns import summed
from logwatch.outlets.report.columns import economics_of_many
from logwatch.outlets.report.track import MAX_PHASES, Cell, Span, Track

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwatch.columns import CycleColumns, Floats, Ints, Judged
    from logwatch.model import Limits


def follow(track: Track, cycles: CycleColumns, baseline_tokens_per_second: float | None) -> None:
    """Take these cycles of the track's rank."""
    series = list(_series(cycles, baseline_tokens_per_second))
    at = 0
    while at < len(cycles):
        room = track.room(cycles.run)
        part = slice(at, at + max(room, 1))
        at = min(part.stop, len(cycles))
        track.note_times(cycles.times[part])
        cells = track.spans[-1].cells if room else {}
        for name, values, judged, outside in series:
            limits = None if judged is None else judged.limits(at - 1)
            _extend(cells, name, values[part], limits, outside[part])
        if room:
            track.spans[-1].reports += at - part.start
        else:
            track.add(Span(cycles.lines[part.start].item(), cycles.times[part.start], cycles.run, 1, cells))


def _series(
    cycles: CycleColumns, baseline_tokens_per_second: float | None
) -> Iterator[tuple[str, Floats, Judged | None, Ints]]:
    """By series its name, values (NaN where there is none), bands, and 1 where it was left."""
    nowhere = np.zeros(len(cycles), np.int64)
    for phase, values in list(cycles.phases_s.items())[:MAX_PHASES]:
        judged = cycles.judged.get(phase)
        yield phase, values, judged, nowhere if judged is None else np.abs(judged.sides)
    for name, figures in (
        ("tokens_per_cycle", cycles.tokens_per_cycle),
        ("breakeven", economics_of_many(cycles, baseline_tokens_per_second).breakeven_tokens_per_cycle),
        ("batch_size", cycles.batch_size),
    ):
        if figures is not None and not np.isnan(figures).all():
            yield name, figures, None, nowhere


def _extend(cells: dict[str, Cell], name: str, values: Floats, limits: Limits | None, outside: Ints) -> None:
    values = values[~np.isnan(values)]
    if not len(values):
        return
    low, high, many = values.min().item(), values.max().item(), len(values)
    cell = cells.get(name)
    if cell is None:
        cells[name] = Cell(many, float(summed(0.0, values)[-1]), low, high, int(outside.sum()), limits)
        return
    cell.count += many
    cell.total = float(summed(cell.total, values)[-1])
    cell.low, cell.high = min(cell.low, low), max(cell.high, high)
    cell.outside += int(outside.sum())
    cell.band = limits or cell.band
