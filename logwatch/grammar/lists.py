"""Level 1: reads a rule's list of pairs, by shape or item by item (see `pairs` and `shapes`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from logwatch.grammar.ast import fields_of
from logwatch.grammar.elements import failure
from logwatch.grammar.expression import groups_of
from logwatch.grammar.outcomes import Failed, moved, word_at
from logwatch.grammar.pairs import BARE_NUMBER, is_glued, items
from logwatch.grammar.shapes import pairs_of, shape_of, value_regex
from logwatch.grammar.values import Match, Take, fused, take, takes

if TYPE_CHECKING:
    from logwatch.grammar.ast import Pair, Rule
    from logwatch.grammar.pairs import Item
    from logwatch.model import Value

SHAPES_AT_HAND: Final = 6
SHAPES_IN_A_LIFE: Final = 40
TRIES_IN_A_LIFE: Final = 1000
"""Making a shape costs as much as reading a hundred lines; a log that never repeats itself gets no more."""
MOST_KEYS_REMEMBERED: Final = 500
END: Final = "the end of the line"
"""What `elements` expects behind a value that stands alone; in a list a comma may follow."""


class PairsReader:
    """A rule's list of pairs: by shape where the line has a known one, else item by item."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        node = pairs_of(rule)
        pairs: tuple[Pair, ...] = node.pairs if node else ()
        self._values = {key: ValueReader(rule, pair) for pair in pairs for key in pair.keys}
        self._keys = frozenset(self._values)
        self._passed_over: set[str] = set()
        self._shapes: list[tuple[Match, tuple[Take, ...]]] = []
        self._shapes_made = self._tries = 0

    def quick(self, text: str) -> dict[str, Value] | None:
        """All fields of a line of a known shape, the head's too; None if it has none or one is not sane."""
        for index, (match_shape, wanted) in enumerate(self._shapes):
            match = match_shape(text)
            if match is not None:
                if index:
                    self._shapes.insert(0, self._shapes.pop(index))
                fields: dict[str, Value] = {}
                return fields if take(match, wanted, fields, self._rule.kind) is None else None
        return None

    def read(self, text: str, start: int, fields: dict[str, Value]) -> Failed | None:
        """Read item by item into `fields`."""
        kind = self._rule.kind
        known = 0
        after_unknown = False
        for item in items(text, start):
            if isinstance(item, int):
                return Failed(kind, len(text) + 1, "a closing `]`", "the end of the line")
            if item.key is None:
                if after_unknown and BARE_NUMBER.fullmatch(item.text):
                    continue
                return _no_pair(kind, item, text)
            reader = self._values.get(item.key)
            if reader is None:
                if self._is_seam(item.key):
                    return Failed(kind, item.at + 1, "one of its keys", word_at(text, item.at))
                after_unknown = True
                continue
            after_unknown = False
            known += 1
            wrong = reader.read(item, text, fields)
            if wrong is not None:
                return wrong
        if not known:
            return Failed(kind, start + 1, "one of its keys", word_at(text, start))
        self._learn(text, start)
        return None

    def _is_seam(self, key: str) -> bool:
        if key in self._passed_over:
            return False
        if is_glued(key, self._keys, self._rule.anchor):
            return True
        if len(self._passed_over) < MOST_KEYS_REMEMBERED:
            self._passed_over.add(key)
        return False

    def _learn(self, text: str, start: int) -> None:
        if self._shapes_made >= SHAPES_IN_A_LIFE or self._tries >= TRIES_IN_A_LIFE:
            return
        self._tries += 1
        shape = shape_of(self._rule, text[start:])
        if shape is None:
            return
        self._shapes_made += 1
        self._shapes.insert(0, (fused(shape.regex), takes(self._rule, shape.groups)))
        del self._shapes[SHAPES_AT_HAND:]


def _no_pair(kind: str, item: Item, text: str) -> Failed:
    at = item.at + len(item.text)
    return Failed(kind, at + 1, "`:` and a value", word_at(text, at))


class ValueReader:
    """One key's value."""

    def __init__(self, rule: Rule, pair: Pair) -> None:
        self._kind = rule.kind
        self._pair = pair
        self._match = fused(f"^{value_regex(pair)}$")
        self._takes = takes(rule, groups_of(tuple(fields_of(pair.value))))

    def read(self, item: Item, text: str, fields: dict[str, Value]) -> Failed | None:
        """Read the value into `fields`."""
        match = self._match(item.value)
        if match is None:
            missed = failure(self._kind, self._pair.value, item.value)
            expected = missed.expected.replace(END, f"`,` or {END}")
            return moved(replace(missed, expected=expected), item.value_at)
        if any(name in fields for name, *_ in self._takes):
            return Failed(self._kind, item.at + 1, "each key once", word_at(text, item.at))
        wrong = take(match, self._takes, fields, self._kind)
        return None if wrong is None else moved(wrong, item.value_at)
