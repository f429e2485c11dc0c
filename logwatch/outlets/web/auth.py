"""Level 3: who may ask: basic authentication and rate limit of the web configuration, as a middleware.

A password is checked by bcrypt once and remembered under a keyed digest, so that scrapes stay cheap; an
unknown name costs as much as a wrong password; those who guess wait for each other, not those who are let in.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping

import bcrypt
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from logwatch.outlets.web.webfile import RateConfig, WebFile

MAX_REMEMBERED = 100
MAX_WAITING = 16
MAX_PASSWORD_BYTES = 72
"""What bcrypt looks at."""

NOBODY = "abcdefghijklmnopqrstuuZ1GBQJ1QYoTBMQYSbOaHDZ9fsk/tLCy"
"""Salt and hash of no known password: what an unknown name is checked against, at the others' cost."""


class Gate:
    """Lets in those whom the web configuration lets in, and adds its headers to every answer.

    Args:
        app: What lies behind.
        web: The file, read again before each request.
        clock: Seconds, monotonic.
    """

    def __init__(self, app: ASGIApp, web: WebFile, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._web = web
        self._passwords = Passwords()
        self._bucket = Bucket(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401 or 429."""
        self._web.refresh()
        config = self._web.config
        headers = config.headers()

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [(name, value) for name, value in message["headers"] if name.lower() not in headers]
                message["headers"] = [*kept, *headers.items()]
            await send(message)

        answer = None
        if not self._bucket.take(config.rate_limit):
            answer = PlainTextResponse("Too many requests.\n", 429, {"retry-after": "1"})
        elif config.basic_auth_users:
            given = Headers(scope=scope).get("authorization", "")
            allowed = await self._passwords.allow(given, config.basic_auth_users)
            if allowed is None:
                answer = PlainTextResponse("Too many wrong passwords.\n", 429, {"retry-after": "1"})
            elif not allowed:
                answer = PlainTextResponse(
                    "Unauthorized.\n", 401, {"www-authenticate": 'Basic realm="logwatch"'}
                )
        await (answer or self._app)(scope, receive, complete)


class Passwords:
    """Checks names and passwords; remembers which were right."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, None] = {}
        self._checking = asyncio.Lock()
        self._waiting = 0

    async def allow(self, authorization: str, users: Mapping[str, str]) -> bool | None:
        """Whether the header names a user and his password; None where too many are being checked."""
        given = credentials(authorization)
        if given is None:
            return False
        name, password = given
        expected = users.get(name) or next(iter(users.values()))[:7] + NOBODY
        digest = hmac.digest(self._key, f"{len(name)}:{name}{expected}".encode() + password, hashlib.sha256)
        if digest in self._right:
            return True
        if self._waiting >= MAX_WAITING:
            return None
        self._waiting += 1
        try:
            async with self._checking:
                right = await run_in_threadpool(_check, password, expected)
        finally:
            self._waiting -= 1
        if right and name in users:
            if len(self._right) >= MAX_REMEMBERED:
                del self._right[next(iter(self._right))]
            self._right[digest] = None
            return True
        return False


class Bucket:
    """A token bucket over all requests.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tokens = 0.0
        self._filled: float | None = None

    def take(self, rate: RateConfig) -> bool:
        """Whether one more request fits now."""
        if not rate.interval:
            return True
        now = self._clock()
        full = max(1.0, float(rate.burst))
        gained = full if self._filled is None else (now - self._filled) / rate.interval
        self._filled = now
        self._tokens = min(full, self._tokens + gained)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def credentials(authorization: str) -> tuple[str, bytes] | None:
    """Name and password of a `Basic` header, or None where it is none."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _check(password: bytes, expected: str) -> bool:
    try:
        return bcrypt.checkpw(password[:MAX_PASSWORD_BYTES], expected.encode())
    except ValueError:  # a NUL within it
        return False
