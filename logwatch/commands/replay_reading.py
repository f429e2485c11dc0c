"""Level 6: the files of one stream of a replay: cut, read in bulk beside, and fed to the pipeline."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from logwatch.grammar.load import load_grammars
from logwatch.model import Cycle, Incident, Judgement, Malformed, Read, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from logwatch.columns import CycleColumns
    from logwatch.commands.replay_window import Window
    from logwatch.config import Config
    from logwatch.intake.archive import Archive
    from logwatch.intake.bulk import Bulk, Chunk
    from logwatch.intake.bulk_columns import Block, Decoded
    from logwatch.model import Item
    from logwatch.pipeline import Pipeline

CHUNK, DENSE_CHUNK = 8 << 20, 4 << 20
"""Bytes read as columns at once, and where `DENSE` records or more a megabyte take much memory."""

DENSE = 2000

SMALL = 256 << 10
"""Inputs up to here are not worth loading polars for."""

MIDLINE = 4 << 20
"""A line that is longer than this while it is read goes through the streaming stages, which bound it."""

LEAVE_AFTER = 100
"""Hundredths of a second that an interrupted replay waits for its reader, who may wait for a silent pipe."""


@dataclass(frozen=True, slots=True)
class Takers:
    """Who takes what comes as columns, in its place between the items.

    Attributes:
        cycles: Takes cycles.
        decodes: Takes the decode lines between cycles that it took, just before these; None: nobody wants them.
    """

    cycles: Callable[[CycleColumns], None]
    decodes: Callable[[Decoded], None] | None = None


class Reading:
    """Reads the files of one stream; what the bulk reader learns from one serves the next.

    Args:
        pipeline: The stream's.
        config: For the grammars.
        takers, window: See `Feeder`.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        config: Config,
        takers: Takers | None = None,
        window: Window | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._config = config
        self._takers = takers
        self._window = window
        self._bulk: Bulk | None = None
        self._wanted = DENSE_CHUNK  # bytes at once; the thread that unpacks may see a change late
        self.unseen: Counter[str] = Counter()

    def items(self, archive: Archive, path: str, progress: Callable[[int], None]) -> Iterator[Item]:
        """Everything that a file gives."""
        feeder = Feeder(self._pipeline, path, self._takers, self._window)
        told = 0
        for consumed, unit in _ahead(self._units(archive, path)):
            yield from feeder.take(unit)
            progress(consumed - told)
            told = consumed
        yield from self._pipeline.finish_file()
        self.unseen += feeder.unseen

    def _units(self, archive: Archive, path: str) -> Iterator[tuple[int, Unit]]:
        """The file's units, and how many bytes of it were read so far."""
        cutter = Cutter(path)
        pieces = self._pieces(archive)
        consumed = size = 0
        for consumed, data in pieces if archive.form == "plain" else _ahead(pieces):
            size += len(data)
            if self._bulk is None and size > SMALL:
                self._bulk = _bulk(self._config)
            for unit in cutter.cut(data, self._bulk):
                found = unit.found
                dense = found is None or found.matched * (1 << 20) > DENSE * len(unit.data)
                self._wanted = DENSE_CHUNK if dense else CHUNK
                yield consumed, unit
        for unit in cutter.finish():
            yield consumed, unit

    def _pieces(self, archive: Archive) -> Iterator[tuple[int, bytes]]:
        """The file's bytes, and how many of it were read so far; of an archive, unpacked in a thread of their own."""
        while data := _gather(archive, self._wanted):
            yield archive.consumed, data


def _bulk(config: Config) -> Bulk:
    from logwatch.intake.bulk import Bulk

    return Bulk(load_grammars(config.grammars.directories))


@dataclass(frozen=True, slots=True)
class Unit:
    """Bytes of a file, and what was read of them in bulk, if they were."""

    data: bytes
    found: Chunk | None = None


class Cutter:
    """Cuts one file into units and reads in bulk those of whole lines; knows nothing of the pipeline.

    Args:
        path: The file, for places.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._line = 1
        self._offset = 0
        self._rest = b""
        self._midline = True  # within a line too long to hold, or at the file's first, which may have a mark

    def cut(self, data: bytes, bulk: Bulk | None) -> Iterator[Unit]:
        """Units that these bytes complete."""
        if not self._midline and (end := data.rfind(b"\n") + 1):
            whole = b"".join((self._rest, memoryview(data)[:end]))  # nearly always, and copied once only
            self._rest = data[end:]
            yield self._unit(whole, bulk)
            return
        data = self._rest + data
        self._rest = b""
        end = data.rfind(b"\n") + 1
        if not end and len(data) <= MIDLINE:
            self._rest = data
            return
        begin = 0
        if self._midline or not end:
            begin = data.find(b"\n") + 1 or len(data)
            yield self._unit(data[:begin], None)
            self._midline = not end
        if begin < end:
            yield self._unit(data[begin:end], bulk)
        self._rest = data[max(begin, end) :]

    def finish(self) -> Iterator[Unit]:
        """The file ends here."""
        if self._rest:
            yield self._unit(self._rest, None)

    def _unit(self, data: bytes, bulk: Bulk | None) -> Unit:
        found = bulk.read(data, self._path, self._line, self._offset) if bulk else None
        self._line += found.lines if found else data.count(b"\n")
        self._offset += len(data)
        return Unit(data, found)


class Feeder:
    """Feeds the units of one file to a pipeline: what was read in bulk so, the rest as bytes.

    Args:
        pipeline: Stands at the file's beginning.
        path: The file.
        takers: Of what may come as columns; None: all cycles are items.
        window: Which the pipeline keeps to, or None.

    Attributes:
        unseen: Records by kind that were not given as items.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        path: str,
        takers: Takers | None = None,
        window: Window | None = None,
    ) -> None:
        self.unseen: Counter[str] = Counter()
        self._pipeline = pipeline
        self._takers = takers
        self._window = window
        self._path = path
        self._offset = 0

    def take(self, unit: Unit) -> Iterator[Item]:
        """Items that a unit completes."""
        found, pipeline, size = unit.found, self._pipeline, len(unit.data)
        self._offset += size
        # A part of a message is awaited, or so many answers that it matters where each is.
        if found is None or pipeline.memory.framing.parts or pipeline.must_read(found.unclaimed):
            yield from pipeline.feed_bytes(unit.data)
            return
        yield from self._chunk_in_window(found)
        pipeline.pass_over()
        pipeline.start_file(self._path, pipeline.line + found.lines, self._offset)
        ignored = found.lines - found.matched - found.malformed
        yield Read(pipeline.stream, self._path, size, found.lines, found.matched, ignored, found.malformed)

    def _chunk_in_window(self, found: Chunk) -> Iterator[Item]:
        """Items of a chunk; where the window says the same of all of it, its records are not asked for one by one."""
        kept = None if self._window is None else self._window.keeps_all(found)
        if kept is None:
            yield from self._chunk(found)
        elif kept:
            with self._pipeline.keeping_all():
                yield from self._chunk(found)

    def _chunk(self, found: Chunk) -> Iterator[Item]:
        """Items of a chunk; of reports in one piece only what comes after their records."""
        entries = found.entries if self._takers is None else found.blocks
        for entry in entries(self._passed_over):
            if isinstance(entry, (Record, Malformed)):
                yield from self._pipeline.feed_records((entry,))
                continue
            if not isinstance(entry, tuple):
                yield from self._block(entry)
                continue
            piece, records = entry
            items = self._pipeline.feed_whole(piece)
            if items is None:
                yield from self._pipeline.feed_records(records())
            else:
                self.unseen["report"] += 1
                self.unseen["phase"] += len(piece.phases_s)
                self.unseen["accept"] += len(piece.labels) - len(piece.phases_s)
                yield from items

    def _block(self, block: Block) -> Iterator[Item]:
        """Items of those reports of a block that the pipeline takes as columns."""
        reported = block.offered
        takers = self._takers
        if takers is None or (block.has_prefills and not self._pipeline.learns_nothing_of_prefills()):
            return
        cycles = self._pipeline.plan_columns(reported)
        if cycles is None:
            return
        block.taken = len(cycles)
        self.unseen += block.seen(block.taken)
        if takers.decodes is not None and (decodes := block.decoded(block.taken)).positions.size:
            takers.decodes(decodes)
        for item in self._pipeline.feed_columns(reported, cycles):
            if isinstance(item, (Cycle, Judgement, Incident)):
                yield item
            else:
                takers.cycles(item)

    def _passed_over(self, kind: str, count: int) -> bool:
        """Whether so many records of this kind would change nothing; then they are counted only."""
        if not self._pipeline.learns_nothing_of_prefills():
            return False
        self.unseen[kind] += count
        return True


T = TypeVar("T")


def _ahead(source: Iterator[T]) -> Iterator[T]:
    """What a source gives, made in a thread while what came before is used: one ahead, not more."""
    ready: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(maxsize=1)
    stop = threading.Event()

    def fill() -> None:
        try:
            for each in source:
                ready.put((True, each))
                if stop.is_set():
                    return
            ready.put((False, None))
        except BaseException as error:  # noqa: BLE001 - is raised where the items are wanted
            ready.put((False, error))

    thread = threading.Thread(target=fill, name="logwatch-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            more, each = ready.get()
            if more:
                yield cast("T", each)
            elif isinstance(each, BaseException):
                raise each
            else:
                return
    finally:
        stop.set()
        for _ in range(LEAVE_AFTER):
            if not thread.is_alive():
                break
            with suppress(queue.Empty):
                ready.get(timeout=0.01)


def _gather(archive: Archive, wanted: int) -> bytes:
    """So many bytes; fewer at the end."""
    pieces, size = [], 0
    while size < wanted and (data := archive.read(wanted - size)):
        pieces.append(data)
        size += len(data)
    return b"".join(pieces)
