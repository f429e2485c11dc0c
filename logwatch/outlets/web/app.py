"""Level 3: the HTTP interface: metrics, health, JSON and the status page, as one starlette app.

Everything answers GET only, but for `/-/reload`, which is off unless asked for. Pages carry a Content
Security Policy that allows nothing but our own style sheet, script and event stream.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from logwatch.model import Incident
from logwatch.outlets.web.api import (
    INCIDENT_FILTERS,
    SAMPLE_FILTERS,
    BadQueryError,
    History,
    Query,
    Rings,
    incidents_json,
    index_json,
    parse_query,
    samples_json,
    status_json,
)
from logwatch.outlets.web.board import Sample
from logwatch.outlets.web.exposition import Exposition
from logwatch.outlets.web.live import Live
from logwatch.outlets.web.site import Site
from logwatch.outlets.web.webfile import WebFile

Answer = TypeVar("Answer")

GZIP_FROM_BYTES = 1024
MAX_NAMES = 100
VARY = "Accept, Accept-Encoding"

SECURITY_HEADERS = {
    b"content-security-policy": (
        b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"deny",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}


def build_app(site: Site, web: WebFile | None = None) -> Starlette:
    """The app of a site, behind the gate of its web configuration."""
    gate = []
    if web is not None:
        from logwatch.outlets.web.auth import Gate  # noqa: PLC0415  # bcrypt only for those who need it

        gate.append(Middleware(Gate, web=web))
    pages, live = _Pages(site), Live(site)
    app = Starlette(
        routes=[
            Route("/", live.page),
            Route("/events", live.events),
            Route("/static/{name}", live.static),
            Route("/runbooks", live.runbooks),
            Route("/runbooks/{name}", live.runbook),
            Route("/metrics", pages.metrics),
            Route("/-/healthy", pages.healthy),
            Route("/-/ready", pages.ready),
            Route("/-/reload", pages.reload, methods=["POST"]),
            Route("/api/v1", pages.index),
            Route("/api/v1/status", pages.status),
            Route("/api/v1/samples", pages.samples),
            Route("/api/v1/incidents", pages.incidents),
        ],
        middleware=[Middleware(SecurityHeaders), *gate],
        exception_handlers={HTTPException: _http_error, BadQueryError: _bad_query},  # type: ignore[dict-item]  # starlette types handlers by the base exception
    )
    app.state.stopping = threading.Event()
    return app


class SecurityHeaders:
    """Sets headers that every answer carries, unless it or the web configuration has its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and complete the headers of the answer."""

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] += [
                    (name, value) for name, value in SECURITY_HEADERS.items() if name not in present
                ]
            await send(message)

        await self._app(scope, receive, complete)


class _Pages:
    """The endpoints, bound to their site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._exposition = Exposition(site.metrics)
        self._rings = Rings(site.board)

    async def metrics(self, request: Request) -> Response:
        """Prometheus' text or OpenMetrics, as the scraper accepts; only the series of `name[]` if given."""
        names = request.query_params.getlist("name[]")[:MAX_NAMES]
        accept = request.headers.get("accept", "")
        gzipped = _takes_gzip(request)
        # Some milliseconds at most, and here: two changes of threads cost more on a busy machine.
        answer = self._exposition.answer(accept, names, gzip=gzipped)
        if answer is None:
            answer = await run_in_threadpool(self._exposition.slow, accept, names, gzip=gzipped)
        headers = {"content-type": answer.content_type, "vary": VARY}
        if answer.gzipped:
            headers["content-encoding"] = "gzip"
        return Response(answer.body, media_type=None, headers=headers)

    async def healthy(self, _request: Request) -> Response:
        """200 while the daemon makes progress."""
        if self._site.healthy():
            return PlainTextResponse("logwatch is healthy.\n")
        return PlainTextResponse("logwatch makes no progress.\n", 503)

    async def ready(self, _request: Request) -> Response:
        """200 once sources are opened and state is recovered."""
        if self._site.ready():
            return PlainTextResponse("logwatch is ready.\n")
        return PlainTextResponse("logwatch is not ready yet.\n", 503)

    async def reload(self, request: Request) -> Response:
        """Load the configuration again, if that is allowed over HTTP."""
        if self._site.reload is None:
            return PlainTextResponse("Reload over HTTP is off; set `[http] enable_reload = true`.\n", 403)
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
            return PlainTextResponse("Reload is refused to pages of other sites.\n", 403)
        problems = await run_in_threadpool(self._site.reload)
        if problems:
            return PlainTextResponse(f"The old configuration is kept:\n{problems}\n", 500)
        return PlainTextResponse("The configuration was loaded again.\n")

    async def index(self, request: Request) -> Response:
        """`logwatch.api/1`."""
        return _json(request, index_json())

    async def status(self, request: Request) -> Response:
        """`logwatch.status/1`."""
        parse_query(request.query_params.multi_items(), (), self._site.clock())
        metrics = self._site.metrics
        return _json(request, status_json(self._site.board.view(), metrics.sources(), metrics.facts))

    async def samples(self, request: Request) -> Response:
        """`logwatch.samples/1`."""
        query = parse_query(request.query_params.multi_items(), SAMPLE_FILTERS, self._site.clock())
        return _json(request, samples_json(await run_in_threadpool(self._samples, query), query.limit))

    async def incidents(self, request: Request) -> Response:
        """`logwatch.incidents/1`."""
        query = parse_query(request.query_params.multi_items(), INCIDENT_FILTERS, self._site.clock())
        return _json(request, incidents_json(await run_in_threadpool(self._incidents, query), query.limit))

    def _samples(self, query: Query) -> Sequence[Sample]:
        return self._asked(lambda history: history.samples(query))

    def _incidents(self, query: Query) -> Sequence[Incident]:
        return self._asked(lambda history: history.incidents(query))

    def _asked(self, ask: Callable[[History], Answer]) -> Answer:
        """The history's answer; without one, or while its file cannot be read, the rings'."""
        if self._site.history is not None:
            with contextlib.suppress(sqlite3.Error):
                return ask(self._site.history)
        return ask(self._rings)


def _json(request: Request, document: dict[str, Any]) -> Response:
    # ASCII, for a file's name may hold what UTF-8 cannot.
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return _maybe_gzip(request, Response(text, media_type="application/json"))


def _maybe_gzip(request: Request, response: Response) -> Response:
    """Compress what is worth it, where the client takes it."""
    response.headers["vary"] = VARY
    body = bytes(response.body)
    if len(body) >= GZIP_FROM_BYTES and _takes_gzip(request):
        response.body = gzip.compress(body, compresslevel=5)
        response.headers["content-encoding"] = "gzip"
        response.headers["content-length"] = str(len(response.body))
    return response


def _takes_gzip(request: Request) -> bool:
    for each in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = each.replace(" ", "").partition(";")
        if coding == "gzip":
            return not re.fullmatch(r"q=0(\.0*)?", weight)
    return False


async def _http_error(request: Request, error: HTTPException) -> Response:
    hints = {
        404: "see / and /api/v1 for what there is",
        405: "use " + (error.headers or {}).get("Allow", "GET"),
    }
    text = f"{error.detail}; {hints[error.status_code]}" if error.status_code in hints else error.detail
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": text}, error.status_code, error.headers)
    return PlainTextResponse(f"{text}\n", error.status_code, error.headers)


async def _bad_query(_request: Request, error: BadQueryError) -> Response:
    return JSONResponse({"error": str(error)}, 400)
