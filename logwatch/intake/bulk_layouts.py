"""Level 3: lines that differ from one seen before in digits only, a layout at a time (used by `bulk.py`).

A program writes the same line again and again; only figures change, and mostly not their widths. From a line
that the streaming reader took, a `Layout` is made: which of its bytes are digits that may change, and where its
fields stand (`bulk_learning`). Every line that is equal to it in all other bytes, and has digits in these places,
is the same record with other figures: an expression of a grammar does not tell one digit from another. Lines of
one length are laid out as a matrix and compared eight bytes at a time, and figures are summed up from columns of
digits, so that a line costs some hundred nanoseconds instead of some thousand.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from logwatch.intake.bulk_found import Ints
    from logwatch.model import Value

Bytes: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint8]]"
Floats: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float64]]"
Bools: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"
Key: TypeAlias = tuple[bytes, bytes]
Words: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.uint64]]"

WORD: Final = 8
MOST_DIGITS: Final = 15
"""Of a figure: as many are exact in a float."""
MOST_LAYOUTS: Final = 512
MOST_PREFIXES: Final = 64
BARE: Final = -1
UNKNOWN: Final = -2
"""Instead of the index of a prefix: there is none, there is one that is not known."""
DATE_SIZE: Final = 10
LONGEST: Final = 1024
"""Bytes of a message that may have a layout."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number in a message.

    Attributes:
        places: Positions of its digits.
        power: Power of ten that takes the digits, read as a whole number, to the field's value.
        whole: Whether the value is an `int`.
        most: The largest value that is sane.
    """

    name: str
    places: tuple[int, ...]
    power: int
    whole: bool
    most: float


class Mask:
    """A text in which some digits may be any: compares rows of words with it.

    Args:
        text: The sample.
        free: Positions of the digits that may change.
    """

    def __init__(self, text: bytes, free: Sequence[int]) -> None:
        self.size = len(text)
        self.words = -(-self.size // WORD)
        expected, counts, sixes = (np.zeros(self.words * WORD, np.uint8) for _ in range(3))
        expected[: self.size] = np.frombuffer(text, np.uint8)
        counts[: self.size] = 0xFF
        places = np.array(free, np.int64)
        expected[places], counts[places], sixes[places] = 0x30, 0xF0, 6
        self.key = (expected.tobytes(), counts.tobytes())
        self._expected, self._counts, self._sixes = (
            each.view("<u8") for each in (expected, counts, sixes)
        )  # fmt: skip

    def fits(self, rows: Words) -> Bools:
        """Which rows are the text, but for its free digits.

        A digit is 0 to 9 once `0` is taken off by XOR: it has no high half, nor when six are added. A carry
        into the next byte comes only from bytes that are wrong already.
        """
        wrong = rows ^ self._expected
        wrong |= wrong + self._sixes
        wrong &= self._counts
        fits: Bools = np.bitwise_or.reduce(wrong, axis=1) == 0
        return fits


class Layout:
    """A message whose digits may change.

    Args:
        message: The sample, without its line end.
        free: Positions of the digits that may change.
        kind: Of its record.
        constants: Its fields that are no figures.
        figures: The others.

    Attributes:
        hits: Lines that it took, those of long ago counting less.
    """

    def __init__(
        self,
        message: bytes,
        free: Sequence[int],
        kind: str,
        constants: dict[str, Value],
        figures: Sequence[Figure],
    ) -> None:
        self.mask = Mask(message + b"\n", free)
        self.hits = 0
        self.free = tuple(free)
        self.kind = kind
        self.constants = constants
        self.figures = tuple(figures)
        self.fields = (
            kind,
            tuple((name, type(value)) for name, value in constants.items()),
            tuple((figure.name, figure.whole) for figure in figures),
        )
        self._places = np.array([place for figure in figures for place in figure.places], np.int64)
        weights = [10**at for figure in figures for at in range(len(figure.places) - 1, -1, -1)]
        self._weights = np.array(weights, np.int64)
        self._begins = np.cumsum([0, *(len(figure.places) for figure in figures[:-1])])

    def values(self, rows: Words) -> tuple[dict[str, Ints | Floats], Bools]:
        """By figure its value in each row, and which rows' values are all sane."""
        sane = np.ones(len(rows), np.bool_)
        if not self.figures:
            return {}, sane
        digits = rows.view(np.uint8).T[self._places] & 0x0F
        sums = np.add.reduceat(digits * self._weights[:, np.newaxis], self._begins, axis=0)
        found: dict[str, Ints | Floats] = {}
        for at, figure in enumerate(self.figures):
            value: Ints | Floats = sums[at] if figure.whole else _scaled(sums[at], figure.power)
            sane &= value <= figure.most
            found[figure.name] = value
        return found, sane


def _scaled(sums: Ints, power: int) -> Floats:
    """Whole numbers times a power of ten, rounded once, and so what `float` makes of the text."""
    return cast("Floats", sums / 10.0**-power if power < 0 else sums * 10.0**power)


@dataclass(slots=True)
class Prefix:
    """SGLang's prefix with its rank; digits of its date and clock may change.

    Attributes:
        clock_end: Position behind the clock, which is a blank's behind the date, which is at 1.
        rank: What its tags say.
    """

    mask: Mask
    clock_end: int
    rank: str | None


@dataclass(slots=True)
class Taken:
    """Lines that one layout took.

    Attributes:
        rows: Their indices in what was asked for.
        values: By figure.
    """

    layout: Layout
    rows: Ints
    values: dict[str, Ints | Floats]


@dataclass
class Layouts:
    """The layouts and prefixes that were learnt so far."""

    prefixes: list[Prefix] = field(default_factory=list)
    _known: dict[tuple[Key, bool], Layout] = field(default_factory=dict)
    _by_size: dict[tuple[int, bool], list[Layout]] | None = None

    def add_prefix(self, text: bytes, free: Sequence[int], clock_end: int, rank: str | None) -> None:
        """Learn a prefix, unless it is known."""
        mask = Mask(text, free)
        if len(self.prefixes) < MOST_PREFIXES and all(each.mask.key != mask.key for each in self.prefixes):
            self.prefixes.append(Prefix(mask, clock_end, rank))

    def add(self, layout: Layout, *, bare: bool) -> bool:
        """Learn a layout; whether it was new."""
        key = (layout.mask.key, bare)
        if key in self._known:
            return False
        if len(self._known) >= MOST_LAYOUTS:
            self._forget()
        self._known[key] = layout
        self._by_size = None
        return True

    def _forget(self) -> None:
        """Forget half of the layouts: those that took the fewest lines of late."""
        ranked = sorted(self._known.items(), key=lambda each: -each[1].hits)
        self._known = dict(ranked[: MOST_LAYOUTS // 2])
        for layout in self._known.values():
            layout.hits //= 2

    def take(self, data: Bytes, starts: Ints, ends: Ints) -> tuple[list[Taken], Ints]:
        """What the layouts fit of some lines, and by line the index of its prefix, `BARE` or `UNKNOWN`.

        Args:
            data: The chunk.
            starts: By line, its first byte.
            ends: By line, the position behind its line end.
        """
        prefixes = self._prefixes(data, starts)
        sizes = np.array([prefix.mask.size for prefix in self.prefixes] + [0, 0], np.int64)
        begins = starts + sizes[prefixes]  # -1 and -2 are the two at the end
        taken: list[Taken] = []
        for layouts, rows in self._by_length(ends - begins, prefixes):
            words = max(layout.mask.words for layout in layouts)
            left, matrix = rows, words_from(data, begins[rows], words)
            for layout in sorted(layouts, key=lambda each: -each.hits):
                if not len(left):
                    break
                fits = layout.mask.fits(matrix)
                if not fits.any():
                    continue
                values, sane = layout.values(matrix if fits.all() else matrix[fits])
                if not sane.all():
                    fits[fits] = sane
                    values = {name: value[sane] for name, value in values.items()}
                taken.append(Taken(layout, left[fits], values))
                layout.hits += len(taken[-1].rows)
                left, matrix = left[~fits], matrix[~fits]
        return taken, prefixes

    def _prefixes(self, data: Bytes, starts: Ints) -> Ints:
        """By line, the index of its prefix, `BARE` or `UNKNOWN`."""
        first = data[starts]
        prefixes = np.where(first == ord(" "), BARE, UNKNOWN)
        if not self.prefixes:
            return prefixes
        words = max(prefix.mask.words for prefix in self.prefixes)
        rows = np.flatnonzero(first == ord("["))
        matrix = words_from(data, starts[rows], words)
        for index, prefix in enumerate(self.prefixes):
            if not len(rows):
                break
            fits = prefix.mask.fits(matrix[:, : prefix.mask.words])
            prefixes[rows[fits]] = index
            rows, matrix = rows[~fits], matrix[~fits]
        return prefixes

    def _by_length(self, sizes: Ints, prefixes: Ints) -> Iterator[tuple[list[Layout], Ints]]:
        """Lines whose length some layouts have, and these layouts."""
        keys = np.where(
            (prefixes == UNKNOWN) | (sizes > LONGEST) | (sizes < 0), 0, sizes * 2 + (prefixes == BARE)
        )
        if self._by_size is None:
            self._by_size = defaultdict(list)
            for (_, bare), layout in self._known.items():
                self._by_size[layout.mask.size, bare].append(layout)
        some = np.zeros(2 * LONGEST + 2, np.bool_)
        for size, bare in self._by_size:
            some[size * 2 + bare] = True
        rows = np.flatnonzero(some[keys])
        keys = keys[rows].astype(np.uint16)
        order = np.argsort(keys, kind="stable")
        rows, keys = rows[order], keys[order]
        bounds = np.flatnonzero(np.diff(keys, prepend=0, append=0xFFFF))
        for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            key = int(keys[begin])
            yield self._by_size[key // 2, bool(key % 2)], rows[begin:end]


def words_from(data: Bytes, begins: Ints, words: int) -> Words:
    """(rows, words): eight bytes each, from where each row begins, in order; zeros behind the data's end."""
    size = words * WORD
    within = int(np.searchsorted(begins, len(data) - size, side="right"))
    found = _from(data, begins[:within], size)
    if within < len(begins):
        last = max(0, len(data) - size)
        tail = np.concatenate([data[last:], np.zeros(size, np.uint8)])
        found = np.concatenate([found, _from(tail, begins[within:] - last, size)])
    return found.view("<u8").reshape(-1, words)


def _from(data: Bytes, begins: Ints, size: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """So many bytes from each place on."""
    every = np.ndarray((max(0, len(data) - size + 1),), f"V{size}", data.data, strides=(1,))
    return every[begins]
