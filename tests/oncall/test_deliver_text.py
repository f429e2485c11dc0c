"""The words of alerts, and that a log cannot put words into them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oncall_kit import LINKS, NOW_S, incident

from logwatch.judging import watches
from logwatch.judging.causes import RULES, SILENCE
from logwatch.judging.stretch import Rule
from logwatch.model import Cause, Limits
from logwatch.outlets import deliver_text as text
from logwatch.outlets.deliver_alerts import Book, enter


@given(st.text(), st.integers(5, 50))
def test_clean_text_is_one_visible_line(value, limit):
    """Whatever a log holds, a message gets one line of visible characters of bounded length."""
    line = text.clean(value, limit)
    assert len(line) <= limit
    assert line.isprintable()
    assert text.clean(line, limit) == line


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_log_text_never_breaks_a_message(stream, evidence, rank):
    """Stream names, evidence and ranks of any content give annotations without control characters, and JSON."""
    hostile = incident(
        stream=stream, rank=rank, phase=stream or "x", causes=(Cause("nccl_env_lost", evidence, 1.0),)
    )
    update = enter(Book(), hostile, LINKS, NOW_S, 0.3)
    for value in [*update.body["annotations"].values(), *update.body["labels"].values()]:
        assert value.isprintable()
        assert len(value) <= 3000
    json.dumps(update.body)


@pytest.mark.parametrize(
    ("kind", "phase", "name"),
    [
        ("out_of_band", "target_verify", "SpecVerifyOutOfBand"),
        ("out_of_band", "draft_extend", "SpecPhaseOutOfBand"),
        ("level_shift", "target_verify", "SpecPhaseShifted"),
        ("acceptance_dropped", "tokens_per_cycle", "SpecAcceptanceDropped"),
        ("slower_than_baseline", "total_cycle", "SpecSlowerThanBaseline"),
        ("graph_lost", "target_verify", "SpecGraphLost"),
        ("spread", "target_verify", "SpecPhaseShifted"),
        ("draft_does_nothing", "tokens_per_cycle", "SpecDraftDoesNothing"),
        ("one_rank_slow", "draft_extend", "SpecOneRankSlow"),
        ("silence", "samples", "SpecSilence"),
        ("something_new", "target_verify", "SpecSomethingNew"),
    ],
)
def test_alert_names(kind, phase, name):
    """The alert's name follows from kind and phase, and is that of the Prometheus rule."""
    assert text.alert_name(incident(kind=kind, phase=phase)) == name


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {}, "1.51 times the 19.15 ms before. Its band is 17.00 ms to 21.00 ms.", id="with a before"
        ),
        pytest.param({"before": None}, "1.51 times the centre of its band.", id="nothing came before"),
        pytest.param({"before": None, "band": None}, "1.51 times what is normal.", id="no band either"),
        pytest.param(
            {
                "before": None,
                "band": None,
                "kind": "slower_than_baseline",
                "phase": "speculation",
                "ratio": 0.74,
            },
            "0.74 times the baseline.",
            id="slower than without speculation",
        ),
        pytest.param(
            {"before": None, "band": None, "kind": "one_rank_slow"},
            "1.51 times the other ranks.",
            id="slower than others",
        ),
        pytest.param(
            {
                "phase": "tokens_per_cycle",
                "before": 3.2,
                "after": 1.9,
                "ratio": 0.59,
                "band": Limits(2, 3, 4),
            },
            "Tokens per cycle is at 1.90 tokens a cycle since 2026-02-11 08:15:02 (line 41), 0.59 times the 3.20 before."
            " Its band is 2.00 to 4.00.",
            id="tokens per cycle",
        ),
        pytest.param(
            {"phase": "speculation", "before": 95.2, "after": 64.1, "ratio": 0.67, "band": None},
            "Speculation is at 64.1 tok/s since 2026-02-11 08:15:02 (line 41), 0.67 times the 95.2 tok/s before.",
            id="tokens per second",
        ),
        pytest.param(
            {
                "kind": "graph_lost",
                "phase": "cuda_graph",
                "before": 1.0,
                "after": 0.0,
                "band": None,
                "detail": "",
            },
            "Target verify runs without CUDA graphs, since 2026-02-11 08:15:02 (line 41).",
            id="what has no level",
        ),
    ],
)
def test_figures(changes, expected):
    """Level, onset, ratio and band, each in its unit."""
    assert expected in text.description(incident(**changes), 1, resolved=False)


def test_many_ranks_stay_readable():
    """Sixteen ranks by name, the rest as a number."""
    assert text.ranks([f"TP{n}" for n in range(20)]).endswith("TP15 and 4 more")
    assert "20 ranks see it; these are the figures of TP0" in text.description(incident(), 20, resolved=False)


def test_causes_of_all_ranks_once_each():
    """The likeliest cause comes first, each with its best evidence."""
    one = incident(causes=(Cause("a", "weak", 0.2), Cause("b", "good", 0.8)))
    two = incident(rank="TP1", causes=(Cause("a", "strong", 0.9),))
    causes = text.best_causes([one, two])
    assert [(c.cause, c.evidence) for c in causes] == [("a", "strong"), ("b", "good")]
    assert text.cause_sentence(causes) == "Most likely a: strong. Less likely: b."
    assert text.cause_sentence([]) == "The log does not say why."


def test_every_cause_has_its_advice():
    """What `judging/causes.py` can name, an alert can advise on."""
    assert set(text.ADVICE) == {*RULES, *SILENCE, "unknown"}


def test_an_unknown_cause_says_what_was_ruled_out():
    """Not knowing is said plainly, with what the log speaks against."""
    sentence = text.cause_sentence([Cause("unknown", "Ruled out: kv_pressure: no retractions.", 0.0)])
    assert sentence == "The cause is not known. Ruled out: kv_pressure: no retractions."


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {},
            "Over since 2026-02-11 08:20:00 (line 90). Target verify was at 28.95 ms a cycle since 2026-02-11 08:15:02"
            " (line 41).",
            id="a phase",
        ),
        pytest.param(
            {"kind": "graph_lost", "phase": "cuda_graph"},
            "Over since 2026-02-11 08:20:00 (line 90). It began 2026-02-11 08:15:02 (line 41).",
            id="what has no level",
        ),
    ],
)
def test_a_resolution_speaks_of_the_past(changes, expected):
    """What is over is told as over: no band to be in, no cost that is still paid."""
    assert text.description(incident("resolved", **changes), 1, resolved=True) == expected


def test_every_kind_that_is_watched_has_its_words():
    """Kinds of incidents that `judging` opens have a name of their own and a first sentence."""
    kinds = {rule.kind for rule in vars(watches).values() if isinstance(rule, Rule)}
    assert kinds <= set(text.NAMES)
    assert set(text.SUMMARIES) == set(text.NAMES)
