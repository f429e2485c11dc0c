"""Level 2: many cycles taken into a rank's levels and a run's facts, as `levels.py` and `facts.py` do one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwatch.judging.conditions import TOKENS
from logwatch.judging.levels import BATCH, CONTEXT, WAITING, WEIGHT, flow, values_of

if TYPE_CHECKING:
    from logwatch.columns import CycleColumns, Floats
    from logwatch.judging.facts import Facts
    from logwatch.judging.levels import Levels


def note_many(mine: Levels, cycles: CycleColumns, *, still: bool) -> None:
    """Take these cycles; `still` holds the means."""
    count = len(cycles)
    waiting = len(mine.newest)
    passing = max(waiting + count - WAITING, 0)  # so many leave the queue
    if not still:
        for oldest in mine.newest[:passing]:
            flow(mine, oldest)
        _flow_many(mine, cycles.part(0, max(passing - waiting, 0)))
    newest = [values_of(cycles.cycle(at)) for at in range(max(count - WAITING, 0), count)]
    mine.newest = [*mine.newest[passing:], *newest][-WAITING:]


def note_graphs(facts: Facts, cycles: CycleColumns) -> None:
    """Take from these cycles what they say of the run."""
    facts.reports += len(cycles)
    facts.version = cycles.fixed.version or facts.version
    if "inferred_cycle" in cycles.phases_s:
        return
    for sighting, graph in ((facts.reports_on, 1), (facts.reports_off, 0)):
        lines = cycles.lines[cycles.graph == graph]
        if len(lines):
            sighting.first = sighting.first if sighting.count else lines[0].item()
            sighting.count, sighting.last = sighting.count + len(lines), lines[-1].item()


def _flow_many(mine: Levels, cycles: CycleColumns) -> None:
    columns = _columns(cycles)
    at = 0
    while at < len(cycles) and (
        1 / (mine.count + 1) > WEIGHT or any(name not in mine.usual for name in columns)
    ):
        flow(mine, values_of(cycles.cycle(at)))
        at += 1
    mine.count += len(cycles) - at
    for name, values in columns.items():
        if name not in mine.usual:
            continue  # there was nothing left for it
        usual = mine.usual[name]
        for value in values[at:].tolist():
            usual += WEIGHT * (value - usual)
        mine.usual[name] = usual


def _columns(cycles: CycleColumns) -> dict[str, Floats]:
    besides = (
        (TOKENS, cycles.tokens_per_cycle),
        (BATCH, cycles.batch_size),
        (CONTEXT, cycles.context_tokens),
    )
    return {**cycles.phases_s, **{name: values for name, values in besides if values is not None}}
