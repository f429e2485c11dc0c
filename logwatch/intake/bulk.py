"""Level 3: whole chunks of a log to records, without a Python object per line.

A chunk is cut into lines by polars, lines without any grammar's anchor are never looked at again, and what is
left is read as columns by `grammar.rust`. The two framings that nearly all lines of a server's own log have
(SGLang's prefix, or a leading blank and nothing else) are done as columns too. Every line about which the
column form is not sure goes through the streaming stages one by one; a chunk in which lines may depend on
each other (parts of container logs, holes of NULs, lines of megabytes) is refused: the caller feeds it to the
streaming pipeline. So the records are those of the streaming form, whatever the bytes.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from logwatch.grammar.rust import BulkReader, Table
from logwatch.grammar.streaming import Reader
from logwatch.intake.bulk_columns import Block, blocks_of
from logwatch.intake.bulk_found import Found, Origin, Places
from logwatch.intake.bulk_laid import Laid
from logwatch.intake.bulk_layouts import Layouts
from logwatch.intake.bulk_learning import Learner
from logwatch.intake.bulk_requests import Unclaimed, unclaimed
from logwatch.intake.bulk_sieve import Sieve
from logwatch.model import Line, Malformed, Place, Record
from logwatch.reading.framing import Framing
from logwatch.reading.lines import MAX_BYTES
from logwatch.reading.records import Records
from logwatch.reading.requests import WORK
from logwatch.reading.whole import Piece
from logwatch.reading.wrappings import TRACEBACK, rank_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from logwatch.grammar.ast import Grammar
    from logwatch.intake.bulk_found import Again, Ints, PassedOver

# What may make a message out of a line in which no anchor stands as it is: colours, and JSON's escapes.
HIDING = ("\x1b", '"log"', '"MESSAGE"', '"message"', '"msg"')
# What makes lines depend on each other: parts of container logs.
_PARTS = (" stdout P", " stderr P")
_DOCKER_CUT = 16_384
_LINE_END = 0x0A
DENSE = 4
"""Where one line in so many is wanted, layouts are tried first, then anchors looked for."""
ROUNDS, LESSONS = 4, 24
"""In a chunk: how often some lines are learnt from, and how many at once."""
MOST_PATIENCE = 31
FEW = 100
"""So many lines are read one by one sooner than as columns."""

# `framing.Framing`'s own quick way, in the common form: `[2026-02-11 08:15:02.123 DP1 TP0] message`.
PREFIX = (
    r"^\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?: [A-Z][A-Z_]{0,20}[0-9]{1,6}){0,6}\] (?:[^\[({<\n]|\[EAGLE3)"
)
_STRANGE = "\x1b|\r|" + re.escape(f"] {TRACEBACK}")
_DATE_AT, _CLOCK_AT, _DATE_SIZE = 1, 12, 10


@dataclass(slots=True)
class Chunk:
    """What a chunk holds.

    Attributes:
        lines: Lines in the chunk.
        matched: Records in it.
        malformed: Malformed lines in it.
        unclaimed: What else is in it.
    """

    lines: int
    unclaimed: Unclaimed
    matched: int = 0
    malformed: int = 0
    _found: Found | None = None

    def records(self) -> Iterator[Record | Malformed]:
        """Every record, in the order of the log."""
        return self._found.records(0, self._found.count) if self._found else iter(())

    def kinds(self) -> set[str]:
        """The kinds of its records."""
        return self._found.kinds() if self._found else set()

    def times(self) -> set[str | None]:
        """The times of its records, and perhaps of lines that are none."""
        return self._found.times() if self._found else set()

    def newest_times(self) -> Iterator[str | None]:
        """The time of each record, the last one first."""
        return self._found.newest_times() if self._found else iter(())

    def entries(self, passed_over: PassedOver) -> Iterator[tuple[Piece, Again] | Record | Malformed]:
        """The same, with reports in one piece as `Piece` and a way to their records.

        Args:
            passed_over: Is asked at a record of a `PASSABLE` kind whether it, and all of its kind that follow at
                once, may be left out: kind and how many.
        """
        for entry in self._entries(passed_over, []):
            assert not isinstance(entry, Block)  # none were made
            yield entry

    def blocks(self, passed_over: PassedOver) -> Iterator[Block | tuple[Piece, Again] | Record | Malformed]:
        """The same as `entries`, and before many ordinary reports these as a `Block`.

        What of a block is not `taken` when the next entry is asked for comes as it would have without.
        """
        return self._entries(passed_over, blocks_of(self._found) if self._found else [])

    def _entries(
        self, passed_over: PassedOver, blocks: list[Block]
    ) -> Iterator[Block | tuple[Piece, Again] | Record | Malformed]:
        return self._found.entries(passed_over, blocks) if self._found else iter(())


class Bulk:
    """Reads chunks; keeps what the grammars learn from one chunk for the next.

    Args:
        grammars: The grammars, in the order in which they are tried.
    """

    def __init__(self, grammars: Iterable[Grammar]) -> None:
        grammars = tuple(grammars)
        self._bulk = BulkReader(grammars)
        self._framing = Framing()
        self._single = Records(Reader(grammars))
        anchors = {rule.anchor for grammar in grammars for rule in grammar.rules}
        self._sieve = Sieve(anchors | set(HIDING) | set(_PARTS))
        self._layouts = Layouts()
        self._learner = Learner(grammars, self._layouts)
        self._dense = False  # whether many lines of the last chunk were wanted
        self._pause = self._patience = 0  # chunks that learning pauses, and paused the last time

    def read(self, data: bytes, path: str, line: int, offset: int) -> Chunk | None:
        """Records of a chunk that begins at a line's start and ends with a line end; None if it is refused.

        Args:
            data: The chunk; not a file's first line, which may begin with a byte order mark.
            path: What the records' places say.
            line: Number of the chunk's first line.
            offset: Of its first byte.
        """
        if b"\0" in data:
            return None
        text = data if data.isascii() else _repaired(data)
        lines = pl.read_lines(io.BytesIO(text), row_index_name="row")
        sizes = lines["line"].str.len_bytes()
        longest = int(sizes.to_numpy().max(initial=0))
        if longest >= MAX_BYTES // 2 or (longest >= _DOCKER_CUT and b'"log"' in data):
            return None
        if text is data and b"\r" not in data:
            ends = sizes.to_numpy().astype(np.int64).cumsum() + np.arange(1, lines.height + 1)
        else:
            ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _LINE_END) + 1
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        laid = Laid(self._layouts, data, starts, ends)
        if not self._dense:
            lines = self._sieve.likely(lines, text)
        lines = lines.filter(laid.lay(lines["row"].to_numpy().astype(np.int64)))
        if self._dense:
            lines = self._sieve.likely(lines, text)
        lines = self._sieve.certain(lines)
        hidden = False
        if not lines.is_empty():
            if lines["line"].str.contains("|".join(_PARTS)).any():
                return None
            hidden = bool(lines["line"].str.contains("|".join(HIDING)).any())
        reading = _Reading(self, data, path, line, offset, starts, ends, laid)
        lines = self._learn(reading, lines)
        found, work = reading.read(lines)
        self._dense = found.count * DENSE > len(ends)
        matched, malformed = found.counts()
        other = unclaimed(data, path, line, offset, starts, starts[work], hidden=hidden)
        return Chunk(len(ends), other, matched, malformed, found)

    def _learn(self, reading: _Reading, lines: pl.DataFrame) -> pl.DataFrame:
        """Learn from some of the lines that no layout took, from all if they are few; those that are left then."""
        if lines.height > FEW and self._pause > 0:
            self._pause -= 1
            return lines
        for _ in range(ROUNDS):
            step = 1 if lines.height <= FEW else lines.height // LESSONS
            lessons = [reading.bytes_of(row) for row in lines["row"][::step].to_list()]
            if not sum(map(self._learner.learn, lessons)):
                self._patience = min(2 * self._patience + 1, MOST_PATIENCE)
                self._pause = self._patience
                break
            self._patience = 0
            lines = lines.filter(reading.laid.lay(lines["row"].to_numpy().astype(np.int64)))
            if step == 1:
                break
        return lines


def _repaired(data: bytes) -> bytes:
    """The same lines as valid UTF-8."""
    try:
        pl.Series([data], dtype=pl.Binary).cast(pl.String)  # faster than Python where there are other letters
    except pl.exceptions.PolarsError:
        return data.decode("utf-8", "replace").encode()
    return data


@dataclass(slots=True)
class _Reading:
    """One chunk being read.

    Attributes:
        starts, ends: By line, its first byte and the one behind its line end.
        laid: What layouts took.
    """

    bulk: Bulk
    data: bytes
    path: str
    line: int
    offset: int
    starts: Ints
    ends: Ints
    laid: Laid

    def bytes_of(self, row: int) -> bytes:
        """A line without its line end."""
        return self.data[self.starts[row] : self.ends[row] - 1]

    def read(self, lines: pl.DataFrame) -> tuple[Found, Ints]:
        """What was laid, and what the other wanted lines (`row`, `line`) hold; and the lines of work in order."""
        laid, rest = self.laid, lines["row"].to_numpy().astype(np.int64)
        tables = laid.close()
        rows = np.sort(np.concatenate([laid.rows, rest]))
        framed = _framed(lines, self.data) if lines.height > FEW else None
        sure = None if framed is None else framed.filter(pl.col("text").is_not_null())
        read, bare = laid.rows, laid.bare
        times, ranks, columns = laid.times(), laid.ranks(), laid.columns()
        if framed is not None and sure is not None:
            read = np.concatenate([read, rest[sure["at"].to_numpy()]])
            bare = np.concatenate([bare, (sure["date"].is_null() & sure["tags"].is_null()).to_numpy()])
            times, ranks, columns = (
                times + _iso(sure),
                ranks + _ranks(sure),
                columns + sure["column"].to_list(),
            )
            rest = rest[framed.filter(pl.col("text").is_null())["at"].to_numpy()]
        at = np.searchsorted(rows, read)
        offsets, numbers = self.starts[rows] + self.offset, rows + self.line
        places = Places(self.path, offsets.tolist(), numbers.tolist(), at.tolist())
        origin = Origin(places, times, ranks, columns)
        odd: list[tuple[int, Record | Malformed]] = []
        if sure is not None:
            before = len(laid.rows)
            result = self.bulk._bulk.read(sure["text"])  # noqa: SLF001 - one class in two
            for sub, outcome in result.singles:
                odd.append((int(at[before + sub]), origin.outcome(before + sub, outcome)))
            for table in result.tables:
                tables.append(Table(table.kind, table.frame.with_columns(pl.col("row") + before)))
        for each in np.searchsorted(rows, rest).tolist():
            odd.extend((each, record) for record in self._one_by_one(int(rows[each]), places.of_wanted(each)))
        work = [at[table.frame["row"].to_numpy()] for table in tables if table.kind in WORK]
        singly = [each for each, record in odd if isinstance(record, Record) and record.kind in WORK]
        found = Found.of(tables, odd, origin, at, numbers, bare)
        return found, rows[np.sort(np.concatenate([*work, np.array(singly, np.int64)]))]

    def _one_by_one(self, row: int, place: Place) -> Iterator[Record | Malformed]:
        """A line through the streaming stages, as `reading.lines` would cut it."""
        offset = place.offset
        for part in self.bytes_of(row).split(b"\r"):
            if part:
                whole = Line(Place(self.path, offset, place.line), part.decode("utf-8", "replace"))
                for frame in self.bulk._framing.feed(whole):  # noqa: SLF001 - one class in two
                    yield from self.bulk._single.feed(frame)  # noqa: SLF001 - one class in two
            offset += len(part) + 1


def _framed(wanted: pl.DataFrame, data: bytes) -> pl.DataFrame:
    """Text, column, date, clock and tags of each line; the text is null where its framing is not sure."""
    line = pl.col("line")
    strange = line.str.contains(_STRANGE + ("" if data.isascii() else "|\ufffd"))
    # Taken apart by positions: the prefix is ASCII, and its `]` is the line's first. Groups cost twice as much.
    cut = wanted.select(
        pl.int_range(pl.len()).alias("at"),
        line,
        strange.alias("strange"),
        pl.when(line.str.contains(PREFIX)).then(line.str.find("] ", literal=True)).alias("close"),
    ).with_columns(
        message=line.str.slice(pl.col("close") + 2),
        clock=line.str.slice(_CLOCK_AT, pl.col("close") - _CLOCK_AT).str.splitn(" ", 2),
    )
    prefixed, message = pl.col("close").is_not_null(), pl.col("message")
    # Behind a second bracket the framing looks for progress bars too.
    parted = (
        line.str.contains("%|", literal=True)
        | message.str.contains("[20", literal=True)
        | (message.str.starts_with("[") & line.str.contains("it/s|s/it"))
    )
    # Behind blanks a wrapping begins with one of these.
    bare = line.str.starts_with(" ") & ~line.str.contains(r"^[ \t]+[\[(\d]|%\||it/s|s/it|\] ")
    return cut.select(
        "at",
        text=pl.when("strange").then(None).when(prefixed & ~parted).then(message).when(bare).then(line),
        column=pl.when(prefixed).then(pl.col("close") + 3).otherwise(1),
        date=pl.when(prefixed).then(line.str.slice(_DATE_AT, _DATE_SIZE)),
        clock=pl.when(prefixed).then(pl.col("clock").struct[0]),
        tags=pl.when(prefixed).then(pl.col("clock").struct[1]),
    )


def _iso(framed: pl.DataFrame) -> list[str | None]:
    """Times as `wrappings.iso` writes them."""
    return framed.select(pl.concat_str("date", pl.lit("T"), "clock")).to_series().to_list()


def _ranks(framed: pl.DataFrame) -> list[str | None]:
    known = {tags: rank_of(tags) if tags else None for tags in framed["tags"].unique().to_list()}
    return [known[tags] for tags in framed["tags"].to_list()]
