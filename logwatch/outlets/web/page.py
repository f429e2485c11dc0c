"""Level 3: the status page: its frame, and the parts that live updates replace.

A part is HTML under an id. The page is complete without script; with it, the parts that changed are swapped
as the server sends them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from logwatch import __version__
from logwatch.outlets.deliver_text import phase_words
from logwatch.outlets.metrics_families import Facts
from logwatch.outlets.metrics_memory import StreamMemory
from logwatch.outlets.web import sections, settings, troubles
from logwatch.outlets.web.board import View
from logwatch.outlets.web.markup import Child, Html, el, join, prose
from logwatch.outlets.web.sentence import State, Summary, summarize, troubles_of_logwatch
from logwatch.outlets.web.strip import strip

ICONS = {
    State.NO_DATA: "idle",
    State.UNJUDGED: "idle",
    State.IN_BAND: "good",
    State.UNSETTLED: "warn",
    State.INCIDENT: "bad",
    State.OUT_OF_BAND: "bad",
}
"""Look of a state: a colour of the style sheet and an icon of `static/`."""

WORDS = {
    State.NO_DATA: "No data",
    State.UNJUDGED: "No band",
    State.IN_BAND: "In band",
    State.UNSETTLED: "Unsettled",
    State.INCIDENT: "Incident",
    State.OUT_OF_BAND: "Out of band",
}


@dataclass(frozen=True, slots=True)
class Update:
    """What a browser needs to show: the window's title, the state's look, the parts by id."""

    title: str
    look: str
    now_s: float
    parts: Mapping[str, str]


def update(
    view: View,
    sources: Mapping[str, StreamMemory],
    facts: Facts,
    now_s: float,
    runbook: Callable[[str], str | None],
) -> Update:
    """Everything that can change on the page.

    Args:
        view: What the board knows.
        sources: What the metrics know of each stream.
        facts: What the process knows of itself.
        now_s: Unix time: ages count from here.
        runbook: Address of an alert's runbook, or None where there is none.
    """
    summary = summarize(view, len(sources))
    ring = view.rings.get(summary.key, ()) if summary.key else ()
    look = ICONS[summary.state]
    if view.open and all(incident.severity != "critical" for incident in view.open):
        look = "warn"
    level = f"{ring[-1].value_s * 1000:.2f} ms" if ring else WORDS[summary.state]
    return Update(
        title=f"{level} · {WORDS[summary.state]} · logwatch" if ring else f"{level} · logwatch",
        look=look,
        now_s=now_s,
        parts={
            "state": el("span", WORDS[summary.state], class_=f"badge {look}"),
            "sentence": el("h1", prose(summary.sentence)),
            "meta": sections.meta(ring),
            "health": sections.health(troubles_of_logwatch(facts, sources)),
            "figures": sections.figures(summary, view, sources),
            "strip": _strip(summary, view),
            "open": troubles.open_incidents(view, runbook),
            "phases": sections.phases(view),
            "past": troubles.past_incidents(view),
            "run": settings.runs(view, summary),
            "sources": sections.sources(sources),
            "events": sections.events(view),
        },
    )


def page(shown: Update) -> str:
    """The whole document."""
    part = shown.parts
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", shown.title),
        el("link", rel="icon", id="icon", href=f"static/{shown.look}.svg", type="image/svg+xml"),
        el("link", rel="stylesheet", href="static/page.css"),
        el("noscript", el("meta", http_equiv="refresh", content="10")),
        el("script", "", src="static/page.js", defer=True),
    )
    body = el(
        "body",
        el(
            "header",
            el(
                "p",
                el("span", "logwatch", class_="name"),
                " ",
                el("span", __version__, class_="quiet"),
                class_="brand",
            ),
            el("p", "Updates every 10 s", id="live", class_="live"),
        ),
        el(
            "main",
            el(
                "section",
                el("div", part["state"], id="state"),
                el("div", part["sentence"], id="sentence", role="status"),
                el("div", part["meta"], id="meta", class_="meta"),
                class_="hero",
                id="hero",
                aria_label="State",
            ),
            el("div", part["health"], id="health"),
            el("div", part["figures"], id="figures", class_="figures"),
            el("div", part["strip"], id="strip", class_="card"),
            el("div", part["open"], id="open"),
            el("div", part["phases"], id="phases", class_="card"),
            el(
                "div",
                el("div", part["run"], id="run", class_="card"),
                el(
                    "div",
                    el("div", part["sources"], id="sources", class_="card"),
                    el("div", part["past"], id="past", class_="card"),
                    el("div", part["events"], id="events", class_="card"),
                ),
                class_="pair",
            ),
        ),
        _footer(),
        class_=shown.look,
        data_now=f"{shown.now_s:.1f}",
    )
    return "<!doctype html>\n" + el("html", head, body, lang="en")


def _strip(summary: Summary, view: View) -> Html:
    ring = view.rings.get(summary.key, ()) if summary.key else ()
    if not ring:
        return join(
            [
                el("h2", "Verify time"),
                el(
                    "p",
                    "Verify time is drawn against its band from the first report on. Start the server with ",
                    el("code", "EAGLE3_PROFILE=1"),
                    ", or let it decode: stock decode lines will do.",
                    class_="empty",
                ),
            ]
        )
    last = ring[-1]
    where = " · ".join(text for text in (last.stream, last.rank) if text)
    return join(
        [
            el("h2", phase_words(last.phase), el("span", where, class_="where")),
            el("figure", strip(ring), el("figcaption", _legend(last.band is not None), class_="legend")),
        ]
    )


def _legend(banded: bool) -> Child:
    key = [el("span", "one sample", class_="key plain-key")]
    if banded:
        key = [
            el("span", "sample in its band", class_="key good-key"),
            el("span", "sample outside", class_="key bad-key"),
            el("span", "the band", class_="key band-key"),
        ]
    return [*key, el("span", "ms a cycle, newest on the right", class_="quiet")]


def _footer() -> Html:
    links = {
        "metrics": "Metrics",
        "api/v1/status": "Status as JSON",
        "api/v1/samples?phase=target_verify": "Samples",
        "api/v1/incidents": "Incidents",
        "api/v1": "JSON interface",
        "runbooks": "Runbooks",
    }
    return el("footer", el("nav", [el("a", text, href=to) for to, text in links.items()], aria_label="More"))
