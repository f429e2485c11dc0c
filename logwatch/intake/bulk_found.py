"""Level 3: what a chunk holds, as columns, and how it becomes records again (used by `bulk.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from logwatch.grammar.outcomes import Failed, Parsed
from logwatch.model import Malformed, Place, Record
from logwatch.reading.reports import ACCEPT
from logwatch.reading.whole import Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from logwatch.grammar.rust import Table
    from logwatch.intake.bulk_columns import Block
    from logwatch.model import Value

    PassedOver: TypeAlias = Callable[[str, int], bool]
    Again: TypeAlias = Callable[[], Iterator[Record | Malformed]]
    Ints: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]

PASSABLE = frozenset({"prefill"})
"""Kinds of records that a caller may leave out where they would change nothing."""

_HEADER, _LINE, _PASSABLE = 2, 1, -1
_CODES = {"report": _HEADER, "phase": _LINE, "accept": _LINE, **dict.fromkeys(PASSABLE, _PASSABLE)}


@dataclass(slots=True)
class Places:
    """Where the wanted lines are, and which of them are sure."""

    path: str
    offsets: list[int]
    numbers: list[int]
    sure: list[int]

    def of_wanted(self, at: int) -> Place:
        """Of a wanted line."""
        return Place(self.path, self.offsets[at], self.numbers[at])

    def of_sure(self, sub: int) -> Place:
        """Of a sure line."""
        return self.of_wanted(self.sure[sub])


@dataclass(slots=True)
class Origin:
    """Place, time, rank and column of the sure lines."""

    places: Places
    times: list[str | None]
    ranks: list[str | None]
    columns: list[int]

    def record(self, sub: int, kind: str, fields: dict[str, Value]) -> Record:
        """The record of a sure line."""
        return Record(self.places.of_sure(sub), kind, fields, self.times[sub], self.ranks[sub])

    def outcome(self, sub: int, found: Parsed | Failed) -> Record | Malformed:
        """The same for what was read singly."""
        if isinstance(found, Parsed):
            return self.record(sub, found.kind, found.fields)
        column = self.columns[sub] + found.column - 1
        place, time, rank = self.places.of_sure(sub), self.times[sub], self.ranks[sub]
        return Malformed(place, found.kind, column, found.expected, found.found, time, rank)


class _Columns:
    """One table as Python lists, made when they are first asked for: most prefill lines never are."""

    def __init__(self, table: Table) -> None:
        self.kind = table.kind
        self.frame = table.frame

    @cached_property
    def subs(self) -> list[int]:
        return self.frame["row"].to_list()

    @cached_property
    def named(self) -> dict[str, list[Value | None]]:
        return self.frame.drop("row").to_dict(as_series=False)

    @cached_property
    def phases(self) -> list[str]:
        return cast("list[str]", self.named.get("phase", []))

    @cached_property
    def seconds(self) -> list[float | None]:
        return cast("list[float | None]", self.named.get("seconds", []))

    @cached_property
    def shares(self) -> list[float | None]:
        return cast("list[float | None]", self.named.get("share", []))

    def fields(self, at: int) -> dict[str, Value]:
        return {name: value for name, values in self.named.items() if (value := values[at]) is not None}

    def get(self, name: str, at: int) -> float | None:
        values = self.named.get(name)
        value = None if values is None else values[at]
        assert not isinstance(value, str | dict)
        return value


@dataclass(slots=True)
class Order:
    """By position in the log's order: table (-1 for `odd`), index in it, tail, number among the sure lines, line."""

    which: Ints
    where: Ints
    tails: Ints
    subs: Ints
    lines: Ints


@dataclass(slots=True)
class Found:
    """What a chunk holds, in the order of the log.

    Attributes:
        tables: Records as columns.
        odd: Records that were read singly.
        which: By position in the log's order: the table, or -1 for `odd`.
        where: The index in it.
        tails: How many go together with it: lines of a report in one piece, passable records of one kind.
        order: The same as arrays, for `bulk_columns.py`.
    """

    tables: list[_Columns]
    odd: list[Record | Malformed]
    origin: Origin
    which: list[int]
    where: list[int]
    tails: list[int]
    order: Order

    @classmethod
    def of(
        cls,
        tables: Sequence[Table],
        odd: Sequence[tuple[int, Record | Malformed]],
        origin: Origin,
        at: Ints,
        numbers: Ints,
        bare: np.ndarray[tuple[int], np.dtype[np.bool_]],
    ) -> Found:
        """Put tables and single records in order, and find the reports in one piece."""
        subs = [table.frame["row"].to_numpy().astype(np.int64) for table in tables]
        sub = np.concatenate([*subs, np.full(len(odd), -1)])
        lines = np.concatenate([*(at[each] for each in subs), np.array([row for row, _ in odd], np.int64)])
        sizes = [len(each) for each in subs] + [len(odd)]
        which = np.repeat([*range(len(tables)), -1], sizes)
        where = np.concatenate([np.arange(size) for size in sizes])
        codes = [_CODES.get(table.kind, 0) for table in tables]
        code = np.repeat([*codes, 0], sizes)
        own = np.concatenate([*(bare[each] for each in subs), np.zeros(len(odd), np.bool_)])
        order = np.argsort(lines, kind="stable")
        number, code, own = numbers[lines[order]], code[order], own[order]
        follows = np.zeros(len(order), np.bool_)
        follows[1:] = (code[1:] == _LINE) & own[1:] & (code[:-1] > 0) & (number[1:] == number[:-1] + 1)
        stops = np.append(np.flatnonzero(~follows), len(order))
        heads = np.flatnonzero(code == _HEADER)
        tails = np.zeros(len(order), np.int64)
        tails[heads] = stops[np.searchsorted(stops, heads, side="right")] - heads - 1
        passable = code == _PASSABLE
        stops = np.append(np.flatnonzero(~passable), len(order))
        runs = np.flatnonzero(passable)
        tails[runs] = stops[np.searchsorted(stops, runs, side="right")] - runs - 1
        return cls(
            [_Columns(table) for table in tables],
            [record for _, record in odd],
            origin,
            which[order].tolist(),
            where[order].tolist(),
            tails.tolist(),
            Order(which[order], where[order], tails, sub[order], number),
        )

    @property
    def count(self) -> int:
        """Records and malformed lines together."""
        return len(self.which)

    def counts(self) -> tuple[int, int]:
        """Records and malformed lines."""
        malformed = sum(isinstance(record, Malformed) for record in self.odd)
        return len(self.which) - malformed, malformed

    def kinds(self) -> set[str]:
        """The kinds of all."""
        return {table.kind for table in self.tables} | {record.kind for record in self.odd}

    def times(self) -> set[str | None]:
        """The times of all sure lines and of what was read singly."""
        return {*self.origin.times, *(record.time for record in self.odd)}

    def newest_times(self) -> Iterator[str | None]:
        """The time of each, the last one first."""
        for at in range(self.count - 1, -1, -1):
            if self.which[at] < 0:
                yield self.odd[self.where[at]].time
            else:
                yield self.origin.times[int(self.order.subs[at])]

    def records(self, begin: int, end: int) -> Iterator[Record | Malformed]:
        """Records of these positions."""
        tables, origin = self.tables, self.origin
        for which, where in zip(self.which[begin:end], self.where[begin:end], strict=True):
            if which < 0:
                yield self.odd[where]
            else:
                table = tables[which]
                yield origin.record(table.subs[where], table.kind, table.fields(where))

    def entries(
        self, passed_over: PassedOver, blocks: list[Block]
    ) -> Iterator[Block | tuple[Piece, Again] | Record | Malformed]:
        """Records, reports in one piece, and `blocks` of these; see `bulk.Chunk.entries`."""
        at = 0
        while at < len(self.which):
            while blocks and at > blocks[0].begin:
                del blocks[0]
            if blocks and at == blocks[0].begin:
                yield blocks[0]
                at = blocks[0].go_on(at)
                continue
            tail, which = self.tails[at], self.which[at]
            end = at + 1 + tail
            kind = self.tables[which].kind if which >= 0 else ""
            if kind in PASSABLE:
                if not passed_over(kind, tail + 1):
                    end = at + 1
                    yield from self.records(at, end)
            elif tail and (piece := self._piece(at, end)) is not None:
                yield piece, partial(self.records, at, end)
            else:
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
            label = table.phases[index]
            seconds = table.seconds[index] if table.seconds else None
            if seconds is None or label in phases_s:
                return None  # `Verify min/p99/max` says no seconds
            labels.append(label)
            phases_s[label] = seconds
            share = table.shares[index] if table.shares else None
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
