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
    from logwatch.grammar.kinds import Converter, Kind
    from logwatch.model import Value

Match: TypeAlias = "Callable[[str], re.Match[str] | None]"


def fused(regex: str) -> Match:
    """The fused form of a pattern: one pyparsing element, ready to match from a text's first character."""
    return pp.Regex(regex).re.match


Take: TypeAlias = "tuple[str, Converter, bool, float, str]"
"""Name, converter, whether it has a group for its unit, largest sane value (infinite for no number), what is wanted."""


def takes(rule: Rule, groups: tuple[Group, ...]) -> tuple[Take, ...]:
    """How to make fields of a match's groups, in the groups' order."""
    slots = RECORDS[rule.kind]
    return tuple(
        (
            group.name,
            group.kind.convert,
            group.unit_group is not None,
            slots[group.name].most if group.kind.gives in NUMBERS else float("inf"),
            _sane(group.kind),
        )
        for group in groups
    )


def _sane(kind: Kind) -> str:
    if kind.gives in NUMBERS:
        return "a sane number"
    return kind.noun if kind.gives == "map" else "a sane value"


def take(
    match: re.Match[str], wanted: tuple[Take, ...], fields: dict[str, Value], kind: str
) -> Failed | None:
    """Put a match's values into `fields`, or say which one is none."""
    for name, convert, has_unit, most, noun in wanted:
        text = match[name]
        if text is None:
            continue
        value = convert(text, match[name + UNIT_SUFFIX] if has_unit else None)
        if value is None or (isinstance(value, (int, float)) and value > most):
            at = match.start(name)
            return Failed(
                kind,
                at + 1,
                noun if value is None else f"a number of at most {most:g}",
                word_at(match.string, at),
            )
        fields[name] = value
    return None
