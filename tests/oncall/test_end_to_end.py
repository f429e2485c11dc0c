"""The whole way, in a real systemd with real Prometheus and Alertmanager: log line to pager, through a kill."""

import json
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import datetime
from pathlib import Path

import pytest
from dashboard_kit import Prometheus, start_prometheus
from machine_kit import Machine
from oncall_kit import free_port
from test_alertmanager import Alertmanagers

from logwatch.outlets.prometheus_rules import RuleSettings, rule_file
from logwatch.outlets.unit import UnitSettings, unit

VERIFY = "SpecVerifyOutOfBand"

pytestmark = pytest.mark.needs(
    "root", "debootstrap", "systemd-nspawn", "nsenter", "prometheus", "prometheus-alertmanager"
)


class Writer:
    """The server: another process, which writes what it is told and says when."""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).parent / "log_writer.py", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def write(self, command):
        """Have it written; the time of the last byte, and the number of reports so far."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        at_s, reports = self.process.stdout.readline().split()
        return float(at_s), int(reports)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def alertmanager(tmp_path, http_receiver):
    folder = tmp_path / "alertmanager"
    folder.mkdir()
    manager = Alertmanagers(folder, http_receiver.url)
    text = json.loads((folder / "alertmanager.yml").read_text())
    text["inhibit_rules"] = [
        {
            "source_matchers": ['via="logwatch"'],
            "target_matchers": ['via="prometheus"'],
            "equal": ["alertname", "instance", "stream"],
        }
    ]
    (folder / "alertmanager.yml").write_text(json.dumps(text))
    manager.start()
    yield manager
    manager.kill()


@pytest.fixture
def writer(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    writer = Writer(shared / "server.log")
    yield writer
    writer.close()


@pytest.fixture
def listen():
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def black_hole():
    """A receiver that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def machine(tmp_path, writer, alertmanager, listen, black_hole):
    configuration = f"""
[[source]]
path = "/shared/server.log"
name = "node7"
start = "beginning"
[http]
listen = "{listen}"
external_url = "http://{listen}"
[speculation]
baseline_tokens_per_second = 82.2
[[alert]]
webhook = "{black_hole}"
name = "black hole"
[[alert]]
alertmanager = "{alertmanager.url}"
"""
    machine = Machine(
        "logwatch-end-to-end",
        {
            "/etc/systemd/system/logwatch.service": unit(UnitSettings()),
            "/etc/logwatch/logwatch.toml": configuration,
        },
        tmp_path / "shared",
    )
    machine.await_boot()
    yield machine
    machine.close()


@pytest.fixture
def scraper(tmp_path, alertmanager, listen):
    folder = tmp_path / "scraper"
    folder.mkdir()
    rules = rule_file(RuleSettings()).replace('for: "1m"', 'for: "1s"')
    (folder / "rules.yml").write_text(rules)
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [f"{folder}/rules.yml"],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager.port}"]}]}]
        },
        "scrape_configs": [{"job_name": "logwatch", "static_configs": [{"targets": [listen]}]}],
    }
    process, url = start_prometheus(folder, json.dumps(configuration))
    reader = threading.Thread(target=process.stderr.read)
    reader.start()
    yield Prometheus(url, time.time(), time.time())
    process.terminate()
    process.wait()
    reader.join()
    process.stderr.close()


def metric(listen, name, **labels):
    """Sum of a metric's series with these labels, as the daemon exposes it."""
    with urllib.request.urlopen(f"http://{listen}/metrics") as answer:
        text = answer.read().decode()
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    lines = (line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} ")))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(part in line for part in wanted))


def await_that(condition, limit_s=60):
    """Wait until it holds; other machines' clocks are not ours to move."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it does not come true")


def next_alert(http_receiver, status):
    """The alert in the next notification of the verify alert."""
    while True:
        _, _, body = http_receiver.next()
        for alert in body["alerts"]:
            if alert["labels"]["alertname"] == VERIFY and alert["labels"]["via"] == "logwatch":
                assert alert["status"] == status
                return alert


def test_end_to_end(machine, writer, alertmanager, scraper, http_receiver, listen, tmp_path):
    """Verify jumps to 28.95 ms: the page comes, with onset and cause, and resolves on recovery.

    The daemon is killed in between, and nothing is lost or doubled. Prometheus finds the same, and Alertmanager
    silences the double. Another receiver that never answers holds up nothing of this.
    """
    writer.write("start")
    writer.write("good 20")
    machine.run("systemctl", "start", "logwatch")
    await_that(lambda: metric(listen, "logwatch_cycles_total", phase="target_verify") == 20 * 2 * 100)

    writer.write("start eager")
    onset_s, _ = writer.write("bad 2")
    writer.write("bad 1")
    alert = next_alert(http_receiver, "firing")
    begun_s = datetime.fromisoformat(alert["startsAt"]).timestamp()
    assert onset_s - 2 <= begun_s <= onset_s
    assert "cuda graph off" in alert["annotations"]["cause"]
    assert alert["annotations"]["ranks"] == "TP0, TP1"
    assert "82.2" in alert["annotations"]["description"]

    writer.write("bad 3")
    first_life = machine.run("systemctl", "show", "-P", "MainPID", "logwatch").stdout
    machine.run("systemctl", "kill", "--signal=KILL", "logwatch")
    _, reports = writer.write("bad 4")
    await_that(
        lambda: (
            machine.run("systemctl", "show", "-P", "MainPID", "logwatch").stdout not in {first_life, "0\n"}
        )
    )
    machine.run("systemctl", "start", "logwatch")
    await_that(lambda: metric(listen, "logwatch_cycles_total", phase="target_verify") == reports * 100)
    assert metric(listen, "logwatch_incident_open", kind="out_of_band", phase="target_verify") == 2

    await_that(lambda: scraper.instant(f'ALERTS{{alertname="{VERIFY}", alertstate="firing"}}', time.time()))
    await_that(
        lambda: any(
            found["labels"].get("via") == "prometheus" and found["status"]["inhibitedBy"]
            for found in alertmanager.alerts()
            if found["labels"]["alertname"] == VERIFY
        )
    )

    writer.write("start")
    _, reports = writer.write("good 5")
    alert = next_alert(http_receiver, "resolved")
    assert datetime.fromisoformat(alert["startsAt"]).timestamp() == begun_s

    await_that(lambda: metric(listen, "logwatch_cycles_total", phase="target_verify") == reports * 100)
    assert metric(listen, "logwatch_incidents_total", kind="out_of_band", phase="target_verify") == 2
    assert metric(listen, "logwatch_incident_open", kind="out_of_band") == 0
    assert metric(listen, "logwatch_alerts_total", receiver="black hole", outcome="delivered") == 0
    assert metric(listen, "logwatch_alerts_pending") > 0
    lines = (tmp_path / "shared" / "server.log").read_text().count("\n")
    assert metric(listen, "logwatch_lines_total") == lines
    machine.run("systemctl", "stop", "logwatch")
    state = machine.root / "var/lib/private/logwatch/state.sqlite"
    with sqlite3.connect(state) as history:
        (samples,) = history.execute("SELECT count(*) FROM samples WHERE phase = 'target_verify'").fetchone()
    history.close()
    assert samples == reports
    others = []
    while not http_receiver.got.empty():
        others += http_receiver.got.get()[2]["alerts"]
    assert [
        a for a in others if a["labels"]["alertname"] == VERIFY and a["labels"]["via"] == "logwatch"
    ] == []
