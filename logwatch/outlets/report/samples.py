"""Level 3: every sample of a replay with what its band said of it, for the outlets that write samples.

Judgements follow their cycle, so a cycle is handed on when the next item shows that they have all come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from logwatch.model import Cycle, Item, Judgement, Read, RunStarted, Signal, Sink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from logwatch.columns import CycleColumns

SIDES = {-1: Signal.BELOW, 0: Signal.IN_BAND, 1: Signal.ABOVE}


@dataclass(slots=True)
class Sample:
    """One cycle of one rank and the band's judgements of its phases."""

    cycle: Cycle
    judged: dict[str, Judgement] = field(default_factory=dict)

    def in_band(self, phase: str) -> bool | None:
        """Whether the band holds; None where no band applies."""
        judgement = self.judged.get(phase)
        return None if judgement is None else judgement.signal is Signal.IN_BAND


class ReplaySink(Sink, Protocol):
    """Who also takes cycles as columns, in their place between the items."""

    def take_many(self, cycles: CycleColumns) -> None:
        """Take many cycles of one rank, with what their bands said: the same as one by one."""


class Decodes(Protocol):
    """Decode lines of one rank that came without a record each."""

    @property
    def rank(self) -> str | None:
        """As in `Frame.rank`."""

    def times(self) -> Sequence[str | None]:
        """When each was written."""

    def figures(self, name: str) -> Sequence[float | None]:
        """What each says of one field."""


class Samples:
    """Puts cycles and their judgements together: feed it items, it gives whole samples."""

    def __init__(self) -> None:
        self._open: Sample | None = None

    def feed(self, item: Item) -> Iterator[Sample]:
        """Take one item; at most one sample comes out."""
        if isinstance(item, Judgement):
            if self._open is not None and item.cycle is self._open.cycle and item.chart == "band":
                self._open.judged[item.phase] = item
        elif isinstance(item, Cycle):
            yield from self.flush()
            self._open = Sample(item)
        elif isinstance(item, RunStarted | Read):
            yield from self.flush()

    def flush(self) -> Iterator[Sample]:
        """Nothing more comes for the sample that is open."""
        if self._open is not None:
            sample, self._open = self._open, None
            yield sample


def samples_of(cycles: CycleColumns) -> Iterator[Sample]:
    """The samples that columns stand for, one by one."""
    for at in range(len(cycles)):
        cycle = cycles.cycle(at)
        by_phase = {
            phase: Judgement(
                cycle,
                phase,
                value := cycle.phases_s[phase],
                "band",
                value,
                judged.limits(at),
                SIDES[judged.sides[at].item()],
            )
            for phase, judged in cycles.judged.items()
        }
        yield Sample(cycle, by_phase)


def utc_seconds(time: str | None) -> float | None:
    """True seconds since the epoch of a log's time, or None where it has no date.

    Servers write their local time without a zone: that is taken to be this machine's (`TZ` sets another).
    """
    if time is None or len(time) < 10 or time[4] != "-":
        return None
    try:
        return datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def all_utc_seconds(times: Sequence[str | None]) -> list[float | None]:
    """The same of many times, of which many are alike."""
    known = {time: utc_seconds(time) for time in set(times)}
    return [known[time] for time in times]
