"""Level 3: the picture report's charts: Altair to SVG with vl-convert, coloured by the page's own variables.

Each chart comes twice, for wide and for narrow windows. Colours in the drawings are placeholders that become
CSS variables, so that one drawing serves the light and the dark page.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import altair as alt
import vl_convert as vlc

from logwatch.outlets.report.scene import COLOURS, Scene, name_of
from logwatch.outlets.report.track import Span, Track, bands_of, parts_of_cycle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwatch.model import Limits

WIDTHS = {"wide": 1010, "narrow": 330}
MARGIN = 46
PHASE_HEIGHT = 250
LEAST_SHOWN = 0.1
VARIABLES = {
    "#010101": "ink", "#020202": "quiet", "#030303": "line", "#040404": "band", "#050505": "bad",
    "#070701": "c1", "#070702": "c2", "#070703": "c3", "#070704": "c4", "#070705": "c5", "#070706": "c6",
    "#070707": "c7", "#070708": "c8",
}  # fmt: skip
INK, QUIET, LINE, BAND, BAD = "#010101", "#020202", "#030303", "#040404", "#050505"
FONT = "system-ui, sans-serif"


def _coloured_by_rank(on: Scene, *, legend: bool) -> alt.Color:
    others = [name for track in on.tracks if (name := name_of(track.rank)) not in on.colours]
    names = [*others, *on.colours]
    return alt.Color(
        "rank:N",
        scale=alt.Scale(domain=names, range=[*[QUIET] * len(others), *on.colours.values()]),
        legend=alt.Legend(title=None, symbolOpacity=1, values=list(on.colours))
        if legend and len(names) > 1 and on.colours
        else None,
    )


def phase_chart(on: Scene, phase: str) -> dict[str, str]:
    """A phase of all ranks against its band, with incidents and server starts."""
    rows: list[dict[str, Any]] = [
        {
            "x": on.place(span),
            "mean": cell.mean * 1000,
            "low": cell.low * 1000,
            "high": cell.high * 1000,
            "rank": name_of(track.rank),
            "run": span.run,
            "out": 2 * cell.outside > cell.count,
        }
        for track in on.tracks
        for span in track.spans
        if (cell := span.cells.get(phase))
    ]
    bands = bands_of(on.tracks, phase)
    edges = [edge * 1000 for _, band in bands for edge in (band.low, band.high)]
    reach = [*(row["low"] for row in rows), *(row["high"] for row in rows), *edges]
    scale = alt.Scale(domain=_domain(reach), nice=False)
    y = alt.Y("mean:Q", title="ms per cycle", scale=scale)
    colour = _coloured_by_rank(on, legend=True)
    layers = _band(on, bands, scale)
    layers += _incidents(on, phase)
    layers += _starts(on)
    base = alt.Chart(_table(rows))
    layers.append(
        base.mark_area(opacity=0.22, interpolate="linear").encode(
            x=_x(on),
            y=alt.Y("low:Q", title="ms per cycle", scale=scale),
            y2="high",
            color=colour,
            detail="run:N",
        )
    )
    layers.append(
        base.mark_line(strokeWidth=1.8, strokeJoin="round").encode(
            x=_x(on), y=y, color=colour, detail="run:N"
        )
    )
    if len(rows) <= 80:
        layers.append(base.mark_circle(size=22, opacity=1).encode(x=_x(on), y=y, color=colour))
    if on.malformed:
        ticks = alt.Chart(_table([{"x": on.at(bad.line, bad.time)} for bad in on.malformed]))
        layers.append(
            ticks.mark_tick(color=BAD, thickness=1.5, height=9, y=PHASE_HEIGHT - 5).encode(x=_x(on))
        )
    outside = [row for row in rows if row["out"]]
    if outside:
        layers.append(
            alt.Chart(_table(outside)).mark_circle(color=BAD, size=26, opacity=0.9).encode(x=_x(on), y=y)
        )
    return _svg(alt.layer(*layers), PHASE_HEIGHT)


def _band(on: Scene, bands: list[tuple[Span, Limits]], scale: alt.Scale) -> list[alt.Chart]:
    """The band: across the picture, or, where it moves, as it was at each place."""
    if not bands:
        return []
    edges = [
        {"x": on.place(span), "run": span.run, "y": band.low * 1000, "y2": band.high * 1000}
        for span, band in bands
    ]
    if len({band for _, band in bands}) == 1:
        edges = [{**edges[0], "x": on.begin, "run": 0}, {**edges[0], "x": on.end, "run": 0}]
    drawn = alt.Chart(_table(edges)).encode(x=_x(on), detail="run:N")
    return [
        drawn.mark_area(color=BAND, opacity=0.16).encode(y=alt.Y("y:Q", scale=scale), y2="y2"),
        *(
            drawn.mark_line(color=BAND, opacity=0.7, strokeWidth=1).encode(y=alt.Y(f"{y}:Q", scale=scale))
            for y in ("y", "y2")
        ),
    ]


def stacked(on: Scene) -> Track | None:
    """The track of the rank whose cycles are shown in parts: one with an incident, else the first that has parts."""
    ranks = {incident.rank for incident in on.incidents}
    several = [track for track in on.tracks if len(parts_of_cycle(track)) > 1]
    return min(several, key=lambda track: track.rank not in ranks, default=None)


def stack_chart(on: Scene, track: Track) -> dict[str, str]:
    """The parts of a rank's cycle, one on the other."""
    names = parts_of_cycle(track)
    rows: list[dict[str, Any]] = []
    for span in track.spans:
        top = 0.0
        for name in names:
            bottom, top = top, top + (span.cells[name].mean * 1000 if name in span.cells else 0.0)
            phase = name.replace("_", " ")
            rows.append({"x": on.place(span), "from": bottom, "to": top, "phase": phase, "run": span.run})
    shown = [name.replace("_", " ") for name in names]
    colours = {"draft_forward": COLOURS[1], "target_verify": COLOURS[0], "draft_extend": COLOURS[2]}
    rest = iter([*COLOURS[3:], *COLOURS[3:], *COLOURS, *COLOURS])
    colour = alt.Color(
        "phase:N",
        scale=alt.Scale(domain=shown, range=[colours.get(name) or next(rest) for name in names]),
        legend=alt.Legend(title=None, symbolOpacity=1),
    )
    area = (
        alt.Chart(_table(rows))
        .mark_area(opacity=0.85)
        .encode(
            x=_x(on),
            y=alt.Y("from:Q", title="ms per cycle"),
            y2="to",
            color=colour,
            detail="run:N",
        )
    )
    return _svg(alt.layer(area, *_starts(on)), 170)


def series_chart(on: Scene, name: str, title: str, *, against: str | None = None) -> dict[str, str] | None:
    """A plain series of all ranks, with a dashed line that it has to stay above."""

    def rows_of(series: str) -> list[dict[str, Any]]:
        return [
            {"x": on.place(span), "y": cell.mean, "rank": name_of(track.rank), "run": span.run}
            for track in on.tracks
            for span in track.spans
            if (cell := span.cells.get(series))
        ]

    rows = rows_of(name)
    if not rows:
        return None
    limit = rows_of(against) if against else []
    whole = name == "batch_size"
    reach = [row["y"] for row in (*rows, *limit)]
    scale = alt.Scale(zero=True, padding=6) if whole else alt.Scale(domain=_domain(reach), nice=False)
    axis = alt.Axis(tickMinStep=1) if whole else alt.Undefined
    y = alt.Y("y:Q", title=title, scale=scale, axis=axis)
    colour = _coloured_by_rank(on, legend=False)
    layers = [*_incidents(on, name, "speculation" if against else name), *_starts(on)]
    layers.append(
        alt.Chart(_table(rows)).mark_line(strokeWidth=1.6).encode(x=_x(on), y=y, color=colour, detail="run:N")
    )
    if len(rows) <= 80:
        layers.append(
            alt.Chart(_table(rows)).mark_circle(size=20, opacity=1).encode(x=_x(on), y=y, color=colour)
        )
    if limit:
        layers.append(
            alt.Chart(_table(limit))
            .mark_line(color=BAD, strokeDash=[5, 3], strokeWidth=1.6)
            .encode(x=_x(on), y=y, detail=["run:N", "rank:N"])
        )
    return _svg(alt.layer(*layers), 130)


def _domain(values: Sequence[float]) -> list[float]:
    """What an axis shows: all values with some room, and no less than a tenth of them, lest noise look like news."""
    low, high = min(values), max(values)
    room = max((high - low) * 0.12, (high * LEAST_SHOWN - (high - low)) / 2)
    return [max(0.0, low - room), high + (room or 1.0)]


def _x(on: Scene) -> Any:
    axis = alt.Axis(
        title=None if on.dated else "line",
        format=_clock(on) if on.dated else alt.Undefined,
        labelOverlap="greedy",
        labelSeparation=16,  # the reader's font may be wider than the one that labels are measured in
        labelFlush=True,
    )
    scale = alt.Scale(domain=[on.begin, on.end], nice=False) if on.begin != on.end else alt.Undefined
    return alt.X("x:T" if on.dated else "x:Q", axis=axis, scale=scale)


def _clock(on: Scene) -> str:
    """How to write times: as exactly as the stretch of time needs, in 24 hours."""
    begin, end = (
        (datetime.fromisoformat(str(place)) for place in (on.begin, on.end)) if on.dated else (None, None)
    )
    if begin is None or end is None:
        return ""
    stretch = end - begin
    if stretch > timedelta(days=3):
        return "%b %d"
    if stretch > timedelta(hours=20):
        return "%b %d %H:%M"
    return "%H:%M" if stretch > timedelta(minutes=12) else "%H:%M:%S"


def _incidents(on: Scene, *phases: str) -> list[Any]:
    """A rule at each onset, and a shade that is no darker where several incidents are open."""
    stretches = sorted(
        (on.at(onset.line, onset.time), on.at(over.line, over.time) if over else on.end)
        for incident in on.incidents
        if incident.phase in phases
        for onset, over in [(incident.onset, incident.resolved)]
    )
    if not stretches:
        return []
    shades: list[dict[str, Any]] = []
    for begin, end in stretches:
        if shades and begin <= shades[-1]["x2"]:
            shades[-1]["x2"] = max(shades[-1]["x2"], end)
        else:
            shades.append({"x": begin, "x2": end})
    onsets = [{"x": begin} for begin in dict.fromkeys(begin for begin, _ in stretches)]
    return [
        alt.Chart(_table(shades)).mark_rect(color=BAD, opacity=0.10).encode(x=_x(on), x2="x2"),
        alt.Chart(_table(onsets)).mark_rule(color=BAD, opacity=0.8, strokeWidth=1.2).encode(x=_x(on)),
    ]


def _starts(on: Scene) -> list[Any]:
    rows = [
        {"x": place, "run": f"run {start.run + 1}"}
        for start in on.starts
        if start.settings and _within(on, place := on.at(start.place.line, start.time))
    ]
    if not rows:
        return []
    return [alt.Chart(_table(rows)).mark_rule(color=QUIET, strokeDash=[2, 3], strokeWidth=1).encode(x=_x(on))]


def _within(on: Scene, place: str | int) -> bool:
    if isinstance(place, str) or isinstance(on.begin, str):
        return str(on.begin) <= str(place) <= str(on.end)
    return on.begin <= place <= int(on.end)


def _table(rows: list[dict[str, Any]]) -> Any:
    return alt.InlineData(values=rows)


def _svg(chart: Any, height: int) -> dict[str, str]:
    """Both widths of a chart as SVG without a size of its own."""
    drawn = {}
    for name, width in WIDTHS.items():
        spec = chart.properties(width=width - MARGIN, height=height).to_dict()
        spec["config"] = _config(name == "narrow")
        drawn[name] = _coloured(vlc.vegalite_to_svg(spec))
    return drawn


def _config(narrow: bool) -> dict[str, Any]:
    label = 11 if narrow else 12
    return {
        "background": None,
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            "labelColor": QUIET, "titleColor": QUIET, "gridColor": LINE, "domainColor": LINE,
            "tickColor": LINE, "labelFontSize": label, "titleFontSize": label, "titleFontWeight": "normal",
            "gridOpacity": 0.8,
        },
        "axisX": {"grid": False, "tickCount": 4 if narrow else 10},
        "axisY": {"domain": False, "ticks": False, "tickCount": 5, "minExtent": 30},
        "legend": {
            "labelColor": INK, "labelFontSize": label, "symbolType": "square", "orient": "top",
            "columns": 3 if narrow else 8, "columnPadding": 22, "symbolSize": 90,
        },
    }  # fmt: skip


def _coloured(svg: str) -> str:
    """Placeholders to variables; the size to the page."""
    svg = re.sub(r'(fill|stroke)="(#0[0-9a-f]{5})"', _variable, svg)
    return re.sub(r'width="[0-9.]+" height="[0-9.]+" (?=viewBox)', 'role="img" ', svg, count=1)


def _variable(found: re.Match[str]) -> str:
    name = VARIABLES.get(found[2])
    return f'{found[1]}="var(--{name})"' if name else found[0]
