"""Level 3: OpenMetrics series while a log is read (used by `as_openmetrics.py`): a file each, and a bounded rest.

A series has one value an instant: samples of one instant are set `STEP_S` apart, and what lies before its newest
sample is not taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from logwatch.outlets.metrics_memory import label

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

STEP_S = 0.001
"""Between two samples that the log dates alike."""

BACK_S = 1.0
"""How far behind the newest sample a clock may be to count as the same moment."""

HELD_CHARS = 1 << 20
"""What one stream holds of samples before it writes them down."""

SCRAPED = {"job": "logwatch", "instance": "replay"}

PHASE, CYCLES, SPENT = "logwatch_phase_seconds", "logwatch_cycles_total", "logwatch_cycle_phase_seconds_total"
LOW, HIGH, INSIDE = "logwatch_band_low_seconds", "logwatch_band_high_seconds", "logwatch_phase_in_band"
"""Names of the samples that each phase has."""

TOKENS, RATE = "logwatch_tokens_per_cycle", "logwatch_estimated_tokens_per_second"
BREAKEVEN, SPEEDUP = "logwatch_breakeven_tokens_per_cycle", "logwatch_speculation_speedup_ratio"
"""Names of those that each rank has."""

Key: TypeAlias = tuple[str, str]
"""Name of the series' samples and its labels."""


class Moments:
    """When many series have a sample each; those of which the newest samples are as old share the work.

    Args:
        seconds: Since the epoch.
    """

    def __init__(self, seconds: list[float]) -> None:
        self.seconds = seconds
        self._known: dict[float | None, tuple[list[str], float] | None] = {}

    def after(self, last: float | None) -> tuple[list[str], float] | None:
        """These moments behind a series' newest sample, as text, and the last of them; None if one is too late."""
        if last not in self._known:
            self._known[last] = self._after(last)
        return self._known[last]

    def _after(self, last: float | None) -> tuple[list[str], float] | None:
        texts = []
        for second in self.seconds:
            now = placed(second, last)
            if now is None:
                return None
            texts.append(f"{now:.3f}")
            last = now
        assert last is not None  # there is a moment
        return texts, last


@dataclass(frozen=True, slots=True)
class Many:
    """Samples of one series, values as the format writes them; `total` is what a counter has reached with them."""

    key: Key
    moments: Moments
    values: Sequence[str]
    total: float | None = None


def labels_of(**labels: str) -> str:
    """Labels as the format writes them, with those that a scrape would have added: dashboards choose by them.

    >>> labels_of(stream='a"b', phase="x")
    '{job="logwatch",instance="replay",stream="a\\\\"b",phase="x"}'
    """
    pairs = (f'{name}="{_escaped(value)}"' for name, value in (SCRAPED | labels).items())
    return f"{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    return label(value).replace("\\", r"\\").replace('"', r"\"")


def placed(now: float, last: float | None) -> float | None:
    """Where a sample goes behind the newest one of its series; None if it is too late.

    >>> placed(5.0, None), placed(5.0, 5.0), placed(3.0, 5.0)
    (5.0, 5.001, None)
    """
    if last is None or now > last:
        return now
    return None if now < last - BACK_S else last + STEP_S


class Series:
    """The series of one stream in files of `folder`, named by what they are of and when they came first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts: dict[Key, Path] = {}
        self._held: dict[Key, list[str]] = {}
        self._held_chars = 0
        self._last: dict[Key, float] = {}
        self._totals: dict[Key, float] = {}

    def put(self, key: Key, now: float, value: float) -> bool:
        """One sample; False if it comes too late."""
        when = placed(now, self._last.get(key))
        if when is None:
            return False
        self._last[key] = when
        self._hold(key, f"{key[0]}{key[1]} {value!r} {when:.3f}\n")
        return True

    def put_many(self, many: Sequence[Many]) -> bool:
        """Samples of several series; False, and none is taken, if one comes too late."""
        if any(each.moments.after(self._last.get(each.key)) is None for each in many):
            return False
        for each in many:
            after = each.moments.after(self._last.get(each.key))
            assert after is not None
            texts, self._last[each.key] = after
            head = "".join(each.key)
            lines = [f"{head} {value} {when}\n" for value, when in zip(each.values, texts, strict=True)]
            self._hold(each.key, "".join(lines))
            if each.total is not None:
                self._totals[each.key] = each.total
        return True

    def total(self, key: Key, more: float = 0) -> float:
        """What a counter has reached, with so much more."""
        self._totals[key] = self._totals.get(key, 0) + more
        return self._totals[key]

    def _hold(self, key: Key, text: str) -> None:
        self._held.setdefault(key, []).append(text)
        self._held_chars += len(text)
        if self._held_chars > HELD_CHARS:
            self.write_down()

    def write_down(self) -> None:
        """Put what is held behind what its series' file has; no file stays open, for there may be thousands."""
        for key, lines in self._held.items():
            part = self._parts.get(key)
            if part is None:
                part = self._parts[key] = self._folder / f"{key[0]}.{len(self._parts):06}.om"
            with part.open("a", encoding="utf-8") as file:
                file.writelines(lines)
        self._held.clear()
        self._held_chars = 0
