"""Level 3: carries the alerts of one receiver from the outbox to it, as often as it takes.

A letter lies in the outbox (the state file) from the transaction that read the proving line until it is
delivered. Letters of one alert leave in order; of several that say it fires only the newest one is sent.
Delivery is at least once: a crash between sending and noting so sends again, with the same key.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from logwatch.model import Change, Level, Notice, Notify
from logwatch.outlets.deliver_alerts import JOINED
from logwatch.outlets.deliver_text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

KEPT = -1
"""`Letter.tries` of a letter that was delivered and is kept to be repeated."""

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0
RESEND_S = 60.0
"""How often Alertmanager is told that an alert still fires, or for `RESOLVED_FOR_S` that it does not."""
RESOLVED_FOR_S = 300.0
SETTLE_S = 60.0
"""How long an alert that came and went while Alertmanager was away fires there: somebody must hear of it."""


MOST_LETTERS = 500
"""How many may wait for one receiver before some are given up: of an alert that was joined again and again all but the
newest, then alerts that are over, the oldest first. What is open is never given up."""

_LOUDEST = (Change.OPENED.value, Change.WORSENED.value, Change.EXPLAINED.value)


@dataclass(frozen=True, slots=True)
class Letter:
    """One row of the outbox.

    Attributes:
        id: Rising with age.
        key: The alert it is about.
        body: JSON of `deliver_alerts.alert_body`.
        next_try: Seconds since the epoch before which it stays.
        tries: Attempts that failed, or `KEPT`.
    """

    id: int
    receiver: str
    key: str
    body: str
    next_try: float
    tries: int


class Outbox(Protocol):
    """Where letters lie. The state file in life; a list in tests."""

    def put(self, receiver: str, key: str, body: str, next_try: float) -> None:
        """Add a letter with no tries, in the open transaction. Only the pipeline's thread calls it."""

    def letters(self, receiver: str) -> Sequence[Letter]:
        """Committed letters of one receiver, oldest first. Any thread."""

    def retry(self, ids: Sequence[int], next_try: float, tries: int) -> None:
        """Write down when to try again, and what was tried. Any thread; commits by itself."""

    def done(self, ids: Sequence[int]) -> None:
        """Take letters out. Any thread; commits by itself."""

    def receivers(self) -> set[str]:
        """Names of all receivers that have letters."""


class DeliveryError(Exception):
    """A receiver did not take an alert.

    Args:
        message: What went wrong, without secrets.
        letter: True where this alert was refused; False where the receiver takes none at present.
    """

    def __init__(self, message: str, *, letter: bool = False) -> None:
        super().__init__(message)
        self.letter = letter


class Receiver(Protocol):
    """Somebody who is told.

    Attributes:
        name: For metrics and messages: short, stable, without secrets.
        repeats: True for Alertmanager, which forgets what is not said again.
    """

    @property
    def name(self) -> str:
        """As above."""

    @property
    def repeats(self) -> bool:
        """As above."""

    def send(self, alert: Mapping[str, Any], now_s: float) -> None:
        """Hand over one alert.

        Raises:
            DeliveryError: It was not taken.
        """


@dataclass(frozen=True, slots=True)
class ReceiverStatus:
    """Figures of one receiver since the start, for `logwatch_alerts_total` and `logwatch_alerts_pending`.

    Attributes:
        pending: Alerts that it has not been told of yet.
        error: What went wrong last, empty after a success.
    """

    name: str
    delivered: int
    failed: int
    pending: int
    error: str


class Courier:
    """Delivers to one receiver. `step` does what is due; who calls it, and when, is `Deliver`'s matter."""

    def __init__(
        self,
        receiver: Receiver,
        outbox: Outbox,
        notify: Notify,
        random: Random,
        attempted: Callable[[str, str], None],
    ) -> None:
        self.receiver = receiver
        self._attempted = attempted
        self._outbox, self._notify, self._random = outbox, notify, random
        self._delivered = self._failed = self._refusals = 0
        self._down_until_s = float("-inf")
        self._error = ""

    @property
    def status(self) -> ReceiverStatus:
        """Figures; safe from any thread."""
        name = self.receiver.name
        waiting = {letter.key for letter in self._outbox.letters(name) if letter.tries != KEPT}
        return ReceiverStatus(name, self._delivered, self._failed, len(waiting), self._error)

    def step(self, now_s: float) -> float | None:
        """Try all that is due.

        Returns:
            When to come back, seconds since the epoch; None where nothing waits.
        """
        # Looked at only when there is something to try: this is called after each commit.
        if now_s < self._down_until_s <= now_s + 2 * LONGEST_BACKOFF_S:
            return self._down_until_s
        alerts: dict[str, list[Letter]] = {}
        newest: dict[str, str] = {}
        bodies: dict[int, dict[str, Any]] = {}
        for letter in self._outbox.letters(self.receiver.name):
            alerts.setdefault(letter.key, []).append(letter)
            bodies[letter.id] = json.loads(letter.body)
            newest[_identity(bodies[letter.id])] = letter.key
        if len(bodies) > MOST_LETTERS:
            self._thin_out(alerts, bodies)
        times = []
        for key, letters in alerts.items():
            if self.receiver.repeats and newest[_identity(bodies[letters[0].id])] != key:
                self._give_way(letters, bodies, now_s)
            else:
                times.append(self._deliver(letters, bodies, now_s))
        return min((time for time in times if time is not None), default=None)

    def _thin_out(self, alerts: dict[str, list[Letter]], bodies: Mapping[int, dict[str, Any]]) -> None:
        """Give up what matters least, so that a receiver that is gone for weeks costs no more than one for a day."""
        given_up = [
            letter
            for letters in alerts.values()
            for letter in letters[:-1]
            if letter.tries != KEPT and bodies[letter.id]["change"] == JOINED
        ]
        over, waiting = 0, len(bodies) - len(given_up)
        for letters in alerts.values():
            if waiting > MOST_LETTERS and bodies[letters[-1].id]["status"] != "firing":
                over, waiting = over + 1, waiting - len(letters)
                given_up += letters
        self._done(given_up)
        gone = {letter.id for letter in given_up}
        for key, letters in list(alerts.items()):
            alerts[key] = [letter for letter in letters if letter.id not in gone]
            if not alerts[key]:
                del alerts[key]
        if over:
            message = (
                f"{over} alerts that were over were never told to {self.receiver.name}: too many wait for it."
            )
            self._notify(Notice("alerts_given_up", message, Level.ERROR))

    def _give_way(self, letters: list[Letter], bodies: Mapping[int, dict[str, Any]], now_s: float) -> None:
        """Be done with an alert whose labels a newer one has: to Alertmanager both are the same.

        A repetition of the old one's end would end the new one. If the end was not told yet, it is now, once.
        """
        last = letters[-1]
        told = any(letter.tries == KEPT and bodies[letter.id]["status"] == "firing" for letter in letters)
        if told and last.tries == 0 and bodies[last.id]["status"] != "firing" and now_s >= self._down_until_s:
            self._send(bodies[last.id], [last], now_s)
        self._done(letters)

    def _deliver(
        self, letters: list[Letter], bodies: Mapping[int, dict[str, Any]], now_s: float
    ) -> float | None:
        """Deliver what is due of one alert's letters; when to come back to it."""
        wait_s = max(min(letter.next_try for letter in letters), self._down_until_s)
        # A clock that was set back must not hold an alert: no honest time lies that far ahead.
        if now_s < wait_s <= now_s + 2 * LONGEST_BACKOFF_S:
            return wait_s
        firing = [letter for letter in letters if bodies[letter.id]["status"] == "firing"]
        ended = [letter for letter in letters if bodies[letter.id]["status"] != "firing"]
        unsent = [letter for letter in firing if letter.tries != KEPT]
        if not ended or unsent:
            again_s = self._fire(firing, unsent, ended, bodies, now_s)
            if again_s is not None or not ended:
                return again_s
            firing = []
        return self._end(firing, ended, bodies, now_s)

    def _fire(
        self,
        firing: list[Letter],
        unsent: list[Letter],
        ended: list[Letter],
        bodies: Mapping[int, dict[str, Any]],
        now_s: float,
    ) -> float | None:
        """Say that it fires, in its newest state; when to come back, None to go on at once."""
        changes = {bodies[letter.id]["change"] for letter in unsent}
        change = next((loudest for loudest in _LOUDEST if loudest in changes), JOINED)
        # One more rank is no news to somebody who was told already, but belongs into what is repeated.
        if self.receiver.repeats or change != JOINED:
            failed_until_s = self._send(bodies[firing[-1].id] | {"change": change}, firing, now_s)
            if failed_until_s is not None:
                return failed_until_s
        if self.receiver.repeats and not ended:
            return self._keep(firing, now_s)
        self._done(firing)
        if self.receiver.repeats:
            self._outbox.retry([letter.id for letter in ended], now_s + SETTLE_S, 0)
            return now_s + SETTLE_S
        return None

    def _end(
        self,
        firing: list[Letter],
        ended: list[Letter],
        bodies: Mapping[int, dict[str, Any]],
        now_s: float,
    ) -> float | None:
        """Say that it is over."""
        body = bodies[ended[-1].id]
        failed_until_s = self._send(body, ended, now_s)
        if failed_until_s is not None:
            return failed_until_s
        self._done(firing)
        repeat_until_s = datetime.fromisoformat(body["changed_at"]).timestamp() + RESOLVED_FOR_S
        if self.receiver.repeats and now_s < repeat_until_s:
            return self._keep(ended, now_s)
        self._done(ended)
        return None

    def _keep(self, letters: list[Letter], now_s: float) -> float:
        """Keep the newest to be repeated."""
        self._outbox.retry([letters[-1].id], now_s + RESEND_S, KEPT)
        self._done(letters[:-1])
        return now_s + RESEND_S

    def _done(self, letters: list[Letter]) -> None:
        if letters:
            self._outbox.done([letter.id for letter in letters])

    def _send(self, body: Mapping[str, Any], letters: Sequence[Letter], now_s: float) -> float | None:
        """Send; None if it was taken, else when to try again."""
        try:
            self.receiver.send(body, now_s)
        except DeliveryError as error:
            return self._failure(error, letters, now_s)
        self._delivered += 1
        self._attempted(self.receiver.name, "delivered")
        if self._error:
            self._notify(Notice("receiver_back", f"Alerts reach {self.receiver.name} again."))
        self._error, self._refusals = "", 0
        return None

    def _failure(self, error: DeliveryError, letters: Sequence[Letter], now_s: float) -> float:
        tries = 1 + max(0, *(letter.tries for letter in letters))
        if not error.letter:
            self._refusals += 1
            tries = self._refusals
        longest_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(tries - 1, 10))
        again_s = now_s + longest_s * self._random.uniform(0.5, 1.0)
        if not error.letter:
            self._down_until_s = again_s
        self._outbox.retry([letter.id for letter in letters], again_s, tries)
        self._failed += 1
        self._attempted(self.receiver.name, "failed")
        message = f"{self.receiver.name} did not take an alert: {clean(str(error))}; trying until it does."
        if not self._error:
            self._notify(Notice("sink_failed", message, Level.WARNING))
        self._error = clean(str(error))
        return again_s


def _identity(body: Mapping[str, Any]) -> str:
    return json.dumps(body["labels"], sort_keys=True)
