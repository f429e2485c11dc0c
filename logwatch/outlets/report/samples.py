"""Level 3: every sample of a replay with what its band said of it, for the outlets that write samples.

Judgements follow their cycle, so a cycle is handed on when the next item shows that they have all come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from logwatch.model import Cycle, Item, Judgement, Read, RunStarted, Signal

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Sample:
    """One cycle of one rank and the band's judgements of its phases."""

    cycle: Cycle
    judged: dict[str, Judgement] = field(default_factory=dict)

    def in_band(self, phase: str) -> bool | None:
        """Whether the band holds; None where no band applies."""
        judgement = self.judged.get(phase)
        return None if judgement is None else judgement.signal is Signal.IN_BAND


class TakesSamples(Protocol):
    """Who wants samples."""

    def sample(self, sample: Sample) -> None:
        """Take one."""


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
