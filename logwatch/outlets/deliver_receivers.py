"""Level 3: who is told: Alertmanager, a webhook, a command. Each gives up an attempt after its time limit.

Secrets (a webhook's address, a token, a routing key) are read from their files for each attempt, so that they
can be changed while the daemon runs, and never stand in a message.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from logwatch import __version__
from logwatch.errors import ConfigError, Problem
from logwatch.outlets.deliver_courier import DeliveryError, Receiver
from logwatch.outlets.deliver_forms import Template, alertmanager_form, pagerduty_form, slack_form
from logwatch.outlets.deliver_text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PAGERDUTY = "/v2/enqueue"
_ANSWER_BYTES = 2000
_AGAIN = frozenset({401, 403, 404, 405, 408, 425, 429})
"""Answers below 500 that speak of the receiver or its configuration, not of this one alert."""


@dataclass(frozen=True, slots=True)
class ReceiverSettings:
    """What one `[[alert]]` says, field by field (`ReceiverSettings(**alert.model_dump())`)."""

    alertmanager: str | None = None
    webhook: str | None = None
    webhook_file: Path | None = None
    command: tuple[str, ...] | None = None
    name: str | None = None
    template: Template = "logwatch"
    bearer_token_file: Path | None = None
    routing_key_file: Path | None = None
    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """One address of an Alertmanager (API v2). Each address of a cluster is a receiver of its own."""

    name: str
    url: str
    timeout_s: float = 10.0
    bearer_token_file: Path | None = None

    @property
    def repeats(self) -> bool:
        """Alertmanager resolves by itself what it is not told again."""
        return True

    def send(self, alert: Mapping[str, Any], now_s: float) -> None:
        """Post the alert, firing or resolved."""
        body = alertmanager_form(alert, now_s)
        post(f"{self.url}/api/v2/alerts", body, self.timeout_s, _secret(self.bearer_token_file))


@dataclass(frozen=True, slots=True)
class Webhook:
    """An HTTP address that gets JSON: our own document, Slack's form or PagerDuty's.

    Attributes:
        url: The address, or the file that holds it.
    """

    name: str
    url: str | Path
    template: Template = "logwatch"
    timeout_s: float = 10.0
    bearer_token_file: Path | None = None
    routing_key_file: Path | None = None

    @property
    def repeats(self) -> bool:
        """Said once, a change is known."""
        return False

    def send(self, alert: Mapping[str, Any], now_s: float) -> None:  # noqa: ARG002 - the Protocol's signature
        """Post the alert in the template's form."""
        body: object = alert
        if self.template == "slack":
            body = slack_form(alert)
        elif self.template == "pagerduty":
            body = pagerduty_form(alert, _secret(self.routing_key_file) or "")
        url = self.url if isinstance(self.url, str) else _secret(self.url) or ""
        post(url, body, self.timeout_s, _secret(self.bearer_token_file))


@dataclass(frozen=True, slots=True)
class Command:
    """A program that gets the alert as JSON on standard input; killed with its children when late."""

    name: str
    argv: Sequence[str]
    timeout_s: float = 10.0

    @property
    def repeats(self) -> bool:
        """Said once, a change is known."""
        return False

    def send(self, alert: Mapping[str, Any], now_s: float) -> None:  # noqa: ARG002 - the Protocol's signature
        """Run the program; exit status 0 means that it took the alert."""
        try:
            process = subprocess.Popen(  # noqa: S603 - the argument vector is the configuration's, without a shell
                list(self.argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise DeliveryError(f"cannot be started: {error.strerror}") from None
        with process:
            try:
                _, errors = process.communicate(json.dumps(alert).encode(), timeout=self.timeout_s)
            except subprocess.TimeoutExpired:
                raise DeliveryError(f"took longer than {self.timeout_s:g} s") from None
            finally:
                # Its children too, even those of a program that has ended: nothing may pile up.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            said = clean(errors[-_ANSWER_BYTES:].decode(errors="replace"), 200)
            raise DeliveryError(f"exit status {process.returncode}" + (f": {said}" if said else ""))


def receivers(alerts: Iterable[ReceiverSettings]) -> list[Receiver]:
    """Receivers of the configuration, each with a name of its own.

    Raises:
        ConfigError: All that is wrong with them.
    """
    made: list[Receiver] = []
    problems: list[Problem] = []
    for number, alert in enumerate(alerts, 1):
        where = f"alert[{number}]"
        if alert.template == "pagerduty" and alert.routing_key_file is None:
            problems.append(Problem(where, "PagerDuty needs a routing key", "set `routing_key_file`"))
        if any(url and "@" in urlsplit(url).netloc for url in (alert.alertmanager, alert.webhook)):
            problems.append(
                Problem(where, "an address with a password", "use `webhook_file` or `bearer_token_file`")
            )
        name = _unique(alert.name or _name(alert), [receiver.name for receiver in made])
        if alert.command is not None:
            made.append(Command(name, alert.command, alert.timeout))
        elif alert.alertmanager is not None:
            made.append(Alertmanager(name, alert.alertmanager, alert.timeout, alert.bearer_token_file))
        else:
            made.append(
                Webhook(
                    name,
                    alert.webhook or alert.webhook_file or "",
                    alert.template,
                    alert.timeout,
                    alert.bearer_token_file,
                    alert.routing_key_file,
                )
            )
    if problems:
        raise ConfigError.all_of(problems)
    return made


def _name(alert: ReceiverSettings) -> str:
    """Kind and host: enough to tell receivers apart, and no secret."""
    if alert.command is not None:
        return f"command:{Path(alert.command[0]).name}"
    if alert.alertmanager is not None:
        return f"alertmanager:{urlsplit(alert.alertmanager).netloc}"
    kind = "webhook" if alert.template == "logwatch" else alert.template
    return (
        f"{kind}:{urlsplit(alert.webhook).netloc}"
        if alert.webhook
        else f"{kind}:{Path(alert.webhook_file or '').name}"
    )


def _unique(name: str, taken: Sequence[str]) -> str:
    number = 2
    unique = name
    while unique in taken:
        unique, number = f"{name}-{number}", number + 1
    return unique


def _secret(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DeliveryError(f"its secret cannot be read from {path}: {type(error).__name__}") from None


def post(url: str, body: object, timeout_s: float, bearer: str | None = None) -> None:
    """Post JSON. The limit is for the whole exchange, not for each read; redirections are not followed.

    Raises:
        DeliveryError: Not answered with 2xx in time. The message holds no address.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise DeliveryError("its address is not an http or https one")
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout_s, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"logwatch/{__version__}",
        "Connection": "close",
    }
    if bearer:
        headers["Authorization"] = f"Bearer {bearer}"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    late = threading.Event()
    timer = threading.Timer(timeout_s, _cut, (connection, late))
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        status, said = answer.status, b"" if answer.status < 300 else answer.read(_ANSWER_BYTES)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise DeliveryError(f"no answer within {timeout_s:g} s") from None
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise DeliveryError(f"cannot be reached: {reason}") from None
    finally:
        timer.cancel()
        connection.close()
    if not 200 <= status < 300:
        words = clean(said.decode(errors="replace"), 200)
        refused = 400 <= status < 500 and status not in _AGAIN
        raise DeliveryError(f"answered {status}" + (f": {words}" if words else ""), letter=refused)


def _cut(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    """Break off an exchange that drips: a limit on each read alone would let it last for ever."""
    late.set()
    with contextlib.suppress(OSError, AttributeError):
        connection.sock.shutdown(2)
