import pytest

from logwatch.errors import BandError
from logwatch.judging.bands import Band, band_for
from logwatch.model import Conditions


@pytest.mark.parametrize(
    ("when", "conditions", "holds"),
    [
        pytest.param({"batch_size": "1"}, {"batch_size": 1.0}, True, id="text and number are equal"),
        pytest.param({"batch_size": 1}, {"batch_size": 1.04}, True, id="a mean batch size is rounded"),
        pytest.param({"batch_size": "4..8"}, {"batch_size": 8.0}, True, id="a range holds its ends"),
        pytest.param({"batch_size": "4..8"}, {"batch_size": 9.0}, False, id="outside a range"),
        pytest.param({"num_steps": 2}, {}, False, id="unknown is never equal"),
        pytest.param({"graph": True}, {"graph": True}, True, id="a truth value"),
        pytest.param({"graph": "false"}, {"graph": True}, False, id="a truth value as text"),
        pytest.param({"version": "0.5"}, {"version": "0.5.17"}, True, id="a version's beginning"),
        pytest.param({"version": "0.5.1"}, {"version": "0.5.17"}, False, id="not half a number of it"),
        pytest.param({"num_steps": 2, "topk": 1}, {"num_steps": 2, "topk": 4}, False, id="all must hold"),
    ],
)
def test_when(when, conditions, holds):
    """A band holds where every condition it names is known and as it says."""
    assert Band("target_verify", 0.01, 0.02, when=when).holds(Conditions(**conditions)) is holds


def test_the_most_specific_band_judges():
    """The plain band stands back where one with conditions holds."""
    plain = Band("target_verify", 0.01, 0.02)
    special = Band("target_verify", 0.02, 0.03, when={"batch_size": 8})
    assert band_for([plain, special], "target_verify", Conditions(batch_size=8.0)) is special
    assert band_for([plain, special], "target_verify", Conditions(batch_size=1.0)) is plain
    assert band_for([plain, special], "draft_forward", Conditions()) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            {"low_s": 0.021, "high_s": 0.017},
            "band target_verify: low 21 ms is above high 17 ms; swap them",
            id="edges swapped",
        ),
        pytest.param(
            {"open_after": 0},
            "band target_verify: open_after and resolve_after count samples; use at least 1",
            id="no sample at all",
        ),
        pytest.param(
            {"when": {"batch": 1}},
            "band target_verify: `when` does not know 'batch'; it knows batch_size, context_tokens, num_steps, "
            "topk, draft_tokens, graph, version",
            id="unknown condition",
        ),
        pytest.param(
            {"when": {"batch_size": "many"}},
            'band target_verify: `when` cannot compare batch_size with \'many\'; write 4, "4" or "4..8"',
            id="not a number",
        ),
    ],
)
def test_a_band_without_sense_says_why(arguments, message):
    """Every problem of a band is said in one line."""
    with pytest.raises(BandError) as error:
        Band(**{"phase": "target_verify", "low_s": 0.017, "high_s": 0.021} | arguments)
    assert str(error.value) == message
