"""Level 1: AST to one regular expression, in the subset that Python's `re` and Rust's regex read alike.

ASCII classes only (`\\d`, `\\w`, `\\s` and case folding differ between the two), no look-around, no back
references, and a newline in no class: the text is one line, blanks at both ends taken off. By what the
checker demands an expression never goes far back, so both engines need time in proportion to the line,
whatever stands in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from logwatch.grammar.ast import Blank, Choice, Field, Gap, Literal, Option, Pairs, Pattern
from logwatch.grammar.chars import BLANKS, END, NOTHING, PAIRS_START, CharSet, Head, first, heads
from logwatch.grammar.kinds import KINDS, Kind

AT_END: Final[tuple[Head, ...]] = ((END,),)
"""What follows a whole pattern."""
ANYTHING: Final[tuple[Head, ...]] = ((),)
"""What follows a beginning (`claim`)."""
PAIRS_GROUP: Final = "pairs__"
UNIT_SUFFIX: Final = "__unit"


@dataclass(frozen=True, slots=True)
class Group:
    """A named field and the groups in which the expression leaves it."""

    name: str
    kind: Kind
    unit_group: str | None


def starts_of(field: Field) -> CharSet:
    """Characters with which a field may begin."""
    kind = KINDS[field.kind]
    if kind.regex is not None:
        return kind.starts | BLANKS if kind.padded and field.padded else kind.starts
    return kind.starts if field.padded else kind.starts.without(BLANKS)


def follows(rest: Pattern, after: tuple[Head, ...]) -> CharSet:
    """Characters with which what follows may begin."""
    chars = NOTHING
    for way in heads(rest, starts_of, after):
        chars |= first(way)
    return chars


def groups_of(fields: tuple[Field, ...]) -> tuple[Group, ...]:
    """The named ones of a pattern's fields."""
    return tuple(
        Group(field.name, KINDS[field.kind], field.name + UNIT_SUFFIX if KINDS[field.kind].units else None)
        for field in fields
        if field.name is not None
    )


def expression(pattern: Pattern, after: tuple[Head, ...] = AT_END) -> str:
    """The expression that matches the pattern, without anchors; named fields are named groups."""
    parts: list[str] = []
    for index, node in enumerate(pattern):
        rest = pattern[index + 1 :]
        match node:
            case Literal(text=text):
                parts.append(escaped(text))
            case Blank():
                parts.append("[ \\t]+")
            case Field():
                parts.append(_field(node, follows(rest, after)))
            case Option(body=body):
                parts.append(f"(?:{expression(body, heads(rest, starts_of, after))})?")
            case Choice(branches=branches):
                behind = heads(rest, starts_of, after)
                parts.append("(?:" + "|".join(expression(branch, behind) for branch in branches) + ")")
            case Gap():
                parts.append("[^\\n]*?")
            case Pairs():
                parts.append(f"(?P<{PAIRS_GROUP}>{PAIRS_START.regex()}[^\\n]*)")
    return "".join(parts)


def anchored(pattern: Pattern) -> str:
    """The expression for a whole text, from its first character to its last."""
    return f"^{expression(pattern)}$"


def field_parts(field: Field, after: CharSet) -> tuple[str, str]:
    """A field's expression without its group, padding and unit; and that of its unit, or empty."""
    kind = KINDS[field.kind]
    if kind.regex is not None:
        units = "|".join(sorted(kind.units, key=len, reverse=True)) if kind.units else ""
        return kind.regex, units
    more = kind.more.without(after)
    start = kind.starts.without(after)
    start = start if field.padded else start.without(BLANKS)
    return (f"{more.regex()}+" if start == more else f"{start.regex()}{more.regex()}*"), ""


def _field(field: Field, after: CharSet) -> str:
    kind = KINDS[field.kind]
    value, units = field_parts(field, after)
    padding = "[ \\t]*" if kind.padded and field.padded else ""
    if field.name is None:
        return f"{padding}(?:{value})" + (f"[ \\t]*(?:{units})" if units else "")
    unit = f"[ \\t]*(?P<{field.name}{UNIT_SUFFIX}>{units})" if units else ""
    return f"{padding}(?P<{field.name}>{value}){unit}"


SPECIAL: Final = frozenset(r"\.+*?()|[]{}^$")


def escaped(text: str) -> str:
    """A literal; other punctuation stays bare, for to Rust some escapes mean what they do not to Python."""
    return "".join(f"\\{char}" if char in SPECIAL else "\\t" if char == "\t" else char for char in text)
