"""Level 2: requests that were answered since the stream last wrote a line of its work (`reading/requests.py`).

Access lines are no records: a busy server writes many, and one alone says nothing. They are counted between two
lines of work. Only what may be too many makes a record, of the kind `access` and for judging alone: every `SOME`
of them, once the first lies `LONG_S` back or, where they have no times, from `MANY` on.

| field | is |
|---|---|
| `requests` | answered since the last line of work |
| `since_line` | line of the first of them |
| `since` | its time, where it has one |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from logwatch.model import Place, Record, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from logwatch.model import Frame, Value

Answer: TypeAlias = tuple[Place, str | None, str | None]
"""Place, time and rank of one that was answered."""

ACCESS: Final = "access"
SOME: Final = 50
LONG_S: Final = 60.0
MANY: Final = 2000

WORK: Final = frozenset({"decode", "phase", "report", "prefill", "spec_metrics", "server_args"})
"""Kinds of records after which the count begins anew: the server works, or starts."""

NEEDLE: Final = '"POST '
"""Whatever is asked for by a request stands behind it; a look for it is all that most lines cost."""

ROUTES: Final = (
    r"generate|(?:v1/)?(?:chat/)?completions|v1/(?:responses|messages)|api/(?:generate|chat)|invocations"
)
"""What makes a server decode, for a pattern; health checks, embeddings and metrics do not."""

_ANSWERED = re.compile(
    r"[ \t]*(?:[A-Z]{4,8}:?[ \t]+)?\S{1,100} - (?:\S{1,100} )?"
    rf'"POST /(?:[\w.~-]{{1,60}}/){{0,4}}(?:{ROUTES})/?(?:\?[^ "]{{0,500}})? HTTP/[0-9.]{{1,4}}" 2[0-9][0-9](?![0-9])'
)


@dataclass(slots=True)
class RequestsMemory:
    """Requests answered since the last line of work; `line` and `time` are those of the first."""

    count: int = 0
    line: int = 0
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """Requests answered beside the lines of work of a chunk that was read in bulk.

    Attributes:
        first: Gives those before the first line of work, or all where there is none.
        last: Gives those after the last line of work; None where there is none.
        many: Whether between two lines of work may be so many that they make a record.
    """

    first: Callable[[], Iterable[Answer]]
    last: Callable[[], Iterable[Answer]] | None = None
    many: bool = False


class Requests:
    """Counts; the caller says which messages no grammar claims, and which records are `WORK`."""

    def __init__(self) -> None:
        self.memory = RequestsMemory()

    def work(self) -> None:
        """The stream wrote a line of its work."""
        memory = self.memory
        if memory.count:
            memory.count, memory.line, memory.time = 0, 0, None

    def answered(self, place: Place, time: str | None, rank: str | None = None) -> Record | None:
        """One more was answered: the record that this makes, if it makes one."""
        memory = self.memory
        if not memory.count:
            memory.line, memory.time = place.line, time
        memory.count += 1
        if memory.count % SOME or not makes_record(memory.count, memory.time, time):
            return None
        fields: dict[str, Value] = {"requests": memory.count, "since_line": memory.line}
        if memory.time is not None:
            fields["since"] = memory.time
        return Record(place, ACCESS, fields, time, rank)

    def would_tell(self, answers: Answers) -> bool:
        """Whether a chunk's answers may make a record: then its lines must be read one by one."""
        ahead = Requests()
        memory = self.memory
        ahead.memory = RequestsMemory(memory.count, memory.line, memory.time)
        if answers.many or ahead._any(answers.first()):
            return True
        ahead.work()
        return answers.last is not None and ahead._any(answers.last())

    def take(self, answers: Answers) -> None:
        """Count a chunk's answers, which make no record."""
        if answers.last is None:
            self._any(answers.first())
        else:
            self.work()
            self._any(answers.last())

    def _any(self, answers: Iterable[Answer]) -> bool:
        """Count them up to the first that makes a record."""
        return any(self.answered(*each) is not None for each in answers)


def makes_record(count: int, since: str | None, time: str | None) -> bool:
    """Whether so many requests, answered between these times, are worth a record."""
    begin, end = seconds_of(since), seconds_of(time)
    if begin is None or end is None:
        return count >= MANY
    return count >= SOME and end - begin >= LONG_S


def is_answer(frame: Frame) -> bool:
    """Whether a message that no grammar claims says that a request for tokens was answered, and well.

    >>> from logwatch.model import Frame, Place
    >>> line = 'INFO:     127.0.0.1:33010 - "POST {} HTTP/1.1" {}'
    >>> [is_answer(Frame(Place("x", 0, 1), line.format(*each))) for each in (
    ...     ("/generate", "200 OK"), ("/v1/chat/completions", "200 OK"), ("/generate", "503 Service Unavailable"),
    ...     ("/health_generate", "200 OK"), ("/v1/embeddings", "200 OK"))]
    [True, True, False, False, False]
    """
    return NEEDLE in frame.text and _ANSWERED.match(frame.text) is not None
