"""Level 1: a pattern's text to the AST (itself a small pyparsing grammar).

| written | matches |
|---|---|
| `Decode batch` | these characters; a blank stands for one or more blanks or tabs |
| `{tokens:int}` | a field; `{:int}` is matched and forgotten |
| `{?, batch {n:int}?}` | a part that may be missing |
| `{|begin|end|}` | one of several parts |
| `{'{'}` | exactly the characters between the quotes |
| `{...}` | anything, up to the first occurrence of the literal behind it |
| `{pairs}` | the rest of the line, `key: value, key: value`, keys as the table `pairs` lists them |
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

import pyparsing as pp

from logwatch.grammar.ast import Blank, Choice, Field, Gap, Literal, Option, Pair, Pairs, settled

if TYPE_CHECKING:
    from logwatch.grammar.ast import Node, Pattern

LONGEST_PATTERN = 4000
DEEPEST = 12
QUOTED: Final = re.compile(r"\{'(?P<quoted>[^']+)'\}")


class NotationError(Exception):
    """A pattern that cannot be read.

    Attributes:
        position: Where in the text, from 0.
        what: What is wrong, a sentence without its full stop.
        hint: What to try, or empty.
    """

    def __init__(self, position: int, what: str, hint: str = "") -> None:
        super().__init__(position, what, hint)
        self.position = position
        self.what = what
        self.hint = hint


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


def literal(text: str) -> Pattern:
    """The pattern of a text as it stands, in which a brace is a brace; a run of blanks matches any other."""
    parts = re.finditer(r"[ \t]+|[^ \t]+", text)
    return tuple(
        Blank(part.span()) if part[0][0] in " \t" else Literal(part[0], part.span()) for part in parts
    )


def _check_depth(text: str) -> None:
    depth = 0
    for position, char in enumerate(QUOTED.sub(lambda quoted: " " * len(quoted[0]), text)):
        depth += (char == "{") - (char == "}")
        if depth > DEEPEST:
            raise NotationError(position, f"Parts are nested deeper than {DEEPEST}")


PART: Final = re.compile(r"\{[^{}]{0,40}\}?")
OPEN_FIELD: Final = re.compile(r"\{[A-Za-z_]*:[a-z]")
BARE_NAME: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
BARE_CHOICE: Final = re.compile(r"\{([^{}:|?]+(?:\|[^{}:|?]+)+)\}")
OPEN_OR_CLOSED: Final = re.compile(rf"{QUOTED.pattern}|\{{[?|]|[?|]\}}")


def _explained(error: pp.ParseBaseException, text: str) -> tuple[int, str, str]:
    at = error.loc
    found = text[at : at + 12]
    if found.startswith(("?}", "|}", "}")):
        closer = found[: 1 if found[0] == "}" else 2]
        if at == 0 or text[at - 1] != "|":
            opened = _open_part(text[:at])
            hint = f"write {{'{found[0]}'}} for the character"
            if opened and closer == "}":
                hint = f"`{opened}` is closed by `{opened[1]}}}`"
            return at, f"`{closer}` closes nothing", hint
    if found.startswith("{"):
        return at, *_no_part(text, at)
    expected = (error.msg or "").removeprefix("Expected ").replace("'", "`")
    expected = expected if expected in {"`?}`", "`|}`"} else "a text or a part in braces"
    return at, f"Expected {expected}, " + (f"found `{found}`" if found else "but the pattern ends here"), ""


def _open_part(text: str) -> str | None:
    """How the innermost part that a text leaves open begins."""
    opened: list[str] = []
    for mark in OPEN_OR_CLOSED.finditer(text):
        if mark[0] in {"{?", "{|"}:
            opened.append(mark[0])
        elif opened and not mark["quoted"]:
            opened.pop()
    return opened[-1] if opened else None


def _no_part(text: str, at: int) -> tuple[str, str]:
    """What is wrong with braces that hold no part, and what may have been meant."""
    part = PART.match(text, at)
    shown = part[0] if part else text[at]
    if name := BARE_NAME.fullmatch(shown):
        return f"`{shown}` names no kind of field", f"write {{{name[1]}:real}}, {{{name[1]}:int}} or another"
    if choice := BARE_CHOICE.fullmatch(shown):
        return f"`{shown}` is no part of a pattern", f"a choice is written {{|{choice[1]}|}}"
    if not shown.endswith("}") and not shown.startswith(("{?", "{|")):
        hint = "close it with `}`, or " if OPEN_FIELD.match(shown) else ""
        return f"`{shown}` is no part of a pattern", f"{hint}write {{'{{'}} for the character `{{`"
    kinds = "{name:kind}, {?...?}, {|...|...|}, {'...'}, {...}, {pairs}"
    return f"`{shown}` is none of {kinds}", "write {'{'} for the character `{`"


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
    quoted = _exact(pp.Regex(QUOTED))
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
