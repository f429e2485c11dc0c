"""Level 3: what `summary.Collector` keeps of one rank in one run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logwatch.outlets.report.distribution import Course, Distribution

if TYPE_CHECKING:
    from logwatch.model import Limits

LAST_PHASES = ("total_cycle", "inferred_cycle")
MAX_PHASES = 64
"""Phases of one rank and run that are told apart; a hostile log cannot make the summary grow."""

MOST_STRAY = 32


@dataclass(slots=True)
class Phase:
    """One phase of one rank in one run while it is collected."""

    values: Distribution = field(default_factory=Distribution)
    course: Course = field(default_factory=Course)
    share: float = 0.0
    shared: int = 0
    band: Limits | None = None
    band_moves: bool = False
    judged: int = 0
    outside: int = 0
    stray: list[float] = field(default_factory=list)  # the newest values outside, before an incident opens
    stretch: Distribution | None = None  # all values outside since the onset of the open incident

    def judge_by(self, band: Limits) -> None:
        """These limits are the newest."""
        self.band_moves = self.band_moves or self.band not in {None, band}
        self.band = band


@dataclass(slots=True)
class Rank:
    """One rank in one run while it is collected."""

    stream: str
    rank: str | None
    run: int
    phases: dict[str, Phase] = field(default_factory=dict)
    cycle_s: Distribution = field(default_factory=Distribution)
    batch: Distribution = field(default_factory=Distribution)
    tokens: float = 0.0
    token_cycles: int = 0
