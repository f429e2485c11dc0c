"""Pattern texts to nodes, and what is said of texts that are no pattern."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwatch.grammar.ast import Blank, Choice, Field, Gap, Literal, Option, Pairs
from logwatch.grammar.notation import NotationError, parse


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        pytest.param("abc", (Literal("abc", (0, 3)),), id="literal"),
        pytest.param("a  b", (Literal("a", (0, 1)), Blank((1, 3)), Literal("b", (3, 4))), id="blanks"),
        pytest.param("{n:int}", (Field("n", "int", (0, 7)),), id="field"),
        pytest.param("{:int}", (Field(None, "int", (0, 6)),), id="field without a name"),
        pytest.param(
            "a {n:int}",
            (Literal("a", (0, 1)), Blank((1, 2)), Field("n", "int", (2, 9), padded=False)),
            id="field behind a blank",
        ),
        pytest.param("{?a?}", (Option((Literal("a", (2, 3)),), (0, 5)),), id="option"),
        pytest.param(
            "{?.?}?",
            (Option((Literal(".", (2, 3)),), (0, 5)), Literal("?", (5, 6))),
            id="question mark as text",
        ),
        pytest.param(
            "{|a|b|}", (Choice(((Literal("a", (2, 3)),), (Literal("b", (4, 5)),)), (0, 7)),), id="choice"
        ),
        pytest.param("a|b", (Literal("a|b", (0, 3)),), id="bar as text"),
        pytest.param("{'{ |'}", (Literal("{ |", (0, 7)),), id="quoted"),
        pytest.param(
            "{'{'}" * 20,
            tuple(Literal("{", (at, at + 5)) for at in range(0, 100, 5)),
            id="quoted braces are no depth",
        ),
        pytest.param("{...}x", (Gap((0, 5)), Literal("x", (5, 6))), id="gap"),
        pytest.param("x {pairs}", (Literal("x", (0, 1)), Blank((1, 2)), Pairs((), (2, 9))), id="pairs"),
        pytest.param(
            "{? ?}{n:int}",
            (Option((Blank((2, 3)),), (0, 5)), Field("n", "int", (5, 12), padded=False)),
            id="field behind a blank that may be missing",
        ),
    ],
)
def test_nodes(text, nodes):
    """Each part of the notation gives its node, with its place."""
    assert parse(text) == nodes


@pytest.mark.parametrize(
    ("text", "position", "what"),
    [
        pytest.param("", 0, "An empty pattern", id="empty"),
        pytest.param("a }", 2, "`}` closes nothing", id="stray brace"),
        pytest.param("a ?}", 2, "`?}` closes nothing", id="stray end of an option"),
        pytest.param("a {n:int", 2, "`{n:int` is no part", id="open brace"),
        pytest.param("a {n}", 2, "names no kind", id="no kind"),
        pytest.param("a {b|c}", 2, "is no part", id="choice without bars"),
        pytest.param("a {n int}", 2, "is none of", id="no colon"),
        pytest.param("a {?b", 5, "Expected `?}`, but the pattern ends here", id="open option"),
        pytest.param("a {|b|", 6, "but the pattern ends here", id="open choice"),
        pytest.param("{|a||b|}", 4, "Expected a text or a part in braces", id="empty branch"),
        pytest.param("{??}", 2, "closes nothing", id="empty option"),
        pytest.param("a\nb", 1, "no line breaks", id="line break"),
        pytest.param("a" * 5000, 4000, "at most 4000", id="too long"),
        pytest.param("{?" * 20, 24, "nested deeper than 12", id="too deep"),
    ],
)
def test_mistakes(text, position, what):
    """A text that is no pattern says where and why."""
    with pytest.raises(NotationError) as raised:
        parse(text)
    assert raised.value.position == position
    assert what in raised.value.what


@given(st.text(alphabet="ab {}?|:'.n", max_size=30))
def test_any_text_is_a_pattern_or_a_mistake(text):
    """Nothing but `NotationError` comes out, and spans cover the text from end to end."""
    try:
        nodes = parse(text)
    except NotationError as error:
        position = error.position
    else:
        position = 0
        assert nodes[0].span[0] == 0
        assert nodes[-1].span[1] == len(text)
        assert all(left.span[1] == right.span[0] for left, right in pairwise(nodes))
    assert 0 <= position <= len(text)
