"""`logwatch breakeven`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from logwatch.commands.breakeven import command


def _json(*options):
    done = CliRunner().invoke(command, [*options, "--format", "json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_the_contracts_numbers():
    """30 ms a cycle against 82 tok/s, wanting 150."""
    answer = _json("--cycle-ms", "30", "--baseline", "82", "--target", "150")
    assert answer["schema"] == "logwatch.breakeven/1"
    assert answer["breakeven_tokens_per_cycle"] == 2.46
    assert answer["target_tokens_per_cycle"] == 4.5
    assert answer["required_accuracy"] == 0.778


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        pytest.param(
            ["--cycle-ms", "30"], "breakeven_tokens_per_cycle", None, id="no baseline, no break-even"
        ),
        pytest.param(
            ["--cycle-ms", "20", "--target", "87.5", "--steps", "2"],
            "required_accuracy",
            0.5,
            id="1 + p + p^2 = 1.75",
        ),
        pytest.param(
            ["--cycle-ms", "30", "--target", "150", "--steps", "2"],
            "required_accuracy",
            None,
            id="two steps never give 4.5",
        ),
        pytest.param(
            ["--cycle-ms", "20", "--accept", "0.92"],
            "estimated_tokens_per_second",
            96.0,
            id="accepted drafts and the bonus token",
        ),
    ],
)
def test_what_cannot_be_computed_is_null(options, key, value):
    """And what can be, is."""
    assert _json(*options)[key] == value


def test_from_a_log():
    """Medians of a real profiled server, its first report left out."""
    answer = _json("--log", "fixtures/logs/sglang_h200/v0517_01_eagle3_graph_prof.log", "--baseline", "204")
    assert 8 < answer["cycle_ms"] < 9
    assert 1.8 < answer["tokens_per_cycle"] < 2.0
    assert answer["breakeven_tokens_per_cycle"] == pytest.approx(answer["cycle_ms"] * 0.204, abs=0.001)


@pytest.mark.parametrize("options", [[], ["--cycle-ms", "0"], ["--cycle-ms", "1", "--log", "x"]])
def test_bad_usage_is_status_2(options):
    """Nothing to compute with."""
    assert CliRunner().invoke(command, options).exit_code == 2
