"""Level 4: composes the stages; the only file that knows their order.

`watch` enters with bytes, `replay` with bytes or, in bulk, with records: what follows is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logwatch.config import BandConfig, BaselineConfig, Config
from logwatch.grammar.load import load_grammars
from logwatch.grammar.streaming import Reader
from logwatch.judging.bands import Band, Rules
from logwatch.judging.baseline import Baseline
from logwatch.judging.incidents import Incidents, IncidentsMemory
from logwatch.judging.judgements import Judgements, JudgementsMemory, Tuned
from logwatch.model import (
    Cycle,
    Frame,
    Incident,
    Item,
    Judgement,
    Line,
    Malformed,
    Notice,
    Notify,
    Read,
    Record,
)
from logwatch.reading.cycles import Cycles, CyclesMemory
from logwatch.reading.framing import Framing, FramingMemory
from logwatch.reading.lines import Lines
from logwatch.reading.records import Records
from logwatch.reading.requests import WORK, Requests, RequestsMemory, is_answer
from logwatch.reading.whole import Piece, whole_report

if TYPE_CHECKING:
    from logwatch.columns import CycleColumns
    from logwatch.intake.bulk_requests import Unclaimed
    from logwatch.reading.columns import Reported
    from logwatch.reading.requests import Answers

_PASSED_ON = frozenset({"phase", "accept", "report", "prefill"})
"""Records of which judging learns only that the stream is talking; their cycles say the rest."""


def _quiet(notice: Notice) -> None:
    """The `Notify` of a caller who does not want to know."""


@dataclass
class PipelineMemory:
    """All that a pipeline remembers between two pieces of input; plain values only.

    The unfinished line at the end is not in it: who restores a pipeline reads on from that line's first byte.
    """

    framing: FramingMemory = field(default_factory=FramingMemory)
    requests: RequestsMemory = field(default_factory=RequestsMemory)
    cycles: CyclesMemory = field(default_factory=CyclesMemory)
    judgements: JudgementsMemory = field(default_factory=JudgementsMemory)
    incidents: IncidentsMemory = field(default_factory=IncidentsMemory)


@dataclass(frozen=True, slots=True)
class Settings:
    """What every pipeline of one configuration shares."""

    reader: Reader
    bands: tuple[Band, ...]
    rules: Rules
    tuned: tuple[Tuned, ...] = ()

    @classmethod
    def of_config(cls, config: Config) -> Settings:
        """Read the grammars and build bands and rules.

        Raises:
            GrammarError: A grammar file cannot be used.
            BandError: A band cannot be used.
        """
        return cls(
            reader=Reader(load_grammars(config.grammars.directories)),
            bands=tuple(band_of(band) for band in config.band),
            rules=Rules(
                false_alarms_per_year=config.detect.false_alarms_per_year,
                baseline_tokens_per_second=config.speculation.baseline_tokens_per_second,
                tuned_environment=config.tuned.environment,
            ),
            tuned=tuple(_tuned(each) for each in config.baseline),
        )


def band_of(band: BandConfig) -> Band:
    """The band that judging uses.

    Raises:
        BandError: It cannot be used, for example because `when` names a condition that there is none of.
    """
    return Band(
        phase=band.phase,
        low_s=band.low,
        high_s=band.high,
        open_after=band.open_after,
        resolve_after=band.resolve_after,
        when=band.when,
        severity=band.severity,
        per_context_token_s=band.per_context_token,
    )


def _tuned(each: BaselineConfig) -> Tuned:
    return Tuned(each.phase, each.bucket, Baseline(**each.model_dump(exclude={"phase", "bucket"})))


class Pipeline:
    """One source's way from bytes to incidents: a pure fold, as its stages are.

    Args:
        settings: What the configuration says.
        stream: Name of the source.
        path: What the places of its lines say.
        notify: Told of lines too long and the like.
        keep: Which records count at all (a replay of a stretch of time), or None for all.
    """

    def __init__(
        self,
        settings: Settings,
        stream: str,
        path: str,
        notify: Notify = _quiet,
        keep: Callable[[Record | Malformed], bool] | None = None,
    ) -> None:
        self.stream = stream
        self._keep = keep
        self._lines = Lines(path, notify=notify)
        self._framing = Framing()
        self._requests = Requests()
        self._answers: Answers | None = None
        self._cycles = Cycles(stream)
        self._build(settings, JudgementsMemory(), IncidentsMemory())

    def configure(self, settings: Settings) -> None:
        """Read and judge by these settings from now on; what the judges remember goes on."""
        self._build(settings, self._judgements.memory, self._incidents.memory)

    def _build(self, settings: Settings, judgements: JudgementsMemory, incidents: IncidentsMemory) -> None:
        self._reader = settings.reader
        self._records = Records(settings.reader)
        self._judgements = Judgements(settings.bands, settings.rules, settings.tuned)
        self._judgements.memory = judgements
        self._incidents = Incidents(settings.bands, settings.rules)
        self._incidents.memory = incidents

    @property
    def pending_bytes(self) -> int:
        """Bytes of the unfinished line at the end: the place to read on from is that much earlier."""
        return self._lines.pending_bytes

    @property
    def line(self) -> int:
        """Number of the unfinished line."""
        return self._lines.memory.line

    @property
    def memory(self) -> PipelineMemory:
        """All that is remembered, live: write it down before feeding on."""
        return PipelineMemory(
            self._framing.memory,
            self._requests.memory,
            self._cycles.memory,
            self._judgements.memory,
            self._incidents.memory,
        )

    @memory.setter
    def memory(self, memory: PipelineMemory) -> None:
        self._framing.memory = memory.framing
        self._requests.memory = memory.requests
        self._cycles.memory = memory.cycles
        self._judgements.memory = memory.judgements
        self._incidents.memory = memory.incidents

    def start_file(self, path: str, first_line: int = 1, offset: int = 0) -> None:
        """The next bytes come from this file, from this place on (rotation, restart)."""
        self._lines.start(path, first_line, offset)

    def feed_bytes(self, data: bytes) -> Iterator[Item]:
        """Items that these bytes complete, and a `Read` at the end."""
        before = self._lines.memory.line
        yield from self._read(self._lines.feed(data), len(data), before)

    def finish_file(self) -> Iterator[Item]:
        """The file ends here, though not the stream: an unfinished last line is given as it is."""
        before = self._lines.memory.line
        yield from self._read(self._lines.finish(), 0, before)

    def feed_records(self, records: Iterable[Record | Malformed]) -> Iterator[Item]:
        """Items of records that were read in bulk."""
        for record in records:
            if self._keep is None or self._keep(record):
                for item in self._cycles.feed(record):
                    if isinstance(item, Record) and item.kind in _PASSED_ON and self._is_talking():
                        yield item
                    else:
                        yield from self._judge((item,))

    @contextmanager
    def keeping_all(self) -> Iterator[None]:
        """Records that are fed meanwhile all count, and are not asked for."""
        keep, self._keep = self._keep, None
        try:
            yield
        finally:
            self._keep = keep

    def must_read(self, unclaimed: Unclaimed) -> bool:
        """Whether a chunk that was read in bulk must be fed as bytes: so many requests may be answered in it."""
        if not len(unclaimed.work) and not self._incidents.memory.watches.spoke:
            return False
        self._answers = unclaimed.answers(self._reader)
        return self._requests.would_tell(self._answers)

    def pass_over(self) -> None:
        """The records of the chunk that `must_read` saw were fed: count the requests that were answered beside."""
        if self._incidents.memory.watches.spoke and self._answers is not None:
            self._requests.take(self._answers)
        self._answers = None

    def feed_whole(self, piece: Piece) -> list[Item] | None:
        """Items of a report that was read in one piece, without its records; None: feed its records."""
        if self._keep is not None or not self._is_talking():
            return None
        cycles = whole_report(self._cycles, piece)
        return None if cycles is None else list(self._judge(cycles))

    def plan_columns(self, reported: Reported) -> CycleColumns | None:
        """The cycles of those reports at the beginning that may be fed as columns; None: feed the first otherwise.

        Changes nothing. Feed them at once.
        """
        from logwatch.judging.columns import Columns  # noqa: PLC0415 - numpy, which `watch` does without
        from logwatch.reading.columns import plan  # noqa: PLC0415 - as above

        if self._keep is not None or not self._is_talking():
            return None
        cycles = plan(self._cycles, reported)
        if cycles is None:
            return None
        columns = Columns(self._judgements, self._incidents)
        count = columns.ready(cycles, reported.between)
        return cycles.part(0, count) if count else None

    def feed_columns(
        self, reported: Reported, cycles: CycleColumns
    ) -> Iterator[CycleColumns | Cycle | Judgement | Incident]:
        """Judge what `plan_columns` gave: cycles as columns come out, and items where columns did not do."""
        from logwatch.judging.columns import Columns  # noqa: PLC0415 - numpy, which `watch` does without
        from logwatch.reading.columns import commit  # noqa: PLC0415 - as above

        commit(self._cycles, reported, len(cycles))
        columns = Columns(self._judgements, self._incidents)
        yield from columns.feed(cycles, reported.between)

    def learns_nothing_of_prefills(self) -> bool:
        """Whether a prefill line would change nothing now: the run reports, and all its ranks are known."""
        run, reports = self._cycles.memory.run, self._cycles.memory.reports
        return (
            self._keep is None
            and run.profiled
            and run.busy
            and self._is_talking()
            and not any(rank.open and not rank.shapes for rank in reports.ranks.values())
        )

    def _is_talking(self) -> bool:
        """Whether the stream gave samples and nothing since that a new sample would end."""
        watches = self._incidents.memory.watches
        return watches.spoke and not watches.requests and not watches.silent

    def finish(self) -> Iterator[Item]:
        """The stream ends here: everything held back comes out."""
        yield from self.finish_file()
        for frame in self._framing.finish():
            for record in self._records.feed(frame):
                yield from self._record(record)
        yield from self._judge(self._cycles.finish())
        for item in self._judgements.finish():
            yield from self._incidents.feed(item)
        yield from self._incidents.finish()

    def _read(self, lines: Iterable[Line], size: int, before: int) -> Iterator[Item]:
        matched = malformed = frames = 0
        for line in lines:
            for frame in self._framing.feed(line):
                frames += 1
                unclaimed = True
                for record in self._records.feed(frame):
                    unclaimed = False
                    if isinstance(record, Record):
                        matched += 1
                        if record.kind in WORK:
                            self._requests.work()
                    else:
                        malformed += 1
                    yield from self._record(record)
                if unclaimed and is_answer(frame):
                    yield from self._answered(frame)
        count = self._lines.memory.line - before
        if size or count:
            ignored = frames - matched - malformed
            yield Read(self.stream, self._lines.path, size, count, matched, ignored, malformed)

    def _answered(self, frame: Frame) -> Iterator[Item]:
        """Count a request that was answered, once the stream has spoken; what comes of it is for judging alone."""
        if not self._incidents.memory.watches.spoke:
            return
        record = self._requests.answered(frame.place, frame.time, frame.rank)
        if record is not None and (self._keep is None or self._keep(record)):
            yield from (item for item in self._incidents.feed(record) if item is not record)

    def _record(self, record: Record | Malformed) -> Iterator[Item]:
        if self._keep is None or self._keep(record):
            yield from self._judge(self._cycles.feed(record))

    def _judge(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            for judged in self._judgements.feed(item):
                yield from self._incidents.feed(judged)
