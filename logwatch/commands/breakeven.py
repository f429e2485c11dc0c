"""Level 6: `logwatch breakeven`: what speculation must give to be worth it, from numbers or from a log."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import click

from logwatch.commands.common import config_option, format_option
from logwatch.config import load_config
from logwatch.errors import Problem, SourceError
from logwatch.judging.economics import Breakeven, breakeven, cycle_time_s
from logwatch.model import Cycle

POSITIVE = click.FloatRange(min=0, min_open=True)
CHUNK = 1 << 20


@click.command()
@click.option("--cycle-ms", type=POSITIVE, help="Milliseconds of one cycle (draft, verify, extend).")
@click.option("--baseline", type=POSITIVE, help="Tokens per second without speculation.")
@click.option("--target", type=POSITIVE, help="Tokens per second that you want.")
@click.option("--steps", type=click.IntRange(min=1), help="Draft steps a cycle; else unlimited.")
@click.option(
    "--accept", type=click.FloatRange(min=0), help="Accepted drafts a cycle, bonus token not counted."
)
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    help="Take cycle time and accepted drafts from this log (medians).",
)
@config_option
@format_option("table", "json", "markdown")
def command(
    cycle_ms: float | None,
    baseline: float | None,
    target: float | None,
    steps: int | None,
    accept: float | None,
    log: Path | None,
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
    if log is not None:
        cycle_s, seen = _measure(log)
        tokens = seen if tokens is None else tokens
    if baseline is None:
        baseline = load_config(config_path).speculation.baseline_tokens_per_second
    answer = breakeven(cycle_s, baseline, target, steps, tokens)
    figures = _figures(answer)
    if output == "json":
        click.echo(json.dumps({"schema": "logwatch.breakeven/1", **figures}, indent=2))
        return
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


def _measure(log: Path) -> tuple[float, float | None]:
    """Median cycle seconds and median tokens per cycle of a log, first reports after a start left out."""
    from logwatch.intake.archive import open_archive
    from logwatch.pipeline import Pipeline, Settings

    pipeline = Pipeline(Settings.of_config(load_config(None, {})), stream=log.name, path=str(log))
    with open_archive(log) as file:
        items = [item for data in iter(lambda: file.read(CHUNK), b"") for item in pipeline.feed_bytes(data)]
    items += pipeline.finish()
    cycles = [item for item in items if isinstance(item, Cycle)]
    steady = [cycle for cycle in cycles if not cycle.warm_up] or cycles
    times = [time for cycle in steady if (time := cycle_time_s(cycle)) is not None]
    if not times:
        hint = "turn on EAGLE3_PROFILE=1, or give --cycle-ms"
        raise SourceError(Problem(str(log), "no cycle time found", hint))
    tokens = [cycle.tokens_per_cycle for cycle in steady if cycle.tokens_per_cycle is not None]
    return median(times), median(tokens) if tokens else None
