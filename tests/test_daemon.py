"""The daemon whole: a log grows, and metrics, page, history and alerts follow; restarts and reloads lose nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import bcrypt
import pytest
from daemon_kit import PATIENCE_S, fetch, metric, opened, running, watch_config

from logwatch.daemon import Daemon
from logwatch.intake import followed, lineage, tail
from logwatch.model import Change, Cycle, Incident

ROOT = Path(__file__).parents[1]


def report(verify_ms: float, rank: str = "TP0") -> str:
    return (
        f"[2026-02-11 08:15:02 {rank}] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n"
        f"  Target verify:     {verify_ms:.2f} ms/cyc  ( 95.0%)\n"
        f"  Total cycle:       {verify_ms / 0.95:.2f} ms/cyc\n"
        "  Accept len:         0.92\n"
    )


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def shows(daemon: Daemon, value: float, name: str, *labels: str) -> None:
    """Wait until the metric has this value: scrapes show what the next commit makes lasting."""
    deadline, pause = time.monotonic() + PATIENCE_S, threading.Event()
    seen = None
    while seen != pytest.approx(value):
        assert time.monotonic() < deadline, f"{name}: {seen}, not {value}"
        with suppress(ValueError):  # the series is not there yet
            seen = metric(daemon, name, *labels)
        pause.wait(0.01)


def test_a_growing_log_becomes_metrics_and_an_incident(tmp_path):
    """Three reports above the band: gauge, counters, incident and the log's own line say the same."""
    log = tmp_path / "server.log"
    log.write_text(report(19.14) * 5)
    with running(watch_config(log), tmp_path / "state") as (daemon, eyes, out):
        eyes.wait(lambda e: len(e.of(Cycle)) == 5)
        shows(daemon, 1, "logwatch_phase_in_band", 'phase="target_verify"')
        append(log, report(28.95) * 3)
        eyes.wait(opened)
        shows(daemon, 0.02895, "logwatch_phase_seconds", 'phase="target_verify"')
        shows(daemon, 1, "logwatch_incident_open", 'kind="out_of_band"', 'phase="target_verify"')
        shows(daemon, 800, "logwatch_cycles_total", 'phase="target_verify"')
        (incident,) = json.loads(fetch(daemon, "/api/v1/incidents"))["incidents"]
        assert incident["onset"]["line"] == 21
    assert "SpecVerifyOutOfBand opened" in out.getvalue()


def test_a_restart_goes_on_where_it_was(tmp_path):
    """Counters go on, the open incident stays open and resolves, and no report counts twice."""
    log, state = tmp_path / "server.log", tmp_path / "state"
    log.write_text(report(19.14) * 5 + report(28.95) * 4)
    with running(watch_config(log), state) as (_, eyes, _out):
        eyes.wait(opened)
    append(log, report(28.95) + report(19.14) * 5)
    with running(watch_config(log), state) as (daemon, eyes, _out):
        eyes.wait(lambda e: [i for i in e.of(Incident) if i.change is Change.RESOLVED])
        assert len(eyes.of(Cycle)) == 6
        assert opened(eyes) == []
        shows(daemon, 1500, "logwatch_cycles_total", 'phase="target_verify"')
        shows(daemon, 1, "logwatch_incidents_total", 'kind="out_of_band"', 'phase="target_verify"')


@pytest.mark.parametrize("restarted", [False, True], ids=["in one life", "gone while the daemon was down"])
def test_incidents_of_a_log_that_is_gone_end(tmp_path, monkeypatch, restarted):
    """Nobody will ever say that they are over: no alert of a server that was taken away fires for ever."""
    for module, name in ((followed, "RETIRE_S"), (lineage, "LATE_S"), (tail, "FULL_SCAN_S")):
        monkeypatch.setattr(module, name, 0.1)
    log, state = tmp_path / "server.log", tmp_path / "state"
    other = tmp_path / "other.log"
    other.write_text(report(19.14))
    log.write_text(report(19.14) * 5 + report(28.95) * 3)
    config = watch_config(tmp_path / "*.log")
    with running(config, state) as (daemon, eyes, out):
        eyes.wait(opened)
        if not restarted:
            log.unlink()
            eyes.wait(lambda e: e.of(Incident)[-1].change is Change.RESOLVED)
            shows(daemon, 0, "logwatch_incident_open", 'kind="out_of_band"', 'stream="server.log"')
    if restarted:
        log.unlink()
        with running(config, state) as (daemon, eyes, out):
            eyes.wait(lambda e: e.of(Incident))
            shows(daemon, 0, "logwatch_incident_open", 'kind="out_of_band"', 'stream="server.log"')
    (ended,) = [line for line in out.getvalue().splitlines() if "SpecVerifyOutOfBand resolved" in line]
    assert "(server.log): Its log is gone, its end was not seen. Target verify was at 28.95 ms" in ended


def test_a_report_cut_by_a_restart_is_one_report(tmp_path):
    """Half a report, half a line even, then a restart: one sample."""
    log, state, text = tmp_path / "server.log", tmp_path / "state", report(19.14)
    log.write_text(report(19.14) * 2 + text[: text.index("ms/cyc") + 3])
    with running(watch_config(log), state) as (_, eyes, _out):
        eyes.wait(lambda e: len(e.of(Cycle)) == 2)
    append(log, text[text.index("ms/cyc") + 3 :])
    with running(watch_config(log), state) as (_, eyes, _out):
        eyes.wait(lambda e: e.of(Cycle))
        (cycle,) = eyes.of(Cycle)
        assert cycle.phases_s["target_verify"] == pytest.approx(0.01914)
        assert "total_cycle" in cycle.phases_s


def test_a_reload_judges_by_the_new_bands(tmp_path):
    """What was in band is out of the new one, from the next report on; counters go on."""
    log = tmp_path / "server.log"
    log.write_text(report(19.14) * 3)
    tight = watch_config(log, band=[{"phase": "target_verify", "low": "10ms", "high": "12ms"}])
    asked = threading.Event()

    def load():
        asked.set()
        return tight

    with running(watch_config(log), tmp_path / "state", load) as (daemon, eyes, _out):
        eyes.wait(lambda e: len(e.of(Cycle)) == 3)
        daemon.reload()
        assert asked.wait(PATIENCE_S)  # what is read from now on is judged by the new bands
        append(log, report(19.14) * 3)
        eyes.wait(opened)
        shows(daemon, 0.012, "logwatch_band_high_seconds", 'phase="target_verify"')
        shows(daemon, 600, "logwatch_cycles_total", 'phase="target_verify"')


def test_a_broken_configuration_is_refused_whole(tmp_path):
    """The old one stays in force, and the metric and the log say so."""
    log, broken = tmp_path / "server.log", tmp_path / "broken.toml"
    log.write_text(report(19.14))
    broken.write_text("[http]\nlisen = 1\n")

    def load():
        from logwatch.config import load_config

        return load_config(broken, {})

    with running(
        watch_config(log, http={"listen": "127.0.0.1:0", "enable_reload": True}), tmp_path / "state", load
    ) as (daemon, eyes, out):
        request = urllib.request.Request(daemon.address + "/-/reload", method="POST")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=PATIENCE_S)
        assert "did you mean `listen`" in caught.value.read().decode()
        caught.value.close()
        shows(daemon, 0, "logwatch_config_last_reload_successful")
        append(log, report(28.95) * 3)
        eyes.wait(opened)
    assert "the old configuration is kept" in out.getvalue()


@contextmanager
def process(*arguments: str | Path, cwd: Path):
    """A `logwatch watch` of its own; its first lines are read until it is ready."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LOGWATCH_")}
    done = subprocess.Popen(
        [sys.executable, "-m", "logwatch", "watch", *arguments],
        cwd=cwd,
        env=environment | {"STATE_DIRECTORY": str(cwd / "state")},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield done
    finally:
        done.kill()
        done.wait()
        done.stderr.close()


def free_address() -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def status_of(url: str, method: str = "GET") -> int:
    """Of the answer; 0 where nobody listens."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=PATIENCE_S) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


def until(wanted: Callable[[], bool]) -> None:
    deadline, pause = time.monotonic() + PATIENCE_S, threading.Event()
    while not wanted():
        assert time.monotonic() < deadline
        pause.wait(0.01)


HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()


def test_a_reload_changes_all_of_the_http_side(tmp_path):
    """Another address, reloading allowed, runbooks elsewhere, users asked for: each from the reload on."""
    log, web, given = tmp_path / "server.log", tmp_path / "web.yml", {}
    log.write_text(report(28.95) * 5)
    web.write_text(f"basic_auth_users: {{me: {HASH}}}\n")

    def with_http(**http):
        runbooks = {"runbook_url": "https://runbooks.example/logwatch"}
        return watch_config(log, http=http, alerting=runbooks)

    with running(watch_config(log), tmp_path / "state", lambda: given["config"]) as (daemon, eyes, out):
        eyes.wait(opened)
        before, there = daemon.address, free_address()
        assert status_of(f"{before}/-/reload", "POST") == 403
        given["config"] = with_http(listen=there, enable_reload=True)
        daemon.reload()
        until(lambda: daemon.address == f"http://{there}")
        until(lambda: f"loaded again; metrics at http://{there}/metrics from now on" in out.getvalue())
        assert "https://runbooks.example/logwatch/" in fetch(daemon, "/")
        until(lambda: status_of(f"{before}/-/healthy") == 0)
        # This one is answered by a server that is on its way out.
        given["config"] = with_http(listen=there, enable_reload=True, web_config=str(web))
        assert status_of(f"http://{there}/-/reload", "POST") == 200
        until(lambda: status_of(f"http://{there}/metrics") == 401)
    assert status_of(f"http://{there}/-/healthy") == 0


@pytest.mark.parametrize("why", ["taken", "no such host", "web configuration"])
def test_an_http_side_that_cannot_be_had_is_refused_with_all_else(tmp_path, why):
    """The reload is refused whole, what was there goes on serving, and the log says why."""
    log = tmp_path / "server.log"
    log.write_text(report(19.14))
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        wrong, said = {
            "taken": (
                {"listen": f"127.0.0.1:{other.getsockname()[1]}"},
                "cannot listen there: address already in use",
            ),
            "no such host": ({"listen": "203.0.113.1:1"}, "cannot listen there"),
            "web configuration": (
                {"listen": free_address(), "web_config": str(tmp_path / "none.yml")},
                "cannot be read",
            ),
        }[why]
        tight = [{"phase": "target_verify", "low": "10ms", "high": "12ms"}]
        config = watch_config(log, http=wrong, band=tight)
        with running(watch_config(log), tmp_path / "state", lambda: config) as (daemon, eyes, out):
            before = daemon.address
            daemon.reload()
            shows(daemon, 0, "logwatch_config_last_reload_successful")
            assert daemon.address == before
            assert said in out.getvalue()
            append(log, report(19.14) * 3)
            eyes.wait(lambda e: len(e.of(Cycle)) == 4)
            assert opened(eyes) == []
            if why == "web configuration":
                assert status_of(f"http://{wrong['listen']}/") == 0


def test_what_only_a_restart_changes_is_named(tmp_path):
    """Everything else of the new configuration is in force."""
    log = tmp_path / "server.log"
    log.write_text(report(19.14))
    changed = watch_config(log, follow={"mode": "poll"})
    with running(watch_config(log), tmp_path / "state", lambda: changed) as (daemon, _eyes, out):
        daemon.reload()
        until(lambda: "`follow.mode` stays 'events' until a restart" in out.getvalue())


def line_with(stream, text: str) -> str:
    for line in stream:
        if text in line:
            return line
    raise AssertionError(f"{text!r} was not said")


def test_signals(tmp_path):
    """SIGHUP loads the configuration again, SIGTERM ends with 0."""
    log, settings = tmp_path / "server.log", tmp_path / "logwatch.toml"
    log.write_text(report(19.14))
    settings.write_text(f'[[source]]\npath = "{log}"\nstart = "beginning"\n[http]\nlisten = "127.0.0.1:0"\n')
    with process(cwd=tmp_path) as daemon:
        line_with(daemon.stderr, "metrics at http://127.0.0.1:")
        daemon.send_signal(signal.SIGHUP)
        line_with(daemon.stderr, "configuration loaded again")
        settings.write_text("[[source]]\n")
        daemon.send_signal(signal.SIGHUP)
        line_with(daemon.stderr, "the old configuration is kept")
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(PATIENCE_S) == 0


def test_a_port_in_use_is_one_clear_line(tmp_path):
    """Nothing is begun, and status 2 comes at once."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with process("--listen", address, "a.log", cwd=tmp_path) as daemon:
            assert daemon.wait(PATIENCE_S) == 2
            (said,) = daemon.stderr.read().splitlines()
    assert said.startswith(f"logwatch: http.listen {address}: cannot listen there")


def test_nothing_to_follow_is_one_clear_line(tmp_path):
    """What to name, and where."""
    with process(cwd=tmp_path) as daemon:
        assert daemon.wait(PATIENCE_S) == 2
        assert "nothing to follow; name a file" in daemon.stderr.read()
