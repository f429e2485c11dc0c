"""Level 3: how long the state keeps samples and closed incidents (used by `state.py`).

What is too old goes a bounded number of rows at a time, so that no commit waits for it. Age is told by a clock that
may be set: one that leaps by more than a day is believed only after an hour, lest a wrong date empties the history.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

ROWS = 2000
EVERY_S = 60.0
LEAP_S = 86400.0
BELIEVED_AFTER_S = 3600.0


class Retention:
    """Deletes what is too old.

    Args:
        clock: Seconds since the epoch.
        uptime: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float], uptime: Callable[[], float]) -> None:
        self._clock, self._uptime = clock, uptime
        self._pruned = -1e18
        self._leapt: float | None = None
        self._last_clock: float | None = None

    def prune(self, connection: sqlite3.Connection, keep_s: float) -> None:
        """Delete some rows that are older than `keep_s`, if it is time; to be called often, outside transactions."""
        now, uptime = self._clock(), self._uptime()
        if uptime - self._pruned < EVERY_S:
            return
        elapsed = min(uptime - self._pruned, EVERY_S * 10)
        if self._last_clock is not None and abs(now - self._last_clock - elapsed) > LEAP_S:
            self._leapt = uptime
        self._last_clock, self._pruned = now, uptime
        if self._leapt is not None and uptime - self._leapt < BELIEVED_AFTER_S:
            return
        try:
            full = _delete_before(connection, now - keep_s)
            connection.execute("PRAGMA incremental_vacuum(256)").fetchall()
        except sqlite3.Error:
            return  # a commit that fails for the same reason says so
        if full:
            self._pruned = uptime - EVERY_S


def _delete_before(connection: sqlite3.Connection, limit_s: float) -> bool:
    """Whether there may be more."""
    samples = connection.execute(
        "DELETE FROM samples WHERE id IN (SELECT id FROM samples WHERE at_s < ? AND read_s < ? LIMIT ?)",
        (limit_s, limit_s, ROWS),
    ).rowcount
    connection.execute(
        "DELETE FROM incidents WHERE id IN "
        "(SELECT id FROM incidents WHERE NOT open AND at_s < ? AND read_s < ? LIMIT ?)",
        (limit_s, limit_s, ROWS),
    )
    return samples >= ROWS
