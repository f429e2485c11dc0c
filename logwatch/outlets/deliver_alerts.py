"""Level 3: incidents to alerts: one alert for one trouble, however many ranks see it.

Pure: the time is an argument. An alert's labels never change while it is open; whatever has a value in it
(levels, ranks, causes) stands in the annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from logwatch.model import Cause, Change, Incident
from logwatch.outlets import deliver_text as text

SCHEMA = "logwatch.alert/1"

JOINED = "joined"
"""The change of an alert of which a rank says something, but nothing new; `model.Change` has the others."""

NEWS = 1.1
"""An open alert is worse when its worst rank is by this factor further out than was told."""


@dataclass(frozen=True, slots=True)
class Links:
    """Where a message points to, and who speaks.

    Attributes:
        instance: This daemon among others, `host:port` as Prometheus scrapes it.
        status_url: The status page.
        runbook_url: Folder in which `<alertname>.md` lies, or None.
        dashboard_url: The dashboard, or None.
    """

    instance: str
    status_url: str
    runbook_url: str | None = None
    dashboard_url: str | None = None


@dataclass
class OpenAlert:
    """One open alert.

    Attributes:
        key: Unique for this trouble: the key of the incident that opened it.
        severity: That of the first incident; it stays, because it is a label.
        started_s: Onset, seconds since the epoch; it stays.
        window_ends_s: Until when what ranks have to say still enters the same message.
        told: Deviation from what is normal that was told last, as a factor above 1.
        incidents: Newest transition by rank ("" where the log has none) and kind.
    """

    key: str
    name: str
    severity: str
    started_s: float
    window_ends_s: float
    told: float = 1.0
    incidents: dict[str, Incident] = field(default_factory=dict)


@dataclass
class Book:
    """What is remembered of alerts: the open ones, by stream, phase and name."""

    alerts: dict[str, OpenAlert] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Update:
    """What one transition means for those who are told.

    Attributes:
        body: The alert as documented in `alert_body`.
        not_before_s: Earliest time to send it: the end of the window in which other ranks may join.
    """

    key: str
    change: str
    body: dict[str, Any]
    not_before_s: float


def instant_of(time: str | None, now_s: float) -> float:
    """Seconds since the epoch of a log's time, at most `now_s`; `now_s` where the time is not known.

    A time without a zone is the host's local time, as every engine writes it.
    """
    if time is None or len(time) < 10 or time[4] != "-":
        return now_s
    try:
        return min(datetime.fromisoformat(time).timestamp(), now_s)
    except (ValueError, OverflowError, OSError):
        return now_s


def rfc3339(instant_s: float) -> str:
    """An instant as Alertmanager and PagerDuty want it: UTC, milliseconds, `Z`."""
    return datetime.fromtimestamp(instant_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def enter(book: Book, incident: Incident, links: Links, now_s: float, window_s: float) -> Update | None:
    """Enter one transition into the book; None where nobody needs to hear of it."""
    name = text.alert_name(incident)
    group = f"{incident.stream}/{incident.phase}/{name}"
    member = f"{incident.rank or ''}/{incident.kind}"
    alert = book.alerts.get(group)
    if incident.change is Change.RESOLVED:
        if alert is None or member not in alert.incidents:
            return None
        alert.incidents[member] = incident
        if any(other.change is not Change.RESOLVED for other in alert.incidents.values()):
            return None
        del book.alerts[group]
        return _update(alert, Change.RESOLVED, links, now_s)
    if alert is None:
        alert = book.alerts[group] = OpenAlert(
            key=incident.key,
            name=name,
            severity=incident.severity,
            started_s=instant_of(incident.onset.time, now_s),
            window_ends_s=now_s + (window_s if incident.rank else 0.0),
            incidents={member: incident},
        )
        alert.told = _deviation(alert)
        # An update of an incident whose opening this book has not seen (an older state file) opens it here.
        return _update(alert, Change.OPENED, links, now_s)
    cause = text.best_causes(alert.incidents.values())[:1]
    known = member in alert.incidents
    alert.incidents[member] = incident
    change = str(incident.change) if known else JOINED
    old_news = {
        Change.OPENED.value: True,  # a rank that is bad again, while others never were good
        Change.WORSENED.value: _deviation(alert) < NEWS * alert.told,
        Change.EXPLAINED.value: _same(cause, text.best_causes(alert.incidents.values())[:1]),
    }
    if old_news.get(change):
        change = JOINED
    if change in {Change.WORSENED, Change.EXPLAINED}:
        alert.told = _deviation(alert)
        if incident.rank and now_s > alert.window_ends_s:
            alert.window_ends_s = now_s + window_s
    return _update(alert, change, links, now_s)


def _deviation(alert: OpenAlert) -> float:
    """How far the worst rank is from what is normal, as a factor above 1."""
    return max(max(i.ratio, 1 / i.ratio) if i.ratio > 0 else 1.0 for i in alert.incidents.values())


def _same(one: Sequence[Cause], other: Sequence[Cause]) -> bool:
    return [cause.cause for cause in one] == [cause.cause for cause in other]


def _update(alert: OpenAlert, change: str, links: Links, now_s: float) -> Update:
    not_before_s = now_s if change == Change.RESOLVED else max(now_s, alert.window_ends_s)
    return Update(alert.key, str(change), alert_body(alert, change, links, now_s), not_before_s)


def alert_body(alert: OpenAlert, change: str, links: Links, now_s: float) -> dict[str, Any]:
    """The alert as a webhook gets it and a command reads it: the document `logwatch.alert/1`.

    Keys: `schema`; `key` (the same from opening to resolution); `change` (`opened`, `joined`, `worsened`,
    `explained`, `resolved`); `status` (`firing`, `resolved`); `labels` (identity: the same throughout);
    `annotations` (texts for people); `starts_at` (the onset), `ends_at` (null while it fires), `changed_at`;
    `links` (`status`, `runbook`, `dashboard`); `incident` (numbers for programs, in seconds or tokens).
    """
    firing = [i for i in alert.incidents.values() if i.change is not Change.RESOLVED]
    members = sorted(firing or alert.incidents.values(), key=lambda i: (-i.ratio, i.rank or ""))
    worst = members[0]
    resolved = not firing
    ended_s = (
        max(alert.started_s, *(instant_of(i.resolved.time if i.resolved else None, now_s) for i in members))
        if resolved
        else None
    )
    causes = text.best_causes(members)
    ranks = list(dict.fromkeys(i.rank for i in alert.incidents.values() if i.rank))
    runbook = f"{links.runbook_url}/{alert.name}.md" if links.runbook_url else None
    annotations = {
        "summary": text.summary(worst),
        "description": text.description(worst, len(ranks), resolved=resolved),
        "cause": text.cause_sentence(causes),
        "try": text.advice(causes, alert.name),
        "ranks": text.ranks(ranks),
        "status_url": links.status_url,
        "runbook_url": runbook or "",
        "dashboard_url": links.dashboard_url or "",
    }
    return {
        "schema": SCHEMA,
        "key": alert.key,
        "change": str(change),
        "status": "resolved" if resolved else "firing",
        "labels": {
            "alertname": alert.name,
            "severity": alert.severity,
            "instance": links.instance,
            "stream": text.clean(worst.stream, 100),
            "phase": text.clean(worst.phase, 100),
            "via": "logwatch",
        },
        "annotations": {name: value for name, value in annotations.items() if value},
        "starts_at": rfc3339(alert.started_s),
        "ends_at": None if ended_s is None else rfc3339(ended_s),
        "changed_at": rfc3339(now_s),
        "links": {"status": links.status_url, "runbook": runbook, "dashboard": links.dashboard_url},
        "incident": {
            "kind": worst.kind,
            "direction": worst.direction,
            "ranks": [text.clean(rank, 100) for rank in ranks],
            "run": worst.run,
            "onset": {"line": worst.onset.line, "time": worst.onset.time},
            "noticed": {"line": worst.noticed.line, "time": worst.noticed.time},
            "before": worst.before,
            "after": worst.after,
            "ratio": worst.ratio,
            "samples": worst.samples,
            "band": None if worst.band is None else {"low": worst.band.low, "high": worst.band.high},
            "causes": [
                {"cause": c.cause, "evidence": text.clean(c.evidence), "score": c.score} for c in causes
            ],
        },
    }
