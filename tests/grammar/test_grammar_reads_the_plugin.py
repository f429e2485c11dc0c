"""The plugin writes what the grammar reads: each number comes back, to the digits that were written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwatch.emitter.lines import Report, environment_text, report_text
from logwatch.grammar.load import load_grammars
from logwatch.grammar.streaming import Parsed, Reader

READER = Reader(load_grammars())
seconds = st.floats(0, 100)


@given(
    st.integers(1, 10**6),
    st.floats(0, 10**4),
    st.none() | st.floats(0, 1),
    st.dictionaries(st.sampled_from(["draft", "verify", "extend"]), seconds),
    st.dictionaries(st.sampled_from(["draft", "verify", "extend"]), seconds),
    st.lists(seconds, max_size=5),
    st.none() | st.floats(0, 100),
    st.booleans(),
)
def test_every_line_of_a_report_is_a_record(
    cycles, batch, graph, phases, launches, verifies, accepted, whole
):
    """Whatever the plugin measures, no line of its report is malformed or passed over."""
    text = report_text(Report(cycles, batch, graph, phases, launches, verifies, accepted, whole))
    records = [READER.read(line) for line in text.splitlines()]
    assert all(isinstance(record, Parsed) for record in records), text
    report = records[0].fields
    assert report["cycles"] == cycles
    assert report["batch_size"] == pytest.approx(batch, abs=0.051)
    assert ("graph_percent" in report) == (graph is not None)
    measured = {
        record.fields["phase"]: record.fields["seconds"] for record in records if record.kind == "phase"
    }
    names = {"draft": "draft_forward", "verify": "target_verify", "extend": "draft_extend"}
    for phase, value in phases.items():
        assert measured[names[phase]] == pytest.approx(value, abs=0.0000051)
    assert [r.fields["accepted_drafts"] for r in records if r.kind == "accept"] == (
        [] if accepted is None else [pytest.approx(accepted, abs=0.0051)]
    )
    assert sum(record.kind == "spread" for record in records) == bool(verifies)
    assert sum(record.kind == "launch" for record in records) == bool(launches)


names = st.from_regex(r"NCCL_[A-Z][A-Z_]{0,10}", fullmatch=True)


@given(
    st.dictionaries(
        names, st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=15), min_size=1
    )
)
def test_the_environment_comes_back(environ):
    """Names and values, also values with blanks, line breaks and signs; values not told stay hidden."""
    text = environment_text(environ)
    assert text is not None
    record = READER.read(text)
    assert isinstance(record, Parsed)
    assert record.kind == "environment"
    told = record.fields["variables"]
    assert list(told) == sorted(environ)
    assert all(value in {environ[name], "(set)"} for name, value in told.items())
