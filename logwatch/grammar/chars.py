"""Level 1: sets of characters, what a pattern may begin with, and what would make it ambiguous.

Everything the checker promises rests on one question: looking at the next few characters only, is it clear
which way a pattern goes on? `heads` gives the ways, `collide` asks the question of two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from logwatch.grammar.ast import Blank, Choice, Field, Gap, Literal, Option, Pairs, Pattern


@dataclass(frozen=True, slots=True)
class CharSet:
    """The characters `chars`, or all but them. A newline is in no set: a line has none."""

    chars: frozenset[str] = frozenset()
    negated: bool = False

    @classmethod
    def of(cls, chars: str) -> CharSet:
        """The set of these characters."""
        return cls(frozenset(chars))

    def __contains__(self, char: str) -> bool:
        return (char in self.chars) != self.negated

    def __or__(self, other: CharSet) -> CharSet:
        if self.negated and other.negated:
            return CharSet(self.chars & other.chars, negated=True)
        if self.negated:
            return CharSet(self.chars - other.chars, negated=True)
        if other.negated:
            return CharSet(other.chars - self.chars, negated=True)
        return CharSet(self.chars | other.chars)

    def without(self, other: CharSet) -> CharSet:
        """This set less another."""
        return (self.complement() | other).complement()

    def complement(self) -> CharSet:
        """All other characters."""
        return CharSet(self.chars, not self.negated)

    def meets(self, other: CharSet) -> bool:
        """Whether the two share a character."""
        if self.negated and other.negated:
            return True  # each leaves out a few of a million characters
        if self.negated:
            return bool(other.chars - self.chars)
        if other.negated:
            return bool(self.chars - other.chars)
        return bool(self.chars & other.chars)

    def sample(self) -> str | None:
        """A printable character of the set, for messages; the first in code order."""
        candidates = sorted(self.chars) if not self.negated else map(chr, range(0x21, 0x7F))
        return next((char for char in candidates if char in self), None)

    def regex(self) -> str:
        """As a character class that Python's `re` and Rust's regex read alike."""
        if self.negated:
            return "[^" + _escaped(self.chars | {"\n"}) + "]"
        return "[" + _escaped(self.chars) + "]"


def _escaped(chars: frozenset[str]) -> str:
    return "".join(
        char if char.isalnum() and char.isascii() else f"\\x{ord(char):02x}" if ord(char) < 0x80 else char
        for char in sorted(chars)
    )


BLANKS: Final = CharSet.of(" \t")
ANY: Final = CharSet(negated=True)
NOTHING: Final = CharSet()


@dataclass(frozen=True, slots=True)
class Mark:
    """A token of a head that is no character: a run of blanks, or the end of the text."""

    name: str


RUN: Final = Mark("a blank")
END: Final = Mark("the end of the line")
Token: TypeAlias = str | Mark | CharSet
Head: TypeAlias = tuple[Token, ...]
"""How a text may begin: characters and runs of blanks, perhaps a set at the end; then anything."""

Starts: TypeAlias = Callable[[Field], CharSet]
"""Gives the characters with which a field may begin."""

LONGEST_HEAD = 48


def heads(pattern: Pattern, starts: Starts, after: tuple[Head, ...]) -> tuple[Head, ...]:
    """All ways in which a text may begin that this pattern matches, `after` being what follows the pattern.

    A head stops at the first field, and at the end of an optional part or a branch.
    """
    if not pattern:
        return after
    node, rest = pattern[0], pattern[1:]
    ways: tuple[Head, ...]
    match node:
        case Literal(text=text):
            ways = tuple((*text, *head)[:LONGEST_HEAD] for head in heads(rest, starts, after))
        case Blank():
            ways = tuple((RUN, *head)[:LONGEST_HEAD] for head in heads(rest, starts, after))
        case Field():
            ways = ((starts(node),),)
        case Option(body=body):
            ways = (*heads(body, starts, ((),)), *heads(rest, starts, after))
        case Choice(branches=branches):
            ways = tuple(head for branch in branches for head in heads(branch, starts, ((),)))
        case Gap():
            ways = ((ANY,),)
        case Pairs():
            ways = ((PAIRS_START,),)
    return ways


PAIRS_START: Final = CharSet(frozenset(" \t[,"), negated=True)
"""With what a list of pairs begins: a head such as `Decode batch [7], ` stays apart from it."""


def first(way: Head) -> CharSet:
    """Characters with which a head begins; none for the end of the line."""
    if not way:
        return ANY
    match way[0]:
        case CharSet() as chars:
            return chars
        case str(char):
            return CharSet.of(char)
        case mark:
            return BLANKS if mark is RUN else NOTHING


def collide(one: Head, other: Head) -> bool:
    """Whether some text begins in both ways, as far as can be seen."""
    for left, right in zip(one, other, strict=False):
        if left == right and isinstance(left, (str, Mark)) and left is not END:
            continue
        if left is END or right is END:
            return left is right
        return first((left,)).meets(first((right,)))
    return True
