"""Level 3: the picture report: one HTML file that needs nothing else, in light and dark, narrow and wide.

Nothing is fetched and no script runs: charts are inline SVG, and the page forbids itself everything else. All
text from the log is escaped.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING

from logwatch import __version__
from logwatch.outlets.report.charts import phase_chart, series_chart, stack_chart, stacked
from logwatch.outlets.report.scene import scene
from logwatch.outlets.report.strips import course
from logwatch.outlets.report.track import Track, Tracker, bands_of, main_phase
from logwatch.outlets.report.wording import (
    band_text,
    cause_text,
    crash_text,
    economics_text,
    incident_text,
    judged_by,
    lasted,
    moment_text,
    run_title,
    safe,
    settings_text,
    state_text,
    value_text,
    verdict_text,
    worst_of,
)
from logwatch.units import format_bytes, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from logwatch.model import Incident, RunStarted
    from logwatch.outlets.report.summary import PhaseSummary, RunSummary, Summary

MAX_STREAMS = 12
MAX_ROWS = 60
SLOWER = "slower_than_baseline"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")


def page(summary: Summary, tracker: Tracker) -> str:
    """The whole document."""
    streams = list(dict.fromkeys(run.stream for run in summary.runs))
    body = [_header(summary)]
    if summary.incidents:
        body.append("<h2>Incidents</h2>")
        body += [_incident(incident) for incident in summary.incidents[:MAX_ROWS]]
        left = len(summary.incidents) - MAX_ROWS + summary.more_incidents
        if left > 0:
            body.append(f"<p class=quiet>and {left} more</p>")
    if summary.crashes:
        crashes = "".join(f"<li>{_text(crash_text(crash))}</li>" for crash in summary.crashes)
        body.append(f"<h2>Crashes</h2>\n<ul>{crashes}</ul>")
    for stream in streams[:MAX_STREAMS]:
        body += _stream(stream, summary, tracker)
    if len(streams) > MAX_STREAMS:
        body.append(f"<p class=quiet>Pictures of {len(streams) - MAX_STREAMS} more streams are left out.</p>")
    body.append(_inputs(summary))
    title = f"logwatch: {verdict_text(summary)}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def _text(text: object) -> str:
    return html.escape(safe(str(text), 400))


def _header(summary: Summary) -> str:
    good = summary.verdict == "in_band"
    judged = any(phase.in_band is not None for run in summary.runs for phase in run.phases)
    badge = summary.verdict.replace("_", " ") if judged or not good else "no incident"
    worst = worst_of(summary.incidents)
    when = f"<p>{_text(_from_to(worst))}</p>" if worst else ""
    size, lines = sum(each.bytes for each in summary.inputs), sum(each.lines for each in summary.inputs)
    names = ", ".join(each.path for each in summary.inputs[:4]) + (" ..." if len(summary.inputs) > 4 else "")
    verdict = verdict_text(summary)
    return (
        f'<header><span class="badge {"good" if good else "bad"}">{_text(badge)}</span>'
        f"<h1>{_text(verdict)}</h1>{when}"
        f"<p class=quiet>{_text(names)}: {format_bytes(size)}, {lines:,} lines</p></header>"
    )


def _from_to(incident: Incident) -> str:
    since = moment_text(incident.onset)
    if incident.resolved:
        return f"From {since} to {moment_text(incident.resolved)}; it is over."
    return f"Since {since}; still so at the end of the log."


def _incident(incident: Incident) -> str:
    causes = "".join(f"<li>{_text(cause_text(cause))}</li>" for cause in incident.causes)
    return (
        f'<div class="card incident{" over" if incident.resolved else ""}">'
        f"<h3>{_text(incident_text(incident))}</h3>"
        f"<p class=quiet>{_text(incident.stream)}: {_text(lasted(incident))}</p>"
        + (f"<p>{_text(incident.detail)}</p>" if incident.detail else "")
        + (f"<ul>{causes}</ul>" if causes else "")
        + "</div>"
    )


def _stream(stream: str, summary: Summary, tracker: Tracker) -> Iterable[str]:
    runs = [run for run in summary.runs if run.stream == stream]
    yield f"<h2>{_text(stream)}</h2>"
    tracks = [track for key, track in tracker.tracks.items() if key[0] == stream and track.spans]
    phase = main_phase(tracks)
    if tracks:
        yield f"<p class=quiet>{_text(_stretch(tracks))}</p>"
    if runs:
        yield _tiles(runs, phase, [each for each in summary.incidents if each.stream == stream])
    if phase is not None:
        yield from _charts(stream, phase, tracks, summary, tracker)
    yield _runs(runs)
    yield _settings(tracker.starts.get(stream, []))


def _stretch(tracks: Sequence[Track]) -> str:
    """From when to when, where the log says so, and how many reports of how many ranks."""
    spans = [span for track in tracks for span in track.spans]
    reports = sum(span.reports for span in spans)
    counts = f"{reports:,} reports" + (f" of {len(tracks)} ranks" if len(tracks) > 1 else "")
    times = [span.time[:19].replace("T", " ") for span in spans if span.time]
    return f"{min(times)} to {max(times)}: {counts}" if times else counts


def _tiles(runs: Sequence[RunSummary], main: str | None, incidents: Sequence[Incident]) -> str:
    """The last run's figures, large: of the rank that is worst off, and where it stands at the end."""
    ranks = [run for run in runs if run.run == runs[-1].run]
    still = [each for each in incidents if not each.resolved]
    worst = worst_of(each for each in still if each.phase == main)
    run = next((run for run in ranks if worst and run.rank == worst.rank), None) or max(
        ranks, key=lambda run: any(phase.in_band is False for phase in run.phases)
    )
    which = f"Run {run.run + 1}" if len(runs) > len(ranks) else ""
    which += f"{', ' if which else ''}{run.rank}" if len(ranks) > 1 and run.rank else ""
    tiles = []
    phase = next((phase for phase in run.phases if phase.phase == main), None)
    if phase is not None:
        name, median = phase.phase.replace("_", " "), milliseconds(phase.median_s)
        where = f"band {judged_by(phase)} ms" if phase.band else "no band"
        if worst is not None:
            words = f"{name} in the open incident, {median} in the median; {where}"
            tiles.append((value_text(phase.phase, worst.after), words, "bad"))
        else:
            state = {"in": "good", "high": "bad", "low": "bad"}.get(state_text(phase), "")
            tiles.append((median, f"{name}, median; {where}", state))
    now = run.economics
    if run.tokens_per_cycle is not None:
        tiles.append((f"{run.tokens_per_cycle:.2f}", "tokens per cycle, bonus token counted", ""))
    if now.breakeven_tokens_per_cycle is not None:
        against = f"break-even tokens per cycle, against {now.baseline_tokens_per_second:g} tok/s"
        tiles.append((f"{now.breakeven_tokens_per_cycle:.2f}", against, ""))
    slower = worst_of(each for each in still if each.kind == SLOWER and each.rank == run.rank)
    if now.estimated_tokens_per_second is not None:
        figure = f"{now.estimated_tokens_per_second:.1f}"
        against = "" if now.speedup is None else f"; {now.speedup:.2f} x the baseline"
        if slower is not None:
            tiles.append(
                (f"{slower.after:.1f}", f"tok/s in the open incident, {figure} in the median", "bad")
            )
        else:
            state = "" if now.speedup is None else "good" if now.speedup >= 1 else "bad"
            tiles.append((figure, f"tok/s, estimated{against}", state))
    cells = "".join(
        f'<div class="tile {state}"><b>{_text(figure)}</b><span>{_text(words)}</span></div>'
        for figure, words, state in tiles
    )
    return (f"<h3>{_text(which)}</h3>" if which else "") + f"<div class=tiles>{cells}</div>"


def _charts(
    stream: str, phase: str, tracks: list[Track], summary: Summary, tracker: Tracker
) -> Iterable[str]:
    incidents = [incident for incident in summary.incidents if incident.stream == stream]
    on = scene(tracks, incidents, tracker.starts.get(stream, []), tracker.malformed.get(stream, []))
    name = phase.replace("_", " ").capitalize()
    bands = {band for _, band in bands_of(tracks, phase)}
    words = ["Green: the band; it moves with the context or the batch size."]
    if len(bands) < 2:
        words = [f"Green: the band, {band_text(band)} ms." for band in bands]
    if not bands:
        words = ["No band is configured for this phase."]
    if any(span.reports > 1 for track in tracks for span in track.spans):
        words.append("Pale: from the lowest to the highest of the reports that are drawn as one.")
    if any(incident.phase == phase for incident in incidents):
        words.append("Red shade: incidents, from their onset.")
    if sum(bool(start.settings) for start in on.starts) > 1:
        words.append("Dashed: server starts.")
    if on.malformed:
        words.append("Red ticks: malformed lines.")
    if len(tracks) > len(on.colours):
        words.append(f"Grey: the other ranks of {len(tracks)}.")
    if not on.dated:
        words.append("The axis is the line number: times are missing or run backwards.")
    yield _card(f"{name}, ms per cycle", " ".join(words), phase_chart(on, phase))
    parts = stacked(on)
    if parts is not None:
        of = f"Of {parts.rank}." if len(tracks) > 1 else ""
        yield _card("Where a cycle goes", of, stack_chart(on, parts))
    yield _card(
        "Tokens per cycle",
        "Dashed red: break-even." if tracker.baseline else "",
        series_chart(on, "tokens_per_cycle", "tokens", against="breakeven" if tracker.baseline else None),
    )
    yield _card("Batch size", "", series_chart(on, "batch_size", "requests"))


def _card(title: str, words: str, drawn: dict[str, str] | None) -> str:
    if drawn is None:
        return ""
    about = f"<p class=quiet>{_text(words)}</p>" if words else ""
    return (
        f"<div class=card><h3>{_text(title)}</h3>{about}"
        f"<div class=wide>{drawn['wide']}</div><div class=narrow>{drawn['narrow']}</div></div>"
    )


def _runs(runs: Sequence[RunSummary]) -> str:
    parts = []
    for run in runs[:MAX_ROWS]:
        rows = "".join(_phase(phase) for phase in run.phases)
        parts.append(
            f"<div class=card><h3>{_text(run_title(run))}</h3><p class=quiet>{_text(settings_text(run))}</p>"
            "<div class=scroll><table><tr><th>phase<th class=n>samples<th class=n>median ms<th class=n>5 %"
            "<th class=n>95 %<th class=n>share<th>band ms<th><th>over the log</tr>"
            f"{rows}</table></div><p class=quiet>{_text(economics_text(run.economics))}</p></div>"
        )
    if len(runs) > MAX_ROWS:
        parts.append(f"<p class=quiet>and {len(runs) - MAX_ROWS} more runs</p>")
    return "\n".join(parts)


def _phase(phase: PhaseSummary) -> str:
    state = state_text(phase)
    strip = "".join(
        f"<i>{block}</i>" if outside else block
        for block, outside in course(phase.course, phase.median_s, phase.fixed_band, 32)
    )
    kind = "in" if state == "in" else "out" if state else ""
    if phase.outside:
        state += f", {phase.outside:,} outside"
    return (
        f"<tr><td>{_text(phase.phase.replace('_', ' '))}{_figures(f'{phase.samples:,}')}"
        f'<td class="n {kind}">{phase.median_s * 1000:.2f}'
        + _figures(
            f"{phase.p05_s * 1000:.2f}",
            f"{phase.p95_s * 1000:.2f}",
            "" if phase.share is None else f"{phase.share:.1%}",
        )
        + f'<td>{judged_by(phase)}<td class="{kind}">{_text(state)}'
        f"<td class=strip>{strip}</tr>"
    )


def _figures(*figures: str) -> str:
    """Cells whose figures stand below each other."""
    return "".join(f"<td class=n>{figure}" for figure in figures)


def _words(*words: object) -> str:
    """Cells of text from the log."""
    return "".join(f"<td class=wrap>{_text(word)}" for word in words)


def _settings(starts: Sequence[RunStarted]) -> str:
    """What differs between the runs first, then each run's settings to unfold."""
    known = {start.run: start for start in starts if start.settings}
    if not known:
        return ""
    numbers = sorted(known)[-8:]
    parts = []
    if len(numbers) > 1:
        names = sorted({name for number in numbers for name in known[number].settings})
        rows = [
            f"<tr><td><code>{_text(name)}</code>{_words(*values)}</tr>"
            for name in names
            if len(set(values := [known[number].settings.get(name, "(not set)") for number in numbers])) > 1
        ]
        head = "".join(f"<th>run {number + 1}" for number in numbers)
        table = (
            f"<div class=scroll><table><tr><th>setting{head}</tr>{''.join(rows)}</table></div>"
            if rows
            else "<p class=quiet>All settings are the same.</p>"
        )
        parts.append(f"<div class=card><h3>What differs between the runs' settings</h3>{table}</div>")
    for number in numbers:
        start = known[number]
        rows = [
            f"<tr><td><code>{_text(n)}</code><td class=wrap>{_text(v)}</tr>"
            for n, v in start.settings.items()
        ]
        parts.append(
            f"<details><summary>Settings of run {number + 1} ({len(start.settings)})</summary>"
            f"<div class=card><div class=scroll><table>{''.join(rows)}</table></div></div></details>"
        )
    return "\n".join(parts)


def _inputs(summary: Summary) -> str:
    rows = "".join(
        f"<tr>{_words(each.path)}"
        + _figures(format_bytes(each.bytes), f"{each.lines:,}", f"{each.records:,}", f"{each.malformed:,}")
        + f'<td class="wrap out">{_text(each.damage or "")}</tr>'
        for each in summary.inputs[:MAX_ROWS]
    )
    bad = "".join(
        f"<tr><td class=wrap>{_text(bad.place.path)}:{bad.place.line}:{bad.column}<td>{_text(bad.kind)}"
        f"<td class=wrap>wants {_text(bad.expected)}, found <code>{_text(bad.found)}</code></tr>"
        for bad in summary.malformed
    )
    table = f"<h3>Malformed lines</h3><div class=scroll><table>{bad}</table></div>" if bad else ""
    return (
        "<h2>What was read</h2><div class=card><div class=scroll><table><tr><th>input<th class=n>size"
        f"<th class=n>lines<th class=n>records<th class=n>malformed<th></tr>{rows}</table></div>{table}</div>"
        f"<p class=quiet>logwatch {__version__}, replay</p>"
    )
