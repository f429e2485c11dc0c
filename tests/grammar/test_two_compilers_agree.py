"""Both compilers give the same records: on random grammars and lines, and on every line of the fixtures."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyparsing as pp
import pytest
from grammar_kit import fitting, grammars, lines_for, list_grammars
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from logwatch.grammar.elements import _traced
from logwatch.grammar.load import load_grammars
from logwatch.grammar.rust import BulkReader, rules
from logwatch.grammar.shapes import fixed_shape, pairs_of
from logwatch.grammar.streaming import Reader
from logwatch.grammar.values import fused
from logwatch.model import Line, Place
from logwatch.reading.framing import Framing

ROOT = Path(__file__).parents[2]
LOGS = sorted([*ROOT.glob("fixtures/logs/*.log"), *ROOT.glob("fixtures/logs/*/*.log")])
often = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


def agree(grammars_, texts):
    """Assert that both readers give the same for each text."""
    reader, bulk = Reader(grammars_), BulkReader(grammars_)
    column = pl.Series(texts, dtype=pl.String)
    singly = read_singly(reader, texts)
    assert list(bulk.read(column).outcomes()) == singly
    # Once more: now both know the shapes of the lists.
    assert list(bulk.read(column).outcomes()) == singly
    assert read_singly(reader, texts) == singly


def read_singly(reader, texts):
    outcomes = ((row, reader.read(text)) for row, text in enumerate(texts))
    return [(row, outcome) for row, outcome in outcomes if outcome is not None]


@often
@given(st.data())
def test_random_grammars_and_lines(data):
    """Whatever grammar the checker accepts, and whatever the line: streaming and bulk give one outcome."""
    grammar = data.draw(grammars())
    assume(grammar is not None)
    agree((grammar,), data.draw(lines_for(grammar)))


@often
@given(st.data())
def test_random_lists_of_pairs(data):
    """Lists in any order, with unknown keys, torn and cut: streaming and bulk give one outcome."""
    grammar = data.draw(list_grammars())
    agree((grammar,), data.draw(lines_for(grammar)))


@often
@given(st.data())
def test_shipped_grammars_and_lines_near_them(data):
    """Lines made by the shipped grammars' own patterns, with blemishes: streaming and bulk give one outcome."""
    grammar = data.draw(st.sampled_from(SHIPPED))
    agree(SHIPPED, data.draw(lines_for(grammar)))


@often
@given(st.data())
def test_the_element_form_matches_what_the_fused_form_matches(data):
    """What explains a failure agrees with what found it: elements and expression accept the same texts."""
    grammar = data.draw(grammars())
    assume(grammar is not None)
    (rule,) = grammar.rules
    text = data.draw(fitting(rule.pattern)).strip(" \t")
    matched = fused(fixed_shape(rule).regex)(text) is not None
    element, _ = _traced(rule.pattern)
    try:
        element.parse_string(text)
    except pp.ParseException:
        accepted = False
    else:
        accepted = True
    assert accepted == matched


SHIPPED = load_grammars()


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_fixture_log(path):
    """Each line of the fixtures' logs, framed and as it stands."""
    texts = []
    framing = Framing()
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        texts.append(text)
        texts.extend(frame.text for frame in framing.feed(Line(Place(str(path), 0, number), text)))
    agree(SHIPPED, texts)


def test_rust_reads_every_expression():
    """The shipped expressions are in the subset that Rust knows, and have the groups that they claim."""
    for rule in rules(SHIPPED):
        struct = pl.Series([""]).str.extract_groups(rule.regex)
        names = {field.name for field in struct.dtype.fields}
        assert set(rule.groups) <= names, rule.name


@pytest.mark.parametrize(
    "text",
    [
        "server_args=ServerArgs(model_path='m', served_model_name='memory leak detected!')",
        "server_args=None falling back to eager path",
        "Decode batch, #running-req: 0000000000000001, x: CUDA error: y",
    ],
)
def test_the_first_rule_wins_in_columns_too(text):
    """A line that columns cannot hold is not left to a rule that comes later."""
    agree(SHIPPED, [text] * 3)


def test_odd_values_do_not_use_up_the_shapes():
    """A line that columns cannot hold (sixteen digits, still sane) is read singly, in every chunk, and no more."""
    bulk = BulkReader(SHIPPED)
    odd = pl.Series(["Decode batch, #running-req: 0000000000000001, #token: 5"])
    for _ in range(70):
        assert [outcome.fields["running_requests"] for _, outcome in bulk.read(odd).singles] == [1]
    plain = pl.Series(["Decode batch, #token: 5, #running-req: 1"])
    assert bulk.read(plain).singles == []


def test_lists_are_read_as_columns():
    """Decode lines of one shape are one table: nothing of them is read singly."""
    line = "Decode batch, #running-req: {}, #token: 5, token usage: 0.02, new: [1, 2], gen throughput (token/s): 3.2, "
    result = BulkReader(SHIPPED).read(pl.Series([line.format(n) for n in range(50)]))
    assert result.singles == []
    assert [(table.kind, table.frame.height) for table in result.tables] == [("decode", 50)]
    assert any(pairs_of(rule) for grammar in SHIPPED for rule in grammar.rules)
