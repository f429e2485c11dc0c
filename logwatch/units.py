"""Level 0: durations as people write them (`19ms`, `30s`, `7d`) and as people read them."""

from __future__ import annotations

import math
import re

SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([a-zµ]+)")


def parse_duration(text: str) -> float:
    """Seconds of a duration with its unit, such as `"20.5ms"`.

    Raises:
        ValueError: Not a number and a known unit.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or match[2] not in SECONDS:
        raise ValueError(f"{text!r} is not a duration; write a number and a unit, such as 19ms, 30s or 7d")
    # Divide where the unit is a fraction: 20.5 / 1000 is the float 0.0205, 20.5 * 1e-3 may not be.
    factor = SECONDS[match[2]]
    return float(match[1]) / round(1 / factor) if factor < 1 else float(match[1]) * factor


def milliseconds(seconds: float) -> str:
    """Milliseconds with the two decimals that the servers' reports have: `"19.15 ms"`."""
    return f"{seconds * 1000:.2f} ms"


def format_duration(seconds: float) -> str:
    """Duration that `parse_duration` reads back exactly, in the largest unit that stays short: `"20.5ms"`."""
    if seconds == 0:
        return "0s"
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{seconds!r} is not a duration")
    for unit in ("d", "h", "s", "ms"):
        count = seconds / SECONDS[unit]
        if count >= 1 and float(f"{count:.9g}") == count and len(f"{count:.9g}") <= 6:
            return f"{count:.9g}{unit}"
    return f"{seconds * 1000:.9g}ms" if seconds >= 1e-6 else f"{seconds * 1e9:.9g}ns"


def format_bytes(count: float) -> str:
    """Bytes for people: `"1.2 GB"` (powers of 1000)."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
