"""Boards to look at: the states that a status page must show well."""

import random
from dataclasses import replace

from outlet_items import cycle, decode, incident, judgement, malformed, read, run_started

from logwatch.model import Cause, Change, Conditions, Level, Moment, Notice
from logwatch.outlets.metrics import Metrics
from logwatch.outlets.web.board import Board
from logwatch.outlets.web.site import Site

SETTINGS = {
    "model_path": "/models/Kimi-K2-Instruct",
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": "2",
    "speculative_eagle_topk": "1",
    "speculative_num_draft_tokens": "3",
    "tp_size": "8",
    "disable_cuda_graph": "False",
    "cuda_graph_max_bs": "8",
    "attention_backend": "flashinfer",
    "context_length": "131072",
    "mem_fraction_static": "0.85",
}


def feed(site, *items):
    for item in items:
        site.metrics.take(item)
        site.board.take(item)


def report(n, verify_s, *, rank="TP0", run=0, hour=8, tokens=1.92, stream="node7.log"):
    time = f"2026-02-11T{hour + n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}"
    draft, extend = 0.00053, 0.00048
    total = verify_s + draft + extend
    return cycle(
        verify_s,
        line=100 + n * 6,
        stream=stream,
        rank=rank,
        run=run,
        time=time,
        tokens_per_cycle=tokens,
        phases_s={
            "draft_forward": draft,
            "target_verify": verify_s,
            "draft_extend": extend,
            "total_cycle": total,
        },
        shares={
            "draft_forward": draft / total,
            "target_verify": verify_s / total,
            "draft_extend": extend / total,
        },
        conditions=Conditions(batch_size=1.0, num_steps=2, graph=run == 0),
    )


def empty():
    """Nothing has been read yet."""
    return Site(Metrics(), Board())


def waiting():
    """A source is read, and holds no sample yet."""
    site = empty()
    site.metrics.add_stream("node7.log")
    return site


def tuned(ranks=1):
    """The field's machine in its band."""
    site, chance = Site(Metrics(baseline_tokens_per_second=82.2), Board()), random.Random(7)
    feed(
        site,
        run_started(1, **SETTINGS),
        read(lines=9124, matched=7000, ignored=2124, malformed=0, size=812_345),
    )
    for n in range(200):
        for rank in range(ranks):
            each = report(n * 4, 0.01914 + chance.gauss(0, 0.00006), rank=f"TP{rank}")
            feed(site, each, judgement(each))
    feed(site, decode(running_requests=1, generation_tokens_per_second=93.6, tokens_per_cycle=1.92))
    site.metrics.observe_source("node7.log", 0, 0.0)
    return site


def regressed(ranks=1):
    """The same machine after the restart that nobody was told of."""
    site, chance = tuned(ranks), random.Random(8)
    feed(
        site,
        incident(Change.OPENED, key="old", onset=Moment(40, "2026-02-10T22:10:04"), causes=(), rank="TP0"),
    )
    feed(
        site,
        incident(
            Change.RESOLVED,
            key="old",
            after=0.02312,
            ratio=1.21,
            onset=Moment(40, "2026-02-10T22:10:04"),
            resolved=Moment(400, "2026-02-10T22:41:09"),
        ),
    )
    changed = SETTINGS | {"disable_cuda_graph": "True", "cuda_graph_max_bs": "None"}
    feed(
        site,
        replace(run_started(1300, **changed), run=1),
        malformed(),
        read(lines=310, matched=240, ignored=69, malformed=1, size=28_100),
    )
    for n in range(40):
        for rank in range(ranks):
            each = report(
                820 + n * 6, 0.02895 + chance.gauss(0, 0.00008), rank=f"TP{rank}", run=1, tokens=1.81
            )
            feed(site, each, judgement(each))
    causes = (
        Cause(
            "cuda_graph_off",
            "The report says `graph 0.0%`; until 08:13:16 it said `graph 100.0%`. "
            "`disable_cuda_graph` was False and is True now.",
            0.92,
        ),
        Cause(
            "nccl_environment_lost", "No `NCCL_PROTO set by environment to LL` line since the restart.", 0.31
        ),
    )
    for rank in range(ranks):
        feed(
            site,
            incident(
                key=f"now{rank}",
                rank=f"TP{rank}",
                onset=Moment(1304, "2026-02-11T08:13:40"),
                noticed=Moment(1316, "2026-02-11T08:13:52"),
                causes=causes,
                detail="It is steady, not noise (coefficient of variation 0.28%). Speculation costs more than it "
                "gives: 60.4 tok/s against 82.2 without it (break-even 2.46 tokens a cycle, now 1.81).",
            ),
        )
    feed(site, decode(running_requests=1, generation_tokens_per_second=60.4, tokens_per_cycle=1.81))
    site.metrics.observe_source("node7.log", 1_203, 0.2)
    return site


def troubled():
    """Logwatch itself is in trouble, on a machine that is well."""
    site = tuned()
    site.metrics.observe_commit(failed=True)
    site.metrics.observe_reload(successful=False)
    site.metrics.observe_pending(3)
    site.metrics.observe_source("node7.log", 48_000_000, 95.0)
    for notice in (
        Notice("rotated", "/logs/node7.log was rotated; 1 file(s) to finish first", stream="node7.log"),
        Notice(
            "lost",
            "70 bytes of /logs/node7.log were destroyed before they were read",
            Level.ERROR,
            "node7.log",
        ),
        *[Notice("sink_failed", "pager cannot be reached; tried again in 4 s", Level.WARNING)] * 3,
    ):
        site.board.notice(notice)
    return site


def hostile():
    """A log that tries to become markup, wherever the page shows something of it."""
    evil = '<script>window.owned=1</script><img src=x onerror="window.owned=1">'
    site = Site(Metrics(), Board())
    settings = {evil: evil, "model_path": evil, "tp_size": "</dd><script>window.owned=1</script>"}
    feed(site, run_started(1, evil, **SETTINGS), run_started(2, evil, **settings))
    each = cycle(0.029, stream=evil, rank=evil, phases_s={evil: 0.029, "target_verify": 0.029}, time=evil)
    feed(site, each, judgement(each))
    feed(
        site,
        incident(
            stream=evil,
            rank=evil,
            phase=evil,
            kind=evil,
            severity=evil,
            detail=evil,
            onset=Moment(1, evil),
            causes=(Cause(evil, evil, 0.5),),
        ),
        incident(
            Change.RESOLVED, key="x", stream=evil, resolved=Moment(9, evil), causes=(Cause(evil, evil, 1.0),)
        ),
    )
    site.board.notice(Notice(evil, evil, Level.ERROR, evil, evil))
    site.metrics.observe_source(evil, 1, 99.0)
    return site


def unbanded():
    """An engine without a band: an inferred cycle only."""
    site = Site(Metrics(), Board())
    for n in range(12):
        feed(
            site,
            cycle(line=n, rank=None, phases_s={"inferred_cycle": 0.01089 + 0.00002 * (n % 3)}, shares={}),
        )
    return site


SCENES = {
    "empty": empty,
    "waiting": waiting,
    "tuned": lambda: tuned(8),
    "regressed": regressed,
    "eight_ranks": lambda: regressed(8),
    "troubled": troubled,
    "unbanded": unbanded,
    "hostile": hostile,
}
