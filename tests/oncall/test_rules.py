"""Prometheus rules: generated from the configuration, and tried with promtool."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import rjsonnet
import yaml
from click.testing import CliRunner

from logwatch.commands.export import command
from logwatch.outlets.prometheus_rules import RuleSettings, rule_file
from logwatch.resources import folder

pytestmark = pytest.mark.needs("promtool")

RULES = folder("dashboards") / "rules" / "logwatch.yml"


def promtool(*arguments):
    return subprocess.run(
        [shutil.which("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False
    )


def rules_of(text):
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def test_committed_rules_are_those_of_the_defaults():
    """The committed file is what the code gives: `logwatch export rules` with a baseline, and no links."""
    assert RULES.read_text() == rule_file(RuleSettings())


def test_promtool_accepts_the_rules():
    """Syntax and promtool's own lint."""
    result = promtool("check", "rules", "--lint=all", RULES)
    assert result.returncode == 0, result.stdout + result.stderr


def test_rules_do_what_their_tests_say():
    """Each alert fires and stays silent on the series of `rules_test.yml`."""
    result = promtool("test", "rules", Path(__file__).parent / "rules_test.yml")
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_alert_has_its_texts():
    """CamelCase name, severity, a static summary with a full stop, and a description."""
    for rule in rules_of(RULES.read_text()):
        if "record" in rule:
            assert re.fullmatch(r"[a-z_]+:logwatch_[a-z_]+:[a-z0-9_]+", rule["record"])
            continue
        assert re.fullmatch(r"(Spec|Logwatch)([A-Z][a-z]+)+", rule["alert"])
        assert rule["labels"]["severity"] in {"critical", "warning", "info", "none"}
        assert rule["labels"]["via"] == "prometheus"
        assert rule["annotations"]["summary"].endswith(".")
        assert "{{" not in rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


def test_every_alert_has_a_runbook():
    """One file for each alert, and no file without one."""
    alerts = {rule["alert"] for rule in rules_of(RULES.read_text()) if "alert" in rule}
    alerts.add("SpecPhaseOutOfBand")  # in the rules of a configuration that has a band of another phase
    assert {path.stem for path in (folder("dashboards") / "runbooks").glob("*.md")} == alerts


@pytest.mark.parametrize(
    ("text", "present", "absent"),
    [
        pytest.param("", {"SpecVerifyOutOfBand"}, {"SpecSlowerThanBaseline"}, id="no configuration"),
        pytest.param(
            "[speculation]\nbaseline_tokens_per_second = 82.2\n",
            {"SpecSlowerThanBaseline"},
            set(),
            id="baseline",
        ),
        pytest.param(
            '[[band]]\nphase = "draft_extend"\nlow = "1ms"\nhigh = "2ms"\nseverity = "info"\n',
            {"SpecPhaseOutOfBand"},
            {"SpecVerifyOutOfBand"},
            id="a band of another phase",
        ),
        pytest.param('[alerting]\nrunbook_url = "http://wiki/r/"\n', {"LogwatchDown"}, set(), id="links"),
    ],
)
def test_rules_follow_the_configuration(tmp_path, text, present, absent):
    """Bands, baseline and links of the configuration decide what is in the rules; promtool takes them all."""
    (tmp_path / "logwatch.toml").write_text(text)
    output = tmp_path / "rules.yml"
    result = CliRunner().invoke(
        command, ["rules", "--config", str(tmp_path / "logwatch.toml"), "--output", str(output)]
    )
    assert result.exit_code == 0, result.output
    rules = rules_of(output.read_text())
    names = {rule["alert"] for rule in rules if "alert" in rule}
    assert present <= names
    assert not absent & names
    if "runbook_url" in text:
        down = next(rule for rule in rules if rule.get("alert") == "LogwatchDown")
        assert down["annotations"]["runbook_url"] == "http://wiki/r/LogwatchDown.md"
    assert promtool("check", "rules", output).returncode == 0


def test_the_mixin_gives_what_is_rendered():
    """Jsonnet builds the same dashboards, rules and alerts, and links the runbooks where it is told to."""
    snippet = f"""
    local mixin = (import '{folder("dashboards")}/mixin.libsonnet') {{ _config+:: {{ runbookURL: 'http://wiki' }} }};
    {{ boards: mixin.grafanaDashboards, rules: mixin.prometheusRules, alerts: mixin.prometheusAlerts }}
    """
    given = json.loads(rjsonnet.evaluate_snippet("mixin", snippet))
    for name, board in given["boards"].items():
        assert board == json.loads((folder("dashboards") / name).read_text())
    rules = [
        rule for part in ("rules", "alerts") for group in given[part]["groups"] for rule in group["rules"]
    ]
    assert [rule["expr"] for rule in rules] == [rule["expr"] for rule in rules_of(RULES.read_text())]
    down = next(rule for rule in rules if rule.get("alert") == "LogwatchDown")
    assert down["annotations"]["runbook_url"] == "http://wiki/LogwatchDown.md"
