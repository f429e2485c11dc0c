"""Level 0: durations as people write them (`19ms`, `30s`, `7d`) and as people read them."""

from __future__ import annotations

import math
import re

SMALL = {"ns": -9, "us": -6, "µs": -6, "ms": -3}
"""Power of ten of each unit below the second."""
LARGE = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([a-zµ]+)")
_WRITTEN = {"d": 86400.0, "h": 3600.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def parse_duration(text: str) -> float:
    """Seconds of a duration with its unit, such as `"20.5ms"`.

    Raises:
        ValueError: Not a number and a known unit.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is not None and match[2] in SMALL:
        return float(f"{match[1]}e{SMALL[match[2]]}")  # as text, so that 20.5ms is the float 0.0205
    if match is not None and match[2] in LARGE:
        return float(match[1]) * LARGE[match[2]]
    raise ValueError(f"{text!r} is not a duration; write a number and a unit, such as 19ms, 30s or 7d")


def milliseconds(seconds: float) -> str:
    """Milliseconds with the two decimals that the servers' reports have: `"19.15 ms"`."""
    return f"{seconds * 1000:.2f} ms"


def format_duration(seconds: float) -> str:
    """Duration that `parse_duration` reads back to nine digits, in the largest short unit: `"20.5ms"`.

    Raises:
        ValueError: Negative or not finite.
    """
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{seconds!r} is not a duration")
    counts = {unit: seconds / size for unit, size in _WRITTEN.items() if seconds >= size}
    for unit, count in counts.items():
        if round(count, 9) == round(count, 4) and count < 1e5:
            return f"{count:.9g}{unit}"
    largest = next(((unit, count) for unit, count in counts.items() if unit not in {"d", "h"}), ("s", 0.0))
    return f"{largest[1]:.9g}{largest[0]}"


def format_bytes(count: float) -> str:
    """Bytes for people: `"1.2 GB"` (powers of 1000)."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
