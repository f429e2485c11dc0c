"""Level 6: one stream of a replay, from its files to what is kept of it, in this process or another."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logwatch.commands.replay_reading import Reading, Takers
from logwatch.commands.replay_window import Window
from logwatch.errors import SourceError
from logwatch.intake.archive import open_archive
from logwatch.intake.names import readable
from logwatch.judging.runs import Run, gather
from logwatch.model import Level, Notice
from logwatch.outlets.report.summary import Collector
from logwatch.outlets.report.track import Tracker
from logwatch.pipeline import Pipeline, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from logwatch.columns import CycleColumns
    from logwatch.commands.replay_streams import Stream
    from logwatch.config import Config
    from logwatch.model import Item, Sink
    from logwatch.outlets.report.samples import ReplaySink

NOTICES = 3


@dataclass(frozen=True, slots=True)
class Job:
    """One stream to replay.

    Attributes:
        window: Seconds since the epoch from which, and before which, records count; None: without bound.
        folder: Where parts of output files go, or None where none are wanted.
        page, parquet, openmetrics: Which outputs are wanted.
        explain: Whether to say why changes were told or not; keeps all cycles in memory.
        lone: It is the only input: not being able to open it is an error, not damage.
    """

    stream: Stream
    config: Config
    window: tuple[float | None, float | None] = (None, None)
    folder: Path | None = None
    page: bool = False
    parquet: bool = False
    openmetrics: bool = False
    explain: bool = False
    lone: bool = False


@dataclass
class Notices:
    """What happened beside the data: the first few of each kind, and how many there were."""

    shown: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __call__(self, notice: Notice) -> None:
        """Take one notice."""
        self.counts[notice.kind] += 1
        if self.counts[notice.kind] <= NOTICES and notice.level is not Level.INFO:
            self.shown.append(f"{notice.path}: {notice.message}" if notice.path else notice.message)

    def add(self, other: Notices) -> None:
        """Put together."""
        self.shown += other.shown
        self.counts += other.counts


@dataclass
class Part:
    """What is kept of one stream. Its samples, if wanted, lie in the job's folder.

    Attributes:
        explained: Why changes were told or not, a sentence each.
        undated, late: Samples left out of OpenMetrics, see there.
    """

    collector: Collector
    tracker: Tracker | None
    notices: Notices
    explained: tuple[str, ...] = ()
    undated: int = 0
    late: int = 0


def work(job: Job, progress: Callable[[int], None] = lambda _: None) -> Part:
    """Replay one stream.

    Args:
        job: What to do.
        progress: Is told how many more bytes on disk were read.

    Raises:
        SourceError: The only input cannot be opened.
        GrammarError, BandError: The configuration cannot be used.
    """
    baseline = job.config.speculation.baseline_tokens_per_second
    collector, notices = Collector(baseline), Notices()
    sinks: list[ReplaySink] = [collector]
    part = Part(collector, Tracker(baseline) if job.page else None, notices)
    if part.tracker:
        sinks.append(part.tracker)
    metrics = None
    if job.folder is not None and job.parquet:
        from logwatch.outlets.report.as_parquet import ParquetParts

        sinks.append(ParquetParts(job.folder))
    if job.folder is not None and job.openmetrics:
        from logwatch.outlets.report.as_openmetrics import OpenMetricsParts

        metrics = OpenMetricsParts(job.folder, job.stream.name, baseline)
        sinks.append(metrics)
    takers = Takers(_to_all(sinks), metrics.take_decodes if metrics else None)
    if job.explain:
        # It wants every cycle whole.
        gathered = _Gathered(job.stream.paths[0])
        _run(job, collector, [*sinks, gathered], None, notices, progress)
        part.explained = tuple(gathered.explained(job))
    else:
        _run(job, collector, sinks, takers, notices, progress)
    for sink in sinks:
        sink.close()
    if metrics:
        part.undated, part.late = metrics.undated, metrics.late
    return part


def _to_all(sinks: Sequence[ReplaySink]) -> Callable[[CycleColumns], None]:
    def take_many(cycles: CycleColumns) -> None:
        for sink in sinks:
            sink.take_many(cycles)

    return take_many


class _Gathered:
    """Sink that keeps whole runs, for `--explain`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._runs: list[Run] = []

    def take(self, item: Item) -> None:
        """Take one item."""
        gather(self._runs, self._path, item)

    def close(self) -> None:
        """Nothing is held open."""

    def explained(self, job: Job) -> Iterator[str]:
        """Every candidate change, and what kept or dropped it."""
        from logwatch.judging.explain import explain

        settings = Settings.of_config(job.config)
        for candidate in explain(self._runs, settings.bands, settings.rules):
            yield f"{job.stream.name}: {candidate}"


def _run(
    job: Job,
    collector: Collector,
    sinks: Sequence[Sink],
    takers: Takers | None,
    notify: Callable[[Notice], None],
    progress: Callable[[int], None],
) -> None:
    paths = job.stream.paths
    settings = Settings.of_config(job.config)
    window = None if job.window == (None, None) else Window(*job.window)
    pipeline = Pipeline(settings, job.stream.name, readable(paths[0]), notify, keep=window)
    reading = Reading(pipeline, job.config, takers, window)
    for number, path in enumerate(paths):
        shown = readable(path)
        collector.opened(shown)
        try:
            archive = open_archive(path)
        except SourceError as error:
            if job.lone:
                raise
            collector.damaged(shown, error.problems[0].what)
            continue
        with archive:
            if number:
                pipeline.start_file(shown)
            _hand_on(reading.items(archive, shown, progress), sinks)
        if archive.damage:
            collector.damaged(shown, archive.damage)
    _hand_on(pipeline.finish(), sinks)
    for kind, count in reading.unseen.items():
        collector.seen(kind, count)


def _hand_on(items: Iterable[Item], sinks: Sequence[Sink]) -> None:
    for item in items:
        for sink in sinks:
            sink.take(item)
