"""Level 1: field kinds: expression, what could lengthen a match, unit factor, converter.

A kind has either a fixed expression (numbers, times) or is open: it takes every character up to what
follows it in the pattern. Converters get what the expression matched and give the value, or None for what
is no sane value (a number of 40 digits): the line is malformed then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Final, TypeAlias

from logwatch.grammar.chars import ANY, BLANKS, NOTHING, CharSet
from logwatch.grammar.maps import read_arguments, read_assignments
from logwatch.model import Value

Converter: TypeAlias = Callable[[str, str | None], Value | None]

LONGEST_NUMBER: Final = 30
"""Characters; what is longer is no measurement."""
LONGEST_LABEL: Final = 64
LONGEST_TEXT: Final = 500
"""Characters of a text field; the rest is cut off: memory does not grow with a line's length."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field may be.

    Attributes:
        noun: For messages: "expected a number".
        gives: Type of the value: `int`, `real`, `seconds`, `share`, `bool`, `text`, `time` or `map`.
        regex: Expression in the subset that Rust and Python share, or None for an open kind.
        starts: Characters with which it may begin (an open kind: if nothing else follows).
        more: Characters that could make a match longer.
        padded: Whether blanks may stand before it.
        units: Unit to power of ten, for kinds that write their unit; empty for others.
        last: Only at the end of a pattern.
        power: Power of ten that takes the number written to the base unit.
    """

    name: str
    noun: str
    gives: str
    convert: Converter
    regex: str | None = None
    starts: CharSet = ANY
    more: CharSet = ANY
    padded: bool = False
    units: Mapping[str, int] | None = None
    last: bool = False
    power: int = 0
    help: str = ""


DIGITS: Final = CharSet.of("0123456789")
PLAIN: Final = r"[0-9]+(?:\.[0-9]+)?"
"""A number as logs print measurements: no sign, no exponent."""


def _int(text: str, _unit: str | None) -> int | None:
    return int(text) if len(text) <= LONGEST_NUMBER else None


def _real(text: str, _unit: str | None) -> float | None:
    value = float(text) if len(text) <= LONGEST_NUMBER else float("inf")
    return value if isfinite(value) else None


def scaled(power: int) -> Converter:
    """Converter of a plain number times ten to `power`, correctly rounded: 19.14 at -3 is 0.01914."""

    def convert(text: str, _unit: str | None) -> float | None:
        return float(f"{text}e{power}") if len(text) <= LONGEST_NUMBER else None

    return convert


UNITS: Final[Mapping[str, int]] = {"ns": -9, "us": -6, "\u00b5s": -6, "\u03bcs": -6, "ms": -3, "s": 0}


def _duration(text: str, unit: str | None) -> float | None:
    return float(f"{text}e{UNITS[unit or 's']}") if len(text) <= LONGEST_NUMBER else None


TRUE: Final = frozenset({"True", "true"})


def _bool(text: str, _unit: str | None) -> bool:
    return text in TRUE


NOT_IN_A_NAME: Final = re.compile("[\x00-/:-@\\[-`{-\x7f]+")


def snake_case(label: str) -> str:
    """`Target verify` as `target_verify`: lower case, anything but letters and digits as one `_`."""
    return NOT_IN_A_NAME.sub("_", label.lower()).strip("_")


def _label(text: str, _unit: str | None) -> str | None:
    text = text.strip(" \t")
    # U+FFFD stands for bytes that were no UTF-8: a torn label, not a name. Two blanks part a label from what
    # `grep` put before it.
    if len(text) > LONGEST_LABEL or "\ufffd" in text or "  " in text or "\t" in text:
        return None
    return snake_case(text) or None


def _text(text: str, _unit: str | None) -> str:
    return text.strip(" \t")[:LONGEST_TEXT]


def _sentence(text: str, _unit: str | None) -> str:
    return text.strip(" \t").removesuffix(".")[:LONGEST_TEXT]


def _word(text: str, _unit: str | None) -> str | None:
    return text if len(text) <= LONGEST_TEXT else None


LABEL_START: Final = "[^\\x00-\\x40\\x5b-\\x5e\\x60\\x7b-\\x7f]"
LABEL_MORE: Final = CharSet(frozenset([*map(chr, range(0x20)), *"\"':={}\x7f"]), negated=True)
NAME_START: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"


def _number(name: str, noun: str, gives: str, power: int, help_: str) -> Kind:
    return Kind(
        name,
        noun,
        gives,
        scaled(power),
        PLAIN,
        starts=DIGITS,
        more=DIGITS | CharSet.of("."),
        padded=True,
        power=power,
        help=help_,
    )


_ALL = (
    Kind(
        "int",
        "a whole number",
        "int",
        _int,
        "[0-9]+",
        starts=DIGITS,
        more=DIGITS,
        padded=True,
        help="a whole number, 0 or more",
    ),
    Kind(
        "real",
        "a number",
        "real",
        _real,
        PLAIN + "(?:[eE][+-]?[0-9]+)?",
        starts=DIGITS,
        more=DIGITS | CharSet.of(".eE"),
        padded=True,
        help="a number, 0 or more; neither nan nor inf",
    ),
    _number("percent", "a percentage", "share", -2, "a number before a `%` of your own: 97.0% gives 0.97"),
    _number("ns", "a number of nanoseconds", "seconds", -9, "a number of nanoseconds, without its unit"),
    _number("us", "a number of microseconds", "seconds", -6, "a number of microseconds, without its unit"),
    _number("ms", "a number of milliseconds", "seconds", -3, "a number of milliseconds, without its unit"),
    _number("s", "a number of seconds", "seconds", 0, "a number of seconds, without its unit"),
    Kind(
        "duration",
        "a time with its unit",
        "seconds",
        _duration,
        PLAIN,
        starts=DIGITS,
        more=NOTHING,
        padded=True,
        units=UNITS,
        help="a number and its unit: ns, us, µs, ms or s",
    ),
    Kind(
        "bool",
        "True or False",
        "bool",
        _bool,
        "True|False|true|false",
        starts=CharSet.of("TFtf"),
        more=NOTHING,
        help="True or False",
    ),
    Kind(
        "timestamp",
        "a date and time",
        "time",
        _word,
        "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}"
        r"(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?",
        starts=DIGITS,
        more=DIGITS | CharSet.of(".,Z+-:"),
        help="ISO date and time",
    ),
    Kind(
        "name",
        "a name",
        "text",
        _word,
        f"[{NAME_START}][{NAME_START}0-9]*",
        starts=CharSet.of(NAME_START),
        more=CharSet.of(NAME_START) | DIGITS,
        help="a variable's name: letters, digits and `_`",
    ),
    Kind(
        "label",
        "a label",
        "text",
        _label,
        LABEL_START + LABEL_MORE.regex() + "*",
        starts=CharSet(
            frozenset(chr(code) for code in range(0x80) if not (chr(code).isalpha() or chr(code) == "_")),
            negated=True,
        ),
        more=LABEL_MORE,
        help="words, given in snake_case: `Target verify` gives target_verify",
    ),
    Kind(
        "word",
        "a word",
        "text",
        _word,
        starts=BLANKS.complement(),
        more=BLANKS.complement(),
        help="characters up to the next blank",
    ),
    Kind("text", "some text", "text", _text, help="anything up to what follows it in the pattern"),
    Kind(
        "sentence",
        "some text",
        "text",
        _sentence,
        last=True,
        help="the rest of the line without its full stop",
    ),
    Kind(
        "assignments",
        "`NAME=value` ...",
        "map",
        lambda text, _unit: read_assignments(text),
        starts=CharSet.of(NAME_START),
        last=True,
        help="the rest of the line, NAME=value NAME=value",
    ),
    Kind(
        "arguments",
        "`Name(key=value, ...)` or a dict",
        "map",
        lambda text, _unit: read_arguments(text),
        last=True,
        help="the rest of the line, Name(key='value', ...) or {'key': value, ...}",
    ),
)

KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in _ALL}


def is_open(kind: Kind) -> bool:
    """Whether it takes every character up to what follows it."""
    return kind.regex is None
