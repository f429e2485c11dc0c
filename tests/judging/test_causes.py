import pytest
from judging_samples import cycle

from logwatch.judging.case import Case
from logwatch.judging.causes import likely_causes
from logwatch.judging.facts import Facts, Sighting, begin, note
from logwatch.model import Place, Record, RunStarted


def facts(graphs=(0, 0), **fields):
    on, off = (Sighting(count, 10, 10 + count) if count else Sighting() for count in graphs)
    return Facts(graph_on=on, graph_off=off, **fields)


def test_facts_keep_what_a_log_says():
    """Settings, variables by process, transports, graphs and retractions, each with its line."""

    def record(line, kind, rank=None, **fields):
        return Record(Place("x.log", -1, line), kind, fields, rank=rank)

    found = begin(RunStarted(Place("x.log", -1, 1), "x", 0, None, {"tp_size": "2", "port": "1"}))
    for each in (
        record(5, "nccl_setting", variable="NCCL_P2P_DISABLE", value="1.", pid=713),
        record(6, "nccl_setting", variable="NCCL_P2P_DISABLE", value="0", pid=714),
        record(7, "nccl_transport", transport="NET/Socket/0", pid=713),
        record(8, "nccl_transport", transport="Socket", pid=713),
        record(9, "event", event="graph_capture", text="Capture draft extend CUDA graph begin. bs=[1]"),
        record(10, "event", rank="TP0", event="retract", text="KV cache pool is full."),
        record(11, "event", rank="TP1", event="retract", text="KV cache pool is full."),
        record(12, "decode", graph=True, running_requests=8, token_usage=0.9),
        record(13, "event", event="watchdog", text="Watchdog timeout"),
        cycle(0.02, 14, graph=True),
        cycle(0.03, 15, graph=False),
        cycle(phases={"inferred_cycle": 0.02}, line=16, graph=True),
    ):
        note(found, each)
    assert found.settings == {"tp_size": "2"}
    assert found.merged() == {"NCCL_P2P_DISABLE": "0|1"}
    assert found.transports == {"NET/Socket": Sighting(1, 7, 7)}
    assert list(found.networks) == ["Socket"]
    assert found.captured == {"draft extend": Sighting(1, 9, 9)}
    assert found.retracts == Sighting(1, 10, 10)
    assert (found.largest_graph, found.usage) == (8, 0.9)
    assert (found.reports_on, found.reports_off) == (Sighting(1, 14, 14), Sighting(1, 15, 15))
    assert found.troubles == [(13, "Watchdog timeout")]


def reported(on, off):
    """Facts of a run of which reports tell, and no decode line."""
    lines = {"reports_on": on, "reports_off": off}
    return facts(**{name: Sighting(count, 1, count) for name, count in lines.items() if count})


def told(process, **variables):
    """Facts of a run of which one process's variables are known."""
    return facts(variables={process: variables}, variable_lines=dict.fromkeys(variables, 7))


LOST_AT_START = facts((50, 0), graph_lost=[(9, "Cuda graph is disabled because of X")])
UNEVEN = facts(
    variables={"TP0": {"NCCL_ALGO": "Ring"}, "TP1": {"NCCL_ALGO": "Tree"}}, variable_lines={"NCCL_ALGO": 7}
)
RETRACTING = facts((50, 0), retracts=Sighting(3, 100, 120), reports=50)
HEALTHY = facts((50, 0), settings={"tp_size": "2", "disable_cuda_graph": "False"}, settings_line=3)
ALIKE = {"draft_forward": 1.3, "target_verify": 1.32, "draft_extend": 1.29}


@pytest.mark.parametrize(
    ("case", "cause", "evidence"),
    [
        pytest.param(
            Case("target_verify", "high", facts((0, 60)), HEALTHY),
            "cuda_graph_off",
            "before they said True (50",
            id="decode lines lost their graph over a restart",
        ),
        pytest.param(
            Case(
                "target_verify",
                "high",
                facts(graph_lost=[(9, "Cuda graph is disabled because of X")]),
                facts((50, 0)),
            ),
            "cuda_graph_off",
            'Line 9: "Cuda graph is disabled',
            id="a message says so",
        ),
        pytest.param(
            Case("target_verify", "high", reported(0, 6), reported(9, 0)),
            "cuda_graph_off",
            "Reports ran without a graph (6 from line 1), before they ran with one (9 from line 1 of that run)",
            id="reports lost their graph, and no decode line tells",
        ),
        pytest.param(
            Case("target_verify", "high", reported(0, 6)),
            "cuda_graph_off",
            "All 6 reports ran without a graph (line 1).",
            id="reports never had a graph",
        ),
        pytest.param(
            Case(
                "target_verify",
                "high",
                facts(variables={"TP0": {"NCCL_DEBUG": "INFO"}}),
                tuned={"NCCL_DEBUG": "INFO", "NCCL_PROTO": "LL"},
            ),
            "nccl_environment",
            "Against the run that was tuned, NCCL_PROTO=LL is missing",
            id="a variable of the tuned run is missing",
        ),
        pytest.param(
            Case("samples", "low", facts((50, 0), troubles=[(200, "Scheduler watchdog timeout")])),
            "server_stuck",
            'Line 200: "Scheduler watchdog timeout"',
            id="silent, and the watchdog has barked",
        ),
        pytest.param(
            Case("samples", "low", facts((50, 0), troubles=[(20, "Scheduler watchdog timeout")])),
            "log_went_quiet",
            "Requests are answered all the same",
            id="silent, and it worked after the watchdog barked",
        ),
        pytest.param(
            Case(
                "samples",
                "low",
                facts(settings={"decode_log_interval": "100000"}, settings_line=4),
                facts((50, 0), settings={"decode_log_interval": "40"}),
            ),
            "settings_changed",
            "decode_log_interval from 40 to 100000",
            id="silent since a start with other settings",
        ),
        pytest.param(
            Case(
                "draft_extend",
                "high",
                facts(
                    (50, 0), captured={"target verify": Sighting(1, 5, 5), "draft decode": Sighting(1, 6, 6)}
                ),
                HEALTHY,
                ratios={"draft_extend": 2.0, "target_verify": 1.0},
            ),
            "draft_graph_missing",
            "draft extend",
            id="the draft's extend was not captured",
        ),
        pytest.param(
            Case(
                "target_verify",
                "high",
                facts(
                    variables={"pid 1": {"NCCL_ALGO": "Ring"}, "pid 2": {}}, variable_lines={"NCCL_ALGO": 7}
                ),
            ),
            "nccl_environment",
            "NCCL_ALGO reached 1 of 2 processes (line 7)",
            id="a variable that did not reach every worker",
        ),
        pytest.param(
            Case(
                "target_verify",
                "high",
                facts(variables={"pid 1": {"NCCL_DEBUG": "INFO"}}),
                facts(variables={"pid 9": {"NCCL_DEBUG": "INFO", "NCCL_PROTO": "LL"}}),
            ),
            "nccl_environment",
            "NCCL_PROTO=LL is missing",
            id="a variable that was there before",
        ),
        pytest.param(
            Case(
                "target_verify",
                "high",
                facts((50, 0), settings={"tp_size": "2", "attention_backend": "triton"}, settings_line=4),
                facts((50, 0), settings={"tp_size": "2", "attention_backend": "fa3"}),
            ),
            "settings_changed",
            "attention_backend from fa3 to triton",
            id="another attention backend",
        ),
        pytest.param(
            Case("target_verify", "high", facts(version="0.5.18"), facts(version="0.5.17")),
            "version_changed",
            "from 0.5.17 to 0.5.18",
            id="another version",
        ),
        pytest.param(
            Case("target_verify", "high", HEALTHY, batch=(1.0, 8.0)),
            "load",
            "batch size went from 1 to 8",
            id="load",
        ),
        pytest.param(
            Case("target_verify", "high", HEALTHY, context=(14_290.4, 41_473.0)),
            "load",
            "context went from 14,290 to 41,473",
            id="a longer context",
        ),
        pytest.param(
            Case("target_verify", "high", HEALTHY, HEALTHY, ratios=ALIKE),
            "neighbour",
            "grew alike",
            id="a neighbour",
        ),
        pytest.param(
            Case("tokens_per_cycle", "low", HEALTHY, tokens=(3.33, 1.9)),
            "acceptance_dropped",
            "from 3.33 to 1.90",
            id="fewer tokens are accepted",
        ),
        pytest.param(
            Case("tokens_per_cycle", "low", HEALTHY, tokens=(3.33, 1.0)),
            "draft_misconfigured",
            "no draft token is ever accepted",
            id="none is",
        ),
        pytest.param(
            Case("target_verify", "high", facts((50, 0), retracts=Sighting(3, 100, 120)), onset_line=90),
            "kv_pressure",
            "3 retractions",
            id="requests are retracted",
        ),
        pytest.param(
            Case("target_verify", "high", HEALTHY, rank_excess=1.4),
            "one_rank_slow",
            "1.40 times",
            id="one rank",
        ),
        pytest.param(
            Case("target_verify", "high", HEALTHY, early=True), "warm_up", "first reports", id="just started"
        ),
    ],
)
def test_each_cause_is_found_by_its_evidence(case, cause, evidence):
    """The best cause is the one that the log gives evidence for, and the evidence is quoted."""
    best = likely_causes(case)[0]
    assert best.cause == cause
    assert evidence in best.evidence
    assert len(likely_causes(case)) <= 3


def test_unknown_says_what_was_ruled_out():
    """Where nothing speaks for a cause, what speaks against each is said."""
    [found] = likely_causes(Case("target_verify", "high", HEALTHY, HEALTHY, ratios={"target_verify": 1.5}))
    assert found.cause == "unknown"
    assert "50 decode lines say `cuda graph: True`" in found.evidence
    assert "2 server settings are equal" in found.evidence


@pytest.mark.parametrize(
    ("case", "cause"),
    [
        pytest.param(
            Case("target_verify", "high", facts((50, 2)), HEALTHY),
            "cuda_graph_off",
            id="most lines have a graph",
        ),
        pytest.param(
            Case("target_verify", "low", facts((0, 60)), HEALTHY), "cuda_graph_off", id="it got faster"
        ),
        pytest.param(
            Case("target_verify", "high", reported(9, 0), reported(9, 0)),
            "cuda_graph_off",
            id="reports have it",
        ),
        pytest.param(
            Case(
                "target_verify",
                "high",
                facts((0, 6), reports_on=Sighting(9, 1, 90)),
                ratios={"target_verify": 1.3},
            ),
            "cuda_graph_off",
            id="lines say no, whole reports say yes",
        ),
        pytest.param(
            Case("target_verify", "high", facts((0, 60)), HEALTHY, ratios=ALIKE),
            "neighbour",
            id="graphs are off",
        ),
        pytest.param(
            Case("target_verify", "high", LOST_AT_START, LOST_AT_START),
            "cuda_graph_off",
            id="both runs wrote the message",
        ),
        pytest.param(
            Case("target_verify", "high", LOST_AT_START, HEALTHY),
            "cuda_graph_off",
            id="a message, and lines with a graph behind it",
        ),
        pytest.param(
            Case(
                "target_verify",
                "high",
                facts(
                    graph_lost=[(9, "Disable draft cuda graph because of X")], reports_on=Sighting(9, 20, 90)
                ),
                reported(9, 0),
                ratios={"target_verify": 1.5, "draft_forward": 1.0},
            ),
            "cuda_graph_off",
            id="the draft's graph is another",
        ),
        pytest.param(
            Case("target_verify", "high", told("pid 1", NCCL_DEBUG="INFO"), told("pid 9", NCCL_DEBUG="WARN")),
            "nccl_environment",
            id="NCCL was asked to tell more",
        ),
        pytest.param(
            Case(
                "target_verify",
                "high",
                told("TP0", NCCL_ALGO="Ring", CUDA_VISIBLE_DEVICES="0,1"),
                told("pid 1", NCCL_ALGO="Ring"),
            ),
            "nccl_environment",
            id="the plugin tells variables that NCCL does not",
        ),
        pytest.param(
            Case(
                "target_verify",
                "high",
                told("TP0", NCCL_ALGO="Ring", CUDA_VISIBLE_DEVICES="0,1"),
                tuned={"NCCL_ALGO": "Ring"},
            ),
            "nccl_environment",
            id="a tuned run of which NCCL told alone",
        ),
        pytest.param(
            Case("target_verify", "high", UNEVEN, UNEVEN), "nccl_environment", id="ranks differed before, too"
        ),
        pytest.param(
            Case(
                "target_verify",
                "high",
                facts(
                    variables={"TP0": {"NCCL_SOCKET_IFNAME": "eth0"}, "TP1": {"NCCL_SOCKET_IFNAME": "eth1"}},
                    variable_lines={"NCCL_SOCKET_IFNAME": 7},
                ),
            ),
            "nccl_environment",
            id="each host has its own interface",
        ),
        pytest.param(
            Case("target_verify", "low", told("pid 1", NCCL_P2P_DISABLE="1")),
            "nccl_environment",
            id="what is disabled made nothing faster",
        ),
        pytest.param(
            Case(
                "tokens_per_cycle",
                "low",
                told("pid 1", NCCL_PROTO="LL"),
                told("pid 1", NCCL_PROTO="Simple"),
                tokens=(3.3, 1.9),
            ),
            "nccl_environment",
            id="no variable of NCCL's makes drafts worse",
        ),
        pytest.param(
            Case("tokens_per_cycle", "low", facts((0, 60)), HEALTHY, tokens=(3.3, 1.9)),
            "cuda_graph_off",
            id="nor does a graph",
        ),
        pytest.param(
            Case("target_verify", "high", HEALTHY, tokens=(3.3, 1.9)),
            "acceptance_dropped",
            id="a verify of fewer accepted tokens is no slower",
        ),
        pytest.param(
            Case("inferred_cycle", "high", HEALTHY, tokens=(1.0, 1.0)),
            "draft_misconfigured",
            id="a server without drafts",
        ),
        pytest.param(
            Case(
                "tokens_per_cycle",
                "low",
                facts(settings={"speculative_algorithm": "None"}),
                HEALTHY,
                tokens=(1.9, 1.0),
            ),
            "draft_misconfigured",
            id="speculation was turned off",
        ),
        pytest.param(
            Case("target_verify", "high", RETRACTING, RETRACTING),
            "kv_pressure",
            id="requests were retracted as often before",
        ),
        pytest.param(
            Case("target_verify", "low", RETRACTING, onset_line=90),
            "kv_pressure",
            id="retractions hasten nothing",
        ),
        pytest.param(
            Case("target_verify", "high", HEALTHY, ratios=ALIKE, batch=(1.0, 2.0)),
            "neighbour",
            id="the batch grew",
        ),
        pytest.param(
            Case(
                "target_verify",
                "high",
                told("TP0", NCCL_ALGO="Tree"),
                told("TP0", NCCL_ALGO="Ring"),
                ratios=ALIKE,
            ),
            "neighbour",
            id="NCCL's variables changed",
        ),
        pytest.param(
            Case("target_verify", "high", facts(version="0.5.18"), facts(version="0.5.17"), ratios=ALIKE),
            "neighbour",
            id="another version",
        ),
        pytest.param(
            Case("target_verify", "high", HEALTHY, ratios={**ALIKE, "draft_forward": 1.0}),
            "neighbour",
            id="the draft is as fast as before",
        ),
        pytest.param(
            Case("target_verify", "high", HEALTHY, batch=(8.0, 1.0), context=(900.0, 500.0)),
            "load",
            id="the load shrank",
        ),
        pytest.param(
            Case("cuda_graph", "low", facts((50, 3)), batch=(46.0, 28.0), onset_line=20),
            "load",
            id="a smaller batch loses no graph",
        ),
        pytest.param(
            Case("target_verify", "high", HEALTHY, rank_excess=1.05), "one_rank_slow", id="ranks are alike"
        ),
        pytest.param(
            Case("target_verify", "high", HEALTHY, HEALTHY, early=True, batch=(1.0, 8.0)),
            "warm_up",
            id="just started, and another cause is known",
        ),
        pytest.param(
            Case("target_verify", "high", HEALTHY, HEALTHY), "settings_changed", id="the settings are equal"
        ),
        pytest.param(
            Case(
                "target_verify",
                "high",
                facts(
                    settings={
                        "tp_size": "2",
                        **{f"{name}_backend": "auto" for name in ("moe_runner", *"abc")},
                    }
                ),
                facts(settings={"tp_size": "2"}),
            ),
            "settings_changed",
            id="another version has more settings",
        ),
        pytest.param(
            Case("target_verify", "high", facts(version="0.5.18"), facts(version="0.5.18")),
            "version_changed",
            id="the same version",
        ),
        pytest.param(
            Case("draft_extend", "high", HEALTHY, ratios={"draft_extend": 2.0, "target_verify": 2.0}),
            "draft_graph_missing",
            id="verify grew as well",
        ),
    ],
)
def test_counter_evidence_drops_a_cause(case, cause):
    """A cause that something speaks against is not named."""
    assert cause not in [each.cause for each in likely_causes(case)]


def test_no_settings_at_all_leave_nothing_to_rule_out():
    """Nothing is called ruled out of which the log says nothing."""
    [found] = likely_causes(Case("target_verify", "high", facts()))
    assert found.evidence == "The log says nothing of settings, graphs or NCCL."


@pytest.mark.parametrize(
    ("after", "before", "known"),
    [
        pytest.param(HEALTHY, HEALTHY, "alike, graphs on and settings equal: ", id="all is known"),
        pytest.param(facts(), None, "alike: ", id="nothing is known"),
    ],
)
def test_a_neighbour_is_told_with_what_is_known(after, before, known):
    """Graphs and settings of which the log says nothing are not called on and equal."""
    [found] = likely_causes(Case("target_verify", "high", after, before, ratios=ALIKE))
    assert found.cause == "neighbour"
    assert known in found.evidence


def test_long_settings_show_where_they_differ():
    """Two configurations that begin alike are not both cut before they differ."""
    begin = "CudaGraphConfig(decode=PhaseConfig(backend='full', max_bs="
    after = facts(settings={"cuda_graph_config": f"{begin}32, bs=[1, 2])"})
    before = facts(settings={"cuda_graph_config": f"{begin}16, bs=[1, 2])"})
    [found] = likely_causes(Case("target_verify", "high", after, before))
    assert "max_bs=16, bs=[1, 2])" in found.evidence
    assert "max_bs=32, bs=[1, 2])" in found.evidence
