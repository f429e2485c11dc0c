"""The front door: help that fits, one line an error, and the contract's exit statuses."""

from __future__ import annotations

import subprocess
import sys

import pytest

from logwatch.cli import COMMANDS


def _logwatch(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "logwatch", *arguments], capture_output=True, text=True, timeout=60, **options
    )


def test_help_fits_one_screen():
    """24 lines of 80 columns, every command with one line."""
    shown = _logwatch("--help").stdout.splitlines()
    assert len(shown) <= 24
    assert max(map(len, shown)) <= 80
    assert [name for name in COMMANDS if not any(line.split()[:1] == [name] for line in shown)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name):
    """An example says more than a list of options."""
    shown = _logwatch(name, "--help").stdout
    assert f"logwatch {name}" in shown.partition("Usage:")[2].partition("\n")[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["replay", "/absent.log"], "/absent.log: ", id="no such file"),
        pytest.param(
            ["replay", "--config", "/absent.toml", "x"],
            "/absent.toml: no such configuration file",
            id="no such configuration",
        ),
        pytest.param(["no-such-command"], "No such command", id="no such command"),
        pytest.param(["replay", "--no-such-option"], "No such option", id="no such option"),
        pytest.param(
            ["replay", "--band", "target_verify=21ms..17ms", "fixtures/logs/field_verify_19ms.log"],
            "above",
            id="a band upside down",
        ),
    ],
)
def test_trouble_is_one_clear_line_and_status_2(arguments, said):
    """What, where, what to do; no traceback."""
    done = _logwatch(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_debug_shows_the_traceback():
    """For the report of a bug."""
    done = _logwatch("--debug", "replay", "/absent.log")
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_a_reader_that_leaves_is_no_error():
    """`logwatch ... | head -1` says nothing on standard error."""
    command = (
        f"{sys.executable} -m logwatch grammar test fixtures/logs/sglang_h200/*.log --format jsonl | head -1"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith('{"path"')
    assert done.stderr == ""
