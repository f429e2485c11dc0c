"""Level 3: the summary as Markdown, for a ticket or a chat."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
    from logwatch.outlets.report.summary import PhaseSummary, RunSummary, Summary

_MARKUP = re.compile(r"[\\`*\[\]<>#|~!]|(?<!\w)_|_(?!\w)")


def as_markdown(summary: Summary) -> str:
    """The whole document."""
    out = [f"**{plain(verdict_text(summary))}**"]
    for run in summary.runs:
        out += ["", f"### {plain(run_title(run))}", *_run(run)]
    if summary.incidents:
        out += ["", "### Incidents", ""]
        for incident in summary.incidents:
            out.append(
                f"- {plain(safe(incident.stream))}: {plain(incident_text(incident))}; "
                f"{plain(lasted(incident))}."
            )
            if incident.detail:
                out.append(f"  {plain(safe(incident.detail, 400))}")
            out += [f"  - {plain(cause_text(cause))}" for cause in incident.causes]
    if summary.crashes:
        out += ["", "### Crashes", ""]
        out += [f"- {plain(crash_text(crash))}" for crash in summary.crashes]
    if summary.explained:
        out += ["", "### Candidate changes", ""]
        out += [f"- {plain(safe(sentence, 1000))}" for sentence in summary.explained]
    out += ["", *(f"- {plain(input_text(each))}" for each in summary.inputs)]
    return "\n".join(out)


def _run(run: RunSummary) -> list[str]:
    settings, economy = settings_text(run), economics_text(run.economics)
    out = ["", plain(settings)] if settings else []
    out += [
        "",
        "| phase | samples | median ms | p05 | p95 | share | band ms | |",
        "|---|---:|---:|---:|---:|---:|---|---|",
    ]
    out += map(_phase, run.phases)
    return [*out, "", plain(economy)] if economy else out


def _phase(phase: PhaseSummary) -> str:
    cells = [
        plain(safe(phase.phase, 40)),
        f"{phase.samples}",
        *(f"{value * 1000:.2f}" for value in (phase.median_s, phase.p05_s, phase.p95_s)),
        "" if phase.share is None else f"{phase.share:.1%}",
        judged_by(phase),
        state_text(phase),
    ]
    return f"| {' | '.join(cells)} |"


def plain(text: str) -> str:
    """Text in which Markdown sees no markup; an underscore within a word is none."""
    return _MARKUP.sub(r"\\\g<0>", text)
