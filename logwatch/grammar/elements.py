"""Level 1: AST to pyparsing elements: to say what was expected where, and to draw railroad diagrams.

Slow (some thousand lines a second), so only lines that failed in the fused form come here.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyparsing as pp

from logwatch.grammar.ast import Blank, Choice, Field, Gap, Literal, Option, Pairs, Pattern
from logwatch.grammar.chars import CharSet, Head, heads
from logwatch.grammar.expression import AT_END, escaped, field_parts, follows, starts_of
from logwatch.grammar.kinds import KINDS
from logwatch.grammar.outcomes import Failed, word_at

if TYPE_CHECKING:
    from collections.abc import Callable

    Watch = Callable[[int, str, int], None]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What was expected at a position (from 0) of a text."""

    position: int
    what: str


def expectation(pattern: Pattern, text: str) -> Expectation:
    """Why a text is none of this pattern's: the furthest place reached, and what would have fitted there."""
    element, trace = _traced(pattern)
    trace.clear()
    with contextlib.suppress(pp.ParseBaseException):
        element.parse_string(text, parse_all=False)
    position = max(trace, default=0)
    missed = trace.get(position, [])
    # Where something must come, what may come besides is no help.
    least = min((depth for _, depth in missed), default=0)
    names = [name for name, depth in missed if depth == least]
    return Expectation(position, _joined(names or ["nothing more"]))


def failure(kind: str, pattern: Pattern, text: str) -> Failed:
    """The failure of a text that begins like a record of this kind."""
    missed = expectation(pattern, text)
    return Failed(kind, missed.position + 1, missed.what, word_at(text, missed.position))


def _joined(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))[:4]
    return unique[0] if len(unique) == 1 else ", ".join(unique[:-1]) + " or " + unique[-1]


@lru_cache(maxsize=256)
def _traced(pattern: Pattern) -> tuple[pp.ParserElement, dict[int, list[tuple[str, int]]]]:
    """The pattern's elements, and where they note what they missed: position to names.

    The number with a name says in how many parts it stood that may be missing.
    """
    trace: dict[int, list[tuple[str, int]]] = {}

    def watch(position: int, name: str, depth: int) -> None:
        trace.setdefault(position, []).append((name, depth))

    end = _leaf(pp.Regex("$"), "the end of the line", watch, depth=0)
    return _exact(_sequence(pattern, AT_END, watch, depth=0) + end), trace


def diagram_element(pattern: Pattern) -> pp.ParserElement:
    """The pattern as elements with speaking names, for a railroad diagram."""
    return _sequence(pattern, AT_END, None, depth=0)


def _sequence(
    pattern: Pattern, after: tuple[Head, ...], watch: Watch | None, *, depth: int
) -> pp.ParserElement:
    """Elements of a pattern.

    Args:
        pattern: What to match.
        after: What follows it.
        watch: Is told what was missed where; None for a diagram.
        depth: In how many parts it stands that may be missing.
    """
    elements: list[pp.ParserElement] = []
    for index, node in enumerate(pattern):
        rest = pattern[index + 1 :]
        behind = heads(rest, starts_of, after)
        match node:
            case Literal(text=text):
                elements.append(_leaf(pp.Literal(text), f"`{text}`", watch, depth=depth))
            case Blank():
                elements.append(_leaf(pp.Regex(r"[ \t]+"), "a blank", watch, depth=depth))
            case Field():
                elements.extend(_field(node, follows(rest, after), watch, depth=depth))
            case Option(body=body):
                elements.append(_exact(pp.Opt(_sequence(body, behind, watch, depth=depth + 1))))
            case Choice(branches=branches):
                ways = [_sequence(branch, behind, watch, depth=depth) for branch in branches]
                elements.append(_exact(pp.MatchFirst(ways)))
            case Gap():
                elements.append(_exact(_gap(rest)))
            case Pairs():
                elements.append(_pairs(node, watch))
    return elements[0] if len(elements) == 1 else _exact(pp.And(elements))


def _exact(element: pp.ParserElement) -> pp.ParserElement:
    return element.leave_whitespace(recursive=False).parse_with_tabs()


def _leaf(element: pp.ParserElement, name: str, watch: Watch | None, *, depth: int) -> pp.ParserElement:
    element = _exact(element.set_name(name))
    if watch is not None:

        def failed(_text: str, at: int, _element: pp.ParserElement, _error: Exception) -> None:
            watch(at, name, depth)

        element.set_fail_action(failed)
    return element


def _field(field: Field, behind: CharSet, watch: Watch | None, *, depth: int) -> list[pp.ParserElement]:
    kind = KINDS[field.kind]
    value, units = field_parts(field, behind)
    elements: list[pp.ParserElement] = []
    if kind.padded and field.padded:
        elements.append(_exact(pp.Regex(r"[ \t]*").set_name("blanks")))
    noun = kind.noun if watch is not None or field.name is None else f"{field.name}: {kind.noun}"
    elements.append(_leaf(pp.Regex(value), noun, watch, depth=depth))
    if units:
        elements.append(_exact(pp.Regex(r"[ \t]*").set_name("blanks")))
        elements.append(_leaf(pp.Regex(units), "a unit of time", watch, depth=depth))
    return elements


def _gap(rest: Pattern) -> pp.ParserElement:
    target = rest[0]
    if isinstance(target, Choice):
        texts = [_literal_regex(branch) for branch in target.branches]
        return pp.SkipTo(pp.Regex("|".join(texts))).set_name("anything")
    literals = []
    for node in rest:
        if not isinstance(node, (Literal, Blank)):
            break
        literals.append(node)
    return pp.SkipTo(pp.Regex(_literal_regex(tuple(literals)))).set_name("anything")


def _literal_regex(pattern: Pattern) -> str:
    return "".join(escaped(node.text) if isinstance(node, Literal) else "[ \\t]+" for node in pattern)


def _pairs(node: Pairs, watch: Watch | None) -> pp.ParserElement:
    if watch is not None:
        # Lists are explained item by item elsewhere: here only that one begins.
        return _leaf(pp.Regex(r"[^ \t\[,].*"), "a list of `key: value`", watch, depth=0)
    choices: list[Any] = []
    for pair in node.pairs:
        keys = (
            pp.MatchFirst([pp.Literal(key) for key in pair.keys])
            if len(pair.keys) > 1
            else pp.Literal(pair.keys[0])
        )
        choices.append(keys + pp.Literal(":") + _sequence(pair.value, AT_END, None, depth=0))
    other = pp.Regex(r"[^:,]+:[^,]*").set_name("any other key: value")
    return pp.OneOrMore(pp.MatchFirst([*choices, other]) + pp.Opt(pp.Literal(",")))
