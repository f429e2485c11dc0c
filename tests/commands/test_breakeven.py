"""`logwatch breakeven`."""

from __future__ import annotations

import json
from pathlib import Path

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


H200 = "fixtures/logs/sglang_h200"


def test_a_run_of_a_log_can_be_chosen(tmp_path):
    """Before and after a restart are not mixed: the last run counts, or the one that is named."""
    log = tmp_path / "server.log"
    names = ("v0517_31_tp2_nccl_default", "v0517_34_tp2_nccl_socket")
    log.write_bytes(b"".join(Path(H200, f"{name}.log").read_bytes() for name in names))
    assert _json("--log", f"{log}#1")["cycle_ms"] == pytest.approx(5.89)
    assert _json("--log", str(log))["cycle_ms"] == pytest.approx(11.66)


def test_only_batch_size_one_is_like_the_baseline(tmp_path):
    """Longer cycles of larger batches do not count; where there are no others, that is said."""

    def report(batch, total):
        return f"EAGLE3_PROFILE 100 cycles, batch {batch}\n  Total cycle: {total} ms/cyc\n  Accept len: 0.9\n"

    log = tmp_path / "server.log"
    log.write_text(report("1.0", 20) * 4 + report("8.0", 50) * 9)
    assert _json("--log", str(log))["cycle_ms"] == 20
    log.write_text(report("8.0", 50) * 9)
    done = CliRunner().invoke(command, ["--log", str(log)])
    assert "the figures are of one request in 8 or more" in done.stderr


def test_grammars_of_the_configuration_are_used(tmp_path):
    """A server whose reports only a grammar of the user's own understands."""
    tmp_path.joinpath("grammars").mkdir()
    tmp_path.joinpath("grammars", "mine.toml").write_text(
        '[record.mine]\nkind = "phase"\nanchor = "whole round"\n'
        'pattern = "whole round {seconds:duration}"\nset = { phase = "total_cycle" }\n'
    )
    config = tmp_path / "logwatch.toml"
    config.write_text('[grammars]\ndirectories = ["grammars"]\n')
    log = tmp_path / "server.log"
    log.write_text("whole round 21ms\n" * 5)
    assert _json("--log", str(log), "--config", str(config))["cycle_ms"] == pytest.approx(21)


@pytest.mark.parametrize("options", [[], ["--cycle-ms", "0"], ["--cycle-ms", "1", "--log", "x"]])
def test_bad_usage_is_status_2(options):
    """Nothing to compute with."""
    assert CliRunner().invoke(command, options).exit_code == 2
