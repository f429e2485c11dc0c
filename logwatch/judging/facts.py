"""Level 1: what a log says about a run besides its timings, in bounded memory: the material of causes.

Each fact keeps the line that proves it. NCCL's lines carry a process id and no rank; facts keep them by
process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from logwatch.judging.conditions import LONGEST, telling
from logwatch.model import Cycle, Item, Record, RunStarted

PROCESSES, VARIABLES, KINDS, TEXTS = 64, 64, 16, 4


@dataclass
class Sighting:
    """How often something was seen, where first and where last."""

    count: int = 0
    first: int = 0
    last: int = 0

    def see(self, line: int) -> None:
        """One more, at this line."""
        self.first = self.first if self.count else line
        self.count, self.last = self.count + 1, line


_TROUBLES = frozenset({"watchdog", "crash", "abort", "exit"})

BY_PID = "pid "
"""Begins the name of a process that NCCL's own lines speak of; the plugin's speak of ranks."""


@dataclass
class Facts:
    """What is known of one run of one stream.

    Attributes:
        settings: Those that can make a difference; `settings_line` is theirs.
        variables: By process (`pid 713`) or rank, each variable's value.
        variable_lines: Line at which a variable was first seen.
        transports: `P2P/IPC`, `NET/Socket`, ... with where they were seen; `networks`: what NCCL would use
            between nodes.
        captured: Graphs captured: `target verify`, `draft extend`, ...
        graph_lost: Messages about graphs that are not used: (line, text).
        graph_on, graph_off: Decode lines with and without a graph; `reports_on`, `reports_off` reports.
        troubles: Messages of watchdogs, crashes and aborts, the newest last: (line, text).
        largest_graph: Largest batch seen with a graph.
        retracts: Retractions of requests, `usage` the largest share of KV tokens in use.
        reports: Cycles seen.
    """

    run: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    settings_line: int = 0
    version: str | None = None
    variables: dict[str, dict[str, str]] = field(default_factory=dict)
    variable_lines: dict[str, int] = field(default_factory=dict)
    transports: dict[str, Sighting] = field(default_factory=dict)
    networks: dict[str, Sighting] = field(default_factory=dict)
    captured: dict[str, Sighting] = field(default_factory=dict)
    graph_lost: list[tuple[int, str]] = field(default_factory=list)
    graph_on: Sighting = field(default_factory=Sighting)
    graph_off: Sighting = field(default_factory=Sighting)
    largest_graph: int = 0
    retracts: Sighting = field(default_factory=Sighting)
    retract_rank: str | None = None
    usage: float = 0.0
    reports: int = 0
    reports_on: Sighting = field(default_factory=Sighting)
    reports_off: Sighting = field(default_factory=Sighting)
    troubles: list[tuple[int, str]] = field(default_factory=list)

    @property
    def mostly_eager(self) -> bool:
        """Whether most of the work ran without a graph."""
        on, off = (
            (self.graph_on, self.graph_off)
            if self.graph_on.count or self.graph_off.count
            else (self.reports_on, self.reports_off)
        )
        return off.count > on.count

    def merged(self, tellers: tuple[bool, ...] = (False, True)) -> dict[str, str]:
        """Each variable's value; where processes differ, the values of all, sorted and joined by `|`.

        Args:
            tellers: Whether what NCCL's own lines tell counts (True), and what the plugin's do (False).
        """
        found: dict[str, set[str]] = {}
        for process, variables in self.variables.items():
            if process.startswith(BY_PID) not in tellers:
                continue
            for name, value in variables.items():
                found.setdefault(name, set()).add(value)
        return {name: "|".join(sorted(values)) for name, values in found.items()}


def comparable(before: Facts, after: Facts) -> tuple[dict[str, str], dict[str, str]]:
    """Variables of two runs as told by those who told in both: NCCL tells what it reads, the plugin many more."""
    told = [{process.startswith(BY_PID) for process in facts.variables} for facts in (before, after)]
    if both := tuple(sorted(told[0] & told[1])):
        return before.merged(both), after.merged(both)
    old, new = before.merged(), after.merged()
    common = old.keys() & new.keys()
    return {name: old[name] for name in common}, {name: new[name] for name in common}


def begin(item: RunStarted) -> Facts:
    """The facts of a run that starts."""
    return Facts(run=item.run, settings=telling(item.settings), settings_line=item.place.line)


def note(facts: Facts, item: Item) -> None:
    """Take from an item what it says."""
    if isinstance(item, Cycle):
        facts.reports += 1
        facts.version = item.conditions.version or facts.version
        if item.conditions.graph is not None and item.phases_s and "inferred_cycle" not in item.phases_s:
            (facts.reports_on if item.conditions.graph else facts.reports_off).see(item.place.line)
    elif isinstance(item, Record):
        teller = _TELLERS.get(item.kind)
        if teller is not None:
            teller(facts, item)


def _setting(facts: Facts, record: Record) -> None:
    name, value = record.fields.get("variable"), record.fields.get("value", "")
    if isinstance(name, str):
        _variable(facts, f"{BY_PID}{record.fields.get('pid', '?')}", name, str(value), record.place.line)


def _environment(facts: Facts, record: Record) -> None:
    variables = record.fields.get("variables")
    if isinstance(variables, dict):
        for name, value in variables.items():
            _variable(facts, record.rank or "rank 0", name, value, record.place.line)


def _variable(facts: Facts, process: str, name: str, value: str, line: int) -> None:
    if process not in facts.variables and len(facts.variables) >= PROCESSES:
        return
    variables = facts.variables.setdefault(process, {})
    if name in variables or len(variables) < VARIABLES:
        variables[name] = value[:LONGEST].removesuffix(".")
        facts.variable_lines.setdefault(name, line)


def _transport(facts: Facts, record: Record) -> None:
    text = str(record.fields.get("transport", ""))
    found = facts.transports if "/" in text else facts.networks
    name = re.sub(r"/[0-9].*$", "", text)
    if name and (name in found or len(found) < KINDS):
        found.setdefault(name, Sighting()).see(record.place.line)


def _event(facts: Facts, record: Record) -> None:
    event, text = record.fields.get("event"), str(record.fields.get("text", ""))
    line = record.place.line
    if event == "graph_capture":
        what = re.search(r"[Cc]apture (.*?) ?(?:CUDA|cuda|npu|cpu) graph", text)
        name = (what[1] if what else "") or "target"
        if name in facts.captured or len(facts.captured) < KINDS:
            facts.captured.setdefault(name, Sighting()).see(line)
    elif event == "graph_lost" and len(facts.graph_lost) < TEXTS:
        facts.graph_lost.append((line, text[:LONGEST]))
    elif event in _TROUBLES:
        facts.troubles = [*facts.troubles, (line, text[:LONGEST])][-TEXTS:]
    elif event == "retract":
        if not facts.retracts.count:
            facts.retract_rank = record.rank
        if record.rank == facts.retract_rank:  # every rank writes its own line of the same retraction
            facts.retracts.see(line)


def _decode(facts: Facts, record: Record) -> None:
    graph, batch = record.fields.get("graph"), record.fields.get("running_requests")
    if isinstance(graph, bool):
        (facts.graph_on if graph else facts.graph_off).see(record.place.line)
        if graph and isinstance(batch, int):
            facts.largest_graph = max(facts.largest_graph, batch)
    usage = record.fields.get("token_usage")
    if isinstance(usage, int | float):
        facts.usage = max(facts.usage, float(usage))


_TELLERS = {
    "nccl_setting": _setting,
    "environment": _environment,
    "nccl_transport": _transport,
    "event": _event,
    "decode": _decode,
}
