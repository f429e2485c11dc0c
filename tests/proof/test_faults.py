"""Faults around a running daemon: receivers, disks, permissions, clock, kernel limits, signals."""

from __future__ import annotations

import subprocess
import sys

import faults
import pytest

from logwatch.outlets.metrics import Metrics


@pytest.mark.needs("root")
def test_after_a_fault_all_is_counted_once():
    """Whatever broke, at nineteen receivers or anywhere else: every report counts once in the end, and it was said."""
    done = subprocess.run([sys.executable, faults.__file__], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("\n| ") >= 30


def test_a_clock_that_leaps_takes_no_living_stream():
    """Ten years forward between two looks: what is followed keeps its counters, what is gone goes."""
    now = [1e9]
    metrics = Metrics(clock=lambda: now[0])
    metrics.add_stream("alive", "a")
    metrics.add_stream("gone", "b")
    now[0] += 315_360_000
    assert metrics.expire(alive=["alive"]) == ["gone"]
    assert list(metrics.memory.streams) == ["alive"]
