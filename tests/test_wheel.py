"""What users install is the wheel, not the checkout: it is built, installed into an empty environment and used."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "fixtures" / "logs"


def _run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT, cwd=folder)
    (path,) = folder.glob("sglang_logwatch-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Folder of the programs of an empty environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("env")
    _run(sys.executable, "-m", "venv", folder, cwd=folder)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    _run(*pip, "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    return folder / "bin"


def test_the_wheel_brings_grammars_dashboards_and_demo_logs(wheel):
    """The top-level data folders travel with the package; tests and fixtures do not."""
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "grammars/eagle3_profile.toml",
        "grammars/sglang.toml",
        "demo/healthy.log",
        "dashboards/rules/",
    ):
        assert any(name.startswith(f"logwatch/_data/{wanted}") for name in names), wanted
    assert not [name for name in names if name.startswith(("tests/", "fixtures/", "benchmarks/"))]


def test_the_installed_command_replays_with_packaged_grammars(installed, tmp_path):
    """Away from the checkout, with nothing but the wheel, the main job works."""
    log = LOGS / "field_verify_29ms.log"
    answer = json.loads(_run(installed / "logwatch", "replay", "--format", "json", log, cwd=tmp_path, code=1))
    assert answer["verdict"] == "out_of_band"


def test_the_second_command_name_is_the_same_program(installed, tmp_path):
    """Debian has another `logwatch`: `sglang-logwatch` is there for machines that have both."""
    first = _run(installed / "logwatch", "--version", cwd=tmp_path)
    assert first == _run(installed / "sglang-logwatch", "--version", cwd=tmp_path)


def test_the_installed_plugin_is_found_by_its_entry_point(installed, tmp_path):
    """SGLang looks in the group `sglang.srt.plugins`."""
    code = (
        "from importlib.metadata import entry_points\n"
        "(point,) = entry_points(group='sglang.srt.plugins')\n"
        "print(point.name, callable(point.load()))\n"
    )
    assert _run(installed / "python", "-c", code, cwd=tmp_path) == "eagle3_profile True\n"


def test_the_installed_demo_ends_by_itself(installed, tmp_path):
    """`logwatch demo` needs nothing but the package: it sees the incident and its end."""
    told = _run(installed / "logwatch", "demo", "--seconds", "5", cwd=tmp_path)
    assert "opened: target_verify" in told
    assert "resolved: target_verify" in told
