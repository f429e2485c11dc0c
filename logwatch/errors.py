"""Level 0: the exception tree. Raised before running only; while running, bad data is a `Notice`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, where, and what to do about it.

    Attributes:
        where: `file:line:column`, `file`, an option or an environment variable.
        what: What is wrong, without a final full stop.
        hint: What to try, or empty.
    """

    where: str
    what: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f"; {self.hint}" if self.hint else "")


class LogwatchError(Exception):
    """Something a person must put right before logwatch can run. Caught in one place, `cli.main`.

    Args:
        problems: All problems found, not only the first.
    """

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems

    @classmethod
    def all_of(cls, problems: Iterable[Problem]) -> LogwatchError:
        """Make the error of several problems."""
        return cls(*problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class ConfigError(LogwatchError):
    """The configuration cannot be used."""


class GrammarError(LogwatchError):
    """A grammar file cannot be used."""


class BandError(LogwatchError):
    """A band makes no sense (its low edge above its high one, say)."""


class SourceError(LogwatchError):
    """An input cannot be read, or holds nothing to judge."""
