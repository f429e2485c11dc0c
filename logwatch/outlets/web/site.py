"""Level 3: what the HTTP interface is about: plain values and callables that the daemon gives it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from logwatch.outlets.metrics import Metrics
from logwatch.outlets.web.api import History
from logwatch.outlets.web.board import Board


@dataclass(frozen=True)
class Site:
    """What the HTTP interface shows and may do.

    Attributes:
        history: Where older samples and incidents are found; else those of the board are all.
        ready: Whether sources are opened and state is recovered.
        healthy: Whether the daemon makes progress.
        reload: Loads the configuration again; gives what is wrong with it, or an empty text. None: forbidden.
        runbook_url: Where the runbooks lie; else our own copies are linked.
        clock: Unix time, seconds.
    """

    metrics: Metrics
    board: Board
    history: History | None = None
    ready: Callable[[], bool] = lambda: True
    healthy: Callable[[], bool] = lambda: True
    reload: Callable[[], str] | None = None
    runbook_url: str | None = None
    clock: Callable[[], float] = time.time
