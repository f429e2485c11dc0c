"""Level 3: from a line to the layout of all lines that differ from it in digits only (used by `bulk.py`).

That the streaming reader takes such lines alike rests on this: the expressions of framing and grammars, and the
reader's searches for anchors, take either all digits or none at a place, except where a digit stands in them as
it is (`EAGLE3`). Where the expression that read a line holds such a digit, only its figures' own digits are free.
What a line's layout gives is compared with what the reader says, for the line itself and with other digits in it,
before it is used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from logwatch.grammar.kinds import UNITS
from logwatch.grammar.outcomes import Parsed
from logwatch.grammar.shapes import fixed_shape, pairs_of, shape_of
from logwatch.grammar.streaming import BLANKS, Reader, RuleReader
from logwatch.grammar.vocabulary import NUMBERS, RECORDS
from logwatch.intake.bulk_layouts import LONGEST, MOST_DIGITS, WORD, Figure, Layout, Layouts
from logwatch.reading.wrappings import TRACEBACK, rank_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from logwatch.grammar.ast import Grammar, Rule
    from logwatch.grammar.expression import Group
    from logwatch.grammar.shapes import Shape
    from logwatch.model import Value

PREFIX: Final = re.compile(
    r"\[[0-9]{4}-[0-9]{2}-[0-9]{2} ([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?)"
    r"((?: [A-Z][A-Z_]{0,20}[0-9]{1,6}){0,6})\] (?=[^\[({<\n]|\[EAGLE3)"
)
BARE: Final = re.compile(" +[A-Za-z]")
NOT_PLAIN: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\U0010ffff]|%\||\[[0-9]|it/s|s/it")
"""What makes the framing look closer, or is no ASCII."""
FIGURE: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?")
_TOKEN = re.compile(r"\(\?P<[^>]*>|\{[0-9,]+\}|\\x[0-9a-f]{2}|\\.|\[(?:\\.|[^\]\\])+\]|.", re.DOTALL)
"""What an expression of ours is made of: a group's name, a count, an escape, a class, a character."""
_OTHER_DIGITS = ("0123456789", "1111111111", "9876543210", "7530864219", "9999999999", "0000000000")


class Learner:
    """Makes layouts of lines.

    Args:
        grammars: The grammars, in the order in which they are tried.
        layouts: Gets what is learnt.
    """

    def __init__(self, grammars: Iterable[Grammar], layouts: Layouts) -> None:
        grammars = tuple(grammars)
        self._layouts = layouts
        self._reader = Reader(grammars)
        self._rules = [RuleReader(rule) for grammar in grammars for rule in grammar.rules]

    def learn(self, line: bytes) -> bool:
        """Learn from one line (without its line end); whether it gave a layout that was not known."""
        if len(line) > LONGEST:
            return False
        text = line.decode("latin-1")
        prefix = PREFIX.match(text)
        if NOT_PLAIN.search(text, prefix.end() if prefix else 0):
            return False
        if prefix is None:
            return BARE.match(text) is not None and "] " not in text and self._learn_message(text, bare=True)
        if text.startswith(TRACEBACK, prefix.end()):
            return False  # the framing leaves the prefix's bracket before it
        end = prefix.end(1)
        free = [at for at in range(end) if "0" <= text[at] <= "9"]
        tags = prefix[2]
        self._layouts.add_prefix(text[: prefix.end()].encode(), free, end, rank_of(tags) if tags else None)
        return self._learn_message(text[prefix.end() :], bare=False)

    def _learn_message(self, message: str, *, bare: bool) -> bool:
        layout = self._layout_of(message)
        return layout is not None and self._agrees(layout, message) and self._layouts.add(layout, bare=bare)

    def _layout_of(self, message: str) -> Layout | None:
        stripped = message.strip(BLANKS)
        lead = len(message) - len(message.lstrip(BLANKS))
        for reader in self._rules:
            outcome = reader.read(stripped) if reader.anchor in message else None
            if isinstance(outcome, Parsed):
                return _layout(message, reader, outcome, stripped, lead)
        return None

    def _agrees(self, layout: Layout, message: str) -> bool:
        """Whether the reader says the same, whatever digits stand there."""
        free = layout.free
        for digits in _OTHER_DIGITS if free else ():
            other = list(message)
            for number, place in enumerate(free):
                other[place] = digits[number % len(digits)]
            if not self._is_read_alike(layout, "".join(other)):
                return False
        return self._is_read_alike(layout, message)

    def _is_read_alike(self, layout: Layout, text: str) -> bool:
        row = np.zeros(layout.mask.words * WORD, np.uint8)
        row[: len(text) + 1] = np.frombuffer(text.encode() + b"\n", np.uint8)
        rows = row.view("<u8").reshape(1, -1)
        values, sane = layout.values(rows)
        if not layout.mask.fits(rows)[0]:
            return False
        if not sane[0]:
            return True
        fields = {**layout.constants, **{name: value[0].item() for name, value in values.items()}}
        return self._reader.read(text) == Parsed(layout.kind, fields)


def _layout(message: str, reader: RuleReader, outcome: Parsed, stripped: str, lead: int) -> Layout | None:
    """The layout of a message, given what its rule made of it without the blanks at its ends."""
    constants: dict[str, Value] = dict(outcome.fields)
    if any(isinstance(value, dict) for value in constants.values()):
        return None
    if reader.rule.whole:  # its digits are part of a text
        return Layout(message.encode(), (), outcome.kind, constants, ())
    shape = _shape(reader, stripped)
    match = shape and re.match(shape.regex, stripped)
    if not shape or not match:
        return None
    figures: list[Figure] = []
    fixed: set[int] = set()
    for group in shape.groups:
        if match[group.name] is None:
            continue
        if group.kind.gives not in NUMBERS:
            fixed.update(range(*match.span(group.name)))
            continue
        figure = _figure(reader.rule, group, match, lead)
        if figure is None:
            return None
        figures.append(figure)
        del constants[group.name]
    free = {place for figure in figures for place in figure.places}
    if not _holds_digits(shape.regex):
        free |= {lead + at for at, char in enumerate(stripped) if "0" <= char <= "9" and at not in fixed}
    return Layout(message.encode(), sorted(free), outcome.kind, constants, figures)


def _shape(reader: RuleReader, stripped: str) -> Shape | None:
    if pairs_of(reader.rule) is None:
        return fixed_shape(reader.rule)
    start = reader.pairs_start(stripped)
    return None if start is None else shape_of(reader.rule, stripped[start:])


def _figure(rule: Rule, group: Group, match: re.Match[str], lead: int) -> Figure | None:
    """A group's figure; None if its text is none that can be summed up."""
    parts = FIGURE.fullmatch(match[group.name])
    if parts is None or len(parts[1]) + len(parts[2] or "") > MOST_DIGITS:
        return None
    start = match.start(group.name) + lead
    places = [start + at for part in (1, 2) if parts[part] for at in range(*parts.span(part))]
    power = UNITS[match[group.unit_group]] if group.unit_group else group.kind.power
    slot = RECORDS[rule.kind][group.name]
    figure_power = power - len(parts[2] or "")
    return Figure(group.name, tuple(places), figure_power, group.kind.gives == "int", slot.most)


def _holds_digits(regex: str) -> bool:
    """Whether an expression tells one digit from another."""
    for token in _TOKEN.findall(regex):
        if len(token) == 1 and "0" <= token <= "9":
            return True
        if token[0] == "[" and len({bool(re.match(token, digit)) for digit in "0123456789"}) > 1:
            return True
    return False
