"""Level 3: Prometheus rules that match the configuration: what is recorded, and what alerts.

They see the daemon's open incidents in its metrics, so that an alert arrives even where the daemon's own delivery
fails. Their labels are those of the alerts that the daemon sends (`via` tells the two apart), so that
Alertmanager can silence the double. YAML is small enough here to need no library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from logwatch.outlets.deliver_text import NAMES, SUMMARIES, VERIFY, phase_words
from logwatch.outlets.metrics_families import SEVERITIES

STREAM = "job, instance, stream"
PHASE = f"{STREAM}, phase"


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """What of the configuration enters the rules.

    Attributes:
        severities: Severity by phase that has a band.
        baseline: Whether there is a baseline throughput to compare with.
        runbook_url, dashboard_url: Where alerts point to, or None.
    """

    severities: Mapping[str, str] = field(default_factory=lambda: {"target_verify": "critical"})
    baseline: bool = True
    runbook_url: str | None = None
    dashboard_url: str | None = None


def recording_rules() -> list[dict[str, Any]]:
    """Series named `level:metric:operations`, for long ranges and dashboards of one's own; ours ask the metrics."""
    records = {
        "stream_phase:logwatch_phase_seconds:max": f"max by ({PHASE}) (logwatch_phase_seconds)",
        "stream_phase:logwatch_cycle_phase_seconds:mean5m": (
            f"sum by ({PHASE}) (rate(logwatch_cycle_phase_seconds_total[5m]))"
            f" / (sum by ({PHASE}) (rate(logwatch_cycles_total[5m])) > 0)"
        ),
        "stream_phase:logwatch_phase_seconds:spread_ratio": (
            f"max by ({PHASE}) (logwatch_phase_seconds) / (min by ({PHASE}) (logwatch_phase_seconds) > 0)"
        ),
        "stream_phase:logwatch_phase_in_band:min": f"min by ({PHASE}) (logwatch_phase_in_band)",
        "stream:logwatch_tokens_per_cycle:avg": f"avg by ({STREAM}) (logwatch_tokens_per_cycle)",
        "stream:logwatch_speculation_speedup_ratio:min": (
            f"min by ({STREAM}) (logwatch_speculation_speedup_ratio)"
        ),
    }
    return [{"record": name, "expr": expression} for name, expression in records.items()]


def spec_rules(settings: RuleSettings) -> Iterator[dict[str, Any]]:
    """Alerts about the server that is watched.

    Each needs an open incident: what the last sample says holds on while a server idles, and one odd report before
    a quiet night is no reason to wake anybody. Its severity is the incident's, as in what logwatch sends itself: a
    phase that is slower because of a larger batch is `info`, which no rule tells. Gauges only give the figure.
    """
    where = "{{ $labels.stream }} ({{ $labels.instance }})"
    for phase, severity in settings.severities.items():
        for each in dict.fromkeys((severity, "warning")):  # a phase that is suddenly too good is a warning
            yield _alert(
                settings,
                VERIFY if phase == "target_verify" else NAMES["out_of_band"],
                f"max by ({PHASE}) (logwatch_phase_seconds{{phase={json.dumps(phase)}}}"
                f" and on ({PHASE}, rank) {_is_open('out_of_band', each)})",
                "0s",
                each,
                f"{phase_words(phase)} is outside its tuned band.",
                f"{phase_words(phase)} took {{{{ $value | humanizeDuration }}}} a cycle in the last report of"
                f" {where}.",
            )
    if settings.baseline:
        yield _alert(
            settings,
            NAMES["slower_than_baseline"],
            f"min by ({STREAM}) (logwatch_speculation_speedup_ratio and on ({STREAM}, rank)"
            f" {_is_open('slower_than_baseline', 'critical')})",
            "0s",
            "critical",
            SUMMARIES["slower_than_baseline"],
            f"{where} reaches {{{{ $value | humanizePercentage }}}} of the throughput that it has without"
            " speculation.",
            phase="speculation",
        )
    for each in ("critical", "warning"):
        yield _alert(
            settings,
            NAMES["acceptance_dropped"],
            f"min by ({STREAM}) (logwatch_tokens_per_cycle and on ({STREAM}, rank)"
            f" {_is_open('acceptance_dropped', each)})",
            "0s",
            each,
            SUMMARIES["acceptance_dropped"],
            f"{where} gets {{{{ $value | humanize }}}} tokens a cycle; the status page says how many it had.",
            phase="tokens_per_cycle",
        )
    phase_on = f"{{{{ $labels.phase }}}} on {where}"
    moved = "level_shift|spread|second_mode", "A phase has moved to another level."
    for kinds, summary, severities, description in (
        (*moved, ("critical", "warning"), f"{phase_on} is not what it was; the status page says since when."),
        ("graph_lost", None, ("critical",), f"{where} replayed CUDA graphs before and does not now."),
        ("draft_does_nothing", None, ("critical",), f"{where} gets exactly one token a cycle."),
        (
            "one_rank_slow",
            "One rank is slower than the others.",
            ("warning",),
            f"{phase_on} takes longer on one rank.",
        ),
        ("silence", None, ("warning",), f"{where} answers requests without a decode line or report."),
    ):
        first = kinds.partition("|")[0]
        for each in severities:
            expression = f"max by ({PHASE}) ({_is_open(kinds, each)})"
            yield _alert(
                settings, NAMES[first], expression, "0s", each, summary or SUMMARIES[first], description
            )


def health_rules(settings: RuleSettings) -> Iterator[dict[str, Any]]:
    """Alerts about logwatch itself: an alerter that fails must not fail in silence."""
    where = "{{ $labels.stream }} ({{ $labels.instance }})"
    yield _alert(
        settings,
        "LogwatchDown",
        'up{job="logwatch"} == 0 or absent(up{job="logwatch"})',
        "5m",
        "critical",
        "Prometheus cannot scrape logwatch.",
        "{{ with $labels.instance }}{{ . }} has not{{ else }}No target of the job `logwatch` has{{ end }} answered for"
        " five minutes: nobody watches the log.",
    )
    yield _alert(
        settings,
        "LogwatchRestarting",
        'changes(process_start_time_seconds{job="logwatch"}[30m]) > 3',
        "0s",
        "warning",
        "logwatch starts again and again.",
        "{{ $labels.instance }} has been started {{ $value }} times within half an hour.",
    )
    yield _alert(
        settings,
        "LogwatchReadsNothing",
        "max by (job, instance) (logwatch_build_info)"
        " unless on (job, instance) logwatch_read_bytes_total > 0",
        "1h",
        "warning",
        "logwatch reads no log.",
        "No source of {{ $labels.instance }} has given a byte yet: is it there, and is it the right one?",
    )
    yield _alert(
        settings,
        "LogwatchStale",
        # A server that idles writes access lines of health checks: a night without a sample says nothing.
        f"sum by ({STREAM}) (increase(logwatch_read_bytes_total[1h])) > 0"
        f" unless on ({STREAM}) time() - max by ({STREAM}) (logwatch_last_sample_read_timestamp_seconds) < 86400",
        "1h",
        "warning",
        "The log grows, but holds no samples.",
        f"Lines of {where} go on arriving; there has been no sample for a day, or never one.",
    )
    yield _alert(
        settings,
        "LogwatchMalformed",
        f'sum by ({STREAM}) (rate(logwatch_lines_total{{outcome="malformed"}}[15m]))'
        f' > 0.01 * sum by ({STREAM}) (rate(logwatch_lines_total{{outcome=~"matched|malformed"}}[15m]))',
        "10m",
        "warning",
        "Lines of the log cannot be read to their end.",
        f"More than one in a hundred records of {where} is malformed.",
    )
    yield _alert(
        settings,
        "LogwatchLagging",
        f"max by ({STREAM}) (logwatch_lag_seconds) > 30",
        "2m",
        "warning",
        "Reading is behind the writer of the log.",
        f"{where} is {{{{ $value | humanizeDuration }}}} behind: alerts are as late.",
    )
    yield _alert(
        settings,
        "LogwatchLostBytes",
        f"sum by ({STREAM}) (increase(logwatch_lost_bytes_total[1h])) > 0",
        "0s",
        "warning",
        "Part of the log was destroyed before it could be read.",
        f"{{{{ $value | humanize1024 }}}}B of {where} were lost within the last hour.",
    )
    yield _alert(
        settings,
        "LogwatchAlertsPending",
        "max by (job, instance) (logwatch_alerts_pending) > 0",
        "5m",
        "critical",
        "Alerts do not reach their receivers.",
        "{{ $value }} alerts of {{ $labels.instance }} have been waiting for five minutes.",
    )
    yield _alert(
        settings,
        "LogwatchReloadFailed",
        "max by (job, instance) (logwatch_config_last_reload_successful) == 0",
        "5m",
        "warning",
        "The configuration could not be loaded.",
        "{{ $labels.instance }} goes on with the configuration that it had.",
    )
    yield _alert(
        settings,
        "LogwatchStateErrors",
        "sum by (job, instance) (increase(logwatch_state_commit_errors_total[10m])) > 0",
        "5m",
        "critical",
        "The state file cannot be written.",
        "{{ $labels.instance }} reads no further until its state can be committed: is the disk full?",
    )
    yield {
        "alert": "LogwatchWatchdog",
        "expr": "vector(1)",
        "labels": {"severity": "none", "via": "prometheus"},
        "annotations": {
            "summary": "This alert always fires.",
            "description": "Route it to a dead man's switch: when it stops, the way of alerts is broken.",
        },
    }


def rule_file(settings: RuleSettings) -> str:
    """The rule file: what is recorded, alerts about the server, alerts about logwatch."""
    groups = [
        {"name": "logwatch.recording", "rules": recording_rules()},
        {"name": "logwatch.speculation", "rules": list(spec_rules(settings))},
        {"name": "logwatch.health", "rules": list(health_rules(settings))},
    ]
    head = "# Written by `logwatch export rules` from the configuration: change that, and write it anew.\n"
    return head + _yaml({"groups": groups})


def _is_open(kinds: str, severity: str) -> str:
    """Selects ranks and phases with an open incident of these kinds (a regular expression where several)."""
    match = "=~" if "|" in kinds else "="
    return f'logwatch_incident_severity{{kind{match}"{kinds}"}} == {SEVERITIES[severity]}'


def _alert(
    settings: RuleSettings,
    name: str,
    expression: str,
    wait: str,
    severity: str,
    summary: str,
    description: str,
    phase: str | None = None,
) -> dict[str, Any]:
    """One rule; `phase` where the expression has no such label, but the daemon's alert has."""
    annotations = {"summary": summary, "description": description}
    if settings.runbook_url:
        annotations["runbook_url"] = f"{settings.runbook_url}/{name}.md"
    if settings.dashboard_url:
        annotations["dashboard_url"] = settings.dashboard_url
    return {
        "alert": name,
        "expr": expression,
        **({} if wait == "0s" else {"for": wait}),
        "labels": {"severity": severity, "via": "prometheus", **({"phase": phase} if phase else {})},
        "annotations": annotations,
    }


def _yaml(value: object, indent: int = 0) -> str:
    """Block YAML of mappings, lists and text."""
    pad = "  " * indent
    if isinstance(value, Mapping):
        lines = []
        for key, inner in value.items():
            nested = isinstance(inner, Mapping | list)
            text = "\n" + _yaml(inner, indent + 1) if nested else f" {_quoted(inner)}\n"
            lines.append(f"{pad}{key}:{text}")
        return "".join(lines)
    assert isinstance(value, list)
    items = (_yaml(inner, indent + 1) for inner in value)
    return "".join(f"{pad}- {item[len(pad) + 2 :]}" for item in items)


def _quoted(text: str) -> str:
    """A YAML scalar: single quotes leave PromQL's double quotes readable; JSON's form is YAML's too."""
    if '"' in text and "'" not in text:
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False)
