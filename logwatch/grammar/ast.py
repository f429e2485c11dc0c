"""Level 1: a handful of frozen nodes, each with its span.

A pattern is a tuple of nodes. Nothing here knows how a pattern is written (`notation`), whether it makes
sense (`check`) or what becomes of it (`streaming`, `rust`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""Where a node stands in its pattern's text: first character and the one behind the last, from 0."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly this text. Holds no blanks, unless it was quoted."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Blank:
    """One or more blanks or tabs."""

    span: Span


@dataclass(frozen=True, slots=True)
class Field:
    """A typed value; without a name it is matched and forgotten.

    Attributes:
        kind: Name of a kind of `kinds.KINDS` (the checker complains if there is none).
        padded: Whether blanks may stand before it: numbers are padded in logs. False where the pattern has a
            blank in front already.
    """

    name: str | None
    kind: str
    span: Span
    padded: bool = True


@dataclass(frozen=True, slots=True)
class Option:
    """A part that may be missing."""

    body: Pattern
    span: Span


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several parts, the first that fits."""

    branches: tuple[Pattern, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Gap:
    """Anything, up to the first occurrence of the literal behind it."""

    span: Span


@dataclass(frozen=True, slots=True)
class Pair:
    """One known key of a list, and the pattern of its value.

    Attributes:
        keys: Spellings of the key, any of which may occur, one of them at most.
        place: Key of `Rule.sources`, for messages.
    """

    keys: tuple[str, ...]
    value: Pattern
    place: str


@dataclass(frozen=True, slots=True)
class Pairs:
    """The rest of the line as an unordered list `key: value, key: value`; unknown keys are passed over."""

    pairs: tuple[Pair, ...]
    span: Span


Node: TypeAlias = Literal | Blank | Field | Option | Choice | Gap | Pairs
Pattern: TypeAlias = tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A pattern's text and where in its file it stands.

    Attributes:
        path: The grammar file.
        line: Line of the text's first character, from 1.
        columns: Column, from 1, of each character of `text` and of the one behind the last.
    """

    path: str
    line: int
    columns: tuple[int, ...]
    text: str

    def where(self, position: int) -> str:
        """`file:line:column` of a position in the text."""
        return f"{self.path}:{self.line}:{self.columns[min(position, len(self.text))]}"


@dataclass(frozen=True, slots=True)
class Rule:
    """How one kind of record is written: one `[record.NAME]` table.

    Attributes:
        name: Name of the table; unique in its grammar.
        kind: Kind of the record that it gives (contract, section 4.1); several rules may give one kind.
        anchor: A literal that stands in every wanted line. A line without it never meets the rule.
        claim: How a line starts that is either this record or malformed; None: what does not match is no
            near miss.
        whole: Name of the field that gets the line's whole text, or None.
        constants: Fields that do not stand in the line.
        sources: Text and place of `pattern`, `claim`, `anchor`, and each pair (by its `Pair.place`).
    """

    name: str
    kind: str
    anchor: str
    pattern: Pattern
    claim: Pattern | None
    whole: str | None
    constants: Mapping[str, str]
    sources: Mapping[str, Source] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Grammar:
    """One grammar file.

    Attributes:
        ignore: Texts; a line that starts with one of them is passed over whatever it holds.
    """

    name: str
    path: str
    rules: tuple[Rule, ...]
    ignore: tuple[str, ...] = ()
    about: str = ""


def fields_of(pattern: Pattern) -> Iterator[Field]:
    """All fields of a pattern, named or not, in order; pairs' fields too."""
    for node in pattern:
        match node:
            case Field():
                yield node
            case Option(body=body):
                yield from fields_of(body)
            case Choice(branches=branches):
                for branch in branches:
                    yield from fields_of(branch)
            case Pairs(pairs=pairs):
                for pair in pairs:
                    yield from fields_of(pair.value)
            case _:
                pass


def literals_of(pattern: Pattern) -> Iterator[Literal]:
    """All literals of a pattern, in order; not those of pairs' values."""
    for node in pattern:
        match node:
            case Literal():
                yield node
            case Option(body=body):
                yield from literals_of(body)
            case Choice(branches=branches):
                for branch in branches:
                    yield from literals_of(branch)
            case _:
                pass


def beginning(pattern: Pattern) -> str:
    """The text with which every match begins, a run of blanks as one."""
    text = ""
    for node in pattern:
        if isinstance(node, Literal):
            text += node.text
        elif isinstance(node, Blank):
            text += " "
        else:
            break
    return text


def settled(pattern: Pattern, *, after_blank: bool = False) -> Pattern:
    """The pattern with `Field.padded` put right: no field asks for blanks that stand before it already."""
    return _settle(pattern, after_blank=after_blank)[0]


def _settle(pattern: Pattern, *, after_blank: bool) -> tuple[Pattern, bool]:
    """Also says whether the pattern may end in a blank."""
    nodes: list[Node] = []
    for node in pattern:
        match node:
            case Blank():
                nodes.append(node)
                after_blank = True
            case Field():
                nodes.append(Field(node.name, node.kind, node.span, padded=not after_blank))
                after_blank = False
            case Option(body=body, span=span):
                inner, blank_inside = _settle(body, after_blank=after_blank)
                nodes.append(Option(inner, span))
                after_blank = after_blank or blank_inside
            case Choice(branches=branches, span=span):
                settled_branches = [_settle(branch, after_blank=after_blank) for branch in branches]
                nodes.append(Choice(tuple(inner for inner, _ in settled_branches), span))
                after_blank = any(blank for _, blank in settled_branches)
            case Pairs(pairs=pairs, span=span):
                # A value starts right behind the key's colon and blanks: never padded.
                nodes.append(
                    Pairs(
                        tuple(Pair(p.keys, settled(p.value, after_blank=True), p.place) for p in pairs), span
                    )
                )
                after_blank = False
            case _:
                nodes.append(node)
                after_blank = False
    return tuple(nodes), after_blank
