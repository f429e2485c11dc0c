"""Level 3: answered requests in a chunk, as `reading.requests` counts them between lines of work (used by `bulk.py`).

What lies between two lines of work is forgotten at the second, unless it is so much that it makes a record. Nearly
no gap lasts that long, which the clocks of its lines tell (`bulk_clocks`), or a few looks; so only a chunk's first
and last gap, which may go on in the chunks beside it, are counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from logwatch.grammar.outcomes import Parsed
from logwatch.intake.bulk_clocks import are_short
from logwatch.model import Line, Place
from logwatch.reading.framing import Framing
from logwatch.reading.requests import MANY, ROUTES, SOME, WORK, Answer, Answers, is_answer, makes_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from logwatch.grammar.streaming import Reader
    from logwatch.intake.bulk_found import Ints

_PLAINLY: Final = re.compile(rb'"POST /')
_HIDDEN: Final = re.compile(rb"POST |\x1b|\\u00")
"""What to look for: where all lines stand as they are, and where colours or JSON's escapes may be in them."""

_SHORTEST: Final = len('- - "POST /generate HTTP/1.1" 200')
"""Bytes that an access line has at least."""

_PLAIN: Final = re.compile(
    rb"(?:\[([0-9]{4}-[0-9]{2}-[0-9]{2}) ([0-9]{2}:[0-9]{2}:[0-9]{2})\] )?"
    rb'(INFO: {5}[0-9]{1,3}(?:\.[0-9]{1,3}){3}:[0-9]{1,5} - "POST /(?:'
    + ROUTES.encode()
    + rb') HTTP/1\.[01]" 200 OK)\n'
)
"""The form that nearly all have, with its line end: whoever has it needs no framing."""


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """A chunk's lines between those of work, to be looked at when somebody asks.

    Attributes:
        line, offset: Number and offset of the chunk's first line.
        work: Positions in `data` at which lines of work begin, in order.
        long: Of them, those before stretches that may last long enough for a record.
        last: Number of the last line of work; 0 where there is none.
        hidden: Whether some lines may say what their bytes do not.
    """

    data: bytes
    path: str
    line: int
    offset: int
    work: Ints
    long: Ints
    last: int
    hidden: bool

    def answers(self, reader: Reader) -> Answers:
        """What was answered in the chunk; the reader's grammars are those that found its records."""
        return _Lines(self, reader).answers()


def unclaimed(
    data: bytes, path: str, line: int, offset: int, starts: Ints, work: Ints, *, hidden: bool
) -> Unclaimed:
    """A chunk's lines beside those of work.

    Args:
        data: As the others, see `Unclaimed`.
        path: The file.
        line: Of the first line.
        offset: Of the first line.
        starts: Positions at which lines begin.
        work: Of them, those of lines of work.
        hidden: Whether some lines may say what their bytes do not.
    """
    large = np.flatnonzero(np.diff(work) >= SOME * _SHORTEST)
    if len(large):
        large = large[~are_short(data, starts, work[large], work[large + 1])]
    last = line + int(np.searchsorted(starts, work[-1])) if len(work) else 0
    return Unclaimed(data, path, line, offset, work, work[large], last, hidden)


class _Lines:
    """The lines of a chunk, read one by one."""

    def __init__(self, chunk: Unclaimed, reader: Reader) -> None:
        self._chunk = chunk
        self._reader = reader
        self._framing = Framing()
        self._sought = _HIDDEN if chunk.hidden else _PLAINLY

    def answers(self) -> Answers:
        """See `Unclaimed.answers`."""
        work, size = self._chunk.work, len(self._chunk.data)
        if not len(work):
            return Answers(partial(self._between, 0, size, self._chunk.line))
        first, last = int(work[0]), int(work[-1])
        begins = np.searchsorted(work, self._chunk.long)
        gaps = zip(work[begins].tolist(), work[begins + 1].tolist(), strict=True)
        many = any(self._are_many(begin, end) for begin, end in gaps)
        return Answers(
            partial(self._between, 0, first, self._chunk.line),
            partial(self._between, last, size, self._chunk.last),
            many,
        )

    def _are_many(self, begin: int, end: int) -> bool:
        """Whether so many lie between two lines of work that they may make a record; not all are looked at."""
        data = self._chunk.data
        if self._sought is _PLAINLY and data.count(_PLAINLY.pattern, begin, end) < SOME:
            return False
        positions = [found.start() for found in self._sought.finditer(data, begin, end)]
        if len(positions) < SOME or len(positions) >= MANY:
            return len(positions) >= MANY
        looks = sorted({*positions[::SOME], positions[-1]})
        times = [time for _, time, _ in self._at(looks, begin, 0)]  # no numbers of lines are wanted
        return len(times) != len(looks) or any(makes_record(len(positions), times[0], time) for time in times)

    def _between(self, begin: int, end: int, number: int) -> Iterator[Answer]:
        """Requests answered in these lines, the first of which has the number and may be one of work."""
        positions = (found.start() for found in self._sought.finditer(self._chunk.data, begin, end))
        return self._at(positions, begin, number)

    def _at(self, positions: Iterable[int], counted: int, number: int) -> Iterator[Answer]:
        """Requests answered in the lines of these positions; the line that begins at `counted` has the number."""
        data, path, offset = self._chunk.data, self._chunk.path, self._chunk.offset
        end = 0
        for position in positions:
            if position < end:
                continue  # twice in a line
            start = data.rfind(b"\n", 0, position) + 1
            number += data.count(b"\n", counted, start)
            counted = start
            place = Place(path, offset + start, number)
            plain = _PLAIN.match(data, start)
            if plain is None:
                end = data.find(b"\n", position) + 1 or len(data)
                yield from self._one_by_one(place, data[start:end])
                continue
            end = plain.end()
            date, clock, text = plain.groups()
            if self._reader.read(text.decode()) is None:
                yield place, f"{date.decode()}T{clock.decode()}" if date else None, None

    def _one_by_one(self, place: Place, line: bytes) -> list[Answer]:
        """Of one line, through the streaming stages, as `reading.lines` would cut it."""
        found, offset = list[Answer](), place.offset
        for part in line.removesuffix(b"\n").split(b"\r"):
            text = Line(Place(place.path, offset, place.line), part.decode("utf-8", "replace"))
            offset += len(part) + 1
            for frame in self._framing.feed(text) if part else ():
                outcome = self._reader.read(frame.text)
                if outcome is None and is_answer(frame):
                    found.append((frame.place, frame.time, frame.rank))
                elif isinstance(outcome, Parsed) and outcome.kind in WORK:
                    found.clear()
        return found
