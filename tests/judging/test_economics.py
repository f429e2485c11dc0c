import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judging_samples import cycle

from logwatch.judging.economics import (
    breakeven,
    cost_sentence,
    cycle_time_s,
    economics_of,
    expected_tokens_per_cycle,
    required_accuracy,
)


def test_the_contract_s_numbers():
    """30 ms, 82 and 150 tok/s give 2.46 and 4.5 tokens a cycle, and 0.778 as the accuracy for the target."""
    answer = breakeven(0.030, 82, 150)
    assert round(answer.breakeven_tokens_per_cycle, 3) == 2.46
    assert round(answer.target_tokens_per_cycle, 3) == 4.5
    assert round(answer.required_accuracy, 3) == 0.778
    assert answer.required_accuracy_at_steps is None
    assert answer.speedup is None


@settings(deadline=None)
@given(accuracy=st.floats(0.01, 0.99), steps=st.integers(1, 8))
def test_required_accuracy_is_the_inverse_of_expected_tokens(accuracy, steps):
    """What an accuracy gives is what needs that accuracy."""
    assert required_accuracy(expected_tokens_per_cycle(accuracy, steps), steps) == pytest.approx(
        accuracy, abs=1e-6
    )
    assert required_accuracy(expected_tokens_per_cycle(accuracy)) == pytest.approx(accuracy, abs=1e-6)


@pytest.mark.parametrize(
    ("phases", "shares", "expected"),
    [
        pytest.param({"target_verify": 0.019, "total_cycle": 0.0201}, {}, 0.0201, id="the total as reported"),
        pytest.param({"inferred_cycle": 0.0109}, {}, 0.0109, id="inferred from decode lines"),
        pytest.param(
            {"draft_forward": 0.001, "target_verify": 0.019, "draft_extend": 0.001},
            {},
            0.021,
            id="the sum of the parts",
        ),
        pytest.param({"target_verify": 0.019}, {"target_verify": 0.95}, 0.02, id="one phase over its share"),
        pytest.param({"target_verify": 0.019}, {}, None, id="verify alone does not say"),
    ],
)
def test_cycle_time(phases, shares, expected):
    """The whole cycle's time is taken from the best that a report gives."""
    found = cycle_time_s(cycle(phases=phases, shares=shares))
    assert found == (None if expected is None else pytest.approx(expected))


def test_baseline_counts_at_batch_size_one_only():
    """A baseline of one request says nothing of a batch of eight; the throughput is the whole batch's."""
    alone = economics_of(cycle(phases={"total_cycle": 0.02}, tokens=1.9, batch_size=1.0), 82.2)
    crowd = economics_of(cycle(phases={"total_cycle": 0.02}, tokens=1.9, batch_size=8.0), 82.2)
    assert alone.speedup == pytest.approx(1.9 / (0.02 * 82.2))
    assert crowd.speedup is None
    assert crowd.estimated_tokens_per_second == pytest.approx(8 * alone.estimated_tokens_per_second)


def test_cost_sentence_of_the_field():
    """29.85 ms a cycle and 1.806 tokens are 60.5 tok/s, less than the 82.2 without speculation."""
    now = economics_of(cycle(phases={"total_cycle": 0.02985}, tokens=1.806), 82.2)
    assert cost_sentence(now) == (
        "Speculation costs more than it gives: 60.5 tok/s against 82.2 without it "
        "(break-even 2.45 tokens a cycle, now 1.81)."
    )


@pytest.mark.parametrize(
    ("made", "drafts"),
    [
        pytest.param(cycle(phases={"inferred_cycle": 0.01}, tokens=1.0), False, id="one token a step"),
        pytest.param(
            cycle(phases={"inferred_cycle": 0.01}, tokens=1.0, num_steps=2), True, id="a draft that fails"
        ),
        pytest.param(cycle(phases={"inferred_cycle": 0.01}, tokens=1.9), True, id="accepted drafts"),
        pytest.param(cycle(phases={"total_cycle": 0.019}, tokens=1.0), True, id="a report"),
    ],
)
def test_without_speculation_nothing_breaks_even(made, drafts):
    """A server without drafts is not called worth its drafts, however fast it is."""
    now = economics_of(made, 82.2)
    assert now.estimated_tokens_per_second
    assert (now.speedup is not None, cost_sentence(now) != "") == (drafts, drafts)
