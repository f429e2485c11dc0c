"""Level 3: the status page over HTTP: the document, its updates as server-sent events, its files, runbooks.

Updates are rendered at most once a second, however many browsers look, and only what changed is sent.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response, StreamingResponse

from logwatch import resources
from logwatch.outlets.web.page import Update, page, update
from logwatch.outlets.web.runbook import index_page, runbook_page
from logwatch.outlets.web.site import Site

STATIC = Path(__file__).with_name("static")
STATIC_FILES = frozenset({"page.css", "page.js", "good.svg", "bad.svg", "warn.svg", "idle.svg"})
MAX_WATCHERS = 32
EVERY_S = 1.0
QUIET_S = 15.0
"""A comment is sent when nothing changed for so long, so that a lost connection is noticed."""


class Live:
    """The status page's endpoints.

    Args:
        site: What is shown.
        every_s: How often an open page is updated at most, seconds.
    """

    def __init__(self, site: Site, every_s: float = EVERY_S) -> None:
        self._site = site
        self._every_s = every_s
        self._watchers = 0
        self._last: tuple[float, int, Update] | None = None

    async def page(self, _request: Request) -> Response:
        """The whole page."""
        return HTMLResponse(page(self._update()))

    async def static(self, request: Request) -> Response:
        """A file of the page's own."""
        name = request.path_params["name"]
        if name not in STATIC_FILES:
            raise HTTPException(404)
        return FileResponse(STATIC / name, headers={"cache-control": "no-cache"})

    async def events(self, request: Request) -> Response:
        """The page's changes as they happen, until the browser leaves or the server stops."""
        if self._watchers >= MAX_WATCHERS:
            return PlainTextResponse("Too many pages are open.\n", 503, {"retry-after": "30"})
        headers = {"x-accel-buffering": "no"}
        if request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=headers)
        return StreamingResponse(self._events(request), media_type="text/event-stream", headers=headers)

    async def runbooks(self, _request: Request) -> Response:
        """What runbooks there are."""
        names = sorted(path.stem for path in _runbooks().glob("*.md"))
        return HTMLResponse(index_page(names))

    async def runbook(self, request: Request) -> Response:
        """One runbook, readable without internet access."""
        name = request.path_params["name"].removesuffix(".md")
        path = _runbooks() / f"{name}.md"
        if not re.fullmatch(r"[A-Za-z0-9]+", name) or not path.is_file():
            raise HTTPException(404)
        return HTMLResponse(runbook_page(path.read_text(encoding="utf-8")))

    async def _events(self, request: Request) -> AsyncIterator[str]:
        self._watchers += 1
        try:
            stopping, sent = request.app.state.stopping, dict[str, str]()
            said_s, pause = time.monotonic(), "retry: 2000\n\n"
            while not stopping.is_set():
                event = self._event(sent)
                if event or pause:
                    said_s = time.monotonic()
                    yield pause + event
                await asyncio.sleep(self._every_s)
                pause = ": still here\n\n" if time.monotonic() - said_s > QUIET_S else ""
        finally:
            self._watchers -= 1

    def _event(self, sent: dict[str, str]) -> str:
        """An event with the parts that differ from those sent, which it notes as sent; empty without any."""
        now = self._update()
        changed = {name: text for name, text in now.parts.items() if sent.get(name) != text}
        if not changed:
            return ""
        sent.update(changed)
        return f"data: {json.dumps(_document(now, changed))}\n\n"

    def _update(self) -> Update:
        """What there is to show, rendered anew at most once in `every_s`."""
        now, version = time.monotonic(), self._site.board.version
        if self._last is None or now - self._last[0] >= self._every_s or version != self._last[1]:
            metrics, view = self._site.metrics, self._site.board.view()
            shown = update(view, metrics.sources(), metrics.facts, self._site.clock(), self._runbook)
            self._last = now, version, shown
        return self._last[2]

    def _runbook(self, alert: str) -> str | None:
        if self._site.runbook_url:
            return f"{self._site.runbook_url.rstrip('/')}/{alert}.md"
        return f"runbooks/{alert}.md" if (_runbooks() / f"{alert}.md").is_file() else None


def _document(now: Update, changed: Mapping[str, str]) -> dict[str, object]:
    return {"title": now.title, "look": now.look, "now": round(now.now_s, 1), "parts": changed}


def _runbooks() -> Path:
    return resources.folder("dashboards") / "runbooks"
