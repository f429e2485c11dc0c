"""Records become cycles, per rank and run; every record passes through."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_kit import (
    DRAFT,
    EXTEND,
    TOTAL,
    VERIFY,
    accept,
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
    record,
    server_args,
)

from logwatch.model import Conditions, Cycle, Malformed, Place, Record, RunStarted
from logwatch.reading.cycles import Cycles

WHOLE = [phase(DRAFT, 0.5), phase(VERIFY, 19.1), phase(EXTEND, 0.4), phase(TOTAL, 20.0), accept(0.92)]
TUNED = {"speculative_algorithm": "EAGLE3", "speculative_num_steps": "2", "speculative_eagle_topk": "1"}


def named(rank: str, *lines: Record) -> list[Record]:
    return [Record(line.place, line.kind, line.fields, line.time, rank) for line in lines]


def report(verify: float, rank: str | None = None) -> list[Record]:
    return [header(rank), phase(DRAFT, 0.5), phase(VERIFY, verify), phase(TOTAL, 20.0), accept(0.9)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [header(), *WHOLE], [{DRAFT: 0.5, VERIFY: 19.1, EXTEND: 0.4, TOTAL: 20.0}], id="a whole report"
        ),
        pytest.param(WHOLE, [{DRAFT: 0.5, VERIFY: 19.1, EXTEND: 0.4, TOTAL: 20.0}], id="no header"),
        pytest.param(
            [phase(VERIFY, 1), phase(VERIFY, 2), phase(VERIFY, 3)],
            [{VERIFY: 1}, {VERIFY: 2}, {VERIFY: 3}],
            id="grep verify",
        ),
        pytest.param(
            [phase(VERIFY, 1), accept(0.9), phase(VERIFY, 2), accept(0.8)],
            [{VERIFY: 1}, {VERIFY: 2}],
            id="grep verify and accept",
        ),
        pytest.param(
            [
                phase(EXTEND, 1),
                phase(TOTAL, 1),
                phase(DRAFT, 2),
                phase(VERIFY, 2),
                phase(EXTEND, 2),
                phase(TOTAL, 2),
            ],
            [{EXTEND: 1, TOTAL: 1}, {DRAFT: 2, VERIFY: 2, EXTEND: 2, TOTAL: 2}],
            id="grep cyc, begun within a report",
        ),
        pytest.param(
            [accept(0.5), phase(VERIFY, 1), accept(0.9), phase(VERIFY, 2), accept(0.8)],
            [{VERIFY: 1}, {VERIFY: 2}],
            id="begun at another report's accept line",
        ),
        pytest.param([header(), header(), phase(VERIFY, 2)], [{VERIFY: 2}], id="a header without lines"),
        pytest.param([header(), accept(0.9), header(), accept(0.8)], [], id="no phase at all"),
        pytest.param(
            [
                header(),
                phase(VERIFY, 1),
                phase("sampling", 9),
                header(),
                phase(VERIFY, 2),
                phase("sampling", 8),
            ],
            [{VERIFY: 1, "sampling": 9}, {VERIFY: 2, "sampling": 8}],
            id="any label",
        ),
        pytest.param(
            [header("TP0"), *WHOLE, header("TP1"), *WHOLE],
            [{DRAFT: 0.5, VERIFY: 19.1, EXTEND: 0.4, TOTAL: 20.0}] * 2,
            id="ranks one after the other, rank in the header only",
        ),
        pytest.param(
            [phase(EXTEND, 1), header("TP0"), phase(VERIFY, 2), header("TP0")],
            [{EXTEND: 1}, {VERIFY: 2}],
            id="begun within a report of a rank",
        ),
    ],
)
def test_lines_become_reports(lines, expected):
    """A report may have any subset of its lines."""
    assert [milliseconds(cycle) for cycle in cycles_of(read(lines))] == expected


def test_reports_of_ranks_that_interleave_are_not_mixed():
    """Each line goes to its rank's report."""
    tp0, tp1 = named("TP0", header(), *WHOLE), named("TP1", header(), phase(VERIFY, 29), phase(TOTAL, 30))
    lines = [line for pair in zip(tp0, tp1, strict=False) for line in pair] + tp0[3:]
    found = cycles_of(read(lines))
    assert {cycle.rank: milliseconds(cycle)[VERIFY] for cycle in found} == {"TP0": 19.1, "TP1": 29.0}


@pytest.mark.parametrize(
    "first",
    [
        pytest.param([], id="first reports"),
        pytest.param([header("TP0"), *WHOLE, header("TP1"), *WHOLE], id="shape known"),
    ],
)
def test_lines_without_rank_take_turns_where_headers_do(first):
    """Two headers in a row, then line by line: the first line of a label is the first rank's."""
    lines = [header("TP0"), header("TP1")]
    lines += [
        phase(DRAFT, 1),
        phase(DRAFT, 2),
        phase(VERIFY, 3),
        phase(VERIFY, 4),
        phase(EXTEND, 5),
        phase(EXTEND, 6),
    ]
    found = cycles_of(read([*first, *lines]))[-2:]
    assert sorted((cycle.rank, milliseconds(cycle)) for cycle in found) == [
        ("TP0", {DRAFT: 1, VERIFY: 3, EXTEND: 5}),
        ("TP1", {DRAFT: 2, VERIFY: 4, EXTEND: 6}),
    ]


def test_lines_of_processes_that_interleave_are_not_mixed():
    """Under Ray every line names its process: lines without a rank go to that process's report."""
    log = [
        "(W pid=1) [2026-02-11 08:15:02 TP0] EAGLE3_PROFILE 100 cycles",
        "(W pid=2) [2026-02-11 08:15:02 TP1] EAGLE3_PROFILE 100 cycles",
        "(W pid=2)   Draft forward:      0.2 ms/cyc",
        "(W pid=2)   Target verify:      2.2 ms/cyc",
        "(W pid=1)   Draft forward:      0.1 ms/cyc",
        "(W pid=2)   Total cycle:        2.4 ms/cyc",
        "(W pid=1)   Target verify:      1.1 ms/cyc",
        "(W pid=1)   Total cycle:        1.2 ms/cyc",
        "(W pid=2)   Accept len:         0.2",
        "(W pid=1)   Accept len:         0.1",
    ]
    found = cycles_of(read_bytes(["\n".join([*log, *log]).encode()]))
    tp0, tp1 = (
        ("TP0", 1.1, {DRAFT: 0.1, VERIFY: 1.1, TOTAL: 1.2}),
        ("TP1", 1.2, {DRAFT: 0.2, VERIFY: 2.2, TOTAL: 2.4}),
    )
    assert [(cycle.rank, cycle.tokens_per_cycle, milliseconds(cycle)) for cycle in found] == [
        tp0,
        tp1,
        tp1,
        tp0,
    ]


def test_engines_with_the_same_rank_are_not_mixed():
    """Two engines in one log, both TP0: each has its own windows."""
    lines = [
        f"(E pid={pid}) [2026-02-11 08:15:02 TP0] Decode batch. #running-req: {pid}, gen throughput (token/s): 100.00, #queue-req: 0"
        for pid in (1, 2, 1, 2)
    ]
    found = cycles_of(read_bytes(["\n".join(lines).encode()]))
    assert [milliseconds(cycle) for cycle in found] == [{"inferred_cycle": ms} for ms in (10, 20, 10, 20)]


def test_a_report_with_a_line_missing_takes_none_of_the_next_rank():
    """A torn line leaves a hole, and the other rank's line does not fill it."""
    teach = [header("TP0"), *WHOLE, header("TP1"), *WHOLE]
    torn = [header("TP0"), phase(DRAFT, 1), phase(VERIFY, 1), phase(TOTAL, 1), accept(0.1)]
    whole = [header("TP1"), phase(DRAFT, 2), phase(VERIFY, 2), phase(EXTEND, 2), phase(TOTAL, 2), accept(0.2)]
    found = {
        (cycle.rank, cycle.tokens_per_cycle): milliseconds(cycle)
        for cycle in cycles_of(read([*teach, *torn, *whole]))[-2:]
    }
    assert found == {
        ("TP0", 1.1): {DRAFT: 1, VERIFY: 1, TOTAL: 1},
        ("TP1", 1.2): {DRAFT: 2, VERIFY: 2, EXTEND: 2, TOTAL: 2},
    }


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        pytest.param([header(), *WHOLE], 1, id="the very first, if it has all five lines"),
        pytest.param([*report(1), *report(2)], 2, id="any shape, once it is known"),
        pytest.param([phase(VERIFY, 1), phase(VERIFY, 2)], 2, id="bare lines from the second on"),
        pytest.param([header(), phase(VERIFY, 1), decode(90)], 1, id="the first, once its rank goes on"),
        pytest.param(
            [header("TP1"), phase(VERIFY, 1), decode(90, rank="TP0")], 0, id="not when another rank goes on"
        ),
        pytest.param(
            [*report(1), header(), phase(DRAFT, 1), phase(VERIFY, 2), decode(90)],
            1,
            id="not before its last line",
        ),
        pytest.param([header(), *reversed(WHOLE), header(), *WHOLE], 2, id="any order"),
    ],
)
def test_a_cycle_comes_with_its_reports_last_line(lines, count):
    """An incident must not wait for the next report."""
    assert len(cycles_of(fed(lines))) == count


def test_a_late_line_keeps_its_header_and_teaches_the_longer_shape():
    """What comes after a report seemed complete is given with the same header, and only once."""
    lines = [
        *[header("TP0", cycles=1, time="t1"), *WHOLE, phase("sampling", 7)],
        *[header("TP0", cycles=2, time="t2"), *WHOLE, phase("sampling", 8)],
    ]
    found = cycles_of(fed(lines))
    assert [
        (cycle.cycles, cycle.time, "sampling" in cycle.phases_s, VERIFY in cycle.phases_s) for cycle in found
    ] == [
        (1, "t1", False, True),
        (1, "t1", True, False),
        (2, "t2", True, True),
    ]


LABELS = [DRAFT, VERIFY, EXTEND, TOTAL, "sampling", "Accept"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["TP0", "TP1"]), st.lists(st.sampled_from(LABELS), unique=True, max_size=6)
        ),
        max_size=12,
    ),
    st.randoms(),
)
@settings(deadline=None)
def test_no_line_is_lost_doubled_or_mixed_in_any_order(reports, random):
    """Whatever the lines, their order, and how ranks interleave: each sample is given once, with its own header."""
    queues: dict[str, list[Record]] = {"TP0": [], "TP1": []}
    for number, (rank, labels) in enumerate(reports):
        lines = [accept(number) if label == "Accept" else phase(label, number + 1) for label in labels]
        queues[rank] += named(rank, header(cycles=number), *lines)
    mixed = []
    while any(queues.values()):
        queue = random.choice([queue for queue in queues.values() if queue])
        mixed.append(queue.pop(0))
    samples = [
        (cycle.rank, cycle.cycles, label, ms)
        for cycle in cycles_of(read(mixed))
        for label, ms in milliseconds(cycle).items()
    ]
    expected = [
        (rank, number or 1, label, number + 1)
        for number, (rank, labels) in enumerate(reports)
        for label in labels
        if label != "Accept"
    ]
    assert sorted(samples) == sorted(expected)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [header(), phase(DRAFT, 1), phase(VERIFY, 2), server_args(), header(), *WHOLE],
            [(0, False), (1, True)],
            id="a new start",
        ),
        pytest.param([*report(1), header(), phase(DRAFT, 1)], [(0, True), (0, False)], id="the end of input"),
        pytest.param([header(), phase(VERIFY, 1)], [(0, True)], id="the end of input, shape unknown"),
        pytest.param([header(), phase(VERIFY, 1), event("crash")], [(0, False)], id="a crash, then the end"),
        pytest.param(
            [*report(1), header(), phase(DRAFT, 1), event("crash"), event("ready"), *report(2)],
            [(0, True), (0, False), (1, True)],
            id="a crash, then ready again",
        ),
        pytest.param(
            [header(), phase(VERIFY, 1), event("crash"), phase(TOTAL, 1), decode(9)],
            [(0, True)],
            id="a crash that was none",
        ),
    ],
)
def test_a_report_that_was_cut_is_closed_and_not_merged(lines, expected):
    """What a crash cut is flagged, and the next run begins its own."""
    assert [(cycle.run, cycle.complete) for cycle in cycles_of(read(lines))] == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([phase(VERIFY, 1)], [(0, {})], id="input without a start is one run"),
        pytest.param([server_args(a="1"), decode(9)], [(0, {"a": "1"})], id="a start at the beginning"),
        pytest.param(
            [decode(9), server_args(a="1"), decode(9)], [(0, {}), (1, {"a": "1"})], id="a start within"
        ),
        pytest.param(
            [server_args(a="1"), server_args(a="1"), decode(9)], [(0, {"a": "1"})], id="two nodes, one start"
        ),
        pytest.param(
            [server_args(a="1"), server_args(a="2")], [(0, {"a": "1"}), (1, {"a": "2"})], id="other settings"
        ),
        pytest.param(
            [server_args(a="1"), prefill(), server_args(a="1")],
            [(0, {"a": "1"}), (1, {"a": "1"})],
            id="the same settings later",
        ),
        pytest.param(
            [server_args(), event("crash"), server_args()],
            [(0, {}), (1, {})],
            id="a crash before it was ready",
        ),
        pytest.param(
            [event("graph_capture"), server_args(a="1")], [(0, {"a": "1"})], id="events begin no run"
        ),
        pytest.param(
            [decode(9), event("exit"), event("graph_capture"), decode(9)],
            [(0, {}), (1, {})],
            id="exit, then a start without settings",
        ),
        pytest.param([decode(9), event("ready"), decode(9)], [(0, {})], id="ready without an end"),
    ],
)
def test_runs_begin_with_their_settings(lines, expected):
    """A run is from a server's start to the next."""
    runs = [item for item in read(lines) if isinstance(item, RunStarted)]
    assert [(run.run, run.settings) for run in runs] == expected
    assert {run.stream for run in runs} == {"s"}


def test_every_record_passes_through_in_its_place():
    """Cycles of earlier lines come before a record, those that it completes behind it."""
    malformed = Malformed(Place("x", 0, 1), "phase", 1, "a number", "nan")
    lines = [header(), phase(VERIFY, 1), malformed, header(), phase(VERIFY, 2)]
    found = read(lines)
    assert [item for item in found if isinstance(item, (Record, Malformed))] == lines
    assert [type(item).__name__ for item in found] == [
        *["RunStarted", "Record", "Record", "Malformed", "Cycle", "Record", "Record", "Cycle"],
    ]


def test_a_cycle_says_where_when_and_how_long():
    """Header, share and place of a report."""
    lines = [
        record("report", "TP0", "2026-02-11T08:15:02", 7, cycles=100, batch_size=1.0, graph_percent=100.0),
        Record(Place("x", -1, 8), "phase", {"phase": VERIFY, "seconds": 0.01914, "share": 0.95}, None, None),
        Record(Place("x", -1, 9), "accept", {"accepted_drafts": 0.92}, None, None),
    ]
    assert cycles_of(read(lines)) == [
        Cycle(
            Place("x", -1, 7),
            "s",
            "TP0",
            0,
            "2026-02-11T08:15:02",
            100,
            1.92,
            {VERIFY: 0.01914},
            {VERIFY: 0.95},
            Conditions(batch_size=1.0, graph=True),
        )
    ]


def test_a_bare_line_takes_its_own_time_and_covers_one_cycle():
    """Without a header the line's own prefix says when."""
    (cycle,) = cycles_of(read([record("phase", None, "2026-02-11T08:15:02", 4, phase=VERIFY, seconds=0.02)]))
    assert (cycle.time, cycle.cycles, cycle.place.line, cycle.tokens_per_cycle) == (
        "2026-02-11T08:15:02",
        1,
        4,
        None,
    )


@pytest.mark.parametrize(
    ("rank", "before", "expected"),
    [
        pytest.param("TP0", [], Conditions(num_steps=2, topk=1), id="settings only"),
        pytest.param(
            "TP0",
            [decode(90, 4, "TP0", tokens=400, graph=True)],
            Conditions(4.0, 100.0, 2, 1, graph=True),
            id="its own decode line",
        ),
        pytest.param(
            "TP1",
            [decode(90, 4, "TP0", tokens=400)],
            Conditions(4.0, 100.0, 2, 1),
            id="the batch is shared with other ranks",
        ),
        pytest.param(
            "DP1 TP1",
            [decode(90, 4, "DP1 TP0", tokens=400), decode(90, 8, "DP0 TP0", tokens=400)],
            Conditions(4.0, 100.0, 2, 1),
            id="but not with other data-parallel ranks",
        ),
        pytest.param(
            None, [decode(90, 4, "TP0", tokens=0)], Conditions(4.0, None, 2, 1), id="no rank, no tokens"
        ),
    ],
)
def test_conditions_come_from_settings_and_decode_lines(rank, before, expected):
    """What the header does not say is taken from the nearest lines before."""
    (cycle,) = cycles_of(read([server_args(**TUNED), *before, header(rank), phase(VERIFY, 1)]))
    assert cycle.conditions == expected


@pytest.mark.parametrize(
    ("percent", "line", "expected"),
    [
        pytest.param(100.0, False, True, id="the header knows better"),
        pytest.param(0.0, True, False, id="no graph at all"),
        pytest.param(49.0, None, False, id="mostly without"),
        pytest.param(None, False, False, id="the decode line alone"),
        pytest.param(None, None, None, id="nobody says"),
    ],
)
def test_whether_a_graph_was_used(percent, line, expected):
    """The header's share of graph cycles, else the decode line's flag."""
    (cycle,) = cycles_of(read([decode(90, graph=line), header(graph_percent=percent), phase(VERIFY, 1)]))
    assert cycle.conditions.graph is expected


def test_tokens_per_cycle_counts_the_bonus_token_once():
    """Reports count accepted drafts, decode lines count tokens."""
    without = [decode(90, tokens_per_cycle=1.88), header(), phase(VERIFY, 1)]
    (cycle,) = cycles_of(read(without))
    assert cycle.tokens_per_cycle == 1.88
    (cycle,) = cycles_of(read([*without, accept(0.92)]))
    assert cycle.tokens_per_cycle == 1.92


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [server_args(), *report(9), *report(1), *report(1)],
            [True, False, False],
            id="first after a start",
        ),
        pytest.param([*report(9), *report(1)], [False, False], id="a log that begins somewhere"),
        pytest.param(
            [
                server_args(),
                decode(90),
                *report(9),
                *report(1),
                decode(90, 8),
                *report(2),
                *report(2),
                decode(90),
                *report(1),
            ],
            [True, False, True, False, False],
            id="first at a new batch size",
        ),
        pytest.param(
            [server_args(), header("TP0"), *WHOLE, header("TP1"), *WHOLE, header("TP0"), *WHOLE],
            [True, True, False],
            id="each rank",
        ),
        pytest.param(
            [server_args(), *report(9), server_args(a="1"), *report(9)], [True, True], id="each start"
        ),
    ],
)
def test_the_first_reports_warm_up(lines, expected):
    """Kernels are compiled in the first report after a start and at a new batch size."""
    assert [cycle.warm_up for cycle in cycles_of(read(lines))] == expected


def test_a_header_in_the_rotated_file_goes_on_in_the_new_one():
    """A rotation is no end: the stage just continues."""
    cycles = Cycles("s")
    first = Record(Place("a.1", 0, 90), "report", {"cycles": 100}, "t", "TP0")
    rest = [Record(Place("a", 0, number), line.kind, line.fields) for number, line in enumerate(WHOLE, 1)]
    (cycle,) = cycles_of(fed([first, *rest], cycles))
    assert (cycle.place.path, cycle.rank, len(cycle.phases_s)) == ("a.1", "TP0", 4)


def test_hostile_ranks_and_labels_cost_bounded_memory():
    """Any number of ranks and labels is read, and only so many are remembered."""
    cycles = Cycles("s")
    found = fed((phase(VERIFY, 1, f"TP{number}") for number in range(5000)), cycles)
    found += fed((phase(f"p{number}", 1) for number in range(5000)), cycles)
    found += fed((decode(9, rank=f"DP{number}") for number in range(5000)), cycles)
    found += cycles.finish()
    assert sum(len(cycle.phases_s) for cycle in cycles_of(found)) == 10_000
    memory = cycles.memory
    assert (
        max(map(len, [memory.reports.ranks, memory.run.surroundings.loads, memory.run.windows.ranks])) <= 2048
    )
    assert len(memory.run.windows.leaders) <= 2048
