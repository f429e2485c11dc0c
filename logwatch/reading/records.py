"""Level 2: lines to records, by the grammars (`reading/records.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logwatch.grammar.outcomes import Failed
from logwatch.model import Malformed, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwatch.grammar.streaming import Reader
    from logwatch.model import Frame


@dataclass(slots=True)
class RecordsMemory:
    """How many messages were read so far, by what became of them."""

    matched: int = 0
    malformed: int = 0
    ignored: int = 0


class Records:
    """Asks the grammars what a message says, and counts.

    Args:
        reader: The grammars' streaming form.
    """

    def __init__(self, reader: Reader) -> None:
        self.memory = RecordsMemory()
        self._read = reader.read

    def feed(self, frame: Frame) -> Iterator[Record | Malformed]:
        """Take one message, give its record or what is wrong with it; nothing where no grammar claims it."""
        found = self._read(frame.text)
        if found is None:
            self.memory.ignored += 1
        elif isinstance(found, Failed):
            self.memory.malformed += 1
            yield Malformed(
                frame.place,
                found.kind,
                frame.column + found.column - 1,
                found.expected,
                found.found,
                frame.time,
                frame.rank,
            )
        else:
            self.memory.matched += 1
            yield Record(frame.place, found.kind, found.fields, frame.time, frame.rank, frame.writer)

    def finish(self) -> Iterator[Record | Malformed]:
        """Nothing is held back."""
        return iter(())
