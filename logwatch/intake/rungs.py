"""Level 3: how far down a file that was cut back still holds what was read of it.

A power cut takes the last seconds of a log, more of it than was remembered of the state or less; what stood there may
be NULs afterwards. Hashes of what stood before some line starts, the denser the nearer to the end, tell where to read
on: what lies between such a rung and the cut counts twice, at most about as much as was lost, but not the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from logwatch.intake.identity import ReadAt, digest

STEP_BYTES = 1 << 13
WINDOW_BYTES = 1024
CLOCK = re.compile(rb"[0-9]{2}:[0-9]{2}:[0-9]{2}")
"""Two runs may begin with the very same bytes (a banner), so what was read must hold a clock time to be told apart."""


class Rung(NamedTuple):
    """A line start.

    Attributes:
        number: How many rungs were made before it.
        line: Number of the line.
        window: Hash of the `WINDOW_BYTES` before it.
    """

    number: int
    offset: int
    line: int
    window: str


class Rungs:
    """Those of one file, the newest last; about two for each doubling of the distance from the end."""

    def __init__(self, kept: Iterable[Rung] = ()) -> None:
        self.kept = list(kept)

    def is_due(self, offset: int) -> bool:
        """Whether a rung here would be far enough from the last one."""
        return offset - (self.kept[-1].offset if self.kept else 0) >= STEP_BYTES

    def add(self, offset: int, line: int, before: bytes) -> None:
        """A line starts here, and this stood before it, unless any other log may hold the same."""
        lines = before.split(b"\n")[1:-1]
        if len(before) < WINDOW_BYTES or not CLOCK.search(before) or len(set(lines)) * 2 <= len(lines):
            return
        number = self.kept[-1].number + 1 if self.kept else 1
        near = [each for each in self.kept if number - each.number < 2 * (each.number & -each.number)]
        self.kept = [*near, Rung(number, offset, line, digest(before))]

    def cut(self, offset: int) -> None:
        """Forget those behind a place."""
        self.kept = [each for each in self.kept if each.offset <= offset]

    def last_that_holds(self, read_at: ReadAt) -> Rung | None:
        """The last one before which the file still holds the same."""
        for each in reversed(self.kept):
            if digest(read_at(each.offset - WINDOW_BYTES, WINDOW_BYTES)) == each.window:
                return each
        return None
