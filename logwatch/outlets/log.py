"""Level 3: the daemon's own log: sentences on standard error, rate limited where they can repeat."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

from logwatch.model import Level, Notice

PER_MINUTE = 10
"""Notices of one kind that are said in a minute; the metrics count them all."""

_PRIORITIES = {Level.INFO: "<6>", Level.WARNING: "<4>", Level.ERROR: "<3>"}
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
"""What log content could steer a terminal with."""


class Log:
    """Writes one line a call; safe from any thread.

    Args:
        stream: Where to; standard error if None.
        journal: Put systemd's `<N>` priority before each line.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        journal: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._journal = journal
        self._clock = clock
        self._lock = threading.Lock()
        self._said: dict[str, tuple[float, int]] = {}

    def say(self, level: Level, message: str) -> None:
        """Write a line, never rate limited."""
        head = _PRIORITIES[level] if self._journal else f"logwatch {level.value}: "
        # Who reads our standard error may die before us; following and alerting go on without being heard.
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._stream.write(f"{head}{message.translate(_ESCAPED)}\n")
            self._stream.flush()

    def notice(self, notice: Notice) -> None:
        """Write a notice, unless its kind was said too often within the last minute."""
        now = self._clock()
        with self._lock:
            since, count = self._said.get(notice.kind, (now, 0))
            if now - since >= 60:
                since, count = now, 0
            self._said[notice.kind] = (since, count + 1)
        if count < PER_MINUTE:
            more = (
                ""
                if count + 1 < PER_MINUTE
                else f" (more of `{notice.kind}` within this minute are not said)"
            )
            self.say(notice.level, notice.message + more)
