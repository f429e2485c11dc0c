"""Level 3: the course of everything over a log, in constant memory: what the picture report draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logwatch.judging.economics import economics_of
from logwatch.model import Item, Malformed, Moment, Read, RunStarted, Signal
from logwatch.outlets.report.collected import LAST_PHASES
from logwatch.outlets.report.samples import Sample, Samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwatch.columns import CycleColumns
    from logwatch.model import Limits

BINS = 480
MAX_RANKS = 64
MAX_PHASES = 16
MAX_STARTS = 200
MAX_MALFORMED = 500


@dataclass(slots=True)
class Cell:
    """Neighbouring values of one series, as one; `band` is what judged the last of them."""

    count: int
    total: float
    low: float
    high: float
    outside: int = 0
    band: Limits | None = None

    @property
    def mean(self) -> float:
        """Arithmetic mean."""
        return self.total / self.count

    def add(self, other: Cell) -> None:
        """Take in a later neighbour."""
        self.count += other.count
        self.total += other.total
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)
        self.outside += other.outside
        self.band = other.band or self.band


@dataclass(slots=True)
class Span:
    """Neighbouring reports, as one: where they begin, and their series (phases, `tokens_per_cycle`, ...)."""

    line: int
    time: str | None
    run: int
    reports: int
    cells: dict[str, Cell]


@dataclass(slots=True)
class Track:
    """One rank over the whole log in at most `BINS` spans.

    Attributes:
        per_span: Reports that one span may hold by now.
        dated: Whether all reports have a time and no time is before the one before it.
    """

    stream: str
    rank: str | None
    per_span: int = 1
    spans: list[Span] = field(default_factory=list)
    dated: bool = True

    def room(self, run: int) -> int:
        """How many more reports of this run the last span may hold."""
        last = self.spans[-1] if self.spans else None
        return 0 if last is None or last.run != run else max(self.per_span - last.reports, 0)

    def note_times(self, times: Sequence[str | None]) -> None:
        """Look at the times of reports that will all become part of the last span, or begin the next."""
        last = (self.spans[-1].time if self.spans else None) or ""
        self.dated = self.dated and all(
            time is not None and len(time) >= 19 and time >= last for time in times
        )

    def add(self, span: Span) -> None:
        """Take the next report. Reports of different runs are never one span, unless runs are many."""
        if self.room(span.run):
            _join(self.spans[-1], span)
            return
        if len(self.spans) >= BINS:
            halved: list[Span] = []
            for at, each in enumerate(self.spans):
                if at % 2 and (each.run == halved[-1].run or self.per_span > BINS):
                    _join(halved[-1], each)
                else:
                    halved.append(each)
            self.per_span *= 2
            self.spans = halved
            if len(self.spans) >= BINS:  # a run a report: forget where they part
                self.spans = self.spans[::2]
        self.spans.append(span)


def _join(span: Span, later: Span) -> None:
    span.reports += later.reports
    for name, cell in later.cells.items():
        if name in span.cells:
            span.cells[name].add(cell)
        else:
            span.cells[name] = cell


class Tracker:
    """Sink that follows every rank for the picture report.

    Attributes:
        tracks: By stream and rank.
        starts: Server starts by stream.
        malformed: Malformed lines by file name, the first `MAX_MALFORMED`.
    """

    def __init__(self, baseline_tokens_per_second: float | None = None) -> None:
        self.baseline = baseline_tokens_per_second
        self.tracks: dict[tuple[str, str | None], Track] = {}
        self.starts: dict[str, list[RunStarted]] = {}
        self.malformed: dict[str, list[Moment]] = {}
        self._held: list[Malformed] = []
        self._samples = Samples()

    def take(self, item: Item) -> None:
        """Take one item."""
        for sample in self._samples.feed(item):
            self._sample(sample)
        if isinstance(item, RunStarted):
            starts = self.starts.setdefault(item.stream, [])
            if len(starts) < MAX_STARTS:
                starts.append(item)
        elif isinstance(item, Malformed):
            if len(self._held) < MAX_MALFORMED:
                self._held.append(item)
        elif isinstance(item, Read) and self._held:
            self._malformed(item.stream)

    def take_many(self, cycles: CycleColumns) -> None:
        """Take many cycles of one rank, with what their bands said: the same as one by one."""
        from logwatch.outlets.report.track_columns import follow  # noqa: PLC0415 - numpy, for columns alone

        for sample in self._samples.flush():
            self._sample(sample)
        track = self._track(cycles.stream, cycles.rank)
        if track is not None:
            follow(track, cycles, self.baseline)

    def close(self) -> None:
        """Take what is still held back."""
        for sample in self._samples.flush():
            self._sample(sample)

    def merge(self, other: Tracker) -> None:
        """Take over what another tracker followed: other streams."""
        for key, track in other.tracks.items():
            if len(self.tracks) < MAX_RANKS:
                self.tracks[key] = track
        self.starts.update(other.starts)
        self.malformed.update(other.malformed)

    def _malformed(self, stream: str) -> None:
        moments = self.malformed.setdefault(stream, [])
        moments += [Moment(bad.place.line, bad.time) for bad in self._held][: MAX_MALFORMED - len(moments)]
        self._held.clear()

    def _track(self, stream: str, rank: str | None) -> Track | None:
        if (stream, rank) not in self.tracks and len(self.tracks) < MAX_RANKS:
            self.tracks[stream, rank] = Track(stream, rank)
        return self.tracks.get((stream, rank))

    def _sample(self, sample: Sample) -> None:
        cycle = sample.cycle
        track = self._track(cycle.stream, cycle.rank)
        if track is None:
            return
        cells: dict[str, Cell] = {}
        for phase, value in list(cycle.phases_s.items())[:MAX_PHASES]:
            judged = sample.judged.get(phase)
            outside = judged is not None and judged.signal in {Signal.ABOVE, Signal.BELOW}
            cells[phase] = Cell(1, value, value, value, int(outside), judged.limits if judged else None)
        now = economics_of(cycle, self.baseline)
        for name, figure in (
            ("tokens_per_cycle", cycle.tokens_per_cycle),
            ("breakeven", now.breakeven_tokens_per_cycle),
            ("batch_size", cycle.conditions.batch_size),
        ):
            if figure is not None:
                cells[name] = Cell(1, figure, figure, figure)
        track.note_times([cycle.time])
        track.add(Span(cycle.place.line, cycle.time, cycle.run, 1, cells))


def bands_of(tracks: Sequence[Track], phase: str) -> list[tuple[Span, Limits]]:
    """The bands that judged a phase, of the first rank in which any did."""
    for track in tracks:
        found = [
            (span, cell.band)
            for span in track.spans
            if (cell := span.cells.get(phase)) is not None and cell.band
        ]
        if found:
            return found
    return []


def main_phase(tracks: list[Track]) -> str | None:
    """The phase of the first picture: verify where there is one, else what was inferred, else the slowest."""
    totals: dict[str, float] = {}
    for track in tracks:
        for span in track.spans:
            for name, cell in span.cells.items():
                if name not in {"tokens_per_cycle", "breakeven", "batch_size"}:
                    totals[name] = totals.get(name, 0.0) + cell.total
    for name in ("target_verify", "inferred_cycle", "total_cycle"):
        if name in totals:
            return name
    return max(totals, key=lambda name: totals[name], default=None)


def parts_of_cycle(track: Track) -> list[str]:
    """Phases that make up a cycle, in the order of a cycle."""
    names = dict.fromkeys(name for span in track.spans for name in span.cells)
    order = ["draft_forward", "target_verify", "draft_extend"]
    others = {"tokens_per_cycle", "breakeven", "batch_size", *LAST_PHASES, *order}
    return [name for name in order if name in names] + [name for name in names if name not in others]
