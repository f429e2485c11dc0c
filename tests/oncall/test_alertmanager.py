"""Alerts through a real Alertmanager, which is killed and started again."""

import json
import shutil
import subprocess
import threading
import time
import urllib.request

import pytest
from oncall_kit import LINKS, ListOutbox, await_line, free_port, incident

from logwatch.model import Moment
from logwatch.outlets import deliver_courier
from logwatch.outlets.deliver import Book, Deliver
from logwatch.outlets.deliver_alerts import enter
from logwatch.outlets.deliver_receivers import Alertmanager
from logwatch.resources import folder

pytestmark = pytest.mark.needs("prometheus-alertmanager")


class Alertmanagers:
    """An Alertmanager process that can be killed and started again on the same port."""

    def __init__(self, path, webhook):
        self.port, self.folder, self.process = free_port(), path, None
        self.url = f"http://127.0.0.1:{self.port}"
        (path / "alertmanager.yml").write_text(
            json.dumps(
                {
                    "route": {
                        "receiver": "test",
                        "group_by": ["..."],
                        "group_wait": "0s",
                        "group_interval": "1s",
                    },
                    "receivers": [
                        {"name": "test", "webhook_configs": [{"url": webhook, "send_resolved": True}]}
                    ],
                }
            )
        )

    def start(self):
        self.process = subprocess.Popen(
            [
                shutil.which("prometheus-alertmanager"),
                f"--config.file={self.folder}/alertmanager.yml",
                f"--storage.path={self.folder}/data",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--cluster.listen-address=",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        await_line(self.process.stderr, "Listening on")
        # It blocks when nobody reads what it says.
        self.reader = threading.Thread(target=self.process.stderr.read)
        self.reader.start()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stderr.close()

    def alerts(self):
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts") as answer:
            return json.load(answer)


@pytest.fixture
def alertmanager(tmp_path, http_receiver):
    manager = Alertmanagers(tmp_path, http_receiver.url)
    yield manager
    if manager.process is not None:
        manager.kill()


def fresh(change="opened", **changes):
    """An incident of just now: Alertmanager lives in the present."""
    at = time.strftime("%Y-%m-%dT%H:%M:%S")
    resolved = Moment(90, at) if change == "resolved" else None
    return incident(change, onset=Moment(41, "2026-02-11T08:15:02"), resolved=resolved, **changes)


@pytest.fixture
def quick(monkeypatch):
    """Repetitions and backoff in tenths of a second."""
    monkeypatch.setattr(deliver_courier, "RESEND_S", 0.2)
    monkeypatch.setattr(deliver_courier, "SETTLE_S", 2.0)
    monkeypatch.setattr(deliver_courier, "FIRST_BACKOFF_S", 0.1)
    monkeypatch.setattr(deliver_courier, "LONGEST_BACKOFF_S", 0.3)


@pytest.fixture
def notices():
    return []


@pytest.fixture
def deliver(alertmanager, quick, notices):
    receiver = Alertmanager("am", alertmanager.url, 5.0)
    made = Deliver([receiver], ListOutbox(), LINKS, lambda *_: None, notices.append)
    made.start()
    yield made
    made.close()


def test_alert_survives_the_death_of_alertmanager(alertmanager, deliver, http_receiver):
    """Firing arrives; Alertmanager is killed and forgets it; started again it is told again; resolution arrives."""
    alertmanager.start()
    deliver.take(fresh())
    deliver.take(fresh(rank="TP1"))
    deliver.wake()
    _, _, first = http_receiver.next()
    assert first["status"] == "firing"
    assert len(first["alerts"]) == 1
    assert first["alerts"][0]["labels"]["alertname"] == "SpecVerifyOutOfBand"
    assert first["alerts"][0]["annotations"]["ranks"] == "TP0, TP1"
    alertmanager.kill()
    alertmanager.start()
    assert http_receiver.next()[2]["status"] == "firing"
    deliver.take(fresh("resolved"))
    deliver.take(fresh("resolved", rank="TP1"))
    deliver.wake()
    assert http_receiver.next()[2]["status"] == "resolved"


def test_alert_that_came_and_went_while_alertmanager_was_dead(alertmanager, deliver, http_receiver, notices):
    """Nothing is lost: when Alertmanager comes up it notifies of the alert, and then of its end."""
    deliver.take(fresh())
    deliver.take(fresh("resolved"))
    deliver.wake()
    alertmanager.start()
    assert http_receiver.next()[2]["status"] == "firing"
    assert http_receiver.next()[2]["status"] == "resolved"
    assert [notice.kind for notice in notices] == ["sink_failed", "receiver_back"]


def test_an_alert_has_its_onset_in_alertmanager(alertmanager, deliver, http_receiver):
    """What Alertmanager lists starts at the onset, long before it was sent."""
    alertmanager.start()
    deliver.take(fresh())
    deliver.wake()
    http_receiver.next()
    (alert,) = alertmanager.alerts()
    onset = time.mktime(time.strptime("2026-02-11 08:15:02", "%Y-%m-%d %H:%M:%S"))
    assert alert["startsAt"] == time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(onset))
    assert alert["status"]["state"] == "active"


def test_example_configuration_silences_the_double(alertmanager):
    """With the shipped example, what Prometheus finds too is inhibited while logwatch's own alert fires."""
    example = folder("dashboards") / "alertmanager.example.yml"
    (alertmanager.folder / "alertmanager.yml").write_text(example.read_text())
    alertmanager.start()
    receiver = Alertmanager("am", alertmanager.url)
    body = enter(Book(), fresh(), LINKS, time.time(), 0.3).body
    receiver.send(body, time.time())
    slower = body["labels"] | {"alertname": "SpecSlowerThanBaseline", "via": "prometheus"}
    of_another = {
        "instance": "b",
        "severity": "warning",
    }  # there verify is below its band: that explains nothing
    for labels in (
        body["labels"] | {"via": "prometheus"},
        slower,
        body["labels"] | of_another,
        slower | {"instance": "b"},
    ):
        receiver.send(body | {"labels": labels}, time.time())
    quiet = {
        (alert["labels"]["alertname"], alert["labels"]["via"]): bool(alert["status"]["inhibitedBy"])
        for alert in alertmanager.alerts()
        if alert["labels"]["instance"] != "b"
    }
    assert not any(
        alert["status"]["inhibitedBy"]
        for alert in alertmanager.alerts()
        if alert["labels"]["instance"] == "b"
    )
    assert quiet == {
        ("SpecVerifyOutOfBand", "logwatch"): False,
        ("SpecVerifyOutOfBand", "prometheus"): True,
        ("SpecSlowerThanBaseline", "prometheus"): True,
    }


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        pytest.param(["alertname=SpecVerifyOutOfBand", "severity=critical"], "on-call", id="a page"),
        pytest.param(["alertname=SpecOneRankSlow", "severity=warning"], "team", id="a warning"),
        pytest.param(["alertname=SpecVerifyOutOfBand", "severity=info"], "team", id="explained by load"),
        pytest.param(
            ["alertname=LogwatchWatchdog", "severity=none"], "dead-mans-switch", id="dead man's switch"
        ),
    ],
)
def test_example_configuration_wakes_nobody_for_a_warning(labels, receiver):
    """Only what is critical goes to who is on call."""
    example = folder("dashboards") / "alertmanager.example.yml"
    command = [shutil.which("amtool"), "config", "routes", "test", f"--config.file={example}", *labels]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == [receiver]
