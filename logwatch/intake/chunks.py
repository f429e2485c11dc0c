"""Level 3: what `tail.py` takes and gives: sources, chunks of bytes, lag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Source:
    """Where log bytes come from.

    Attributes:
        path: A file, a glob, a directory, a FIFO, or `-` for standard input; for a journal the unit's name.
        name: The stream's name; None: the file's name (the unit's, for a journal).
        start: Where files begin that exist when the source is seen for the first time ever.
        journal: Whether `path` names a systemd unit.
    """

    path: str
    name: str | None = None
    start: Literal["end", "beginning"] = "end"
    journal: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of one stream, in order.

    Attributes:
        path: The file they were read from, as it is called now.
        offset: Of the first byte, in the file's uncompressed bytes. Follows on the chunk before, except where a file
            begins, the header of a run is looked up, or NULs and destroyed bytes are passed over.
        first_line: Number of the line that the first byte belongs to, from 1.
        ends: The file ends here for good: a line still unfinished is all there will be of it. `data` is empty then.
        bulk: Whole lines of a large backlog, for the bulk path.
    """

    stream: str
    path: str
    offset: int
    data: bytes
    first_line: int
    ends: bool = False
    bulk: bool = False


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a stream's reading is behind: bytes not yet read, and seconds since the oldest of them was seen."""

    bytes: int
    seconds: float
