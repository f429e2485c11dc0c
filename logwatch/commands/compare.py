"""Level 6: `logwatch compare`: what changed between two logs, how surely, and why."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from logwatch.commands.common import POSITIVE, Number, config_option, format_option
from logwatch.config import load_config
from logwatch.errors import Problem, SourceError
from logwatch.units import milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from logwatch.judging.compare import Comparison, PhaseChange

CHANGED = 1
WIDTH = 100
MOST_NEEDED = 10_000
LONGEST = 2000
"""Characters of a sentence that quotes a log."""
_SAYS = {"same": "No significant change", "changed": "Changed", "cannot_tell": "Cannot tell"}


@click.command("compare", short_help="What changed between two logs, how surely, and why.")
@click.argument("good", metavar="GOOD")
@click.argument("bad", metavar="BAD")
@config_option
@click.option("--floor", type=Number(0, 100), default=2.0, show_default=True, metavar="PERCENT",
              help="Smallest change that matters.")  # fmt: skip
@click.option("--alpha", type=Number(0, 0.5, min_open=True), default=0.01, show_default=True,
              help="Chance to call two equal logs different.")  # fmt: skip
@click.option("--baseline", type=POSITIVE, metavar="TOK_S",
              help="Tokens per second without speculation, for break-even.")  # fmt: skip
@format_option("table", "json", "markdown")
def command(
    good: str,
    bad: str,
    config_path: Path | None,
    floor: float,
    alpha: float,
    baseline: float | None,
    output: str,
) -> None:
    """Compare two logs, or two runs of one: phases at equal conditions, settings, environment, likely cause.

    GOOD and BAD are logs; `server.log#2` is the second run of a log. Without a number the last run counts;
    where both are the same log, its first run is compared with its last.

    \b
    Examples:
      logwatch compare last_week.log today.log
      logwatch compare server.log#1 server.log#2 --format markdown

    Exit status: 0 no significant change, or too few samples to tell; 1 a significant change; 2 trouble.
    """
    from logwatch.commands.comparing import chosen, read_runs, the_run
    from logwatch.judging.compare import compare

    config = load_config(config_path)
    (old_path, old), (new_path, new) = chosen(good), chosen(bad)
    old_runs = read_runs(old_path, config)
    new_runs = old_runs if new_path == old_path else read_runs(new_path, config)
    before = the_run(old_runs, old_path, old, first=new_path == old_path)
    after = the_run(new_runs, new_path, new)
    if before is after and None in {old, new}:
        what = f"there is nothing to compare its run {before.number} with: it holds {len(old_runs)} run with samples"
        raise SourceError(Problem(old_path, what, "name another log, or another run of it (`LOG#1`)"))
    found = compare(
        before,
        after,
        floor=floor / 100,
        alpha=alpha,
        baseline_tokens_per_second=baseline or config.speculation.baseline_tokens_per_second,
    )
    if output == "json":
        click.echo(json.dumps(as_json(found), indent=2))
    elif output == "markdown":
        click.echo(as_markdown(found))
    else:
        print_table(found)
    raise click.exceptions.Exit(CHANGED if found.verdict == "changed" else 0)


def as_json(found: Comparison) -> dict[str, Any]:
    """The comparison as the contract has it."""
    from logwatch.judging.conditions import TOKENS

    return {
        "schema": "logwatch.compare/1",
        "verdict": found.verdict,
        "good": found.good,
        "bad": found.bad,
        "phases": [_phase_json(each, 1e3, "_ms") for each in found.phases if each.phase != TOKENS],
        "tokens_per_cycle": next(
            (_phase_json(each, 1.0, "") for each in found.phases if each.phase == TOKENS), None
        ),
        "settings": [_named(*each) for each in found.settings],
        "environment": [_named(*each) for each in found.environment],
        "causes": [{"cause": c.cause, "evidence": c.evidence, "score": c.score} for c in found.causes],
        "economics": {
            side: {
                "cycle_ms": _rounded(each.cycle_s, 1e3),
                "tokens_per_cycle": _rounded(each.tokens_per_cycle),
                "estimated_tokens_per_second": _rounded(each.estimated_tokens_per_second),
                "breakeven_tokens_per_cycle": _rounded(each.breakeven_tokens_per_cycle),
                "speedup": _rounded(each.speedup),
            }
            for side, each in zip(("before", "after"), found.economics, strict=True)
        },
        "notes": list(found.notes),
    }


def as_markdown(found: Comparison) -> str:
    """The comparison as an issue tracker shows it."""
    from logwatch.outlets.report.as_markdown import plain
    from logwatch.outlets.report.wording import safe

    def text(value: str) -> str:
        return plain(safe(value, LONGEST))

    lines = [f"**{text(_headline(found))}** ({text(found.good)} against {text(found.bad)})", ""]
    if found.phases:
        lines += ["| " + " | ".join(_HEADS) + " |", "|" + "|".join(["---", *["---:"] * 5, "---"]) + "|"]
        lines += ["| " + " | ".join(map(text, _cells(each))) + " |" for each in found.phases]
        lines.append("")
    lines += [f"- {text(sentence)}" for sentence in _sentences(found)]
    for title, rows in (("Settings", _settings(found)), ("Environment", found.environment)):
        if rows:
            lines += ["", f"| {title} | before | after |", "|---|---|---|"]
            lines += [
                f"| {text(name)} | {' | '.join(map(text, _both(old, new)))} |" for name, old, new in rows
            ]
    return "\n".join(lines)


def print_table(found: Comparison) -> None:
    """The comparison for a terminal."""
    from rich.table import Table

    from logwatch.outlets.report.console import Output
    from logwatch.outlets.report.wording import safe

    console = Output(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.width = max(console.width, WIDTH)  # numbers cut short are worse than a line that wraps
    console.print(f"{safe(_headline(found), LONGEST)}\n")
    console.print(f"good: {safe(found.good, LONGEST)}\nbad:  {safe(found.bad, LONGEST)}\n")
    if found.phases:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for number, head in enumerate(_HEADS):
            table.add_column(head, justify="right" if 0 < number < 6 else "left", no_wrap=True)
        for each in found.phases:
            table.add_row(*map(safe, _cells(each)))
        console.print(table, no_wrap=True, crop=False)
        console.print()
    for text in _sentences(found):
        console.print(safe(text, LONGEST))
    for title, rows in (("Settings that differ", _settings(found)), ("Environment", found.environment)):
        if rows:
            console.print(f"\n{title}")
            for name, old, new in rows:
                console.print(safe(f"  {name}: {' -> '.join(_both(old, new))}", LONGEST))


_HEADS = ("phase", "before", "after", "ratio", "shift, 95 %", "p", "verdict")


def _headline(found: Comparison) -> str:
    moved = [each for each in found.phases if each.verdict == "changed"]
    main = next((each for each in moved if each.phase == "target_verify"), moved[0] if moved else None)
    if main is None:
        open_ones = {each.phase: each.needed for each in found.phases if each.needed is not None}
        needed = open_ones.get("target_verify", max(open_ones.values(), default=0))
        more = f": {_many(needed)} samples on each side are needed" if needed else ""
        return f"{_SAYS[found.verdict]}{more if found.verdict == 'cannot_tell' else ''}"
    cause = f", most likely {found.causes[0].cause}" if found.causes and found.causes[0].score else ""
    return f"{_SAYS[found.verdict]}: {main.phase} x {main.ratio:.2f}{cause}"


def _sentences(found: Comparison) -> list[str]:
    from logwatch.outlets.report.wording import economics_text

    told = [
        f"Cause: {cause.cause}{f' ({cause.score:.2f})' if cause.score else ''}. {cause.evidence}"
        for cause in found.causes
    ]
    for side, each in zip(("Before", "After"), found.economics, strict=True):
        if worth := economics_text(each):
            told.append(f"{side}: {worth}.")
    where = {(each.conditions, each.context) for each in found.phases if each.conditions}
    for conditions, context in sorted(where, key=lambda pair: (pair[1] is not None, pair[0])):
        at = "" if context is None else f" and {context:.0f} tokens of context"
        told.append(f"Compared at {conditions}{at}.")
    for phase in found.phases:
        if phase.verdict == "cannot_tell":
            have = f"{phase.samples[0]} and {phase.samples[1]} samples"
            told.append(f"{phase.phase}: {have} cannot tell; {_many(phase.needed)} on each side would.")
        if phase.spread_p_value is not None and phase.spread_p_value < 0.001:
            told.append(f"{phase.phase}: its spread or shape changed as well (p {phase.spread_p_value:.1g}).")
    if left := len(found.settings) - len(_settings(found)):
        told.append(
            f"{left} settings are named by one of the logs only: another version of the engine has others."
        )
    return [*told, *found.notes]


def _settings(found: Comparison) -> Sequence[tuple[str, str | None, str | None]]:
    """The settings that a person wants to see; JSON has all."""
    from logwatch.judging.case import named_by_both

    return named_by_both(found.settings)


def _many(needed: int | None) -> str:
    """How many samples would tell; where they scatter so that no log would, a figure would only pretend."""
    return "more than 10,000" if needed is None or needed > MOST_NEEDED else f"about {needed:,}"


def _cells(each: PhaseChange) -> tuple[str, ...]:
    share = f" ({each.explains:.0%})" if each.explains is not None and each.verdict == "changed" else ""
    factor = 1.0 if each.phase == "tokens_per_cycle" else 1e3
    return (
        each.phase,
        _value(each, each.before),
        _value(each, each.after),
        f"x {each.ratio:.2f}",
        " .. ".join(f"{value * factor:+.2f}" for value in (each.low, each.high)),
        f"{each.p_value:.1g}",
        f"{each.verdict.replace('_', ' ')}{share}",
    )


def _value(each: PhaseChange, value: float) -> str:
    return f"{value:.2f}" if each.phase == "tokens_per_cycle" else milliseconds(value)


def _phase_json(each: PhaseChange, factor: float, unit: str) -> dict[str, Any]:
    return {
        "phase": each.phase,
        f"before{unit}": _rounded(each.before, factor),
        f"after{unit}": _rounded(each.after, factor),
        f"shift{unit}": _rounded(each.shift, factor),
        f"shift_interval{unit}": [_rounded(each.low, factor), _rounded(each.high, factor)],
        "ratio": _rounded(each.ratio),
        "p_value": float(f"{each.p_value:.3g}"),
        "verdict": each.verdict,
        "samples": list(each.samples),
        "needed_samples": each.needed,
        "share_of_change": _rounded(each.explains),
        "conditions": each.conditions or None,
        "context_tokens": each.context,
    }


def _named(name: str, before: str | None, after: str | None) -> dict[str, str | None]:
    return {"name": name, "before": before, "after": after}


def _rounded(value: float | None, factor: float = 1.0) -> float | None:
    return None if value is None else round(value * factor, 4)


def _both(old: str | None, new: str | None) -> list[str]:
    from logwatch.judging.case import both_short

    return both_short(old, new, 60, "(not set)")
