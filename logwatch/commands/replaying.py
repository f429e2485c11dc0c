"""Level 6: what `logwatch replay` does with its options: inputs through pipelines into sinks."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import click

from logwatch.errors import Problem, SourceError
from logwatch.intake.archive import STANDARD_INPUT, expand, natural, open_archive
from logwatch.intake.names import is_rotated_name, unpacked_name
from logwatch.model import Level, Malformed, Notice, Record, seconds_of
from logwatch.outlets.report.summary import Collector, Summary
from logwatch.pipeline import Pipeline, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from logwatch.config import Config
    from logwatch.model import Item, Sink
    from logwatch.outlets.report.as_openmetrics import OpenMetricsSink
    from logwatch.outlets.report.as_parquet import ParquetSink
    from logwatch.outlets.report.page import PageSink

CHUNK = 1 << 20
CONTEXT = frozenset({"server_args", "nccl_setting", "environment"})
"""Records that say under what a run ran: they count whenever they were written."""

NOTICES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files to write besides the summary."""

    page: Path | None = None
    parquet: Path | None = None
    openmetrics: Path | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What to replay.

    Attributes:
        paths: As the user named them.
        window: Seconds since the epoch from which, and before which, records count; None: without bound.
    """

    paths: Sequence[str]
    config: Config
    window: tuple[float | None, float | None] = (None, None)
    outputs: Outputs = Outputs()


@dataclass(frozen=True, slots=True)
class Stream:
    """Files that are one stream: one file, or a rotated set with the oldest first."""

    name: str
    paths: tuple[str, ...]


def replay(request: Request) -> Summary:
    """Run every input through a pipeline of its own and sum up.

    Raises:
        SourceError: An input does not exist, or the only one cannot be read.
        GrammarError, BandError: The configuration cannot be used.
    """
    streams = streams_of(expand(request.paths))
    settings = Settings.of_config(request.config)
    baseline = request.config.speculation.baseline_tokens_per_second
    collector = Collector(baseline)
    notices = _Notices()
    with _Files(request.outputs, baseline) as files:
        for stream in streams:
            files.started(stream.name)
            _replay_stream(stream, settings, request, collector, [collector, *files.sinks], notices)
        summary = collector.summary()
        files.finish(summary)
    notices.close()
    return summary


def _replay_stream(
    stream: Stream,
    settings: Settings,
    request: Request,
    collector: Collector,
    sinks: Sequence[Sink],
    notify: Callable[[Notice], None],
) -> None:
    pipeline = Pipeline(settings, stream.name, stream.paths[0], notify, keep=window_of(request.window))

    def hand_on(items: Iterable[Item]) -> None:
        for item in items:
            for sink in sinks:
                sink.take(item)

    for number, path in enumerate(stream.paths):
        collector.opened(path)
        if number:
            hand_on(pipeline.finish_file())
            pipeline.start_file(path)
        try:
            archive = open_archive(path)
        except SourceError as error:
            if len(stream.paths) == len(request.paths) == 1:
                raise
            collector.damaged(path, error.problems[0].what)
            continue
        with archive:
            while data := archive.read(CHUNK):
                hand_on(pipeline.feed_bytes(data))
        if archive.damage:
            collector.damaged(path, archive.damage)
    hand_on(pipeline.finish())


class _Files:
    """The output files of one replay: made whole at the end, or not at all.

    Raises:
        SourceError: A file cannot be written, or a library for it is not installed.
    """

    def __init__(self, outputs: Outputs, baseline: float | None) -> None:
        self.sinks: list[ParquetSink | OpenMetricsSink | PageSink] = []
        self._openmetrics: OpenMetricsSink | None = None
        self._page: PageSink | None = None
        if outputs.page:
            self._page = _page_sink(outputs.page, baseline)
            self.sinks.append(self._page)
        if outputs.parquet:
            from logwatch.outlets.report.as_parquet import ParquetSink

            self.sinks.append(ParquetSink(outputs.parquet))
        if outputs.openmetrics:
            from logwatch.outlets.report.as_openmetrics import OpenMetricsSink

            self._openmetrics = OpenMetricsSink(outputs.openmetrics, baseline)
            self.sinks.append(self._openmetrics)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for sink in self.sinks:
                sink.discard()

    def started(self, stream: str) -> None:
        """The items that follow are of this stream."""
        if self._openmetrics:
            self._openmetrics.started(stream)

    def finish(self, summary: Summary) -> None:
        """Write what was collected, and say what could not be."""
        for sink in self.sinks:
            sink.close()
        if self._page and summary.verdict != "no_data":
            self._page.write(summary)
        metrics = self._openmetrics
        if metrics and metrics.undated:
            click.echo(
                f"logwatch: {metrics.path}: {metrics.undated:,} samples without a time left out", err=True
            )
        if metrics and metrics.late:
            click.echo(
                f"logwatch: {metrics.path}: {metrics.late:,} samples left out: the clock went back", err=True
            )


def _page_sink(path: Path, baseline: float | None) -> PageSink:
    try:
        from logwatch.outlets.report.page import PageSink
    except ImportError as error:
        what = f"needs a library that is not installed: {error.name}"
        raise SourceError(Problem("--html", what, "pip install 'sglang-logwatch[report]'")) from None
    return PageSink(path, baseline)


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


def streams_of(paths: Sequence[str]) -> list[Stream]:
    """One stream a file; rotated copies join the file that they are copies of, where that is given too.

    Names are the files' own, without a compression's ending; where two would be equal, with as many folders
    before them as tell them apart.

    >>> for stream in streams_of(["a.log", "a.log.1", "a.log.2.gz", "b.log.zst"]):
    ...     print(stream.name, *stream.paths)
    a.log a.log.2.gz a.log.1 a.log
    b.log b.log.zst
    """
    sets: dict[str, list[str]] = {}
    bases = _bases(paths)
    for path in paths:
        sets.setdefault(bases.get(path, path), []).append(path)
    ordered = [(base, sorted(members, key=lambda path: _age(path, base))) for base, members in sets.items()]
    names = stream_names([base for base, _ in ordered])
    return [Stream(name, tuple(members)) for name, (_, members) in zip(names, ordered, strict=True)]


def _bases(paths: Sequence[str]) -> dict[str, str]:
    """By rotated copy the file that it is a copy of."""
    known: dict[str, str] = {}  # what a copy's path begins with
    local = [path for path in paths if path != STANDARD_INPUT and "://" not in path]
    for path in local:
        known[path] = known[path.rpartition(".")[0]] = path
    found: dict[str, str] = {}
    for path in local:
        folder, name = os.path.split(path)
        for end in range(len(path) - 1, len(folder), -1):
            base = known.get(path[:end])
            if base is not None and is_rotated_name(name, base[len(path) - len(name) :]):
                found[path] = base
                break
    return found


def _age(path: str, base: str) -> tuple[bool, bool, list[tuple[int, str]]]:
    """Sort key, oldest first: dates rise, rotation numbers fall, the live file is last."""
    added = unpacked_name(path)[len(unpacked_name(base)) :]
    number = re.fullmatch(r"\.(\d{1,4})", added)
    key = [(-int(number[1]), "")] if number else natural(unpacked_name(path))
    return path == base, number is not None, key


def stream_names(paths: Sequence[str]) -> list[str]:
    """A name for each path, see `streams_of`.

    >>> stream_names(["-", "pod1/0.log", "pod2/0.log", "x/server.log.gz"])
    ['stdin', 'pod1/0.log', 'pod2/0.log', 'server.log']
    """
    parts = [["stdin"] if path == STANDARD_INPUT else unpacked_name(path).split("/") for path in paths]
    names = [part[-1] for part in parts]
    depth = 1
    while len(set(names)) < len(names) and depth < max(map(len, parts)):
        depth += 1
        twice = {name for name, count in Counter(names).items() if count > 1}
        names = [
            "/".join(part[-depth:]) if name in twice else name
            for name, part in zip(names, parts, strict=True)
        ]
    return names


@dataclass
class _Notices:
    """What happens beside the data, on standard error: the first few of each kind, then how many more."""

    counts: Counter[str] = field(default_factory=Counter)

    def __call__(self, notice: Notice) -> None:
        self.counts[notice.kind] += 1
        if self.counts[notice.kind] <= NOTICES_SHOWN and notice.level is not Level.INFO:
            where = f"{notice.path}: " if notice.path else ""
            click.echo(f"logwatch: {where}{notice.message}", err=True)

    def close(self) -> None:
        """Say how many were not shown."""
        for kind, count in self.counts.items():
            if count > NOTICES_SHOWN:
                more = count - NOTICES_SHOWN
                click.echo(f"logwatch: {kind.replace('_', ' ')}: {more:,} more", err=True)
