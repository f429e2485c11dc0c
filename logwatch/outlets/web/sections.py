"""Level 3: the status page's figures, phases and sources, each from what the board and the metrics know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median, quantiles

from logwatch.model import Level
from logwatch.outlets.deliver_text import clean, phase_words
from logwatch.outlets.metrics_memory import RankMemory, StreamMemory
from logwatch.outlets.web.board import Event, RingKey, Sample, View, newest_run
from logwatch.outlets.web.markup import Child, Html, el, join, prose
from logwatch.outlets.web.sentence import RankOrder, Summary, band_of, clock_of, rank_order
from logwatch.outlets.web.strip import spark
from logwatch.units import format_bytes, milliseconds

UNKNOWN = "\N{EN DASH}"
SHOWN_ROWS = 160
SHOWN_SOURCES = 100
SHOWN_EVENTS = 12


def meta(ring: Sequence[Sample]) -> Html:
    """Where and when the sentence's last sample was."""
    if not ring:
        return Html()
    last = ring[-1]
    parts: list[Child] = [el("span", text) for text in (last.stream, last.rank) if text]
    if last.time:
        parts.append(el("span", "report of ", el("time", clock_of(last.time), datetime=clean(last.time, 40))))
    parts.append(el("span", f"line {last.line}"))
    parts.append(el("span", "", class_="age", data_since=f"{last.read_s:.1f}"))
    return join(parts)


def figures(summary: Summary, view: View, known: Mapping[str, StreamMemory]) -> Html:
    """The four figures that say whether speculation is worth having."""
    stream, rank, phase = summary.key or ("", "", "")
    worth = known[stream].ranks.get(rank, RankMemory()) if stream in known else RankMemory()
    ring = view.rings.get((stream, rank, phase), ())
    return join([_level_figure(ring), _tokens_figure(worth), _rate_figure(worth), _worth_figure(worth)])


def phases(view: View) -> Html:
    """Every phase, the ranks taken together; each rank by itself where there are several."""
    if not view.rings:
        return join([el("h2", "Phases"), el("p", "No report has been read yet.", class_="empty")])
    groups: dict[tuple[str, str], list[Sequence[Sample]]] = {}
    for key in sorted(view.rings, key=_order):
        groups.setdefault((key[0], key[2]), []).append(view.rings[key])
    several = len({stream for stream, _ in groups}) > 1
    rows = [_phase_row(rings, source=several) for rings in list(groups.values())[:SHOWN_ROWS]]
    shown = [el("h2", "Phases"), table("Phases", _heads(source=several), rows), more(len(groups), SHOWN_ROWS)]
    if any(len(rings) > 1 for rings in groups.values()):
        ranks = [_phase_row([ring], source=several, rank=True) for rings in groups.values() for ring in rings]
        inner = table("Each rank", _heads(source=several, rank=True), ranks[:SHOWN_ROWS])
        shown.append(el("details", el("summary", "Each rank by itself"), inner, id="each-rank"))
    return join(shown)


def sources(known: Mapping[str, StreamMemory]) -> Html:
    """How far reading is, and how it goes."""
    title = el("h2", "Sources")
    if not known:
        return join([title, el("p", "No source has been found yet.", class_="empty")])
    names = {
        "Source": None,
        "Lag": "n",
        "Read": "n",
        "Matched": "n wide-only",
        "Ignored": "n wide-only",
        "Malformed": "n",
    }
    head = [el("th", name, scope="col", class_=look) for name, look in names.items()]
    body = [_source_row(name, source) for name, source in list(known.items())[:SHOWN_SOURCES]]
    return join([title, table("Sources", head, body), more(len(known), SHOWN_SOURCES)])


def health(troubles: Sequence[str]) -> Html:
    """What keeps logwatch itself from its work; nothing when all is well."""
    return (
        el("ul", [el("li", prose(text)) for text in troubles], class_="card health") if troubles else Html()
    )


def events(view: View) -> Html:
    """What happened beside the data, newest first."""
    title = el("h2", "Events")
    if not view.events:
        return join([title, el("p", "None since the start.", class_="empty")])
    entries = [el("li", _event(event)) for event in view.events[:SHOWN_EVENTS]]
    return join([title, el("ul", entries, class_="past"), more(len(view.events), SHOWN_EVENTS)])


def _event(event: Event) -> Child:
    notice = event.notice
    at = datetime.fromtimestamp(event.at_s).astimezone()
    look = {Level.INFO: "idle", Level.WARNING: "warn", Level.ERROR: "bad"}[notice.level]
    words = [clean(notice.kind, 60).replace("_", " ")]
    words += [f"{event.count} times"] if event.count > 1 else []
    return [
        el("span", at.isoformat(" ", "seconds")[:19], class_="quiet"),
        el("span", ", ".join(words), class_=f"badge {look}"),
        el("span", f" {clean(notice.message)}", class_="told"),
    ]


def _level_figure(ring: Sequence[Sample]) -> Html:
    if not ring:
        return _figure("Target verify", UNKNOWN, "ms a cycle", "no report yet")
    last = ring[-1]
    note = f"band {band_of(last.band)}" if last.band else "no band"
    look = {True: "good", False: "bad", None: ""}[last.in_band]
    return _figure(phase_words(last.phase), f"{last.value_s * 1000:.2f}", "ms a cycle", note, look)


def _tokens_figure(worth: RankMemory) -> Html:
    if worth.tokens_per_cycle is None:
        return _figure("Tokens per cycle", UNKNOWN, "", "not in the log yet")
    breakeven = worth.breakeven_tokens_per_cycle
    note = "accepted drafts + 1" if breakeven is None else f"break-even {breakeven:.2f}"
    ratio = worth.speedup_ratio  # None also where the batch is larger than the baseline's
    look = "" if ratio is None else "good" if ratio >= 1 else "bad"
    return _figure("Tokens per cycle", f"{worth.tokens_per_cycle:.2f}", "", note, look)


def _rate_figure(worth: RankMemory) -> Html:
    name, rate, stated = "Throughput", worth.estimated_tokens_per_second, worth.generation_tokens_per_second
    if rate is None and stated is None:
        return _figure(name, UNKNOWN, "tok/s", "not in the log yet")
    if rate is None or stated is None:
        note = "as the engine states" if rate is None else "tokens per cycle over cycle time"
        return _figure(name, f"{(stated if rate is None else rate) or 0:.1f}", "tok/s", note)
    return _figure(name, f"{rate:.1f}", "tok/s", f"the engine states {stated:.1f}")


def _worth_figure(worth: RankMemory) -> Html:
    ratio = worth.speedup_ratio
    if ratio is None:
        note = (
            "set baseline_tokens_per_second"
            if worth.breakeven_tokens_per_cycle is None
            else "at batch size 1 only"
        )
        return _figure("Against no speculation", UNKNOWN, "", note)
    note = "speculation pays" if ratio >= 1 else "slower than without it"
    return _figure("Against no speculation", f"{ratio:.2f}", "times", note, "good" if ratio >= 1 else "bad")


def _figure(name: str, value: str, unit: str, note: str, look: str = "") -> Html:
    number = el("p", el("b", value), f" {unit}" if unit else None, class_="value")
    return el(
        "div",
        el("p", name, class_="what"),
        number,
        el("p", prose(note), class_="note"),
        class_=f"figure {look}",
    )


def _order(key: RingKey) -> tuple[str, RankOrder, int, str]:
    """Streams and ranks as they are called, phases as a cycle runs."""
    known = ("target_verify", "draft_forward", "draft_extend", "total_cycle", "inferred_cycle")
    return key[0], rank_order(key[1]), known.index(key[2]) if key[2] in known else len(known), key[2]


def _heads(*, source: bool, rank: bool = False) -> list[Html]:
    names = ["Phase", *(["Source"] if source else []), *(["Rank"] if rank else [])]
    looks = {"Last": "n", "Median": "n", "5 to 95 %": "n wide-only"}
    looks |= dict.fromkeys(("Share", "Trend", "Band"), "wide-only")
    heads = [el("th", name, scope="col") for name in names]
    heads += [el("th", name, scope="col", class_=look) for name, look in looks.items()]
    return [*heads, el("th", "State", scope="col")]


def _phase_row(rings: Sequence[Sequence[Sample]], *, source: bool, rank: bool = False) -> Html:
    """A phase of several ranks, in their newest runs: last sample and trend are those of the slowest now."""
    slowest = max(rings, key=lambda ring: (ring[-1].in_band is False, ring[-1].value_s))
    last, values = slowest[-1], [sample.value_s for ring in rings for sample in newest_run(ring)]
    cuts = quantiles(values, n=20, method="inclusive") if len(values) > 1 else values * 19
    cells = [el("th", phase_words(last.phase), scope="row")]
    cells += [el("td", last.stream)] if source else []
    cells += [el("td", last.rank)] if rank else []
    cells += [
        el("td", milliseconds(last.value_s), class_="n strong"),
        el("td", milliseconds(median(values)), class_="n"),
        el("td", f"{cuts[0] * 1000:.2f} to {cuts[-1] * 1000:.2f}", class_="n wide-only"),
        el("td", _share(last.share), class_="wide-only"),
        el("td", spark(slowest), class_="wide-only"),
        el("td", band_of(last.band) if last.band else UNKNOWN, class_="wide-only"),
        el("td", _verdict(rings)),
    ]
    return el("tr", cells)


def _verdict(rings: Sequence[Sequence[Sample]]) -> Html:
    judged = [ring[-1].in_band for ring in rings if ring[-1].in_band is not None]
    if not judged:
        return el("span", "no band", class_="quiet")
    inside = sum(judged)
    well = inside == len(judged)
    of_all = f"{inside if well else len(judged) - inside}/{len(judged)} " if len(rings) > 1 else ""
    return el(
        "span", of_all + ("in band" if well else "outside"), class_=f"badge {'good' if well else 'bad'}"
    )


def _share(share: float | None) -> Child:
    """A bar and its figure."""
    if share is None:
        return UNKNOWN
    width = round(60 * min(1.0, max(0.0, share)), 1)
    bar = el(
        "svg",
        el("rect", width=60, height=8, rx=4, class_="bar-all"),
        el("rect", width=width, height=8, rx=4, class_="bar"),
        viewBox="0 0 60 8",
        class_="share",
        aria_hidden="true",
    )
    return [bar, f" {share:.0%}"]


def _source_row(name: str, source: StreamMemory) -> Html:
    lag = format_bytes(source.lag_bytes)
    if source.lag_s >= 1:
        lag += f", {source.lag_s:.0f} s"
    read: list[Child] = [format_bytes(source.read_bytes)]
    if source.lost_bytes:
        read.append(el("span", f"{format_bytes(source.lost_bytes)} lost", class_="badge bad"))
    malformed = source.lines["malformed"]
    look = "behind" if source.lag_s >= 30 else None
    return el(
        "tr",
        el("th", name, scope="row"),
        el("td", lag, class_=f"n {look or ''}"),
        el("td", read, class_="n"),
        el("td", f"{source.lines['matched']:,}", class_="n wide-only"),
        el("td", f"{source.lines['ignored']:,}", class_="n wide-only"),
        el("td", el("span", f"{malformed:,}", class_="badge warn") if malformed else "0", class_="n"),
    )


def table(name: str, head: Iterable[Child], rows: Iterable[Child]) -> Html:
    """A table that scrolls sideways on its own where the screen is narrow."""
    return el(
        "div",
        el("table", el("thead", el("tr", head)), el("tbody", rows)),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=name,
    )


def more(count: int, shown: int) -> Html | None:
    """What is said where a list is cut."""
    return (
        el("p", f"and {count - shown} more; see the JSON interface.", class_="quiet")
        if count > shown
        else None
    )
