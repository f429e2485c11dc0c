"""Level 3: the state in one sentence: what a person asks first, and what a program reads as `state`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from logwatch.model import Incident, Limits
from logwatch.outlets.web.board import RingKey, Sample, View
from logwatch.units import milliseconds

FIRST = ("target_verify", "total_cycle", "inferred_cycle")
RECENT = 5
"""Samples whose median is the figure in the sentence: one odd report must not be the headline."""


class State(StrEnum):
    """What there is to say, from nothing to trouble."""

    NO_DATA = "no_data"
    UNJUDGED = "unjudged"
    IN_BAND = "in_band"
    UNSETTLED = "unsettled"
    INCIDENT = "incident"
    OUT_OF_BAND = "out_of_band"


@dataclass(frozen=True, slots=True)
class Summary:
    """The state, its sentence, and the series that it speaks of (None without samples)."""

    state: State
    sentence: str
    key: RingKey | None = None


def summarize(view: View, sources: int) -> Summary:
    """The state of everything the board knows; open incidents first, worst first."""
    if view.open:
        return _of_incident(view)
    key = main_ring(view)
    if key is None:
        return Summary(State.NO_DATA, _nothing(sources))
    ring = view.rings[key]
    last = ring[-1]
    now = f"{name_of(last.phase)} takes {milliseconds(_level(ring))} a cycle"
    if last.band is None:
        return Summary(State.UNJUDGED, f"{now}; no band says whether that is good.", key)
    if last.in_band:
        return Summary(
            State.IN_BAND, f"{now}, inside its band of {band_of(last.band)}{_ranks(view, key)}.", key
        )
    told = f"{name_of(last.phase)} took {milliseconds(last.value_s)} a cycle in the last report"
    where = f", outside its band of {band_of(last.band)}; a few in a row make an incident"
    return Summary(State.UNSETTLED, f"{told}{where}.", key)


def main_ring(view: View) -> RingKey | None:
    """The series to speak of: the most telling phase; of its ranks one out of band, else the slowest."""
    rings = {key: ring for key, ring in view.rings.items() if ring}
    phases = {key[2] for key in rings}
    judged = sorted(key[2] for key, ring in rings.items() if ring[-1].band)
    phase = next((name for name in (*FIRST, *judged) if name in phases), None) or min(phases, default=None)
    keys = [key for key in rings if key[2] == phase]
    return max(keys, key=lambda key: (rings[key][-1].in_band is False, rings[key][-1].value_s), default=None)


def name_of(phase: str) -> str:
    """A phase for people: `Target verify`."""
    return phase.replace("_", " ").capitalize()


def band_of(band: Limits) -> str:
    """A band for people: `17.00 to 21.00 ms`."""
    return f"{band.low * 1000:.2f} to {milliseconds(band.high)}"


def level_of(incident: Incident, value: float) -> str:
    """A level in the incident's own unit."""
    return f"{value:.2f}" if incident.phase == "tokens_per_cycle" else milliseconds(value)


def clock_of(time: str | None) -> str:
    """A log's time for people: its date and clock time, without fractions and zone."""
    return (time or "").replace("T", " ")[:19]


def _of_incident(view: View) -> Summary:
    worst = max(view.open, key=_weight)
    verb = "takes" if worst.phase != "tokens_per_cycle" else "are at"
    text = f"{name_of(worst.phase)} {verb} {level_of(worst, worst.after)}"
    text += " a cycle" if worst.phase != "tokens_per_cycle" else ""
    if worst.before is not None:
        text += f", {worst.ratio:.2f} times the {level_of(worst, worst.before)} of before"
    if worst.band is not None and worst.phase != "tokens_per_cycle":
        side = "above" if worst.direction == "high" else "below"
        text += f"{' and' if worst.before is not None else ','} {side} its band of {band_of(worst.band)}"
    since = clock_of(worst.onset.time) or f"line {worst.onset.line}"
    text += f", since {since}"
    if worst.causes:
        text += f"; most likely: {worst.causes[0].cause.replace('_', ' ')}"
    others = len(view.open) - 1
    if others:
        text += f" ({others} more incident{'s are' if others > 1 else ' is'} open)"
    state = State.OUT_OF_BAND if worst.kind == "out_of_band" else State.INCIDENT
    key = (worst.stream, worst.rank or "", worst.phase)
    return Summary(state, f"{text}.", key if view.rings.get(key) else main_ring(view))


def _weight(incident: Incident) -> tuple[bool, int, float]:
    severity = {"critical": 2, "warning": 1}.get(incident.severity, 0)
    return incident.phase == FIRST[0], severity, abs(incident.ratio - 1)


def _nothing(sources: int) -> str:
    if not sources:
        return "Nothing to read yet: no source has been found."
    return f"No samples yet from {sources} source{'s' if sources > 1 else ''}."


def _level(ring: Sequence[Sample]) -> float:
    return median(sample.value_s for sample in ring[-RECENT:])


def _ranks(view: View, key: RingKey) -> str:
    """`, on all 8 ranks`, where several series of the phase are all inside."""
    same = [ring[-1] for each, ring in view.rings.items() if each[2] == key[2] and ring]
    inside = sum(sample.in_band is True for sample in same)
    if len(same) == 1:
        return ""
    return f", on all {inside} ranks" if inside == len(same) else f", on {inside} of {len(same)} ranks"
