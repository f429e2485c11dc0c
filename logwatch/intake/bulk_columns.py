"""Level 3: stretches of a chunk in which only ordinary reports of one rank stand, and what may stand between them.

That is: reports in one piece with the chunk's usual lines, decode lines with a graph, prefill lines, and a server's
last words. Such a stretch, a `Block`, is offered as columns; what of it is not taken is given as before.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from logwatch.columns import Between, Bools, DecodeColumns, Floats, Ints
from logwatch.model import Record
from logwatch.reading.columns import Reported
from logwatch.reading.reports import ACCEPT

if TYPE_CHECKING:
    from collections.abc import Callable

    from logwatch.intake.bulk_found import Found

SHORTEST = 24
"""Fewer reports are not worth arrays."""

PATIENCE = 4, 512
"""Reports given as objects after some that could not be taken as columns: fewest and most."""

LAST_WORDS = ("exit", "crash")
"""Events after which only work begins a new run."""

Codes: TypeAlias = NDArray[np.int8]
_OTHER, _REPORT, _LINE, _DECODE, _PREFILL, _EVENT = range(6)
_KINDS = {
    "report": _REPORT, "phase": _LINE, "accept": _LINE, "decode": _DECODE, "prefill": _PREFILL, "event": _EVENT,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decode lines of one rank that were not given as records."""

    found: Found
    rank: str | None
    positions: Ints

    def times(self) -> list[str | None]:
        """When each was written."""
        times = self.found.origin.times
        return [times[sub] for sub in self.found.order.subs[self.positions].tolist()]

    def figures(self, name: str) -> list[float | None]:
        """What each says of one field, if that is a number."""
        order, figures = self.found.order, np.full(len(self.positions), None, object)
        which, where = order.which[self.positions], order.where[self.positions]
        for number in np.unique(which).tolist():
            frame = self.found.tables[number].frame
            if name in frame.columns and frame[name].dtype.is_numeric():
                places = which == number
                figures[places] = frame[name].gather(where[places]).to_list()
        return figures.tolist()


@dataclass(slots=True)
class Block:
    """A stretch of ordinary reports, of which some or all may be taken as columns.

    Attributes:
        begin: Position of its first record; where some were taken, of the next to be offered.
        ends: Positions behind each report.
        whole: All its reports.
        besides: By kind, how many such records come before the end of each report.
        decodes: Gives the decode lines from one number on and before another.
        first: Reports that are over.
        taken: Set by who takes: how many of those offered.
    """

    begin: int
    ends: Ints
    whole: Reported
    besides: dict[str, Ints]
    decodes: Callable[[int, int], Decoded]
    first: int = 0
    taken: int = 0
    _patience: int = field(default=PATIENCE[0])

    @property
    def offered(self) -> Reported:
        """The reports that are not over."""
        return self.whole.rest(self.first)

    @property
    def has_prefills(self) -> bool:
        """Whether prefill lines stand between them."""
        return bool(self.besides["prefill"][-1])

    def seen(self, count: int) -> Counter[str]:
        """Records of each kind up to the end of so many of the offered reports."""
        found = Counter({kind: self._upto(sums, self.first + count) for kind, sums in self.besides.items()})
        found.subtract({kind: self._upto(sums, self.first) for kind, sums in self.besides.items()})
        phases = len(self.whole.labels) - (ACCEPT in self.whole.labels)
        found.update(
            {"report": count, "phase": count * phases, "accept": count * (ACCEPT in self.whole.labels)}
        )
        return +found

    def decoded(self, count: int) -> Decoded:
        """The decode lines up to the end of so many of the offered reports."""
        sums = self.besides["decode"]
        return self.decodes(self._upto(sums, self.first), self._upto(sums, self.first + count))

    def go_on(self, at: int) -> int:
        """The position to go on from; what was not taken is offered again some reports later."""
        if self.taken:
            self.first += self.taken
            at = int(self.ends[self.first - 1])
        self._patience = PATIENCE[0] if self.taken >= SHORTEST else min(2 * self._patience, PATIENCE[1])
        self.first, self.taken = self.first + self._patience, 0
        self.begin = int(self.ends[self.first - 1]) if self.first + SHORTEST < len(self.ends) else -1
        return at

    @staticmethod
    def _upto(sums: Ints, count: int) -> int:
        return int(sums[count - 1]) if count else 0


def blocks_of(found: Found) -> list[Block]:
    """The blocks of a chunk, in order."""
    order = found.order
    kinds = np.array([*(_KINDS.get(table.kind, _OTHER) for table in found.tables), _OTHER], np.int8)[
        order.which
    ]
    usual = _usual(found, kinds)
    if usual is None:
        return []
    labels, heads, values, shares = usual
    good = (kinds == _PREFILL) | _last_words(found, kinds)
    good[heads[:, None] + np.arange(len(labels) + 1)] = True
    decodes = _Decodes(found, kinds)
    good |= decodes.plain
    rank, of_rank = _of_one_rank(
        found, np.flatnonzero((kinds == _REPORT) | (kinds == _DECODE)), int(heads[0])
    )
    good &= of_rank
    heads, values, shares = (each[good[heads]] for each in (heads, values, shares))
    begins = np.append(0, np.flatnonzero(~good) + 1)
    first = np.append(np.searchsorted(heads, begins), len(heads))
    blocks = []
    for number in np.flatnonzero(np.diff(first) >= SHORTEST).tolist():
        cut = slice(int(first[number]), int(first[number + 1]))
        blocks.append(
            _block(
                found, int(begins[number]), rank, labels, heads[cut], values[cut], shares[cut], kinds, decodes
            )
        )
    return blocks


def _block(
    found: Found,
    begin: int,
    rank: str | None,
    labels: list[str],
    heads: Ints,
    values: Floats,
    shares: Floats,
    kinds: Codes,
    decodes: _Decodes,
) -> Block:
    order, origin = found.order, found.origin
    ends = heads + len(labels) + 1
    within = kinds[begin : ends[-1]]
    besides = {
        kind: np.cumsum(within == code)[ends - begin - 1]
        for kind, code in (("decode", _DECODE), ("prefill", _PREFILL), ("event", _EVENT))
    }
    subs = order.subs[heads].tolist()
    headers = _values(found, heads, _REPORT, ("cycles", "batch_size", "graph_percent"))
    at = begin + np.flatnonzero(within == _DECODE)
    reported = Reported(
        path=origin.places.path,
        rank=rank,
        labels=labels,
        lines=order.lines[heads],
        offsets=np.array([origin.places.offsets[origin.places.sure[sub]] for sub in subs], np.int64),
        times=[origin.times[sub] for sub in subs],
        cycles=headers[0],
        batch_size=headers[1],
        graph_percent=headers[2],
        values=values,
        shares=shares,
        between=Between(
            DecodeColumns(rank, order.lines[at], decodes.running[at], *(each[at] for each in decodes.others)),
            besides["decode"],
            besides["event"],
            partial(_word, found, begin + np.flatnonzero(within == _EVENT)),
        ),
    )
    return Block(begin, ends, reported, besides, lambda first, last: Decoded(found, rank, at[first:last]))


def _word(found: Found, positions: Ints, number: int) -> Record:
    at = int(positions[number])
    (record,) = found.records(at, at + 1)
    assert isinstance(record, Record)  # tables hold nothing else
    return record


def _usual(found: Found, kinds: Codes) -> tuple[list[str], Ints, Floats, Floats] | None:
    """The labels that most reports in one piece have, where these are, and what their lines say."""
    order = found.order
    heads = np.flatnonzero((kinds == _REPORT) & (order.tails > 0))
    if len(heads) < SHORTEST:
        return None
    size = int(np.bincount(order.tails[heads]).argmax())
    heads = heads[order.tails[heads] == size]
    names, codes = _labels(found, kinds)
    seconds, share, accepted = _values(
        found, np.arange(len(kinds)), _LINE, ("seconds", "share", "accepted_drafts")
    )
    lines = heads[:, None] + 1 + np.arange(size)
    is_accept = codes[lines[0]] == 0
    values = np.where(is_accept, accepted[lines], seconds[lines])
    alike = (codes[lines] == codes[lines[0]]).all(axis=1) & np.isfinite(values).all(axis=1)
    labels = [names[code] for code in codes[lines[0]].tolist()]
    if len(set(labels)) < size or not alike[0] or set(labels) == {ACCEPT}:
        return None
    return labels, heads[alike], values[alike], share[lines][alike]


def _labels(found: Found, kinds: Codes) -> tuple[list[str], Ints]:
    """Names of labels, `accept` first, and by position which one a line has; -1 where it is no line."""
    names: dict[str, int] = {ACCEPT: 0}
    codes = np.full(len(kinds), -1, np.int64)
    for number, table in enumerate(found.tables):
        if table.kind == "accept":
            codes[found.order.which == number] = 0
        elif table.kind == "phase":
            places = found.order.which == number
            labels = table.frame["phase"]
            distinct = labels.unique().drop_nulls().to_list()
            numbers = [names.setdefault(name, len(names)) for name in distinct]
            local = labels.cast(pl.Enum(distinct)).to_physical().fill_null(len(distinct)).to_numpy()
            codes[places] = np.array([*numbers, -1])[local][found.order.where[places]]
    return list(names), codes


def _values(found: Found, at: Ints, code: int, names: tuple[str, ...]) -> Floats:
    """Numbers that the tables of a kind say at these positions, a row a name; NaN where none is said."""
    order = found.order
    values = np.full((len(names), len(at)), np.nan)
    which, where = order.which[at], order.where[at]
    for number, table in enumerate(found.tables):
        if _KINDS.get(table.kind, _OTHER) != code:
            continue
        places = which == number
        for row, name in enumerate(names):
            if name in table.frame.columns and table.frame[name].dtype.is_numeric():
                column = table.frame[name].cast(pl.Float64).to_numpy()
                values[row, places] = column[where[places]]
    return values


def _last_words(found: Found, kinds: Codes) -> Bools:
    """By position, whether it is an event of `LAST_WORDS`."""
    last = np.zeros(len(kinds), np.bool_)
    for number, table in enumerate(found.tables):
        if table.kind == "event":
            places = found.order.which == number
            is_last = table.frame["event"].cast(pl.String).is_in(LAST_WORDS).fill_null(value=False).to_numpy()
            last[places] = is_last[found.order.where[places]]
    return last


class _Decodes:
    """Decode lines by position.

    Attributes:
        plain: Whether there is one that had a graph.
        running: Its requests.
        others: Its tokens, tokens per cycle and token usage, NaN where unknown.
    """

    def __init__(self, found: Found, kinds: Codes) -> None:
        order = found.order
        self.plain = np.zeros(len(kinds), np.bool_)
        self.running = np.zeros(len(kinds), np.int64)
        names = ("tokens", "tokens_per_cycle", "token_usage")
        self.others = _values(found, np.arange(len(kinds)), _DECODE, names)
        for number, table in enumerate(found.tables):
            frame = table.frame
            if table.kind != "decode" or not {"graph", "running_requests"} <= {*frame.columns}:
                continue
            if frame["graph"].dtype != pl.Boolean or not frame["running_requests"].dtype.is_integer():
                continue
            places = order.which == number
            plain = frame.select(
                pl.col("graph").fill_null(value=False) & pl.col("running_requests").is_not_null()
            )
            self.plain[places] = plain.to_series().to_numpy()[order.where[places]]
            running = frame["running_requests"].fill_null(0).cast(pl.Int64).to_numpy()
            self.running[places] = running[order.where[places]]


def _of_one_rank(found: Found, at: Ints, head: int) -> tuple[str | None, Bools]:
    """The rank of a report, and by position whether it is of that rank or of those that need be of none."""
    ranks, order = found.origin.ranks, found.order
    of_rank = np.ones(len(order.which), np.bool_)
    rank = ranks[int(order.subs[head])]
    if ranks.count(rank) < len(ranks):
        subs = order.subs[at].tolist()
        of_rank[at] = [sub >= 0 and ranks[sub] == rank for sub in subs]
    return rank, of_rank
