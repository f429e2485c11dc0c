"""Figures of the process."""

import os

import pytest
from prometheus_client import ProcessCollector

from logwatch.outlets.metrics_process import OwnProcess


def figures(collector):
    return {sample.name: sample.value for family in collector.collect() for sample in family.samples}


def test_a_sandbox_hides_nothing_of_our_own(tmp_path):
    """With `ProcSubset=pid`, where `/proc/stat` is missing, memory, processor and start are told as ever."""
    (tmp_path / "self").symlink_to(f"/proc/{os.getpid()}")
    told, expected = (
        figures(OwnProcess(proc=str(tmp_path), registry=None)),
        figures(ProcessCollector(registry=None)),
    )
    assert told.keys() == expected.keys()
    assert told["process_resident_memory_bytes"] > 1e6
    # The kernel gives the time of boot in whole seconds.
    assert told["process_start_time_seconds"] == pytest.approx(
        expected["process_start_time_seconds"], abs=1.5
    )
