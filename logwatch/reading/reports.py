"""Level 2: EAGLE3_PROFILE reports put together from their lines, per rank (used by `cycles.py`).

A report is an optional header, phase lines and an `Accept len` line, in any subset and order. Where it ends
is not written, and must be known without waiting for the next one, for that comes seconds later. So each
rank's reports teach their *shape*, the labels of their lines: a report is complete as soon as it has every
label that the rank's last few reports had. Only the order of lines decides, never their times or the chunks
they came in.

A report also ends

- at the rank's next header, or at a label that it already has;
- before the first shape is known: when it has all five lines that SGLang's patches and the plugin write, or
  at the rank's next decode or prefill line;
- without a header: behind `total_cycle` or `accept`, which the field writes last, if other lines came before.

A line that comes after its report was thought complete makes one more report with the same header, and the
longer shape is learned. Lines without a rank that follow a header with one belong to that header (one log
call writes both); where several such headers are open, each line goes where the shape expects it next.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from logwatch.model import Place

ACCEPT = "accept"
_WHOLE = frozenset({"draft_forward", "target_verify", "draft_extend", "total_cycle", ACCEPT})
_LAST_LINES = ("total_cycle", ACCEPT)
_SHAPES = 4  # reports of a rank whose labels are remembered
_MOST_LABELS = 64  # in one report


@dataclass(slots=True)
class Report:
    """A report of one rank, as far as it has come.

    Attributes:
        place, time: Of its first line that says them.
        header: Whether it has a header.
        labels: Phases in order of appearance, and `accept`.
    """

    place: Place
    time: str | None
    header: bool = False
    cycles: int | None = None
    batch_size: float | None = None
    graph_percent: float | None = None
    labels: list[str] = field(default_factory=list)
    phases_s: dict[str, float] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    accepted_drafts: float | None = None

    def begun_again(self, place: Place) -> Report:
        """A report with the same header for a line that came too late."""
        return Report(place, self.time, self.header, self.cycles, self.batch_size, self.graph_percent)


@dataclass(slots=True)
class RankReports:
    """What is remembered of one rank's reports.

    Attributes:
        open: The report that lines are added to.
        closed: The last complete one, until its rank's next header.
        shapes: Labels of the last few, oldest first.
    """

    open: Report | None = None
    closed: Report | None = None
    shapes: list[list[str]] = field(default_factory=list)


@dataclass(slots=True)
class ReportsMemory:
    """What is remembered of all ranks' reports, by `key_of` a rank.

    Attributes:
        headed: Ranks whose open report has a header, in the order of the headers.
        last_headed: The rank whose report with a header was completed last, by writer.
        touched: The ranks that the last two lines without a rank went to since the last header.
    """

    ranks: dict[str, RankReports] = field(default_factory=dict)
    headed: list[str] = field(default_factory=list)
    last_headed: dict[str, str] = field(default_factory=dict)
    touched: list[str] = field(default_factory=list)


def key_of(rank: str | None, writer: str | None) -> str:
    """One text for a rank and the process that wrote: `TP0`, `TP0@Engine pid=1`, `@Engine pid=1` or empty."""
    return f"{rank or ''}@{writer}" if writer else rank or ""


def rank_of_key(key: str) -> str | None:
    """The rank that a key stands for, or None."""
    return key.partition("@")[0] or None


def _writer_of_key(key: str) -> str:
    """The key of the same process without a rank."""
    _, at, writer = key.partition("@")
    return at + writer


@dataclass(frozen=True, slots=True)
class Done:
    """A report to which nothing will be added.

    Attributes:
        complete: False where a new start, a crash or the end of input came before its usual last line.
    """

    rank: str
    report: Report
    complete: bool = True


class Reports:
    """Puts reports together from their lines.

    Args:
        memory: Is read and written; the caller keeps it.
    """

    def __init__(self, memory: ReportsMemory) -> None:
        self._memory = memory

    def header(self, rank: str, report: Report) -> list[Done]:
        """A header: the rank's open report ends, and so do lines without a header that belong to no rank."""
        memory = self._memory
        done = self._close(rank)
        writer = _writer_of_key(rank)
        nameless = memory.ranks.get(writer)
        if nameless and nameless.open and not nameless.open.header:
            done += self._close(writer)
        reports = self._of(rank)
        reports.open, reports.closed = report, None
        memory.headed.append(rank)
        memory.touched = []
        return done

    def line(
        self, rank: str, label: str, value: float, share: float | None, place: Place, time: str | None
    ) -> list[Done]:
        """A phase line or an `Accept len` line: `value` is seconds per cycle, or accepted drafts."""
        if rank == _writer_of_key(rank):
            rank = self._owner(rank, label)
        reports = self._of(rank)
        report, done = reports.open, []
        if report and label == ACCEPT and _is_orphan_first(report) and len(report.labels) > 1:
            # The file began between a report's last phase and its `Accept len`: that one is dropped.
            report.labels.remove(ACCEPT)
        elif report and (label in report.labels or (not report.header and _has_ended(report, label))):
            done = self._close(rank)
            report = None
        if report is None:
            closed = reports.closed
            late = closed is not None and closed.header and label not in closed.labels
            report = closed.begun_again(place) if closed and late else Report(place, time)
            reports.open = report
            if report.header:
                self._memory.headed.append(rank)
        _add(report, label, value, share)
        report.time = report.time or time
        if self._is_complete(reports, report):
            done += self._close(rank)
        return done

    def other_line(self, rank: str) -> list[Done]:
        """The rank has written something else: a report whose shape is not known yet ends."""
        reports = self._memory.ranks.get(rank)
        if reports and reports.open and reports.open.labels and not reports.shapes:
            return self._close(rank)
        return []

    def cut(self, *, crashed: bool) -> list[Done]:
        """All open reports end here: at a new start (`crashed`), or at the end of input."""
        done = []
        for rank, reports in self._memory.ranks.items():
            report = reports.open
            if report is None:
                continue
            missing = _usual(reports) - set(report.labels)
            whole = not missing if reports.shapes else not crashed
            reports.open = None
            if report.labels:
                done.append(Done(rank, report, whole))
        self._memory.headed.clear()
        self._memory.last_headed.clear()
        for reports in self._memory.ranks.values():
            reports.closed = None
        return done

    def forget(self, rank: str) -> list[Done]:
        """Drop what is known of a rank."""
        done = self._close(rank)
        self._memory.ranks.pop(rank, None)
        self._memory.last_headed.pop(_writer_of_key(rank), None)
        return done

    def _of(self, rank: str) -> RankReports:
        return self._memory.ranks.setdefault(rank, RankReports())

    def _close(self, rank: str) -> list[Done]:
        """The rank's open report ends as others of its rank do, and teaches its shape."""
        memory, reports = self._memory, self._memory.ranks.get(rank)
        if reports is None or reports.open is None:
            return []
        report, reports.open = reports.open, None
        if report.header:
            memory.headed.remove(rank)
        if not report.labels:
            return []
        earlier = reports.closed
        if earlier and earlier.header and report.header and reports.shapes:  # the latecomers of `earlier`
            earlier.labels = [*earlier.labels, *report.labels]
            reports.shapes[-1] = earlier.labels
        else:
            reports.shapes = [*reports.shapes, list(report.labels)][-_SHAPES:]
            reports.closed = report
        if report.header:
            memory.last_headed[_writer_of_key(rank)] = rank
        return [Done(rank, report)]

    def _is_complete(self, reports: RankReports, report: Report) -> bool:
        labels = set(report.labels)
        if len(labels) >= _MOST_LABELS:
            return True
        if report.header and reports.closed:
            return False  # latecomers: there may be more of them
        if _is_orphan_first(report) and not any(shape[0] == ACCEPT for shape in reports.shapes):
            return False
        return labels >= _usual(reports) if reports.shapes else labels >= _WHOLE

    def _owner(self, writer: str, label: str) -> str:
        """The rank whose report a line without a rank belongs to; the writer's own key if nobody knows."""
        memory = self._memory
        owners = [rank for rank in memory.headed if _writer_of_key(rank) == writer]
        if not owners:
            last = memory.last_headed.get(writer)
            closed = memory.ranks[last].closed if last in memory.ranks else None
            return last if last is not None and closed and label not in closed.labels else writer
        candidates = (
            [rank for rank in owners if self._expects(rank, label)]
            or [rank for rank in owners if label not in _open_labels(memory.ranks[rank])]
            or owners[-1:]
        )
        touched = memory.touched
        fresh = [rank for rank in owners if not _open_labels(memory.ranks[rank])]
        if fresh == owners[-1:]:
            owner = owners[-1]  # the first line behind a header
        elif len(set(touched)) == 1 and touched[0] in candidates:
            owner = touched[0]  # reports come one after the other: stay with this one
        else:  # line by line: take turns
            owner = min(candidates, key=lambda rank: touched.index(rank) if rank in touched else -1)
        memory.touched = [*touched, owner][-2:]
        return owner

    def _expects(self, rank: str, label: str) -> bool:
        """Whether a rank's open report would go on with this label, were it shaped like the last one."""
        reports = self._memory.ranks[rank]
        labels = _open_labels(reports)
        if not reports.shapes:
            return label not in labels
        return label == next((usual for usual in reports.shapes[-1] if usual not in labels), None)


def _open_labels(reports: RankReports) -> list[str]:
    return reports.open.labels if reports.open else []


def _usual(reports: RankReports) -> set[str]:
    """Labels that a rank's last few reports had."""
    return {label for shape in reports.shapes for label in shape}


def _is_orphan_first(report: Report) -> bool:
    """Whether a report without a header begins with an `Accept len` line, perhaps another report's last."""
    return not report.header and report.labels[:1] == [ACCEPT]


def _has_ended(report: Report, label: str) -> bool:
    """Whether a report without a header has had its last line, if lines come in the field's order."""
    return len(report.labels) > 1 and report.labels[-1] in _LAST_LINES and label != ACCEPT


def _add(report: Report, label: str, value: float, share: float | None) -> None:
    report.labels.append(label)
    if label == ACCEPT:
        report.accepted_drafts = value
    else:
        report.phases_s[label] = value
        if share is not None:
            report.shares[label] = share
