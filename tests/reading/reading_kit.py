"""Records as the grammars give them, and the whole reading from bytes to cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import Any

from logwatch.grammar.load import load_grammars
from logwatch.grammar.streaming import Reader
from logwatch.model import Cycle, Malformed, Place, Record, RunStarted
from logwatch.reading.cycles import Cycles
from logwatch.reading.framing import Framing
from logwatch.reading.lines import Lines
from logwatch.reading.records import Records

Out = Record | Malformed | RunStarted | Cycle

DRAFT, VERIFY, EXTEND, TOTAL = "draft_forward", "target_verify", "draft_extend", "total_cycle"


@cache
def reader() -> Reader:
    return Reader(load_grammars())


def record(
    kind: str, rank: str | None = None, time: str | None = None, line: int = 1, **fields: Any
) -> Record:
    return Record(
        Place("x", -1, line),
        kind,
        {key: value for key, value in fields.items() if value is not None},
        time,
        rank,
    )


def header(rank: str | None = None, cycles: int = 100, **fields: Any) -> Record:
    return record("report", rank, cycles=cycles, **fields)


def phase(label: str, ms: float, rank: str | None = None, **fields: Any) -> Record:
    return record("phase", rank, phase=label, seconds=ms / 1000, **fields)


def accept(drafts: float, rank: str | None = None) -> Record:
    return record("accept", rank, accepted_drafts=drafts)


def decode(throughput: float | None, running: int = 1, rank: str | None = None, **fields: Any) -> Record:
    return record("decode", rank, running_requests=running, generation_tokens_per_second=throughput, **fields)


def prefill(rank: str | None = None) -> Record:
    return record("prefill", rank, new_sequences=1)


def server_args(**settings: str) -> Record:
    return record("server_args", settings=settings)


def event(name: str, rank: str | None = None) -> Record:
    return record("event", rank, event=name, text=name)


def fed(items: Iterable[Record | Malformed], cycles: Cycles | None = None) -> list[Out]:
    """What comes out before the input ends."""
    cycles = cycles or Cycles("s")
    return [out for item in items for out in cycles.feed(item)]


def read(items: Iterable[Record | Malformed]) -> list[Out]:
    """All that comes out."""
    cycles = Cycles("s")
    return [*fed(items, cycles), *cycles.finish()]


def cycles_of(items: Iterable[Out]) -> list[Cycle]:
    return [item for item in items if isinstance(item, Cycle)]


def milliseconds(cycle: Cycle) -> dict[str, float]:
    return {phase: round(seconds * 1000, 6) for phase, seconds in cycle.phases_s.items()}


def read_bytes(chunks: Iterable[bytes], path: str = "x") -> Iterator[Out]:
    """All that comes out of bytes."""
    lines, framing, records, cycles = Lines(path), Framing(), Records(reader()), Cycles("s")
    every_line = chain(chain.from_iterable(map(lines.feed, chunks)), lines.finish())
    every_frame = chain(chain.from_iterable(map(framing.feed, every_line)), framing.finish())
    for one in chain.from_iterable(map(records.feed, every_frame)):
        yield from cycles.feed(one)
    yield from cycles.finish()
