"""Level 6: `logwatch replay`: old logs through the daemon's own pipeline, then a summary."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from logwatch.commands.common import POSITIVE, config_option, format_option
from logwatch.config import BandConfig, Config, load_config
from logwatch.errors import BandError, Problem, SourceError
from logwatch.grammar.kinds import snake_case
from logwatch.model import seconds_of
from logwatch.units import format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from logwatch.outlets.report.summary import Summary

OUT = click.Path(dir_okay=False, path_type=Path)
IN_BAND, OUT_OF_BAND, TROUBLE = 0, 1, 2
TURN_ON = "set EAGLE3_PROFILE=1 in the server's environment"


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@config_option
@click.option(
    "--band",
    "bands",
    multiple=True,
    metavar="PHASE=LOW..HIGH",
    help="Band of a phase, such as target_verify=18ms..20.5ms; again for more phases.",
)
@click.option(
    "--baseline",
    type=POSITIVE,
    metavar="TOK_S",
    help="Tokens per second without speculation: gives break-even.",
)
@click.option("--since", metavar="TIME", help="Leave out what the log dates before this (ISO 8601).")
@click.option("--until", metavar="TIME", help="Leave out what the log dates at or after this.")
@format_option("table", "json", "markdown")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Where to work: on this machine, or spread over a Ray cluster.",
)
@click.option(
    "--explain", is_flag=True, help="Say of each suspected change which test confirmed or dropped it."
)
@click.option(
    "--html", "page", type=OUT, metavar="FILE", help="Write a picture report: one file, no network."
)
@click.option("--parquet", type=OUT, metavar="FILE", help="Write every sample as a row.")
@click.option(
    "--openmetrics",
    type=OUT,
    metavar="FILE",
    help="Write samples for `promtool tsdb create-blocks-from openmetrics`.",
)
def command(
    paths: tuple[str, ...],
    config_path: Path | None,
    bands: tuple[str, ...],
    baseline: float | None,
    since: str | None,
    until: str | None,
    output: str,
    engine: Literal["local", "ray"],
    explain: bool,
    page: Path | None,
    parquet: Path | None,
    openmetrics: Path | None,
) -> None:
    """Judge old logs as the daemon would have, and sum them up.

    PATH is a file (plain, gz, zst, xz or bz2), a directory, a glob in quotes, an address in an object store
    (s3://, gs://), or - for standard input.

    \b
    Examples:
      logwatch replay server.log
      grep verify server.log | logwatch replay - --band target_verify=18ms..20.5ms
      logwatch replay 'logs/**/*.log.zst' --baseline 82.2 --format json

    Exit status: 0 all in band; 1 an incident, or a phase out of its band; 2 trouble: bad usage, no samples
    found, or nothing amiss in what could be read while a part could not be.
    """
    from logwatch.commands.replaying import Outputs, Request, replay

    config = configured(load_config(config_path), bands, baseline)
    window = _window(since, until)
    outputs = Outputs(page=page, parquet=parquet, openmetrics=openmetrics)
    summary = replay(Request(paths, config, window, outputs, engine, explain))
    show(summary, output)
    raise click.exceptions.Exit(status(summary, limited=window != (None, None)))


def show(summary: Summary, output: str) -> None:
    """Print the summary to standard output."""
    if output == "json":
        from logwatch.outlets.report.as_json import as_json

        click.echo(as_json(summary))
    elif output == "markdown":
        from logwatch.outlets.report.as_markdown import as_markdown

        click.echo(as_markdown(summary))
    elif summary.verdict != "no_data":
        from logwatch.outlets.report.as_table import print_table

        print_table(summary, sys.stdout)


def status(summary: Summary, *, limited: bool = False) -> int:
    """Exit status of the contract.

    Raises:
        SourceError: No samples: says what was seen and what to turn on.
    """
    if summary.verdict == "no_data":
        raise SourceError(no_samples(summary, limited=limited))
    damaged = [each for each in summary.inputs if each.damage]
    for each in damaged:
        click.echo(f"logwatch: {each.path}: {each.damage}", err=True)
    if summary.verdict == "out_of_band":
        return OUT_OF_BAND
    return TROUBLE if damaged else IN_BAND


def no_samples(summary: Summary, *, limited: bool = False) -> Problem:
    """What was read instead of samples, and what would give some."""
    where = ", ".join(each.path for each in summary.inputs[:3]) + (" ..." if len(summary.inputs) > 3 else "")
    damage = next((f"; {each.path} {each.damage}" for each in summary.inputs if each.damage), "")
    if not any(each.bytes for each in summary.inputs):
        return Problem(where, f"no samples found: nothing in it{damage}", "is it the right file?")
    seen = summary.seen
    if limited:
        records = sum(each.records for each in summary.inputs)
        what = f"no samples found: none of its {records:,} records lies between --since and --until{damage}"
        return Problem(where, what, "a log without dates cannot be limited to a time")
    broken = sum(each.malformed for each in summary.inputs)
    if not seen and broken and summary.malformed:
        first = summary.malformed[0]
        what = f"no samples found: {broken:,} of its lines begin like a record and do not end as one{damage}"
        at = f"line {first.place.line}, column {first.column}"
        return Problem(where, what, f"first, {at}: expected {first.expected}, found `{first.found}`")
    if not seen:
        lines = sum(each.lines for each in summary.inputs)
        what = f"no samples found: none of its {lines:,} lines is one of an SGLang server{damage}"
        return Problem(
            where, what, f"is it the server's log? `logwatch grammar explain` tells more; {TURN_ON}"
        )
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(seen.items(), key=lambda kv: -kv[1]))
    what = f"no samples found: its records are {counts}{damage}"
    hint = f"{TURN_ON}, or log decode batches (--decode-log-interval 40)"
    if "decode" in seen:
        hint = (
            f"{TURN_ON}; every decode line follows a gap; use a smaller --decode-log-interval or a longer log"
        )
    elif "spec_metrics" in seen:
        hint = "they tell how many drafts are accepted, but no times"
    return Problem(where, what, hint)


def configured(config: Config, bands: Sequence[str], baseline: float | None) -> Config:
    """The configuration with what the command line says instead.

    A `--band` takes the place of all bands that the configuration has for its phase.

    Raises:
        BandError: With every band that cannot be used.
    """
    if bands:
        given = list(_bands(bands))
        phases = {band.phase for band in given}
        kept = [band for band in config.band if band.phase not in phases]
        config = config.model_copy(update={"band": (*kept, *given)})
    if baseline is not None:
        speculation = config.speculation.model_copy(update={"baseline_tokens_per_second": baseline})
        config = config.model_copy(update={"speculation": speculation})
    return config


def _bands(texts: Iterable[str]) -> Iterable[BandConfig]:
    problems: list[Problem] = []
    for text in texts:
        try:
            yield _band(text)
        except BandError as error:
            problems.extend(error.problems)
    if problems:
        raise BandError(*problems)


def _band(text: str) -> BandConfig:
    where = f"--band {text}"
    found = re.fullmatch(r"\s*([^=]+?)\s*=\s*(.+?)\s*\.\.\s*(.+?)\s*", text)
    if not found or not snake_case(found[1]):
        raise BandError(Problem(where, "is not PHASE=LOW..HIGH", "write target_verify=18ms..20.5ms"))
    phase = snake_case(found[1])
    try:
        low, high = parse_duration(found[2]), parse_duration(found[3])
    except ValueError as error:
        raise BandError(Problem(where, str(error), "write target_verify=18ms..20.5ms")) from None
    if low > high:
        what = f"low {format_duration(low)} is above high {format_duration(high)}"
        raise BandError(Problem(where, what, "swap them"))
    return BandConfig.model_validate({"phase": phase, "low": found[2], "high": found[3]})


def _window(since: str | None, until: str | None) -> tuple[float | None, float | None]:
    window = _instant("--since", since), _instant("--until", until)
    if window[0] is not None and window[1] is not None and window[0] >= window[1]:
        raise click.UsageError(f"--since {since} is not before --until {until}")
    return window


def _instant(option: str, text: str | None) -> float | None:
    """Seconds of a time given on the command line; a date alone is its midnight."""
    if text is None:
        return None
    seconds = seconds_of(text.strip().replace(" ", "T", 1))
    if seconds is None:
        raise click.BadParameter(
            f"{text!r} is not a time; write 2026-02-11 or 2026-02-11T08:15:02", param_hint=option
        )
    return seconds
