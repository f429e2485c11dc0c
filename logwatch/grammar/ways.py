"""Level 1: finds where a line could be read in two ways (the checker's three demands, see `check`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from logwatch.errors import Problem
from logwatch.grammar.ast import (
    Blank,
    Choice,
    Field,
    Gap,
    Literal,
    Option,
    Pairs,
    Pattern,
    Rule,
    Span,
    fields_of,
    literals_of,
)
from logwatch.grammar.chars import BLANKS, Head, collide, heads
from logwatch.grammar.expression import ANYTHING, AT_END, follows, starts_of
from logwatch.grammar.kinds import KINDS, is_open
from logwatch.grammar.problems import PatternProblem, at_span
from logwatch.grammar.shapes import AFTER_A_VALUE


def ways(rule: Rule) -> Iterator[Problem]:
    """Every place of a rule's patterns where a line could be read in two ways or a part cannot stand."""
    yield from _Ways(rule, "pattern").check(rule.pattern, AT_END)
    for end in (rule.pattern[0], rule.pattern[-1]):
        if isinstance(end, Blank):
            yield at_span(
                rule, "pattern", end.span, "Blanks at the ends of a line never count", "leave it out"
            )
    claim = rule.claim or ()
    if claim and isinstance(claim[-1], Blank):
        yield at_span(rule, "claim", claim[-1].span, "A claim does not end in a blank", "leave it out")
        claim = claim[:-1]
    yield from _Ways(rule, "claim").check(claim, ANYTHING)
    for node in rule.pattern:
        if isinstance(node, Pairs):
            yield from _pairs(rule, node)


def _pairs(rule: Rule, node: Pairs) -> Iterator[Problem]:
    if node is not rule.pattern[-1]:
        yield at_span(rule, "pattern", node.span, "{pairs} takes the rest of the line", "put it last")
    if not node.pairs:
        yield at_span(
            rule, "pattern", node.span, "{pairs} has no keys", f"add a table [record.{rule.name}.pairs]"
        )
    seen: set[str] = set()
    for pair in node.pairs:
        source = rule.sources[pair.place]
        for key in pair.keys:
            if not key or any(char in key for char in ":=,[]"):
                yield PatternProblem.at(source, 0, f"`{key}` is no key", "keys hold none of : = , [ ]")
            elif key in seen:
                yield PatternProblem.at(source, 0, f"Key `{key}` occurs twice")
            elif "|" in key:
                yield PatternProblem.at(source, 0, f"`{key}` is no key", "other spellings follow after ` | `")
            seen.add(key)
        if not any(field.name for field in fields_of(pair.value)):
            yield PatternProblem.at(source, 0, "This value gives no field", "write {name:kind}")
        if any(char in literal.text for literal in literals_of(pair.value) for char in ",["):
            yield PatternProblem.at(source, 0, "A value holds no comma and no bracket: they part the list")
        yield from _Ways(rule, pair.place).check(pair.value, AFTER_A_VALUE)


UNIT: Final = re.compile(r"(?:ns|us|\u00b5s|\u03bcs|ms|s|sec|seconds)(?![A-Za-z0-9_])")


class _Ways:
    """Looks for places of one pattern where a line could be read in two ways."""

    def __init__(self, rule: Rule, key: str) -> None:
        self._rule = rule
        self._key = key

    def check(self, pattern: Pattern, after: tuple[Head, ...]) -> Iterator[Problem]:
        """All such places of the pattern, given what follows it."""
        for index, node in enumerate(pattern):
            rest = pattern[index + 1 :]
            behind = heads(rest, starts_of, after)
            match node:
                case Field():
                    yield from self._field(node, rest, after)
                case Blank():
                    if follows(rest, after).meets(BLANKS):
                        yield self._at(
                            node.span, "After this blank another may follow", "one of them is enough"
                        )
                case Option(body=body):
                    yield from self._option(node, behind)
                    yield from self.check(body, behind)
                case Choice(branches=branches):
                    yield from self._choice(node)
                    for branch in branches:
                        yield from self.check(branch, behind)
                case Gap():
                    yield from self._gap(node, rest, after)
                case Pairs() if after != AT_END:
                    yield self._at(node.span, "{pairs} takes the rest of the line", "put it last")
                case _:
                    pass

    def _option(self, node: Option, behind: tuple[Head, ...]) -> Iterator[Problem]:
        if _may_be_empty(node.body):
            yield self._at(node.span, "A part that may be missing holds nothing that must be there")
        for one in heads(node.body, starts_of, ((),)):
            if any(collide(one, other) for other in behind):
                what = "This part and what follows it may start alike"
                yield self._at(node.span, what, "begin it with something else")
                return

    def _at(self, span: Span, what: str, hint: str = "") -> Problem:
        return at_span(self._rule, self._key, span, what, hint)

    def _field(self, field: Field, rest: Pattern, after: tuple[Head, ...]) -> Iterator[Problem]:
        behind = follows(rest, after)
        kind = KINDS[field.kind]
        shown = f"Field `{field.name}`" if field.name else "A field"
        end = (field.span[1], field.span[1])
        if kind.last and (rest or after not in {AT_END, AFTER_A_VALUE}):
            yield self._at(field.span, f"{shown} ({kind.name}) takes the rest of the line", "put it last")
        elif is_open(kind):
            if kind.starts.without(behind).without(BLANKS).sample() is None:
                yield self._at(
                    end,
                    f"Nothing says where {shown[0].lower()}{shown[1:]} ({kind.name}) ends",
                    "put a literal here",
                )
        elif kind.more.meets(behind):
            char = (
                next((c for c in " .0123456789eEsa" if c in kind.more and c in behind), None) or "character"
            )
            yield self._at(
                end,
                f"{shown} ({kind.name}) could swallow the `{char}` after it"
                if char != " "
                else f"{shown} ({kind.name}) could swallow the blank after it",
                "try a blank or a letter here, or the kind `int`"
                if kind.gives in {"real", "seconds", "share"}
                else "it may hold blanks: let `:` or `=` follow, or take the kind `word`"
                if kind.name == "label"
                else "try another literal here",
            )
        if kind.units and (unit := _unit_again(rest)):
            yield self._at(unit.span, f"{shown} ({kind.name}) has its unit already", "leave this out")

    def _choice(self, node: Choice) -> Iterator[Problem]:
        starts: list[tuple[int, Head]] = []
        for number, branch in enumerate(node.branches, start=1):
            if _may_be_empty(branch):
                yield self._at(node.span, f"Branch {number} of this choice may be empty", "use {?...?}")
            for one in heads(branch, starts_of, ((),)):
                clash = next((n for n, other in starts if n != number and collide(one, other)), None)
                if clash is not None:
                    yield self._at(node.span, f"Branches {clash} and {number} of this choice may start alike")
                    return
                starts.append((number, one))

    def _gap(self, node: Gap, rest: Pattern, after: tuple[Head, ...]) -> Iterator[Problem]:
        if not rest or not isinstance(rest[0], (Literal, Choice)):
            yield self._at(node.span, "After {...} a literal must follow", "say where the gap ends")
            return
        *fixed, last = rest
        if isinstance(last, Option) and len(last.body) == 1:
            last = last.body[0]
        tail_is_text = isinstance(last, Field) and last.kind == "text"
        for part in fixed if tail_is_text else rest:
            branches = part.branches if isinstance(part, Choice) else ((part,),)
            if not all(isinstance(inner, (Literal, Blank)) for branch in branches for inner in branch):
                yield self._at(
                    node.span,
                    "Between {...} and the end only literals may stand, and perhaps {:text} at the end",
                )
                return
        if after != AT_END:
            yield self._at(node.span, "{...} stands outside of {?...?} and {|...|} only")


def _unit_again(rest: Pattern) -> Literal | None:
    """The unit that follows a field which reads its unit itself."""
    node = next((part for part in rest if not isinstance(part, Blank)), None)
    return node if isinstance(node, Literal) and UNIT.match(node.text) else None


def _may_be_empty(pattern: Pattern) -> bool:
    return all(isinstance(node, Option) for node in pattern)
