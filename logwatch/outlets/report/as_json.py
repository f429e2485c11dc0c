"""Level 3: the summary as JSON, `logwatch.replay/1`. Keys are the contract's (5.1), times milliseconds.

What is no time (tokens per cycle, throughput) has its level in `before` and `after`, and null in `_ms`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from logwatch.judging.conditions import UNTIMED

if TYPE_CHECKING:
    from logwatch.model import Incident, Moment
    from logwatch.outlets.report.summary import PhaseSummary, RunSummary, Summary


def as_json(summary: Summary) -> str:
    """The whole document, indented, with a newline at its end left to the printer."""
    document: dict[str, object] = {
        "schema": "logwatch.replay/1",
        "verdict": summary.verdict,
        "inputs": [
            {
                "path": each.path,
                "bytes": each.bytes,
                "lines": each.lines,
                "records": each.records,
                "malformed": each.malformed,
                "damage": each.damage,
            }
            for each in summary.inputs
        ],
        "runs": [_run(run) for run in summary.runs],
        "incidents": [_incident(incident) for incident in summary.incidents],
        "crashes": [
            {
                "path": crash.place.path,
                "line": crash.place.line,
                "time": crash.time,
                "rank": crash.rank,
                "text": crash.fields.get("text"),
            }
            for crash in summary.crashes
        ],
        "records_seen": dict(sorted(summary.seen.items())),
        "malformed_examples": [
            {
                "path": bad.place.path,
                "line": bad.place.line,
                "column": bad.column,
                "record": bad.kind,
                "expected": bad.expected,
                "found": bad.found,
            }
            for bad in summary.malformed
        ],
    }
    if summary.explained:
        document["explained"] = list(summary.explained)
    if summary.more_incidents:
        document["incidents_left_out"] = summary.more_incidents
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False)


def _run(run: RunSummary) -> dict[str, object]:
    now = run.economics
    return {
        "stream": run.stream,
        "rank": run.rank,
        "run": run.run,
        "started": run.started,
        "settings": dict(run.settings),
        "phases": [_phase(phase) for phase in run.phases],
        "tokens_per_cycle": _rounded(run.tokens_per_cycle),
        "estimated_tokens_per_second": _rounded(now.estimated_tokens_per_second),
        "breakeven_tokens_per_cycle": _rounded(now.breakeven_tokens_per_cycle),
        "baseline_tokens_per_second": now.baseline_tokens_per_second,
        "speedup": _rounded(now.speedup),
        "cycle_ms": _ms(now.cycle_s),
    }


def _phase(phase: PhaseSummary) -> dict[str, object]:
    band = phase.band
    return {
        "phase": phase.phase,
        "samples": phase.samples,
        "median_ms": _ms(phase.median_s),
        "mean_ms": _ms(phase.mean_s),
        "p05_ms": _ms(phase.p05_s),
        "p95_ms": _ms(phase.p95_s),
        "share": _rounded(phase.share),
        "band": {"low_ms": _ms(band.low), "high_ms": _ms(band.high)} if band else None,
        "in_band": phase.in_band,
        "outside": phase.outside,
    }


def _incident(incident: Incident) -> dict[str, object]:
    timed = incident.phase not in UNTIMED
    return {
        "phase": incident.phase,
        "kind": incident.kind,
        "direction": incident.direction,
        "stream": incident.stream,
        "rank": incident.rank,
        "run": incident.run,
        "severity": incident.severity,
        "onset": _moment(incident.onset),
        "noticed": _moment(incident.noticed),
        "resolved": _moment(incident.resolved) if incident.resolved else None,
        "before_ms": _ms(incident.before) if timed else None,
        "after_ms": _ms(incident.after) if timed else None,
        "before": incident.before,
        "after": incident.after,
        "ratio": _rounded(incident.ratio),
        "samples": incident.samples,
        "band": {"low_ms": _ms(incident.band.low), "high_ms": _ms(incident.band.high)}
        if incident.band and timed
        else None,
        "causes": [
            {"cause": cause.cause, "evidence": cause.evidence, "score": _rounded(cause.score)}
            for cause in incident.causes
        ],
        "detail": incident.detail,
    }


def _moment(moment: Moment) -> dict[str, object]:
    return {"line": moment.line, "time": moment.time}


def _ms(seconds: float | None) -> float | None:
    """Milliseconds to the nanosecond: what a server prints comes back as it was."""
    return None if seconds is None else round(seconds * 1000, 6)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
