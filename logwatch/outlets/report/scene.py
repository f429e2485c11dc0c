"""Level 3: what all pictures of one stream share: the horizontal axis and the ranks' colours (used by `charts.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from logwatch.model import Incident, Moment, RunStarted
    from logwatch.outlets.report.track import Span, Track

COLOURS = ("#070701", "#070702", "#070703", "#070704", "#070705", "#070706", "#070707", "#070708")
"""Placeholders, see `charts.py`."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What all charts of one stream share.

    Attributes:
        dated: Whether the horizontal axis is time; else it is the line number.
        begin, end: First and last place on it.
        places: Of the tracks' spans, by their `id`.
        colours: By rank; where ranks are more than there are colours, only those with incidents have one.
    """

    tracks: Sequence[Track]
    incidents: Sequence[Incident]
    starts: Sequence[RunStarted]
    malformed: Sequence[Moment]
    dated: bool
    begin: str | int
    end: str | int

    places: Mapping[int, str | int]
    colours: Mapping[str, str]

    def place(self, span: Span) -> str | int:
        """Where on the axis a span begins."""
        return self.places[id(span)]

    def at(self, line: int, time: str | None) -> str | int:
        """Where on the axis a line is; one without a time is where the report before it is."""
        if not self.dated:
            return line
        before = (span for track in self.tracks for span in track.spans if span.line <= line)
        return time or self.place(max(before, key=lambda span: span.line, default=self.tracks[0].spans[0]))


def scene(
    tracks: Sequence[Track],
    incidents: Sequence[Incident],
    starts: Sequence[RunStarted],
    malformed: Sequence[Moment],
) -> Scene:
    """Decide for time or for line numbers."""
    dated = all(track.dated for track in tracks)
    places: dict[int, str | int] = {}
    for track in tracks:
        spread: Sequence[str | int] = _spread(track) if dated else [span.line for span in track.spans]
        places |= {id(span): place for span, place in zip(track.spans, spread, strict=True)}
    shown = [name_of(track.rank) for track in tracks]
    if len(shown) > len(COLOURS):
        shown = list(dict.fromkeys(name_of(incident.rank) for incident in incidents))
    colours = dict(zip(shown, COLOURS, strict=False))
    begin, end = min(places.values()), max(places.values())
    return Scene(tracks, incidents, starts, malformed, dated, begin, end, places, colours)


def name_of(rank: str | None) -> str:
    """A rank's name in drawings."""
    return rank or "all"


def _spread(track: Track) -> list[str]:
    """Times of the spans; those of one second, if the log says no more, lie evenly in it."""
    places: list[str] = []
    for time, same in groupby(span.time or "" for span in track.spans):
        count = len(list(same))
        if len(time) == len("2026-02-11T08:15:02"):
            places += [f"{time}.{at * 1000 // count:03}" for at in range(count)]
        else:
            places += [time[: len("2026-02-11T08:15:02.123")]] * count
    return places
