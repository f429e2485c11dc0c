"""Level 6: one stream of a replay, from its files to what is kept of it, in this process or another."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logwatch.errors import SourceError
from logwatch.grammar.load import load_grammars
from logwatch.intake.archive import Archive, open_archive
from logwatch.judging.runs import Run, gather
from logwatch.model import Level, Malformed, Notice, Read, Record, seconds_of
from logwatch.outlets.report.summary import Collector
from logwatch.outlets.report.track import Tracker
from logwatch.pipeline import Pipeline, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from logwatch.commands.replay_streams import Stream
    from logwatch.config import Config
    from logwatch.intake.bulk import Bulk, Chunk
    from logwatch.model import Item, Sink

CHUNK = 8 << 20
"""Bytes read as columns at once."""

SMALL = 256 << 10
"""Inputs up to here are not worth loading polars for."""

MIDLINE = 4 << 20
"""A line that is longer than this while it is read goes through the streaming stages, which bound it."""

CONTEXT = frozenset({"server_args", "nccl_setting", "nccl_transport", "environment"})
"""Records that say under what a run ran: they count whenever they were written."""

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
    sinks: list[Sink] = [collector]
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
    gathered = _Gathered(job.stream.paths[0])
    if job.explain:
        sinks.append(gathered)
    _run(job, collector, sinks, notices, progress)
    for sink in sinks:
        sink.close()
    if metrics:
        part.undated, part.late = metrics.undated, metrics.late
    if job.explain:
        part.explained = tuple(gathered.explained(job))
    return part


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
    notify: Callable[[Notice], None],
    progress: Callable[[int], None],
) -> None:
    paths = job.stream.paths
    settings = Settings.of_config(job.config)
    pipeline = Pipeline(settings, job.stream.name, paths[0], notify, keep=window_of(job.window))
    reading = _Reading(pipeline, job.config)
    for number, path in enumerate(paths):
        collector.opened(path)
        try:
            archive = open_archive(path)
        except SourceError as error:
            if job.lone:
                raise
            collector.damaged(path, error.problems[0].what)
            continue
        with archive:
            if number:
                pipeline.start_file(path)
            _hand_on(reading.items(archive, path, progress), sinks)
        if archive.damage:
            collector.damaged(path, archive.damage)
    _hand_on(pipeline.finish(), sinks)
    for kind, count in reading.unseen.items():
        collector.seen(kind, count)


def _hand_on(items: Iterable[Item], sinks: Sequence[Sink]) -> None:
    for item in items:
        for sink in sinks:
            sink.take(item)


class _Reading:
    """Reads the files of one stream; what the bulk reader learns from one serves the next."""

    def __init__(self, pipeline: Pipeline, config: Config) -> None:
        self._pipeline = pipeline
        self._config = config
        self._bulk: Bulk | None = None
        self.unseen: Counter[str] = Counter()

    def items(self, archive: Archive, path: str, progress: Callable[[int], None]) -> Iterator[Item]:
        """Everything that a file gives."""
        feeder = Feeder(self._pipeline, path)
        consumed = size = 0
        for data in _read_ahead(archive):
            size += len(data)
            if self._bulk is None and size > SMALL:
                self._bulk = _bulk(self._config)
            yield from feeder.feed(data, self._bulk)
            progress(archive.consumed - consumed)
            consumed = archive.consumed
        yield from feeder.finish()
        self.unseen += feeder.unseen


def _bulk(config: Config) -> Bulk:
    from logwatch.intake.bulk import Bulk

    return Bulk(load_grammars(config.grammars.directories))


class Feeder:
    """Feeds one file to a pipeline: in bulk where it can be, through the streaming stages where not.

    Args:
        pipeline: Stands at the file's beginning.
        path: The file.

    Attributes:
        unseen: Records by kind that were not given as items.
    """

    def __init__(self, pipeline: Pipeline, path: str) -> None:
        self.unseen: Counter[str] = Counter()
        self._pipeline = pipeline
        self._path = path
        self._offset = 0
        self._rest = b""
        self._midline = (
            True  # the streaming stages are within a line, or at the file's first, which may have a mark
        )

    def feed(self, data: bytes, bulk: Bulk | None) -> Iterator[Item]:
        """Items that these bytes complete."""
        data = self._rest + data
        self._rest = b""
        end = data.rfind(b"\n") + 1
        if not end and len(data) <= MIDLINE:
            self._rest = data
            return
        begin = 0
        if self._midline or not end:
            begin = data.find(b"\n") + 1 or len(data)
            yield from self._stream(data[:begin])
            self._midline = not end
        if begin < end:
            chunk = data[begin:end]
            found = (
                bulk.read(chunk, self._path, self._pipeline.line, self._offset)
                if bulk and self._is_free()
                else None
            )
            if found is None:
                yield from self._stream(chunk)
            else:
                yield from self._chunk(found)
                self._offset += len(chunk)
                self._pipeline.start_file(self._path, self._pipeline.line + found.lines, self._offset)
                ignored = found.lines - found.matched - found.malformed
                yield Read(
                    self._pipeline.stream,
                    self._path,
                    len(chunk),
                    found.lines,
                    found.matched,
                    ignored,
                    found.malformed,
                )
        self._rest = data[max(begin, end) :]

    def _chunk(self, found: Chunk) -> Iterator[Item]:
        """Items of a chunk; of reports in one piece only what comes after their records."""
        for entry in found.entries(self._passed_over):
            if not isinstance(entry, tuple):
                yield from self._pipeline.feed_records((entry,))
                continue
            piece, records = entry
            items = self._pipeline.feed_whole(piece)
            if items is None:
                yield from self._pipeline.feed_records(records())
            else:
                self.unseen["report"] += 1
                self.unseen["phase"] += len(piece.phases_s)
                self.unseen["accept"] += len(piece.labels) - len(piece.phases_s)
                yield from items

    def _passed_over(self, kind: str) -> bool:
        """Whether a record of this kind would change nothing; then it is counted only."""
        if not self._pipeline.learns_nothing_of_prefills():
            return False
        self.unseen[kind] += 1
        return True

    def finish(self) -> Iterator[Item]:
        """The file ends here."""
        if self._rest:
            yield from self._stream(self._rest)
        yield from self._pipeline.finish_file()

    def _stream(self, data: bytes) -> Iterator[Item]:
        self._offset += len(data)
        yield from self._pipeline.feed_bytes(data)

    def _is_free(self) -> bool:
        """Whether no part of a message is awaited."""
        return not self._pipeline.memory.framing.parts


def _read_ahead(archive: Archive) -> Iterator[bytes]:
    """The archive's bytes in large chunks, decompressed in a thread while the chunk before is read."""
    ready: queue.Queue[bytes | BaseException] = queue.Queue(maxsize=1)
    stop = threading.Event()

    def fill() -> None:
        try:
            while not stop.is_set():
                data = _gather(archive)
                ready.put(data)
                if not data:
                    return
        except BaseException as error:  # noqa: BLE001 - is raised where the bytes are wanted
            ready.put(error)

    thread = threading.Thread(target=fill, name="logwatch-read-ahead", daemon=True)
    thread.start()
    try:
        while data := ready.get():
            if isinstance(data, BaseException):
                raise data
            yield data
    finally:
        stop.set()
        while thread.is_alive():
            try:
                ready.get(timeout=0.01)
            except queue.Empty:
                thread.join(timeout=0.01)


def _gather(archive: Archive) -> bytes:
    """About `CHUNK` bytes; fewer at the end, and no waiting for more from a pipe that is slow."""
    pieces, size = [], 0
    while size < CHUNK and (data := archive.read(CHUNK - size)):
        pieces.append(data)
        size += len(data)
    return b"".join(pieces)


def window_of(window: tuple[float | None, float | None]) -> Callable[[Record | Malformed], bool] | None:
    """Whether a record lies in the window; one without a time is as old as the one before it."""
    since, until = window
    if since is None and until is None:
        return None
    last: float | None = None

    def keep(record: Record | Malformed) -> bool:
        nonlocal last
        now = seconds_of(record.time)
        if now is not None:
            last = now
        if record.kind in CONTEXT:
            return True
        return last is not None and (since is None or last >= since) and (until is None or last < until)

    return keep
