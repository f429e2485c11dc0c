"""The dashboard of logwatch itself: does it read everything, in time, and do its alerts arrive."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as d

from boards.panels import (
    ALL,
    board,
    lines,
    listing,
    query,
)


def health() -> d.Dashboard:
    """One panel for each way in which watching could fail."""
    per_stream = "{{instance}} {{stream}}"
    panels = (
        (
            "Lines by outcome",
            "Lines read per second: understood, passed over, or malformed.",
            "short",
            f"sum by (outcome) (rate(logwatch_lines_total{{{ALL}}}[$__rate_interval]))",
            "{{outcome}}",
        ),
        (
            "Bytes read",
            "Bytes of log read per second.",
            "Bps",
            f"sum by (instance, stream) (rate(logwatch_read_bytes_total{{{ALL}}}[$__rate_interval]))",
            per_stream,
        ),
        (
            "Lag in bytes",
            "Bytes that are written but not read yet.",
            "bytes",
            f"max by (instance, stream) (logwatch_lag_bytes{{{ALL}}})",
            per_stream,
        ),
        (
            "Lag in seconds",
            "How long the oldest byte that is not read yet has been waiting: alerts are as late.",
            "s",
            f"max by (instance, stream) (logwatch_lag_seconds{{{ALL}}})",
            per_stream,
        ),
        (
            "Age of the last sample",
            "Time since a sample was read. It grows while a server idles, and when its profile is off.",
            "s",
            f"time() - max by (instance, stream) (logwatch_last_sample_read_timestamp_seconds{{{ALL}}})",
            per_stream,
        ),
        (
            "Malformed lines",
            "Lines per second that start as a record and do not finish as one.",
            "short",
            (
                f'sum by (instance, stream) (rate(logwatch_lines_total{{{ALL}, outcome="malformed"}}'
                "[$__rate_interval]))"
            ),
            per_stream,
        ),
        (
            "Rotations and truncations",
            "How often followed files were rotated or truncated.",
            "short",
            (
                f"sum by (instance) (increase(logwatch_rotations_total{{{ALL}}}[$__rate_interval]) or"
                f" increase(logwatch_truncations_total{{{ALL}}}[$__rate_interval]))"
            ),
            "{{instance}}",
        ),
        (
            "Lost bytes",
            "Bytes that their writer destroyed before anybody could read them.",
            "bytes",
            f"sum by (instance, stream) (increase(logwatch_lost_bytes_total{{{ALL}}}[$__rate_interval]))",
            per_stream,
        ),
        (
            "Alerts waiting",
            "Alerts that a receiver has not taken yet.",
            "short",
            f"sum by (instance) (logwatch_alerts_pending{{{ALL}}})",
            "{{instance}}",
        ),
        (
            "Attempts to deliver",
            "Attempts per interval by receiver and outcome.",
            "short",
            f"sum by (receiver, outcome) (increase(logwatch_alerts_total{{{ALL}}}[$__rate_interval]))",
            "{{receiver}} {{outcome}}",
        ),
        (
            "State file",
            "Commits per second, and those that failed.",
            "short",
            f"sum by (instance) (rate(logwatch_state_commits_total{{{ALL}}}[$__rate_interval]))",
            "{{instance}}",
        ),
        (
            "Memory",
            "Resident memory of the daemon. It does not grow with logs or time.",
            "bytes",
            f"process_resident_memory_bytes{{{ALL}}}",
            "{{instance}}",
        ),
        (
            "Processor",
            "Share of one core that the daemon uses.",
            "percentunit",
            f"rate(process_cpu_seconds_total{{{ALL}}}[$__rate_interval])",
            "{{instance}}",
        ),
    )
    made = board(
        "logwatch-health",
        "logwatch: own health",
        "Whether logwatch reads everything, in time, and whether its alerts arrive.",
    )
    for title, description, unit_name, expression, legend in panels:
        made = made.with_panel(lines(title, description, unit_name, query(expression, legend), width=8))
    return made.with_panel(
        listing(
            "Versions and configuration",
            "Which version runs where, and whether its last reload succeeded.",
            query(
                f"logwatch_build_info{{{ALL}}} * on (job, instance) group_left ()"
                f" logwatch_config_last_reload_successful{{{ALL}}}",
                instant=True,
            ),
            hidden=("Time", "job"),
            names={"Value": "Last reload succeeded"},
            width=16,
            height=8,
        )
    )
