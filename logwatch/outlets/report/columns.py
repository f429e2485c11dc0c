"""Level 3: many cycles of one rank summed up at once, as `summary.Collector` sums them up one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logwatch.columns import summed
from logwatch.judging.columns import cycle_times
from logwatch.outlets.report.collected import LAST_PHASES, MAX_PHASES, MOST_STRAY, Phase

if TYPE_CHECKING:
    from logwatch.columns import CycleColumns, Floats
    from logwatch.outlets.report.collected import Rank


def collect(rank: Rank, cycles: CycleColumns) -> None:
    """Take these cycles of the rank, and what its bands said."""
    for name, values in cycles.phases_s.items():
        phase = rank.phases.get(name)
        if phase is None:
            if len(rank.phases) == MAX_PHASES:
                continue
            phase = rank.phases[name] = Phase()
        judged = cycles.judged.get(name)
        outside = np.zeros(len(cycles), np.int64) if judged is None else np.abs(judged.sides)
        phase.values.add_many(values)
        phase.course.add_many(cycles.lines, cycles.times, values, outside)
        shares = _shares(cycles, name)
        phase.share = float(summed(phase.share, shares)[-1])
        phase.shared += len(shares)
        if judged is not None:
            phase.judge_by(judged.limits(0))
            phase.band, phase.band_moves = judged.limits(-1), phase.band_moves or judged.moves
            phase.judged += len(cycles)
            _stray(phase, values[outside > 0])
    times = cycle_times(cycles)
    rank.cycle_s.add_many(times[~np.isnan(times)])
    if cycles.batch_size is not None:
        rank.batch.add_many(cycles.batch_size)
    if cycles.tokens_per_cycle is not None:
        rank.tokens = float(summed(rank.tokens, cycles.tokens_per_cycle * cycles.cycles)[-1])
        rank.token_cycles += int(cycles.cycles.sum())


@dataclass(frozen=True, slots=True)
class Figures:
    """`economics.Economics` of many cycles; NaN where unknown."""

    estimated_tokens_per_second: Floats
    breakeven_tokens_per_cycle: Floats
    speedup: Floats


def economics_of_many(cycles: CycleColumns, baseline_tokens_per_second: float | None) -> Figures:
    """Break-even of each report, as `economics.economics_of` gives it."""
    unknown = np.full(len(cycles), np.nan)
    times = cycle_times(cycles)
    times = np.where(times == 0, np.nan, times)
    tokens = unknown if cycles.tokens_per_cycle is None else cycles.tokens_per_cycle
    batch = cycles.batch_size
    many = np.ones(len(cycles)) if batch is None else np.where(batch == 0, 1.0, batch)
    breakeven = times * baseline_tokens_per_second if baseline_tokens_per_second else unknown
    if "inferred_cycle" in cycles.phases_s and cycles.fixed.num_steps is None:
        breakeven = np.where(tokens == 1, np.nan, breakeven)  # nothing is drafted: see `economics.speculates`
    alone = (tokens != 0) & (breakeven != 0) & (True if batch is None else np.rint(batch) == 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Figures(tokens * many / times, breakeven, np.where(alone, tokens / breakeven, np.nan))


def _shares(cycles: CycleColumns, phase: str) -> Floats:
    """Shares of the phase as far as they are known: as the report gives them, else of its total."""
    shares = cycles.shares.get(phase, np.full(len(cycles), np.nan))
    total = cycles.phases_s.get("total_cycle")
    if phase not in LAST_PHASES and total is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.where(total != 0, cycles.phases_s[phase] / total, np.nan)
        shares = np.where(np.isnan(shares), own, shares)
    return shares[~np.isnan(shares)]


def _stray(phase: Phase, values: Floats) -> None:
    phase.outside += len(values)
    phase.stray = [*phase.stray, *values[-MOST_STRAY:].tolist()][-MOST_STRAY:]
    if phase.stretch is not None:
        phase.stretch.add_many(values)
