"""Level 3: what streams put into the families as the text of a scrape, written anew only where it changed.

The lines are those that `prometheus_client` would write, character for character; a property test compares them.
It would take 150 ms for 200 streams, in which the pipeline waits for the interpreter as much as the scrape does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import NamedTuple

from prometheus_client.utils import floatToGoString

from logwatch.outlets.metrics_families import (
    HELP,
    Bands,
    open_kinds,
    write_bands,
    write_phase,
    write_rank,
    write_stream,
)
from logwatch.outlets.metrics_memory import MetricsMemory, PhaseMemory
from logwatch.outlets.metrics_samples import EDGES, exemplar_of

_PLAIN_BELOW = 1_000_000
"""Whole numbers from here on are written with an exponent, as Go does."""

_NAMES = {
    name: f"logwatch_{name}" + {"counter": "_total", "info": "_info"}.get(kind, "")
    for name, (kind, _) in HELP.items()
}


class Text:
    """A pen that writes lines, by family.

    Args:
        exemplars: Whether the format has them.
    """

    def __init__(self, *, exemplars: bool) -> None:
        self._lines: dict[str, list[str]] = {}
        self._exemplars = exemplars
        self._labels: Mapping[str, str] | None = None
        self._inner = ""

    def add(self, name: str, labels: Mapping[str, str], value: float | None) -> None:
        """A sample of the family, unless the value is not known."""
        if value is not None:
            line = f"{_NAMES[name]}{{{self._text_of(labels)}}} {_number(value)}\n"
            self._lines.setdefault(name, []).append(line)

    def histogram(self, name: str, labels: Mapping[str, str], phase: PhaseMemory) -> None:
        """The samples of a phase's histogram; of its labels, `le` comes first in the alphabet."""
        inner, own = self._text_of(labels), _NAMES[name]
        counts = list(accumulate(phase.buckets))
        lines = [
            f'{own}_bucket{{le="{edge}",{inner}}} {_number(count)}\n'
            for edge, count in zip(EDGES, counts, strict=True)
        ]
        if self._exemplars:
            for bucket in phase.sightings:
                lines[bucket] = lines[bucket][:-1] + _exemplar(phase, bucket)
        lines.append(f"{own}_count{{{inner}}} {_number(counts[-1])}\n")
        lines.append(f"{own}_sum{{{inner}}} {_number(phase.sum_s)}\n")
        self._lines.setdefault(name, []).extend(lines)

    def joined(self) -> dict[str, str]:
        """The lines by family."""
        return {name: "".join(lines) for name, lines in self._lines.items()}

    def _text_of(self, labels: Mapping[str, str]) -> str:
        if labels is not self._labels:
            self._labels = labels
            self._inner = ",".join(f'{key}="{_escape(value)}"' for key, value in sorted(labels.items()))
        return self._inner


class _Part(NamedTuple):
    """The text of one stream, rank or phase by family, and what it was written from."""

    source: object
    is_open: Mapping[tuple[str, str], int]
    text: Mapping[str, str]


class Pages:
    """The text of all streams; the part of a stream, rank or phase whose memory is the same object is kept.

    It is for memories whose streams, ranks and phases are replaced when they change, and never altered.

    Args:
        exemplars: Whether the format has them.
    """

    def __init__(self, *, exemplars: bool) -> None:
        self._exemplars = exemplars
        self._parts: dict[tuple[str, ...], _Part] = {}
        self._bands: Bands = {}

    def write(self, memory: MetricsMemory) -> dict[str, str]:
        """The lines of the streams, by family."""
        before = self._parts if self._bands == memory.bands else {}
        parts: dict[tuple[str, ...], _Part] = {}
        is_open, none_open = open_kinds(memory), dict[tuple[str, str], int]()
        for name, stream in memory.streams.items():
            part = before.get((name,))
            if part is None or part.source is not stream:
                pen = Text(exemplars=self._exemplars)
                write_stream(pen, name, stream, memory.bands)
                part = _Part(stream, none_open, pen.joined())
            parts[name,] = part
            for tags, rank in stream.ranks.items():
                opened = is_open.get((name, tags), none_open)
                part = before.get((name, tags))
                if part is None or part.source is not rank or part.is_open != opened:
                    pen = Text(exemplars=self._exemplars)
                    write_rank(pen, name, tags, rank, opened)
                    part = _Part(rank, opened, pen.joined())
                parts[name, tags] = part
                for phase, each in rank.phases.items():
                    part = before.get((name, tags, phase))
                    if part is None or part.source is not each:
                        pen = Text(exemplars=self._exemplars)
                        write_phase(pen, name, tags, phase, each, memory.bands)
                        part = _Part(each, none_open, pen.joined())
                    parts[name, tags, phase] = part
        self._parts, self._bands = parts, memory.bands
        if not parts:
            pen = Text(exemplars=self._exemplars)
            write_bands(pen, "", memory.bands)
            return pen.joined()
        return _joined(part.text for part in parts.values())


def _joined(texts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    pieces: dict[str, list[str]] = {}
    for text in texts:
        for name, lines in text.items():
            pieces.setdefault(name, []).append(lines)
    return {name: "".join(each) for name, each in pieces.items()}


def _number(value: float) -> str:
    if isinstance(value, int) and 0 <= value < _PLAIN_BELOW:
        return f"{value:d}.0"
    return str(floatToGoString(float(value)))  # type: ignore[no-untyped-call]  # it has no types


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _exemplar(phase: PhaseMemory, bucket: int) -> str:
    seen = exemplar_of(phase.sightings[bucket])
    labels = ",".join(f'{key}="{_escape(value)}"' for key, value in sorted(seen.labels.items()))
    return f" # {{{labels}}} {_number(seen.value)}\n"
