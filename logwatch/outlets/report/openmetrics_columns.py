"""Level 3: many cycles of one rank as OpenMetrics samples at once, as `as_openmetrics.py` makes them one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from logwatch.columns import summed
from logwatch.outlets.report.columns import economics_of_many
from logwatch.outlets.report.openmetrics_series import (
    BREAKEVEN,
    CYCLES,
    HIGH,
    INSIDE,
    LOW,
    PHASE,
    RATE,
    SPEEDUP,
    SPENT,
    TOKENS,
    Many,
    Moments,
    Series,
    labels_of,
)
from logwatch.outlets.report.samples import all_utc_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwatch.columns import CycleColumns, Floats, Ints


def put_cycles(series: Series, cycles: CycleColumns, baseline_tokens_per_second: float | None) -> bool:
    """Put what these cycles say; False, and nothing is put, where one has no date or comes too late."""
    seconds = [now for now in all_utc_seconds(cycles.times) if now is not None]
    if len(seconds) < len(cycles):
        return False
    return series.put_many([*_samples(series, cycles, seconds, baseline_tokens_per_second)])


def _samples(
    series: Series, cycles: CycleColumns, seconds: list[float], baseline: float | None
) -> Iterator[Many]:
    moments, rank = Moments(seconds), cycles.rank or ""
    for phase, values in cycles.phases_s.items():
        labels = labels_of(stream=cycles.stream, rank=rank, phase=phase)
        yield Many((PHASE, labels), moments, _texts(values))
        covered = np.cumsum(cycles.cycles) + int(series.total((CYCLES, labels)))
        yield Many((CYCLES, labels), moments, _texts(covered), covered[-1].item())
        spent = summed(series.total((SPENT, labels)), values * cycles.cycles)[1:]
        yield Many((SPENT, labels), moments, _texts(spent), spent[-1].item())
        if phase in cycles.judged:
            judged = cycles.judged[phase]
            yield Many((LOW, labels), moments, _texts(judged.low))
            yield Many((HIGH, labels), moments, _texts(judged.high))
            yield Many((INSIDE, labels), moments, ["0" if side else "1" for side in judged.sides.tolist()])
    labels = labels_of(stream=cycles.stream, rank=rank)
    now = economics_of_many(cycles, baseline)
    for name, figures in (
        (TOKENS, cycles.tokens_per_cycle),
        (RATE, now.estimated_tokens_per_second),
        (BREAKEVEN, now.breakeven_tokens_per_cycle),
        (SPEEDUP, now.speedup),
    ):
        if figures is None:
            continue
        known = ~np.isnan(figures)
        if known.all():
            yield Many((name, labels), moments, _texts(figures))
        elif known.any():
            yield Many((name, labels), Moments(np.array(seconds)[known].tolist()), _texts(figures[known]))


def _texts(values: Floats | Ints) -> list[str]:
    return [repr(value) for value in values.tolist()]
