"""Level 3: the status page's incidents, open and past: what, since when, by how much, why, what to try."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logwatch.model import Cause, Incident, Moment
from logwatch.outlets.deliver_text import advice, alert_name, best_causes, clean
from logwatch.outlets.deliver_text import summary as headline
from logwatch.outlets.web.board import View
from logwatch.outlets.web.markup import Child, Html, el, join, prose
from logwatch.outlets.web.sections import more
from logwatch.outlets.web.sentence import (
    band_of,
    clock_of,
    is_timed,
    level_of,
    told_cause,
    troubles_of,
    words_of,
)

SHOWN_PAST = 20
SHOWN_OPEN = 12


def open_incidents(view: View, runbook: Callable[[str], str | None]) -> Html:
    """A card for each open trouble, whatever number of ranks see it."""
    groups = troubles_of(view.open)
    cards = [_card(incidents, runbook) for incidents in groups[:SHOWN_OPEN]]
    return join([cards, more(len(groups), SHOWN_OPEN)])


def past_incidents(view: View) -> Html:
    """What was, newest first."""
    title = el("h2", "Past incidents")
    if not view.past:
        return join([title, el("p", "None so far.", class_="empty")])
    entries = [el("li", _past(incident)) for incident in view.past[:SHOWN_PAST]]
    return join([title, el("ul", entries, class_="past"), more(len(view.past), SHOWN_PAST)])


def _card(incidents: Sequence[Incident], runbook: Callable[[str], str | None]) -> Html:
    worst = max(incidents, key=lambda each: abs(each.ratio - 1))
    ranks = ", ".join(clean(each.rank, 60) for each in incidents[:16] if each.rank)
    more = f" and {len(incidents) - 16} more" if len(incidents) > 16 else ""
    first = min(incidents, key=lambda each: (each.onset.time or "", each.onset.line))
    now = level_of(worst.phase, worst.after)
    facts: dict[str, Child] = {
        "Since": _moment(first.onset),
        "Now": [now, el("span", f"{worst.ratio:.2f} times", class_="beside")] if now else None,
        "Before": level_of(worst.phase, worst.before) if worst.before is not None else None,
        "Band": band_of(worst.band) if worst.band and is_timed(worst.phase) else None,
        "Source": clean(worst.stream, 100),
        "Ranks" if len(incidents) > 1 else "Rank": ranks + more or None,
    }
    alert, causes = alert_name(worst), best_causes(incidents)
    book = runbook(alert)
    severity = clean(worst.severity, 20)
    return el(
        "section",
        el(
            "div",
            el("span", severity, class_=f"badge {'bad' if severity == 'critical' else 'warn'}"),
            el("h2", headline(worst)),
            class_="card-head",
        ),
        el(
            "dl",
            [el("div", el("dt", key), el("dd", value)) for key, value in facts.items() if value],
            class_="facts",
        ),
        el("p", prose(clean(worst.detail, 600))) if worst.detail else None,
        el("h3", "Likely cause"),
        _causes(causes),
        el("h3", "What to try"),
        el("p", prose(advice(causes, alert))),
        el("p", el("a", f"Runbook {alert}", href=book)) if book else None,
        class_=f"card incident {'bad' if severity == 'critical' else 'warn'}",
        aria_label=f"Open incident: {headline(worst)}",
    )


def _moment(moment: Moment) -> Child:
    line = f"line {moment.line}"
    return [clock_of(moment.time), el("span", line, class_="beside")] if moment.time else line


def _causes(causes: Sequence[Cause]) -> Html:
    known = [cause for cause in causes if cause.cause != "unknown"]
    if not known:
        ruled_out = f" {clean(causes[0].evidence)}" if causes else ""
        return el("p", prose(f"The log does not say.{ruled_out}"), class_="quiet")
    return el(
        "ol",
        [
            el(
                "li",
                el("b", words_of(cause.cause)),
                el("span", f"{cause.score:.0%}", class_="score"),
                el("span", prose(clean(cause.evidence)), class_="evidence"),
            )
            for cause in known[:5]
        ],
        class_="causes",
    )


def _past(incident: Incident) -> Child:
    when = clock_of(incident.onset.time) or f"line {incident.onset.line}"
    until = incident.resolved and (clock_of(incident.resolved.time) or f"line {incident.resolved.line}")
    same_day = bool(until) and len(str(until)) > 11 and str(until)[:10] == when[:10]
    stretch = f"{when} to {str(until)[11:] if same_day else until}" if until else f"{when}, end not seen"
    where = " · ".join(clean(text, 60) for text in (incident.stream, incident.rank) if text)
    level, cause = level_of(incident.phase, incident.after), told_cause(incident)
    figures = [f"{level}, {incident.ratio:.2f} times"] if level else []
    figures += [f"most likely {cause}"] if cause else []
    return [
        el("b", headline(incident)),
        el("span", f"{stretch} · {where}", class_="quiet"),
        el("span", "; ".join(figures), class_="quiet") if figures else None,
    ]
