"""A small Debian with a real systemd, booted in a container: built once, kept under `.work`, changed by nobody.

The tree is Debian 13, for its systemd knows `Type=notify-reload`. The project and the Python that runs these tests are
mounted into it read-only; what the machine writes goes into an overlay that dies with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / ".work" / "debian-13"
PACKAGES = (
    "systemd,systemd-sysv,dbus,libssl3t64,libffi8,libsqlite3-0,libbz2-1.0,liblzma5,zlib1g,libreadline8t64,"
    "libuuid1,libstdc++6,libexpat1,libncursesw6,procps"
)
PYTHON = "/opt/python/bin/python3"
LAUNCHER = f"""\
#!{PYTHON}
import sys
sys.path[:0] = ["/opt/logwatch", "/opt/site-packages"]
from logwatch.cli import main
main()
"""


def build_tree() -> Path:
    """The Debian tree; made at first use (half a minute), then kept."""
    if (TREE / ".complete").exists():
        return TREE
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.parent.mkdir(exist_ok=True)
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "trixie", str(TREE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    # Nothing of a whole distribution's housekeeping is wanted in a machine that lives for a minute.
    for name in (
        "apt-daily.timer",
        "apt-daily-upgrade.timer",
        "dpkg-db-backup.timer",
        "console-getty.service",
    ):
        (TREE / "etc/systemd/system" / name).symlink_to("/dev/null")
    # Standard bytecode and binaries come from the host's Python.
    for folder in ("opt/python/bin", "opt/python/lib", "opt/logwatch", "opt/site-packages"):
        (TREE / folder).mkdir(parents=True)
    launcher = TREE / "usr/local/bin/logwatch"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    (TREE / ".complete").touch()
    return TREE


class Machine:
    """A booted container.

    Args:
        name: Of the machine, and of its processes' cgroup.
        files: Further files by absolute path, written before it boots.
        shared: A folder of the host that both sides see as `/shared`.
    """

    def __init__(self, name: str, files: dict[str, str], shared: Path) -> None:
        tree = build_tree()
        self.root = shared.parent / f"{name}-root"
        self._layers = shared.parent / f"{name}-layers"
        for folder in (self.root, self._layers / "upper", self._layers / "work"):
            folder.mkdir(parents=True)
        subprocess.run(
            [
                "mount",
                "-t",
                "overlay",
                "overlay",
                f"-olowerdir={tree},upperdir={self._layers}/upper,workdir={self._layers}/work",
                self.root,
            ],
            check=True,
        )
        for path, text in files.items():
            target = self.root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        base = Path(sys.base_prefix)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        program = Path(sys._base_executable).resolve()
        binds = {
            program: f"{PYTHON}",
            base / "lib" / version: f"/opt/python/lib/{version}",
            **{
                path: f"/usr/lib/x86_64-linux-gnu/{path.name}"
                for path in (base / "lib").glob("libpython*.so.*")
            },
            ROOT / "logwatch": "/opt/logwatch/logwatch",
            ROOT / "grammars": "/opt/logwatch/grammars",
            ROOT / "dashboards": "/opt/logwatch/dashboards",
            Path(sys.prefix) / "lib" / version / "site-packages": "/opt/site-packages",
        }
        self.log = (shared.parent / f"{name}.console").open("wb")
        self.process = subprocess.Popen(
            [
                "systemd-nspawn",
                "--quiet",
                "--register=no",
                "--keep-unit",
                f"--machine={name}",
                f"--directory={self.root}",
                *(f"--bind-ro={source}:{target}" for source, target in binds.items()),
                f"--bind={shared}:/shared",
                "--boot",
            ],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            # Only cgroups of the second kind are offered inside: newer systemds refuse the first.
            env=os.environ | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
        )
        self.leader = self._find_leader()

    def _find_leader(self) -> int:
        """Process id, on the host, of the machine's first process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError(Path(self.log.name).read_text(errors="replace")[-3000:])
            found = children.read_text().split()
            if found and Path(f"/proc/{found[0]}/comm").read_text().strip() == "systemd":
                return int(found[0])
            time.sleep(0.05)
        raise AssertionError("the machine has no first process")

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command inside."""
        entered = ["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-n", "-p", "-C", "--", *command]
        result = subprocess.run(
            entered,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        if check and result.returncode:
            raise AssertionError(f"{command}: {result.returncode}\n{result.stdout}\n{result.stderr}")
        return result

    def await_boot(self) -> None:
        """Wait until all units of the start have been started."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            state = self.run("systemctl", "--wait", "is-system-running", check=False).stdout.strip()
            if state in {"running", "degraded"}:
                return
            time.sleep(0.05)
        raise AssertionError("the machine did not come up")

    def close(self) -> None:
        """Stop the machine and take its layers away."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        subprocess.run(["umount", "--lazy", self.root], check=False)
        shutil.rmtree(self._layers, ignore_errors=True)
