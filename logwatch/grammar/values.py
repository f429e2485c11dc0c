"""Level 1: a match's groups to the fields of a record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

import pyparsing as pp

from logwatch.grammar.expression import UNIT_SUFFIX
from logwatch.grammar.outcomes import Failed, word_at
from logwatch.grammar.vocabulary import NUMBERS, RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from logwatch.grammar.ast import Rule
    from logwatch.grammar.expression import Group
    from logwatch.grammar.kinds import Converter
    from logwatch.model import Value

Match: TypeAlias = "Callable[[str], re.Match[str] | None]"


def fused(regex: str) -> Match:
    """The fused form of a pattern: one pyparsing element, ready to match from a text's first character."""
    return pp.Regex(regex).re.match


Take: TypeAlias = "tuple[str, Converter, bool, float]"
"""Name, converter, whether it has a group for its unit, largest sane value (infinite for no number)."""


def takes(rule: Rule, groups: tuple[Group, ...]) -> tuple[Take, ...]:
    """How to make fields of a match's groups, in the groups' order."""
    slots = RECORDS[rule.kind]
    return tuple(
        (
            group.name,
            group.kind.convert,
            group.unit_group is not None,
            slots[group.name].most if group.kind.gives in NUMBERS else float("inf"),
        )
        for group in groups
    )


def take(
    match: re.Match[str], wanted: tuple[Take, ...], fields: dict[str, Value], kind: str
) -> Failed | None:
    """Put a match's values into `fields`, or say which one is none."""
    for name, convert, has_unit, most in wanted:
        text = match[name]
        if text is None:
            continue
        value = convert(text, match[name + UNIT_SUFFIX] if has_unit else None)
        if value is None or (isinstance(value, (int, float)) and value > most):
            return Failed(
                kind, match.start(name) + 1, _sane(value, most), word_at(match.string, match.start(name))
            )
        fields[name] = value
    return None


def _sane(value: Value | None, most: float) -> str:
    return "a sane value" if value is None else f"at most {most:g}"
