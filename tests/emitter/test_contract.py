"""The emitter's contract with the rest of the house: the grammar reads what the plugin writes."""

from logwatch.emitter.lines import HIDDEN, Report, environment_text, report_text
from logwatch.grammar.load import load_grammars
from logwatch.grammar.streaming import Reader


def read(text):
    """What the grammars make of a text, line by line; lines of nobody left out."""
    reader = Reader(load_grammars())
    return [parsed for line in text.split("\n") if (parsed := reader.read(line)) is not None]


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
