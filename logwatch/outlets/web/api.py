"""Level 3: the JSON interface: its documents and its questions.

Documents carry a `schema`; keys are fixed, more may be added. Times are as the log wrote them, the cost of a
cycle is in milliseconds (`_ms`). A question that cannot be understood raises `BadQueryError`, which says why.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean, median, quantiles
from typing import Any, Protocol

from logwatch import __version__
from logwatch.model import Change, Incident, Limits, Moment
from logwatch.outlets.metrics_books import instant
from logwatch.outlets.metrics_families import Facts
from logwatch.outlets.metrics_memory import RankMemory, StreamMemory
from logwatch.outlets.web.board import MAX_PAST, Board, Event, Run, Sample, View, newest_run
from logwatch.outlets.web.sentence import is_timed, summarize, troubles_of_logwatch
from logwatch.units import parse_duration

DEFAULT_LIMIT = 1000
MAX_LIMIT = 10_000
MAX_VALUE = 200


class BadQueryError(Exception):
    """A question of the JSON interface that cannot be answered; its text says why."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for. None: all.

    Attributes:
        since_s, until_s: Unix seconds, both included, on the log's own clock.
        limit: At most so many, the newest.
        state: Of incidents: `open`, `resolved` or None.
    """

    stream: str | None = None
    rank: str | None = None
    phase: str | None = None
    kind: str | None = None
    state: str | None = None
    since_s: float = -math.inf
    until_s: float = math.inf
    limit: int = DEFAULT_LIMIT


class History(Protocol):
    """Where older samples and incidents are found: the state file."""

    def samples(self, query: Query) -> Sequence[Sample]:
        """Samples that match, oldest first, the newest `query.limit` of them."""

    def incidents(self, query: Query) -> Sequence[Incident]:
        """Incidents that match, as known now, oldest onset first, the newest `query.limit` of them."""


class Rings:
    """The history of those who have no other: what the board still holds."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def samples(self, query: Query) -> Sequence[Sample]:
        """Samples that match, in the order in which they were read."""
        rings = self._board.view().rings.values()
        found = [sample for ring in rings for sample in ring if _matches_sample(query, sample)]
        found.sort(key=lambda sample: (sample.read_s, sample.line))
        return found[-query.limit :]

    def incidents(self, query: Query) -> Sequence[Incident]:
        """Incidents that match, oldest first."""
        view = self._board.view()
        found = [
            each for each in (*reversed(view.past), *reversed(view.open)) if matches_incident(query, each)
        ]
        return found[-query.limit :]


def refill(board: Board, history: History) -> None:
    """Give a new process's board what its history knows; nothing where that cannot be read."""
    with contextlib.suppress(sqlite3.Error):
        board.restore(history.samples(Query(limit=MAX_LIMIT)), history.incidents(Query(limit=MAX_PAST)))


SAMPLE_FILTERS = ("stream", "rank", "phase", "since", "until", "limit")
INCIDENT_FILTERS = ("stream", "rank", "phase", "kind", "state", "since", "until", "limit")


def index_json() -> dict[str, Any]:
    """`logwatch.api/1`: what `/api/v1` says: what may be asked, and what is answered."""
    times = "ISO 8601, Unix seconds, or a length of time before now such as 15m"
    return {
        "schema": "logwatch.api/1",
        "endpoints": {
            "/api/v1/status": {
                "answers": "state, sentence, streams with run, ranks, phases and lag, open incidents",
                "parameters": [],
            },
            "/api/v1/samples": {
                "answers": "seconds per cycle of phases, one entry a report, oldest first",
                "parameters": SAMPLE_FILTERS,
            },
            "/api/v1/incidents": {
                "answers": "incidents with onset, levels, causes and evidence, oldest first",
                "parameters": INCIDENT_FILTERS,
            },
        },
        "parameters": {
            "stream": "name of the source",
            "rank": "tags as in the log (`TP0`); empty for logs without",
            "phase": "for example target_verify",
            "kind": "kind of incident, for example out_of_band",
            "state": "open or resolved",
            "since": f"{times}; on the log's own clock",
            "until": f"{times}; on the log's own clock",
            "limit": f"the newest so many, 1 to {MAX_LIMIT}; {DEFAULT_LIMIT} if not given",
        },
    }


def parse_query(given: Iterable[tuple[str, str]], known: Sequence[str], now_s: float) -> Query:
    """The question in a URL's parameters.

    Raises:
        BadQueryError: An unknown or repeated parameter, or a value that is not what the parameter wants.
    """
    values: dict[str, str] = {}
    for name, value in given:
        if name not in known:
            raise BadQueryError(f"unknown parameter {name[:MAX_VALUE]!r}; known here: {', '.join(known)}")
        if name in values:
            raise BadQueryError(f"parameter `{name}` is given twice")
        if len(value) > MAX_VALUE:
            raise BadQueryError(f"parameter `{name}` is longer than {MAX_VALUE} characters")
        values[name] = value
    state = values.get("state")
    if state not in {None, "open", "resolved"}:
        raise BadQueryError(f"`state` is {state!r}; it can be open or resolved")
    since_s = _time("since", values["since"], now_s) if "since" in values else -math.inf
    until_s = _time("until", values["until"], now_s) if "until" in values else math.inf
    if since_s > until_s:
        raise BadQueryError("`since` is later than `until`")
    return Query(
        stream=values.get("stream"),
        rank=values.get("rank"),
        phase=values.get("phase"),
        kind=values.get("kind"),
        state=state,
        since_s=since_s,
        until_s=until_s,
        limit=_limit(values.get("limit", str(DEFAULT_LIMIT))),
    )


def status_json(view: View, sources: Mapping[str, StreamMemory], facts: Facts) -> dict[str, Any]:
    """`logwatch.status/1`: what `/api/v1/status` says."""
    summary = summarize(view, len(sources))
    return {
        "schema": "logwatch.status/1",
        "version": __version__,
        "state": summary.state.value,
        "sentence": summary.sentence,
        "troubles": troubles_of_logwatch(facts, sources),
        "streams": [_stream_json(name, source, view) for name, source in sources.items()],
        "open_incidents": [incident_json(incident) for incident in view.open],
        "events": [_event_json(event) for event in view.events],
        "alerts_pending": facts.alerts_pending,
        "config_last_reload_successful": facts.reload_successful,
    }


def _event_json(event: Event) -> dict[str, Any]:
    notice = event.notice
    return {
        "time": datetime.fromtimestamp(event.at_s, UTC).isoformat(timespec="milliseconds"),
        "kind": notice.kind,
        "level": notice.level.value,
        "message": notice.message,
        "stream": notice.stream,
        "count": event.count,
    }


def samples_json(samples: Sequence[Sample], limit: int) -> dict[str, Any]:
    """`logwatch.samples/1`: what `/api/v1/samples` says, oldest first."""
    return {
        "schema": "logwatch.samples/1",
        "samples": [
            {
                "stream": sample.stream,
                "rank": sample.rank or None,
                "run": sample.run,
                "phase": sample.phase,
                "time": sample.time,
                "line": sample.line,
                "ms": _ms(sample.value_s),
                "cycles": sample.cycles,
                "share": sample.share,
                "batch_size": sample.batch_size,
                "graph": sample.graph,
                "in_band": sample.in_band,
            }
            for sample in samples
        ],
        "limit_reached": len(samples) >= limit,
    }


def incidents_json(incidents: Sequence[Incident], limit: int) -> dict[str, Any]:
    """`logwatch.incidents/1`: what `/api/v1/incidents` says, oldest first."""
    return {
        "schema": "logwatch.incidents/1",
        "incidents": [incident_json(incident) for incident in incidents],
        "limit_reached": len(incidents) >= limit,
    }


def incident_json(incident: Incident) -> dict[str, Any]:
    """One incident. `_ms` keys are null where the phase is no time; `before` and `after` have its unit."""
    timed = is_timed(incident.phase)
    return {
        "key": incident.key,
        "open": incident.change is not Change.RESOLVED,
        "kind": incident.kind,
        "phase": incident.phase,
        "direction": incident.direction,
        "severity": incident.severity,
        "stream": incident.stream,
        "rank": incident.rank,
        "run": incident.run,
        "onset": _moment_json(incident.onset),
        "noticed": _moment_json(incident.noticed),
        "resolved": None if incident.resolved is None else _moment_json(incident.resolved),
        "before": _finite(incident.before),
        "after": _finite(incident.after),
        "before_ms": _ms(incident.before) if timed else None,
        "after_ms": _ms(incident.after) if timed else None,
        "ratio": _finite(round(incident.ratio, 4)),
        "samples": incident.samples,
        "band": _band_json(incident.band) if timed else None,
        "causes": [
            {"cause": each.cause, "evidence": each.evidence, "score": round(each.score, 4)}
            for each in incident.causes
        ],
        "detail": incident.detail,
    }


def matches_incident(query: Query, incident: Incident) -> bool:
    """Whether an incident is asked for; by time, if any of it lies within."""
    begin_s = instant(incident.onset.time, math.inf)
    end_s = instant(incident.resolved.time, math.inf) if incident.resolved else math.inf
    state = "resolved" if incident.change is Change.RESOLVED else "open"
    timeless = incident.onset.time is None
    return (
        query.stream in {None, incident.stream}
        and query.rank in {None, incident.rank or ""}
        and query.phase in {None, incident.phase}
        and query.kind in {None, incident.kind}
        and query.state in {None, state}
        and (timeless or (begin_s <= query.until_s and end_s >= query.since_s))
    )


def _matches_sample(query: Query, sample: Sample) -> bool:
    return (
        query.stream in {None, sample.stream}
        and query.rank in {None, sample.rank}
        and query.phase in {None, sample.phase}
        and query.since_s <= instant(sample.time, sample.read_s) <= query.until_s
    )


def _stream_json(name: str, source: StreamMemory, view: View) -> dict[str, Any]:
    ranks = list(source.ranks)
    ranks += [rank for stream, rank, _ in view.rings if stream == name and rank not in source.ranks]
    run = view.runs.get(name)
    return {
        "stream": name,
        "lag_bytes": source.lag_bytes,
        "lag_seconds": source.lag_s,
        "read_bytes": source.read_bytes,
        "lines": source.lines,
        "rotations": source.rotations,
        "truncations": sum(source.truncations.values()),
        "lost_bytes": source.lost_bytes,
        "run": None if run is None else _run_json(run),
        "ranks": [
            _rank_json(name, rank, source.ranks.get(rank) or RankMemory(), view)
            for rank in dict.fromkeys(ranks)
        ],
    }


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "number": run.number,
        "started": run.started,
        "settings": dict(run.settings),
        "changed": [{"name": name, "before": old, "after": new} for name, old, new in run.changed],
    }


def _rank_json(stream: str, rank: str, figures: RankMemory, view: View) -> dict[str, Any]:
    rings = [ring for key, ring in view.rings.items() if key[:2] == (stream, rank) and ring]
    return {
        "rank": rank or None,
        "time": rings[0][-1].time if rings else None,
        "tokens_per_cycle": _finite(figures.tokens_per_cycle),
        "estimated_tokens_per_second": _finite(figures.estimated_tokens_per_second),
        "breakeven_tokens_per_cycle": _finite(figures.breakeven_tokens_per_cycle),
        "speedup_ratio": _finite(figures.speedup_ratio),
        "running_requests": _finite(figures.running_requests),
        "generation_tokens_per_second": _finite(figures.generation_tokens_per_second),
        "phases": [phase_json(ring) for ring in rings],
    }


def phase_json(ring: Sequence[Sample]) -> dict[str, Any]:
    """A phase's newest sample, and the spread of those of its run in the ring."""
    last, values = ring[-1], [sample.value_s for sample in newest_run(ring)]
    cuts = quantiles(values, n=20, method="inclusive") if len(values) > 1 else values * 19
    return {
        "phase": last.phase,
        "last_ms": _ms(last.value_s),
        "samples": len(values),
        "median_ms": _ms(median(values)),
        "mean_ms": _ms(fmean(values)),
        "p05_ms": _ms(cuts[0]),
        "p95_ms": _ms(cuts[-1]),
        "share": last.share,
        "band": _band_json(last.band),
        "in_band": last.in_band,
    }


def _band_json(band: Limits | None) -> dict[str, float | None] | None:
    return None if band is None else {"low_ms": _ms(band.low), "high_ms": _ms(band.high)}


def _moment_json(moment: Moment) -> dict[str, Any]:
    return {"line": moment.line, "time": moment.time}


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else _finite(round(seconds * 1000, 6))


def _finite(value: float | None) -> float | None:
    """JSON knows no infinity."""
    return value if value is not None and math.isfinite(value) else None


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_LIMIT):
        raise BadQueryError(f"`limit` is {text!r}; it can be 1 to {MAX_LIMIT}")
    return int(text)


def _time(name: str, text: str, now_s: float) -> float:
    """Unix seconds of Unix seconds, ISO 8601, or a length of time before now."""
    try:
        if len(text) < 32 and text.isascii() and text.replace(".", "", 1).isdigit():
            return float(text)
        if text[:1].isdigit() and "-" not in text:
            return now_s - parse_duration(text)
        # A `+` of a zone that was not escaped in the URL has become a blank.
        return datetime.fromisoformat(
            text.replace(" ", "+") if text.count(" ") == 1 and "T" in text else text
        ).timestamp()
    except (ValueError, OverflowError, OSError):
        what = "ISO 8601, Unix seconds, or a length of time before now such as 15m"
        raise BadQueryError(f"`{name}` is {text!r}; it can be {what}") from None
