"""Level 2: cycles judged per phase and conditions.

Every item passes through unchanged and in order; a cycle is followed by its judgements, phase by phase.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logwatch.judging.bands import DEFAULT_BAND, Band, band_for
from logwatch.model import Cycle, Item, Judgement, Limits, Signal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass
class JudgementsMemory:
    """What `Judgements` remembers."""


class Judgements:
    """Judges each phase of each cycle by the band that holds under its conditions.

    Args:
        bands: What the user calls tuned; a phase without a band is not judged by bands.
    """

    def __init__(self, bands: Sequence[Band] = (DEFAULT_BAND,)) -> None:
        self.bands = tuple(bands)
        self.memory = JudgementsMemory()

    def feed(self, item: Item) -> Iterator[Item]:
        """Pass the item on and, after a cycle, its judgements."""
        yield item
        if isinstance(item, Cycle):
            yield from self._by_bands(item)

    def finish(self) -> Iterator[Item]:
        """Nothing is held back."""
        return iter(())

    def _by_bands(self, cycle: Cycle) -> Iterator[Judgement]:
        for phase, value in cycle.phases_s.items():
            band = band_for(self.bands, phase, cycle.conditions)
            if band is not None:
                limits = band.limits(cycle.conditions)
                yield Judgement(cycle, phase, value, "band", value, limits, side_of(value, limits))


def side_of(value: float, limits: Limits) -> Signal:
    """On which side of the limits a value lies; the limits themselves are inside."""
    if value > limits.high:
        return Signal.ABOVE
    return Signal.BELOW if value < limits.low else Signal.IN_BAND
