"""Level 1: what a rule about causes is asked and answers, and the words that rules share (used by `causes.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logwatch.judging.conditions import TOKENS, UNTIMED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from logwatch.judging.facts import Facts


FEW_OF_ONE = 3
"""Settings that only one of two runs names, and that still may be what somebody changed."""

SPECULATION = "speculation"
"""What an incident is about that compares throughput with that of the same server without speculation."""


@dataclass(frozen=True, slots=True)
class Case:
    """A change to be explained.

    Attributes:
        tuned: Variables of the run that was tuned, empty where none is known.
        phase: What changed; `direction` `high` or `low`.
        ratios: After over before of every phase, as far as known.
        tokens, batch, context: (before, after), None where unknown.
        before: Facts of the run before the change; None where nothing came before, or it is the same run.
        after: Facts of the run after it.
        onset_line: Where it began in the after's log, 0 where the whole run is meant.
        rank_excess: This rank's level over the other ranks' median.
        early: The change is in the first reports after a start.
    """

    phase: str
    direction: str
    after: Facts
    before: Facts | None = None
    ratios: Mapping[str, float] = field(default_factory=dict)
    tokens: tuple[float | None, float | None] = (None, None)
    batch: tuple[float | None, float | None] = (None, None)
    context: tuple[float | None, float | None] = (None, None)
    onset_line: int = 0
    rank_excess: float | None = None
    early: bool = False
    tuned: Mapping[str, str] = field(default_factory=dict)

    @property
    def better(self) -> bool:
        """Whether the change is one for the good: a phase that takes less time, more tokens."""
        return self.direction == ("high" if self.phase in UNTIMED else "low")

    @property
    def timed(self) -> bool:
        """Whether it is about a time, or about a throughput, which times make."""
        return self.phase not in UNTIMED or self.phase == SPECULATION

    @property
    def drafted(self) -> bool:
        """Whether it is about what the draft gives."""
        return self.phase in {TOKENS, SPECULATION}


@dataclass(frozen=True, slots=True)
class Opinion:
    """A rule's answer: a score with evidence, or 0 and what speaks against (empty: nothing known)."""

    score: float = 0.0
    text: str = ""


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str | None, str | None]]:
    """What differs: (name, before, after), None where it is missing."""
    names = sorted({*before, *after})
    return [(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)]


def changed_settings(case: Case) -> list[tuple[str, str | None, str | None]]:
    """The server's settings that differ from those of the run before; none where either is unknown."""
    if case.before is None or not case.before.settings or not case.after.settings:
        return []
    return named_by_both(changed(case.before.settings, case.after.settings))


def named_by_both(
    different: Sequence[tuple[str, str | None, str | None]],
) -> list[tuple[str, str | None, str | None]]:
    """Without what only one side names, where that is much: another version of the engine has other settings."""
    of_one = sum(None in (old, new) for _, old, new in different)
    return [each for each in different if of_one <= FEW_OF_ONE or None not in each[1:]]


def grew(case: Case, names: list[str]) -> str:
    """By how much each of these phases did."""
    return ", ".join(f"{name} x {case.ratios[name]:.2f}" for name in names)


def joined(names: set[str]) -> str:
    """All of them, in a fixed order."""
    return " + ".join(sorted(names))


def both_short(old: str | None, new: str | None, longest: int = 40, nothing: str = "nothing") -> list[str]:
    """A setting's values before and after, cut where they are long, but not where they begin to differ.

    >>> both_short("Config(decode='full', max_bs=16, rest='as it was')", "Config(decode='full', max_bs=32)", 20)
    ["...', max_bs=16, rest='...", "...', max_bs=32)"]
    """
    texts = [nothing if value is None else value for value in (old, new)]
    if max(map(len, texts)) <= longest:
        return texts
    equal = next((at for at, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    begin = max(equal - longest // 2, 0)
    return [
        ("..." if begin else "")
        + (text[begin:] if len(text) <= begin + longest else f"{text[begin : begin + longest]}...")
        for text in texts
    ]


def sentence(parts: list[str]) -> str:
    """Pieces of evidence as one sentence."""
    text = "; ".join(parts)
    plain = "_" not in text.split(maxsplit=1)[0]  # a variable's or a setting's name stays as it is written
    return f"{text[0].upper() if plain else text[0]}{text[1:]}."
