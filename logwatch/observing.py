"""Level 4: what the daemon counts of itself beside its work, carried into the metrics: lag and deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logwatch.intake.chunks import Lag
from logwatch.outlets.deliver_courier import ReceiverStatus
from logwatch.outlets.metrics import Metrics

ALL_S = 30.0
"""How often streams without lag are told of as well, so that they stay known."""


class Observing:
    """Remembers what it told before: most of it is the same a second later.

    Args:
        metrics: Is told.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lagged: set[str] = set()
        self._observed: set[str] = set()
        self._observed_s = -1e9
        self._delivered: dict[str, tuple[int, int]] = {}

    def sources(self, lags: Mapping[str, Lag], now_s: float) -> None:
        """Tell of lag; of the many streams that have none only now and then.

        Args:
            lags: By stream, all of them.
            now_s: Monotonic seconds.
        """
        lagging = {stream for stream, lag in lags.items() if lag.bytes or lag.seconds}
        told = lagging | self._lagged | (lags.keys() - self._observed)
        if now_s - self._observed_s >= ALL_S:
            self._observed_s, told = now_s, set(lags)
        for stream in told & lags.keys():
            self._metrics.observe_source(stream, lags[stream].bytes, lags[stream].seconds)
        self._lagged, self._observed = lagging, set(lags)

    def delivery(self, states: Sequence[ReceiverStatus]) -> bool:
        """Carry the couriers' figures, which begin at 0 in each life, into the counters, which do not.

        Returns:
            Whether a counter changed.
        """
        changed = False
        for now in states:
            if now.name not in self._delivered:
                self._metrics.add_receiver(now.name)
                changed = True
            before = self._delivered.get(now.name, (0, 0))
            changed |= before != (now.delivered, now.failed)
            for outcome, new in (
                ("delivered", now.delivered - before[0]),
                ("failed", now.failed - before[1]),
            ):
                for _ in range(new):
                    self._metrics.observe_alert(now.name, outcome)
            self._delivered[now.name] = (now.delivered, now.failed)
        self._metrics.observe_pending(sum(now.pending for now in states))
        return changed
