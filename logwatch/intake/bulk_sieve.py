"""Level 3: which lines of a chunk may hold one of many texts (used by `bulk.py`).

A search for up to 16 short texts goes at some gigabytes a second (Rust's regex compares them all at once, in
registers); for more it falls back on an automaton that takes a step a byte, six times as slow. So each text is
stood for by one of its parts of two or three characters: parts that several texts share, and that are rare in the
log at hand. A line that holds a part may still not hold the text, so a second look follows at these lines only.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

AT_ONCE: Final = 16
SIZES: Final = (2, 3)
"""Of parts."""
SHARING: Final = (1, 3)
"""How much more it counts that a part is shared than that it is rare: what is best depends on the log."""
SECOND_LOOK: Final = 8
"""What a second look costs, in goes."""
SAMPLE: Final = 64 << 10
"""Bytes of a log in which parts are counted."""


class Sieve:
    """Finds the lines that hold one of the texts.

    Args:
        texts: What is looked for.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        texts = sorted(texts)
        self._wanted = "|".join(map(re.escape, texts))
        self._long = [text for text in texts if len(text) >= max(SIZES)]
        self._short = [text for text in texts if len(text) < max(SIZES)]
        self._looks: list[str] = []

    def likely(self, lines: pl.DataFrame, data: bytes) -> pl.DataFrame:
        """The rows of which `line` may hold one of the texts.

        Args:
            lines: With lines of a chunk as `line`.
            data: The chunk.
        """
        line = pl.col("line")
        looks = [line.str.contains(text, literal=True) for text in self._short if text.encode() in data]
        looks += [line.str.contains(look) for look in self._looks or self._choose(data)]
        return lines.filter(pl.any_horizontal(pl.lit(value=False), *looks))

    def certain(self, likely: pl.DataFrame) -> pl.DataFrame:
        """Those of the likely rows that hold one."""
        return likely.filter(pl.col("line").str.contains(self._wanted))

    def _choose(self, data: bytes) -> list[str]:
        """The parts that cost least in a sample, as expressions."""
        middle = max(0, len(data) - SAMPLE) // 2
        sample = data[middle : middle + SAMPLE].decode("utf-8", "replace")
        lines = sample.split("\n")
        ways = [parts(self._long, sample, size, sharing) for size in SIZES for sharing in SHARING]
        chosen = min(ways, key=lambda way: _cost(way, lines))
        self._looks = [
            "|".join(map(re.escape, chosen[begin : begin + AT_ONCE]))
            for begin in range(0, len(chosen), AT_ONCE)
        ]
        return self._looks


def _cost(chosen: Sequence[str], lines: Sequence[str]) -> float:
    """In goes over all lines."""
    hits = sum(any(part in line for part in chosen) for line in lines)
    return -(-len(chosen) // AT_ONCE) + SECOND_LOOK * hits / len(lines)


def parts(texts: Sequence[str], sample: str, size: int, sharing: int = 1) -> list[str]:
    """Parts of so many characters of which each text holds one; few, and rare in the sample.

    >>> parts(["Decode batch", "Prefill batch", "Killed"], "batched decoding", 3)
    ['ill', 'ode']
    """
    counts = Counter(sample[at : at + size] for at in range(len(sample) - size + 1))
    left = [{text[at : at + size] for at in range(len(text) - size + 1)} for text in texts]
    chosen: list[str] = []
    while left:
        shared = Counter(part for held in left for part in held)
        best = max(shared, key=lambda part: (shared[part] ** sharing / (1 + counts[part]), part))
        chosen.append(best)
        left = [held for held in left if best not in held]
    return chosen
