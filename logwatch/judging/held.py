"""Level 1: incidents that are open, and those whose end nobody will see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from logwatch.judging.conditions import TOKENS
from logwatch.model import Change, Incident, Moment

if TYPE_CHECKING:
    from collections.abc import Mapping

UNSEEN_FOR = 50
"""Cycles of a rank without a phase after which what was open there is over: nothing can say that it still is so. A
server that was started anew without the profile gives such cycles."""

_OF_PHASES = frozenset({"out_of_band", "level_shift", "spread", "second_mode", "one_rank_slow"})


@dataclass
class Held:
    """An incident that is open.

    Attributes:
        reference: What its ratio is against, in the value's unit.
        followed: Samples since it opened.
        mute: A chart's finding that says no more than an open incident: kept, not told.
        severity: What it has unless load explains it (then `info`: nothing is wrong); empty where it stays.
        unseen: Cycles of its rank since the last one that had its phase, the first at `unseen_since`.
    """

    incident: Incident
    reference: float
    followed: int = 0
    mute: bool = False
    severity: str = ""
    unseen: int = 0
    unseen_since: Moment | None = None


def may_go_unseen(held: Held, rank: str | None) -> bool:
    """Whether it is about a phase that cycles of this rank tell of, or not any more."""
    incident = held.incident
    return incident.rank == rank and incident.kind in _OF_PHASES and incident.phase != TOKENS


def ended_unseen(open_ones: Mapping[str, Held]) -> list[Incident]:
    """The end of all that is open in a log that is gone: nobody will ever say when it was over."""
    told = (held.incident for held in open_ones.values() if not held.mute)
    return [replace(incident, change=Change.RESOLVED, resolved=None) for incident in told]
