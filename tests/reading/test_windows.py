"""Cycle times inferred from decode lines: which windows count, and what they come to."""

import pytest
from reading_kit import (
    VERIFY,
    cycles_of,
    decode,
    event,
    fed,
    header,
    milliseconds,
    phase,
    prefill,
    read,
    read_bytes,
    server_args,
)

from logwatch.model import Cycle

CASES = "fixtures/logs/cases/"


def inferred(cycles: list[Cycle]) -> list[float]:
    return [round(milliseconds(cycle)["inferred_cycle"], 2) for cycle in cycles if cycle.phases_s]


def at(second: int, throughput: float = 100.0, running: int = 1, rank: str | None = None, **fields: object):
    """A decode line at a second; 100 tokens/s of one request are 10 ms a cycle, 0.4 s a window."""
    return decode(
        throughput, running, rank, time=f"2026-02-11T08:{second // 60:02}:{second % 60:02}", **fields
    )


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param("R014", [10.89, 10.87], id="first window behind a prefill is no 5564 ms"),
        pytest.param("R016", [31.36], id="first window behind a prefill is no 1102 ms"),
        pytest.param("R018", [89.04, 91.11, 92.77], id="three data-parallel ranks"),
        pytest.param("R010", [43.56, 43.55, 43.55], id="no speculation, eight requests"),
        pytest.param("R012", [14.35, 14.46, 14.52, 14.53], id="no speculation, one request"),
        pytest.param("R002", [31.79], id="the batch shrinks with every line"),
        pytest.param("R028", [], id="four minutes behind a prefill"),
        pytest.param("R048", [], id="a prefill, and then another batch"),
        pytest.param("R022", [11.83, 14.36, 13.02], id="a decode worker's ranks"),
        pytest.param("R026", [], id="prefill lines only"),
    ],
)
def test_the_figures_of_real_lines(case, expected, request):
    """The values that SHAPES.md gives for pasted lines."""
    data = (request.config.rootpath / CASES / f"{case}.log").read_bytes()
    assert inferred(cycles_of(read_bytes([data]))) == pytest.approx(expected, abs=0.011)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([at(0), at(0, 101), at(1)], [10, 9.9, 10], id="steady"),
        pytest.param([prefill(), at(0), at(0)], [10], id="first line behind a prefill"),
        pytest.param([at(0, 100 / 3), at(0), at(1)], [10, 10], id="the log's first window covers a gap"),
        pytest.param([at(0, 80), at(0), at(1)], [12.5, 10, 10], id="the log's first window is only slower"),
        pytest.param(
            [at(0, 100 / 3), at(0, running=2)], [30], id="the log's first window, and nothing against it"
        ),
        pytest.param([at(0), prefill(), at(0), at(1)], [10, 10], id="a prefill within"),
        pytest.param(
            [at(0), prefill("DP1 TP0"), at(0), at(1)], [10, 10], id="a prefill of another rank within"
        ),
        pytest.param([at(0), at(0, 200, 2), at(1, 200, 2)], [10, 10], id="batch size changed"),
        pytest.param([at(0), at(90), at(90)], [10, 10], id="lines are missing"),
        pytest.param([at(0), at(90, 100 / 225), at(90)], [10, 10], id="idle, without a prefill line"),
        pytest.param(
            [at(0), at(2, 20), at(4, 20)], [10, 50], id="really five times slower, from the second on"
        ),
        pytest.param(
            [at(0, tokens=500), at(0, tokens=90), at(1, tokens=130)], [10, 10], id="another request"
        ),
        pytest.param([at(60), at(0), at(0)], [10, 10], id="newest first, or a clock that was set"),
        pytest.param([at(0, 0.0), at(1)], [10], id="no throughput"),
        pytest.param([at(0, running=0), at(1)], [], id="no requests"),
        pytest.param([at(0, 1e9), at(0, 1e-9)], [], id="absurd"),
        pytest.param([server_args(), at(0), at(0)], [10], id="the first line behind a start"),
        pytest.param(
            [at(0, rank="TP0"), at(0, rank="TP1"), at(0, rank="TP0")],
            [10, 10],
            id="ranks that share a batch count once",
        ),
        pytest.param([at(0, rank="PP0 TP0"), at(0, rank="PP1 TP0")], [10], id="pipeline stages count once"),
        pytest.param(
            [at(0, rank="DP0 TP0"), at(0, rank="DP1 TP1")], [10, 10], id="data-parallel ranks count each"
        ),
        pytest.param(
            [server_args(speculative_algorithm="EAGLE3"), at(0), at(0), at(1)],
            [],
            id="speculation whose acceptance is not said",
        ),
        pytest.param([at(0, tokens_per_cycle=1.9), at(0, tokens_per_cycle=2.0)], [19, 20], id="speculation"),
        pytest.param([decode(100), decode(100)], [10, 10], id="no clock"),
        pytest.param([decode(None), decode(100)], [10], id="no field"),
    ],
)
def test_windows_that_cover_a_gap_do_not_count(lines, expected):
    """Only the steady windows come out."""
    assert inferred(cycles_of(read(lines))) == expected


@pytest.mark.parametrize(
    ("lines", "tokens"),
    [
        pytest.param(
            [at(0, tokens_per_cycle=1.9), prefill(), at(0, tokens_per_cycle=2.0)], [1.9, 2.0], id="a prefill"
        ),
        pytest.param(
            [at(0, tokens_per_cycle=1.9), at(0, running=2, tokens_per_cycle=2.0)],
            [1.9, 2.0],
            id="another batch",
        ),
        pytest.param([at(0, tokens_per_cycle=1.9), at(90, tokens_per_cycle=2.0)], [1.9, 2.0], id="a gap"),
        pytest.param([prefill(), at(0), at(0, running=2)], [], id="no speculation"),
        pytest.param([prefill(), at(0, running=0, tokens_per_cycle=2.0)], [], id="no requests"),
        pytest.param([prefill(), at(0, tokens_per_cycle=0.0)], [], id="nothing was verified"),
        pytest.param(
            [prefill(), at(0, rank="TP0", tokens_per_cycle=1.9), at(0, rank="TP1", tokens_per_cycle=1.9)],
            [1.9],
            id="ranks that share a batch count once",
        ),
        pytest.param(
            [prefill(), at(0, tokens_per_cycle=1.9), header(), phase(VERIFY, 19)],
            [1.9],
            id="once, in the report, where reports are",
        ),
    ],
)
def test_acceptance_is_told_of_windows_that_are_not_steady(lines, tokens):
    """A busy server's windows hold prefills and other batches, and its drafts may be accepted less all the same."""
    found = cycles_of(read(lines))
    assert [cycle.tokens_per_cycle for cycle in found] == tokens
    assert not any(cycle.warm_up and not cycle.phases_s for cycle in found)


@pytest.mark.parametrize(
    ("lines", "cycles"),
    [
        pytest.param([at(0), at(0)], 40, id="SGLang's own interval"),
        pytest.param([server_args(decode_log_interval="10"), at(0), at(0)], 10, id="as set"),
        pytest.param([at(0, iteration=7), at(0, iteration=27)], 20, id="as counted"),
        pytest.param(
            [at(0, 300, 3, tokens=100), at(0, 300, 3, tokens=220)], 40, id="from the growth of the tokens"
        ),
        pytest.param([at(0, tokens=100), at(9, tokens=1000)], 900, id="from the growth, a long interval"),
    ],
)
def test_cycles_that_a_window_covers(lines, cycles):
    """The number of passes: counted, set, grown, or usual."""
    assert cycles_of(read(lines))[-1].cycles == cycles


def test_windows_are_held_back_until_no_report_can_come():
    """Eight windows decide that a run writes no reports; from then on each comes at once."""
    windows = [at(second) for second in range(10)]
    assert [len(cycles_of(fed(windows[:count]))) for count in (7, 8, 9, 10)] == [0, 8, 9, 10]


def test_first_windows_of_many_ranks_decide_nothing():
    """Sixteen ranks' first windows are one window each: a report may still come."""
    ranks = [at(0, rank=f"DP{number}") for number in range(16)]
    found = cycles_of(read([*ranks, header("DP0"), phase(VERIFY, 19)]))
    assert [list(cycle.phases_s) for cycle in found] == [[VERIFY]]


@pytest.mark.parametrize(
    ("lines", "phases"),
    [
        pytest.param(
            [at(0), at(0), header(), phase(VERIFY, 19), at(1)], [VERIFY], id="in a run with reports"
        ),
        pytest.param(
            [*[at(0)] * 9, header(), phase(VERIFY, 19), at(1)],
            ["inferred_cycle"] * 9 + [VERIFY],
            id="behind a late report",
        ),
        pytest.param(
            [
                header(),
                phase(VERIFY, 19),
                server_args(),
                at(0),
                at(0),
                server_args(),
                at(0),
                at(0),
                header(),
                phase(VERIFY, 19),
            ],
            [VERIFY, "inferred_cycle", VERIFY],
            id="each run for itself",
        ),
        pytest.param([at(0), event("exit")], ["inferred_cycle"], id="a short run"),
    ],
)
def test_nothing_is_inferred_where_reports_are(lines, phases):
    """Reports are measured; what is inferred would count the same cycles again."""
    assert [phase for cycle in cycles_of(read(lines)) for phase in cycle.phases_s] == phases


def test_the_first_report_still_warms_up_behind_windows():
    """Windows that are dropped do not use up the warm-up."""
    lines = [
        server_args(),
        prefill(),
        at(0),
        at(0),
        at(1),
        header(),
        phase(VERIFY, 90),
        header(),
        phase(VERIFY, 19),
    ]
    assert [cycle.warm_up for cycle in cycles_of(read(lines))] == [True, False]
