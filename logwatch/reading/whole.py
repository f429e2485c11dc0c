"""Level 2: the quick way for a report that comes in one piece (used by the bulk entrance).

A server writes a report with one log call: a header, then its lines without a prefix of their own, nothing
between. Where a rank's reports have always looked alike, what `Cycles` makes of such a piece is plain.
`tests/test_watch_equals_replay.py` holds this against `Cycles` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from logwatch.reading.reports import Done, Report, key_of

if TYPE_CHECKING:
    from logwatch.model import Cycle, Place
    from logwatch.reading.cycles import Cycles

_SHAPES = 4


class Piece(NamedTuple):
    """A header and all its lines.

    Attributes:
        place, time, rank: Of the header; the lines have no time and rank of their own.
        cycles, batch_size, graph_percent: What the header says.
        labels: Of the lines in order, `accept` among them.
        phases_s, shares: By label.
        accepted_drafts: Of the `accept` line.
    """

    place: Place
    time: str | None
    rank: str | None
    cycles: float | None
    batch_size: float | None
    graph_percent: float | None
    labels: list[str]
    phases_s: dict[str, float]
    shares: dict[str, float]
    accepted_drafts: float | None


def whole_report(cycles: Cycles, piece: Piece) -> list[Cycle] | None:
    """The cycles of a report in one piece; None where it is not plain, and nothing is changed then.

    Args:
        cycles: The stage; its memory goes on as if it had been fed line by line.
        piece: The report.
    """
    memory = cycles.memory
    reports, run = memory.reports, memory.run
    key = key_of(piece.rank, None)
    labels = piece.labels
    known = reports.ranks.get(key)
    nameless = reports.ranks.get("")
    if run.number < 0 or reports.headed or known is None or known.open or (nameless and nameless.open):
        return None
    if not known.shapes or any(shape != labels for shape in known.shapes) or not piece.phases_s:
        return None
    run.busy = run.profiled = True
    run.ended = False
    run.held = []
    report = Report(
        piece.place,
        piece.time,
        header=True,
        cycles=None if piece.cycles is None else int(piece.cycles),
        batch_size=piece.batch_size,
        graph_percent=piece.graph_percent,
        labels=labels,
        phases_s=piece.phases_s,
        shares=piece.shares,
        accepted_drafts=piece.accepted_drafts,
    )
    known.closed = report
    known.shapes = [*known.shapes, labels][-_SHAPES:]
    reports.touched = [key] * min(len(labels), 2)
    reports.last_headed[""] = key
    return list(cycles._cycles([Done(key, report)]))  # noqa: SLF001 - one stage in two modules
