"""A stand-in for torch: one device with a clock of its own.

The device's time moves by `work`, the host's does not; how far the device has got is `reached`. Whatever would make
the host wait raises.
"""

import types

clock_s = 0.0
reached_s = float("inf")
seconds = {"draft": 0.001, "verify": 0.010, "extend": 0.002}
calls: list = []
made: list = []
capturing = False
broken = ""


class WaitedError(AssertionError):
    """Somebody waited for the device."""


class Tensor:
    """Only its length is known on the host."""

    def __init__(self, length):
        self._length = length

    def __len__(self):
        return self._length

    def _wait(self, *_args):
        raise WaitedError("reading a tensor waits for the device")

    item = tolist = cpu = numpy = __iter__ = __getitem__ = __bool__ = __int__ = __float__ = _wait


class Event:
    def __init__(self, enable_timing=False):
        assert enable_timing
        made.append(self)
        self.stamp = None

    def record(self):
        if broken == "record":
            raise RuntimeError("the driver is gone")
        self.stamp = clock_s

    def query(self):
        if broken == "query":
            raise RuntimeError("the driver is gone")
        return self.stamp <= reached_s

    def elapsed_time(self, end):
        if not (self.query() and end.query()):
            raise WaitedError("read before it was complete")
        return (end.stamp - self.stamp) * 1e3

    def synchronize(self):
        raise WaitedError("synchronize")


def work(phase, batch):
    """What a worker's method does: device time passes, or it raises what the batch wants raised."""
    global clock_s  # noqa: PLW0603 - the device has one clock
    calls.append(phase)
    if phase in batch.errors:
        raise batch.errors[phase]
    clock_s += seconds[phase]


def _forbidden(*_args):
    raise WaitedError("synchronize")


cuda = types.SimpleNamespace(
    Event=Event,
    is_current_stream_capturing=lambda: capturing,
    synchronize=_forbidden,
    current_stream=_forbidden,
)
cpu = types.SimpleNamespace(synchronize=_forbidden)
mute = types.SimpleNamespace(synchronize=_forbidden)


def get_device_module(kind):
    return {"cuda": cuda, "cpu": cpu, "mute": mute}[kind]
