"""Level 1: the fused form of a list of pairs.

A program writes the same keys in the same order thousands of times. From one line that was read item by
item a `Shape` is made: the expression of all lines with these keys in this order, every known value in a
named group. Both compilers read lists this way; what has no known shape is read item by item, which gives
the same by definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from logwatch.grammar.ast import Pair, Pairs, fields_of
from logwatch.grammar.chars import END, PAIRS_START, Head
from logwatch.grammar.expression import Group, escaped, expression, groups_of
from logwatch.grammar.pairs import BARE_NUMBER, items

if TYPE_CHECKING:
    from logwatch.grammar.ast import Rule

AFTER_A_VALUE: Final[tuple[Head, ...]] = ((",",), (END,))
"""What follows a value: so an open kind in it stops at the comma."""
SEPARATOR: Final = r",[ \t]*"
"""Blanks before the comma belong to the part: a value that is passed over takes them with it."""
PASSED_OVER: Final = r"[^,\[\n]*"
BRACKETS: Final = rf"(?:\[[^\]\n]*\]{PASSED_OVER})*"
MOST_ITEMS: Final = 60


@dataclass(frozen=True, slots=True)
class Shape:
    """An expression that matches every line of one shape, and the groups in it."""

    regex: str
    groups: tuple[Group, ...]


def pairs_of(rule: Rule) -> Pairs | None:
    """The rule's list of pairs, if it has one; the checker lets it stand at the end only."""
    last = rule.pattern[-1] if rule.pattern else None
    return last if isinstance(last, Pairs) else None


def fixed_shape(rule: Rule) -> Shape:
    """The only shape of a rule without pairs."""
    return Shape(f"^{expression(rule.pattern)}$", groups_of(tuple(fields_of(rule.pattern))))


def head_shape(rule: Rule) -> Shape:
    """Of a rule with pairs: what stands before them, with the list itself as one group."""
    fields = tuple(field for node in rule.pattern[:-1] for field in fields_of((node,)))
    return Shape(f"^{expression(rule.pattern)}$", groups_of(fields))


def value_regex(pair: Pair) -> str:
    """Expression of one pair's value, up to the comma or the end."""
    return expression(pair.value, AFTER_A_VALUE)


def shape_of(rule: Rule, pairs_text: str) -> Shape | None:
    """The shape of a line that was read item by item without complaint.

    Args:
        rule: The rule that read it.
        pairs_text: The line's list, from its first key to the end.

    Returns:
        None for a list that is better read item by item: very long, or with `key=value`.
    """
    node = pairs_of(rule)
    if node is None:
        return None
    known = {key: pair for pair in node.pairs for key in pair.keys}
    parts: list[str] = []
    fields: list[Pair] = []
    for item in items(pairs_text):
        if isinstance(item, int) or len(parts) >= MOST_ITEMS:
            return None
        if item.key is None:
            parts.append(BARE_NUMBER.pattern + "[ \\t]*")
            continue
        if not item.text.startswith(f"{item.key}:"):
            return None
        pair = known.get(item.key)
        if pair is None:
            parts.append(f"{escaped(item.key)}:{PASSED_OVER}" + (BRACKETS if "[" in item.value else ""))
        else:
            parts.append(f"{escaped(item.key)}:[ \\t]*{value_regex(pair)}[ \\t]*")
            fields.append(pair)
    head = expression(rule.pattern[:-1], ((PAIRS_START,),))
    groups = groups_of(
        tuple(field for node in rule.pattern[:-1] for field in fields_of((node,)))
        + tuple(field for pair in fields for field in fields_of(pair.value))
    )
    return Shape(f"^{head}{SEPARATOR.join(parts)},?$", groups)
