"""Level 1: what reading one text can come to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from logwatch.model import Value


@dataclass(frozen=True, slots=True)
class Parsed:
    """A record: its kind and its fields, as the contract names them (section 4.1)."""

    kind: str
    fields: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Failed:
    """A text that starts as a record but does not finish as one.

    Attributes:
        column: Column, from 1, in the text that was given.
        expected: What the grammar wanted there, for people.
        found: What stood there, at most a few words.
    """

    kind: str
    column: int
    expected: str
    found: str


Outcome: TypeAlias = Parsed | Failed | None


def moved(failed: Failed, by: int) -> Failed:
    """The same failure in a text of which this one began at `by`."""
    return Failed(failed.kind, failed.column + by, failed.expected, failed.found) if by else failed


FOUND: Final = re.compile(r"[ \t]*([^\s,]{1,24}|.)")


def word_at(text: str, at: int) -> str:
    """What stands at a position, for people: at most a word."""
    word = FOUND.match(text, at)
    return word[1] if word else "the end of the line"
