"""Level 6: `logwatch doctor`: looks at the SGLang processes that run on this host."""

from __future__ import annotations

import glob
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logwatch.commands.common import config_option, format_option
from logwatch.config import Config, load_config
from logwatch.errors import Problem, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from logwatch.commands.diagnosis import Finding
    from logwatch.commands.processes import Process
    from logwatch.judging.facts import Facts

HEAD_BYTES = 4 << 20
TAIL_BYTES = 16 << 20
_COLOURS = {"ok": "green", "note": "yellow", "problem": "red"}


@click.command(short_help="Look at running SGLang processes.")
@click.option("--log", type=click.Path(path_type=Path), help="The server's log; else its standard output.")
@click.option(
    "--tuned", metavar="LOG", help="Log of a good run to compare with; else [tuned] of the configuration."
)
@click.option("--proc", type=click.Path(path_type=Path), default=Path("/proc"), hidden=True)
@config_option
@format_option("table", "json")
def command(log: Path | None, tuned: str | None, proc: Path, config_path: Path | None, output: str) -> None:
    """Look at running SGLang processes: environment of each rank, profile, graphs, logs.

    Compares NCCL, CUDA and TORCH variables between parent and ranks, between ranks, and with the tuned run.

    \b
    Example:
      sudo logwatch doctor --tuned last_week.log

    Exit status: 0 nothing wrong, 1 a problem was found, 2 no SGLang process.
    """
    from logwatch.commands.diagnosis import diagnose
    from logwatch.commands.processes import sglang_processes

    config = load_config(config_path)
    processes = sglang_processes(proc)
    if not any(process.role == "scheduler" for process in processes):
        hint = "is the server running on this host, and in this container's process namespace?"
        raise SourceError(Problem(str(proc), "no SGLang rank (sglang::scheduler...) is running", hint))
    log = log or next((Path(process.log) for process in processes if process.log), None)
    facts = recent_facts(log, config) if log is not None else None
    findings = [
        *diagnose(processes, facts, _tuned(tuned, config)),
        *_readable(config, log),
    ]
    if output == "json":
        click.echo(json.dumps(_document(processes, findings, log), indent=2))
    else:
        click.echo("\n".join(_table(processes, findings, log)))
    if any(finding.level == "problem" for finding in findings):
        raise click.exceptions.Exit(1)


def recent_facts(path: Path, config: Config) -> Facts | None:
    """What the last run in a log says of itself: its beginning and its newest lines, not all of a large one.

    None where the log cannot be read.
    """
    from logwatch.intake.header import last_header
    from logwatch.intake.opened import PlainFile
    from logwatch.judging.facts import Facts, begin, note
    from logwatch.model import RunStarted
    from logwatch.pipeline import Pipeline, Settings

    try:
        file = PlainFile(str(path))
    except OSError:
        return None
    try:
        end = file.facts().size
        header = last_header(file.read_at, end)
        start = header[0] if header else max(0, end - TAIL_BYTES)
        pieces = [(start, min(end, start + HEAD_BYTES))]
        pieces.append((max(pieces[0][1], end - TAIL_BYTES), end))
        pipeline = Pipeline(Settings.of_config(config), path.name, str(path))
        facts = Facts()
        line = file.read_at(0, start).count(b"\n") + 1 if start <= TAIL_BYTES else 1
        for begun, until in pieces:
            pipeline.start_file(str(path), line, begun)
            data = file.read_at(begun, until - begun)
            line += data.count(b"\n")
            for item in pipeline.feed_bytes(data):
                if isinstance(item, RunStarted):
                    facts = begin(item)
                else:
                    note(facts, item)
        return facts
    finally:
        file.close()


def _tuned(log: str | None, config: Config) -> dict[str, str]:
    """Variables of the run that was tuned."""
    if log is None:
        return dict(config.tuned.environment)
    from logwatch.commands.comparing import chosen, read_runs, the_run

    path, number = chosen(log)
    return the_run(read_runs(path, config), path, number).facts.merged()


def _readable(config: Config, log: Path | None) -> Iterator[Finding]:
    from logwatch.commands.diagnosis import Finding

    paths = [] if log is None else [str(log)]
    for pattern in (source.path for source in config.source if source.path and source.path != "-"):
        found = glob.glob(pattern, recursive=True)  # noqa: PTH207 - absolute patterns
        if not found:
            yield Finding("note", f"no file matches the source {pattern}", "`logwatch check` says more")
        paths += [path for path in found if path not in paths]
    for path in paths:
        if not Path(path).exists():
            yield Finding("problem", f"{path} does not exist", "check the path; --log names the server's log")
        elif os.access(path, os.R_OK):
            yield Finding("ok", f"{path} is readable")
        else:
            yield Finding("problem", f"{path} is not readable", "add logwatch's user to the log's group")


def _document(
    processes: Sequence[Process], findings: Sequence[Finding], log: Path | None
) -> dict[str, object]:
    from logwatch.commands.diagnosis import telling

    return {
        "schema": "logwatch.doctor/1",
        "log": None if log is None else str(log),
        "processes": [
            {
                "pid": process.pid,
                "parent": process.parent,
                "role": process.role,
                "rank": process.rank,
                "title": process.title,
                "environment": None if process.environment is None else telling(process.environment),
            }
            for process in processes
        ],
        "findings": [{"level": each.level, "what": each.what, "hint": each.hint} for each in findings],
    }


def _table(processes: Sequence[Process], findings: Sequence[Finding], log: Path | None) -> Iterator[str]:
    from logwatch.commands.diagnosis import telling

    for process in processes:
        variables = telling(process.environment)
        text = " ".join(f"{name}={value}" for name, value in sorted(variables.items()))
        yield f"{process.name:24} {text or ('?' if process.environment is None else '(none of interest)')}"
    yield f"log: {log or 'not known; name it with --log'}"
    yield ""
    for finding in findings:
        mark = click.style(f"{finding.level:7}", fg=_COLOURS[finding.level])
        yield f"{mark} {finding.what}" + (f"\n        {finding.hint}" if finding.hint else "")
