"""Level 5: a large backlog by the bulk path: the items are those of the bytes, at the speed of a replay.

After hours of downtime a followed file may hold gigabytes that nobody read. They come from the tail as whole lines;
here these are read as columns, and what is left of them goes through the same pipeline. What bulk refuses goes through
it as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from logwatch.grammar.load import load_grammars
from logwatch.model import Item, Read

if TYPE_CHECKING:
    from logwatch.intake import chunks
    from logwatch.intake.bulk import Bulk, Chunk
    from logwatch.pipeline import Pipeline


class Backlog:
    """Reads bulk chunks; what it learns from one serves the next.

    Args:
        directories: Of grammars, as configured. Polars is not loaded before the first chunk.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories
        self._bulk: Bulk | None = None

    def items(self, pipeline: Pipeline, part: chunks.Chunk) -> Iterator[Item]:
        """What a chunk of whole lines gives; the pipeline stands at its beginning, and then at its end."""
        offset = part.offset
        for data in _pieces(part):
            found = None
            if offset and not pipeline.memory.framing.parts:  # else a part of a message is awaited
                found = self._reader().read(data, part.path, pipeline.line, offset)
            offset += len(data)
            if found is None or pipeline.must_read(found.unclaimed):
                yield from pipeline.feed_bytes(data)
                continue
            yield from _feed(pipeline, found)
            pipeline.pass_over()
            pipeline.start_file(part.path, pipeline.line + found.lines, offset)
            ignored = found.lines - found.matched - found.malformed
            yield Read(
                pipeline.stream, part.path, len(data), found.lines, found.matched, ignored, found.malformed
            )

    def _reader(self) -> Bulk:
        if self._bulk is None:
            from logwatch.intake.bulk import Bulk  # noqa: PLC0415  # loads polars

            self._bulk = Bulk(load_grammars(self._directories))
        return self._bulk


def _pieces(part: chunks.Chunk) -> Iterator[bytes]:
    """Its bytes; a file's first line, which may begin with a byte order mark, by itself."""
    first = part.data.find(b"\n") + 1 if part.offset == 0 else 0
    yield from filter(None, (part.data[:first], part.data[first:]))


def _feed(pipeline: Pipeline, found: Chunk) -> Iterator[Item]:
    """Items of a chunk; of reports in one piece only what comes after their records."""
    for entry in found.entries(lambda *_: pipeline.learns_nothing_of_prefills()):
        if not isinstance(entry, tuple):
            yield from pipeline.feed_records((entry,))
            continue
        piece, records = entry
        items = pipeline.feed_whole(piece)
        if items is None:
            yield from pipeline.feed_records(records())
        else:
            yield from items
