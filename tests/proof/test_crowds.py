"""Load, crowds and time, in small; `make proof` has the same in large."""

from __future__ import annotations

import subprocess
import sys

import load
import pytest
import soak

LOAD, SOAK = load.__file__, soak.__file__


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            [LOAD, "--only", "attacks", "--clients", "300"], id="300 scrapes at once, 300 slow-loris clients"
        ),
        pytest.param(
            [LOAD, "--only", "sustained", "--seconds", "8", "--files", "20", "--rate", "5000"],
            id="20 files, 5,000 lines a second, rotated",
        ),
        pytest.param([SOAK, "--share", "0.012"], id="two simulated hours with restarts and kills"),
    ],
)
def test_nothing_is_lost_and_nothing_grows(command):
    """Every line and report counts once, other clients are served, memory is bounded, nothing is told falsely."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
