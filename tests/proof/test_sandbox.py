"""The unit's sandbox, proven by trying to leave it from within, on a real systemd."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "oncall"))
from machine_kit import PYTHON, Machine

from logwatch.outlets.unit import UnitSettings, unit

pytestmark = pytest.mark.needs("root", "systemd-nspawn", "debootstrap")

INSTEAD = f"""[Service]
Type=oneshot
ExecStartPre=
ExecStart=
ExecStart={PYTHON} -I /usr/local/share/escape.py
Restart=no
WatchdogSec=0
"""
CONTROL = f"""[Service]
Type=oneshot
StateDirectory=control
ExecStart={PYTHON} -I /usr/local/share/escape.py
"""
BY_THE_MACHINE = {
    "the clock",
    "a kernel module",
    "reboot",
    "kernel settings",
    "cgroups",
    "a device node",
    "bpf",
    "real-time priority",
}
"""What the container that stands for a machine may refuse to its root as well."""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What the same attempts came to: as the service, and as root without a sandbox."""
    shared = tmp_path_factory.mktemp("sandbox") / "shared"
    shared.mkdir()
    (shared / "server.log").write_text("a line\n")
    files = {
        "/etc/systemd/system/logwatch.service": unit(UnitSettings()),
        "/etc/systemd/system/logwatch.service.d/escape.conf": INSTEAD,
        "/etc/systemd/system/control.service": CONTROL,
        "/usr/local/share/escape.py": (Path(__file__).parent / "escape.py").read_text(),
        "/root/secret": "root's",
        "/home/me/secret": "mine",
    }
    machine = Machine("logwatch-escape", files, shared)
    try:
        machine.await_boot()
        machine.run("systemctl", "start", "logwatch")
        inside = json.loads(machine.run("cat", "/var/lib/private/logwatch/escape.json").stdout)
        machine.run("systemctl", "start", "control")
        outside = json.loads(machine.run("cat", "/var/lib/control/escape.json").stdout)
        left = machine.run("find", "/", "-xdev", "-name", "escaped*", check=False).stdout.split()
    finally:
        machine.close()
    return inside, outside, left


def test_nothing_can_be_done_outside(results):
    """Files, processes, privileges, namespaces, devices, networks, kernel: every attempt is refused."""
    inside, _, _ = results
    assert {name: what for name, what in inside["attempts"].items() if what == "done"} == {}


def test_what_it_needs_it_may_do(results):
    """Its state, a temporary folder of its own, the logs to read, a port."""
    inside, _, _ = results
    assert set(inside["allowed"].values()) == {"done"}, inside["allowed"]


def test_it_is_the_sandbox_that_refuses(results):
    """Without it the same attempts succeed, but for a few that this container refuses even to its root."""
    _, outside, _ = results
    refused = {name for name, what in outside["attempts"].items() if what != "done"}
    assert refused <= BY_THE_MACHINE, outside["attempts"]


def test_nothing_is_left(results):
    """What the attempts left behind outside is the control's alone."""
    _, _, left = results
    assert sorted(left) == ["/etc/escaped", "/root/escaped", "/usr/bin/escaped", "/var/lib/escaped"]
