"""The emitter's contract with the rest of the house: the grammar reads what the plugin writes, and wrote."""

import re
from collections import Counter
from pathlib import Path

import pytest

from logwatch.emitter.lines import HIDDEN, Report, environment_text, report_text
from logwatch.grammar.load import load_grammars
from logwatch.grammar.streaming import Failed, Reader

LOGS = sorted((Path(__file__).parents[2] / "fixtures" / "logs" / "h200").glob("*.log"))
PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\] ")


def read(text):
    """What the grammars make of a text, line by line, SGLang's prefix taken off; lines of nobody left out."""
    reader = Reader(load_grammars())
    lines = re.split("[\r\n]", text)
    return [parsed for line in lines if (parsed := reader.read(PREFIX.sub("", line))) is not None]


def test_a_report_is_read_to_the_last_line():
    """Each line becomes a record with the numbers that went in."""
    text = report_text(
        Report(
            cycles=100,
            batch_size=2.5,
            graph_share=0.25,
            phases_s={"draft": 0.001, "verify": 0.018, "extend": 0.001},
            launches_s={"draft": 0.0001, "verify": 0.0003, "extend": 0.0002},
            verifies_s=[0.017, 0.019],
            accepted_drafts=0.92,
        )
    )
    assert [(parsed.kind, {**parsed.fields}) for parsed in read(text)] == [
        ("report", {"cycles": 100, "batch_size": 2.5, "graph_percent": 25.0}),
        ("phase", {"phase": "draft_forward", "seconds": 0.001, "share": 0.05}),
        ("phase", {"phase": "target_verify", "seconds": 0.018, "share": 0.9}),
        ("phase", {"phase": "draft_extend", "seconds": 0.001, "share": 0.05}),
        ("phase", {"phase": "total_cycle", "seconds": 0.02}),
        ("accept", {"accepted_drafts": 0.92}),
        (
            "spread",
            {"phase": "target_verify", "min_seconds": 0.017, "p99_seconds": 0.019, "max_seconds": 0.019},
        ),
        ("launch", {"draft_seconds": 0.0001, "verify_seconds": 0.0003, "extend_seconds": 0.0002}),
    ]


def test_an_environment_is_read_with_its_values():
    """Names and values come back, blanks and all."""
    text = environment_text(
        {"NCCL_ALGO": "Ring", "NCCL_SOCKET_IFNAME": "eth0 eth1", "SGLANG_KEY": "x", "CUDA_HOME": ""}
    )
    (parsed,) = read(text)
    assert parsed.kind == "environment"
    assert parsed.fields["variables"] == {
        "CUDA_HOME": "",
        "NCCL_ALGO": "Ring",
        "NCCL_SOCKET_IFNAME": "eth0 eth1",
        "SGLANG_KEY": HIDDEN,
    }


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_logs_of_real_servers_are_read_without_a_malformed_line(path):
    """Every report is whole: a header, four phases, accepted drafts, spread and launches; one environment a rank."""
    parsed = read(path.read_text(errors="replace"))
    assert [item for item in parsed if isinstance(item, Failed)] == []
    count = Counter(item.kind for item in parsed)
    reports = count["report"]
    assert reports >= 6
    assert count["environment"] == (2 if "tp2" in path.stem else 1)
    assert {kind: count[kind] for kind in ("phase", "accept", "spread", "launch")} == {
        "phase": 4 * reports,
        "accept": reports,
        "spread": reports,
        "launch": reports,
    }
    percents = {item.fields["graph_percent"] for item in parsed if item.kind == "report"}
    assert percents == {0.0 if "nograph" in path.stem else 100.0}


def test_the_logs_are_there():
    """Graphs on and off, a tree, the older worker, two GPUs three times."""
    assert len(LOGS) == 7
