"""`logwatch replay`: verdicts, exit statuses, forms, and every kind of bad input."""

from __future__ import annotations

import gzip
import json
import lzma
import re
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from rich.text import Text

from logwatch.commands import tune
from logwatch.commands.replay import command, configured
from logwatch.commands.replay_streams import stream_names, streams_of
from logwatch.config import Config
from logwatch.errors import LogwatchError
from logwatch.outlets.report import strips
from logwatch.outlets.report.as_table import lines
from logwatch.outlets.report.distribution import Bin
from logwatch.outlets.report.summary import PhaseSummary
from logwatch.outlets.report.wording import safe

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
GOOD, BAD = LOGS / "field_verify_19ms.log", LOGS / "field_verify_29ms.log"
HEALTHY = LOGS / "sglang_h200" / "v0517_31_tp2_nccl_default.log"
SOCKETS = LOGS / "sglang_h200" / "v0517_34_tp2_nccl_socket.log"
STOCK = LOGS / "sglang_h200" / "v0517_04_nospec_baseline.log"
PROFILED = LOGS / "sglang_h200" / "v0517_01_eagle3_graph_prof.log"
TUNED = "target_verify=4.5ms..6.5ms"


def replay(*arguments, stdin=None):
    """Exit status, standard output and standard error."""
    done = CliRunner().invoke(command, [str(argument) for argument in arguments], input=stdin)
    if isinstance(done.exception, LogwatchError):
        return 2, done.stdout, f"{done.stderr}{done.exception}"
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def as_dict(*arguments, stdin=None):
    code, out, _ = replay(*arguments, "--format", "json", stdin=stdin)
    return code, json.loads(out)


def test_the_field_case_is_told_as_a_person_would():
    """28.95 ms is out of band, high, 1.52 x the band's centre; status 1."""
    code, out, err = replay(BAD)
    assert code == 1
    first = out.splitlines()[0]
    assert (
        first
        == "Out of band: target_verify is high: 28.95 ms, 1.52 x the band's centre (band 17.00..21.00 ms)"
    )
    assert err == ""


def test_the_tuned_case_is_in_band():
    """19.14 ms is in band; status 0."""
    code, out, _ = replay(GOOD)
    assert (code, out.splitlines()[0]) == (0, "In band: target_verify")


def test_json_has_the_contracts_keys():
    """Section 5.1, key by key, for the field's log."""
    code, answer = as_dict(BAD)
    assert code == 1
    assert next(iter(answer)) == "schema"
    assert (answer["schema"], answer["verdict"]) == ("logwatch.replay/1", "out_of_band")
    assert answer["inputs"][0] == {
        "path": str(BAD), "bytes": 220, "lines": 5, "records": 5, "malformed": 0, "damage": None,
    }  # fmt: skip
    (run,) = answer["runs"]
    assert (run["stream"], run["rank"], run["started"], run["settings"]) == (BAD.name, None, None, {})
    (phase,) = run["phases"]
    assert phase["phase"] == "target_verify"
    assert {key: phase[key] for key in ("samples", "median_ms", "mean_ms", "p05_ms", "p95_ms")} == {
        "samples": 5, "median_ms": 28.95, "mean_ms": 28.95, "p05_ms": 28.94, "p95_ms": 28.96,
    }  # fmt: skip
    assert phase["share"] == pytest.approx(0.97, abs=0.001)
    assert (phase["band"], phase["in_band"]) == ({"low_ms": 17.0, "high_ms": 21.0}, False)
    (incident,) = answer["incidents"]
    assert incident["kind"] == "out_of_band"
    assert incident["onset"] == {"line": 1, "time": None}
    assert incident["noticed"] == {"line": 3, "time": None}
    assert (incident["resolved"], incident["before_ms"], incident["after_ms"]) == (None, None, 28.95)
    assert incident["ratio"] == pytest.approx(28.95 / 19, abs=1e-4)


def test_grep_output_on_standard_input_works():
    """`grep verify server.log | logwatch replay -` judges what grep left."""
    grepped = "".join(line for line in PROFILED.read_text().splitlines(keepends=True) if "verify" in line)
    code, answer = as_dict("-", "--band", "target_verify=4ms..12ms", stdin=grepped.encode())
    phases = {phase["phase"]: phase for run in answer["runs"] for phase in run["phases"]}
    assert phases["target_verify"]["samples"] == PROFILED.read_text().count("Target verify:")
    assert code in {0, 1}


def test_a_real_profiled_log_gives_runs_phases_and_settings():
    """Two ranks, eight reports each, the server's settings, tokens per cycle with the bonus token."""
    code, answer = as_dict(HEALTHY, "--band", TUNED)
    assert code == 0
    assert [(run["rank"], run["started"]) for run in answer["runs"]] == [
        ("TP0", "2026-11-29T16:32:58"), ("TP1", "2026-11-29T16:32:58"),
    ]  # fmt: skip
    run = answer["runs"][0]
    assert run["settings"]["speculative_algorithm"] == "EAGLE3"
    assert [phase["phase"] for phase in run["phases"]] == [
        "draft_forward", "target_verify", "draft_extend", "total_cycle",
    ]  # fmt: skip
    verify = [float(found) for found in re.findall(r"Target verify: +([0-9.]+)", HEALTHY.read_text())]
    assert sum(run["phases"][1]["samples"] for run in answer["runs"]) == len(verify)
    assert run["tokens_per_cycle"] == pytest.approx(1.92, abs=0.01)


def test_a_stock_log_gives_inferred_cycles():
    """Without any report the cycle time comes from decode lines, and no band judges it."""
    code, answer = as_dict(STOCK)
    (run,) = answer["runs"]
    assert code == 0
    assert [phase["phase"] for phase in run["phases"]] == ["inferred_cycle"]
    assert 4.5 < run["phases"][0]["median_ms"] < 5.2


def test_rotated_files_are_one_stream(tmp_path):
    """A rotated set, packed or not, gives what the whole file gives: same samples, same incidents."""
    whole = tmp_path / "whole" / "server.log"
    whole.parent.mkdir()
    data = HEALTHY.read_bytes() + SOCKETS.read_bytes()
    whole.write_bytes(data)
    cuts = [data.find(b"\n", at) + 1 for at in (len(data) // 3, len(data) * 2 // 3)]
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "server.log.2.gz").write_bytes(gzip.compress(data[: cuts[0]]))
    (parts / "server.log.1.xz").write_bytes(lzma.compress(data[cuts[0] : cuts[1]]))
    (parts / "server.log").write_bytes(data[cuts[1] :])
    one, many = as_dict(whole, "--band", TUNED), as_dict(parts, "--band", TUNED)
    assert one[0] == many[0] == 1
    assert many[1]["runs"] == one[1]["runs"]
    assert [each["after_ms"] for each in many[1]["incidents"]] == [
        each["after_ms"] for each in one[1]["incidents"]
    ]
    assert sum(each["lines"] for each in many[1]["inputs"]) == one[1]["inputs"][0]["lines"]


@pytest.mark.parametrize(
    ("paths", "streams"),
    [
        pytest.param(["a.log", "a.log.1"], {"a.log": ["a.log.1", "a.log"]}, id="number"),
        pytest.param(
            ["d/a.log-20260210.gz", "d/a.log", "d/a.log-20260209.gz"],
            {"a.log": ["d/a.log-20260209.gz", "d/a.log-20260210.gz", "d/a.log"]},
            id="dates",
        ),
        pytest.param(["a.log.10", "a.log.9", "a.log"], {"a.log": ["a.log.10", "a.log.9", "a.log"]}, id="ten"),
        pytest.param(
            ["a.log.1", "a.log.2"], {"a.log.1": ["a.log.1"], "a.log.2": ["a.log.2"]}, id="no live file"
        ),
        pytest.param(
            ["x/a.log", "y/a.log.1"], {"a.log": ["x/a.log"], "a.log.1": ["y/a.log.1"]}, id="folders"
        ),
    ],
)
def test_which_files_are_one_stream(paths, streams):
    """Rotated copies join their live file, oldest first; anything else is a stream of its own."""
    assert {stream.name: list(stream.paths) for stream in streams_of(paths)} == streams


def test_equal_names_are_told_apart_by_their_folders():
    """Two pods' `0.log` must not be one series."""
    assert stream_names(["a/pod1/0.log", "a/pod2/0.log", "b/x.log"]) == ["pod1/0.log", "pod2/0.log", "x.log"]


@pytest.mark.parametrize(
    ("window", "samples", "code"),
    [
        pytest.param([], 8, 0, id="all"),
        pytest.param(["--since", "2026-11-29 16:34:37"], 5, 0, id="since"),
        pytest.param(["--until", "2026-11-29T16:34:36"], 1, 1, id="until"),
        pytest.param(["--since", "2026-11-29T16:34:36", "--until", "2026-11-29T16:34:37"], 2, 0, id="both"),
    ],
)
def test_only_a_stretch_of_time_counts(window, samples, code):
    """Reports outside --since and --until are neither counted nor judged; the server's settings stay known."""
    given, answer = as_dict(HEALTHY, "--band", TUNED, *window)
    run = answer["runs"][0]
    assert run["phases"][1]["samples"] == samples
    assert run["settings"]["tp_size"] == "2"
    assert given == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["none.log"], "none.log: no such file", id="no such file"),
        pytest.param(["empty"], "empty: no logs in this directory", id="a directory without logs"),
        pytest.param(["empty.log"], "empty.log: no samples found: nothing in it", id="empty file"),
        pytest.param(["foreign.log"], "none of its 2 lines is one of an SGLang server", id="foreign log"),
        pytest.param(
            ["short.log"], "its records are 1 prefill; set EAGLE3_PROFILE=1", id="records, no samples"
        ),
        pytest.param(
            [LOGS / "cases/R054.log"],
            "1 of its lines begin like a record and do not end as one; first, line 1, column 241",
            id="malformed lines only",
        ),
        pytest.param(
            [LOGS / "cases/R098.log"],
            "1 spec_metrics; they tell how many drafts are accepted, but no times",
            id="another engine's acceptance",
        ),
        pytest.param(
            [GOOD, "--since", "2026-01-01"],
            "none of its 5 records lies between --since and --until",
            id="undated",
        ),
        pytest.param(["good.log", "none.log"], "none.log: no such file", id="one of two is missing"),
        pytest.param([GOOD, "--band", "x"], "--band x: is not PHASE=LOW..HIGH", id="band without edges"),
        pytest.param(
            [GOOD, "--band", "v=3ms..2ms"], "low 3ms is above high 2ms; swap them", id="band upside down"
        ),
        pytest.param([GOOD, "--band", "v=3..5"], "'3' is not a duration", id="band without unit"),
        pytest.param([GOOD, "--since", "soon"], "'soon' is not a time", id="no time"),
        pytest.param(
            [GOOD, "--since", "2026-02-02", "--until", "2026-02-01"], "is not before", id="upside down"
        ),
        pytest.param([GOOD, "--html", "no/r.html"], "no/r.html: cannot be written", id="page's directory"),
        pytest.param([GOOD, "--parquet", "no/p"], "no/p: cannot be written", id="table's directory"),
    ],
)
def test_bad_input_gets_one_clear_line_and_status_2(arguments, said, tmp_path, monkeypatch):
    """Where, what, and what to do; never a traceback."""
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("empty.log").touch()
    Path("foreign.log").write_text("Jan  1 host sshd[1]: hello\nworld\n")
    Path("short.log").write_text(
        "[2026-02-11 08:15:02 TP0] Prefill batch, #new-seq: 1, #new-token: 3, #cached-token: 0\n"
    )
    code, out, err = replay(*arguments)
    assert code == 2
    assert said in err
    assert out == ""


def test_no_data_is_still_a_document(tmp_path):
    """A program gets its JSON with verdict `no_data`, and status 2."""
    (tmp_path / "a.log").write_text("nothing\n")
    code, out, _ = replay(tmp_path / "a.log", "--format", "json")
    assert code == 2
    assert json.loads(out)["verdict"] == "no_data"


@pytest.mark.parametrize(
    ("log", "code"),
    [pytest.param(GOOD, 2, id="nothing amiss so far"), pytest.param(BAD, 1, id="amiss anyhow")],
)
def test_a_damaged_archive_is_used_and_named(log, code, tmp_path):
    """What is readable counts; its damage is named; all well cannot be said of what was not read."""
    packed = tmp_path / "server.log.gz"
    packed.write_bytes(gzip.compress(log.read_bytes())[:-8])
    given, out, err = replay(packed)
    assert given == code
    assert "target_verify" in out
    assert f"{packed}: cut short" in err
    assert "cut short" in out


@pytest.mark.parametrize("form", ["table", "markdown", "json"])
def test_a_crash_is_told_once_a_run(form, tmp_path):
    """A server that crashed in its band is not passed off as healthy; every rank's lines and the launcher's are one crash."""
    start = "[2026-11-29 16:00:00] server_args=ServerArgs(model_path='x', tp_size=2)\n"
    died = "".join(
        f"[2026-11-29 16:00:05 TP{rank}] Scheduler hit an exception: Traceback (most recent call last):\n"
        "RuntimeError: CUDA error: out of memory\n"
        for rank in (1, 0)
    )
    log = tmp_path / "a.log"
    log.write_text((start + GOOD.read_text() + died) * 2)
    code, out, _ = replay("--format", form, log)
    assert code == 0
    assert out.count("Scheduler hit an exception: Traceback") == 2
    if form == "json":
        crashes = json.loads(out)["crashes"]
        assert [(each["line"], each["time"], each["rank"]) for each in crashes] == [
            (7, "2026-11-29T16:00:05", "TP1"),
            (17, "2026-11-29T16:00:05", "TP1"),
        ]
    else:
        assert "crashed at line 7 (2026-11-29 16:00:05)" in out


def test_a_band_on_the_command_line_replaces_its_phase_only():
    """The configuration's other bands stay."""
    config = Config.model_validate(
        {
            "band": [
                {"phase": "target_verify", "low": "1ms", "high": "2ms"},
                {"phase": "x", "low": "1ms", "high": "2ms"},
            ]
        }
    )
    bands = configured(config, ["Target verify=18ms..20.5ms"], 82.2)
    assert [(band.phase, band.high) for band in bands.band] == [("x", 0.002), ("target_verify", 0.0205)]
    assert bands.speculation.baseline_tokens_per_second == 82.2


def test_outputs_are_written_beside_the_summary(tmp_path):
    """One replay of a real log gives table, page, Parquet and OpenMetrics."""
    page, table, metrics = tmp_path / "r.html", tmp_path / "p.parquet", tmp_path / "o.om"
    code, _, err = replay(
        SOCKETS, "--html", page, "--parquet", table, "--openmetrics", metrics, "--band", TUNED
    )
    assert (code, err) == (1, "")
    assert "<svg" in page.read_text()
    assert pl.read_parquet(table)["phase"].n_unique() == 4
    assert metrics.read_text().endswith("# EOF\n")


def test_every_candidate_change_is_explained():
    """What the band and the segmentation saw, and what kept or dropped it."""
    _, out, _ = replay(BAD, "--explain")
    assert "Candidate changes" in out
    assert f"{BAD.name}: run 1 target_verify" in out
    assert ": band scored 5.00: kept" in out
    _, answer = as_dict(BAD, "--explain")
    assert answer["explained"]


def test_a_log_cannot_write_to_the_terminal(tmp_path):
    """Escapes, line breaks and reordering characters of labels, settings and names come out as text."""
    evil = tmp_path / "a\x1b[2Jb.log"
    evil.write_text(
        "[2026-02-11 08:15:02] server_args=ServerArgs(model_path='/m\x1b]0;owned\x07\u202e', tp_size=8)\n"
        + "  Target\x1b[31mverify\u202e:     28.96 ms/cyc  ( 97.0%)\n" * 5
        + BAD.read_text()
    )
    for form in ("table", "markdown"):
        _, out, _ = replay(evil, "--format", form)
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "\x07" not in out


def test_unsafe_text_is_spelled_out():
    """Nothing of it is lost, and none of it acts."""
    assert safe("a\x1b[31m\u202eb\tc\x9b") == r"a\x1b[31m\u202eb\x09c\x9b"


def summary_of(path, *options):
    from logwatch.commands.replaying import Request
    from logwatch.commands.replaying import replay as run

    return run(Request([str(path)], configured(Config(), options, 82.2)))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_every_line_fits_the_terminal(width):
    """Narrow terminals lose charts and columns, never figures that matter."""
    shown = lines(summary_of(SOCKETS, TUNED), width, width)
    assert max(Text(line.plain).cell_len for line in shown) <= width
    text = "\n".join(line.plain for line in shown)
    assert "target_verify" in text
    assert "10.01" in text
    assert ("over the log" in text) == (width >= 120)


def test_markdown_is_a_document():
    """Verdict in bold, a table a run, incidents as a list."""
    _, out, _ = replay(BAD, "--format", "markdown")
    assert out.splitlines()[0].startswith("**Out of band: target_verify is high: 28.95 ms")
    assert "| target_verify | 5 | 28.95 | 28.94 | 28.96 | 96.9% | 17.00..21.00 | high |" in out


def test_a_band_that_moves_with_the_context_is_shown_as_moving(tmp_path):
    """Verify grows with the context; one band would hide that, and the last one would look wrong."""
    log, config, page = (
        LOGS / "sglang_h200" / "v0517_01_eagle3_graph_prof.log",
        tmp_path / "tuned.toml",
        tmp_path / "page.html",
    )
    config.write_text(CliRunner().invoke(tune.command, [str(log)]).stdout)
    code, out, _ = replay(log, "--config", config, "--html", page)
    row = next(line for line in out.splitlines() if "target_verify  " in line)
    assert code == 0
    assert re.search(r"moves to [0-9.]+\.\.[0-9.]+  in  ", row)
    assert "◆" not in row
    assert "Green: the band; it moves with the context" in page.read_text()


def test_colour_is_for_terminals_only(monkeypatch):
    """Piped output has none."""
    _, out, _ = replay(BAD)
    assert "\x1b" not in out


def phase_of(*values, band=True, moves=False):
    from logwatch.model import Limits

    bins = tuple(Bin(at, None, at, None, 1, v, v, v, int(not 17 <= v <= 21)) for at, v in enumerate(values))
    ordered = sorted(values)
    return PhaseSummary(
        "p", len(values), ordered[len(values) // 2], 0, ordered[0], ordered[-1], None,
        Limits(17, 19, 21) if band else None, None, 0, bins, moves,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "drawn"),
    [
        pytest.param(phase_of(19.0, 19.1, 19.2), "     [····─◆····]     ", id="inside"),
        pytest.param(phase_of(28.9, 29.0), "   [·····]           ◆", id="above"),
        pytest.param(phase_of(5.0), "◆             [····]  ", id="below"),
        pytest.param(phase_of(5.0, band=False), "", id="no band"),
        pytest.param(phase_of(19.0, moves=True), "", id="a band that moved"),
    ],
)
def test_a_phase_is_drawn_against_its_band(phase, drawn):
    """Brackets are the band, the line is the middle 90 %, the diamond the median."""
    assert strips.position(phase, 22) == drawn


def test_a_course_is_readable_without_colour():
    """Middle heights lie in the band, low ones below, high ones above."""
    phase = phase_of(10.0, 16.5, 17.0, 19.0, 21.0, 21.5, 24.0, 40.0)
    drawn = strips.course(phase.course, phase.median_s, phase.band, 20)
    assert "".join(block for block, _ in drawn) == "▁▂▃▄▅▆▇█"
    assert [outside for _, outside in drawn] == [True, True, False, False, False, True, True, True]


def test_a_name_that_is_no_text_is_shown_as_such(tmp_path):
    """A file name that is not UTF-8 is read, and U+FFFD stands for it in every form."""
    path = tmp_path / "a\udcff.log"
    path.write_bytes(PROFILED.read_bytes())
    outputs = {kind: tmp_path / kind for kind in ("parquet", "openmetrics", "html")}
    code, out, _ = replay(path, *(word for kind, file in outputs.items() for word in (f"--{kind}", file)))
    assert code == 1
    assert "a\ufffd.log" in out
    assert pl.read_parquet(outputs["parquet"])["stream"].unique().to_list() == ["a\ufffd.log"]
    assert "a\ufffd.log" in outputs["openmetrics"].read_text()
    assert "a\ufffd.log" in outputs["html"].read_text()
    _, document = as_dict(path)
    assert document["inputs"][0]["path"] == f"{tmp_path}/a\ufffd.log"
