"""Level 2: what `Judgements` does with cycles, done with columns of them (used by `columns.py`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from logwatch.columns import Judged
from logwatch.judging.bands import band_for
from logwatch.judging.columns_charts import Samples, take_quiet
from logwatch.judging.conditions import TOKENS, WHOLE, bucket_of, bucket_text
from logwatch.judging.judgements import judgement_of
from logwatch.model import seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from logwatch.columns import CycleColumns, Floats, Ints
    from logwatch.judging.bands import Band
    from logwatch.judging.judgements import Judgements, SeriesMemory
    from logwatch.model import Judgement

SPANS = 32, 2048
"""Fewest and most samples that a chart is offered at once."""


def same_bands(judgements: Judgements, columns: CycleColumns) -> int:
    """Cycles before the first that is judged by another rule than the first cycle; what the bands say is noted.

    Bands may differ in their limits, but not in after how many samples they open an incident.
    """
    bands = judgements.bands
    if any("context_tokens" in band.when for band in bands):
        return 0
    count = len(columns)
    firsts, which = _states(columns) if any(band.when for band in bands) else ([0], np.zeros(count, np.int64))
    conditions = [columns.cycle(at).conditions for at in firsts]
    for phase, values in columns.phases_s.items():
        of_states = [band_for(bands, phase, each) for each in conditions]
        first = of_states[which[0]]
        for at, band in zip(firsts, of_states, strict=True):
            if _opens_after(band) != _opens_after(first):
                count = min(count, at)
        if first is not None:
            used = [band or first for band in of_states]
            columns.judged[phase] = _judged(used, which, values, columns.context_tokens)
    return count


def _opens_after(band: Band | None) -> int | None:
    return None if band is None else band.open_after


def _states(columns: CycleColumns) -> tuple[list[int], Ints]:
    """The first cycle of each batch size, with a graph, without and unknown; and which of them each cycle is like."""
    batch = columns.batch_size
    states = columns.graph if batch is None else np.column_stack([columns.graph, batch])
    _, firsts, which = np.unique(states, axis=0, return_index=True, return_inverse=True)
    return firsts.tolist(), which.reshape(-1)


def _judged(bands: Sequence[Band], which: Ints, values: Floats, contexts: Floats | None) -> Judged:
    """As `Band.limits` and `side_of`."""
    per_token, low, high = (
        np.array([getattr(band, name) for band in bands])[which]
        for name in ("per_context_token_s", "low_s", "high_s")
    )
    shift = per_token * (0.0 if contexts is None else contexts)
    low, centre, high = low + shift, (low + high) / 2 + shift, high + shift
    return Judged(low, centre, high, (values > high).astype(np.int64) - (values < low))


def charted(judgements: Judgements, columns: CycleColumns) -> int:
    """Cycles before the first that begins a new series."""
    series = judgements.memory.series
    new = (
        int(cycles[0])
        for _, phase, bucket, cycles, _ in _groups(columns)
        if f"{columns.rank or '-'}/{phase}/{bucket}" not in series
    )
    return min(new, default=len(columns))


def by_charts(judgements: Judgements, columns: CycleColumns) -> dict[int, list[Judgement]]:
    """The charts take all cycles: what they found, by cycle, in the phases' order."""
    memory = judgements.memory
    counts = np.zeros(len(columns), np.int64)
    groups = list(_groups(columns))
    for _, _, _, cycles, _ in groups:
        counts[cycles] += 1
    upto = np.cumsum(counts) - counts
    told: dict[int, list[tuple[int, Judgement]]] = {}
    seen: list[tuple[int, str]] = []
    for number, phase, bucket, cycles, values in groups:
        key = f"{columns.rank or '-'}/{phase}/{bucket}"
        for at, judgement in _chart(judgements, memory.series[key], phase, columns, cycles, values):
            told.setdefault(at, []).append((number, judgement))
        last = int(cycles[-1])
        earlier = sum(other < number and bool(where[-1] == last) for other, _, _, where, _ in groups)
        seen.append((memory.samples + int(upto[last]) + earlier + 1, key))
    for when, key in sorted(seen):
        memory.series[key] = memory.series.pop(key)
        memory.series[key].seen = when
    memory.samples += int(counts.sum())
    return {at: [each for _, each in sorted(found, key=lambda one: one[0])] for at, found in told.items()}


def compared(columns: CycleColumns) -> list[str]:
    """Phases that are compared between ranks."""
    whole = WHOLE if "target_verify" in columns.phases_s else ()
    return [phase for phase in columns.phases_s if phase not in whole]


def _groups(columns: CycleColumns) -> Iterator[tuple[int, str, str, Ints, Floats]]:
    """By series: its phase's number, its phase and bucket, its cycles, all values of the phase."""
    every = np.arange(len(columns))
    batches = np.full(len(columns), -1.0) if columns.batch_size is None else columns.batch_size
    distinct = np.unique(batches).tolist()
    charted = {phase: columns.phases_s[phase] for phase in compared(columns)}
    if columns.tokens_per_cycle is not None:
        charted[TOKENS] = columns.tokens_per_cycle
    buckets: dict[str, dict[str, list[float]]] = {}
    for phase in charted:
        of_phase = buckets.setdefault(phase, {})
        for batch in distinct:
            known = None if columns.batch_size is None else batch
            bucket = bucket_of(phase, columns.conditions(known, None, -1))
            if bucket is not None:
                of_phase.setdefault(bucket_text(bucket), []).append(batch)
    for number, (phase, values) in enumerate(charted.items()):
        for bucket_name, of_batches in buckets[phase].items():
            whole_phase = len(of_batches) == len(distinct)
            cycles = every if whole_phase else np.flatnonzero(np.isin(batches, of_batches))
            yield number, phase, bucket_name, cycles, values


def _chart(
    judgements: Judgements,
    series: SeriesMemory,
    phase: str,
    columns: CycleColumns,
    cycles: Ints,
    values: Floats,
) -> Iterator[tuple[int, Judgement]]:
    contexts = columns.context_tokens
    if contexts is None or phase == TOKENS:
        contexts = np.full(len(columns), np.nan)
    samples = Samples(values, contexts, columns.lines, columns.times)
    if len(cycles) < len(columns):
        samples = samples.only(cycles)
    at, span, single = 0, SPANS[1], 1
    chart = judgements.chart(series, phase)
    while at < len(cycles):
        offered = samples.part(at, at + span)
        taken = take_quiet(chart, offered)
        _count(series, offered.times[:taken], taken)
        at += taken
        if taken == len(offered):
            span, single = min(2 * span, SPANS[1]), 1
            continue
        span, single = SPANS[0], 1 if taken > SPANS[0] else min(2 * single, SPANS[1])
        end = min(at + single, len(cycles))
        for each in range(at, end):
            value, line, context = (
                column[each].item() for column in (samples.values, samples.lines, samples.contexts)
            )
            known = None if math.isnan(context) else context
            finding = judgements.charted(series, phase, value, line, samples.times[each], known)
            if finding is not None:
                index = int(cycles[each])
                yield index, judgement_of(columns.cycle(index), phase, value, finding, series.chart)
        at = end


def _count(series: SeriesMemory, times: Sequence[str | None], taken: int) -> None:
    """How often the series is sampled."""
    series.samples += taken
    if series.chart.frozen:
        return
    if series.first_s is None:
        series.first_s = next((now for time in times if (now := seconds_of(time)) is not None), None)
    last = next((now for time in reversed(times) if (now := seconds_of(time)) is not None), None)
    series.last_s = series.last_s if last is None else last
