"""Level 1: what was usual for each rank before something happened, and what is now, as causes need it.

The newest few cycles of a rank wait; what is older flows into slow means, which stand still while the rank
has an incident. So at the moment of an alarm the means are of before, and the waiting cycles of now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from logwatch.judging.conditions import TOKENS

if TYPE_CHECKING:
    from logwatch.model import Cycle

WAITING = 8
MOST_RANKS = 16
MOST_NAMES = 32
WEIGHT = 1 / 16
BATCH, CONTEXT = "batch size", "context"


@dataclass
class Levels:
    """Of one rank: slow means by name, and the newest cycles, oldest first."""

    usual: dict[str, float] = field(default_factory=dict)
    count: int = 0
    newest: list[dict[str, float]] = field(default_factory=list)


def note_levels(levels: dict[str, Levels], cycle: Cycle, *, still: bool) -> None:
    """Take one cycle; `still` holds the means."""
    rank = cycle.rank or "-"
    if cycle.warm_up or (rank not in levels and len(levels) >= MOST_RANKS):
        return
    mine = levels.setdefault(rank, Levels())
    mine.newest.append(values_of(cycle))
    if len(mine.newest) <= WAITING:
        return
    oldest = mine.newest.pop(0)
    if not still:
        flow(mine, oldest)


def flow(mine: Levels, oldest: dict[str, float]) -> None:
    """Let a cycle that has waited into the means."""
    mine.count += 1
    weight = max(WEIGHT, 1 / mine.count)
    for name, value in oldest.items():
        if name not in mine.usual and len(mine.usual) >= MOST_NAMES:
            continue
        mine.usual[name] = mine.usual.get(name, value) + weight * (value - mine.usual.get(name, value))


def values_of(cycle: Cycle) -> dict[str, float]:
    """Phases, tokens per cycle, batch size and context of a cycle, as far as it has them."""
    besides = (
        (TOKENS, cycle.tokens_per_cycle),
        (BATCH, cycle.conditions.batch_size),
        (CONTEXT, cycle.conditions.context_tokens),
    )
    return {**cycle.phases_s, **{name: value for name, value in besides if value is not None}}


def before_and_after(mine: Levels, samples: int) -> tuple[dict[str, float], dict[str, float]]:
    """Levels before and since a stretch of so many samples; before is empty where nothing came before."""
    samples = max(min(samples, len(mine.newest)), 1)
    waiting = mine.newest[:-samples]
    before = mine.usual if len(waiting) < WAITING // 2 and mine.usual else _medians(waiting)
    return before, _medians(mine.newest[-samples:])


def _medians(cycles: list[dict[str, float]]) -> dict[str, float]:
    names = {name for cycle in cycles for name in cycle}
    return {name: median([cycle[name] for cycle in cycles if name in cycle]) for name in sorted(names)}
