"""Both stages of judging as the pipeline runs them: whatever comes, in whatever order, cut wherever."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from judging_samples import cycle, through
from pydantic import TypeAdapter

from logwatch.judging.bands import DEFAULT_BAND, Band, Rules
from logwatch.judging.incidents import Incidents, IncidentsMemory
from logwatch.judging.judgements import Judgements, JudgementsMemory
from logwatch.model import Incident, Malformed, Place, Read, Record, RunStarted

RANKS = st.sampled_from([None, "TP0", "TP1", "DP1 TP0"])
BANDS = (DEFAULT_BAND, Band("target_verify", 0.005, 0.006, when={"batch_size": 8}, per_context_token_s=2e-6))
RULES = Rules(baseline_tokens_per_second=82.2)
JUDGEMENTS, INCIDENTS = TypeAdapter(JudgementsMemory), TypeAdapter(IncidentsMemory)


def cycles():
    return st.builds(
        lambda value, rank, tokens, batch, context, warm_up, extra: cycle(
            phases={"target_verify": value, **extra},
            rank=rank,
            tokens=tokens,
            warm_up=warm_up,
            batch_size=batch,
            context_tokens=context,
        ),
        st.sampled_from([0.0, 0.005, 0.019, 0.0191, 0.029, 0.045]),
        RANKS,
        st.sampled_from([None, 1.0, 1.9, 3.3]),
        st.sampled_from([None, 1.0, 3.5, 8.0]),
        st.sampled_from([None, 0.0, 500.0, 1900.0]),
        st.booleans(),
        st.sampled_from([{}, {"draft_forward": 0.0005, "draft_extend": 0.0005, "total_cycle": 0.03}]),
    )


def records():
    place = Place("x.log", -1, 1)
    text = st.sampled_from(["", "1", "NET/Socket/0", "Capture draft extend CUDA graph begin.", "x" * 500])
    field = st.one_of(text, st.booleans(), st.integers(0, 100), st.floats(0, 1))
    names = st.sampled_from(
        ["graph", "running_requests", "tokens_per_cycle", "token_usage", "event", "text", "variable", "value",
         "transport", "pid", "method"]
    )  # fmt: skip
    kinds = st.sampled_from(
        ["decode", "prefill", "event", "nccl_setting", "nccl_transport", "environment", "access"]
    )
    return st.builds(
        lambda kind, fields, rank: Record(place, kind, fields, rank=rank),
        kinds,
        st.dictionaries(names, field, max_size=5),
        RANKS,
    )


def others():
    place = Place("x.log", -1, 1)
    starts = st.builds(
        lambda run, settings: RunStarted(place, "node7", run, None, settings),
        st.integers(0, 3),
        st.sampled_from([{}, {"tp_size": "8"}, {"tp_size": "4"}, {"tp_size": "8", "port": "3"}]),
    )
    return starts | st.sampled_from(
        [Malformed(place, "decode", 3, "a number", "x"), Read("node7", "x.log", 10, 1, 0, 1, 0)]
    )


ITEMS = st.lists(cycles() | cycles() | records() | others(), max_size=60)


@given(items=ITEMS, cut=st.integers(0, 60))
@settings(max_examples=80, deadline=None)
def test_whatever_comes_a_restart_changes_nothing(items, cut):
    """No items break the stages, and memory written as JSON in between gives the same incidents."""
    whole = list(through(items, Judgements(BANDS, RULES), Incidents(BANDS, RULES)))
    first = Judgements(BANDS, RULES), Incidents(BANDS, RULES)
    head = list(through(items[:cut], *first))
    second = Judgements(BANDS, RULES), Incidents(BANDS, RULES)
    for stage, old, adapter in zip(second, first, (JUDGEMENTS, INCIDENTS), strict=True):
        stage.memory = adapter.validate_json(json.dumps(json.loads(adapter.dump_json(old.memory))))
    assert head + list(through(items[cut:], *second)) == whole


@given(items=ITEMS)
@settings(max_examples=40, deadline=None)
def test_an_incident_opens_before_it_changes_and_resolves_once(items):
    """By key: opened first, and nothing after resolved."""
    states = {}
    for item in through(items, Judgements(BANDS, RULES), Incidents(BANDS, RULES)):
        if isinstance(item, Incident):
            before = states.get(item.key)
            if item.change == "opened":
                assert before in {None, "resolved"}
            else:
                assert before in {"opened", "worsened", "explained"}
            states[item.key] = item.change


def test_memory_does_not_grow_with_names():
    """Ten thousand ranks and phases are remembered no longer than two thousand."""
    sizes = []
    for count in (2000, 10_000):
        stages = Judgements(BANDS, RULES), Incidents(BANDS, RULES)
        reports = (
            cycle(
                phases={"target_verify": 0.03, f"phase_{n}": 0.01},
                line=n,
                rank=f"TP{n}",
                tokens=1.9,
                batch_size=1.0,
            )
            for n in range(count)
        )
        for _ in through(reports, *stages):
            pass
        sizes.append(
            sum(len(a.dump_json(s.memory)) for a, s in zip((JUDGEMENTS, INCIDENTS), stages, strict=True))
        )
    assert sizes[1] < 1.2 * sizes[0]
    assert sizes[1] < 2_000_000
