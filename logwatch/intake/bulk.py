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
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from logwatch.grammar.rust import BulkReader
from logwatch.grammar.streaming import Failed, Parsed, Reader
from logwatch.model import Line, Malformed, Place, Record
from logwatch.reading.framing import Framing
from logwatch.reading.lines import MAX_BYTES
from logwatch.reading.records import Records
from logwatch.reading.reports import ACCEPT
from logwatch.reading.whole import Piece
from logwatch.reading.wrappings import rank_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from logwatch.grammar.ast import Grammar
    from logwatch.grammar.rust import Table
    from logwatch.model import Value

    PassedOver: TypeAlias = Callable[[str], bool]
    Again: TypeAlias = Callable[[], Iterator[Record | Malformed]]
    Ints: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]

PASSABLE = frozenset({"prefill"})
_HEADER, _LINE = 2, 1
_CODES = {"report": _HEADER, "phase": _LINE, "accept": _LINE}
# What may make a message out of a line in which no anchor stands as it is: colours, and JSON's escapes.
HIDING = ("\x1b", '"log"', '"MESSAGE"', '"message"', '"msg"')
# What makes lines depend on each other: parts of container logs.
_PARTS = (b" stdout P", b" stderr P")
_DOCKER_CUT = 16_384

# `framing.Framing`'s own quick way, in the common form: `[2026-02-11 08:15:02.123 DP1 TP0] message`.
PREFIX = (
    r"^\[([0-9]{4}-[0-9]{2}-[0-9]{2}) ([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?)"
    r"((?: [A-Z][A-Z_]{0,20}[0-9]{1,6}){0,6})\] ((?:[^\[({<]|\[EAGLE3)[^\n]*)$"
)


@dataclass(slots=True)
class Chunk:
    """What a chunk holds.

    Attributes:
        lines: Lines in the chunk.
        matched: Records in it.
        malformed: Malformed lines in it.
    """

    lines: int
    matched: int = 0
    malformed: int = 0
    _found: _Found | None = None

    def records(self) -> Iterator[Record | Malformed]:
        """Every record, in the order of the log."""
        return self._found.records(0, self._found.count) if self._found else iter(())

    def entries(self, passed_over: PassedOver) -> Iterator[tuple[Piece, Again] | Record | Malformed]:
        """The same, with reports in one piece as `Piece` and a way to their records.

        Args:
            passed_over: Is asked at a record of a `PASSABLE` kind whether it may be left out.
        """
        return self._found.entries(passed_over) if self._found else iter(())


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
        self._wanted = "|".join(re.escape(text) for text in sorted(anchors | set(HIDING)))

    def read(self, data: bytes, path: str, line: int, offset: int) -> Chunk | None:
        """Records of a chunk that begins at a line's start and ends with a line end; None if it is refused.

        Args:
            data: The chunk; not a file's first line, which may begin with a byte order mark.
            path: What the records' places say.
            line: Number of the chunk's first line.
            offset: Of its first byte.
        """
        if b"\0" in data or any(part in data for part in _PARTS):
            return None
        text = data if data.isascii() else _repaired(data)
        lines = pl.read_lines(io.BytesIO(text), row_index_name="row")
        sizes = lines["line"].str.len_bytes()
        longest = int(sizes.to_numpy().max(initial=0))
        if longest >= MAX_BYTES // 2 or (longest >= _DOCKER_CUT and b'"log"' in data):
            return None
        wanted = lines.filter(pl.col("line").str.contains(self._wanted))
        if wanted.is_empty():
            return Chunk(lines.height)
        if text is data and b"\r" not in data:
            ends = sizes.to_numpy().astype(np.int64).cumsum() + np.arange(1, lines.height + 1)
        else:
            ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0x0A) + 1
        rows = wanted["row"].to_numpy().astype(np.int64)
        starts = np.where(rows > 0, ends[rows - 1], 0)
        reading = _Reading(self, data, path, line, offset, starts, ends[rows])
        found = reading.read(wanted, repaired=text is not data)
        matched, malformed = found.counts()
        return Chunk(lines.height, matched, malformed, found)


def _repaired(data: bytes) -> bytes:
    """The same lines as valid UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode()
    return data


@dataclass(slots=True)
class _Reading:
    """One chunk being read.

    Attributes:
        starts, ends: By wanted line, its first byte and the one behind its line end.
    """

    bulk: Bulk
    data: bytes
    path: str
    line: int
    offset: int
    starts: Ints
    ends: Ints

    def read(self, wanted: pl.DataFrame, *, repaired: bool) -> _Found:
        """What the wanted lines (`row`, `line`) hold."""
        framed = _framed(wanted, repaired=repaired)
        sure = framed.filter(pl.col("text").is_not_null())
        result = self.bulk._bulk.read(sure["text"])  # noqa: SLF001 - one class in two
        at = sure["at"].to_numpy().astype(np.int64)
        numbers = wanted["row"].to_numpy().astype(np.int64) + self.line
        places = _Places(self.path, (self.starts + self.offset).tolist(), numbers.tolist(), at.tolist())
        origin = _Origin(places, _iso(sure), _ranks(sure), sure["column"].to_list())
        odd: list[tuple[int, Record | Malformed]] = []
        for sub, outcome in result.singles:
            odd.append((int(at[sub]), origin.outcome(sub, outcome)))
        for row in framed.filter(pl.col("text").is_null())["at"].to_list():
            odd.extend((row, record) for record in self._one_by_one(row, places.of_wanted(row)))
        bare = (sure["date"].is_null() & sure["tags"].is_null()).to_numpy()
        return _Found.of(result.tables, odd, origin, at, numbers, bare)

    def _one_by_one(self, at: int, place: Place) -> Iterator[Record | Malformed]:
        """A line through the streaming stages, as `reading.lines` would cut it."""
        offset = place.offset
        for part in self.data[self.starts[at] : self.ends[at] - 1].split(b"\r"):
            if part:
                whole = Line(Place(self.path, offset, place.line), part.decode("utf-8", "replace"))
                for frame in self.bulk._framing.feed(whole):  # noqa: SLF001 - one class in two
                    yield from self.bulk._single.feed(frame)  # noqa: SLF001 - one class in two
            offset += len(part) + 1


def _framed(wanted: pl.DataFrame, *, repaired: bool) -> pl.DataFrame:
    """Text, column, date, clock and tags of each line; the text is null where its framing is not sure."""
    line = pl.col("line")
    strange = line.str.contains("\x1b|\r" + ("|\ufffd" if repaired else ""))
    groups = line.str.extract_groups(PREFIX)
    prefixed = groups.struct[3]
    head = line.str.len_bytes() - prefixed.str.len_bytes()
    # Behind a second bracket the framing looks for progress bars too.
    parted = (
        line.str.contains("%|", literal=True)
        | prefixed.str.contains("[20", literal=True)
        | (prefixed.str.starts_with("[") & line.str.contains("it/s|s/it"))
    )
    bare = line.str.starts_with(" ") & ~line.str.contains(r"%\||it/s|s/it|\] ")
    return wanted.select(
        pl.int_range(pl.len()).alias("at"),
        text=pl.when(strange)
        .then(None)
        .when(prefixed.is_not_null() & ~parted)
        .then(prefixed)
        .when(bare)
        .then(line),
        column=pl.when(prefixed.is_not_null()).then(head + 1).otherwise(1),
        date=groups.struct[0],
        clock=groups.struct[1],
        tags=groups.struct[2],
    )


def _iso(framed: pl.DataFrame) -> list[str | None]:
    """Times as `wrappings.iso` writes them."""
    return framed.select(pl.concat_str("date", pl.lit("T"), "clock")).to_series().to_list()


def _ranks(framed: pl.DataFrame) -> list[str | None]:
    known = {tags: rank_of(tags) if tags else None for tags in framed["tags"].unique().to_list()}
    return [known[tags] for tags in framed["tags"].to_list()]


@dataclass(slots=True)
class _Places:
    """Where the wanted lines are, and which of them are sure."""

    path: str
    offsets: list[int]
    numbers: list[int]
    sure: list[int]

    def of_wanted(self, at: int) -> Place:
        return Place(self.path, self.offsets[at], self.numbers[at])

    def of_sure(self, sub: int) -> Place:
        return self.of_wanted(self.sure[sub])


@dataclass(slots=True)
class _Origin:
    """Place, time, rank and column of the sure lines."""

    places: _Places
    times: list[str | None]
    ranks: list[str | None]
    columns: list[int]

    def record(self, sub: int, kind: str, fields: dict[str, Value]) -> Record:
        return Record(self.places.of_sure(sub), kind, fields, self.times[sub], self.ranks[sub])

    def outcome(self, sub: int, found: Parsed | Failed) -> Record | Malformed:
        if isinstance(found, Parsed):
            return self.record(sub, found.kind, found.fields)
        column = self.columns[sub] + found.column - 1
        place, time, rank = self.places.of_sure(sub), self.times[sub], self.ranks[sub]
        return Malformed(place, found.kind, column, found.expected, found.found, time, rank)


class _Columns:
    """One table as Python lists."""

    def __init__(self, table: Table) -> None:
        self.kind = table.kind
        self.subs: list[int] = table.frame["row"].to_list()
        self.named: dict[str, list[Value | None]] = table.frame.drop("row").to_dict(as_series=False)
        self._items = list(self.named.items())

    def fields(self, at: int) -> dict[str, Value]:
        return {name: value for name, values in self._items if (value := values[at]) is not None}

    def get(self, name: str, at: int) -> float | None:
        values = self.named.get(name)
        value = None if values is None else values[at]
        assert not isinstance(value, str | dict)
        return value


@dataclass(slots=True)
class _Found:
    """What a chunk holds, in the order of the log.

    Attributes:
        tables: Records as columns.
        odd: Records that were read singly.
        which: By position in the log's order: the table, or -1 for `odd`.
        where: The index in it.
        tails: Lines of a report in one piece that begins there; 0 elsewhere.
    """

    tables: list[_Columns]
    odd: list[Record | Malformed]
    origin: _Origin
    which: list[int]
    where: list[int]
    tails: list[int]

    @classmethod
    def of(
        cls,
        tables: Sequence[Table],
        odd: Sequence[tuple[int, Record | Malformed]],
        origin: _Origin,
        at: Ints,
        numbers: Ints,
        bare: np.ndarray[tuple[int], np.dtype[np.bool_]],
    ) -> _Found:
        """Put tables and single records in order, and find the reports in one piece."""
        subs = [table.frame["row"].to_numpy().astype(np.int64) for table in tables]
        lines = np.concatenate([*(at[sub] for sub in subs), np.array([row for row, _ in odd], np.int64)])
        sizes = [len(sub) for sub in subs] + [len(odd)]
        which = np.repeat([*range(len(tables)), -1], sizes)
        where = np.concatenate([np.arange(size) for size in sizes])
        codes = [
            _HEADER if t.kind == "report" else _LINE if t.kind in {"phase", "accept"} else 0 for t in tables
        ]
        code = np.repeat([*codes, 0], sizes)
        own = np.concatenate([*(bare[sub] for sub in subs), np.zeros(len(odd), np.bool_)])
        order = np.argsort(lines, kind="stable")
        number, code, own = numbers[lines[order]], code[order], own[order]
        follows = np.zeros(len(order), np.bool_)
        follows[1:] = (code[1:] == _LINE) & own[1:] & (code[:-1] > 0) & (number[1:] == number[:-1] + 1)
        stops = np.append(np.flatnonzero(~follows), len(order))
        heads = np.flatnonzero(code == _HEADER)
        tails = np.zeros(len(order), np.int64)
        tails[heads] = stops[np.searchsorted(stops, heads, side="right")] - heads - 1
        return cls(
            [_Columns(table) for table in tables],
            [record for _, record in odd],
            origin,
            which[order].tolist(),
            where[order].tolist(),
            tails.tolist(),
        )

    @property
    def count(self) -> int:
        return len(self.which)

    def counts(self) -> tuple[int, int]:
        """Records and malformed lines."""
        malformed = sum(isinstance(record, Malformed) for record in self.odd)
        return len(self.which) - malformed, malformed

    def records(self, begin: int, end: int) -> Iterator[Record | Malformed]:
        """Records of these positions."""
        tables, origin = self.tables, self.origin
        for which, where in zip(self.which[begin:end], self.where[begin:end], strict=True):
            if which < 0:
                yield self.odd[where]
            else:
                table = tables[which]
                yield origin.record(table.subs[where], table.kind, table.fields(where))

    def entries(self, passed_over: PassedOver) -> Iterator[tuple[Piece, Again] | Record | Malformed]:
        at = 0
        while at < len(self.which):
            end = at + 1 + self.tails[at]
            piece = self._piece(at, end) if end > at + 1 else None
            which = self.which[at]
            if piece is not None:
                yield piece, partial(self.records, at, end)
            elif (
                which < 0
                or self.tables[which].kind not in PASSABLE
                or not passed_over(self.tables[which].kind)
            ):
                yield from self.records(at, end)
            at = end

    def _piece(self, at: int, end: int) -> Piece | None:
        header, where = self.tables[self.which[at]], self.where[at]
        labels: list[str] = []
        phases_s: dict[str, float] = {}
        shares: dict[str, float] = {}
        accepted = None
        for which, index in zip(self.which[at + 1 : end], self.where[at + 1 : end], strict=True):
            table = self.tables[which]
            if table.kind == "accept":
                labels.append(ACCEPT)
                accepted = table.get("accepted_drafts", index)
                continue
            label, seconds = table.named["phase"][index], table.named.get("seconds")
            value = None if seconds is None else seconds[index]
            if not isinstance(label, str) or not isinstance(value, float):
                return None  # `Verify min/p99/max` says no seconds
            labels.append(label)
            phases_s[label] = value
            share = table.get("share", index)
            if share is not None:
                shares[label] = share
        sub = header.subs[where]
        return Piece(
            self.origin.places.of_sure(sub),
            self.origin.times[sub],
            self.origin.ranks[sub],
            header.get("cycles", where),
            header.get("batch_size", where),
            header.get("graph_percent", where),
            labels,
            phases_s,
            shares,
            accepted,
        )
