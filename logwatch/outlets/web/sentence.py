"""Level 3: the state in one sentence: what a person asks first, and what a program reads as `state`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TypeAlias

from logwatch.model import Incident, Limits
from logwatch.outlets.deliver_text import clean, phase_words
from logwatch.outlets.deliver_text import summary as headline
from logwatch.outlets.metrics_families import Facts
from logwatch.outlets.metrics_memory import StreamMemory
from logwatch.outlets.web.board import RingKey, Sample, View, newest_run
from logwatch.units import milliseconds

FIRST = ("target_verify", "total_cycle", "inferred_cycle")
_ACRONYMS = frozenset({"cuda", "nccl", "gpu", "cpu", "pcie", "kv"})

BEHIND_S = 30.0
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
    now = f"{phase_words(last.phase)} takes {milliseconds(_level(ring))} a cycle"
    if last.band is None:
        return Summary(State.UNJUDGED, f"{now}; no band says whether that is good.", key)
    if last.in_band:
        return Summary(
            State.IN_BAND, f"{now}, inside its band of {band_of(last.band)}{_ranks(view, key)}.", key
        )
    told = f"{phase_words(last.phase)} took {milliseconds(last.value_s)} a cycle in the last report"
    where = f", outside its band of {band_of(last.band)}; a few in a row make an incident"
    return Summary(State.UNSETTLED, f"{told}{where}.", key)


def troubles_of_logwatch(facts: Facts, sources: Mapping[str, StreamMemory]) -> list[str]:
    """What keeps logwatch itself from doing its work, one sentence each; empty when all is well."""
    found = []
    if facts.commit_failed:
        found.append("The state file cannot be written: reading waits until it can, so that nothing is lost.")
    if not facts.reload_successful:
        found.append("The configuration could not be loaded again; the one before is in force.")
    if facts.alerts_pending:
        some = "alert waits" if facts.alerts_pending == 1 else "alerts wait"
        found.append(f"{facts.alerts_pending} {some} for delivery.")
    behind = {name: source.lag_s for name, source in sources.items() if source.lag_s >= BEHIND_S}
    if behind:
        worst = max(behind, key=lambda name: behind[name])
        others = f", and {len(behind) - 1} more sources" if len(behind) > 1 else ""
        found.append(f"Reading is {behind[worst]:.0f} s behind the writer of {worst}{others}.")
    return found


def main_ring(view: View) -> RingKey | None:
    """The series to speak of: the most telling phase; of its ranks the first out of band, else the first."""
    rings = {key: ring for key, ring in view.rings.items() if ring}
    phases = {key[2] for key in rings}
    judged = sorted(key[2] for key, ring in rings.items() if ring[-1].band)
    phase = next((name for name in (*FIRST, *judged) if name in phases), None) or min(phases, default=None)
    keys = [key for key in rings if key[2] == phase]

    def order(key: RingKey) -> tuple[bool, str, RankOrder]:
        return rings[key][-1].in_band is not False, key[0], rank_order(key[1])

    return min(keys, key=order, default=None)


def band_of(band: Limits) -> str:
    """A band for people: `17.00 to 21.00 ms`."""
    return f"{band.low * 1000:.2f} to {milliseconds(band.high)}"


RankOrder: TypeAlias = tuple[tuple[str, int], ...]


def rank_order(rank: str | None) -> RankOrder:
    """Ranks as people count them: `TP2` before `TP10`."""
    parts = re.findall(r"([^0-9\s]*)([0-9]{1,9})", rank or "")
    return tuple((name, int(number)) for name, number in parts)


def troubles_of(incidents: Iterable[Incident]) -> list[list[Incident]]:
    """Incidents by what they are, however many ranks see it: worst trouble first, ranks in their order."""
    groups: dict[tuple[str, str, str, str], list[Incident]] = {}
    for incident in incidents:
        key = (incident.stream, incident.phase, incident.kind, incident.direction)
        groups.setdefault(key, []).append(incident)
    ordered = [sorted(group, key=lambda each: rank_order(each.rank)) for group in groups.values()]
    return sorted(ordered, key=lambda group: max(_weight(each) for each in group), reverse=True)


def words_of(cause: str) -> str:
    """A cause for people: `CUDA graph off`."""
    words = clean(cause, 100).replace("_", " ").split()
    return " ".join(word.upper() if word in _ACRONYMS else word for word in words)


def is_timed(phase: str) -> bool:
    """Whether an incident's levels are seconds per cycle, as a phase's are."""
    return phase not in {"tokens_per_cycle", "speculation", "cuda_graph", "samples"}


def level_of(phase: str, value: float) -> str:
    """A level in its own unit; empty where a number says nothing (a graph is used or not)."""
    match phase:
        case "tokens_per_cycle":
            return f"{value:.2f} tokens a cycle"
        case "speculation":
            return f"{value:.1f} tok/s"
        case "cuda_graph" | "samples":
            return ""
        case _:
            return milliseconds(value)


def told_cause(incident: Incident) -> str:
    """The likeliest cause for people, or empty where the log does not say."""
    known = next((cause for cause in incident.causes if cause.cause != "unknown"), None)
    return words_of(known.cause) if known else ""


def clock_of(time: str | None) -> str:
    """A log's time for people: its date and clock time, without fractions and zone."""
    return (time or "").replace("T", " ")[:19]


def _of_incident(view: View) -> Summary:
    groups = troubles_of(view.open)
    worst = groups[0][0]
    since = clock_of(worst.onset.time) or f"line {worst.onset.line}"
    level = level_of(worst.phase, worst.after)
    if is_timed(worst.phase):
        text = f"{phase_words(worst.phase)} takes {level} a cycle since {since}"
    else:
        text = f"{headline(worst).rstrip('.')}, since {since}" + (f": {level}" if level else "")
    against = []
    if worst.before is not None and level:
        against.append(f"{worst.ratio:.2f} times the {level_of(worst.phase, worst.before)} before")
    if worst.band is not None and is_timed(worst.phase):
        side = "above" if worst.direction == "high" else "below"
        against.append(f"{side} the band of {band_of(worst.band)}")
    text += f", {' and '.join(against)}" if against else ""
    if cause := told_cause(worst):
        text += f"; most likely {cause}"
    if len(groups[0]) > 1:
        text += f" (seen by {len(groups[0])} ranks)"
    if others := len(groups) - 1:
        text += f"; {others} more incident{'s are' if others > 1 else ' is'} open"
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
    return median(sample.value_s for sample in newest_run(ring)[-RECENT:])


def _ranks(view: View, key: RingKey) -> str:
    """`, on all 8 ranks`, where several series of the phase are all inside."""
    same = [ring[-1] for each, ring in view.rings.items() if each[2] == key[2] and ring]
    inside = sum(sample.in_band is True for sample in same)
    if len(same) == 1:
        return ""
    return f", on all {inside} ranks" if inside == len(same) else f", on {inside} of {len(same)} ranks"
