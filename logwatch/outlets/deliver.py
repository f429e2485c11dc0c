"""Level 3: alerts that arrive: incidents into the outbox, and from there to every receiver.

`take` writes letters into the outbox within the transaction that commits the proving line, and one line into
the daemon's own log; it never waits. One thread for each receiver carries the letters out
(`deliver_courier.py`), so that one that is down or slow holds up neither reading nor another one. What is
remembered of open alerts lies in `memory`, which the state file keeps with the stages' memories.
"""

from __future__ import annotations

import json
import threading
import time
from random import Random, SystemRandom
from typing import TYPE_CHECKING

from logwatch.model import Change, Incident, Item, Level, Notice, Notify
from logwatch.outlets.deliver_alerts import JOINED, Book, Links, enter
from logwatch.outlets.deliver_courier import Courier, Letter, Outbox, Receiver, ReceiverStatus
from logwatch.outlets.deliver_text import line_for_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Book", "Deliver", "Letter", "Links", "Outbox", "Receiver", "ReceiverStatus"]

JOIN_WINDOW_S = 0.3
"""How long the first message waits for more ranks to see the same; only where the log names ranks."""

_LONGEST_SLEEP_S = 60.0
_CLOSING_S = 5.0
_LEVELS = {"critical": Level.ERROR, "warning": Level.WARNING}


class Deliver:
    """The sink that alerts.

    Args:
        receivers: Who is told, besides the log.
        outbox: Where letters lie until delivered.
        links: What messages point to.
        log: Gets each alert as one line. Not rate limited: it is the receiver that is always there.
        notify: For trouble with receivers.
        clock: Seconds since the epoch.
        memory: Open alerts, as an earlier `Deliver` left them.
        attempted: Hears of each attempt: the receiver's name, and `delivered` or `failed`. Any thread.

    `start` once the state is recovered, `wake` after each commit, `close` at the end: what could not be
    delivered by then stays in the outbox.
    """

    def __init__(
        self,
        receivers: Sequence[Receiver],
        outbox: Outbox,
        links: Links,
        log: Callable[[Level, str], None],
        notify: Notify,
        *,
        clock: Callable[[], float] = time.time,
        random: Random | None = None,
        memory: Book | None = None,
        attempted: Callable[[str, str], None] = lambda _receiver, _outcome: None,
    ) -> None:
        self.memory = memory or Book()
        self._outbox, self._links, self._log, self._clock = outbox, links, log, clock
        self._notify, self._random, self._attempted = notify, random or SystemRandom(), attempted
        self._runs: list[_Run] = []
        self._started = False
        self.configure(receivers, links)

    def take(self, item: Item) -> None:
        """Write the letters that an incident's transition calls for; everything else passes by."""
        if not isinstance(item, Incident):
            return
        update = enter(self.memory, item, self._links, self._clock(), JOIN_WINDOW_S)
        if update is None:
            return
        quiet = update.change in {Change.RESOLVED, JOINED}
        level = Level.INFO if quiet else _LEVELS.get(item.severity, Level.INFO)
        self._log(level, line_for_log(update.body))
        body = json.dumps(update.body, ensure_ascii=False)
        for run in self._runs:
            self._outbox.put(run.courier.receiver.name, update.key, body, update.not_before_s)

    def configure(self, receivers: Sequence[Receiver], links: Links) -> None:
        """Tell these receivers from now on; one that is as it was goes on as it is. The pipeline's thread."""
        self._links = links
        kept = {run.courier.receiver: run for run in self._runs}
        for run in self._runs:
            if run.courier.receiver not in receivers:
                run.stop()
        self._runs = [
            kept.get(receiver)
            or _Run(
                Courier(receiver, self._outbox, self._notify, self._random, self._attempted),
                self._clock,
                self._notify,
            )
            for receiver in receivers
        ]
        if self._started:
            self.start()

    def start(self) -> None:
        """Start delivering, first of all what an earlier life left in the outbox."""
        self._started = True
        known = {run.courier.receiver.name for run in self._runs}
        for name in sorted(self._outbox.receivers() - known):
            letters = self._outbox.letters(name)
            self._outbox.done([letter.id for letter in letters])
            message = f"{len(letters)} alerts for {name} are dropped: it is not configured any more."
            self._notify(Notice("receiver_gone", message, Level.WARNING))
        for run in self._runs:
            run.start()

    @property
    def couriers(self) -> tuple[Courier, ...]:
        """Who carries the letters, one for each receiver."""
        return tuple(run.courier for run in self._runs)

    def wake(self) -> None:
        """Letters were committed."""
        for run in self._runs:
            run.wake()

    def status(self) -> tuple[ReceiverStatus, ...]:
        """Figures of all receivers; safe from any thread."""
        return tuple(courier.status for courier in self.couriers)

    @property
    def pending(self) -> int:
        """Alerts that some receiver has not been told of yet, counted once for each."""
        return sum(status.pending for status in self.status())

    def close(self) -> None:
        """One more attempt for what is due, then stop; at most five seconds."""
        for run in self._runs:
            run.stop()
        until_s = time.monotonic() + _CLOSING_S
        for run in self._runs:
            run.join(max(0.0, until_s - time.monotonic()))


class _Run:
    """The thread of one courier: steps when something is due, sleeps else, and never dies of an error."""

    def __init__(self, courier: Courier, clock: Callable[[], float], notify: Notify) -> None:
        self.courier = courier
        self._clock, self._notify = clock, notify
        self._waker = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, if it has not begun yet."""
        if self._thread is None:
            name = f"deliver {self.courier.receiver.name}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """Look into the outbox now."""
        self._waker.set()

    def stop(self) -> None:
        """One more step, then end."""
        self._stopping = True
        self._waker.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the end."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            stopping = self._stopping
            self._waker.clear()
            now_s = self._clock()
            try:
                next_s = self.courier.step(now_s)
            except Exception as error:  # noqa: BLE001 - a thread that died would be a receiver lost in silence
                message = (
                    f"Delivering to {self.courier.receiver.name} failed: {type(error).__name__}: {error}"
                )
                self._notify(Notice("sink_failed", message, Level.ERROR))
                next_s = now_s + _LONGEST_SLEEP_S
            if not stopping:
                wait_s = _LONGEST_SLEEP_S if next_s is None else next_s - now_s
                self._waker.wait(min(_LONGEST_SLEEP_S, max(0.0, wait_s)))
