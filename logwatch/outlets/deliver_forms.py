"""Level 3: the forms in which receivers want an alert. Pure: `alert_body`'s document in, their JSON out."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from logwatch.outlets.deliver_alerts import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping

Template = Literal["logwatch", "slack", "pagerduty"]

FIRING_FOR_S = 240.0
"""How long Alertmanager believes that an alert fires when it hears nothing more: four repetitions."""

_COLOURS = {"critical": "#c0392b", "warning": "#d68910", "info": "#2e86c1"}
_RESOLVED = "#27823b"


def alertmanager_form(alert: Mapping[str, Any], now_s: float) -> list[dict[str, Any]]:
    """The body of `POST /api/v2/alerts`."""
    ends_at = alert["ends_at"] or rfc3339(now_s + FIRING_FOR_S)
    if alert["ends_at"] and _seconds(alert["ends_at"]) <= _seconds(alert["starts_at"]):
        ends_at = rfc3339(_seconds(alert["starts_at"]) + 0.001)  # an alert must end after it starts
    return [
        {
            "labels": alert["labels"],
            "annotations": alert["annotations"],
            "startsAt": alert["starts_at"],
            "endsAt": ends_at,
            "generatorURL": alert["links"]["status"],
        }
    ]


def slack_form(alert: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a Slack incoming webhook. Words are plain text: no log can mention or link."""
    labels, notes = alert["labels"], alert["annotations"]
    firing = alert["status"] == "firing"
    title = f"{'Firing' if firing else 'Resolved'}: {notes['summary']}"
    lines = [notes["description"]]
    if firing:
        lines += [notes["cause"], f"Try: {notes['try']}"]
    lines.append(f"{labels['alertname']}, {labels['severity']}, {labels['stream']}")
    links = [
        f"<{url}|{name}>"
        for name, url in (
            ("Status page", alert["links"]["status"]),
            ("Runbook", alert["links"]["runbook"]),
            ("Dashboard", alert["links"]["dashboard"]),
        )
        if url
    ]
    colour = _COLOURS.get(labels["severity"], _COLOURS["warning"]) if firing else _RESOLVED
    blocks = [
        {"type": "header", "text": _plain(title, 150)},
        {"type": "section", "text": _plain("\n".join(lines), 2900)},
        {"type": "context", "elements": [{"type": "mrkdwn", "text": " · ".join(links)}]},
    ]
    return {"text": _escaped(title), "attachments": [{"color": colour, "blocks": blocks}]}


def pagerduty_form(alert: Mapping[str, Any], routing_key: str) -> dict[str, Any]:
    """The body of PagerDuty's Events API v2: one `dedup_key` from trigger to resolve."""
    labels, notes = alert["labels"], alert["annotations"]
    links = [
        {"href": url, "text": name}
        for name, url in (("Status page", alert["links"]["status"]), ("Runbook", alert["links"]["runbook"]))
        if url
    ]
    event = {
        "routing_key": routing_key,
        "event_action": "trigger" if alert["status"] == "firing" else "resolve",
        # The alert's key is as long as a stream's name allows; the service takes 255 characters.
        "dedup_key": hashlib.sha256(f"{labels['instance']} {alert['key']}".encode()).hexdigest(),
    }
    if alert["status"] != "firing":
        return event
    return event | {
        "client": "logwatch",
        "client_url": alert["links"]["status"],
        "links": links,
        "payload": {
            "summary": f"{notes['summary']} {notes['description']}"[:1024],
            "source": labels["instance"],
            "severity": labels["severity"] if labels["severity"] in _COLOURS else "warning",
            "timestamp": alert["starts_at"],
            "component": labels["stream"],
            "group": labels["phase"],
            "class": labels["alertname"],
            "custom_details": dict(notes) | {"incident": alert["incident"]},
        },
    }


def _plain(text: str, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": text[:limit], "emoji": False}


def _escaped(text: str) -> str:
    """Slack's three control characters, so that nothing becomes a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
