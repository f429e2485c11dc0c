"""Level 6: the stretch of time of a replay (`--since`, `--until`): which records count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwatch.model import Malformed, Record, seconds_of

if TYPE_CHECKING:
    from logwatch.intake.bulk import Chunk

CONTEXT = frozenset({"server_args", "nccl_setting", "nccl_transport", "environment"})
"""Records that say under what a run ran: they count whenever they were written."""


class Window:
    """Says of each record, in the log's order, whether it lies in a stretch of time.

    A record without a time is as old as the one before it.

    Args:
        since, until: Seconds since the epoch from which, and before which, records count; None: without bound.
    """

    def __init__(self, since: float | None, until: float | None) -> None:
        self._since = since
        self._until = until
        self._last: float | None = None

    def __call__(self, record: Record | Malformed) -> bool:
        """Whether the next record counts."""
        now = seconds_of(record.time)
        if now is not None:
            self._last = now
        return record.kind in CONTEXT or (self._last is not None and self._holds(self._last))

    def keeps_all(self, chunk: Chunk) -> bool | None:
        """Whether all records of the next chunk count (True) or none (False), and take them as asked for.

        None where that is not sure: then each is to be asked for.
        """
        if self._last is None:
            return None
        moments = {seconds_of(time) for time in chunk.times()} - {None} | {self._last}
        held = {self._holds(now) for now in moments if now is not None}
        if len(held) > 1 or (held == {False} and not CONTEXT.isdisjoint(chunk.kinds())):
            return None
        self._last = next(
            (now for time in chunk.newest_times() if (now := seconds_of(time)) is not None), self._last
        )
        return held.pop()

    def _holds(self, now: float) -> bool:
        return (self._since is None or now >= self._since) and (self._until is None or now < self._until)
