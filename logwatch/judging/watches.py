"""Level 1: what is watched besides bands and charts. A watch turns items into samples of its own rule.

| rule | bad is | source |
|---|---|---|
| `slower_than_baseline` | fewer tokens a second than the same server gives without speculation | contract 1 |
| `draft_does_nothing` | exactly 1.00 tokens a cycle | REPORTS 22 |
| `graph_lost` | decode lines without a graph at a batch that had one, or in a trap | REPORTS 14 |
| `one_rank_slow` | a rank that takes longer than the others of its run | REPORTS 43 |
| `silence` | requests are answered, but no decode line or report is written any more | REPORTS 44 |
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING

from logwatch.judging.conditions import TOKENS, WHOLE, batch_range
from logwatch.judging.economics import cycle_time_s
from logwatch.judging.stretch import Rule, Sample
from logwatch.model import Cycle, Item, Limits, Moment, Record, RunStarted, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOWER = Rule("slower_than_baseline", "speculation", 5, 5, severity_low="critical")
NOTHING = Rule("draft_does_nothing", TOKENS, 5, 5, severity_low="critical")
GRAPH = Rule("graph_lost", "cuda_graph", 3, 3, severity_low="critical")
RANK = Rule("one_rank_slow", "", 5, 5, severity="warning")
SILENCE = Rule("silence", "samples", 1, 1, severity_low="warning")

NO_DRAFT = 1.005
TRAPPED_AFTER = 30
"""Decode lines in a row without a graph, at batches larger than any graph, that are a trap and no burst."""

RANK_EXCESS = 1.15
MOST_RANKS = 256
MOST_PHASES = 32
SILENT_REQUESTS, SILENT_S = 50, 60.0
"""Requests answered without a line of work, and for how long, that are silence. A batch of one that decodes a
single step a request writes a line every 40 of them; a busier server writes lines within a second or two."""

UNTIMED_REQUESTS, UNTIMED_TIMES = 2000, 10
"""Where access lines have no time: so many, and so many times what this run has had without being stuck."""

USUAL_INTERVAL = 40
"""Decode steps a line (`decode_log_interval`) with which the numbers above hold; with more they grow."""

_SPEAKING = frozenset({"decode", "phase", "report", "prefill", "spec_metrics"})


@dataclass
class GraphMemory:
    """Of one rank: the largest batch that had a graph, and decode lines in a row without one."""

    largest: int = 0
    without: int = 0
    last_batch: int = 0
    same: int = 0


@dataclass(frozen=True, slots=True)
class RankValue:
    """A rank's newest value of a phase: of which cycle, batch size and context."""

    value: float
    cycle: int
    batch: int
    context: float | None


@dataclass
class WatchesMemory:
    """What the watches remember.

    Attributes:
        drafts: Whether a draft is known to be used in this run.
        graphs: By rank.
        ranks: By phase, each rank's newest value.
        cycles: Cycles of this run.
        requests: Requests answered since the last line of work, as last told; `since` when the first was.
        usual: Most requests between two lines of work of this run that were told and then ended by themselves.
        interval: Decode steps a decode line.
        spoke: Whether the stream ever had samples; `silent` whether it is told that it has none.
    """

    run: int = 0
    drafts: bool = False
    graphs: dict[str, GraphMemory] = field(default_factory=dict)
    ranks: dict[str, dict[str, RankValue]] = field(default_factory=dict)
    cycles: int = 0
    requests: int = 0
    spoke: bool = False
    silent: bool = False
    since: Moment = field(default_factory=lambda: Moment(0))
    usual: int = 0
    interval: int = USUAL_INTERVAL


def watch(
    memory: WatchesMemory, item: Item, baseline_tokens_per_second: float | None
) -> Iterator[tuple[Rule, str, str | None, Sample]]:
    """(rule, key, rank, sample) of everything that this item says something about."""
    if isinstance(item, Cycle):
        memory.cycles += 1 if item.phases_s else 0
        memory.drafts = memory.drafts or "target_verify" in item.phases_s
        yield from _speculation(memory, item, baseline_tokens_per_second)
        yield from _ranks(memory, item)
    elif isinstance(item, Record):
        if item.kind == "decode":
            memory.drafts = memory.drafts or "tokens_per_cycle" in item.fields
            yield from _graph(memory, item)
        elif item.kind == "spec_metrics":
            tokens = item.fields.get("tokens_per_cycle")
            if isinstance(tokens, int | float):
                here = Moment(item.place.line, item.time)
                yield _nothing(float(tokens), None, item.rank, here, usable=True)
        yield from _silence(memory, item)
    elif isinstance(item, RunStarted):
        memory.run, memory.drafts, memory.graphs, memory.ranks, memory.cycles = item.run, False, {}, {}, 0
        memory.requests = memory.usual = 0
        interval = item.settings.get("decode_log_interval", "")
        memory.interval = int(interval) if interval.isdecimal() and len(interval) < 9 else USUAL_INTERVAL


def trap_text(memory: WatchesMemory, rank: str | None) -> str:
    """Why the way back is blocked, where it is."""
    graph = memory.graphs.get(rank or "-")
    if graph is None or graph.without < TRAPPED_AFTER or graph.last_batch <= graph.largest:
        return ""
    return (
        f"The batch of {graph.last_batch} is larger than any that had a graph ({graph.largest}), for "
        f"{graph.without} decode lines: without graphs the server is slower, which keeps the batch so large."
    )


def _speculation(
    memory: WatchesMemory, cycle: Cycle, baseline: float | None
) -> Iterator[tuple[Rule, str, str | None, Sample]]:
    tokens = cycle.tokens_per_cycle
    if tokens is None or not memory.drafts:
        return
    here = Moment(cycle.place.line, cycle.time)
    usable = not cycle.warm_up
    yield _nothing(tokens, cycle.conditions.draft_tokens, cycle.rank, here, usable=usable)
    time_s = cycle_time_s(cycle)
    batch = cycle.conditions.batch_size
    alone = batch is None or round(batch) == 1
    if baseline is not None and time_s and alone and usable:
        rate = tokens / time_s
        side = "low" if rate < baseline else ""
        yield SLOWER, f"{cycle.rank or '-'}/speculation", cycle.rank, Sample(rate, side, baseline, here)


def _nothing(
    tokens: float, most: int | None, rank: str | None, here: Moment, *, usable: bool
) -> tuple[Rule, str, str | None, Sample]:
    """Whether anything is accepted at all."""
    side = "low" if tokens <= NO_DRAFT else ""
    highest = float(most or 16)
    limits = Limits(NO_DRAFT, highest, highest) if side else None
    sample = Sample(tokens, side, 1.0, here, limits, usable=usable)
    return NOTHING, f"{rank or '-'}/{TOKENS}/nothing", rank, sample


def _graph(memory: WatchesMemory, record: Record) -> Iterator[tuple[Rule, str, str | None, Sample]]:
    graph, batch = record.fields.get("graph"), record.fields.get("running_requests")
    if not isinstance(graph, bool) or not isinstance(batch, int):
        return
    name = record.rank or "-"
    if name not in memory.graphs and len(memory.graphs) >= MOST_RANKS:
        return
    known = memory.graphs.setdefault(name, GraphMemory())
    known.same = known.same + 1 if batch == known.last_batch else 1
    known.last_batch = batch
    if graph:
        known.largest, known.without = max(known.largest, batch), 0
    else:
        known.without += 1
    side = ""
    if not graph and known.largest:
        if batch <= known.largest:
            if known.same < 2:
                return  # a batch that shrinks flips for a line: neither good nor bad
            side = "low"
        elif known.without >= TRAPPED_AFTER:
            side = "low"
        else:
            return
    yield (
        GRAPH,
        f"{name}/cuda_graph",
        record.rank,
        Sample(0.0 if side else 1.0, side, 1.0, Moment(record.place.line, record.time), usable=graph),
    )


def _ranks(memory: WatchesMemory, cycle: Cycle) -> Iterator[tuple[Rule, str, str | None, Sample]]:
    """Each phase against the median of the other ranks' newest values, at equal batch and context."""
    batch = batch_range(cycle.conditions.batch_size)
    mixture = batch is None and cycle.conditions.batch_size is not None
    if cycle.rank is None or cycle.warm_up or not cycle.complete or mixture:
        return
    place = RankValue(0.0, memory.cycles, batch[0] if batch else 0, cycle.conditions.context_tokens)
    here = Moment(cycle.place.line, cycle.time)
    for phase, value in cycle.phases_s.items():
        if phase in WHOLE and "target_verify" in cycle.phases_s:
            continue
        if phase not in memory.ranks and len(memory.ranks) >= MOST_PHASES:
            continue
        known = memory.ranks.setdefault(phase, {})
        if cycle.rank in known or len(known) < MOST_RANKS:
            known[cycle.rank] = RankValue(value, place.cycle, place.batch, place.context)
        if len(known) < 2:
            continue
        fresh = 3 * len(known)  # values older than three rounds are of other times
        others = [
            other.value
            for rank, other in known.items()
            if rank != cycle.rank and memory.cycles - other.cycle <= fresh and _alike(other, place)
        ]
        if others:
            centre = median(others)
            side = "high" if centre and value > RANK_EXCESS * centre else ""
            limits = Limits(0.0, centre, RANK_EXCESS * centre) if side else None
            sample = Sample(value, side, centre, here, limits)
            yield _rank_rule(phase), f"{cycle.rank}/{phase}/ranks", cycle.rank, sample


@lru_cache(MOST_PHASES)
def _rank_rule(phase: str) -> Rule:
    return replace(RANK, phase=phase)


def _alike(one: RankValue, other: RankValue) -> bool:
    if one.batch != other.batch:
        return False
    if one.context is None or other.context is None:
        return True
    return abs(one.context - other.context) <= 0.2 * max(one.context, other.context)


def silence_text(memory: WatchesMemory, here: Moment) -> str:
    """How many requests were answered while nothing was written."""
    begin, end = seconds_of(memory.since.time), seconds_of(here.time)
    within = f" within {end - begin:.0f} s" if begin is not None and end is not None else ""
    return (
        f"{memory.requests} requests were answered{within}, and the log holds no line of any prefill, decode or "
        "report since the first of them."
    )


def _silence(memory: WatchesMemory, record: Record) -> Iterator[tuple[Rule, str, str | None, Sample]]:
    """Answers without work; where the log has times, a burst of short answers is none yet."""
    here = Moment(record.place.line, record.time)
    if record.kind in _SPEAKING:
        memory.spoke = memory.spoke or record.kind != "prefill"
        memory.requests = 0
        if memory.silent:
            # The like shall not be told again; of a long silence no more is learnt than made it one.
            memory.silent, memory.usual = False, _untimed_limit(memory)
            yield SILENCE, "-/samples", None, Sample(1.0, "", 1.0, here)
    elif record.kind == "access" and memory.spoke:
        fields = record.fields
        requests, line, since = fields.get("requests"), fields.get("since_line"), fields.get("since")
        if not isinstance(requests, int) or not isinstance(line, int):
            return
        memory.requests = requests
        memory.since = Moment(line, since if isinstance(since, str) else None)
        if not memory.silent and _is_silent(memory, here):
            memory.silent = True
            yield SILENCE, "-/samples", None, Sample(0.0, "low", 1.0, here, since=memory.since)


def _is_silent(memory: WatchesMemory, here: Moment) -> bool:
    begin, end = seconds_of(memory.since.time), seconds_of(here.time)
    if begin is None or end is None:
        return memory.requests >= _untimed_limit(memory)
    rarer = _rarer(memory)
    return memory.requests >= SILENT_REQUESTS * rarer and end - begin >= SILENT_S * rarer


def _untimed_limit(memory: WatchesMemory) -> int:
    return max(int(UNTIMED_REQUESTS * _rarer(memory)), UNTIMED_TIMES * memory.usual)


def _rarer(memory: WatchesMemory) -> float:
    """How many times rarer decode lines come than usual."""
    return max(1.0, memory.interval / USUAL_INTERVAL)
