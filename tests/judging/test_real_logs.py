"""The must-show of judging, on real logs of SGLang on H200s and on the field's two."""

import gzip
import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from logwatch.cli import cli
from logwatch.config import load_config

LOGS = Path(__file__).parents[2] / "fixtures/logs"


def log(number):
    return str(next((LOGS / "sglang_h200").glob(f"v0517_{number}_*.log")))


def run(*arguments):
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def as_json(*arguments):
    result = run(*arguments, "--format", "json")
    return result.exit_code, json.loads(result.stdout)


def test_without_graphs():
    """Logs 01 and 02: verify takes about 2.2 times as long, because the server was started without CUDA graphs."""
    status, found = as_json("compare", log("01"), log("02"))
    assert (status, found["verdict"]) == (1, "changed")
    verify = next(each for each in found["phases"] if each["phase"] == "target_verify")
    assert verify["verdict"] == "changed"
    assert verify["ratio"] == pytest.approx(2.15, abs=0.1)
    assert verify["shift_interval_ms"][0] < verify["shift_ms"] < verify["shift_interval_ms"][1]
    assert found["causes"][0]["cause"] == "cuda_graph_off"
    evidence = found["causes"][0]["evidence"]
    assert "disable_cuda_graph went from False to True (line 10)" in evidence
    assert "`cuda graph: False` (58 from line 46)" in evidence
    assert {"name": "disable_cuda_graph", "before": "False", "after": "True"} in found["settings"]
    assert found["tokens_per_cycle"]["verdict"] == "same"


def test_nccl_over_sockets():
    """Logs 31 and 34: verify takes about 1.85 times as long, because NCCL went over sockets."""
    status, found = as_json("compare", log("31"), log("34"), "--baseline", "204")
    assert (status, found["verdict"]) == (1, "changed")
    verify = next(each for each in found["phases"] if each["phase"] == "target_verify")
    assert verify["ratio"] == pytest.approx(1.85, abs=0.06)
    assert [each["cause"] for each in found["causes"]] == ["nccl_environment"]
    for what in ("NCCL_P2P_DISABLE=1 is new", "NCCL_SHM_DISABLE=1 is new", "P2P/IPC to NET/Socket"):
        assert what in found["causes"][0]["evidence"]
    assert {"name": "transport", "before": "P2P/IPC", "after": "NET/Socket"} in found["environment"]
    assert found["settings"] == []
    assert found["economics"]["after"]["speedup"] < 1 < found["economics"]["before"]["speedup"]


def test_a_log_is_the_same_as_itself():
    """Nothing changed between a log and itself, and the exit status says so."""
    status, found = as_json("compare", log("01") + "#1", log("01") + "#1")
    assert (status, found["verdict"], found["causes"]) == (0, "same", [])


def test_one_run_is_not_compared_with_itself_by_oversight(tmp_path):
    """A log that was to hold two runs and holds one gives an error, not a verdict."""
    result = CliRunner().invoke(cli, ["compare", log("01"), log("01")])
    assert "there is nothing to compare its run 1 with" in str(result.exception)
    two = tmp_path / "two.log"
    two.write_text(Path(log("31")).read_text() + Path(log("34")).read_text())
    assert run("compare", str(two), str(two)).exit_code == 1


def test_speculation_on_and_off():
    """Logs 01 and 04: the setting is named and no draft blamed; what long settings differ in is shown."""
    text = run("compare", log("01"), log("04"), "--baseline", "204").stdout
    assert text.startswith("Changed: tokens_per_cycle x 0.52, most likely settings_changed\n")
    assert text.count("Cause: ") == 1
    assert "speculative_algorithm from EAGLE3 to None" in text
    assert "After: 1.00 tokens per cycle; about 203.7 tok/s.\n" in text
    assert "bs=[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, ... -> " in text
    [run_04] = as_json("replay", log("04"), "--baseline", "204")[1]["runs"]
    assert run_04["breakeven_tokens_per_cycle"] is None


def test_settings_of_another_version_are_counted_and_not_listed():
    """SGLang 0.5.12 and 0.5.17 each name settings that the other does not know: what both know is shown."""
    logs = [str(LOGS / "h200" / f"{name}.log") for name in ("v0512_eagle3_v1_graph", "v0517_eagle3_graph")]
    text = run("compare", *logs).stdout
    assert " settings are named by one of the logs only: another version of the engine has others." in text
    listed = text.partition("Settings that differ")[2].partition("Environment")[0].splitlines()
    assert 0 < len([line for line in listed if line]) < 10
    assert "(not set)" not in "".join(listed)


def test_what_cannot_be_compared_is_said_in_two_lines(tmp_path):
    """Phases that one log does not have, and those of which it has only the first reports."""
    short = tmp_path / "short.log"
    lines = Path(log("31")).read_text().splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if "Target verify" in line)
    short.write_text("".join(lines[: first + 1]))
    notes = as_json("compare", str(short), log("31"))[1]["notes"]
    assert notes[0] == "Only in the second log: draft_extend, total_cycle."
    assert notes[1].startswith(
        "The first log has too few reports of draft_forward, target_verify, tokens_per_cycle: "
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "no samples found: nothing in it; is it the right file?", id="empty"),
        pytest.param(
            "x\n", "no samples found: none of its lines is one of an SGLang server; ", id="another's"
        ),
        pytest.param(
            "[2026-02-11 08:15:02] Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 0, "
            "token usage: 0.00, #running-req: 0, #queue-req: 0\n",
            "no samples found: its records are 1 prefill; set EAGLE3_PROFILE=1",
            id="prefill only",
        ),
    ],
)
def test_a_log_without_samples_is_told_by_what_it_has(tmp_path, text, said):
    """As `replay` does."""
    path = tmp_path / "server.log"
    path.write_text(text)
    for arguments in (
        ["compare", str(path), log("02")],
        ["tune", str(path)],
        ["breakeven", "--log", str(path)],
    ):
        assert said in str(CliRunner().invoke(cli, arguments).exception)


def test_a_log_that_is_cut_short_is_said_to_be(tmp_path):
    """What is compared, tuned or measured is not the whole log then."""
    cut = tmp_path / "cut.log.gz"
    cut.write_bytes(gzip.compress(Path(log("01")).read_bytes())[:7000])
    for arguments in (["compare", str(cut), log("02")], ["tune", str(cut)], ["breakeven", "--log", str(cut)]):
        assert "cut short" in CliRunner().invoke(cli, arguments).stderr


def test_hopeless_scatter_asks_for_no_figure_of_samples():
    """More than 10,000 is said instead of 53,881, which no log would have."""
    text = run("compare", log("01"), log("21")).stdout
    assert "draft_forward: 19 and 5 samples cannot tell; more than 10,000 on each side would." in text


def test_too_few_samples_say_how_many_are_needed():
    """Two short healthy logs cannot be told apart; it says how many samples would."""
    result = run("compare", log("21"), log("31"))
    assert result.exit_code == 0
    assert result.stdout.startswith("Cannot tell: about ")


def test_markdown_is_fit_for_an_issue():
    """The Markdown has a table of phases, the cause and the environment."""
    text = run("compare", log("31"), log("34"), "--format", "markdown").stdout.replace("\\", "")
    assert text.startswith("**Changed: target_verify x 1.8")
    assert "| NCCL_P2P_DISABLE | (not set) | 1 |" in text
    assert "- Cause: nccl_environment" in text


def test_what_was_tuned_is_quiet_though_verify_moves_by_half(tmp_path):
    """Verify grows by 57 % with the context within one answer; the band that `tune` writes grows with it."""
    config = tmp_path / "logwatch.toml"
    config.write_text(run("tune", log("01")).stdout)
    status, found = as_json("replay", "--config", str(config), log("01"))
    assert (status, found["incidents"]) == (0, [])
    status, found = as_json("replay", "--config", str(config), log("02"))
    verify = next(each for each in found["incidents"] if each["phase"] == "target_verify")
    assert status == 1
    assert verify["causes"][0]["cause"] == "cuda_graph_off"


def test_a_log_with_a_change_inside_is_refused(tmp_path):
    """What is not good as a whole is no example, and the place of the change is said."""
    two = tmp_path / "two.log"
    good = [f"  Target verify:     19.1{n % 4} ms/cyc  ( 95.0%)\n" for n in range(40)]
    bad = [f"  Target verify:     28.9{n % 4} ms/cyc  ( 97.0%)\n" for n in range(40)]
    two.write_text("".join(good + bad))
    result = CliRunner().invoke(cli, ["tune", str(two)])
    assert "two.log:41" in str(result.exception)
    assert "changes here from 19.1" in str(result.exception)


def test_two_kinds_of_server_are_not_tuned_together():
    """Logs that differ are refused: a band over both would hold neither."""
    result = CliRunner().invoke(cli, ["tune", log("01"), log("03")])
    assert result.exit_code != 0
    assert "tune each kind of server by itself" in str(result.exception)


def test_the_field_s_logs(tmp_path):
    """19.145 then 28.95 ms: seen at the third report, ratio 1.51, steady; the cost comes out of the numbers."""
    both = tmp_path / "both.log"
    both.write_text(
        (LOGS / "field_verify_19ms.log").read_text() + (LOGS / "field_verify_29ms.log").read_text()
    )
    status, found = as_json("replay", str(both), "--baseline", "82.2")
    [incident] = found["incidents"]
    assert status == 1
    assert (incident["onset"]["line"], incident["noticed"]["line"]) == (6, 8)
    assert incident["ratio"] == pytest.approx(1.512, abs=0.002)
    assert "steady, not noise (coefficient of variation 0.03 %)" in incident["detail"]
    assert "break-even 2.46 tokens a cycle" in incident["detail"]


@pytest.mark.parametrize("number", ["01", "02", "03", "04", "21", "31", "34"])
def test_every_real_log_is_sane_with_the_defaults(number):
    """Against the default band only verify may be out, low where the machine is faster; nothing else is told."""
    _, found = as_json("replay", log(number))
    assert {(i["phase"], i["kind"], i["direction"]) for i in found["incidents"]} <= {
        ("target_verify", "out_of_band", "low")
    }


def reports(path, level_ms, count, seed):
    rng = random.Random(seed)
    path.write_text(
        "".join(
            f"[2026-02-11 {8 + n // 1200:02}:{n // 20 % 60:02}:{n * 3 % 60:02} TP0] EAGLE3_PROFILE 100 cycles, batch 1.0\n"
            f"  Target verify:     {level_ms + rng.gauss(0, 0.05):.2f} ms/cyc  ( 95.0%)\n"
            f"  Accept len:         0.92\n"
            for n in range(count)
        )
    )
    return str(path)


def test_charts_begin_with_the_baseline_that_was_tuned(tmp_path):
    """A baseline in the configuration needs no learning: one percent more is seen at once, inside the band."""
    config = tmp_path / "logwatch.toml"
    config.write_text(run("tune", reports(tmp_path / "good.log", 19.145, 1500, 1)).stdout)
    assert len(load_config(config, {}).baseline) == 2
    slower = reports(tmp_path / "slower.log", 19.145 * 1.01, 300, 2)
    status, found = as_json("replay", "--config", str(config), slower)
    [incident] = found["incidents"]
    assert (status, incident["kind"], incident["onset"]["line"]) == (1, "level_shift", 1)
    assert incident["noticed"]["line"] < 3 * 40
    assert incident["ratio"] == pytest.approx(1.01, abs=0.001)


def test_a_run_without_another_to_compare_with_names_what_nccl_was_denied():
    """NCCL's lines by process and the plugin's by rank speak of the same two workers: nothing is missing there."""
    path = str(LOGS / "h200" / "v0517_tp2_sockets.log")
    _, found = as_json("replay", path, "--band", "target_verify=4.5ms..8ms")
    cause = found["incidents"][0]["causes"][0]
    assert cause["evidence"] == (
        "NCCL_P2P_DISABLE=1 (line 50), NCCL_SHM_DISABLE=1 (line 52) are set; the transport is NET/Socket."
    )
