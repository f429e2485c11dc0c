"""What the configuration says, as outlets take it."""

import socket

import pytest

from logwatch.config import Config
from logwatch.wiring import links_of

HERE = socket.gethostname()


@pytest.mark.parametrize(
    ("address", "external", "instance", "status"),
    [
        pytest.param("http://127.0.0.1:9877", None, f"{HERE}:9877", "http://127.0.0.1:9877", id="loopback"),
        pytest.param("http://[::1]:9877", None, f"{HERE}:9877", "http://[::1]:9877", id="IPv6 loopback"),
        pytest.param("https://0.0.0.0:9877", None, f"{HERE}:9877", f"https://{HERE}:9877", id="everywhere"),
        pytest.param("http://[::]:9877", None, f"{HERE}:9877", f"http://{HERE}:9877", id="IPv6 everywhere"),
        pytest.param("http://10.0.0.7:9877", None, "10.0.0.7:9877", "http://10.0.0.7:9877", id="one address"),
        pytest.param(
            "http://0.0.0.0:9877", "http://node7:80", "node7:80", "http://node7:80", id="as it is configured"
        ),
    ],
)
def test_alerts_of_a_fleet_are_told_apart(address, external, instance, status):
    """Two hosts never name themselves alike: to Alertmanager their alerts would be one."""
    links = links_of(Config.model_validate({"http": {"external_url": external}}), address)
    assert (links.instance, links.status_url) == (instance, status)
