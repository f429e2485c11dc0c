"""Level 3: the summary for a person at a terminal: the verdict first, then runs, incidents and inputs.

Wide terminals get the charts, narrow ones the figures that matter most; piped text has no colour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from logwatch.outlets.report import strips
from logwatch.outlets.report.console import Output
from logwatch.outlets.report.wording import (
    cause_text,
    crash_text,
    economics_text,
    incident_text,
    input_text,
    judged_by,
    lasted,
    run_title,
    safe,
    settings_text,
    state_text,
    verdict_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

    from logwatch.model import Incident, Record
    from logwatch.outlets.report.summary import PhaseSummary, RunSummary, Summary

PIPED_WIDTH = 120
UNWRAPPED = 1_000_000
RUNS_SHOWN = 24
INCIDENTS_SHOWN = 20
CRASHES_SHOWN = 5
INPUTS_SHOWN = 20
GOOD, BAD, QUIET = "green", "bold red", "dim"


@dataclass(frozen=True, slots=True)
class _Column:
    """One column; those with the highest `rank` go first where the terminal is narrow."""

    title: str
    rank: int
    cell: Callable[[PhaseSummary], Text]
    left: bool = False


def print_table(summary: Summary, file: TextIO, width: int | None = None) -> None:
    """Print the summary. `width` overrules the terminal's."""
    piped = width is None and not file.isatty()
    console = Output(
        file=file,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
        width=PIPED_WIDTH if piped else width,
    )
    for line in lines(summary, console.width, UNWRAPPED if piped else console.width):
        console.print(line)


def lines(summary: Summary, table: int, width: int) -> list[Text]:
    """The whole report, line by line: tables at most `table` wide, sentences at most `width`."""
    style = {"in_band": f"bold {GOOD}", "out_of_band": BAD, "no_data": "bold yellow"}[summary.verdict]
    out = _wrapped(verdict_text(summary), width, style)
    for run in summary.runs[:RUNS_SHOWN]:
        out += [Text(), *_run(run, table, width)]
    if len(summary.runs) > RUNS_SHOWN:
        out += [
            Text(),
            Text(f"... and {len(summary.runs) - RUNS_SHOWN} more runs (see --format json)", QUIET),
        ]
    if summary.incidents:
        out += [Text(), *_incidents(summary, width)]
    if summary.crashes:
        out += [Text(), Text("Crashes", "bold")]
        for crash in summary.crashes[:CRASHES_SHOWN]:
            out += _wrapped(crash_text(crash), width, BAD, indent=2)
        if len(summary.crashes) > CRASHES_SHOWN:
            out.append(
                Text(f"  ... and {len(summary.crashes) - CRASHES_SHOWN} more (see --format json)", QUIET)
            )
    if summary.explained:
        out += [Text(), Text("Candidate changes", "bold")]
        for sentence in summary.explained:
            out += _wrapped(safe(sentence, 1000), width, "", indent=2)
    return [*out, Text(), *_inputs(summary, width)]


def _incidents(summary: Summary, width: int) -> list[Text]:
    out = [Text("Incidents", "bold")]
    for incident in summary.incidents[:INCIDENTS_SHOWN]:
        out += _incident(incident, width)
    left = len(summary.incidents) - INCIDENTS_SHOWN + summary.more_incidents
    return [*out, Text(f"  ... and {left} more (see --format json)", QUIET)] if left > 0 else out


def _crashes(crashes: Sequence[Record], width: int) -> list[Text]:
    out = [Text("Crashes", "bold")]
    for crash in crashes[:CRASHES_SHOWN]:
        out += _wrapped(crash_text(crash), width, BAD, indent=2)
    left = len(crashes) - CRASHES_SHOWN
    return [*out, Text(f"  ... and {left} more (see --format json)", QUIET)] if left > 0 else out


def _inputs(summary: Summary, width: int) -> list[Text]:
    out: list[Text] = []
    for each in summary.inputs[:INPUTS_SHOWN]:
        out += _wrapped(input_text(each), width, "yellow" if each.damage else QUIET)
    if len(summary.inputs) > INPUTS_SHOWN:
        out.append(Text(f"... and {len(summary.inputs) - INPUTS_SHOWN} more files", QUIET))
    for bad in summary.malformed[:3]:
        where = f"{safe(bad.place.path)}:{bad.place.line}:{bad.column}"
        found = f"{where}: {bad.kind} wants {safe(bad.expected)}, found {safe(bad.found, 60)}"
        out += _wrapped(found, width, QUIET)
    return out


def _run(run: RunSummary, table: int, width: int) -> list[Text]:
    out = _wrapped(run_title(run), width, "bold")
    settings = settings_text(run)
    if settings:
        out += _wrapped(settings, width, QUIET, indent=2)
    out += _phases(run.phases, table)
    economy = economics_text(run.economics)
    if economy:
        cheap = run.economics.speedup is None or run.economics.speedup >= 1
        out += _wrapped(economy, width, "" if cheap else BAD, indent=2)
    return out


def _phases(phases: Sequence[PhaseSummary], width: int) -> list[Text]:
    columns = [
        _Column("phase", 0, lambda phase: Text(safe(phase.phase, 40)), left=True),
        _Column("samples", 5, lambda phase: Text(f"{phase.samples:,}")),
        _Column("median ms", 0, lambda phase: Text(f"{phase.median_s * 1000:.2f}", _style(phase))),
        _Column("p05", 6, lambda phase: Text(f"{phase.p05_s * 1000:.2f}")),
        _Column("p95", 4, lambda phase: Text(f"{phase.p95_s * 1000:.2f}")),
        _Column("share", 3, lambda phase: Text("" if phase.share is None else f"{phase.share:.1%}")),
        _Column("band ms", 2, lambda phase: Text(judged_by(phase))),
        _Column("", 1, lambda phase: Text(state_text(phase), _style(phase)), left=True),
        _Column("against its band", 7, lambda phase: _position(phase, 24), left=True),
        _Column("over the log", 8, lambda phase: _course(phase, max(12, min(48, width - 108))), left=True),
    ]
    rows = [[column.cell(phase) for column in columns] for phase in phases]
    widths = [
        max(len(column.title), *(row[at].cell_len for row in rows)) for at, column in enumerate(columns)
    ]
    shown = [at for at in range(len(columns)) if any(row[at].plain.strip() for row in rows)]
    while sum(widths[at] + 2 for at in shown) > width and len(shown) > 2:
        shown.remove(max(shown, key=lambda at: columns[at].rank))
    head = _line([Text(columns[at].title, QUIET) for at in shown], shown, columns, widths)
    return [head, *(_line([row[at] for at in shown], shown, columns, widths) for row in rows)]


def _line(cells: list[Text], shown: list[int], columns: list[_Column], widths: list[int]) -> Text:
    out = Text()
    for at, cell in zip(shown, cells, strict=True):
        padding = Text(" " * (widths[at] - cell.cell_len))
        out.append("  ")
        out.append_text(cell + padding if columns[at].left else padding + cell)
    out.rstrip()
    return out


def _style(phase: PhaseSummary) -> str:
    return "" if phase.in_band is None else GOOD if phase.in_band else BAD


def _position(phase: PhaseSummary, width: int) -> Text:
    text = Text(strips.position(phase, width), QUIET)
    at = text.plain.find("◆")
    if at >= 0:
        text.stylize(f"not dim {_style(phase)}", at, at + 1)
    return text


def _course(phase: PhaseSummary, width: int) -> Text:
    out = Text()
    for block, outside in strips.course(phase.course, phase.median_s, phase.fixed_band, width):
        out.append(block, "red" if outside else GOOD if phase.band else "cyan")
    return out


def _incident(incident: Incident, width: int) -> list[Text]:
    where = f"{safe(incident.stream)}: "
    out = _wrapped(
        where + incident_text(incident), width, BAD if incident.resolved is None else "yellow", indent=2
    )
    out += _wrapped(lasted(incident), width, "", indent=4)
    if incident.detail:
        out += _wrapped(safe(incident.detail, 400), width, QUIET, indent=4)
    for cause in incident.causes[:3]:
        out += _wrapped(cause_text(cause), width, "", indent=4)
    return out


def _wrapped(text: str, width: int, style: str, indent: int = 0) -> list[Text]:
    console = Console(width=max(20, width - indent), color_system=None)
    return [
        Text(" " * indent).append_text(line)
        for line in Text(text, style).wrap(console, max(20, width - indent))
    ]
