"""Level 2: requests that were answered since the stream last wrote a line of its work (`reading/requests.py`).

Access lines are no records: a busy server writes many, and one alone says nothing. They are counted between two
records, and every `SOME` of them make one record of the kind `access`, for judging alone:

| field | is |
|---|---|
| `requests` | answered since the last line of work |
| `since_line` | line of the first of them |
| `since` | its time, where it has one |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from logwatch.model import Record

if TYPE_CHECKING:
    from logwatch.model import Frame, Place, Value

ACCESS: Final = "access"
SOME: Final = 50

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


class Requests:
    """Counts; the caller says which messages no grammar claims, and which records are `WORK`."""

    def __init__(self) -> None:
        self.memory = RequestsMemory()

    def work(self) -> None:
        """The stream wrote a line of its work."""
        self.memory.count = 0

    def answered(self, place: Place, time: str | None, rank: str | None = None) -> Record | None:
        """One more was answered: the record that this makes, if it makes one."""
        memory = self.memory
        if not memory.count:
            memory.line, memory.time = place.line, time
        memory.count += 1
        if memory.count % SOME:
            return None
        fields: dict[str, Value] = {"requests": memory.count, "since_line": memory.line}
        if memory.time is not None:
            fields["since"] = memory.time
        return Record(place, ACCESS, fields, time, rank)


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
