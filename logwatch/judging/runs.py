"""Level 2: whole runs gathered for the commands that look at them at once (`compare`, `tune`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from logwatch.judging.conditions import TOKENS, bucket_of, bucket_text, group_of, samples_of
from logwatch.judging.facts import Facts, begin, note
from logwatch.model import Cycle, Item, RunStarted


@dataclass
class Run:
    """One run: what it said, and its cycles in order.

    Attributes:
        number: Of the run in its file, from 1, as people count.
        path: The file.
        started: Time of its start as the log wrote it, or None.
    """

    path: str
    number: int
    started: str | None = None
    facts: Facts = field(default_factory=Facts)
    cycles: list[Cycle] = field(default_factory=list)

    @property
    def label(self) -> str:
        """`server.log run 2`."""
        return f"{self.path.rpartition('/')[2]} run {self.number}"


@dataclass(frozen=True, slots=True)
class Observed:
    """One sample of a series; `tokens` is how many each request grew while it was taken."""

    value: float
    context: float | None
    line: int
    time: str | None
    tokens: float = 0.0


def gather(runs: list[Run], path: str, item: Item) -> None:
    """Put an item to its run; a run begins with `RunStarted`."""
    if isinstance(item, RunStarted):
        runs.append(Run(path, item.run + 1, item.time, begin(item)))
    if not runs:
        return  # an event before any run
    run = runs[-1]
    note(run.facts, item)
    if isinstance(item, Cycle) and item.phases_s:
        run.cycles.append(item)


def series_of(run: Run) -> dict[str, dict[str, list[Observed]]]:
    """By phase and bucket, the samples of one rank of each data-parallel group, without warm-ups.

    The ranks of a group step together: two of them are one observation written twice.
    """
    speakers: dict[str, str] = {}
    counts: dict[str, int] = {}
    for cycle in run.cycles:
        counts[cycle.rank or ""] = counts.get(cycle.rank or "", 0) + 1
    for rank in sorted(counts, key=lambda name: (-counts[name], name)):
        speakers.setdefault(group_of(rank), rank)
    found: dict[str, dict[str, list[Observed]]] = {}
    for cycle in run.cycles:
        rank = cycle.rank or ""
        if cycle.warm_up or not cycle.complete or speakers[group_of(rank)] != rank:
            continue
        samples = dict(samples_of(cycle))
        if "total_cycle" in cycle.phases_s:
            samples["total_cycle"] = cycle.phases_s["total_cycle"]
        for phase, value in samples.items():
            bucket = bucket_of(phase, cycle.conditions)
            if bucket is not None:
                context = None if phase == TOKENS else cycle.conditions.context_tokens
                where = found.setdefault(phase, {}).setdefault(bucket_text(bucket), [])
                grown = cycle.cycles * (cycle.tokens_per_cycle or 1.0)
                where.append(Observed(value, context, cycle.place.line, cycle.time, grown))
    return found
