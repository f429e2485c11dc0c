"""Level 1: AST to problems; an empty list promises that both compilers agree, in linear time.

The promise rests on three demands, each of which looks at what may stand next in the line:

- no field can be lengthened by a character with which the rest may begin;
- an optional part and what follows it, and the branches of a choice, start differently;
- a gap (`{...}`) is followed by a literal, and what follows that cannot fail.

So there is one way only to read a line, the first that fits, and no expression ever goes far back.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from logwatch.errors import Problem
from logwatch.grammar.ast import (
    Blank,
    Choice,
    Field,
    Gap,
    Grammar,
    Literal,
    Option,
    Pairs,
    Pattern,
    Rule,
    Source,
    Span,
    fields_of,
)
from logwatch.grammar.chars import BLANKS, END, RUN, CharSet, Head, collide, first, heads
from logwatch.grammar.expression import ANYTHING, AT_END, follows, starts_of
from logwatch.grammar.kinds import KINDS, is_open
from logwatch.grammar.shapes import AFTER_A_VALUE
from logwatch.grammar.vocabulary import EVENTS, RECORDS, fits

NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
SHORTEST_ANCHOR: Final = 3


@dataclass(frozen=True, slots=True)
class PatternProblem(Problem):
    """A problem with a place in a pattern: shown with the pattern and a caret."""

    pattern: str = ""
    position: int = 0

    @classmethod
    def at(cls, source: Source, position: int, what: str, hint: str = "") -> PatternProblem:
        """The problem at a position of a pattern's text."""
        return cls(source.where(position), what, hint, source.text, min(position, len(source.text)))

    def __str__(self) -> str:
        caret = " " * self.position + "^" + (f" {self.hint}." if self.hint else "")
        return f"{self.where}: {self.what}.\n  {self.pattern}\n  {caret}"


def nearest(word: str, known: Sequence[str]) -> str:
    """A hint that names the nearest of the known words, or all of them if few."""
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    return "known: " + ", ".join(known)


def check(grammar: Grammar) -> list[Problem]:
    """All problems of a grammar."""
    problems: list[Problem] = []
    for rule in grammar.rules:
        found = list(_names(rule))
        found.extend(_anchor(rule))
        if not any(_unknown_kinds(rule)):
            found.extend(_ways(rule))
        problems.extend(found)
    return problems


def _unknown_kinds(rule: Rule) -> Iterator[Field]:
    patterns = [rule.pattern, rule.claim or ()]
    return (field for pattern in patterns for field in fields_of(pattern) if field.kind not in KINDS)


def _problem(rule: Rule, key: str, span: Span, what: str, hint: str = "") -> PatternProblem:
    return PatternProblem.at(rule.sources[key], span[0], what, hint)


# --- names, kinds, and the vocabulary of the contract


def _sourced_fields(rule: Rule) -> Iterator[tuple[str, Field]]:
    """Each field with the key of the source in which its span counts."""
    for node in rule.pattern:
        if isinstance(node, Pairs):
            for pair in node.pairs:
                for field in fields_of(pair.value):
                    yield pair.place, field
        else:
            for field in fields_of((node,)):
                yield "pattern", field
    for field in fields_of(rule.claim or ()):
        yield "claim", field


def _names(rule: Rule) -> Iterator[Problem]:
    source = rule.sources["pattern"]
    slots = RECORDS.get(rule.kind)
    if slots is None:
        yield Problem(
            source.where(0), f"No record is of the kind `{rule.kind}`", nearest(rule.kind, list(RECORDS))
        )
        slots = {}
    seen = set(rule.constants) | ({rule.whole} if rule.whole else set())
    for key, field in _sourced_fields(rule):
        kind = KINDS.get(field.kind)
        if kind is None:
            yield _problem(rule, key, field.span, f"No kind `{field.kind}`", nearest(field.kind, list(KINDS)))
        if field.name is None:
            continue
        if key == "claim":
            yield _problem(rule, key, field.span, "A claim keeps no fields", f"write {{:{field.kind}}}")
        elif not NAME.fullmatch(field.name):
            yield _problem(
                rule, key, field.span, f"`{field.name}` is no field name", "small letters, digits and _"
            )
        elif field.name in seen:
            yield _problem(rule, key, field.span, f"Field `{field.name}` occurs twice", "each name once")
        elif slots and field.name not in slots:
            yield _problem(
                rule,
                key,
                field.span,
                f"A record `{rule.kind}` has no field `{field.name}`",
                nearest(field.name, list(slots)),
            )
        elif slots and kind is not None and not fits(kind.gives, slots[field.name]):
            yield _problem(
                rule,
                key,
                field.span,
                f"Field `{field.name}` is of the type {slots[field.name].gives}, which the kind `{kind.name}` does not give",
                "try " + ", ".join(f"`{k.name}`" for k in KINDS.values() if fits(k.gives, slots[field.name])),
            )
        seen.add(field.name)
    yield from _constants(rule)


def _constants(rule: Rule) -> Iterator[Problem]:
    where = rule.sources["pattern"].where(0)
    slots = RECORDS.get(rule.kind, {})
    for name, value in rule.constants.items():
        if name not in slots or slots[name].gives != "text":
            yield Problem(where, f"`set` gives `{name}`, which is no text field of `{rule.kind}`")
        elif name == "event" and value not in EVENTS:
            yield Problem(where, f"No event `{value}`", nearest(value, sorted(EVENTS)))
    if rule.whole is not None and (rule.whole not in slots or slots[rule.whole].gives != "text"):
        yield Problem(where, f"`whole` gives `{rule.whole}`, which is no text field of `{rule.kind}`")
    if rule.kind == "event" and "event" not in rule.constants:
        yield Problem(where, "An event has no name", 'add set = { event = "..." }')
    if not (rule.constants or rule.whole or any(_mandatory(rule.pattern))):
        yield Problem(
            where,
            "No field is mandatory, so the record could be empty",
            "give one outside {?...?} and {|...|}",
        )


def _mandatory(pattern: Pattern) -> Iterator[bool]:
    for node in pattern:
        if isinstance(node, Field):
            yield node.name is not None
        elif isinstance(node, Pairs):
            yield bool(node.pairs)  # a list without any known key is malformed
        elif isinstance(node, Option) and any(isinstance(n, Field) and n.name for n in node.body):
            yield False


# --- the anchor


def _anchor(rule: Rule) -> Iterator[Problem]:
    source = rule.sources["anchor"]
    if len(rule.anchor) < SHORTEST_ANCHOR or not rule.anchor.isprintable():
        yield PatternProblem.at(source, 0, f"An anchor has at least {SHORTEST_ANCHOR} printable characters")
    elif rule.anchor not in _certain_text(rule.pattern):
        yield PatternProblem.at(
            source,
            0,
            f"The anchor `{rule.anchor}` does not stand in every line that the pattern matches",
            "take a literal from outside {?...?} and {|...|}",
        )


def _certain_text(pattern: Pattern) -> str:
    """The text that stands in every match, other parts as line breaks."""
    parts = []
    for node in pattern:
        parts.append(node.text if isinstance(node, Literal) else " " if isinstance(node, Blank) else "\n")
    return "".join(parts)


# --- one way only


def _ways(rule: Rule) -> Iterator[Problem]:
    yield from _Ways(rule, "pattern").check(rule.pattern, AT_END)
    for end in (rule.pattern[0], rule.pattern[-1]):
        if isinstance(end, Blank):
            yield _problem(
                rule, "pattern", end.span, "Blanks at the ends of a line never count", "leave it out"
            )
    if rule.claim:
        yield from _Ways(rule, "claim").check(rule.claim, ANYTHING)
    for node in rule.pattern:
        if isinstance(node, Pairs):
            yield from _pairs(rule, node)


def _pairs(rule: Rule, node: Pairs) -> Iterator[Problem]:
    if node is not rule.pattern[-1]:
        yield _problem(rule, "pattern", node.span, "{pairs} takes the rest of the line", "put it last")
    if not node.pairs:
        yield _problem(
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
            seen.add(key)
        if any(isinstance(part, Literal) and any(c in part.text for c in ",[") for part in _flat(pair.value)):
            yield PatternProblem.at(source, 0, "A value holds no comma and no bracket: they part the list")
        yield from _Ways(rule, pair.place).check(pair.value, AFTER_A_VALUE)


def _flat(pattern: Pattern) -> Iterator[Literal]:
    for node in pattern:
        match node:
            case Literal():
                yield node
            case Option(body=body):
                yield from _flat(body)
            case Choice(branches=branches):
                for branch in branches:
                    yield from _flat(branch)
            case _:
                pass


class _Ways:
    """Looks for places of one pattern where a line could be read in two ways."""

    def __init__(self, rule: Rule, key: str) -> None:
        self._rule = rule
        self._key = key

    def check(self, pattern: Pattern, after: tuple[Head, ...]) -> Iterator[Problem]:
        for index, node in enumerate(pattern):
            rest = pattern[index + 1 :]
            behind = heads(rest, starts_of, after)
            match node:
                case Field():
                    yield from self._field(node, follows(rest, after), rest, after)
                case Blank():
                    if follows(rest, after).meets(BLANKS):
                        yield self._at(
                            node.span, "After this blank another may follow", "one of them is enough"
                        )
                case Option(body=body):
                    if _may_be_empty(body):
                        yield self._at(
                            node.span, "A part that may be missing holds nothing that must be there"
                        )
                    for one in heads(body, starts_of, ((),)):
                        if any(collide(one, other) for other in behind):
                            yield self._at(
                                node.span,
                                "This part and what follows it may start alike",
                                "begin it with something else",
                            )
                            break
                    yield from self.check(body, behind)
                case Choice(branches=branches):
                    yield from self._choice(node, behind)
                    for branch in branches:
                        yield from self.check(branch, behind)
                case Gap():
                    yield from self._gap(node, rest, after)
                case Literal(text=text):
                    if "\n" in text:
                        yield self._at(node.span, "A line has no line break in it")
                case Pairs():
                    if after != AT_END:
                        yield self._at(node.span, "{pairs} takes the rest of the line", "put it last")

    def _at(self, span: Span, what: str, hint: str = "") -> Problem:
        return _problem(self._rule, self._key, span, what, hint)

    def _field(
        self, field: Field, behind: CharSet, rest: Pattern, after: tuple[Head, ...]
    ) -> Iterator[Problem]:
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
                else "try another literal here",
            )

    def _choice(self, node: Choice, behind: tuple[Head, ...]) -> Iterator[Problem]:
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
            if isinstance(part, Choice):
                parts = [inner for branch in part.branches for inner in branch]
            else:
                parts = [part]
            if not all(isinstance(inner, (Literal, Blank)) for inner in parts):
                yield self._at(
                    node.span,
                    "Between {...} and the end only literals may stand, and perhaps {:text} at the end",
                )
                return
        if after != AT_END:
            yield self._at(node.span, "{...} stands outside of {?...?} and {|...|} only")


def _may_be_empty(pattern: Pattern) -> bool:
    return all(isinstance(node, Option) for node in pattern)


__all__ = ["END", "RUN", "PatternProblem", "check", "first", "nearest"]
