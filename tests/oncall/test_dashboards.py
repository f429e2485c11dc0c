"""Dashboards: fresh, by the rules of Grafana's linter, and every query brings data from a real Prometheus."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from dashboard_kit import BETTER_FROM_S, EARLIER_S, WORSE_FROM_S, Prometheus

from logwatch.commands.export import command
from logwatch.outlets.dashboards import NAMES
from logwatch.outlets.metrics_families import HELP
from logwatch.resources import folder

FOLDER = folder("dashboards")
BOARDS = {name: json.loads((FOLDER / f"{name}.json").read_text()) for name in NAMES}
PANELS = [(name, panel) for name, board in BOARDS.items() for panel in board["panels"]]
TARGETS = [(name, panel, target) for name, panel in PANELS for target in panel["targets"]]
UNITS = {"s", "short", "percentunit", "bool_yes_no", "Bps", "bytes"}
VARIABLES = {
    "$job": ".+",
    "$instance": ".+",
    "$stream": ".+",
    "$phase": "target_verify",
    "$__rate_interval": "1m",
}


def panel_id(value):
    return f"{value['title']}" if isinstance(value, dict) and "title" in value else None


def filled(expression):
    """A query with Grafana's variables replaced as Grafana does."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


needs_prometheus = pytest.mark.needs("prometheus", "promtool")
each_board = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
each_panel = pytest.mark.parametrize(
    "panel", [panel for _, panel in PANELS], ids=[f"{name}: {panel['title']}" for name, panel in PANELS]
)
each_target = pytest.mark.parametrize(
    ("panel", "target"),
    [(panel, target) for _, panel, target in TARGETS],
    ids=[f"{name}: {panel['title']} {target['refId']}" for name, panel, target in TARGETS],
)


def test_committed_files_are_fresh():
    """Dashboards, rules and unit are what `dashboards/build.py` writes."""
    result = subprocess.run(
        [sys.executable, FOLDER / "build.py", "--check"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


@each_board
def test_a_dashboard_has_its_data_source_as_a_variable(board):
    """template-datasource-rule: a data source variable of type Prometheus, so that it works everywhere."""
    (source,) = (v for v in board["templating"]["list"] if v["type"] == "datasource")
    assert (source["name"], source["query"]) == ("datasource", "prometheus")


@each_board
@pytest.mark.parametrize("name", ["job", "instance"])
def test_job_and_instance_can_be_chosen(board, name):
    """template-job-rule, template-instance-rule: several values, all of them by default, labelled as named."""
    (variable,) = (v for v in board["templating"]["list"] if v["name"] == name)
    assert variable["type"] == "query"
    assert variable["datasource"]["uid"] == "${datasource}"
    assert variable["label"] == name.capitalize()
    assert variable["multi"]
    assert variable["includeAll"]
    assert variable["allValue"] == ".+"


@each_board
def test_choices_are_taken_from_labels_and_follow_the_time(board):
    """template-label-promql-rule and template-on-time-change-reload-rule."""
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            assert re.fullmatch(r"label_values\(\w+(\{.*\})?, \w+\)", variable["query"])
            assert variable["refresh"] == 2


@each_board
def test_a_dashboard_cannot_be_edited_by_chance(board):
    """template-uneditable-rule; and a fixed uid that links can rely on."""
    assert board["editable"] is False
    assert board["uid"] in NAMES
    assert "logwatch" in board["tags"]


@each_panel
def test_a_panel_says_what_it_shows(panel):
    """panel-title-description, panel-datasource, panel-no-targets and panel-units."""
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["targets"]
    if panel["type"] in {"timeseries", "stat", "heatmap"}:
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS


@each_board
def test_panels_fill_their_rows_without_overlap(board):
    """No two panels lie on each other, and none leaves the grid of 24 units."""
    taken = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells


@each_target
def test_a_query_is_chosen_by_job_and_instance(panel, target):
    """target-job-rule, target-instance-rule: each selector has both matchers."""
    selectors = re.findall(r"(?:logwatch|process)_\w+(\{[^}]*\})?", target["expr"])
    assert selectors
    for selector in selectors:
        assert 'job=~"$job"' in selector
        assert 'instance=~"$instance"' in selector


@each_target
def test_counters_are_shown_as_rates(panel, target):
    """target-rate-interval-rule and target-counter-agg-rule: counters in rate or increase, over Grafana's interval."""
    assert not re.search(r"\[(?!\$__rate_interval\])", target["expr"])
    counters = len(re.findall(r"\w+_(?:total|bucket)\{", target["expr"]))
    rates = len(re.findall(r"(?:rate|increase)\(\w+_(?:total|bucket)\{[^}]*\}\[", target["expr"]))
    assert counters == rates


@each_target
def test_a_query_names_metrics_that_exist(panel, target):
    """Each metric named is one of ours (or the process's own), by its full name."""
    suffixes = {"counter": "_total", "info": "_info"}
    known = {f"logwatch_{name}{suffixes.get(kind, '')}" for name, (kind, _) in HELP.items()}
    known.add("logwatch_phase_duration_seconds_bucket")
    named = set(re.findall(r"logwatch_\w+", target["expr"]))
    assert named <= known


@needs_prometheus
@each_target
def test_every_query_brings_data(prometheus, panel, target):
    """On an hour of a replayed server, each query is valid PromQL and has at least one series."""
    if target.get("instant"):
        found = prometheus.instant(filled(target["expr"]))
    else:
        found = prometheus.range(filled(target["expr"]))
    # Nothing may have been malformed, truncated or lost within the hour: zero is data, an empty answer is not.
    assert found


@needs_prometheus
def test_last_months_log_stands_beside_today(prometheus):
    """What `logwatch replay --openmetrics` wrote is shown by the panels of phases, speed-up and tokens as well."""
    earlier = Prometheus(prometheus.url, prometheus.begin_s - EARLIER_S, prometheus.end_s - EARLIER_S)
    shown = {
        panel["title"]
        for panel in BOARDS["logwatch-server"]["panels"]
        if panel["type"] == "timeseries"
        if all(earlier.range(filled(target["expr"]).replace('instance=~".+"', 'instance="replay"'))
               for target in panel["targets"])
    }  # fmt: skip
    assert shown == {
        "$phase against its band",
        "Where a cycle goes",
        "Tokens per cycle against break-even",
        "Speed-up over the baseline",
        "Spread over ranks",
        "Throughput",
        "Running requests",
    }


@needs_prometheus
@each_board
def test_variables_bring_choices(prometheus, board):
    """Each variable's label has values."""
    for variable in board["templating"]["list"]:
        if variable["type"] != "query":
            continue
        metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]).groups()
        assert prometheus.ask(f"label/{label}/values", **{"match[]": filled(metric)})


@needs_prometheus
def test_incidents_are_marked(prometheus):
    """The annotation shows an interval that begins and ends with the incident."""
    (annotation,) = BOARDS["logwatch-server"]["annotations"]["list"]
    (mark,) = (
        series
        for series in prometheus.range(filled(annotation["expr"]), 15)
        if series["metric"]["kind"] == "out_of_band" and series["metric"]["phase"] == "target_verify"
    )
    first, last = mark["values"][0][0], mark["values"][-1][0]
    assert WORSE_FROM_S <= first - prometheus.begin_s <= WORSE_FROM_S + 60
    assert BETTER_FROM_S <= last - prometheus.begin_s <= BETTER_FROM_S + 120


@needs_prometheus
def test_the_worst_server_comes_first(prometheus):
    """While verify is slow, the fleet's table has it at 138 % of the edge of its band."""
    (table,) = (
        panel for panel in BOARDS["logwatch-fleet"]["panels"] if panel["title"].startswith("Servers, ")
    )
    at_s = prometheus.begin_s + BETTER_FROM_S - 60
    (row,) = prometheus.instant(filled(table["targets"][0]["expr"]), at_s)
    assert float(row["value"][1]) == pytest.approx(28.96 / 21, rel=0.01)
    assert table["options"]["sortBy"] == [{"displayName": "Verify over band", "desc": True}]


def test_export_adapts_a_dashboard_to_the_configuration(tmp_path):
    """Status page, runbooks and the first band's phase of the configuration are in what is exported."""
    (tmp_path / "logwatch.toml").write_text(
        '[[band]]\nphase = "draft_extend"\nlow = "1ms"\nhigh = "2ms"\n'
        '[http]\nexternal_url = "http://node7:9877"\n[alerting]\nrunbook_url = "http://wiki/r"\n'
    )
    arguments = [
        "dashboard",
        "--config",
        str(tmp_path / "logwatch.toml"),
        "--all",
        "-o",
        str(tmp_path / "out"),
    ]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    exported = json.loads((tmp_path / "out" / "logwatch-server.json").read_text())
    assert [link["url"] for link in exported["links"]][1:] == ["http://node7:9877", "http://wiki/r"]
    (phase,) = (v for v in exported["templating"]["list"] if v["name"] == "phase")
    assert phase["current"]["value"] == ["draft_extend"]
    assert len(list((tmp_path / "out").iterdir())) == 3
