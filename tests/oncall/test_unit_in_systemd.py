"""The unit in a real systemd: start, readiness, reload, watchdog, restart without loss, sandbox, journal."""

import json
import socket
import time
import urllib.request

import pytest
from machine_kit import Machine
from oncall_kit import free_port

from logwatch.outlets.unit import UnitSettings, unit
from logwatch.resources import folder

pytestmark = pytest.mark.needs("root", "debootstrap", "systemd-nspawn", "nsenter")

REPORT = (
    "[2026-02-11 08:15:02 TP0] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n"
    "  Target verify:     {ms:.2f} ms/cyc  ( 95.0%)\n"
    "  Total cycle:       {total:.2f} ms/cyc\n"
)


class Service:
    """logwatch.service in the machine."""

    def __init__(self, machine, shared):
        self.machine, self.log = machine, shared / "server.log"
        self.listen = f"127.0.0.1:{free_port()}"

    def configure(self, more="", listen=None):
        listen = listen or self.listen
        text = (
            f'[[source]]\npath = "/shared/*.log"\nstart = "beginning"\n[http]\nlisten = "{listen}"\n{more}\n'
        )
        (self.machine.root / "etc/logwatch").mkdir(parents=True, exist_ok=True)
        # In place, as an editor would not: the machine's side of an overlay sees it at once.
        self.machine.run("sh", "-c", f"cat > /etc/logwatch/logwatch.toml <<'EOF'\n{text}EOF")

    def control(self, *arguments, check=True):
        return self.machine.run("systemctl", *arguments, check=check)

    def show(self, name):
        return self.control("show", "-P", name, "logwatch").stdout.strip()

    def write(self, count, ms=19.15):
        with self.log.open("a") as log:
            for _ in range(count):
                log.write(REPORT.format(ms=ms, total=ms + 1))

    def metric(self, name, label=""):
        with urllib.request.urlopen(f"http://{self.listen}/metrics?name[]={name}") as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name) and label in line)

    def await_cycles(self, count):
        self.until(lambda: self.metric("logwatch_cycles_total", 'phase="target_verify"') == count)

    def until(self, condition, limit_s=30):
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            try:
                if condition():
                    return
            except OSError:
                pass  # it is being restarted
            time.sleep(0.02)
        raise AssertionError(
            self.machine.run("journalctl", "-u", "logwatch", "-n", "40", "--no-pager").stdout
        )

    def journal(self):
        lines = self.machine.run("journalctl", "-u", "logwatch", "-o", "json", "--no-pager").stdout
        return [json.loads(line) for line in lines.splitlines()]


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    shared = tmp_path_factory.mktemp("machine") / "shared"
    shared.mkdir()
    files = {"/etc/systemd/system/logwatch.service": unit(UnitSettings())}
    machine = Machine("logwatch-unit", files, shared)
    machine.shared = shared
    machine.await_boot()
    yield machine
    machine.close()


@pytest.fixture
def service(machine):
    """The service with an empty log, no state, and not yet started."""
    machine.run(
        "sh",
        "-c",
        "rm -rf /var/lib/private/logwatch /shared/*; rm -rf /run/systemd/system/logwatch.service.d",
    )
    machine.run("sh", "-c", "journalctl --rotate && journalctl --vacuum-time=1us")
    machine.run("systemctl", "daemon-reload")
    service = Service(machine, machine.shared)
    service.configure()
    yield service
    service.control("stop", "logwatch")
    service.control("reset-failed", check=False)


def test_start_means_ready(service):
    """When `systemctl start` returns, the status page answers, and the daemon is neither root nor anybody else."""
    service.write(3)
    service.control("start", "logwatch")
    assert service.show("ActiveState") == "active"
    with urllib.request.urlopen(f"http://{service.listen}/-/ready") as answer:
        assert answer.status == 200
    pid = service.show("MainPID")
    uid = service.machine.run("stat", "-c", "%u", f"/proc/{pid}").stdout.strip()
    assert 61184 <= int(uid) <= 65519
    service.await_cycles(300)
    service.until(lambda: "Target verify" in service.show("StatusText"))
    assert service.metric("process_resident_memory_bytes") > 1e6


def test_a_start_waits_for_no_log(service):
    """A directory that does not exist yet is said in the journal; the daemon starts, and reads it once it is there."""
    service.configure('[[source]]\npath = "/shared/later/server.log"\nname = "later"\nstart = "beginning"')
    service.control("start", "logwatch")
    assert service.show("ActiveState") == "active"
    assert any("/shared/later does not exist yet" in entry["MESSAGE"] for entry in service.journal())
    (service.log.parent / "later").mkdir()
    (service.log.parent / "later" / "server.log").write_text(REPORT.format(ms=19.15, total=20.15) * 3)
    service.await_cycles(300)


def test_a_reload_is_awaited(service):
    """`systemctl reload` returns when the new configuration is in force; a broken one is refused whole."""
    service.control("start", "logwatch")
    service.configure('[[band]]\nphase = "target_verify"\nlow = "28ms"\nhigh = "30ms"')
    service.control("reload", "logwatch")
    with urllib.request.urlopen(
        f"http://{service.listen}/metrics?name[]=logwatch_band_low_seconds"
    ) as answer:
        assert " 0.028" in answer.read().decode()
    service.configure("[[band]]\nphase = 7")
    service.control("reload", "logwatch")
    assert service.show("ActiveState") == "active"
    assert service.metric("logwatch_config_last_reload_successful") == 0
    (refused,) = (entry for entry in service.journal() if "reload refused" in entry["MESSAGE"])
    assert refused["PRIORITY"] == "3"


def test_a_hang_ends_in_a_restart(service):
    """A daemon that stands still is killed by the watchdog and started anew."""
    drop_ins = "/run/systemd/system/logwatch.service.d"
    drop_in = "[Service]\nWatchdogSec=5s\nRestartSec=100ms\n"
    service.machine.run("sh", "-c", f"mkdir -p {drop_ins} && printf '{drop_in}' > {drop_ins}/test.conf")
    service.control("daemon-reload")
    service.control("start", "logwatch")
    pid = service.show("MainPID")
    service.control("kill", "--kill-whom=main", "--signal=STOP", "logwatch")
    service.until(lambda: service.show("NRestarts") != "0" and service.show("ActiveState") == "active")
    assert service.show("MainPID") != pid
    assert any("Watchdog timeout" in entry["MESSAGE"] for entry in service.journal())


def test_health_is_not_mistaken_for_a_hang(service):
    """An idle daemon with a short watchdog lives on."""
    drop_ins = "/run/systemd/system/logwatch.service.d"
    service.machine.run(
        "sh", "-c", f"mkdir -p {drop_ins} && printf '[Service]\nWatchdogSec=2s\n' > {drop_ins}/test.conf"
    )
    service.control("daemon-reload")
    service.control("start", "logwatch")
    pid = service.show("MainPID")
    signs = [service.show("WatchdogTimestampMonotonic")]
    while len(signs) < 5:
        service.until(lambda: service.show("WatchdogTimestampMonotonic") != signs[-1])
        signs.append(service.show("WatchdogTimestampMonotonic"))
    assert service.show("MainPID") == pid
    assert service.show("NRestarts") == "0"


def test_a_restart_loses_and_doubles_nothing(service):
    """Killed, stopped and started while the server writes: every report counts once."""
    service.control("start", "logwatch")
    written = 0
    for way in (("kill", "--signal=KILL", "logwatch"), ("restart", "logwatch"), ("stop", "logwatch")):
        service.write(7)
        service.control(*way)
        service.write(5)
        written += 12
        service.control("start", "logwatch")
        service.await_cycles(written * 100)


def test_a_log_deleted_during_a_restart_is_read_to_its_end(service):
    """The open log is held by systemd: what was written before its end, while logwatch was dead, still counts."""
    service.write(4)
    service.control("start", "logwatch")
    service.await_cycles(400)
    service.until(lambda: int(service.show("NFileDescriptorStore")) == 1)
    service.control("kill", "--signal=KILL", "logwatch")
    service.write(3)
    service.log.unlink()
    service.write(2)
    service.control("start", "logwatch")
    service.await_cycles(900)


def test_a_socket_of_systemd_refuses_no_scrape(service):
    """With the socket unit of the documentation, scrapes during a restart wait for the daemon and are answered."""
    text = (folder("dashboards") / "README.md").read_text().partition("```ini\n")[2].partition("```")[0]
    assert "127.0.0.1:9877" in text
    text = text.replace("127.0.0.1:9877", service.listen)
    service.configure(listen="127.0.0.1:1")
    service.machine.run("sh", "-c", f"cat > /run/systemd/system/logwatch.socket <<'EOF'\n{text}EOF")
    service.control("daemon-reload")
    try:
        service.write(3)
        service.control("start", "logwatch.socket", "logwatch")
        service.await_cycles(300)
        pid, answered = service.show("MainPID"), 0
        service.control("restart", "--no-block", "logwatch")
        while service.show("MainPID") in {pid, "0"} or answered < 20:
            assert service.metric("logwatch_cycles_total", 'phase="target_verify"') == 300
            answered += 1
    finally:
        service.control("stop", "logwatch.socket", "logwatch")
        service.machine.run("rm", "/run/systemd/system/logwatch.socket")
        service.control("daemon-reload")


def test_a_stop_is_quick_and_clean(service):
    """SIGTERM: committed and gone within seconds, with status 0."""
    service.write(5)
    service.control("start", "logwatch")
    begun = time.monotonic()
    service.control("stop", "logwatch")
    assert time.monotonic() - begun < 10
    assert service.show("Result") == "success"
    assert service.show("ExecMainStatus") == "0"


def test_a_receiver_that_hangs_does_not_hold_up_the_stop(service):
    """SIGTERM while an alert is stuck in a receiver: gone in time, and the alert still waits in the next life."""
    with socket.create_server(("127.0.0.1", 0)) as black_hole:
        service.configure(f'[[alert]]\nwebhook = "http://127.0.0.1:{black_hole.getsockname()[1]}"')
        service.control("start", "logwatch")
        service.write(5)
        service.write(3, ms=28.95)
        service.until(lambda: service.metric("logwatch_alerts_pending") == 1)
        begun = time.monotonic()
        service.control("stop", "logwatch")
        assert time.monotonic() - begun < 15
        assert service.show("Result") == "success"
        service.control("start", "logwatch")
        service.until(lambda: service.metric("logwatch_alerts_pending") == 1)


def test_the_journal_has_priorities(service):
    """An alert is an error in the journal, routine is information; `journalctl -p err` shows what matters."""
    service.control("start", "logwatch")
    service.write(5)
    service.await_cycles(500)
    service.write(3, ms=28.95)
    service.until(lambda: any("SpecVerifyOutOfBand opened" in e["MESSAGE"] for e in service.journal()))
    (alert,) = (e for e in service.journal() if "SpecVerifyOutOfBand opened" in e["MESSAGE"])
    assert alert["PRIORITY"] == "3"
    service.write(5)
    service.until(lambda: any("SpecVerifyOutOfBand resolved" in e["MESSAGE"] for e in service.journal()))
    (over,) = (e for e in service.journal() if "SpecVerifyOutOfBand resolved" in e["MESSAGE"])
    assert over["PRIORITY"] == "6"


def test_the_sandbox_scores_well(service):
    """`systemd-analyze security` gives at most 2.0, and what it says holds for the running daemon."""
    service.machine.run("systemd-analyze", "security", "--threshold=20", "logwatch.service")
    service.control("start", "logwatch")
    status = service.machine.run("cat", f"/proc/{service.show('MainPID')}/status").stdout
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapEff"], 16) == 0
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"


def test_a_sidecar_yields(service):
    """Processor, memory and tasks are limited, and it is the first to go when memory is short."""
    service.control("start", "logwatch")
    limits = {name: service.show(name) for name in ("Nice", "MemoryMax", "TasksMax", "CPUWeight", "IOWeight")}
    assert limits == {
        "Nice": "10",
        "MemoryMax": str(2**30),
        "TasksMax": "128",
        "CPUWeight": "20",
        "IOWeight": "20",
    }
    score = service.machine.run("cat", f"/proc/{service.show('MainPID')}/oom_score_adj").stdout
    assert score.strip() == "500"


@pytest.mark.parametrize(
    ("settings", "present"),
    [
        pytest.param(UnitSettings(), "Type=notify-reload\n", id="a systemd that knows notify-reload"),
        pytest.param(
            UnitSettings(systemd=252),
            "Type=notify\nExecReload=/usr/bin/kill -HUP $MAINPID\n",
            id="an older one",
        ),
        pytest.param(UnitSettings(), "ProtectHome=yes\n", id="no log at home"),
        pytest.param(UnitSettings(files=("/home/me/*.log",)), "ProtectHome=read-only\n", id="logs at home"),
        pytest.param(
            UnitSettings(secrets=("/run/credentials/logwatch.service/slack", "/etc/logwatch/token")),
            "LoadCredential=slack:/etc/logwatch/slack\n\n",
            id="secrets",
        ),
        pytest.param(UnitSettings(), "SupplementaryGroups=adm systemd-journal\n", id="journal"),
        pytest.param(UnitSettings(journal=False), "SupplementaryGroups=adm\n", id="no journal"),
    ],
)
def test_the_unit_follows_the_configuration(settings, present):
    """Paths, secrets and the systemd that is there decide what the unit says."""
    assert present in unit(settings)


def test_systemd_understands_every_line(machine):
    """`systemd-analyze verify` has nothing to say, not even of the variant for older systemds."""
    for version in (252, 257):
        machine.run(
            "sh", "-c", f"cat > /run/logwatch.service <<'EOF'\n{unit(UnitSettings(systemd=version))}EOF"
        )
        result = machine.run("systemd-analyze", "verify", "--man=no", "/run/logwatch.service")
        assert result.stdout + result.stderr == ""
