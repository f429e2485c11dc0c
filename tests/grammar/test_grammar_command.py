"""`logwatch grammar`: what a person sees."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from logwatch.commands.grammar import command
from logwatch.errors import LogwatchError

ROOT = Path(__file__).parents[2]


def run(*arguments, standard_input=None):
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], input=standard_input)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_list_names_every_packaged_grammar():
    """Name, kinds of records and file of each, in the order in which they are tried."""
    names = [entry["name"] for entry in json.loads(run("list", "--format", "json").output)]
    assert names == sorted(path.stem for path in (ROOT / "grammars").glob("*.toml"))
    assert len(names) >= 5
    assert all(name in run("list").output for name in names)


def test_show_gives_pattern_fields_and_expression():
    """What a record is, for people and for engines of regular expressions."""
    output = run("show", "eagle3_profile").output
    assert "pattern  {phase:label}:{seconds:duration}/cyc" in output
    assert "field    seconds: a time with its unit" in output
    assert "(?P<seconds>[0-9]+" in output
    assert "passes over what starts with `Receive: obj=`" in run("show", "sglang").output


def test_show_without_a_name_lists_the_kinds():
    """Who writes a grammar needs to know the kinds of fields, and which fields a record may have."""
    output = run("show").output
    assert "  duration        a number and its unit" in output
    assert "  phase           phase, seconds, share\n" in output
    assert all(len(line) <= 100 for line in output.splitlines())


def test_an_unknown_grammar_names_the_nearest():
    """A slip of the pen is answered with the right name."""
    with pytest.raises(LogwatchError, match="did you mean `sglang`"):
        run("show", "sglnag")


def test_test_reads_packed_files_and_standard_input(tmp_path):
    """Packed by content, not by name; `-` is standard input."""
    text = "[2026-02-11 08:15:02 TP0] Decode batch, #running-req: 1, #queue-req: 0\n"
    packed = tmp_path / "a.log"
    packed.write_bytes(gzip.compress(text.encode()))
    (record,) = map(json.loads, run("test", packed, "--format", "jsonl").output.splitlines())
    assert record == {
        "path": str(packed),
        "line": 1,
        "record": "decode",
        "time": "2026-02-11T08:15:02",
        "rank": "TP0",
        "fields": {"running_requests": 1, "queued_requests": 0},
    }
    (record,) = map(
        json.loads, run("test", "-", "--format", "jsonl", standard_input=text).output.splitlines()
    )
    assert (record["path"], record["record"]) == ("-", "decode")


def test_test_prints_malformed_lines_as_the_contract_says(tmp_path):
    """Column in the physical line, what was expected, what was found."""
    path = tmp_path / "a.log"
    path.write_text("\n[2026-02-11 08:15:02 TP0] Decode batch, gen throughput (token/s): usaccept len\n")
    (found,) = map(json.loads, run("test", path, "--format", "jsonl").output.splitlines())
    assert found == {
        "path": str(path),
        "line": 2,
        "malformed": "decode",
        "column": 67,
        "expected": "a number",
        "found": "usaccept",
        "time": "2026-02-11T08:15:02",
        "rank": "TP0",
    }


def test_test_sums_up_for_people():
    """The table ends with how many records of each kind there were."""
    output = run("test", ROOT / "fixtures/logs/field_verify_29ms.log").output
    assert "phase=target_verify ms=28.96 share=0.97" in output
    assert output.splitlines()[-1].endswith("field_verify_29ms.log: 5 phase")


def test_test_of_a_missing_file():
    """No such file is one problem that names it."""
    with pytest.raises(LogwatchError, match=r"nowhere\.log"):
        run("test", "nowhere.log")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param(
            "  Target verify: 19.14 ms/cyc", ["A record `phase`:", "seconds = 0.01914"], id="record"
        ),
        pytest.param(
            "[2026-02-11 08:15:02 TP0] Decode batch, #running-req: one",
            [
                "Message from column 27 on (time 2026-02-11T08:15:02, rank TP0).",
                "Malformed",
                "^ expected a whole number, found `one`",
            ],
            id="malformed",
        ),
        pytest.param(
            "EAGLE3_PROFILE 100 cycles\r\n  Target verify: 19.14 ms/cyc\n",
            [
                "Line 1, message from column 1",
                "A record `report`",
                "Line 2, message from column 1",
                "A record `phase`",
            ],
            id="two lines",
        ),
        pytest.param("hello", ["No record: no grammar's anchor stands in it."], id="nothing"),
        pytest.param(
            "x via y",
            ["No record. It holds an anchor of:", "nccl, record nccl_channel", "^ expected `:`"],
            id="anchor only",
        ),
        pytest.param(
            "Receive: obj=X(Decode batch, #running-req: 1)",
            ["Passed over: sglang ignores what starts with `Receive: obj=`."],
            id="user text",
        ),
    ],
)
def test_explain(line, said):
    """Which record a line is, or where and why not."""
    output = run("explain", line).output
    for text in said:
        assert text in output


def test_the_caret_of_explain_stands_under_the_column():
    """Also in a line too long for the screen."""
    output = run("explain", "Decode batch, " + "new key: 5, " * 30 + "#running-req: one").output.splitlines()
    text, caret = output[-2:]
    assert text[caret.index("^") :].startswith("one")


def test_diagram_is_one_page_that_needs_nothing_else(tmp_path):
    """HTML with inline SVG: no script, no style sheet, no picture from elsewhere."""
    path = tmp_path / "sglang.html"
    run("diagram", "sglang", "--output", path)
    page = path.read_text(encoding="utf-8")
    assert page.count("<svg") >= 40
    assert not any(f"{attribute}=" in page for attribute in ("src", "srcset"))
    assert "<script" not in page
    assert "url(" not in page
    assert run("diagram", "vllm").output.count("<svg") >= 2
