"""A line takes time linear in its length, whatever it holds and whatever grammar reads it: no line can hang us."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import pytest
from fuzz_lines import LIMIT, Line, atoms, by_grammars, by_pipeline, growth, lines
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from logwatch.grammar.load import load_grammars

sys.path.append(str(Path(__file__).parents[1] / "grammar"))
from grammar_kit import grammars, list_grammars

SHIPPED = load_grammars()
READ = by_pipeline(SHIPPED)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(Line("", "{[2026-02-11 08:15:02 TP0] ", ""), id="prefixes, each before a brace"),
        pytest.param(Line("", '{[2026-02-11 08:15:02 TP0] {"a', '"msg"'), id="objects that never end"),
        pytest.param(Line("Decode batch, ", "x: [1, ", ""), id="brackets that never close"),
        pytest.param(Line("server_args=A(", "a='", ""), id="quotes that never close"),
    ],
)
def test_lines_that_once_took_longer(line):
    """What took quadratic time once, or looks most like it."""
    assert growth(READ, line) <= LIMIT


@pytest.mark.parametrize("grammar", SHIPPED, ids=lambda grammar: grammar.name)
def test_shipped_grammars(grammar):
    """Every anchor and literal of a shipped grammar, repeated, and behind its own beginnings."""
    read = by_grammars((grammar,))
    own = [rule.anchor for rule in grammar.rules]
    tried = [*islice(lines(atoms((grammar,)), 7), 2 * len(atoms((grammar,))) + 30)]
    tried += [Line(begin, piece, "") for begin in own[:6] for piece in atoms((grammar,))[::5]]
    slow = [(ratio, line) for line in tried if (ratio := growth(read, line)) > LIMIT]
    assert slow == []


def test_the_whole_way():
    """Random lines of wrappings, anchors and signs, from bytes to incidents."""
    slow = [
        (ratio, line)
        for line in islice(lines(atoms(SHIPPED), 3), 400, 500)
        if (ratio := growth(READ, line)) > LIMIT
    ]
    assert slow == []


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(grammars(), list_grammars()), st.integers(0, 1000))
def test_grammars_that_anybody_may_write(grammar, seed):
    """Whatever grammar the checker accepts: lines of its own literals and of signs."""
    assume(grammar is not None)
    read = by_grammars((grammar,))
    own = [piece for piece in atoms((grammar,)) if piece not in atoms(())] or ["ANCHOR"]
    for line in (*islice(lines(["ANCHOR", *own, " ", "0", "a"], seed), 12, 20), Line("ANCHOR", own[-1], "!")):
        assert growth(read, line) <= LIMIT, line
