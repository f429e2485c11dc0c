"""An incident in one line: what it is about decides what its figure is compared with."""

import pytest
from outlet_items import incident

from logwatch.model import Limits
from logwatch.outlets.report.wording import incident_text

NONE = {"before": None, "band": None, "direction": "low"}
SLOWER = NONE | {"kind": "slower_than_baseline", "phase": "speculation", "after": 60.5, "ratio": 60.5 / 82.2}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {"after": 0.02895, "before": None, "band": Limits(0.017, 0.019, 0.021), "ratio": 1.52},
            "target_verify on TP0 is high: 28.95 ms, 1.52 x the band's centre",
            id="out of band, nothing came before",
        ),
        pytest.param(
            SLOWER,
            "speculation on TP0 is low (slower than baseline): 60.50 tok/s, "
            "0.74 x the baseline without speculation (82.20 tok/s)",
            id="slower than without speculation",
        ),
        pytest.param(
            SLOWER | {"before": 94.0, "ratio": 60.5 / 94.0},
            "speculation on TP0 is low (slower than baseline): 60.50 tok/s, "
            "0.64 x the level before (94.00 tok/s)",
            id="slower than it was",
        ),
        pytest.param(
            {"kind": "one_rank_slow", "before": None, "band": None, "after": 0.025, "ratio": 1.3},
            "target_verify on TP0 is high (one rank slow): 25.00 ms, 1.30 x the other ranks",
            id="one rank",
        ),
        pytest.param(
            NONE | {"kind": "silence", "phase": "samples", "rank": None, "after": 0.0, "ratio": 0.0},
            "requests are answered, but no line of prefill, decode or report is written",
            id="silence has no figure",
        ),
        pytest.param(
            NONE | {"kind": "graph_lost", "phase": "cuda_graph", "after": 0.0, "ratio": 0.0, "before": 1.0},
            "no CUDA graph is used on TP0 any more where one was",
            id="a graph that is lost has none",
        ),
    ],
)
def test_an_incident_in_one_line(changes, expected):
    """What, where, how much, and against what."""
    assert incident_text(incident(**changes)) == expected
