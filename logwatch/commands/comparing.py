"""Level 6: what `compare` and `tune` share: whole logs read into runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from logwatch.commands.common import printable
from logwatch.errors import Problem, SourceError
from logwatch.intake.archive import STANDARD_INPUT, open_archive
from logwatch.judging.runs import Run, gather
from logwatch.model import Record
from logwatch.pipeline import Pipeline, Settings

if TYPE_CHECKING:
    from logwatch.config import Config

CHUNK = 1 << 20


def read_runs(path: str, config: Config) -> list[Run]:
    """The runs of one log, in order; those without a sample are left out.

    Raises:
        SourceError: It cannot be read, or holds no sample.
    """
    runs: list[Run] = []
    seen: Counter[str] = Counter()
    size = 0
    name = "stdin" if path == STANDARD_INPUT else path.rpartition("/")[2]
    pipeline = Pipeline(Settings.of_config(config), name, path)
    with open_archive(path) as archive:
        while data := archive.read(CHUNK):
            size += len(data)
            for item in pipeline.feed_bytes(data):
                gather(runs, path, item)
                if isinstance(item, Record):
                    seen[item.kind] += 1
        for item in pipeline.finish():
            gather(runs, path, item)
        if archive.damage:
            click.echo(printable(f"logwatch: {path}: {archive.damage}"), err=True)
    found = [run for run in runs if run.cycles]
    if not found:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in seen.most_common())
        other = "none of its lines is one of an SGLang server" if size else "nothing in it"
        what = f"no samples found: {f'its records are {kinds}' if kinds else other}"
        hint = "set EAGLE3_PROFILE=1, or log decode batches; `logwatch grammar explain` tells what a line is"
        raise SourceError(Problem(path, what, hint if size else "is it the right file?"))
    return found


def chosen(text: str) -> tuple[str, int | None]:
    """A path and the run that `#N` behind it names.

    >>> chosen("server.log#2"), chosen("server.log")
    (('server.log', 2), ('server.log', None))
    """
    path, mark, number = text.rpartition("#")
    return (path, int(number)) if mark and number.isdigit() and path else (text, None)


def the_run(runs: list[Run], path: str, number: int | None, *, first: bool = False) -> Run:
    """The run that was asked for: by number, else the last (`first`: the first) of the log.

    Raises:
        SourceError: There is no such run.
    """
    if number is None:
        return runs[0] if first else runs[-1]
    for run in runs:
        if run.number == number:
            return run
    known = ", ".join(str(run.number) for run in runs)
    raise SourceError(
        Problem(f"{path}#{number}", "no such run, or one without samples", f"it has runs {known}")
    )
