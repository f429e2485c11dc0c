"""The dashboard of one server: is verify in its band, does speculation pay, where does the time go."""

from __future__ import annotations

from grafana_foundation_sdk.builders import common as c
from grafana_foundation_sdk.builders import dashboard as d
from grafana_foundation_sdk.builders import heatmap
from grafana_foundation_sdk.models import common as cm
from grafana_foundation_sdk.models import dashboard as dm
from grafana_foundation_sdk.models import heatmap as hm
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from boards.panels import (
    ALL,
    BLUE,
    GREEN,
    GREY,
    ONE,
    PHASE,
    RED,
    ROW_UNITS,
    SOURCE,
    board,
    colour,
    lines,
    listing,
    number,
    query,
    steps,
    variable,
)


def server() -> d.Dashboard:
    """One server: is verify in its band, is speculation worth it, and where does the time go."""
    of_phase = "sum by (stream, phase)"
    by_rank = "{{stream}} {{rank}}"
    mean = (
        f'{of_phase} (rate(logwatch_cycle_phase_seconds_total{{{ONE}, phase!~"total_cycle|inferred_cycle"}}'
        f"[$__rate_interval])) / {of_phase} (rate(logwatch_cycles_total{{{ONE},"
        ' phase!~"total_cycle|inferred_cycle"}[$__rate_interval]))'
    )
    verify = (
        lines(
            "$phase against its band",
            "Seconds per cycle of the chosen phase in each report, by rank. The shaded area is the tuned"
            " band; marks show open incidents.",
            "s",
            query(f"logwatch_phase_seconds{{{PHASE}}}", by_rank + " {{phase}}", "A"),
            query(f"min by (phase) (logwatch_band_low_seconds{{{PHASE}}})", "band low", "B"),
            query(f"max by (phase) (logwatch_band_high_seconds{{{PHASE}}})", "band high", "C"),
            width=ROW_UNITS,
            height=10,
        )
        .decimals(2)
        .axis_soft_min(0)
        .override_by_regexp("/^band low/", [*colour(GREEN), dm.DynamicConfigValue("custom.lineWidth", 0)])
        .override_by_regexp(
            "/^band high/",
            [
                *colour(GREEN),
                dm.DynamicConfigValue("custom.lineWidth", 0),
                dm.DynamicConfigValue("custom.fillBelowTo", "band low"),
                dm.DynamicConfigValue("custom.fillOpacity", 15),
            ],
        )
    )
    made = (
        board(
            "logwatch-server",
            "logwatch: speculative decoding",
            "Whether speculative decoding is worth having, since when not, and which phase costs the time.",
        )
        .with_variable(variable("stream", "Stream", f"logwatch_lines_total{{{ALL}}}"))
        .with_variable(variable("phase", "Phase", f"logwatch_phase_seconds{{{ALL}}}", "target_verify"))
        .with_panel(
            number(
                "In its band",
                "1 while every rank's last sample of the chosen phase is inside its band, 0 if one is not.",
                "bool_yes_no",
                f"min(logwatch_phase_in_band{{{PHASE}}})",
                steps((None, RED), (1, GREEN)),
            )
        )
        .with_panel(
            number(
                "Now",
                "Slowest rank's last sample of the chosen phase.",
                "s",
                f"max(logwatch_phase_seconds{{{PHASE}}})",
                steps((None, BLUE)),
                decimals=2,
            )
        )
        .with_panel(
            number(
                "Open incidents",
                "Incidents that are open on the chosen streams, each rank counted.",
                "short",
                f"sum(logwatch_incident_open{{{ONE}}}) or vector(0)",
                steps((None, GREEN), (1, RED)),
            )
        )
        .with_panel(
            number(
                "Speed-up",
                "Throughput with speculation over throughput without; below 1 it costs more than it gives.",
                "percentunit",
                f"min(logwatch_speculation_speedup_ratio{{{ONE}}})",
                steps((None, RED), (1, GREEN)),
            )
        )
        .with_panel(
            number(
                "Tokens per cycle",
                "Accepted drafts + 1 in the last report.",
                "short",
                f"avg(logwatch_tokens_per_cycle{{{ONE}}})",
                steps((None, BLUE)),
                decimals=2,
            )
        )
        .with_panel(
            number(
                "Break-even",
                "Tokens per cycle at which speculation equals the baseline, at the present cycle time.",
                "short",
                f"max(logwatch_breakeven_tokens_per_cycle{{{ONE}}})",
                steps((None, GREY)),
                decimals=2,
            )
        )
        .with_panel(verify)
        .with_panel(
            lines(
                "Where a cycle goes",
                "Mean seconds per cycle of each phase, exact over the interval: time spent over cycles done.",
                "s",
                query(mean, "{{stream}} {{phase}}"),
            )
            .fill_opacity(60)
            .line_width(0)
            .stacking(c.StackingConfig().mode(cm.StackingMode.NORMAL).group("A"))
        )
        .with_panel(
            lines(
                "Tokens per cycle against break-even",
                "Above the dashed line speculation pays, below it costs. Acceptance moves with what is asked,"
                " break-even with the cycle time.",
                "short",
                query(f"logwatch_tokens_per_cycle{{{ONE}}}", by_rank, "A"),
                query(f"logwatch_breakeven_tokens_per_cycle{{{ONE}}}", "break-even " + by_rank, "B"),
            ).override_by_regexp(
                "/^break-even/",
                [
                    *colour(RED),
                    dm.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [8, 6]}),
                ],
            )
        )
        .with_panel(
            lines(
                "Speed-up over the baseline",
                "Throughput with speculation over throughput without it.",
                "percentunit",
                query(f"logwatch_speculation_speedup_ratio{{{ONE}}}", by_rank),
            )
            .thresholds(steps((None, RED), (1, GREEN)))
            .thresholds_style(c.GraphThresholdsStyleConfig().mode(cm.GraphTresholdsStyleMode.LINE))
        )
        .with_panel(
            lines(
                "Spread over ranks",
                "Slowest rank over fastest rank of each phase. One rank that lags holds up all.",
                "percentunit",
                query(
                    f"max by (stream, phase) (logwatch_phase_seconds{{{ONE}}})"
                    f" / min by (stream, phase) (logwatch_phase_seconds{{{ONE}}})",
                    "{{stream}} {{phase}}",
                ),
            )
            .axis_soft_min(1)
            .decimals(2)
        )
        .with_panel(
            heatmap.Panel()
            .title("Distribution of $phase")
            .description("Samples of the chosen phase by duration; buckets are narrow around the tuned band.")
            .datasource(SOURCE)
            .unit("s")
            .span(12)
            .height(8)
            .calculate(False)
            .y_axis(heatmap.YAxisConfig().unit("s"))
            .color(heatmap.HeatmapColorOptions().mode(hm.HeatmapColorMode.SCHEME).scheme("Blues").steps(32))
            .with_target(
                query(
                    "sum by (le) (increase("
                    f"logwatch_phase_duration_seconds_bucket{{{PHASE}}}[$__rate_interval]))",
                    "{{le}}",
                ).format(PromQueryFormat.HEATMAP)
            )
        )
        .with_panel(
            lines(
                "Throughput",
                "Tokens per second: what the server's lines say, and what cycle time and acceptance give.",
                "short",
                query(f"logwatch_generation_tokens_per_second{{{ONE}}}", "stated " + by_rank, "A"),
                query(f"logwatch_estimated_tokens_per_second{{{ONE}}}", "estimated " + by_rank, "B"),
            )
        )
        .with_panel(
            lines(
                "Running requests",
                "Requests in the batch. A larger batch makes a cycle longer without being a fault.",
                "short",
                query(f"logwatch_running_requests{{{ONE}}}", by_rank),
            )
        )
        .with_panel(
            listing(
                "Settings of the runs",
                "What each stream's newest server_args line says.",
                query(f"logwatch_run_info{{{ONE}}}", instant=True),
                hidden=("Time", "__name__", "Value", "job"),
                width=12,
                height=8,
            )
        )
    )
    return made.annotation(
        d.AnnotationQuery()
        .name("Incidents")
        .datasource(SOURCE)
        .enable(True)
        .icon_color(RED)
        .expr(f"max by (stream, phase, kind) (logwatch_incident_open{{{ONE}}}) == 1")
    )
