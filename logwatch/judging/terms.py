"""Level 1: what an incident is called and how grave it is: key, severity, ratio, a band in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwatch.judging.conditions import TOKENS
from logwatch.units import milliseconds

if TYPE_CHECKING:
    from logwatch.model import Finding, Limits, Moment

INFO, WARNING = 0.02, 0.10
"""Shifts that a chart tells are `info` below the first, `warning` below the second, else `critical`."""


def incident_key(stream: str, rank: str | None, phase: str, kind: str, onset: Moment) -> str:
    """Key of an incident: its onset's time tells lines of different files of one stream apart."""
    at = f"{onset.line}@{onset.time}" if onset.time else f"{onset.line}"
    return f"{stream}/{rank or '-'}/{phase}/{kind}/{at}"


def band_text(limits: Limits) -> str:
    """A band for people: `17.00 ms to 21.00 ms`."""
    return f"{milliseconds(limits.low)} to {milliseconds(limits.high)}"


def ratio_of(after: float, before: float) -> float:
    """How many times the level before; 1 where that was 0."""
    return after / before if before else 1.0


def severity_of(phase: str, finding: Finding, ratio: float) -> str:
    """By the size of the shift; a phase that got faster is good to know, no more."""
    effect = abs(ratio - 1)
    if effect < INFO or (finding.direction == "low" and phase != TOKENS):
        return "info"
    return "warning" if effect < WARNING or finding.kind != "level_shift" else "critical"
