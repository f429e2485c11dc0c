"""Level 6: `logwatch tune`: bands and baselines from logs that are known to be good, as configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logwatch.commands.common import POSITIVE, Number, config_option
from logwatch.config import load_config
from logwatch.units import format_duration, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from logwatch.judging.judgements import Tuned
    from logwatch.judging.runs import Run
    from logwatch.judging.tuning import TunedBand, Tuning


@click.command("tune", short_help="Learn bands from logs that are known to be good.")
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@config_option
@click.option(
    "--false-alarms-per-year",
    type=POSITIVE,
    default=1.0,
    show_default=True,
    help="Sets how wide the bands are.",
)
@click.option(
    "--floor",
    type=Number(0, 100),
    default=2.0,
    show_default=True,
    metavar="PERCENT",
    help="Smallest deviation that matters: bands are at least this wide on either side.",
)
def command(
    logs: tuple[str, ...], config_path: Path | None, false_alarms_per_year: float, floor: float
) -> None:
    """Learn bands and baselines, per phase and conditions, and print them as TOML for the configuration.

    LOG is known to be good as a whole; `server.log#2` is the second run of a log. A log with a change inside
    is refused, with the place of the change.

    \b
    Example:
      logwatch tune tuned_last_week.log > logwatch.toml && logwatch check --config logwatch.toml
    """
    from logwatch.commands.comparing import chosen, read_runs, the_run
    from logwatch.judging.tuning import tune

    config = load_config(config_path)
    runs: list[Run] = []
    for log in logs:
        path, number = chosen(log)
        found = read_runs(path, config)
        runs += found if number is None else [the_run(found, path, number)]
    tuning = tune(runs, false_alarms_per_year, floor / 100)
    click.echo("\n".join(as_toml(tuning, runs, false_alarms_per_year)))


def as_toml(tuning: Tuning, runs: list[Run], false_alarms_per_year: float) -> Iterator[str]:
    """The lines of the configuration."""
    yield "# Learnt by `logwatch tune` from logs known to be good."
    for run in runs:
        yield from _provenance(run)
    yield "\n[detect]"
    yield f"false_alarms_per_year = {false_alarms_per_year:g}"
    yield from _tuned_environment(runs)
    for each in tuning.bands:
        yield ""
        yield from _band(each)
    for phase, bucket, why in tuning.skipped:
        yield f"\n# No band for {_plain(phase)} at {bucket or 'any conditions'}: {why}."
    for tuned in tuning.baselines:
        yield ""
        yield from _baseline(tuned)


def _provenance(run: Run) -> Iterator[str]:
    times = [cycle.time for cycle in run.cycles if cycle.time]
    when = f", {times[0]} to {times[-1]}" if times else ""
    version = f", version {run.facts.version}" if run.facts.version else ""
    yield f"# {_plain(run.label)}: {len(run.cycles)} samples{when}{version}"
    if not any(c.conditions.batch_size or c.conditions.context_tokens for c in run.cycles):
        yield "#   it says neither batch size nor context: what is learnt holds for the load it had"
    known = ("model_path", "tp_size", "attention_backend", "speculative_algorithm", "disable_cuda_graph")
    settings = [f"{name}={run.facts.settings[name]}" for name in known if name in run.facts.settings]
    environment = [f"{name}={value}" for name, value in sorted(run.facts.merged().items())]
    for title, values in (("settings", settings), ("environment", environment),
                          ("transport", sorted(run.facts.transports))):  # fmt: skip
        if values:
            yield f"#   {title}: {_plain(', '.join(values))}"


def _tuned_environment(runs: list[Run]) -> Iterator[str]:
    """What `logwatch doctor` compares running processes with: the newest run's variables."""
    variables = next((run.facts.merged() for run in reversed(runs) if run.facts.variables), {})
    if variables:
        yield "\n[tuned.environment]"
        yield from (f'"{_escaped(_plain(name))}" = "{_escaped(_plain(value))}"'
                    for name, value in sorted(variables.items()))  # fmt: skip


def _band(each: TunedBand) -> Iterator[str]:
    band = each.band
    around = f"# {each.samples} samples around {milliseconds(each.level_s)}"
    yield f"{around}, deviation {each.deviation_s * 1e3:.3f} ms"
    yield "[[band]]"
    yield f'phase = "{_escaped(band.phase)}"'
    yield f'low = "{format_duration(band.low_s)}"'
    yield f'high = "{format_duration(band.high_s)}"'
    if band.per_context_token_s:
        yield f'per_context_token = "{format_duration(band.per_context_token_s)}"'
    if band.when:
        yield f"when = {_inline(band.when)}"
    if band.severity != "critical":
        yield f'severity = "{band.severity}"'


def _baseline(tuned: Tuned) -> Iterator[str]:
    base = tuned.baseline
    yield "[[baseline]]"
    yield f'phase = "{_escaped(tuned.phase)}"'
    yield f'bucket = "{_escaped(tuned.bucket)}"'
    for name in ("level", "scale", "per_token", "context", "low_context", "high_context", "phi"):
        yield f"{name} = {float(getattr(base, name))!r}"
    for name in ("bin_scale", "bin_shift"):
        yield f"{name} = {float(getattr(base, name))!r}"
    for name in ("samples", "hits_low", "hits_high"):
        yield f"{name} = {getattr(base, name)}"
    yield f"memory = {[float(each) for each in base.memory]}"
    yield f"bins = {list(base.bins)}"


def _inline(table: Mapping[str, object]) -> str:
    inner = ", ".join(f'{k} = "{v}"' if isinstance(v, str) else f"{k} = {v}" for k, v in table.items())
    return f"{{ {inner} }}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _plain(text: str) -> str:
    """Text fit for a comment: one line, no control characters."""
    return "".join(each if each.isprintable() else "?" for each in text)
