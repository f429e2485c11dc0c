"""A clock that the test owns."""

from __future__ import annotations


class Clock:
    """Unix time, or seconds since anything: as told, until told otherwise."""

    def __init__(self, now: float = 1_770_800_000.0):
        self.now = now

    def __call__(self) -> float:
        return self.now
