"""Level 2: container, journal, Ray and colour wrappings off (`reading/framing.py`).

What is taken off, in any nesting: SGLang's `[time ranks] `, Ray, docker compose, Docker json-file, CRI,
`kubectl --timestamps`, journald (short and json), syslog, `ts`, glog, mpirun, Loki, hosting services, formats of
Python's loggers and of trainers, llama.cpp, TensorRT-LLM, `grep -H`/`-n`, progress bars, ANSI colours. The innermost
clock wins, except that a clock without a date never replaces one with a date.

A stamp without a year (`Feb 11 08:15:02 host sglang[1]: `, glog's `W0211`) gives no time. Which year it was could be
learnt only from other lines, and then a line's time would depend on where reading began: a restart, a rotation or a
`grep` would date the same line otherwise. SGLang's own prefix behind the stamp has the year.

A line usually gives one `Frame`. It gives none while parts of a cut message are awaited (CRI's `P`, Docker's
cut at 16 KiB), and more than one where a progress bar or a torn write put a second message inside the line:
then the text before it and the text behind it are frames of their own. A message that may quote users
(`Receive: obj=...`) is never searched for a second one.

Two kinds of lines are plain, and who reads whole columns may frame them without this stage; all others must
pass through it in order:

- one that begins with SGLang's prefix, goes on with none of `[({<` nor with `wrappings.TRACEBACK`, and holds no
  escape, no `%|`, and no `[20` behind the prefix: its message is what follows;
- one that begins with blanks and a letter and holds none of `] `, `%|`, `it/s`, `s/it` and no escape: its
  message is the whole line, without time and rank.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from logwatch.model import Frame, Line, Place
from logwatch.reading.entries import Entry, entries_of, may_hold_entries
from logwatch.reading.wrappings import (
    COLOURS,
    CRI,
    REPEATED,
    find_prefix,
    find_whole_prefix,
    iso,
    may_hold_user_text,
    peel,
    peel_indented,
    progress_bars,
    sglang_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_MOST_WRAPPINGS = 12  # around one message
_DEEPEST = 3  # messages within messages
_LONGEST = 1 << 20  # characters of a message joined from parts
_MOST_STREAMS = 8  # streams whose parts are awaited at a time
_MAY_BE_WRAPPED = frozenset("[({<")


@dataclass(slots=True)
class Part:
    """The beginning of a message that was cut.

    Attributes:
        place: Where its first part's line begins.
        column: Column, from 1, of its text in that line.
        time: Time of its first part's wrapping.
        texts: Its parts.
        length: Characters in them.
        writer: As `Frame.writer`.
    """

    place: Place
    column: int
    time: str | None
    texts: list[str]
    length: int
    writer: str | None = None


@dataclass(slots=True)
class FramingMemory:
    """Messages of which parts are still to come, by the stream that the wrapping names."""

    parts: dict[str, Part] = field(default_factory=dict)


class _Wrapped(NamedTuple):
    """What the wrappings at one position told, and where the message behind them begins."""

    end: int
    time: str | None
    rank: str | None = None
    ray: bool = False
    writer: str | None = None


@dataclass(slots=True)
class _Text:
    """A text to be unwrapped, and where it comes from.

    Attributes:
        text: Without colours.
        column: Column, from 1, of its first character.
        cuts: Positions in `text` before which characters were removed.
        removed: How many were removed up to each of `cuts`.
        holds_entries: Whether it may hold JSON entries; None until that was looked for, once a text.
    """

    place: Place
    text: str
    column: int
    time: str | None
    complete: bool
    writer: str | None
    cuts: list[int] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    holds_entries: bool | None = None

    def entries_at(self, position: int) -> list[Entry]:
        """Log entries of the JSON objects that begin at a position in `text`."""
        if self.holds_entries is None:
            self.holds_entries = may_hold_entries(self.text)
        return entries_of(self.text, position) if self.holds_entries else []

    def column_of(self, position: int) -> int:
        """Column, from 1, in the physical line of a position in `text`."""
        index = bisect_right(self.cuts, position)
        return self.column + position + (self.removed[index - 1] if index else 0)


class Framing:
    """Takes the wrappings off lines; what it takes off is in the module's docstring."""

    def __init__(self) -> None:
        self.memory = FramingMemory()

    def feed(self, line: Line) -> Iterator[Frame]:
        """Take one line, give the messages in it."""
        text = line.text
        # Nearly every line: SGLang's prefix, and nothing but the message behind it.
        prefix = sglang_prefix(text, 0)
        if prefix and "\x1b" not in text and "%|" not in text:
            end = prefix.end
            if text[end : end + 1] not in _MAY_BE_WRAPPED and text.find("[20", end) < 0:
                yield Frame(line.place, text[end:], end + 1, prefix.time, prefix.rank, line.complete)
                return
        yield from self._unwrap(_without_colours(line.place, text, 1, None, line.complete, None), 0)

    def finish(self) -> Iterator[Frame]:
        """Give the messages whose last part never came, with `complete` False."""
        parts, self.memory.parts = self.memory.parts, {}
        for part in parts.values():
            yield from self._cut_short(part)

    def _unwrap(self, whole: _Text, depth: int) -> Iterator[Frame]:
        """Frames of one text: wrappings off, then parted at progress bars and at torn prefixes."""
        text, time, start, limit, resume = whole.text, whole.time, 0, len(whole.text), -1
        bars_sought = False
        while True:
            peeled = yield from self._peel(whole, start, time, depth)
            if not peeled:
                return
            if not bars_sought:
                bars_sought = True
                if bars := progress_bars(text, peeled.end):
                    limit, resume, time = *bars, peeled.time
            following = _next_prefix(text, peeled.end, limit, known=peeled.end > start)
            message = text[peeled.end : limit if following < 0 else following]
            if peeled.ray and "x across cluster]" in message and (tail := REPEATED.search(message)):
                message = message[: tail.start()]
            whole_line = following < 0 and resume < 0
            if whole_line or message.strip():
                column, complete = whole.column_of(peeled.end), whole.complete or not whole_line
                yield Frame(whole.place, message, column, peeled.time, peeled.rank, complete, peeled.writer)
            if whole_line:
                return
            if following >= 0:
                start = following
            else:
                start, limit, resume = resume, len(text), -1

    def _peel(
        self, whole: _Text, start: int, time: str | None, depth: int
    ) -> Generator[Frame, None, _Wrapped | None]:
        """Take off all wrappings at `start`; None where what was inside has been given or is awaited."""
        text = whole.text
        wrapped = _Wrapped(start, time, writer=whole.writer)
        for _ in range(_MOST_WRAPPINGS):
            first = text[wrapped.end : wrapped.end + 1]
            if first == "{" and depth < _DEEPEST and (entries := whole.entries_at(wrapped.end)):
                for entry in entries:
                    yield from self._entry(whole, entry, wrapped, depth)
                return None
            if first.isdigit() and (cri := CRI.match(text, wrapped.end)):
                stamp, stream, flag = iso(*cri.group(1, 2, 3)), cri[4], cri[5]
                if flag == "P" or stream in self.memory.parts:
                    column, rest = whole.column_of(cri.end()), [text[cri.end() :]]
                    part = Part(whole.place, column, stamp, rest, 0, wrapped.writer)
                    yield from self._join(
                        stream, part, last=flag == "F", complete=whole.complete, depth=depth
                    )
                    return None
                wrapped = _Wrapped(cri.end(), stamp, writer=wrapped.writer)
                continue
            peeled = peel(text, wrapped.end) or peel_indented(text, wrapped.end)
            if not peeled:
                break
            wrapped = _Wrapped(
                peeled.end,
                _inner(wrapped.time, peeled.time),
                peeled.rank or wrapped.rank,
                wrapped.ray or first == "(",
                _within(wrapped.writer, peeled.writer),
            )
        return wrapped

    def _entry(self, whole: _Text, entry: Entry, outer: _Wrapped, depth: int) -> Iterator[Frame]:
        """Frames of one object of a container's or a journal's JSON."""
        column, time, writer = whole.column_of(entry.position), _inner(outer.time, entry.time), outer.writer
        stream = f"json {entry.stream}"
        if entry.cut or stream in self.memory.parts:
            part = Part(whole.place, column, time, [entry.text], 0, writer)
            yield from self._join(stream, part, last=not entry.cut, complete=whole.complete, depth=depth)
            return
        for text in entry.text.replace("\r", "\n").strip("\n").split("\n"):
            inner = _without_colours(whole.place, text, column, time, whole.complete, writer)
            yield from self._unwrap(inner, depth + 1)

    def _join(self, stream: str, part: Part, *, last: bool, complete: bool, depth: int) -> Iterator[Frame]:
        """Put a part behind those before it; frames once the last one is there."""
        parts = self.memory.parts
        text = part.texts[0]
        held = parts.pop(stream, None)
        if held and (sglang_prefix(text, 0) or held.length + len(text) > _LONGEST):
            # The rest of what is held was lost, by a rotation say: here begins another message.
            yield from self._cut_short(held, depth)
            held = None
        if held:
            held.texts.append(text)
            part = held
        part.length += len(text)
        if not last:
            parts[stream] = part
            if len(parts) > _MOST_STREAMS:
                yield from self._cut_short(parts.pop(next(iter(parts))), depth)
            return
        joined = "".join(part.texts).rstrip("\r\n")
        whole = _without_colours(part.place, joined, part.column, part.time, complete, part.writer)
        yield from self._unwrap(whole, depth + 1)

    def _cut_short(self, part: Part, depth: int = 0) -> Iterator[Frame]:
        """Frames of a message whose end was lost."""
        text = "".join(part.texts)
        whole = _without_colours(part.place, text, part.column, part.time, complete=False, writer=part.writer)
        yield from self._unwrap(whole, depth + 1)


def _next_prefix(text: str, position: int, limit: int, *, known: bool) -> int:
    """Where a second SGLang prefix begins within a message, or -1.

    A message behind a known wrapping holds one only if two writers tore each other's lines; then both have
    date and bracket.
    """
    following = find_whole_prefix(text, position) if known else find_prefix(text, position)
    if following < 0 or following >= limit or may_hold_user_text(text[position:following]):
        return -1
    return following


def _within(outer: str | None, inner: str | None) -> str | None:
    """The name of a process within another's output."""
    return f"{outer}/{inner}" if outer and inner else outer or inner


def _inner(outer: str | None, inner: str | None) -> str | None:
    """The innermost clock wins, unless it lost its date."""
    return inner if inner and (not outer or "T" in inner) else outer


def _without_colours(
    place: Place, text: str, column: int, time: str | None, complete: bool, writer: str | None
) -> _Text:
    """A text without terminal escapes that still knows the columns."""
    if "\x1b" not in text:
        return _Text(place, text, column, time, complete, writer)
    kept: list[str] = []
    cuts: list[int] = []
    removed: list[int] = []
    end = length = 0
    for match in COLOURS.finditer(text):
        kept.append(text[end : match.start()])
        length += match.start() - end
        end = match.end()
        cuts.append(length)
        removed.append(end - length)
    kept.append(text[end:])
    return _Text(place, "".join(kept), column, time, complete, writer, cuts, removed)
