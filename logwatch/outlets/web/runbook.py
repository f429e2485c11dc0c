"""Level 3: runbooks as pages. Reads the little Markdown they are written in; everything else stays text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from logwatch.outlets.web.markup import Child, Html, el, join

_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\*(?P<em>[^*\s][^*]*)\*"
    r"|\[(?P<text>[^\]]+)\]\((?P<to>https?://[^)\s]+|[A-Za-z0-9]+\.md)\)"
)
_ALERT = re.compile(r"(?:Spec|Logwatch)[A-Z][A-Za-z]+")
"""The name of an alert, and so of its runbook."""

_ITEM = re.compile(r"(?:[-*]|[0-9]+\.) +")


def runbook_page(text: str) -> str:
    """A runbook's document."""
    lines = text.splitlines()
    title = next((line.lstrip("# ") for line in lines if line.startswith("# ")), "Runbook")
    return _document(title, list(_blocks(lines)))


def index_page(names: Sequence[str]) -> str:
    """The list of runbooks."""
    entries = [el("li", el("a", name, href=f"runbooks/{name}.md")) for name in names]
    return _document("Runbooks", [el("h1", "Runbooks"), el("ul", entries)], base="")


def _document(title: str, content: Child, base: str = "../") -> str:
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} · logwatch"),
        el("link", rel="icon", href=f"{base}static/idle.svg", type="image/svg+xml"),
        el("link", rel="stylesheet", href=f"{base}static/page.css"),
    )
    back = el("p", el("a", "Status", href=base or "./"), class_="brand")
    body = el("body", el("header", back), el("main", el("article", content, class_="text")))
    return "<!doctype html>\n" + el("html", head, body, lang="en")


def _blocks(lines: Sequence[str]) -> Iterator[Html]:
    """Headings, fenced code, lists and paragraphs."""
    rest = list(lines)
    while rest:
        line = rest.pop(0)
        if line.startswith("```"):
            code = _until(rest, lambda each: each.startswith("```"))
            del rest[:1]
            yield el("pre", el("code", "\n".join(code)))
        elif heading := re.match(r"(#{1,4}) +(.*)", line):
            yield el(f"h{len(heading[1])}", _inline(heading[2]))
        elif _ITEM.match(line):
            yield _list([line, *_until(rest, lambda each: not each.strip())])
        elif line.strip():
            yield el("p", _inline(" ".join([line, *_until(rest, _ends_paragraph)])))


def _ends_paragraph(line: str) -> bool:
    return not line.strip() or line.startswith(("#", "```")) or _ITEM.match(line) is not None


def _until(rest: list[str], ends: Callable[[str], object]) -> list[str]:
    """Take the lines before the first at which the block ends."""
    taken: list[str] = []
    while rest and not ends(rest[0]):
        taken.append(rest.pop(0))
    return taken


def _list(lines: Sequence[str]) -> Html:
    items: list[str] = []
    for line in lines:
        if mark := _ITEM.match(line):
            items.append(line[mark.end() :])
        else:
            items[-1] += f" {line.strip()}"
    return el("ol" if lines[0][0].isdigit() else "ul", [el("li", _inline(item)) for item in items])


def _inline(text: str) -> Html:
    """Code, emphasis and links within a line; links lead to the web or to another runbook only."""
    parts: list[Child] = []
    end = 0
    for found in _INLINE.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        kind = found.lastgroup or ""
        if kind == "to":
            parts.append(el("a", found["text"], href=found["to"]))
        elif kind == "code" and _ALERT.fullmatch(found[kind]):
            parts.append(el("a", el("code", found[kind]), href=f"{found[kind]}.md"))
        else:
            parts.append(el(kind, found[kind]))
    return join([*parts, text[end:]])
