"""Pieces that all dashboards are made of: queries, panels, variables, thresholds."""

from __future__ import annotations

from grafana_foundation_sdk.builders import common as c
from grafana_foundation_sdk.builders import dashboard as d
from grafana_foundation_sdk.builders import stat, table, timeseries
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models import common as cm
from grafana_foundation_sdk.models import dashboard as dm
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = dm.DataSourceRef(type_val="prometheus", uid="${datasource}")

ONE = 'job=~"$job", instance=~"$instance", stream=~"$stream"'
PHASE = ONE + ', phase=~"$phase"'
ALL = 'job=~"$job", instance=~"$instance"'

GREEN, AMBER, RED, BLUE, GREY = "#27823b", "#d68910", "#c0392b", "#2e6f9e", "#8a8a8a"
ROW_UNITS = 24


def query(expression: str, legend: str = "__auto", ref: str = "A", *, instant: bool = False) -> Dataquery:
    """One target. Tables take the newest values, everything else a range."""
    made = Dataquery().expr(expression).legend_format(legend).ref_id(ref).datasource(SOURCE)
    return made.instant().format(PromQueryFormat.TABLE) if instant else made.range()


def colour(fixed: str) -> list[dm.DynamicConfigValue]:
    """Properties of a series that has its own colour."""
    return [dm.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": fixed})]


def steps(*pairs: tuple[float | None, str]) -> d.ThresholdsConfig:
    """Thresholds: from which value on which colour."""
    return (
        d.ThresholdsConfig()
        .mode(dm.ThresholdsMode.ABSOLUTE)
        .steps([dm.Threshold(value=value, color=shade) for value, shade in pairs])
    )


def lines(
    title: str, description: str, unit_name: str, *queries: Dataquery, width: int = 12, height: int = 8
) -> timeseries.Panel:
    """A panel of lines with a legend below and one tooltip for all."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(unit_name)
        .span(width)
        .height(height)
        .line_width(1)
        .fill_opacity(0)
        .show_points(cm.VisibilityMode.AUTO)
        .legend(
            c.VizLegendOptions()
            .display_mode(cm.LegendDisplayMode.LIST)
            .placement(cm.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(c.VizTooltipOptions().mode(cm.TooltipDisplayMode.MULTI).sort(cm.SortOrder.DESCENDING))
    )
    for each in queries:
        panel = panel.with_target(each)
    return panel


def number(
    title: str,
    description: str,
    unit_name: str,
    expression: str,
    thresholds: d.ThresholdsConfig,
    *,
    width: int = 4,
    decimals: int | None = None,
) -> stat.Panel:
    """A panel with one large number."""
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(unit_name)
        .span(width)
        .height(4)
        .thresholds(thresholds)
        .color_mode(cm.BigValueColorMode.VALUE)
        .graph_mode(cm.BigValueGraphMode.AREA)
        .reduce_options(c.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False))
        .with_target(query(expression))
    )
    return panel if decimals is None else panel.decimals(decimals)


def variable(name: str, label: str, of: str, default: str | None = None) -> d.QueryVariable:
    """A templated label: several values may be chosen, and all by default."""
    text, value = (default, default) if default else ("All", "$__all")
    return (
        d.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(f"label_values({of}, {name})")
        .refresh(dm.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dm.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".+")
        .current(dm.VariableOption(selected=True, text=[text], value=[value]))
    )


def board(uid: str, title: str, description: str) -> d.Dashboard:
    """An empty dashboard with what all have: data source, job, instance, links to the others."""
    return (
        d.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["logwatch", "speculative-decoding"])
        .readonly()
        .time("now-6h", "now")
        .refresh("15s")
        .tooltip(dm.DashboardCursorSync.CROSSHAIR)
        .link(
            d.DashboardLink("Dashboards of logwatch")
            .type(dm.DashboardLinkType.DASHBOARDS)
            .tags(["logwatch"])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(True)
        )
        .with_variable(d.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(variable("job", "Job", "logwatch_build_info"))
        .with_variable(variable("instance", "Instance", 'logwatch_build_info{job=~"$job"}'))
    )


def listing(
    title: str,
    description: str,
    *queries: Dataquery,
    hidden: tuple[str, ...],
    names: dict[str, str] | None = None,
    width: int = ROW_UNITS,
    height: int = 12,
) -> table.Panel:
    """A table of newest values: one row for each set of labels, all queries joined."""
    panel = table.Panel().title(title).description(description).datasource(SOURCE).span(width).height(height)
    for each in queries:
        panel = panel.with_target(each)
    if len(queries) > 1:
        panel = panel.with_transformation(dm.DataTransformerConfig(id_val="merge", options={}))
    organise = {"excludeByName": dict.fromkeys(hidden, True), "renameByName": names or {}}
    return panel.with_transformation(dm.DataTransformerConfig(id_val="organize", options=organise))
