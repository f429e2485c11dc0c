"""Level 6: `logwatch breakeven`: what speculation must give to be worth it, from numbers or from a log."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import click

from logwatch.commands.common import POSITIVE, Number, config_option, format_option, printable
from logwatch.config import Config, load_config
from logwatch.errors import Problem, SourceError
from logwatch.judging.economics import Breakeven, breakeven, cycle_time_s


@click.command()
@click.option("--cycle-ms", type=POSITIVE, help="Milliseconds of one cycle (draft, verify, extend).")
@click.option("--baseline", type=POSITIVE, help="Tokens per second without speculation.")
@click.option("--target", type=POSITIVE, help="Tokens per second that you want.")
@click.option(
    "--steps", type=click.IntRange(1, 1000), metavar="COUNT", help="Draft steps a cycle; else unlimited."
)
@click.option("--accept", type=Number(min=0), help="Accepted drafts a cycle, bonus token not counted.")
@click.option(
    "--log",
    metavar="LOG",
    help="Take cycle time and accepted drafts from its last run (medians); `LOG#1`: from its first.",
)
@config_option
@format_option("table", "json", "markdown")
def command(
    cycle_ms: float | None,
    baseline: float | None,
    target: float | None,
    steps: int | None,
    accept: float | None,
    log: str | None,
    config_path: Path | None,
    output: str,
) -> None:
    """Break-even arithmetic of speculative decoding.

    \b
    Examples:
      logwatch breakeven --cycle-ms 30 --baseline 82 --target 150
      logwatch breakeven --log server.log --baseline 82.2
    """
    if (cycle_ms is None) == (log is None):
        raise click.UsageError("give either --cycle-ms or --log")
    cycle_s = None if cycle_ms is None else cycle_ms / 1000
    tokens = None if accept is None else accept + 1
    config = load_config(config_path) if baseline is None or log is not None else Config()
    if log is not None:
        cycle_s, seen = _measure(log, config)
        tokens = seen if tokens is None else tokens
    if baseline is None:
        baseline = config.speculation.baseline_tokens_per_second
    answer = breakeven(cycle_s, baseline, target, steps, tokens)
    figures = _figures(answer)
    if output == "json":
        click.echo(json.dumps({"schema": "logwatch.breakeven/1", **figures}, indent=2))
        return
    if answer.steps is None:
        del figures["required_accuracy_with_unlimited_steps"]  # the same as the one above it
    rows = [(_words(name), f"{value:g}") for name, value in figures.items() if value is not None]
    if output == "markdown":
        click.echo(
            "\n".join(["| figure | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
        )
    else:
        width = max(len(name) for name, _ in rows)
        click.echo("\n".join(f"{name:{width}}  {value:>8}" for name, value in rows))


def _figures(answer: Breakeven) -> dict[str, float | int | None]:
    """The answer as JSON has it: milliseconds, and no more decimals than the inputs can carry."""
    with_steps = answer.required_accuracy_at_steps if answer.steps else answer.required_accuracy
    figures = {
        "breakeven_tokens_per_cycle": answer.breakeven_tokens_per_cycle,
        "target_tokens_per_cycle": answer.target_tokens_per_cycle,
        "required_accuracy": with_steps,
        "required_accuracy_with_unlimited_steps": answer.required_accuracy,
        "cycle_ms": None if answer.cycle_s is None else answer.cycle_s * 1000,
        "baseline_tokens_per_second": answer.baseline_tokens_per_second,
        "target_tokens_per_second": answer.target_tokens_per_second,
        "steps": answer.steps,
        "tokens_per_cycle": answer.tokens_per_cycle,
        "estimated_tokens_per_second": answer.estimated_tokens_per_second,
        "speedup": answer.speedup,
    }
    return {name: None if value is None else round(value, 3) for name, value in figures.items()}


def _words(name: str) -> str:
    return name.replace("_", " ").replace("breakeven", "break-even")


def _measure(log: str, config: Config) -> tuple[float, float | None]:
    """Median cycle seconds and median tokens per cycle of a run, first reports after a start left out.

    Where the log tells batch sizes, only what was measured at 1 counts: the baseline is one request's, too.
    """
    from logwatch.commands.comparing import chosen, read_runs, the_run

    path, number = chosen(log)
    cycles = the_run(read_runs(path, config), path, number).cycles
    steady = [cycle for cycle in cycles if not cycle.warm_up] or cycles
    alone = [cycle for cycle in steady if round(cycle.conditions.batch_size or 1) == 1]
    if not alone:
        smallest = min(cycle.conditions.batch_size or 1 for cycle in steady)
        what = f"nothing was measured at batch size 1: the figures are of one request in {smallest:g} or more"
        click.echo(printable(f"logwatch: {log}: {what}"), err=True)
    times = [time for cycle in alone or steady if (time := cycle_time_s(cycle)) is not None]
    if not times:
        what = "no cycle time found: its phases have neither a total nor a share"
        raise SourceError(Problem(log, what, "turn on EAGLE3_PROFILE=1, or give --cycle-ms"))
    tokens = [cycle.tokens_per_cycle for cycle in alone or steady if cycle.tokens_per_cycle is not None]
    return median(times), median(tokens) if tokens else None
