"""`timer.py`: device events. How long a phase took on the device, without ever waiting for it.

Two ways to take the time of a span, with one interface: `EventTimer` on an accelerator, `HostTimer` where the
work is done when the call returns (CPU). Nothing here synchronises: an event is read once it says that it is
complete.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

PAIRS: int = 96
"""Event pairs of one process: 32 cycles of three phases may wait for the device."""


class Timer(Protocol):
    """Takes the time of spans; a span is whatever `start` returns."""

    def start(self) -> Any | None:
        """Begins a span now; None where no more can be kept."""

    def stop(self, span: Any) -> None:
        """Ends the span now."""

    def seconds(self, span: Any) -> float | None:
        """How long it took, in seconds; None while the device has not reached its end."""

    def release(self, span: Any) -> None:
        """Gives the span back; it must not be used again."""

    def capturing(self) -> bool:
        """Whether the current stream records a graph: an event put there would become a part of it."""


class EventTimer:
    """Event pairs on the current stream of an accelerator, taken from a small pool.

    Args:
        module: The device's torch module (`torch.cuda`, `torch.xpu`, ...), with `Event`.
        pairs: How many pairs may be in use at once.
    """

    def __init__(self, module: Any, pairs: int = PAIRS) -> None:
        self._module = module
        self._unmade = pairs
        self._free: list[tuple[Any, Any]] = []
        self._capturing: Callable[[], bool] = getattr(module, "is_current_stream_capturing", bool)

    def start(self) -> tuple[Any, Any] | None:
        """Records the first event of a pair; None where all pairs wait for the device."""
        if self._free:
            pair = self._free.pop()
        elif self._unmade:
            self._unmade -= 1
            pair = (self._module.Event(enable_timing=True), self._module.Event(enable_timing=True))
        else:
            return None
        pair[0].record()
        return pair

    def stop(self, span: tuple[Any, Any]) -> None:
        """Records the second event."""
        span[1].record()

    def seconds(self, span: tuple[Any, Any]) -> float | None:
        """Asks whether the second event is complete, and only then reads the pair."""
        begin, end = span
        return float(begin.elapsed_time(end)) / 1e3 if end.query() else None

    def release(self, span: tuple[Any, Any]) -> None:
        """Puts the pair back into the pool."""
        self._free.append(span)

    def capturing(self) -> bool:
        """See `Timer`."""
        return bool(self._capturing())


class HostTimer:
    """The host's clock, for devices whose work is done when the call returns."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock

    def start(self) -> list[float]:
        """See `Timer`; never None."""
        return [self._clock()]

    def stop(self, span: list[float]) -> None:
        """See `Timer`."""
        span.append(self._clock())

    def seconds(self, span: list[float]) -> float:
        """See `Timer`; never None."""
        return span[1] - span[0]

    def release(self, span: list[float]) -> None:
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
