"""Level 3: answered requests in a chunk, as `reading.requests` counts them between lines of work (used by `bulk.py`).

What lies between two lines of work is forgotten at the second, unless it is so much that it makes a record. Nearly
no gap holds that much, and a few looks tell; so only a chunk's first and last gap, which may go on in the chunks
beside it, are counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from logwatch.grammar.outcomes import Parsed
from logwatch.model import Line, Place
from logwatch.reading.framing import Framing
from logwatch.reading.requests import MANY, ROUTES, SOME, WORK, Answer, Answers, is_answer, makes_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwatch.grammar.streaming import Reader
    from logwatch.intake.bulk_found import Ints

_WORD: Final = b"POST "
_HIDING: Final = (b"\x1b", b"\\u00")
"""What may keep the word from being found in the bytes."""

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
    """

    data: bytes
    path: str
    line: int
    offset: int
    work: Ints

    def answers(self, reader: Reader) -> Answers:
        """What was answered in the chunk; the reader's grammars are those that found its records."""
        return _Lines(self, reader).answers()


class _Lines:
    """The lines of a chunk, read one by one."""

    def __init__(self, chunk: Unclaimed, reader: Reader) -> None:
        self._chunk = chunk
        self._reader = reader
        self._framing = Framing()

    def answers(self) -> Answers:
        """See `Unclaimed.answers`."""
        positions, work = _candidates(self._chunk.data), self._chunk.work
        if not len(work):
            return Answers(partial(self._found, positions))
        gap = np.searchsorted(work, positions, side="right")
        sizes = np.bincount(gap, minlength=len(work) + 1)
        first, last = int(sizes[0]), int(sizes[-1])
        large = np.flatnonzero(sizes[1:-1] >= SOME) + 1
        ends = sizes.cumsum()
        many = any(self._are_many(positions[ends[each - 1] : ends[each]]) for each in large.tolist())
        after = positions[len(positions) - last :]
        return Answers(partial(self._found, positions[:first]), partial(self._found, after), many)

    def _are_many(self, positions: Ints) -> bool:
        """Whether these, all between two lines of work, may make a record; not all are looked at."""
        if len(positions) >= MANY:
            return True
        times = [time for _, time, _ in self._found(np.append(positions[::SOME], positions[-1:]))]
        return any(makes_record(len(positions), times[0], time) for time in times)

    def _found(self, positions: Ints) -> Iterator[Answer]:
        """Requests answered in the lines of these positions."""
        data, path, offset = self._chunk.data, self._chunk.path, self._chunk.offset
        number, counted, end = self._chunk.line, 0, 0
        for position in positions.tolist():
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


def _candidates(data: bytes) -> Ints:
    """Positions, in order, in lines that may tell of an answer."""
    sought = [text for text in (_WORD, *_HIDING) if text in data]
    if not sought:
        return np.empty(0, np.int64)
    pattern = re.compile(b"|".join(map(re.escape, sought)))
    return np.fromiter((found.start() for found in pattern.finditer(data)), np.int64)
