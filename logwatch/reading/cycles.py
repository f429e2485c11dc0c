"""Level 2: records to cycles, per rank and run (`reading/cycles.py`).

Every record passes through unchanged; between them come

- `RunStarted`, before a `server_args` record, or before the first record of input that has none, or where a
  server that crashed or exited gets ready again;
- `Cycle`, one for each EAGLE3_PROFILE report, as soon as it is known to be complete (`reports.py`);
- `Cycle` with the one phase `inferred_cycle`, one for each steady window of decode lines (`windows.py`), in
  runs without any report; without a phase for other windows that say how many tokens a cycle gave. A run's first
  windows are held back until it is plain that no report comes.

Only the order of the records decides, so that any cut into chunks, and a replay, give the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logwatch.model import Cycle, Malformed, Record, RunStarted
from logwatch.reading.conditions import Surroundings, SurroundingsMemory, whole
from logwatch.reading.reports import ACCEPT, Report, Reports, ReportsMemory, key_of, rank_of_key
from logwatch.reading.windows import Windows, WindowsMemory, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from logwatch.model import Value
    from logwatch.reading.reports import Done

INFERRED = "inferred_cycle"
_HELD = 8  # windows of a rank (of 40 cycles) in which a report (of 100 or more) would have come
_MOST_HELD = 512  # windows of all ranks
_MOST_RANKS = 2048
_ENDS = frozenset({"crash", "exit"})
_STARTS = frozenset({"ready", "graph_capture"})


@dataclass(slots=True)
class Run:
    """The run that the log is in.

    Attributes:
        number: -1 before the first record.
        started: Whether its start was seen.
        settings: Of its `server_args` line.
        busy: Whether it has got ready, or done anything.
        ended: Whether its crash or exit was seen, and no work since.
        profiled: Whether it has written a line of a report.
        held: Inferred cycles, held back until `judged`.
        judged: Whether it is plain that no reports come.
    """

    number: int = -1
    started: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    busy: bool = False
    ended: bool = False
    profiled: bool = False
    held: list[Cycle] = field(default_factory=list)
    judged: bool = False
    surroundings: SurroundingsMemory = field(default_factory=SurroundingsMemory)
    windows: WindowsMemory = field(default_factory=WindowsMemory)


@dataclass(slots=True)
class CyclesMemory:
    """All that `Cycles` remembers: the run it is in, and the reports that are open."""

    run: Run = field(default_factory=Run)
    reports: ReportsMemory = field(default_factory=ReportsMemory)


class Cycles:
    """Puts reports together, finds runs, infers cycle times; what comes out is in the module's docstring.

    Args:
        stream: Name of the source, for what comes out.
    """

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.memory = CyclesMemory()

    def feed(self, item: Record | Malformed) -> Iterator[Record | Malformed | RunStarted | Cycle]:
        """Take one record, give it and what is now known."""
        if isinstance(item, Malformed):
            yield item
            return
        yield from self._runs(item)
        rank = key_of(item.rank, item.writer)
        before: list[Done] = []
        after: Iterable[Cycle] = ()
        match item.kind:
            case "phase" | "accept":
                after = self._cycles(self._line(rank, item))
            case "report":
                before = self._header(rank, item)
            case "decode":
                before = self._reports().other_line(rank)
                after = self._decode(rank, item)
            case "prefill":
                before = self._reports().other_line(rank)
                self._windows().prefill()
                self.memory.run.busy = True
            case "event":
                self._event(item.fields.get("event"))
        yield from self._cycles(before)
        yield item
        yield from after

    def finish(self) -> Iterator[Record | Malformed | RunStarted | Cycle]:
        """The input ends: open reports end here, and what was held back is given."""
        yield from self._cycles(self._reports().cut(crashed=self.memory.run.ended))
        yield from self._release()

    def _runs(self, record: Record) -> Iterator[Cycle | RunStarted]:
        """Begin a run where a record says that one begins, or where none has begun yet."""
        run = self.memory.run
        if record.kind == "server_args":
            settings = _settings(record.fields)
            # Several nodes may write the same line for one start.
            if not run.started or run.busy or run.ended or settings != run.settings:
                yield from self._start(record, settings)
        elif record.kind == "event":
            if run.ended and record.fields.get("event") in _STARTS:
                yield from self._start(record, None)
        elif run.number < 0:
            yield from self._start(record, None)

    def _reports(self) -> Reports:
        return Reports(self.memory.reports)

    def _surroundings(self) -> Surroundings:
        run = self.memory.run
        return Surroundings(run.surroundings, run.settings, started=run.started)

    def _windows(self) -> Windows:
        run = self.memory.run
        algorithm = run.settings.get("speculative_algorithm", "None")
        interval = whole(run.settings.get("decode_log_interval"))
        return Windows(run.windows, interval, speculates=algorithm not in {"None", "", "null"})

    def _start(self, record: Record, settings: dict[str, str] | None) -> Iterator[Cycle | RunStarted]:
        """A run begins with this record; without settings its start may lie before the input."""
        yield from self._cycles(self._reports().cut(crashed=True))
        yield from self._release()
        run = self.memory.run
        started = settings is not None or run.ended
        self.memory.run = Run(run.number + 1, started, settings or {})
        # The first decode line covers the time since the start, whether it has seen a prefill or not.
        self.memory.run.windows.disturbed = started
        self.memory.reports = ReportsMemory()
        yield RunStarted(record.place, self.stream, run.number + 1, record.time, dict(settings or {}))

    def _header(self, rank: str, record: Record) -> list[Done]:
        fields = record.fields
        self._profiled()
        cycles = number(fields, "cycles")
        report = Report(
            record.place,
            record.time,
            header=True,
            cycles=None if cycles is None else int(cycles),
            batch_size=number(fields, "batch_size"),
            graph_percent=number(fields, "graph_percent"),
        )
        return self._make_room(rank) + self._reports().header(rank, report)

    def _line(self, rank: str, record: Record) -> list[Done]:
        fields = record.fields
        if record.kind == "accept":
            label, value = ACCEPT, number(fields, "accepted_drafts")
        else:
            self._profiled()
            label, value = str(fields.get("phase", "")), number(fields, "seconds")
        if value is None or not label:
            return []
        made = self._make_room(rank)
        share = number(fields, "share")
        return made + self._reports().line(rank, label, value, share, record.place, record.time)

    def _event(self, event: Value | None) -> None:
        run = self.memory.run
        run.ended = run.ended or event in _ENDS
        run.busy = run.busy or event == "ready"

    def _make_room(self, rank: str) -> list[Done]:
        """A hostile log may name any number of ranks: the one known longest is forgotten."""
        ranks = self.memory.reports.ranks
        if rank in ranks or len(ranks) < _MOST_RANKS:
            return []
        return self._reports().forget(next(iter(ranks)))

    def _profiled(self) -> None:
        """The run writes reports: nothing need be inferred."""
        run = self.memory.run
        run.busy = run.profiled = True
        run.ended = False
        run.held = []

    def _decode(self, rank: str, record: Record) -> Iterator[Cycle]:
        """A decode line: what it says of the batch, and the steady window that it may end."""
        run, fields = self.memory.run, record.fields
        run.busy, run.ended = True, False
        surroundings = self._surroundings()
        surroundings.decode(rank, fields)
        if run.profiled:  # windows are not looked at again in this run
            return
        window = self._windows().decode(rank, record)
        if window is None or (run.judged and window.first):
            window = self._windows().unsteady(record)
        if window is None:
            return
        if window.disproved_s is not None:
            gap = {INFERRED: window.disproved_s}
            run.held = [held for held in run.held if held.rank != record.rank or held.phases_s != gap]
        conditions = surroundings.conditions(rank)
        steady = window.cycle_s is not None
        cycle = Cycle(
            record.place,
            self.stream,
            record.rank,
            run.number,
            record.time,
            window.cycles,
            window.tokens_per_cycle,
            {} if window.cycle_s is None else {INFERRED: window.cycle_s},
            conditions=conditions,
            warm_up=steady and surroundings.warms_up(rank, conditions.batch_size, inferred=True),
        )
        if run.judged:
            yield cycle
            return
        run.held.append(cycle)
        of_rank = sum(held.rank == record.rank for held in run.held)
        if of_rank >= _HELD or len(run.held) >= _MOST_HELD:
            yield from self._release()

    def _release(self) -> Iterator[Cycle]:
        """No report will come: give what was inferred so far."""
        run = self.memory.run
        held, run.held, run.judged = run.held, [], True
        yield from held

    def _cycles(self, done: list[Done]) -> Iterator[Cycle]:
        surroundings = self._surroundings()
        for one in done:
            report = one.report
            if not report.phases_s:
                continue
            conditions = surroundings.conditions(one.rank, report.batch_size, report.graph_percent)
            accepted = report.accepted_drafts
            tokens = surroundings.tokens_per_cycle(one.rank) if accepted is None else round(accepted + 1, 9)
            yield Cycle(
                report.place,
                self.stream,
                rank_of_key(one.rank),
                self.memory.run.number,
                report.time,
                report.cycles or 1,
                tokens,
                dict(report.phases_s),
                dict(report.shares),
                conditions,
                surroundings.warms_up(one.rank, conditions.batch_size),
                one.complete,
            )


def _settings(fields: Mapping[str, Value]) -> dict[str, str]:
    settings = fields.get("settings")
    return dict(settings) if isinstance(settings, dict) else {}
