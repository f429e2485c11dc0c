"""Level 1: AST to problems; an empty list promises that both compilers agree, in linear time.

The promise rests on three demands, each of which looks at what may stand next in the line:

- no field can be lengthened by a character with which the rest may begin;
- an optional part and what follows it, and the branches of a choice, start differently;
- a gap (`{...}`) is followed by a literal, and what follows that cannot fail.

So there is one way only to read a line, the first that fits, and no expression ever goes far back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from logwatch.errors import Problem
from logwatch.grammar.ast import Blank, Field, Grammar, Literal, Option, Pairs, Pattern, Rule, fields_of
from logwatch.grammar.kinds import KINDS
from logwatch.grammar.problems import PatternProblem, at_span, nearest
from logwatch.grammar.vocabulary import EVENTS, RECORDS, fits
from logwatch.grammar.ways import ways

NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
SHORTEST_ANCHOR: Final = 3


def check(grammar: Grammar) -> list[Problem]:
    """All problems of a grammar."""
    problems: list[Problem] = []
    for rule in grammar.rules:
        found = list(_names(rule))
        found.extend(_anchor(rule))
        if not any(_unknown_kinds(rule)):
            found.extend(ways(rule))
        problems.extend(found)
    return problems


def _unknown_kinds(rule: Rule) -> Iterator[Field]:
    patterns = [rule.pattern, rule.claim or ()]
    return (field for pattern in patterns for field in fields_of(pattern) if field.kind not in KINDS)


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
            yield at_span(rule, key, field.span, f"No kind `{field.kind}`", nearest(field.kind, list(KINDS)))
        if field.name is None:
            continue
        if key == "claim":
            yield at_span(rule, key, field.span, "A claim keeps no fields", f"write {{:{field.kind}}}")
        elif not NAME.fullmatch(field.name):
            yield at_span(
                rule, key, field.span, f"`{field.name}` is no field name", "small letters, digits and _"
            )
        elif field.name in seen:
            yield at_span(rule, key, field.span, f"Field `{field.name}` occurs twice", "each name once")
        elif slots and field.name not in slots:
            yield at_span(
                rule,
                key,
                field.span,
                f"A record `{rule.kind}` has no field `{field.name}`",
                nearest(field.name, list(slots)),
            )
        elif slots and kind is not None and not fits(kind.gives, slots[field.name]):
            yield at_span(
                rule,
                key,
                field.span,
                f"Field `{field.name}` wants the type {slots[field.name].gives}, `{kind.name}` gives another",
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
    return "".join(
        node.text if isinstance(node, Literal) else " " if isinstance(node, Blank) else "\n"
        for node in pattern
    )
