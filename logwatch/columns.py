"""Level 1: many cycles of one rank as columns: what bulk replay folds without an object a report.

A column is a numpy array with one entry a report, NaN where the log does not say. `CycleColumns.cycle` makes the
object that the columns stand for. Imports numpy: for replay, never on the watch path.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from logwatch.model import Conditions, Cycle, Limits, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from logwatch.model import Record

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(slots=True)
class DecodeColumns:
    """Decode lines of one rank, all with a graph, in the log's order.

    Attributes:
        rank: As in `Frame.rank`.
        lines: Line numbers.
        running_requests, tokens, tokens_per_cycle, token_usage: What they say.
    """

    rank: str | None
    lines: Ints
    running_requests: Ints
    tokens: Floats
    tokens_per_cycle: Floats
    token_usage: Floats

    def rest(self, first: int) -> DecodeColumns:
        """Those from `first` on."""
        cut = slice(first, None)
        return replace(
            self,
            lines=self.lines[cut],
            running_requests=self.running_requests[cut],
            tokens=self.tokens[cut],
            tokens_per_cycle=self.tokens_per_cycle[cut],
            token_usage=self.token_usage[cut],
        )


@dataclass(slots=True)
class Between:
    """What stands between reports.

    Attributes:
        decodes_before: How many of the decode lines come before each report.
        words_before: How many of a server's last words do, counted from the first of all; `words_over` of them are
            over already.
        word: Makes the record of one.
    """

    decodes: DecodeColumns
    decodes_before: Ints
    words_before: Ints
    word: Callable[[int], Record]
    words_over: int = 0

    def rest(self, first: int) -> Between:
        """What stands between the reports from `first` on."""
        over = int(self.decodes_before[first - 1])
        return Between(
            self.decodes.rest(over),
            self.decodes_before[first:] - over,
            self.words_before[first:],
            self.word,
            int(self.words_before[first - 1]),
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """What bands say of one phase, cycle by cycle.

    Attributes:
        low, centre, high: The limits.
        sides: 1 above, -1 below, 0 inside.
    """

    low: Floats
    centre: Floats
    high: Floats
    sides: Ints

    def part(self, begin: int, end: int) -> Judged:
        """Of some cycles, as views."""
        cut = slice(begin, end)
        return Judged(self.low[cut], self.centre[cut], self.high[cut], self.sides[cut])

    def limits(self, at: int) -> Limits:
        """Of one cycle."""
        return Limits(self.low[at].item(), self.centre[at].item(), self.high[at].item())

    @property
    def moves(self) -> bool:
        """Whether not all limits are the same."""
        return any(bool((edge != edge[0]).any()) for edge in (self.low, self.centre, self.high))


@dataclass(slots=True)
class CycleColumns:
    """Consecutive whole cycles of one rank in one run that no band or chart may ignore.

    Attributes:
        lines, offsets, times: Of the places; `path` is of all.
        cycles: How many cycles each report covers.
        phases_s: By phase; `shares` only of those that have any.
        tokens_per_cycle, batch_size, context_tokens: All known, or None where all are unknown.
        graph: 1, 0, or -1 where unknown.
        fixed: The conditions that are the same in all.
        judged: By phase what its bands say.
    """

    stream: str
    rank: str | None
    run: int
    path: str
    lines: Ints
    offsets: Ints
    times: Sequence[str | None]
    cycles: Ints
    phases_s: dict[str, Floats]
    shares: dict[str, Floats]
    tokens_per_cycle: Floats | None
    batch_size: Floats | None
    context_tokens: Floats | None
    graph: Ints
    fixed: Conditions
    judged: dict[str, Judged] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many cycles."""
        return len(self.lines)

    def part(self, begin: int, end: int) -> CycleColumns:
        """Some of them, as views."""
        cut = slice(begin, end)
        return replace(
            self,
            lines=self.lines[cut],
            offsets=self.offsets[cut],
            times=self.times[cut],
            cycles=self.cycles[cut],
            phases_s={name: values[cut] for name, values in self.phases_s.items()},
            shares={name: values[cut] for name, values in self.shares.items()},
            tokens_per_cycle=_cut(self.tokens_per_cycle, cut),
            batch_size=_cut(self.batch_size, cut),
            context_tokens=_cut(self.context_tokens, cut),
            graph=self.graph[cut],
            judged={name: each.part(begin, end) for name, each in self.judged.items()},
        )

    def cycle(self, at: int) -> Cycle:
        """One of them as an object."""
        shares = {name: values[at].item() for name, values in self.shares.items()}
        graph = self.graph[at].item()
        return Cycle(
            Place(self.path, self.offsets[at].item(), self.lines[at].item()),
            self.stream,
            self.rank,
            self.run,
            self.times[at],
            self.cycles[at].item(),
            _at(self.tokens_per_cycle, at),
            {name: values[at].item() for name, values in self.phases_s.items()},
            {name: share for name, share in shares.items() if share == share},  # noqa: PLR0124 - not NaN
            self.conditions(_at(self.batch_size, at), _at(self.context_tokens, at), graph),
        )

    def conditions(self, batch_size: float | None, context_tokens: float | None, graph: int) -> Conditions:
        """The conditions of a cycle of which these are not fixed."""
        fixed = self.fixed
        return Conditions(
            batch_size,
            context_tokens,
            fixed.num_steps,
            fixed.topk,
            fixed.draft_tokens,
            None if graph < 0 else bool(graph),
            fixed.version,
        )


def first_true(found: Bools) -> int:
    """Index of the first True, the length where there is none."""
    return int(found.argmax()) if found.any() else len(found)


def summed(start: float, values: Floats) -> Floats:
    """Sums as a loop of additions gives them, to the last digit: `start`, and after each value."""
    whole = np.empty(len(values) + 1)
    whole[0] = start
    whole[1:] = values
    return np.add.accumulate(whole)


def _cut(values: Floats | None, cut: slice) -> Floats | None:
    return None if values is None else values[cut]


def _at(values: Floats | None, at: int) -> float | None:
    return None if values is None else values[at].item()
