"""Level 3: figures of this process (`process_resident_memory_bytes`, ...), in a sandbox as well."""

from __future__ import annotations

import time

from prometheus_client import ProcessCollector


class OwnProcess(ProcessCollector):
    """The library's collector, which gives nothing at all where it cannot read `/proc/stat`.

    It wants the time of boot from there, for the process's start alone. Our unit's `ProcSubset=pid` hides that file.
    """

    def _boot_time(self) -> float:
        """Unix time of boot, seconds."""
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
