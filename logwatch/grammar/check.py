"""Level 1: AST to problems; an empty list promises that both compilers agree, in linear time.

The promise rests on three demands, each of which looks at what may stand next in the line:

- no field can be lengthened by a character with which the rest may begin;
- an optional part and what follows it, and the branches of a choice, start differently;
- a gap (`{...}`) is followed by a literal, and what follows that cannot fail.

So there is one way only to read a line, the first that fits, and no expression ever goes far back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from logwatch.errors import Problem
from logwatch.grammar.ast import (
    Blank,
    Field,
    Grammar,
    Literal,
    Option,
    Pairs,
    Pattern,
    Rule,
    fields_of,
    literals_of,
)
from logwatch.grammar.kinds import KINDS
from logwatch.grammar.problems import PatternProblem, at_span, nearest
from logwatch.grammar.vocabulary import EVENTS, NEEDED, RECORDS, Slot, fits
from logwatch.grammar.ways import ways

NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
SHORTEST_ANCHOR: Final = 3
OTHERWISE_CALLED: Final = {
    "float": "real",
    "double": "real",
    "number": "real",
    "decimal": "real",
    "integer": "int",
    "digits": "int",
    "boolean": "bool",
    "str": "word",
    "string": "word",
    "any": "text",
    "date": "timestamp",
    "datetime": "timestamp",
    "time": "timestamp",
    "seconds": "s",
    "milliseconds": "ms",
    "microseconds": "us",
    "\u00b5s": "us",
    "\u03bcs": "us",
}
"""Kinds by the names that they have elsewhere."""
REGULAR: Final = re.compile(r"\(\?[:P<=!]|[.\])][*+]|\)\?|\\[dwsDWS](?![A-Za-z])|\[(?:\^|0-9|a-z|A-Z)")
"""What stands in regular expressions, and hardly in a log."""


def check(grammar: Grammar) -> list[Problem]:
    """All problems of a grammar."""
    problems: list[Problem] = []
    for rule in grammar.rules:
        found = list(_names(rule))
        found.extend(_anchor(rule))
        found.extend(_regular(rule))
        if not any(_unknown_kinds(rule)):
            found.extend(ways(rule))
        problems.extend(found)
    return problems


def _unknown_kinds(rule: Rule) -> Iterator[Field]:
    patterns = [rule.pattern, rule.claim or ()]
    return (field for pattern in patterns for field in fields_of(pattern) if field.kind not in KINDS)


# --- names, kinds, and the vocabulary of the contract


def _sourced(rule: Rule) -> Iterator[tuple[str, Pattern]]:
    """Each pattern of a rule with the key of the source in which its spans count."""
    for node in rule.pattern:
        if isinstance(node, Pairs):
            for pair in node.pairs:
                yield pair.place, pair.value
        else:
            yield "pattern", (node,)
    yield "claim", rule.claim or ()


def _regular(rule: Rule) -> Iterator[Problem]:
    for key, pattern in _sourced(rule):
        if key == "claim" and rule.sources.get("claim") is rule.sources["anchor"]:
            continue
        for literal in literals_of(pattern):
            found = REGULAR.search(literal.text)
            if found and literal.span[1] - literal.span[0] == len(literal.text):  # not in quotes
                at = (literal.span[0] + found.start(), literal.span[1])
                what = f"`{found[0]}` looks like a regular expression, which a pattern is not"
                hint = f"a value is {{name:kind}}; these very characters are {{'{found[0]}'}}"
                yield at_span(rule, key, at, what, hint)
                break


def _names(rule: Rule) -> Iterator[Problem]:
    source = rule.sources["pattern"]
    slots = RECORDS.get(rule.kind)
    if slots is None:
        what = f"No record is of the kind `{rule.kind}`"
        hint = nearest(rule.kind, list(RECORDS))
        yield Problem(source.where(0), what, hint if "?" in hint else f'say one: kind = "..."; {hint}')
        slots = {}
    seen = set(rule.constants) | ({rule.whole} if rule.whole else set())
    understood = bool(slots)
    for key, pattern in _sourced(rule):
        for field in fields_of(pattern):
            wrong = _wrong(rule, field, slots, seen, is_claim=key == "claim")
            for what, hint in wrong:
                yield at_span(rule, key, field.span, what, hint)
            understood = understood and not wrong
            if field.name and key != "claim":
                seen.add(field.name)
    if understood:
        yield from _missing(rule, seen)
    if slots:
        yield from _constants(rule)


def _wrong(
    rule: Rule, field: Field, slots: Mapping[str, Slot], seen: set[str], *, is_claim: bool
) -> list[tuple[str, str]]:
    """What is wrong with a field, each with a hint."""
    kind = KINDS.get(field.kind)
    wrong = [] if kind else [(f"No kind `{field.kind}`", _kind_meant(field, slots))]
    name = field.name
    slot = slots.get(name) if name else None
    if name is None or field.kind in slots:
        return wrong
    if is_claim:
        wrong.append(("A claim keeps no fields", f"write {{:{field.kind}}}"))
    elif not NAME.fullmatch(name):
        wrong.append((f"`{name}` is no field name", "small letters, digits and _"))
    elif name in seen:
        wrong.append((f"Field `{name}` occurs twice", "each name once"))
    elif slots and not slot:
        wrong.append((f"A record `{rule.kind}` has no field `{name}`", nearest(name, list(slots))))
    elif slot and kind and not fits(kind.gives, slot):
        what = f"Field `{name}` wants the type {slot.gives}, `{kind.name}` gives another"
        fitting = [f"`{other.name}`" for other in KINDS.values() if fits(other.gives, slot)]
        wrong.append((what, "try " + ", ".join(fitting)))
    return wrong


def _kind_meant(field: Field, slots: Mapping[str, Slot]) -> str:
    """What an unknown kind may have meant."""
    if field.kind in slots:
        return f"the name comes first: {{{field.kind}:{field.name if field.name in KINDS else 'kind'}}}"
    if field.kind in OTHERWISE_CALLED:
        return f"did you mean `{OTHERWISE_CALLED[field.kind]}`?"
    return nearest(field.kind, list(KINDS))


def _constants(rule: Rule) -> Iterator[Problem]:
    where = rule.sources["pattern"].where(0)
    slots = RECORDS[rule.kind]
    for name, value in rule.constants.items():
        if name not in slots or slots[name].gives != "text":
            yield Problem(where, f"`set` gives `{name}`, which is no text field of `{rule.kind}`")
        elif name == "event" and value not in EVENTS:
            yield Problem(where, f"No event `{value}`", nearest(value, sorted(EVENTS)))
    if rule.whole is not None and (rule.whole not in slots or slots[rule.whole].gives != "text"):
        yield Problem(where, f"`whole` gives `{rule.whole}`, which is no text field of `{rule.kind}`")


def _missing(rule: Rule, seen: set[str]) -> Iterator[Problem]:
    where = rule.sources["pattern"].where(0)
    missing = [name for name in NEEDED.get(rule.kind, ()) if name not in seen]
    for name in missing:
        is_text = RECORDS[rule.kind][name].gives == "text"
        way = f'set = {{ {name} = "..." }}' if is_text else f"{{{name}:kind}}"
        yield Problem(where, f"A record `{rule.kind}` says nothing without `{name}`", f"add {way}")
    if not (missing or rule.constants or rule.whole or any(_mandatory(rule.pattern))):
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
    elif rule.anchor not in (certain := _certain_text(rule.pattern)):
        at = certain.lower().find(rule.anchor.lower())
        yield PatternProblem.at(
            source,
            0,
            f"The anchor `{rule.anchor}` does not stand in every line that the pattern matches",
            f"did you mean `{certain[at : at + len(rule.anchor)]}`?"
            if at >= 0
            else "take a literal from outside {?...?} and {|...|}",
        )


def _certain_text(pattern: Pattern) -> str:
    """The text that stands in every match, other parts as line breaks."""
    return "".join(
        node.text if isinstance(node, Literal) else " " if isinstance(node, Blank) else "\n"
        for node in pattern
    )
