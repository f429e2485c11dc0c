"""Level 3: HTML as values. Text is escaped when it is put in: what a log says can never become markup."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TypeAlias

_VOID = frozenset({"meta", "link", "br", "hr", "circle", "line", "path", "polyline", "rect"})
"""Elements without content; those of SVG end themselves."""


class Html(str):
    """Text that is markup already. Only `el` and `join` make it."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
Attribute: TypeAlias = str | float | bool | None


def el(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element. Attributes: `class_` is `class`, `_` is `-`; None and False leave out, True is a bare one.

    >>> el("p", "1 < 2 ", el("b", "yes"), class_="note", data_x='"')
    '<p class="note" data-x="&quot;">1 &lt; 2 <b>yes</b></p>'
    """
    opened = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID and not children:
        return Html(f"<{opened}/>")
    return Html(f"<{opened}>{join(children)}</{name}>")


def join(children: Child) -> Html:
    """Children one after the other; text is escaped, None is nothing."""
    if children is None:
        return Html()
    if isinstance(children, Html):
        return children
    if isinstance(children, str):
        return Html(html.escape(_visible(children), quote=False))
    return Html("".join(join(child) for child in children))


def prose(text: str) -> Html:
    """A sentence: what stands between backticks is code, and a number is not parted from its `ms`."""
    pieces = text.replace(" ms", "\N{NO-BREAK SPACE}ms").split("`")
    return join([el("code", piece) if number % 2 else piece for number, piece in enumerate(pieces)])


def _visible(text: str) -> str:
    """Text without what cannot be seen or sent: control and bidirectional characters, lone surrogates."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in "\n\t\u00a0" else "\ufffd" for letter in text)


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(_visible(text), quote=True)}"'
