"""Level 3: what layouts took of a chunk, put together: tables, times, ranks and columns (used by `bulk.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import polars as pl

from logwatch.grammar.rust import Table
from logwatch.intake.bulk_layouts import BARE, DATE_SIZE

if TYPE_CHECKING:
    from typing import TypeAlias

    from logwatch.intake.bulk_found import Ints
    from logwatch.intake.bulk_layouts import Bools, Bytes, Layout, Layouts, Taken

    Objects: TypeAlias = np.ndarray[tuple[int], np.dtype[np.object_]]


class Laid:
    """The lines of one chunk that layouts took.

    Args:
        layouts: May learn between two calls of `lay`.
        data: The chunk.
        starts, ends: By line, its first byte and the one behind its line end.

    Attributes:
        rows: The lines in order, once `close` was called.
    """

    def __init__(self, layouts: Layouts, data: bytes, starts: Ints, ends: Ints) -> None:
        self.rows: Ints = np.empty(0, np.int64)
        self._layouts = layouts
        self._data: Bytes = np.frombuffer(data, np.uint8)
        self._starts, self._ends = starts, ends
        self._taken: list[Taken] = []
        self._prefixes: Ints = np.empty(0, np.int64)

    def lay(self, rows: Ints) -> Bools:
        """Take what fits of these lines; which of them are left."""
        taken, prefixes = self._layouts.take(self._data, self._starts[rows], self._ends[rows])
        left = np.ones(len(rows), np.bool_)
        for each in taken:
            left[each.rows] = False
        self._prefixes = np.concatenate([self._prefixes, *(prefixes[each.rows] for each in taken)])
        for each in taken:
            each.rows = rows[each.rows]
        self._taken += taken
        return left

    def close(self) -> list[Table]:
        """All records as tables; `row` is an index into `rows`."""
        every = np.concatenate([np.empty(0, np.int64), *(each.rows for each in self._taken)])
        order = np.argsort(every, kind="stable")
        self.rows, self._prefixes = every[order], self._prefixes[order]
        subs = np.empty(len(every), np.int64)
        subs[order] = np.arange(len(every))
        alike: dict[object, list[tuple[Taken, Ints]]] = {}
        begin = 0
        for each in self._taken:
            end = begin + len(each.rows)
            alike.setdefault(each.layout.fields, []).append((each, subs[begin:end]))
            begin = end
        return [_table(group) for group in alike.values()]

    @property
    def bare(self) -> Bools:
        """By line, whether it has no prefix."""
        bare: Bools = self._prefixes == BARE
        return bare

    def columns(self) -> list[int]:
        """By line, the column of its message, from 1."""
        sizes = np.array([*(prefix.mask.size for prefix in self._layouts.prefixes), 0])  # `BARE` is the last
        columns: list[int] = (sizes[self._prefixes] + 1).tolist()
        return columns

    def ranks(self) -> list[str | None]:
        """By line, what its prefix's tags say."""
        ranks = np.array([*(prefix.rank for prefix in self._layouts.prefixes), None], object)
        found: list[str | None] = ranks[self._prefixes].tolist()
        return found

    def times(self) -> list[str | None]:
        """By line, its time as `wrappings.iso` writes it."""
        times = np.full(len(self.rows), None, object)
        for index, prefix in enumerate(self._layouts.prefixes):
            at = np.flatnonzero(self._prefixes == index)
            if len(at):
                times[at] = self._texts(self._starts[self.rows[at]] + 1, prefix.clock_end - 1)
        found: list[str | None] = times.tolist()
        return found

    def _texts(self, begins: Ints, size: int) -> Objects:
        """Dates and clocks; neighbours that are equal are made once."""
        every = np.ndarray((len(self._data) - size + 1,), f"S{size}", self._data.data, strides=(1,))
        texts = every[begins]
        texts.view(np.uint8).reshape(-1, size)[:, DATE_SIZE] = ord("T")
        first = np.ones(len(texts), np.bool_)
        first[1:] = texts[1:] != texts[:-1]
        distinct: Objects = texts[first].astype(f"U{size}").astype(object)
        return cast("Objects", distinct[np.cumsum(first) - 1])


def _table(group: list[tuple[Taken, Ints]]) -> Table:
    """Lines of one kind and with the same fields."""
    layouts: list[Layout] = [taken.layout for taken, _ in group]
    sizes = [len(rows) for _, rows in group]
    columns: dict[str, pl.Series] = {"row": pl.Series(np.concatenate([rows for _, rows in group]))}
    codes = pl.Series(np.repeat(np.arange(len(group), dtype=np.uint32), sizes))
    for name in layouts[0].constants:
        columns[name] = pl.Series([layout.constants[name] for layout in layouts]).gather(codes)
    for figure in layouts[0].figures:
        columns[figure.name] = pl.Series(np.concatenate([taken.values[figure.name] for taken, _ in group]))
    return Table(layouts[0].kind, pl.DataFrame(columns))
