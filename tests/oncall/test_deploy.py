"""Recipes and examples for containers and Kubernetes: valid, and without privileges."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from oncall_kit import LINKS, NOW_S, incident

from logwatch.config import load_config
from logwatch.outlets.dashboards import NAMES
from logwatch.outlets.deliver_alerts import Book, enter
from logwatch.outlets.deliver_receivers import ReceiverSettings, receivers

ROOT = Path(__file__).resolve().parents[2]
DEPLOY, DASHBOARDS = ROOT / "deploy", ROOT / "dashboards"
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "sidecar.yml").read_text()))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yml").read_text())
KUBERNETES = ["1.29", "1.31", kubernetes_validate.latest_version()]


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("manifest", MANIFESTS, ids=[manifest["kind"] for manifest in MANIFESTS])
def test_manifests_fit_the_schema(manifest, version):
    """Each manifest is valid by Kubernetes' own schema, unknown fields included, from 1.29 to the newest."""
    kubernetes_validate.validate(manifest, version, strict=True)


def test_the_sidecar_has_no_privileges():
    """No root, nothing to write to but its state, limits, and the server's log read-only."""
    (deployment,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    context = sidecar["securityContext"]
    assert context["runAsNonRoot"]
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert {"memory", "cpu"} <= set(sidecar["resources"]["limits"])
    mounts = {mount["name"]: mount for mount in sidecar["volumeMounts"]}
    assert mounts["logs"]["readOnly"]
    assert {volume["name"] for volume in pod["volumes"]} >= set(mounts)


def test_the_sidecar_never_keeps_the_server_out_of_service():
    """A pod is ready when all its containers are: the sidecar has no say in that, and is called as it is scraped."""
    (deployment,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "Deployment")
    (sidecar,) = deployment["spec"]["template"]["spec"]["initContainers"]
    assert not {"readinessProbe", "startupProbe"} & set(sidecar)
    named = {variable["name"]: variable.get("value") for variable in sidecar["env"]}
    assert named["LOGWATCH_HTTP__EXTERNAL_URL"] == "http://$(POD_IP):9877"


def test_what_the_manifests_configure_is_valid(tmp_path):
    """The configuration in the ConfigMap loads, and follows the file that the server writes."""
    (settings,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "ConfigMap")
    path = tmp_path / "logwatch.toml"
    path.write_text(settings["data"]["logwatch.toml"])
    config = load_config(path, {})
    (deployment,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "Deployment")
    (server,) = deployment["spec"]["template"]["spec"]["containers"]
    assert f">> {config.source[0].path} " in server["args"][0]
    (sidecar,) = deployment["spec"]["template"]["spec"]["initContainers"]
    assert int(config.http.listen.rpartition(":")[2]) == sidecar["ports"][0]["containerPort"]


@pytest.mark.needs("promtool", "amtool")
def test_example_configurations_are_taken_by_their_programs():
    """Prometheus, Alertmanager and logwatch accept what they would be given."""
    config = load_config(DEPLOY / "logwatch.toml", {})
    assert receivers(ReceiverSettings(**alert.model_dump()) for alert in config.alert)
    result = run(shutil.which("promtool"), "check", "config", "--syntax-only", DEPLOY / "prometheus.yml")
    assert result.returncode == 0, result.stderr
    result = run(shutil.which("amtool"), "check-config", DASHBOARDS / "alertmanager.example.yml")
    assert result.returncode == 0, result.stderr


def test_compose_mounts_what_exists():
    """Every file that a service mounts from the repository is there, and everything but state is read-only."""
    assert set(COMPOSE["services"]) == {"logwatch", "prometheus", "alertmanager", "grafana"}
    for service in COMPOSE["services"].values():
        for volume in service["volumes"]:
            source, _, target = volume.replace(
                "${SGLANG_LOGS:-/var/log/sglang}", "/var/log/sglang"
            ).partition(":")
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source
                assert target.endswith(":ro")
            elif not source.startswith("/"):
                assert source in COMPOSE["volumes"]


def test_compose_publishes_on_loopback_only():
    """Nothing listens to the network by default."""
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_grafana_is_provisioned_with_all_dashboards():
    """The provider's folder is where compose mounts each dashboard, and the data source is compose's Prometheus."""
    provider = yaml.safe_load((DASHBOARDS / "provisioning/dashboards/logwatch.yml").read_text())["providers"][
        0
    ]
    mounts = COMPOSE["services"]["grafana"]["volumes"]
    for name in NAMES:
        assert f"../dashboards/{name}.json:{provider['options']['path']}/{name}.json:ro" in mounts
    source = yaml.safe_load((DASHBOARDS / "provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ][0]
    assert source["type"] == "prometheus"
    assert source["url"] == "http://prometheus:9090"


def instructions():
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text())
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_runs_without_root():
    """The last user is neither root nor a name, the entry point is an argument vector, and files it copies exist."""
    lines = instructions()
    assert [value for name, value in lines if name == "USER"] == ["65532:65532"]
    assert ("ENTRYPOINT", '["logwatch"]') in lines
    for name, value in lines:
        if name == "COPY" and not value.startswith("--from") and not value.startswith("dist/"):
            assert (ROOT / value.split()[0]).exists()


def test_the_image_checks_its_health(http_receiver):
    """The health check's command succeeds exactly where the daemon says that it is healthy."""
    (check,) = (value for name, value in instructions() if name == "HEALTHCHECK")
    command = yaml.safe_load(check[check.index("[") :])
    assert command[0] == "python"
    healthy = command[2].replace("http://127.0.0.1:9877", http_receiver.url)
    assert run(sys.executable, "-c", healthy).returncode == 0
    http_receiver.status = 503
    assert run(sys.executable, "-c", healthy).returncode != 0


def test_the_image_ships_a_valid_configuration():
    """What `COPY deploy/logwatch.toml` puts into the image listens on the exposed port."""
    config = load_config(DEPLOY / "logwatch.toml", {})
    assert ("EXPOSE", config.http.listen.rpartition(":")[2]) in instructions()


def blocks(language):
    """Code blocks of the guide in this language."""
    text = (DASHBOARDS / "README.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_guide_shows_the_document_that_is_sent():
    """The example of a webhook's document has exactly the keys that are sent."""
    (example,) = (json.loads(block) for block in blocks("json"))
    sent = enter(Book(), incident(), LINKS, NOW_S + 600, 0.3).body
    assert set(example) == set(sent)
    for part in ("labels", "links", "incident"):
        assert set(example[part]) == set(sent[part])
    assert set(example["annotations"]) <= set(sent["annotations"])


def test_the_guide_shows_receivers_that_are_valid(tmp_path):
    """The example of receivers is a configuration that loads."""
    (tmp_path / "logwatch.toml").write_text(blocks("toml")[0])
    config = load_config(tmp_path / "logwatch.toml", {})
    made = receivers(ReceiverSettings(**alert.model_dump()) for alert in config.alert)
    assert [receiver.name.partition(":")[0] for receiver in made] == [
        "alertmanager",
        "slack",
        "pagerduty",
        "command",
    ]
