"""The logs that the plugin wrote inside real servers: whole, told apart, and honest about what it cannot measure."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from logwatch.cli import cli
from logwatch.grammar.load import load_grammars
from logwatch.grammar.streaming import Failed, Reader

LOGS = Path(__file__).parents[2] / "fixtures" / "logs" / "h200"
PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: (?P<rank>[^\]]*))?\] ")

REPORTING = {
    "v0512_eagle3_graph": {""},
    "v0512_eagle3_v1_graph": {""},
    "v0517_eagle3_graph": {""},
    "v0517_eagle3_nograph": {""},
    "v0517_eagle3_topk4": {""},
    "v0517_multi_layer": {""},
    "v0517_no_overlap": {""},
    "v0517_standalone": {""},
    "v0517_tp2_tuned": {"TP0"},
    "v0517_tp2_sockets": {"TP0"},
    "v0517_tp2_default": {"TP0", "TP1"},
    "v0517_dp2": {"DP0", "DP1"},
    "v0517_dp_attention": {"DP0 TP0", "DP1 TP1"},
}
"""The logs with reports, and the ranks that report in them."""

SILENT = {
    "v0517_ngram": "SGLang 0.5.17 runs NGRAMWorker (NGRAM) without any part that is timed",
    "v0517_no_spec": "this server runs without speculative decoding",
}
"""The logs of servers that have nothing to measure, and what the plugin says of it."""


def text_of(name):
    return (LOGS / f"{name}.log").read_text(errors="replace")


def read(name):
    """What the grammars make of a log, with the rank that wrote it: a block's lines are those of its first."""
    reader, rank = Reader(load_grammars()), ""
    for line in re.split("[\r\n]", text_of(name)):
        prefix = PREFIX.match(line)
        if prefix:
            rank = prefix["rank"] or ""
        parsed = reader.read(line[prefix.end() :] if prefix else line)
        if parsed is not None:
            yield rank, parsed


def headers(name):
    return [(rank, parsed.fields) for rank, parsed in read(name) if parsed.kind == "report"]


def as_json(*arguments):
    result = CliRunner().invoke(cli, [*arguments, "--format", "json"], catch_exceptions=False)
    return result.exit_code, json.loads(result.stdout)


def test_every_log_is_told_of_here():
    """No log lies in the folder that no test looks at."""
    assert {path.stem for path in LOGS.glob("*.log")} == REPORTING.keys() | SILENT.keys()


@pytest.mark.parametrize("name", REPORTING)
def test_every_report_is_whole(name):
    """A header, four phases, accepted drafts, spread and launches; one environment a process; no torn line."""
    found = list(read(name))
    assert [parsed for _, parsed in found if isinstance(parsed, Failed)] == []
    count = Counter(parsed.kind for _, parsed in found)
    reports = count["report"]
    assert reports >= 7
    assert count["environment"] == (2 if re.search("tp2|dp", name) else 1)
    assert {kind: count[kind] for kind in ("phase", "accept", "spread", "launch")} == {
        "phase": 4 * reports,
        "accept": reports,
        "spread": reports,
        "launch": reports,
    }
    assert {rank for rank, _ in headers(name)} == REPORTING[name]
    assert {fields["graph_percent"] for _, fields in headers(name)} == {0.0 if "nograph" in name else 100.0}
    assert {fields["cycles"] for _, fields in headers(name)} == {25 if "topk4" in name else 100}


@pytest.mark.parametrize("name", [*REPORTING, *SILENT])
def test_replay_reads_the_log_without_a_malformed_line(name):
    """From the first line of the start to the last: SGLang's, NCCL's and the plugin's."""
    _, found = as_json("replay", str(LOGS / f"{name}.log"))
    assert [source["malformed"] for source in found["inputs"]] == [0]


@pytest.mark.parametrize(("name", "sentence"), SILENT.items(), ids=SILENT)
def test_a_server_without_the_phases_says_so_once(name, sentence):
    """Not a word of a report; the server itself went on."""
    text = text_of(name)
    assert (
        text.count("sglang-logwatch:")
        == text.count(f"sglang-logwatch: nothing to measure: {sentence}\n")
        == 1
    )
    assert not re.search(r"EAGLE3_PROFILE \d", text)
    assert text.count("Decode batch") > 10


@pytest.mark.parametrize("good", ["v0517_tp2_tuned", "v0517_tp2_default"])
def test_compare_tells_sockets_from_nvlink_and_names_what_nccl_was_denied(good):
    """Thirty reports on each side: `changed`, twice the verify, `nccl_environment` with both variables."""
    status, found = as_json("compare", str(LOGS / f"{good}.log"), str(LOGS / "v0517_tp2_sockets.log"))
    assert (status, found["verdict"]) == (1, "changed")
    verify = next(phase for phase in found["phases"] if phase["phase"] == "target_verify")
    assert (verify["verdict"], verify["samples"]) == ("changed", [30, 30])
    assert verify["ratio"] == pytest.approx(2.04, abs=0.03)
    assert found["causes"][0]["cause"] == "nccl_environment"
    for evidence in ("NCCL_P2P_DISABLE=1 is new", "NCCL_SHM_DISABLE=1 is new", "P2P/IPC to NET/Socket"):
        assert evidence in found["causes"][0]["evidence"]


def test_both_ranks_of_a_tensor_parallel_server_measure_the_same_verify():
    """They wait for each other within it: report by report the two agree within 3 %, after the first one."""
    verify = {"TP0": [], "TP1": []}
    for rank, parsed in read("v0517_tp2_default"):
        if parsed.kind == "phase" and parsed.fields["phase"] == "target_verify":
            verify[rank].append(parsed.fields["seconds"])
    assert len(verify["TP0"]) == len(verify["TP1"]) >= 30
    assert verify["TP0"][1:] == pytest.approx(verify["TP1"][1:], rel=0.03)


def test_idle_cycles_of_data_parallel_attention_do_not_count():
    """A rank whose neighbour has the only request verifies an empty batch beside it: no report covers that."""
    sizes = [fields["batch_size"] for _, fields in headers("v0517_dp_attention")]
    assert min(sizes) == 1.0
    ranks = [rank for rank, fields in headers("v0517_dp_attention") if fields["batch_size"] == 1.0]
    assert ranks == ["DP1 TP1"] * 3 + ["DP0 TP0"] * 3


def test_several_draft_layers_are_drafted_in_the_extension():
    """The multi-layer worker's `draft` only arranges what its draft-extend has drafted before."""
    phases = [parsed.fields for _, parsed in read("v0517_multi_layer") if parsed.kind == "phase"]
    middle = {
        phase: sorted(fields["seconds"] for fields in phases if fields["phase"] == phase)[3]
        for phase in ("draft_forward", "draft_extend")
    }
    assert middle["draft_extend"] > 4 * middle["draft_forward"]
