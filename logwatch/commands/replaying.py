"""Level 6: what `logwatch replay` does with its options: streams to workers, parts to a summary and files."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from logwatch.commands.replay_streams import Stream, streams_of
from logwatch.commands.replay_worker import Job, Notices, Part, work
from logwatch.errors import Problem, SourceError
from logwatch.intake.archive import expand
from logwatch.outlets.report.summary import Collector, Summary
from logwatch.outlets.report.track import Tracker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from logwatch.config import Config

SEVERAL = 32 << 20
"""Streams of together fewer bytes are not worth starting processes for."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files to write besides the summary."""

    page: Path | None = None
    parquet: Path | None = None
    openmetrics: Path | None = None

    def wanted(self) -> list[Path]:
        """Those that were asked for."""
        return [path for path in (self.page, self.parquet, self.openmetrics) if path is not None]


@dataclass(frozen=True, slots=True)
class Request:
    """What to replay.

    Attributes:
        paths: As the user named them.
        window: Seconds since the epoch from which, and before which, records count; None: without bound.
        engine: Where the work is done: on this machine, or on a Ray cluster.
        explain: Whether to say why changes were told or not.
    """

    paths: Sequence[str]
    config: Config
    window: tuple[float | None, float | None] = (None, None)
    outputs: Outputs = Outputs()
    engine: Literal["local", "ray"] = "local"
    explain: bool = False


def replay(request: Request) -> Summary:
    """Run every input through a pipeline of its own and sum up.

    Raises:
        SourceError: An input does not exist, the only one cannot be read, or an output cannot be written.
        GrammarError, BandError: The configuration cannot be used.
    """
    streams = streams_of(expand(request.paths))
    outputs = request.outputs
    if outputs.page:
        _drawing()
    with _scratch(outputs) as scratch:
        jobs = [
            Job(
                stream=stream,
                config=request.config,
                window=request.window,
                folder=_folder(scratch, number) if scratch else None,
                page=outputs.page is not None,
                parquet=outputs.parquet is not None,
                openmetrics=outputs.openmetrics is not None,
                explain=request.explain,
                lone=len(streams) == len(stream.paths) == 1,
            )
            for number, stream in enumerate(streams)
        ]
        with _progress(streams) as progress:
            parts = _parts(jobs, request.engine, progress)
        return _put_together(parts, jobs, request, scratch)


def _parts(jobs: Sequence[Job], engine: str, progress: Callable[[int], None]) -> list[Part]:
    if engine == "ray":
        from logwatch.commands.replay_ray import work_on_ray

        return work_on_ray(jobs)
    size = sum(job.stream.size for job in jobs)
    workers = min(len(jobs), len(os.sched_getaffinity(0)))
    if workers > 1 and size > SEVERAL:
        from logwatch.commands.replay_processes import work_in_processes

        return work_in_processes(jobs, workers, progress)
    return [work(job, progress) for job in jobs]


def _put_together(
    parts: Sequence[Part], jobs: Sequence[Job], request: Request, scratch: Path | None
) -> Summary:
    baseline = request.config.speculation.baseline_tokens_per_second
    collector, tracker, notices = Collector(baseline), Tracker(baseline), Notices()
    for part in parts:
        collector.merge(part.collector)
        notices.add(part.notices)
        if part.tracker:
            tracker.merge(part.tracker)
    _say(notices)
    explained = tuple(sentence for part in parts for sentence in part.explained)
    summary = replace(collector.summary(), explained=explained)
    outputs = request.outputs
    folders = [job.folder for job in jobs if job.folder is not None]
    if outputs.wanted():
        _give_back()
    if outputs.parquet:
        from logwatch.outlets.report.as_parquet import whole_parquet

        _whole(outputs.parquet, scratch, lambda path: whole_parquet(folders, path))
    if outputs.openmetrics:
        from logwatch.outlets.report.as_openmetrics import whole_openmetrics

        _whole(outputs.openmetrics, scratch, lambda path: whole_openmetrics(folders, path))
        _left_out(outputs.openmetrics, parts)
    if outputs.page and summary.verdict != "no_data":
        _give_back()
        text = _drawing()(summary, tracker)
        _whole(outputs.page, scratch, lambda path: path.write_text(text, encoding="utf-8"))
    return summary


def _give_back() -> None:
    """What was needed so far goes back to the system, before as much is needed for something else."""
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc's own
        ctypes.CDLL(None).malloc_trim(0)


def _drawing() -> Callable[[Summary, Tracker], str]:
    try:
        from logwatch.outlets.report.page import page
    except ImportError as error:
        what = f"needs a library that is not installed: {error.name}"
        raise SourceError(Problem("--html", what, "pip install 'sglang-logwatch[report]'")) from None
    return page


@contextmanager
def _scratch(outputs: Outputs) -> Iterator[Path | None]:
    """A folder for parts beside the outputs, gone at the end whatever happens; None where there are none.

    Whether every output can be written is known here, before hours of reading.
    """
    with ExitStack() as stack:
        made = None
        for path in outputs.wanted():
            try:
                made = Path(tempfile.mkdtemp(prefix=".logwatch-replay-", dir=path.parent))
            except OSError as error:
                what = f"cannot be written: {error.strerror}"
                raise SourceError(Problem(str(path), what, "check the directory")) from None
            stack.callback(shutil.rmtree, made, ignore_errors=True)
        yield made


def _folder(scratch: Path, number: int) -> Path:
    folder = scratch / f"{number:06}"
    folder.mkdir()
    return folder


def _whole(path: Path, scratch: Path | None, write: Callable[[Path], object]) -> None:
    """Write a file so that it appears whole or not at all."""
    assert scratch is not None
    made = scratch / "whole"
    try:
        write(made)
        shutil.move(made, path)
    except OSError as error:
        raise SourceError(
            Problem(str(path), f"cannot be written: {error.strerror}", "check the disk")
        ) from None


def _left_out(path: Path, parts: Sequence[Part]) -> None:
    undated, late = sum(part.undated for part in parts), sum(part.late for part in parts)
    if undated:
        click.echo(f"logwatch: {path}: {undated:,} samples without a time left out", err=True)
    if late:
        click.echo(
            f"logwatch: {path}: {late:,} samples left out, because the log's clock went back", err=True
        )


def _say(notices: Notices) -> None:
    for text in notices.shown:
        click.echo(f"logwatch: {text}", err=True)
    shown = len(notices.shown)
    more = sum(notices.counts.values()) - shown
    if shown and more > 0:
        click.echo(f"logwatch: {more:,} more of the like", err=True)


@contextmanager
def _progress(streams: Sequence[Stream]) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, where that is a terminal: bytes, rate, time left."""
    total = sum(stream.size for stream in streams)
    if not sys.stderr.isatty() or total < SEVERAL // 4:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("replay"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replay", total=total)
        yield lambda more: bar.advance(task, more)
