"""`timer.py`: device events. How long a phase took on the device, without ever waiting for it.

Two ways to take times, with one interface: `EventTimer` on an accelerator, `HostTimer` where the work is done
when the call returns (CPU). Nothing here synchronises: an event is read once it says that it is
complete.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

EVENTS: int = 128
"""Events of one process: about 32 cycles may wait for the device."""


class Timer(Protocol):
    """Marks instants on the device's time line; a mark is whatever `mark` returns."""

    def mark(self) -> Any | None:
        """Marks the instant at which the device gets here; None where no more can be kept."""

    def seconds(self, begin: Any, end: Any) -> float | None:
        """The time between two marks; None while the device has not reached the second."""

    def release(self, mark: Any) -> None:
        """Gives the mark back; it must not be used again."""

    def capturing(self) -> bool:
        """Whether the current stream records a graph: an event put there would become a part of it."""


class EventTimer:
    """Events on the current stream of an accelerator, taken from a small pool.

    Args:
        module: The device's torch module (`torch.cuda`, `torch.xpu`, ...), with `Event`.
        events: How many events may be in use at once.
    """

    def __init__(self, module: Any, events: int = EVENTS) -> None:
        self._module = module
        self._unmade = events
        self._free: list[Any] = []
        self._capturing: Callable[[], bool] = getattr(module, "is_current_stream_capturing", bool)

    def mark(self) -> Any | None:
        """Records an event; None where all of them wait for the device."""
        if self._free:
            event = self._free.pop()
        elif self._unmade:
            self._unmade -= 1
            event = self._module.Event(enable_timing=True)
        else:
            return None
        event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float | None:
        """Asks whether the second event is complete, and only then reads the pair."""
        return float(begin.elapsed_time(end)) / 1e3 if end.query() else None

    def release(self, mark: Any) -> None:
        """Puts the event back into the pool."""
        self._free.append(mark)

    def capturing(self) -> bool:
        """See `Timer`."""
        return bool(self._capturing())


class HostTimer:
    """The host's clock, for devices whose work is done when the call returns."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock

    def mark(self) -> float:
        """See `Timer`; never None."""
        return self._clock()

    def seconds(self, begin: float, end: float) -> float:
        """See `Timer`; never None."""
        return end - begin

    def release(self, mark: float) -> None:
        """Nothing to give back."""

    def capturing(self) -> bool:
        """A host has no graphs."""
        return False


def timer_for(device: object) -> Timer:
    """The timer for a worker's `device` attribute: `"cuda"`, `"cuda:1"`, a `torch.device`.

    Raises:
        RuntimeError: The device works on its own and has no events: host times would be those of launches.
    """
    import torch

    kind = str(device).split(":")[0]
    module = torch.get_device_module(kind)
    if hasattr(module, "Event") and kind != "cpu":
        return EventTimer(module)
    if kind == "cpu":
        return HostTimer()
    raise RuntimeError(f"torch offers no events on device {kind!r}")
