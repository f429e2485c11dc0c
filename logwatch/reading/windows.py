"""Level 2: cycle time inferred from SGLang's own `Decode batch` lines (used by `cycles.py`).

A decode line covers the window since the rank's decode line before it. In a steady window a cycle takes
`tokens_per_cycle * running_requests / gen_throughput` seconds (one token a cycle without speculation). Left
out are windows

- with a prefill line of any rank in it (data-parallel ranks step together), or at their beginning;
- whose number of requests changed, or whose tokens fell: one request went and another came;
- whose clock gap does not fit the passes they should cover (lines are missing, or the server idled);
- three times as slow as the window before, once: idling without a prefill line looks like that;
- that are a log's first and half as slow again as the rank's next one: nothing says what was before the log;
- of ranks that repeat another rank's batch: one rank for each data-parallel rank counts.

How many tokens a cycle gave is a mean over the window's cycles, whatever came between them: it is told of the windows
that are left out too, but for the last kind. A busy server has few others.

SGLang's `accept rate` is not used: what it means changed in 0.5.6 and in 0.5.11.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logwatch.model import seconds_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from logwatch.model import Record, Value

_MOST_RANKS = 2048  # a hostile log may name any number
_USUAL_PASSES = 40  # SGLang's own decode_log_interval
_MOST_PASSES = 100_000
_CLOCK_S = 1.5  # SGLang's clock has whole seconds; each end of a gap may be off by one
_GAP_TOLERANCE = 0.35
_IDLE_RATIO = 3.0
_GAP_RATIO = 1.5
_SHORTEST_S = 20e-6
_LONGEST_S = 60.0


@dataclass(slots=True)
class RankWindow:
    """What is remembered of one rank's last decode line.

    Attributes:
        cycle_s: Of the last window that counted, with the same number of requests; None if none did.
        disturbed: Whether a prefill line came since.
        slow: Whether the last window was left out only for being slow.
        first: Whether that window was the first, with no line before it.
    """

    time: str | None = None
    iteration: float | None = None
    running_requests: float = 0.0
    tokens: float | None = None
    cycle_s: float | None = None
    disturbed: bool = False
    slow: bool = False
    first: bool = False


@dataclass(slots=True)
class WindowsMemory:
    """What is remembered of all ranks' windows.

    Attributes:
        ranks: By rank and process (`reports.key_of`).
        leaders: The rank that counts for each data-parallel rank.
        disturbed: Whether a prefill line came before any decode line.
    """

    ranks: dict[str, RankWindow] = field(default_factory=dict)
    leaders: dict[str, str] = field(default_factory=dict)
    disturbed: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """What a decode line says of the window that it ends.

    Attributes:
        cycle_s: Seconds per cycle; None where the window was not steady.
        cycles: Cycles that it covers.
        tokens_per_cycle: 1.0 without speculation.
        first: Whether the log holds no line before it: then the rank's next window may disprove it.
        disproved_s: Cycle time of the rank's first window, if this one shows that it covered a gap.
    """

    cycle_s: float | None
    cycles: int
    tokens_per_cycle: float
    first: bool = False
    disproved_s: float | None = None


def number(fields: Mapping[str, Value], name: str) -> float | None:
    """A numeric field, or None."""
    value = fields.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def group_of(rank: str) -> str:
    """The data-parallel rank that a rank belongs to; empty without data parallelism."""
    return next((tag for tag in rank.split() if tag.startswith("DP")), "")


class Windows:
    """Infers cycle times from decode lines.

    Args:
        memory: Is read and written; the caller keeps it, one for each run.
        interval: `decode_log_interval` of the server's settings, or None.
        speculates: Whether the settings name a speculative algorithm: then a decode line without
            `accept len` says nothing.
    """

    def __init__(self, memory: WindowsMemory, interval: int | None, *, speculates: bool) -> None:
        self._memory = memory
        self._interval = interval
        self._speculates = speculates

    def prefill(self) -> None:
        """A prefill line of any rank."""
        self._memory.disturbed = True
        for window in self._memory.ranks.values():
            window.disturbed = True

    def unsteady(self, record: Record) -> Window | None:
        """What a decode line says whose window does not count: how many tokens a cycle gave, if any was counted."""
        tokens_per_cycle = number(record.fields, "tokens_per_cycle")
        rank = record.rank or ""
        if tokens_per_cycle is None or tokens_per_cycle < 1 or not number(record.fields, "running_requests"):
            return None
        if self._memory.leaders.get(group_of(rank)) != rank:
            return None
        return Window(None, self._interval or _USUAL_PASSES, tokens_per_cycle)

    def decode(self, key: str, record: Record) -> Window | None:
        """A decode line of a rank, `key`; its window if that was steady."""
        fields, memory, rank = record.fields, self._memory, record.rank or ""
        running = number(fields, "running_requests")
        if running is None or memory.leaders.setdefault(group_of(rank), rank) != rank:
            return None
        before = memory.ranks.pop(key, None)
        now = RankWindow(record.time, number(fields, "iteration"), running, number(fields, "tokens") or None)
        memory.ranks[key] = now
        if len(memory.ranks) > _MOST_RANKS:
            del memory.ranks[next(iter(memory.ranks))]
        if len(memory.leaders) > _MOST_RANKS:
            del memory.leaders[next(iter(memory.leaders))]
        if before and before.running_requests == running:
            now.cycle_s = before.cycle_s
        if memory.disturbed if before is None else before.disturbed:
            return None
        tokens_per_cycle = number(fields, "tokens_per_cycle")
        if tokens_per_cycle is None and not self._speculates:
            tokens_per_cycle = 1.0
        throughput = number(fields, "generation_tokens_per_second")
        if not throughput or not tokens_per_cycle:
            return None
        window = self._window(before, now, tokens_per_cycle * running / throughput, tokens_per_cycle)
        if window:
            now.cycle_s = window.cycle_s
        return window

    def _window(
        self, before: RankWindow | None, now: RankWindow, cycle_s: float, tokens_per_cycle: float
    ) -> Window | None:
        """The window between two decode lines of a rank, if it was steady."""
        if not _SHORTEST_S <= cycle_s <= _LONGEST_S:
            return None
        passes, disproved_s = self._interval, None
        now.first = before is None
        if before:
            passes = _passes_counted(before, now) or passes
            if tokens_per_cycle == 1:
                passes = passes or _passes_grown(before, now)
            if not _is_steady(before, now, cycle_s, passes):
                return None
            now.slow = now.cycle_s is not None and cycle_s > _IDLE_RATIO * now.cycle_s
            if now.slow and not before.slow:
                return None
            if before.first and before.cycle_s is not None and before.cycle_s > _GAP_RATIO * cycle_s:
                disproved_s = before.cycle_s
        return Window(cycle_s, passes or _USUAL_PASSES, tokens_per_cycle, now.first, disproved_s)


def _passes_counted(before: RankWindow, now: RankWindow) -> int | None:
    """Passes between two lines by SGLang's own counter of them."""
    if now.iteration is None or before.iteration is None:
        return None
    counted = now.iteration - before.iteration
    return int(counted) if 0 < counted <= _MOST_PASSES else None


def _passes_grown(before: RankWindow, now: RankWindow) -> int | None:
    """Passes between two lines by the growth of the tokens, which drafts in whole pages would falsify."""
    if now.tokens is None or before.tokens is None or not now.running_requests:
        return None
    grown = (now.tokens - before.tokens) / now.running_requests
    return round(grown) if 1 <= grown <= _MOST_PASSES else None


def _is_steady(before: RankWindow, now: RankWindow, cycle_s: float, passes: int | None) -> bool:
    """Whether the same requests ran all through. Where `passes` is guessed, only too long a gap is a sign."""
    if now.running_requests != before.running_requests:
        return False
    if now.tokens is not None and before.tokens is not None and now.tokens < before.tokens:
        return False
    begin, end = seconds_of(before.time), seconds_of(now.time)
    if begin is None or end is None:
        return True
    if end - begin < -_CLOCK_S:  # newest line first, or the clock was set
        return False
    expected = cycle_s * (passes or _USUAL_PASSES)
    excess = end - begin - expected
    tolerance = max(_CLOCK_S, _GAP_TOLERANCE * expected)
    return excess <= tolerance and (passes is None or excess >= -tolerance)
