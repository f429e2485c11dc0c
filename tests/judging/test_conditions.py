from itertools import pairwise

import pytest
from judging_samples import cycle

from logwatch.judging.conditions import TOKENS, batch_range, bucket_of, bucket_text, samples_of, telling
from logwatch.model import Conditions


@pytest.mark.parametrize(
    ("batch", "ends"),
    [
        pytest.param(1.0, (1, 1), id="alone"),
        pytest.param(7.9, (8, 8), id="nearly eight"),
        pytest.param(3.5, None, id="a mixture of batches"),
        pytest.param(9.4, (9, 10), id="ranges from nine on"),
        pytest.param(100.0, (86, 100), id="a sixth wide"),
        pytest.param(None, None, id="unknown"),
    ],
)
def test_batch_ranges(batch, ends):
    """Small batches are told apart exactly, large ones by ranges; a mixture equals nothing."""
    assert batch_range(batch) == ends


def test_ranges_cover_every_batch_size_once():
    """Each whole batch size lies in exactly one range, and within it."""
    ranges = {size: batch_range(float(size)) for size in range(1, 600)}
    assert all(low <= size <= high for size, (low, high) in ranges.items())
    ordered = sorted(set(ranges.values()))
    assert all(a[1] + 1 == b[0] for a, b in pairwise(ordered))


def test_graph_and_version_never_excuse_a_time():
    """Load makes a bucket; what may be wrong does not."""
    conditions = Conditions(
        batch_size=1.0, num_steps=2, topk=1, draft_tokens=3, graph=False, version="0.5.17"
    )
    bucket = bucket_of("target_verify", conditions)
    assert bucket_text(bucket) == "batch_size=1,num_steps=2,topk=1,draft_tokens=3"
    assert bucket_text(bucket_of(TOKENS, conditions)) == "num_steps=2,topk=1,draft_tokens=3"
    assert bucket_of("target_verify", Conditions(batch_size=3.4)) is None


def test_a_sum_is_charted_only_without_its_parts():
    """The total says nothing that its parts do not say better."""
    whole = samples_of(cycle(phases={"target_verify": 0.019, "total_cycle": 0.02}, tokens=1.9))
    assert whole == {"target_verify": 0.019, TOKENS: 1.9}
    assert samples_of(cycle(phases={"inferred_cycle": 0.02})) == {"inferred_cycle": 0.02}


def test_settings_that_say_nothing_of_speed_are_left_out():
    """A port or a seed is no other server."""
    assert telling({"port": "1", "random_seed": "7", "tp_size": "8"}) == {"tp_size": "8"}
