"""The dashboard of many servers: which are out of band, worst first."""

from __future__ import annotations

from grafana_foundation_sdk.builders import common as c
from grafana_foundation_sdk.builders import dashboard as d
from grafana_foundation_sdk.models import common as cm
from grafana_foundation_sdk.models import dashboard as dm

from boards.panels import (
    ALL,
    BLUE,
    GREEN,
    RED,
    board,
    lines,
    listing,
    number,
    query,
    steps,
)


def fleet() -> d.Dashboard:
    """Many servers: which are out of band, worst first."""
    per = "by (instance, stream)"
    verify = f'{ALL}, phase=~"target_verify|inferred_cycle"'
    excess = (
        f"max {per} (logwatch_phase_seconds{{{verify}}} / on (job, instance, stream, rank, phase)"
        f" logwatch_band_high_seconds{{{verify}}})"
    )
    worst = (
        listing(
            "Servers, worst first",
            "One row for each stream, sorted by how far verify is above the upper edge of its band.",
            query(excess, ref="A", instant=True),
            query(f"max {per} (logwatch_phase_seconds{{{verify}}})", ref="B", instant=True),
            query(f"min {per} (logwatch_speculation_speedup_ratio{{{ALL}}})", ref="C", instant=True),
            query(f"avg {per} (logwatch_tokens_per_cycle{{{ALL}}})", ref="D", instant=True),
            query(f"sum {per} (logwatch_incident_open{{{ALL}}})", ref="E", instant=True),
            query(
                f"time() - max {per} (logwatch_last_sample_read_timestamp_seconds{{{ALL}}})",
                ref="F",
                instant=True,
            ),
            hidden=("Time",),
            names={
                "instance": "Instance",
                "stream": "Stream",
                "Value #A": "Verify over band",
                "Value #B": "Verify",
                "Value #C": "Speed-up",
                "Value #D": "Tokens per cycle",
                "Value #E": "Open incidents",
                "Value #F": "Last sample",
            },
        )
        .sort_by([c.TableSortByFieldState().display_name("Verify over band").desc(True)])
        .override_by_name(
            "Verify over band",
            [
                dm.DynamicConfigValue("unit", "percentunit"),
                dm.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
                dm.DynamicConfigValue(
                    "thresholds",
                    {
                        "mode": "absolute",
                        "steps": [{"value": None, "color": GREEN}, {"value": 1, "color": RED}],
                    },
                ),
            ],
        )
        .override_by_name(
            "Verify", [dm.DynamicConfigValue("unit", "s"), dm.DynamicConfigValue("decimals", 2)]
        )
        .override_by_name(
            "Speed-up",
            [
                dm.DynamicConfigValue("unit", "percentunit"),
                dm.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
                dm.DynamicConfigValue(
                    "thresholds",
                    {
                        "mode": "absolute",
                        "steps": [{"value": None, "color": RED}, {"value": 1, "color": GREEN}],
                    },
                ),
            ],
        )
        .override_by_name("Tokens per cycle", [dm.DynamicConfigValue("decimals", 2)])
        .override_by_name("Last sample", [dm.DynamicConfigValue("unit", "s")])
        .override_by_name(
            "Stream",
            [
                dm.DynamicConfigValue(
                    "links",
                    [
                        {
                            "title": "Show this server",
                            "url": "/d/logwatch-server?${datasource:queryparam}"
                            "&var-instance=${__data.fields.Instance}&var-stream=${__data.fields.Stream}",
                        }
                    ],
                )
            ],
        )
    )
    in_band = f"min {per} (logwatch_phase_in_band{{{ALL}}})"
    return (
        board(
            "logwatch-fleet",
            "logwatch: fleet",
            "All servers that are watched: which are out of band, worst first.",
        )
        .with_panel(
            number(
                "Servers",
                "Streams whose phases are judged.",
                "short",
                f"count({in_band})",
                steps((None, BLUE)),
                width=6,
            )
        )
        .with_panel(
            number(
                "Out of band",
                "Streams with at least one phase outside its band.",
                "short",
                f"sum(1 - {in_band})",
                steps((None, GREEN), (1, RED)),
                width=6,
            )
        )
        .with_panel(
            number(
                "Speculation does not pay",
                "Streams that would be faster without speculation.",
                "short",
                f"count(min {per} (logwatch_speculation_speedup_ratio{{{ALL}}}) < 1) or vector(0)",
                steps((None, GREEN), (1, RED)),
                width=6,
            )
        )
        .with_panel(
            number(
                "Alerts waiting",
                "Alerts that have not reached a receiver yet.",
                "short",
                f"sum(logwatch_alerts_pending{{{ALL}}})",
                steps((None, GREEN), (1, RED)),
                width=6,
            )
        )
        .with_panel(worst)
        .with_panel(
            lines(
                "Verify over the upper edge of its band",
                "Above 100 % a server is out of band. The ten worst.",
                "percentunit",
                query(f"topk(10, {excess})", "{{instance}} {{stream}}"),
            )
            .thresholds(steps((None, GREEN), (1, RED)))
            .thresholds_style(c.GraphThresholdsStyleConfig().mode(cm.GraphTresholdsStyleMode.LINE))
        )
        .with_panel(
            lines(
                "Incidents opened",
                "Incidents that opened within the interval, by kind.",
                "short",
                query(
                    f"sum by (kind) (increase(logwatch_incidents_total{{{ALL}}}[$__rate_interval]))",
                    "{{kind}}",
                ),
            )
            .draw_style(cm.GraphDrawStyle.BARS)
            .fill_opacity(60)
        )
    )
