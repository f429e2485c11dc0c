"""A real Prometheus scrapes `logwatch watch` while a log grows, is rotated, and the daemon is killed."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import bcrypt
import pytest

pytestmark = pytest.mark.needs("prometheus", "promtool", "openssl")

REPORT = """[2026-02-11 09:{minute:02}:{second:02} TP0] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%
  Draft forward:      0.53 ms/cyc  (  2.6%)
  Target verify:     {verify:5.2f} ms/cyc  ( 95.0%)
  Draft extend:       0.48 ms/cyc  (  2.4%)
  Total cycle:       {total:5.2f} ms/cyc
  Accept len:         0.92
"""
WITHIN_S = 30.0


def report(number, verify_ms):
    total = verify_ms + 1.01
    return REPORT.format(minute=number // 60, second=number % 60, verify=verify_ms, total=total)


def until(found, what):
    """What `found` gives as soon as it gives something; it is asked again and again for a while."""
    deadline, pause = time.monotonic() + WITHIN_S, threading.Event()
    while time.monotonic() < deadline:
        if answer := found():
            return answer
        pause.wait(0.05)
    raise AssertionError(f"{what} did not come within {WITHIN_S:.0f} s")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return bound.getsockname()[1]


@pytest.fixture
def running():
    """Starts programs and ends them after the test."""
    with contextlib.ExitStack() as stack:

        def start(*words, **options):
            process = subprocess.Popen(words, **options)

            def end():
                process.kill()
                process.communicate()

            stack.callback(end)
            return process

        yield start


class Scraped:
    """A Prometheus that scrapes one address, and questions to it."""

    def __init__(self, start, folder, target, **job):
        self.port = free_port()
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
            "scrape_configs: "
            + json.dumps([{"job_name": "logwatch", "static_configs": [{"targets": [target]}], **job}])
        )
        start(
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/tsdb",
            f"--web.listen-address=127.0.0.1:{self.port}",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, query):
        """Values of an instant query, by nothing but their order; empty while Prometheus is not there yet."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return [float(each["value"][1]) for each in json.load(answer)["data"]["result"]]
        except OSError:
            return []

    def sees(self, query, expected):
        """Wait until the query gives this one value."""
        until(lambda: self.ask(query) == [pytest.approx(expected)], f"{query} == {expected}")


def watch(start, folder, port, *words):
    """Start the daemon and wait until it is ready."""
    process = start(
        *(sys.executable, "-m", "logwatch", "watch", "--start", "beginning"),
        *("--listen", f"127.0.0.1:{port}", "--state", str(folder / "state"), str(folder / "node7.log")),
        *words,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("LOGWATCH_")},
    )
    until(lambda: re.search("metrics at ", process.stderr.readline()), "the daemon")
    return process


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return answer.read()


def test_prometheus_scrapes_a_growing_log(running, tmp_path):
    """Gauges follow the log, counters count each report once and never fall, whatever befalls log and daemon."""
    log, port = tmp_path / "node7.log", free_port()
    log.write_text("".join(report(n, 19.14) for n in range(5)))
    daemon = watch(running, tmp_path, port)
    prometheus = Scraped(running, tmp_path, f"127.0.0.1:{port}")
    verify = '{phase="target_verify",rank="TP0",stream="node7.log"}'
    prometheus.sees('up{job="logwatch"}', 1)
    prometheus.sees(f"logwatch_phase_in_band{verify}", 1)
    with log.open("a") as grown:
        grown.write("".join(report(n, 28.95) for n in range(5, 10)))
    prometheus.sees(f"logwatch_phase_seconds{verify}", 0.02895)
    prometheus.sees(f"logwatch_phase_in_band{verify}", 0)
    prometheus.sees('max(logwatch_incident_open{kind="out_of_band"})', 1)
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=get(port, "/metrics"), capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")

    daemon.send_signal(signal.SIGKILL)
    daemon.wait()
    log.rename(tmp_path / "node7.log.1")
    log.write_text("".join(report(n, 19.15) for n in range(10, 20)))
    watch(running, tmp_path, port)
    prometheus.sees(f"logwatch_phase_seconds{verify}", 0.01915)
    prometheus.sees('max(logwatch_incident_open{kind="out_of_band"})', 0)
    prometheus.sees(f"logwatch_cycles_total{verify}", 2000)
    mean = f"logwatch_cycle_phase_seconds_total{verify} / logwatch_cycles_total{verify}"
    prometheus.sees(mean, (5 * 0.01914 + 5 * 0.02895 + 10 * 0.01915) / 20)
    prometheus.sees(f"logwatch_phase_duration_seconds_count{verify}", 20)
    half = f"histogram_quantile(0.5, logwatch_phase_duration_seconds_bucket{verify})"
    prometheus.sees(half, 0.019 + 0.0005 * 10 / 15)
    prometheus.sees("sum(resets(logwatch_cycles_total[5m]))", 0)
    prometheus.sees("sum(resets(logwatch_read_bytes_total[5m]))", 0)
    prometheus.sees("sum(logwatch_incidents_total)", 1)


def test_prometheus_scrapes_with_certificate_and_password(running, tmp_path):
    """The web configuration that serves every exporter serves here: HTTPS by our certificate, a user's password."""
    subject = ("-subj", "/CN=node7", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2")
    made = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "web.key")
    subprocess.run(
        ["openssl", "req", "-x509", *made, "-out", "web.pem", *subject],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    hashed = bcrypt.hashpw(b"wonderland", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(
        f"tls_server_config: {{cert_file: web.pem, key_file: web.key}}\nbasic_auth_users: {{alice: {hashed}}}\n"
    )
    (tmp_path / "logwatch.toml").write_text(f'[http]\nweb_config = "{tmp_path}/web.yml"\n')
    (tmp_path / "node7.log").write_text(report(0, 19.14))
    port = free_port()
    watch(running, tmp_path, port, "--config", str(tmp_path / "logwatch.toml"))
    prometheus = Scraped(
        running,
        tmp_path,
        f"127.0.0.1:{port}",
        scheme="https",
        tls_config={"ca_file": f"{tmp_path}/web.pem"},
        basic_auth={"username": "alice", "password": "wonderland"},
    )
    prometheus.sees('up{job="logwatch"}', 1)
    prometheus.sees('logwatch_phase_seconds{phase="target_verify"}', 0.01914)
    with pytest.raises(OSError, match=r"CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"https://127.0.0.1:{port}/metrics", timeout=5)
