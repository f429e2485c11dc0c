"""Level 3: the sentences that every form of a summary shares, and text from logs made safe to print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from logwatch.judging.conditions import UNTIMED
from logwatch.model import Moment
from logwatch.units import format_bytes, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from logwatch.judging.economics import Economics
    from logwatch.model import Cause, Incident, Limits, Record
    from logwatch.outlets.report.summary import InputSummary, PhaseSummary, RunSummary, Summary

# C0 and C1 controls, and what reorders or hides text around it: a log must not write to the terminal.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")
LONGEST = 200

_UNMEASURED = {
    "silence": "requests are answered, but no line of prefill, decode or report is written{}",
    "graph_lost": "no CUDA graph is used{} any more where one was",
}


def safe(text: str, longest: int = LONGEST) -> str:
    r"""Text from a log without control characters, cut where it is long.

    >>> safe("verify\x1b[31m"), safe("a" * 9, longest=5)
    ('verify\\x1b[31m', 'aaaa…')
    """
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    return _UNSAFE.sub(
        lambda found: f"\\x{ord(found[0]):02x}" if ord(found[0]) < 256 else f"\\u{ord(found[0]):04x}", text
    )


def value_text(phase: str, value: float) -> str:
    """A judged value with its unit."""
    if phase in UNTIMED:
        return f"{value:.2f} {UNTIMED[phase]}".rstrip()
    return milliseconds(value)


def band_text(band: Limits) -> str:
    """`17.00..21.00`, in milliseconds."""
    return f"{band.low * 1000:.2f}..{band.high * 1000:.2f}"


def judged_by(phase: PhaseSummary) -> str:
    """`17.00..21.00`, or `moves to 17.00..21.00` where another band judged before; empty without one."""
    if phase.band is None:
        return ""
    return f"moves to {band_text(phase.band)}" if phase.band_moves else band_text(phase.band)


def against(incident: Incident) -> str:
    """What the ratio is against."""
    ratio = f"{incident.ratio:.2f} x"
    if incident.before is not None:
        return f"{ratio} the level before ({value_text(incident.phase, incident.before)})"
    if incident.kind == "slower_than_baseline" and incident.ratio:
        baseline = value_text(incident.phase, incident.after / incident.ratio)
        return f"{ratio} the baseline without speculation ({baseline})"
    return f"{ratio} the other ranks" if incident.kind == "one_rank_slow" else f"{ratio} the band's centre"


def moment_text(moment: Moment) -> str:
    """`line 12 (2026-02-11 08:15:02)`."""
    return f"line {moment.line}" + (f" ({safe(moment.time, 40).replace('T', ' ')})" if moment.time else "")


def incident_text(incident: Incident) -> str:
    """One line: what, where, how much; of an incident that is no measure only what."""
    where = f" on {safe(incident.rank)}" if incident.rank else ""
    if incident.kind in _UNMEASURED:
        return _UNMEASURED[incident.kind].format(where)
    kind = "" if incident.kind == "out_of_band" else f" ({incident.kind.replace('_', ' ')})"
    level = value_text(incident.phase, incident.after)
    return f"{safe(incident.phase)}{where} is {incident.direction}{kind}: {level}, {against(incident)}"


def cause_text(cause: Cause) -> str:
    """`likely cause: cuda graph off: ...`, or that none is known and what was ruled out."""
    evidence = safe(cause.evidence, 300)
    if cause.cause == "unknown":
        return f"cause not known. {evidence}"
    return f"likely cause: {safe(cause.cause).replace('_', ' ')}: {evidence}"


def lasted(incident: Incident) -> str:
    """Since when, when it was noticed, and whether it is over."""
    end = f"resolved at {moment_text(incident.resolved)}" if incident.resolved else "still so at the end"
    return f"since {moment_text(incident.onset)}, noticed at {moment_text(incident.noticed)}, {end}"


def crash_text(crash: Record) -> str:
    """Where a server crashed, and its own words."""
    where = f"{safe(crash.place.path)}: crashed at {moment_text(Moment(crash.place.line, crash.time))}"
    return f"{where}: {safe(str(crash.fields.get('text', '')))}"


def verdict_text(summary: Summary) -> str:
    """The first line of every report."""
    if summary.verdict == "no_data":
        return "No samples found"
    if summary.verdict == "in_band":
        judged = sorted({phase.phase for run in summary.runs for phase in run.phases if phase.in_band})
        if not judged:
            return "No incident; no phase here has a band"
        return f"In band: {', '.join(map(safe, judged))}"
    worst = worst_of(summary.incidents)
    if worst is not None:
        band = (
            f" (band {band_text(worst.band)} ms)" if worst.band and worst.phase != "tokens_per_cycle" else ""
        )
        more = len(summary.incidents) + summary.more_incidents - 1
        rest = f"; {more} more incident{'s' if more > 1 else ''}" if more else ""
        head = "Out of band" if worst.kind == "out_of_band" else "Not as it should be"
        return f"{head}: {incident_text(worst)}{band}{rest}"
    run, phase = next((run, phase) for run in summary.runs for phase in run.phases if phase.in_band is False)
    where = f" on {safe(run.rank)}" if run.rank else ""
    assert phase.band is not None
    return (
        f"Out of band: {safe(phase.phase)}{where} median {milliseconds(phase.median_s)} "
        f"(band {band_text(phase.band)} ms); too few samples in a row for an incident"
    )


def worst_of(incidents: Iterable[Incident]) -> Incident | None:
    """The incident to be told first: open ones before severe ones, those that say a band, and long ones."""
    return max(incidents, key=_weight, default=None)


def _weight(incident: Incident) -> tuple[bool, bool, bool, int]:
    return (
        incident.resolved is None,
        incident.severity == "critical",
        incident.kind == "out_of_band",
        incident.samples,
    )


def economics_text(now: Economics) -> str:
    """What speculation gives and costs in one run, or empty."""
    parts = []
    if now.tokens_per_cycle is not None:
        parts.append(f"{now.tokens_per_cycle:.2f} tokens per cycle")
    if now.estimated_tokens_per_second is not None:
        parts.append(f"about {now.estimated_tokens_per_second:.1f} tok/s")
    if now.breakeven_tokens_per_cycle is not None:
        parts.append(
            f"break-even at {now.breakeven_tokens_per_cycle:.2f} tokens per cycle"
            f" (against {now.baseline_tokens_per_second:g} tok/s without speculation)"
        )
    if now.speedup is not None:
        parts.append(
            f"speculation {'costs more than it gives' if now.speedup < 1 else 'is worth having'}"
            f" ({now.speedup:.2f} x)"
        )
    return "; ".join(parts)


def run_title(run: RunSummary) -> str:
    """`server.log TP0, run 2, started 2026-02-11 08:15:02`."""
    rank = f" {safe(run.rank)}" if run.rank else ""
    started = f", started {safe(run.started, 40).replace('T', ' ')}" if run.started else ""
    number = f", run {run.run + 1}" if run.run or run.started else ""
    return f"{safe(run.stream)}{rank}{number}{started}"


def state_text(phase: PhaseSummary) -> str:
    """`in`, `high` or `low`, or empty where nothing judges it."""
    if phase.in_band is None or phase.band is None:
        return ""
    if phase.in_band:
        return "in"
    return "high" if phase.median_s >= phase.band.centre else "low"


def input_text(each: InputSummary) -> str:
    """What was read of one input."""
    size = format_bytes(each.bytes)
    counts = f"{each.lines:,} lines, {each.records:,} records, {each.malformed:,} malformed"
    text = f"{safe(each.path)}: {size}, {counts}"
    return f"{text}; {safe(each.damage)}" if each.damage else text


def settings_text(run: RunSummary) -> str:
    """The few settings by which a person knows a run."""
    known = {
        "model_path": "model",
        "tp_size": "tp",
        "speculative_algorithm": "algorithm",
        "speculative_num_steps": "steps",
        "speculative_eagle_topk": "topk",
        "speculative_num_draft_tokens": "draft tokens",
    }
    return ", ".join(
        f"{word} {safe(run.settings[name], 80)}"
        for name, word in known.items()
        if run.settings.get(name) not in {None, "None"}
    )
