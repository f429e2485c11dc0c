"""What the tests of alerting share: an outbox in memory, incidents, and a receiver that does as it is told."""

from __future__ import annotations

import itertools
import queue
import socket
import threading
from dataclasses import dataclass, field

from logwatch.model import Cause, Change, Incident, Limits, Moment
from logwatch.outlets.deliver import Letter, Links

NOW_S = 1_770_797_702.0
LINKS = Links("node7:9877", "http://node7:9877", "http://wiki/runbooks", "http://grafana/d/logwatch")


def incident(change="opened", rank="TP0", **changes):
    """The known case: verify from 19.15 to 28.95 ms, onset two lines before it was noticed."""
    values = {
        "key": f"node7/{rank or '-'}/target_verify/out_of_band/41",
        "change": Change(change),
        "kind": "out_of_band",
        "phase": "target_verify",
        "direction": "high",
        "stream": "node7",
        "rank": rank,
        "run": 0,
        "severity": "critical",
        "onset": Moment(41, "2026-02-11T08:15:02"),
        "noticed": Moment(43, "2026-02-11T08:15:08"),
        "resolved": Moment(90, "2026-02-11T08:20:00") if change == "resolved" else None,
        "before": 0.01915,
        "after": 0.02895,
        "ratio": 0.02895 / 0.01915,
        "samples": 3,
        "band": Limits(0.017, 0.019, 0.021),
        "causes": (Cause("cuda_graph_off", "the report's header says graph 0.0%", 0.9),),
        "detail": "Speculation costs more than it gives: 60.5 tok/s against 82.2 without it.",
    }
    return Incident(**(values | changes))


class ListOutbox:
    """An outbox without a disk: what `put` brings is committed at once."""

    def __init__(self):
        self.rows: dict[int, Letter] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def put(self, receiver, key, body, next_try):
        with self._lock:
            number = next(self._ids)
            self.rows[number] = Letter(number, receiver, key, body, next_try, 0)

    def letters(self, receiver):
        with self._lock:
            return [row for _, row in sorted(self.rows.items()) if row.receiver == receiver]

    def retry(self, ids, next_try, tries):
        with self._lock:
            for number in ids:
                old = self.rows[number]
                self.rows[number] = Letter(number, old.receiver, old.key, old.body, next_try, tries)

    def done(self, ids):
        with self._lock:
            for number in ids:
                del self.rows[number]

    def receivers(self):
        with self._lock:
            return {row.receiver for row in self.rows.values()}


@dataclass
class HttpReceiver:
    """A receiver of alerts on loopback: answers `status`, after `hold` is set; keeps what it was sent."""

    url: str = ""
    status: int = 200
    answer: bytes = b""
    drip: bool = False
    hold: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    got: queue.Queue = field(default_factory=queue.Queue)

    def next(self, timeout_s=20):
        return self.got.get(timeout=timeout_s)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def await_line(stream, wanted, seen=None):
    """Read a process's output up to the line that holds `wanted`; what came before is added to `seen`."""
    for raw in stream:
        line = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
        if seen is not None:
            seen.append(line)
        if wanted in line:
            return line
    raise AssertionError(f"the process ended before it said {wanted!r}: {''.join(seen or [])}")
