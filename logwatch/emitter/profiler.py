"""`profiler.py`: spans to cycles, cycles to reports.

A cycle is draft, verify, extend, once each. Draft opens one; so does a verify that finds none open, or one
that has its verify already (no drafting at high load). The next one closes it: the older worker leaves the
extend out when all its requests end, and with pipeline parallelism the next draft comes at the tail of the
pass. A cycle without a verify, of an idle batch, with an error or without events left is dropped whole:
means stay true.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from logwatch.emitter.lines import Report
from logwatch.emitter.targets import DRAFT, EXTEND, VERIFY
from logwatch.emitter.timer import Timer

PHASES = (DRAFT, VERIFY, EXTEND)

ADJACENT_S = 0.0005
"""A phase that is called so soon after the one before begins at its end mark: each mark costs the device
some microseconds, and what little the device does in between belongs to the cycle anyway."""


@dataclass(slots=True)
class Cycle:
    """One cycle under way: its marks on the device's time line, and what is known about it on the CPU."""

    marks: list[Any] = field(default_factory=list)
    spans: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    launches_s: dict[str, float] = field(default_factory=dict)
    ended_s: float = -math.inf
    batch_size: int = 0
    graph: bool | None = None
    dropped: bool = False


@dataclass(slots=True)
class Token:
    """What `begin` hands to `end`: the open span."""

    phase: str
    cycle: Cycle
    mark: Any
    began_s: float


@dataclass(slots=True)
class Window:
    """Sums over the cycles since the last report."""

    cycles: int = 0
    requests: int = 0
    graphs: int = 0
    graphs_known: int = 0
    phases_s: dict[str, float] = field(default_factory=dict)
    launches_s: dict[str, float] = field(default_factory=dict)
    verifies_s: list[float] = field(default_factory=list)


class Profiler:
    """Collects spans of one process and writes a report every so many cycles.

    Any thread may call; cycles are put together per thread. `begin` and `end` never wait for the device.

    Args:
        timer: Makes the timer for a worker's device, at the first span.
        write: Takes a finished report.
        every: Cycles a report.
        measured: The phases that are hooked; a cycle counts by its verify or, without that hook, its draft.
        clock: Seconds of the host's clock, for launch times.
    """

    def __init__(
        self,
        timer: Callable[[object], Timer],
        write: Callable[[Report], None],
        every: int,
        measured: Collection[str] = PHASES,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._make_timer = timer
        self._timer: Timer | None = None
        self._write = write
        self._every = every
        self._measured = frozenset(measured)
        self._counting = VERIFY if VERIFY in self._measured else DRAFT
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[int, Cycle] = {}
        self._inside: set[int] = set()
        self._waiting: deque[Cycle] = deque()
        self._window = Window()
        self._accepted = 0
        self._accept_samples = 0

    def begin(self, phase: str, device: object, batch_size: int) -> Token | None:
        """Opens a span; None where it is not to be timed (inside another one, or in graph capture)."""
        thread = threading.get_ident()
        with self._lock:
            timer = self._timer = self._timer or self._make_timer(device)
            if thread in self._inside or timer.capturing():
                return None
            cycle = self._cycle_for(phase, thread)
            if cycle is None:
                return None
            if phase == self._counting:
                cycle.batch_size = batch_size
                cycle.dropped |= not batch_size
            follows = bool(cycle.marks) and self._clock() - cycle.ended_s < ADJACENT_S
            mark = cycle.marks[-1] if follows else self._mark(cycle)
            self._inside.add(thread)
        return Token(phase, cycle, mark, self._clock())

    def end(self, token: Token, *, graph: bool | None = None, accepted: Sequence[int] = ()) -> None:
        """Closes a span.

        Args:
            token: From `begin`.
            graph: Of a verify: whether it replayed a CUDA graph.
            accepted: Of a verify that tells: accepted drafts per request.
        """
        now_s = self._clock()
        with self._lock:
            self._inside.discard(threading.get_ident())
            cycle = token.cycle
            cycle.launches_s[token.phase] = now_s - token.began_s
            cycle.spans[token.phase] = token.mark, self._mark(cycle)
            cycle.ended_s = now_s
            if token.phase == VERIFY:
                cycle.graph = graph
        if accepted:
            self.accepted(accepted)

    def abandon(self, token: Token) -> None:
        """The original raised: its cycle ends here and does not count."""
        thread = threading.get_ident()
        with self._lock:
            self._inside.discard(thread)
            self._open.pop(thread, None)
            self._release(token.cycle)

    def accepted(self, drafts: Sequence[int]) -> None:
        """Accepted drafts per request of one cycle, without the bonus token; a cycle late is early enough."""
        with self._lock:
            self._accepted += sum(drafts)
            self._accept_samples += len(drafts)

    def _mark(self, cycle: Cycle) -> Any | None:
        mark = self._timer.mark() if self._timer is not None else None
        if mark is None:
            cycle.dropped = True
        else:
            cycle.marks.append(mark)
        return mark

    def _cycle_for(self, phase: str, thread: int) -> Cycle | None:
        cycle = self._open.get(thread)
        if phase == EXTEND:
            follows = (
                cycle is not None and self._counting in cycle.launches_s and EXTEND not in cycle.launches_s
            )
            return cycle if follows else None
        if cycle is None or phase == DRAFT or phase in cycle.launches_s:
            if cycle is not None:
                self._close(cycle)
            cycle = self._open[thread] = Cycle()
        return cycle

    def _close(self, cycle: Cycle) -> None:
        if cycle.dropped or self._counting not in cycle.launches_s:
            self._release(cycle)
        else:
            self._waiting.append(cycle)
        self._collect()

    def _collect(self) -> None:
        while self._waiting:
            cycle = self._waiting[0]
            seconds = {}
            for phase, (begin, end) in reversed(cycle.spans.items()):  # the newest is the last to be complete
                took_s = self._timer.seconds(begin, end) if self._timer is not None else None
                if took_s is None:
                    return
                seconds[phase] = took_s
            self._waiting.popleft()
            self._release(cycle)
            self._add(cycle, seconds)

    def _release(self, cycle: Cycle) -> None:
        for mark in cycle.marks:
            if self._timer is not None:
                self._timer.release(mark)
        cycle.marks.clear()

    def _add(self, cycle: Cycle, seconds: dict[str, float]) -> None:
        window = self._window
        window.cycles += 1
        window.requests += cycle.batch_size
        if cycle.graph is not None:
            window.graphs_known += 1
            window.graphs += cycle.graph
        for sums, values in ((window.phases_s, seconds), (window.launches_s, cycle.launches_s)):
            for phase, value in values.items():
                sums[phase] = sums.get(phase, 0.0) + value
        if VERIFY in seconds:
            window.verifies_s.append(seconds[VERIFY])
        if window.cycles >= self._every:
            self._report()

    def _report(self) -> None:
        window, self._window = self._window, Window()
        accepted, samples = self._accepted, self._accept_samples
        self._accepted = self._accept_samples = 0
        self._write(
            Report(
                cycles=window.cycles,
                batch_size=window.requests / window.cycles,
                graph_share=window.graphs / window.graphs_known if window.graphs_known else None,
                phases_s={phase: total_s / window.cycles for phase, total_s in window.phases_s.items()},
                launches_s={phase: total_s / window.cycles for phase, total_s in window.launches_s.items()},
                verifies_s=window.verifies_s,
                accepted_drafts=accepted / samples if samples else None,
                whole=self._measured.issuperset(PHASES),
            )
        )
