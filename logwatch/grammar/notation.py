"""Level 1: a pattern's text to the AST (itself a small pyparsing grammar).

Decode batch these characters; a blank stands for one or more blanks or tabs {tokens:int} a field; `{:int}`
is matched and forgotten {?, batch {n:int}?} a part that may be missing {|begin|end|} one of several parts
{'{'} exactly the characters between the quotes {...} anything, up to the first occurrence of the literal
behind it {pairs} the rest of the line, `key: value, key: value`, keys as the table `pairs` lists them
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pyparsing as pp

from logwatch.grammar.ast import Blank, Choice, Field, Gap, Literal, Option, Pair, Pairs, settled

if TYPE_CHECKING:
    from logwatch.grammar.ast import Node, Pattern

LONGEST_PATTERN = 4000
DEEPEST = 12


class NotationError(Exception):
    """A pattern that cannot be read.

    Attributes:
        position: Where in the text, from 0.
        what: What is wrong, a sentence without its full stop.
    """

    def __init__(self, position: int, what: str) -> None:
        super().__init__(position, what)
        self.position = position
        self.what = what


def parse(text: str, pairs: tuple[Pair, ...] = ()) -> Pattern:
    """Read one pattern.

    Args:
        text: The pattern as the grammar file writes it.
        pairs: What `{pairs}` stands for.

    Raises:
        NotationError: At the first thing that is not of the notation.
    """
    if not text:
        raise NotationError(0, "An empty pattern matches nothing")
    if len(text) > LONGEST_PATTERN:
        raise NotationError(LONGEST_PATTERN, f"A pattern has at most {LONGEST_PATTERN} characters")
    for position, char in enumerate(text):
        if char != "\t" and not char.isprintable():
            raise NotationError(position, "A pattern has no line breaks and no control characters")
    _check_depth(text)
    try:
        nodes = _notation().parse_string(text, parse_all=True).as_list()
    except pp.ParseBaseException as error:
        raise NotationError(*_explained(error, text)) from None
    return settled(_with_pairs(tuple(nodes), pairs))


def _check_depth(text: str) -> None:
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth > DEEPEST:
            raise NotationError(position, f"Parts are nested deeper than {DEEPEST}")


def _explained(error: pp.ParseBaseException, text: str) -> tuple[int, str]:
    found = text[error.loc : error.loc + 12]
    if found.startswith(("?}", "|}", "}")):
        closer = found[: 1 if found[0] == "}" else 2]
        if error.loc == 0 or text[error.loc - 1] != "|":
            return error.loc, f"`{closer}` closes nothing; write {{'{found[0]}'}} for the character"
    if found.startswith("{"):
        return (
            error.loc,
            f"`{found}` is none of {{name:kind}}, {{?...?}}, {{|...|...|}}, {{'...'}}, {{...}}, {{pairs}}",
        )
    expected = (error.msg or "").removeprefix("Expected ").replace("'", "`")
    expected = expected if expected in {"`?}`", "`|}`"} else "a text or a part in braces"
    return error.loc, f"Expected {expected}, " + (
        f"found `{found}`" if found else "but the pattern ends here"
    )


def _with_pairs(pattern: Pattern, pairs: tuple[Pair, ...]) -> Pattern:
    def replaced(node: Node) -> Node:
        match node:
            case Pairs(span=span):
                return Pairs(pairs, span)
            case Option(body=body, span=span):
                return Option(_with_pairs(body, pairs), span)
            case Choice(branches=branches, span=span):
                return Choice(tuple(_with_pairs(branch, pairs) for branch in branches), span)
            case _:
                return node

    return tuple(replaced(node) for node in pattern)


@cache
def _notation() -> pp.ParserElement:
    """The notation's own grammar. The inside of a choice differs: there a `|` ends the branch."""
    outside, inside = _exact(pp.Forward()), _exact(pp.Forward())
    here = _exact(pp.Empty().set_parse_action(lambda _text, at, _tokens: at))

    blank = _exact(pp.Regex(r"[ \t]+"))
    blank.set_parse_action(lambda _text, at, tokens: Blank((at, at + len(tokens[0]))))
    quoted = _exact(pp.Regex(r"\{'(?P<quoted>[^']+)'\}"))
    quoted.set_parse_action(lambda _text, at, tokens: Literal(tokens["quoted"], (at, at + len(tokens[0]))))
    gap = _exact(pp.Literal("{...}")).set_parse_action(lambda _text, at, _tokens: Gap((at, at + 5)))
    pairs = _exact(pp.Literal("{pairs}")).set_parse_action(lambda _text, at, _tokens: Pairs((), (at, at + 7)))
    field = _exact(pp.Regex(r"\{(?P<name>[^{}:?|'. ]*):(?P<kind>[^{}:?|' ]*)\}")).set_parse_action(_field)

    opener, closer = _exact(pp.Literal("{?")).suppress(), _exact(pp.Literal("?}")).suppress()
    option = _exact(opener - outside - closer + here).set_parse_action(_option)
    opener, closer = _exact(pp.Literal("{|")).suppress(), _exact(pp.Literal("|}")).suppress()
    branch = _exact(pp.Group(inside))
    more = _exact(pp.ZeroOrMore(_exact(_exact(pp.Regex(r"\|(?!\})")).suppress() - branch)))
    choice = _exact(opener - branch + more - closer + here).set_parse_action(_choice)

    braced = _exact(quoted | gap | pairs | option | choice | field)
    words = [_exact(pp.Regex(rf"(?:[^{{}}?{bar} \t]|\?(?!\}}))+")) for bar in ("", "|")]
    for word in words:
        word.set_parse_action(lambda _text, at, tokens: Literal(tokens[0], (at, at + len(tokens[0]))))
    _fill(outside, blank | words[0] | braced)
    _fill(inside, blank | words[1] | braced)
    return outside.parse_with_tabs()


def _fill(forward: pp.ParserElement, part: pp.ParserElement) -> None:
    """Say what a `Forward` stands for: one or more of a part."""
    assert isinstance(forward, pp.Forward)
    forward <<= _exact(pp.OneOrMore(_exact(part)))


def _exact(element: pp.ParserElement) -> pp.ParserElement:
    """The element without pyparsing's habit of skipping blanks first: in a pattern they count."""
    return element.leave_whitespace(recursive=False)


def _field(_text: str, at: int, tokens: pp.ParseResults) -> Field:
    return Field(tokens["name"] or None, tokens["kind"], (at, at + len(tokens[0])))


def _option(_text: str, at: int, tokens: pp.ParseResults) -> Option:
    *body, end = tokens.as_list()
    return Option(tuple(body), (at, end))


def _choice(_text: str, at: int, tokens: pp.ParseResults) -> Choice:
    *branches, end = tokens.as_list()
    return Choice(tuple(tuple(branch) for branch in branches), (at, end))
