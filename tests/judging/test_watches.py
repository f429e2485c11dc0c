import random

import pytest
from judging_samples import cycle, through

from logwatch.judging.bands import Rules
from logwatch.judging.incidents import Incidents
from logwatch.judging.judgements import Judgements
from logwatch.judging.watches import SILENT_REQUESTS, SILENT_S, UNTIMED_REQUESTS
from logwatch.model import Change, Incident, Place, Record, RunStarted
from logwatch.reading.requests import LONG_S, MANY, SOME, makes_record


def run(items, rules=None):
    stages = Judgements((), rules), Incidents((), rules)
    return [item for item in through(items, *stages) if isinstance(item, Incident)]


def record(line, kind="decode", rank="TP0", **fields):
    return Record(Place("server.log", -1, line), kind, fields, rank=rank)


def decode(line, graph, batch=4, tokens=1.9):
    return record(line, graph=graph, running_requests=batch, tokens_per_cycle=tokens)


def started(line=1, number=0, **settings):
    return RunStarted(
        Place("server.log", -1, line), "node7", number, None, {k: str(v) for k, v in settings.items()}
    )


def test_a_draft_that_does_nothing():
    """Exactly 1.00 tokens a cycle, five reports in a row, is told with its cause."""
    [found] = run([cycle(0.019, n, tokens=1.0) for n in range(1, 9)])
    assert (found.kind, found.onset.line, found.noticed.line) == ("draft_does_nothing", 1, 5)
    assert found.causes[0].cause == "draft_misconfigured"


def test_a_server_without_a_draft_has_nothing_to_accept():
    """1.00 tokens a cycle is what plain decoding gives."""
    assert run([cycle(phases={"inferred_cycle": 0.005}, line=n, tokens=1.0) for n in range(1, 20)]) == []


def test_slower_than_the_baseline():
    """Speculation that gives fewer tokens a second than none is told with both figures, at batch size 1 only."""
    rules = Rules(baseline_tokens_per_second=82.2)
    reports = [
        cycle(phases={"target_verify": 0.0285, "total_cycle": 0.0299}, line=n, tokens=1.81)
        for n in range(1, 9)
    ]
    [found] = run(reports, rules)
    assert (found.kind, found.phase, found.noticed.line) == ("slower_than_baseline", "speculation", 5)
    assert "60.5 tok/s against 82.2" in found.detail
    crowd = [cycle(phases=r.phases_s, line=r.place.line, tokens=1.81, batch_size=8.0) for r in reports]
    assert run(crowd, rules) == []


def test_graphs_lost_at_a_batch_that_had_one():
    """Three decode lines without a graph at an unchanged batch size open, three with one resolve."""
    lines = [decode(n, graph=True) for n in range(1, 6)] + [decode(n, graph=False) for n in range(6, 11)]
    lines += [decode(n, graph=True) for n in range(11, 15)]
    opened, resolved = run(lines)
    assert (opened.kind, opened.onset.line, opened.causes[0].cause) == ("graph_lost", 6, "cuda_graph_off")
    assert (resolved.change, resolved.resolved.line) == (Change.RESOLVED, 11)


def test_a_batch_that_shrinks_may_flip():
    """Single lines without a graph while the batch changes are how servers are."""
    lines = [decode(n, graph=n % 4 != 0, batch=40 - n) for n in range(1, 36)]
    assert run(lines) == []


def test_the_trap_that_keeps_itself_alive():
    """A batch beyond every graph that does not come back is told, with the reason why it does not."""
    lines = [decode(n, graph=True, batch=23) for n in range(1, 10)]
    lines += [decode(n, graph=False, batch=67 + n % 3) for n in range(10, 80)]
    [found] = run(lines)
    assert found.kind == "graph_lost"
    assert "larger than any that had a graph (23)" in found.detail


def test_a_server_started_without_graphs_has_lost_none():
    """What never was there is a setting, not an incident."""
    assert run([decode(n, graph=False) for n in range(1, 40)]) == []


def test_one_slow_rank():
    """A rank that takes longer than the others, five reports in a row, is named."""
    reports = [
        cycle(0.019 * (1.3 if rank == "TP2" else 1.0), 4 * n + i, rank=rank)
        for n in range(8)
        for i, rank in enumerate(("TP0", "TP1", "TP2", "TP3"))
    ]
    [found] = run(reports)
    assert (found.kind, found.rank, round(found.ratio, 2)) == ("one_rank_slow", "TP2", 1.3)
    assert found.causes[0].cause == "one_rank_slow"


def test_ranks_with_other_contexts_are_not_compared():
    """Data-parallel ranks work on requests of their own: a longer context takes longer."""
    reports = [
        cycle(
            0.005 * (1.5 if rank == "DP1" else 1.0),
            2 * n + i,
            rank=rank,
            context_tokens=1800.0 if i else 300.0,
        )
        for n in range(12)
        for i, rank in enumerate(("DP0", "DP1"))
    ]
    assert run(reports) == []


def clock(seconds):
    return (
        None
        if seconds is None
        else f"2026-02-11T{8 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    )


def answered(number, every_s=None, first=2):
    """Access records as `reading.requests` makes them of so many requests, `every_s` apart."""
    for n in range(SOME, number + 1, SOME):
        if not makes_record(n, every_s and clock(0), every_s and clock(int(n * every_s))):
            continue
        fields = {"requests": n, "since_line": first}
        if every_s is not None:
            fields["since"] = clock(0)
        at = None if every_s is None else clock(int(n * every_s))
        yield Record(Place("server.log", -1, first + n - 1), "access", fields, time=at)


def test_reading_tells_what_judging_asks_for():
    """Fewer requests make no record: reading need not look where judging would see nothing."""
    assert (SILENT_REQUESTS, SILENT_S, UNTIMED_REQUESTS) == (SOME, LONG_S, MANY)


def silences(items):
    return [i for i in run(items) if i.kind == "silence"]


SPOKEN = [decode(1, graph=True)]


def test_silence_while_requests_are_answered():
    """Answers for a minute and no line of work is silence, since the first of them; the next line ends it."""
    opened, resolved = silences([*SPOKEN, *answered(150, every_s=1), decode(200, graph=True)])
    assert (opened.onset.line, opened.noticed.line, opened.severity) == (2, 101, "warning")
    assert opened.detail.startswith("100 requests were answered within 100 s, and the log holds no line")
    assert (resolved.change, resolved.resolved.line) == (Change.RESOLVED, 200)


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([*answered(9000, every_s=1)], id="a log level without any line of work"),
        pytest.param([record(1, "prefill"), *answered(9000, every_s=1)], id="a server that only prefills"),
        pytest.param([*SPOKEN, *answered(5000, every_s=0.01)], id="a burst of short answers, timed"),
        pytest.param([*SPOKEN, *answered(1950)], id="a burst of short answers, untimed"),
        pytest.param(
            [started(decode_log_interval=400), *SPOKEN, *answered(450, every_s=1)],
            id="a line every 400 decode steps",
        ),
        pytest.param(
            [each for n in range(20) for each in (record(n, "prefill"), *answered(50, every_s=2))] + SPOKEN,
            id="prefill lines come",
        ),
    ],
)  # fmt: skip
def test_what_is_no_silence(items):
    """Servers that never wrote such lines, or write them rarely, raise no alarm."""
    assert silences(items) == []


@pytest.mark.parametrize(
    ("items", "noticed"),
    [
        pytest.param([*SPOKEN, *answered(9000)], 2001, id="untimed access lines"),
        pytest.param([started(decode_log_interval=400), *SPOKEN, *answered(900, every_s=2)], 501, id="rare lines"),
        pytest.param([*SPOKEN, started(5), *answered(200, every_s=3)], 51, id="a restart with another set-up"),
    ],
)  # fmt: skip
def test_where_silence_is_noticed(items, noticed):
    """At a number of requests that a server like this cannot answer without a line."""
    assert [i.noticed.line for i in silences(items)] == [noticed]


def test_a_gap_that_was_told_is_not_told_again():
    """Where a log has no times and a gap of 2,500 answers ended by itself, the next such gap is usual."""
    gap = [*answered(2500), decode(3000, graph=True)]
    assert [i.change for i in silences([*SPOKEN, *gap, *gap, *gap])] == [Change.OPENED, Change.RESOLVED]


def test_acceptance_that_slides_for_hours():
    """3.33 to 1.90 tokens a cycle over 2,300 decode lines is told long before its end."""
    rng = random.Random(2)
    slide = [3.33 - 1.43 * max(n - 400, 0) / 1900 + rng.gauss(0, 0.15) for n in range(2300)]
    found = run([cycle(0.03, n, tokens=round(v, 2)) for n, v in enumerate(slide, 1)])
    dropped = [i for i in found if i.kind == "acceptance_dropped"]
    assert dropped[0].noticed.line < 1400
    assert dropped[0].direction == "low"
    assert dropped[0].causes[0].cause == "acceptance_dropped"


def test_a_run_with_other_settings_begins_anew():
    """Charts of another configuration end; those of the same one go on and see the restart's change."""
    rng = random.Random(6)

    def reports(first, level, count, run_number):
        return [
            cycle(level + rng.gauss(0, 2e-5), first + n, run=run_number, batch_size=1.0) for n in range(count)
        ]

    same = [started(1, 0, tp_size=8), *reports(2, 0.019, 2000, 0), started(2002, 1, tp_size=8, port=2)]
    found = run([*same, *reports(2003, 0.0195, 60, 1)])
    assert [(i.kind, i.onset.line) for i in found][:1] == [("level_shift", 2003)]
    other = [*same[:-1], started(2002, 1, tp_size=4)]
    assert run([*other, *reports(2003, 0.0195, 60, 1)]) == []


def test_ranks_that_step_together_share_a_chart():
    """Two tensor-parallel ranks write the same change twice: it is one shift, told of the first rank."""
    rng = random.Random(7)
    values = [0.019 + rng.gauss(0, 2e-5) + (5e-4 if n > 2000 else 0) for n in range(2100)]
    reports = [
        cycle(value, 2 * n + i, rank=rank, batch_size=1.0)
        for n, value in enumerate(values)
        for i, rank in enumerate(("TP1", "TP0"))
    ]
    assert [(i.kind, i.rank) for i in run(reports) if i.change is Change.OPENED] == [("level_shift", "TP0")]


def test_other_engines_drafts_are_watched_too():
    """Metrics lines of another engine that accept nothing, five in a row, are told."""
    lines = [record(n, "spec_metrics", rank=None, tokens_per_cycle=1.0, accept_rate=0.0) for n in range(1, 8)]
    [found] = run(lines)
    assert (found.kind, found.noticed.line) == ("draft_does_nothing", 5)
