"""Level 2: log entries that containers and journals write as JSON objects (used by `framing.py`)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

_MESSAGE_KEYS = ("log", "MESSAGE", "message", "msg", "textPayload", "line")
_STREAM_KEYS = ("stream", "_TRANSPORT")
_TIME_KEYS = ("time", "timestamp", "@timestamp", "ts")
_MICROSECOND_KEYS = ("_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DOCKER_CUT_BYTES = 16_384
_MOST_ENTRIES = 1000  # on one line
_JSON = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a Docker json-file, a log collector or `journalctl -o json`.

    Attributes:
        text: The message; may hold several lines.
        position: About where it begins in the line's text (escapes shift what comes later).
        stream: `stdout`, `stderr` or another name that tells apart what is cut and joined.
        time: ISO 8601, or None.
        cut: Docker cut the message here, and its rest is in a later entry.
    """

    text: str
    position: int
    stream: str
    time: str | None
    cut: bool


def may_hold_entries(text: str) -> bool:
    """Whether a text has any key that holds a message; takes time linear in its length."""
    return any(f'"{key}"' in text for key in _MESSAGE_KEYS)


def entries_of(text: str, position: int) -> list[Entry]:
    """Entries of the JSON objects from `position` on; empty if these are not log entries.

    Two objects may share a line. What is behind the last whole object is not looked at.
    """
    entries: list[Entry] = []
    while text.startswith("{", position) and len(entries) < _MOST_ENTRIES:
        try:
            found, end = _JSON.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        entry = _entry(found, text, position)
        if entry is None:
            break
        entries.append(entry)
        position = end
        while text[position : position + 1] in {" ", ","}:
            position += 1
    return entries


def _entry(found: dict[str, Any], text: str, position: int) -> Entry | None:
    key = next((key for key in _MESSAGE_KEYS if key in found), None)
    message = _message(found[key]) if key else None
    if key is None or message is None:
        return None
    begins = text.find(f'"{key}"', position) + len(key) + 2
    while text[begins : begins + 1] in {" ", ":"}:
        begins += 1
    stream = next((found[name] for name in _STREAM_KEYS if isinstance(found.get(name), str)), "")
    cut = key == "log" and not message.endswith("\n") and len(message.encode()) >= _DOCKER_CUT_BYTES
    return Entry(message, begins + 1, stream[:40], _time(found), cut)


def _message(value: object) -> str | None:
    """A message; the journal writes those that are not UTF-8 as lists of bytes."""
    if isinstance(value, str):
        # JSON can spell half a surrogate pair, which no file could take.
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8", "replace")
    if isinstance(value, list):
        try:
            return bytes(value).decode("utf-8", "replace")
        except (TypeError, ValueError):
            return None
    return None


def _time(found: dict[str, Any]) -> str | None:
    for key in _TIME_KEYS:
        value = found.get(key)
        if isinstance(value, str) and (match := _TIME.fullmatch(value)):
            return f"{match[1]}T{match[2]}"
    for key in _MICROSECOND_KEYS:
        value = found.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 18:
            return (_EPOCH + timedelta(microseconds=int(value))).isoformat()
    return None
