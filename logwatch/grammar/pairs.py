"""Level 1: the unordered list `key: value, key: value`: one definition that both compilers share.

Items are parted by commas outside square brackets; empty items (a trailing comma) count for nothing. An
item is `key: value` or `key=value`. A known key's value must match its pattern to the end; an unknown key
is passed over, together with bare numbers behind it (`Per-position acceptance rate: 0.600, 0.385`). What is
neither, a key that occurs twice, or an unknown key with a known one glued to its end (two writers tore each
other's lines) makes the line malformed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LONGEST_KEY: Final = 80
BARE_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?%?")


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the list.

    Attributes:
        at: Position of its first character in the text.
        key: Before the sign, or None where the item has no sign.
        value_at: Position of the value's first character (of the item's end where there is no value).
    """

    at: int
    text: str
    key: str | None
    value: str
    value_at: int


def items(text: str, start: int = 0) -> Iterator[Item | int]:
    """The items of a list that starts at `start`; a position for an item: a bracket that never closes."""
    position = start
    size = len(text)
    while position < size:
        comma = text.find(",", position)
        end = size if comma < 0 else comma
        bracket = text.find("[", position, end)
        while bracket >= 0:
            closed = text.find("]", bracket)
            if closed < 0:
                yield bracket
                return
            if closed > end:
                comma = text.find(",", closed)
                end = size if comma < 0 else comma
            bracket = text.find("[", closed, end)
        piece = text[position:end]
        item = piece.strip(" \t")
        if item:
            yield _item(item, position + len(piece) - len(piece.lstrip(" \t")))
        position = end + 1


def _item(text: str, at: int) -> Item:
    key, sign, value = text.partition(":")
    if not sign:
        key, sign, value = text.partition("=")
        if not sign:
            return Item(at, text, None, "", at + len(text))
    bare = value.lstrip(" \t")
    return Item(at, text, key.rstrip(" \t"), bare, at + len(text) - len(bare))


def is_glued(key: str, known: frozenset[str], anchor: str) -> bool:
    """Whether an unknown key is no key but the seam of two lines written into each other."""
    if len(key) > LONGEST_KEY or anchor in key:
        return True
    return any(
        key.endswith(name) and key != name and (key[-len(name) - 1].isalnum() or name.startswith("#"))
        for name in known
    )
