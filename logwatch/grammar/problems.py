"""Level 1: problems with a place in a pattern, shown with the pattern and a caret."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from logwatch.errors import Problem
from logwatch.grammar.ast import Rule, Source, Span


@dataclass(frozen=True, slots=True)
class PatternProblem(Problem):
    """A problem with a place in a pattern: shown with the pattern and a caret."""

    pattern: str = ""
    position: int = 0

    @classmethod
    def at(cls, source: Source, position: int, what: str, hint: str = "") -> PatternProblem:
        """The problem at a position of a pattern's text."""
        return cls(source.where(position), what, hint, source.text, min(position, len(source.text)))

    def __str__(self) -> str:
        caret = " " * self.position + "^" + (f" {self.hint}" if self.hint else "")
        caret += "." if self.hint and not self.hint.endswith("?") else ""
        return f"{self.where}: {self.what}.\n  {self.pattern}\n  {caret}"


def nearest(word: str, known: Sequence[str]) -> str:
    """A hint that names the nearest of the known words, or all of them if few."""
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    return "known: " + ", ".join(known)


def at_span(rule: Rule, key: str, span: Span, what: str, hint: str = "") -> PatternProblem:
    """The problem at a node of one of a rule's patterns; `key` says of which."""
    return PatternProblem.at(rule.sources[key], span[0], what, hint)
