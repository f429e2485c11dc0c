"""Level 3: which lines of a chunk may hold one of many texts (used by `bulk.py`).

A search for up to 16 short texts goes at some gigabytes a second (Rust's regex compares them all at once, in
registers); for more it falls back on an automaton that takes a step a byte, six times as slow. So each text is
stood for by one of its parts of three characters: parts that several texts share, and that are rare in the log
at hand. A line that holds a part may still not hold the text, so a second look follows at these lines only.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

AT_ONCE: Final = 16
PART: Final = 3
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
        self._long = [text for text in texts if len(text) >= PART]
        self._short = [text for text in texts if len(text) < PART]
        self._looks: list[str] = []

    def wanted(self, lines: pl.DataFrame, data: bytes, *, dense: bool) -> pl.DataFrame:
        """The rows of which `line` holds one of the texts.

        Args:
            lines: With lines of a chunk as `line`.
            data: The chunk.
            dense: Whether many lines will be wanted: then looking twice does not pay.
        """
        line, found = pl.col("line"), lines
        if not dense:
            looks = [line.str.contains(text, literal=True) for text in self._short if text.encode() in data]
            looks += [line.str.contains(look) for look in self._looks or self._choose(data)]
            found = lines.filter(pl.any_horizontal(pl.lit(value=False), *looks))
        return found.filter(line.str.contains(self._wanted))

    def _choose(self, data: bytes) -> list[str]:
        middle = max(0, len(data) - SAMPLE) // 2
        chosen = parts(self._long, data[middle : middle + SAMPLE].decode("utf-8", "replace"))
        self._looks = [
            "|".join(map(re.escape, chosen[begin : begin + AT_ONCE]))
            for begin in range(0, len(chosen), AT_ONCE)
        ]
        return self._looks


def parts(texts: Sequence[str], sample: str) -> list[str]:
    """Parts of `PART` characters of which each text holds one; few, and rare in the sample.

    >>> parts(["Decode batch", "Prefill batch", "batches"], "a batch of batches")
    ['bat', ...]
    """
    counts = Counter(sample[at : at + PART] for at in range(len(sample) - PART + 1))
    left = [{text[at : at + PART] for at in range(len(text) - PART + 1)} for text in texts]
    chosen: list[str] = []
    while left:
        shared = Counter(part for held in left for part in held)
        best = max(shared, key=lambda part: (shared[part] / (1 + counts[part]), part))
        chosen.append(best)
        left = [held for held in left if best not in held]
    return chosen
