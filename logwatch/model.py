"""Level 0: the frozen values that travel through the house, and the Protocols of who handles them.

Times are float seconds and the unit ends the name (`_s`); instants are `Moment`s, which keep the time as the
log wrote it. Nothing here does I/O, and nothing here imports anything of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol, TypeAlias, TypeVar

Value: TypeAlias = str | int | float | bool | dict[str, str]
"""What a field of a record holds; a `dict` only for settings and environments."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thing was read. Never compared with another place to decide anything.

    Attributes:
        path: The file as the user named it, or `-` for standard input.
        offset: Byte offset of the line's first byte in the (uncompressed) input; -1 where unknown.
        line: Line number, from 1.
    """

    path: str
    offset: int
    line: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A line of the log and, where the log says it, its time.

    Attributes:
        line: Line number, from 1.
        time: ISO 8601 as the log wrote it (with a zone only where the log has one), or None.
    """

    line: int
    time: str | None = None


def seconds_of(time: str | None) -> float | None:
    """Seconds since the epoch of an ISO 8601 time, or None.

    A time without a zone counts as UTC, so that a pure stage gives the same answer on every host. A bare
    clock time (`03:51:54`) has no date and gives None.
    """
    if time is None or len(time) < 10 or time[4] != "-":
        return None
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text, without its line end.

    Attributes:
        place: Its first byte.
        text: Decoded as UTF-8; what is not UTF-8 is U+FFFD.
        complete: False where the input ended (or was rotated) before the line did, or where the line was cut
            because it was too long.
    """

    place: Place
    text: str
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Frame:
    """A line with its wrappings (container, journal, Ray, colours, SGLang's prefix) taken off.

    Attributes:
        place: Where the physical line (the first one, for joined parts) begins.
        text: The message that the program wrote, without SGLang's `[time rank] ` prefix.
        column: Column, from 1, of `text`'s first character in the physical line's text.
        time: ISO 8601 as written; the innermost clock wins. None where no wrapping has one.
        rank: Tags in the order DP PP ATTN_CP MOE_DP TP EP (`"DP1 TP0"`), or None.
        complete: As `Line.complete`.
        writer: What the wrappings call the process that wrote (`"Engine pid=1"`, a service's name), or None.
            Tells apart processes whose lines interleave.
    """

    place: Place
    text: str
    column: int = 1
    time: str | None = None
    rank: str | None = None
    complete: bool = True
    writer: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One line understood by a grammar. Kinds and field names are those of the contract, section 4.1.

    Durations are in seconds, shares between 0 and 1. `time`, `rank` and `writer` are those of its `Frame`.
    """

    place: Place
    kind: str
    fields: Mapping[str, Value]
    time: str | None = None
    rank: str | None = None
    writer: str | None = None


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that starts as a record but does not finish as one. Counted by `kind`, never half-read.

    Attributes:
        kind: The record it started as.
        column: Column, from 1, in the physical line, where reading failed.
        expected: What the grammar wanted there, for people ("a number").
        found: What stood there, at most a few words.
    """

    place: Place
    kind: str
    column: int
    expected: str
    found: str
    time: str | None = None
    rank: str | None = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """What legitimately moves a phase's time. None: the log does not say.

    Attributes:
        batch_size: Requests in the batch, mean over the report.
        context_tokens: Tokens of context per running request.
        num_steps, topk, draft_tokens: The draft's shape, from `server_args`.
        graph: Whether target verify replayed a CUDA graph.
        version: Engine version.
    """

    batch_size: float | None = None
    context_tokens: float | None = None
    num_steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    graph: bool | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A server start (its `server_args=` line), or the beginning of input that has none (`settings` empty).

    Attributes:
        run: Number of the run within its stream's source, from 0.
        settings: Flat map of the server's settings, values as the log wrote them (quotes off).
    """

    place: Place
    stream: str
    run: int
    time: str | None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cycle:
    """One report (or one inferred window) of one rank: what a cycle cost, and under which conditions.

    Attributes:
        stream: Name of the source.
        rank: As in `Frame.rank`.
        cycles: How many cycles it covers; 1 where the log does not say.
        tokens_per_cycle: Accepted drafts + 1, mean over the report, or None.
        phases_s: Seconds per cycle by phase; `target_verify`, `total_cycle`, ... or `inferred_cycle`.
        shares: Share of the cycle by phase (0-1), where the report gives it.
        warm_up: True for the first report after a start or at a new batch size: bands judge it, charts don't.
        complete: False where a crash or the end of input cut the report.
    """

    place: Place
    stream: str
    rank: str | None
    run: int
    time: str | None
    cycles: int
    tokens_per_cycle: float | None
    phases_s: Mapping[str, float]
    shares: Mapping[str, float] = field(default_factory=dict)
    conditions: Conditions = field(default_factory=Conditions)
    warm_up: bool = False
    complete: bool = True


class Signal(StrEnum):
    """What a chart says of one sample."""

    IN_BAND = "in_band"
    ABOVE = "above"
    BELOW = "below"
    WARMING_UP = "warming_up"


@dataclass(frozen=True, slots=True)
class Limits:
    """A band or a chart's control limits, seconds (or the unit of the judged value)."""

    low: float
    centre: float
    high: float


class Change(StrEnum):
    """What an `Incident` value reports."""

    OPENED = "opened"
    WORSENED = "worsened"
    EXPLAINED = "explained"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a chart has to say at a sample that changed its state; `before` and `after` in the value's unit.

    Attributes:
        kind: `level_shift`, `spread`, `second_mode`, ...
        onset: Where the chart's evidence began.
        resolved: Where the evidence of recovery began, once it has.
        samples: Samples since the onset.
        detail: One more sentence for people, or empty.
    """

    change: Change
    kind: str
    direction: str
    onset: Moment
    before: float
    after: float
    samples: int
    resolved: Moment | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One sample judged by one chart.

    Attributes:
        phase: The judged phase, or `tokens_per_cycle`.
        value: Seconds per cycle, or tokens per cycle.
        chart: `band`, or the chart's name.
        statistic: The chart's statistic after this sample; for a band the value itself.
        finding: Set where a chart changed its state; bands leave it out.
    """

    cycle: Cycle
    phase: str
    value: float
    chart: str
    statistic: float
    limits: Limits
    signal: Signal
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """A likely cause, best first in `Incident.causes`.

    Attributes:
        cause: Its name in `judging/causes.py`, for example `cuda_graph_off`.
        evidence: One sentence that quotes what in the log speaks for it.
        score: 0 to 1.
    """

    cause: str
    evidence: str
    score: float


@dataclass(frozen=True, slots=True)
class Incident:
    """A transition of one incident: each carries the whole incident as it is known now.

    Attributes:
        key: Stable through the incident and unique in its stream: `stream/rank/phase/kind/onset line`.
        change: The transition.
        kind: `out_of_band`, `level_shift`, `acceptance_dropped`, `slower_than_baseline`, `graph_lost`, ...
        phase: The phase, or `tokens_per_cycle`.
        direction: `high` or `low`.
        onset: First sample of the stretch, earlier than `noticed`.
        before: Level before the onset (seconds per cycle, or the phase's unit); None where there is none.
        after: Level since the onset.
        ratio: `after` over `before` or, where nothing came before, over the band's centre.
        run: Run in which it opened.
        band: The band that was left, if a band was.
        detail: One more sentence for people (interval, steadiness, cost), or empty.
    """

    key: str
    change: Change
    kind: str
    phase: str
    direction: str
    stream: str
    rank: str | None
    run: int
    severity: str
    onset: Moment
    noticed: Moment
    resolved: Moment | None
    before: float | None
    after: float
    ratio: float
    samples: int
    band: Limits | None = None
    causes: tuple[Cause, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """Bookkeeping of one piece of input, after its items: what `logwatch_lines_total` counts.

    Attributes:
        bytes: Bytes consumed, line ends included.
        ignored: Lines that no grammar claims.
    """

    stream: str
    path: str
    bytes: int
    lines: int
    matched: int
    ignored: int
    malformed: int


class Level(StrEnum):
    """How loud a notice is: INFO is routine, WARNING is odd but nothing lost, ERROR lost something."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happened beside the data: a rotation, a truncation, a line too long, a receiver down.

    Attributes:
        kind: snake_case, for example `rotated`, `truncated`, `line_too_long`, `sink_failed`, `reloaded`.
        message: A sentence for people, values included.
        stream: The source it is about, or None.
        path: The file it is about, or None.
        bytes: Bytes it is about (lost, skipped), 0 if none.
    """

    kind: str
    message: str
    level: Level = Level.INFO
    stream: str | None = None
    path: str | None = None
    bytes: int = 0


Item: TypeAlias = Record | Malformed | RunStarted | Cycle | Judgement | Incident | Read
"""What a pipeline gives to its sinks, in the order in which it came to know it."""

Notify: TypeAlias = Callable[[Notice], None]
"""Injected wherever something besides data can happen: the one side channel."""

In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)


class Stage(Protocol[In_contra, Out_co]):
    """A pure fold: constant memory, no I/O, no clock.

    What it remembers between items lies in its attribute `memory`, one dataclass of plain values (numbers,
    strings, lists, dicts, dataclasses of them), which the state file writes down and reads back.
    """

    def feed(self, item: In_contra) -> Iterable[Out_co]:
        """Take one item, give what is now known."""

    def finish(self) -> Iterable[Out_co]:
        """The input ends here: give what was held back."""


class Sink(Protocol):
    """An outlet: takes what the pipeline gives. Must return quickly and never raise for an outside cause."""

    def take(self, item: Item) -> None:
        """Take one item."""

    def close(self) -> None:
        """Nothing more will come: write out what is held."""
