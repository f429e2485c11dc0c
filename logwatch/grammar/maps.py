"""Level 1: flat maps out of `ServerArgs(a='x', b=1)`, `{'a': 'x', 'b': 1}` and `A=x B=y`.

Values stay text: quotes off, nested values as they stand, secrets masked. What was cut off is left out, never
guessed. Both readers go once through the text; what they give is bounded whatever the text.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from logwatch.grammar.secrets import masked

MOST_ENTRIES: Final = 1000
LONGEST_KEY: Final = 100
LONGEST_VALUE: Final = 1000

HEAD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}\(|\{")
KEY: Final = re.compile(
    r"""[ \t]*(?:(?P<quote>['"])(?P<quoted>[^'"]{1,100})(?P=quote)|(?P<bare>[A-Za-z_][A-Za-z0-9_]{0,99}))"""
    r"[ \t]*[:=][ \t]*"
)
STEP: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^'"(\[{)\]},]+|.""", re.DOTALL)
"""A quoted text, a run of characters without meaning here, or one character."""
QUOTES: Final = frozenset("'\"")
OPENERS: Final = frozenset("([{")
CLOSERS: Final = frozenset(")]}")
ASSIGNMENT: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]{0,99})=(?P<value>[^ \t]*)")


def read_arguments(text: str) -> dict[str, str] | None:
    """Settings of a `Name(key=value, ...)` or `{'key': value, ...}`; None if it is neither.

    Where the closing bracket is missing the text was cut, and its last value is left out. Text behind the
    closing bracket is passed over.
    """
    head = HEAD.match(text)
    if head is None:
        return None
    settings: dict[str, str] = {}
    position = head.end()
    while len(settings) < MOST_ENTRIES:
        key = KEY.match(text, position)
        if key is None:
            break
        end = _end_of_value(text, key.end())
        if end is None:
            break
        value = text[key.end() : end].strip(" \t")
        name = key["quoted"] or key["bare"]
        settings[name] = masked(name, _unquoted(value)[:LONGEST_VALUE])
        if text[end] != ",":
            break
        position = end + 1
    return settings or None


def _end_of_value(text: str, position: int) -> int | None:
    """Where the value that starts at `position` ends: at a comma or a closing bracket; None if it was cut."""
    depth = 0
    while step := STEP.match(text, position):
        char = step[0]
        if depth == 0 and char in CLOSERS | {","}:
            return position
        if char in QUOTES and len(char) == 1:
            return None  # a quote that never closes
        depth += (char in OPENERS) - (char in CLOSERS)
        position = step.end()
    return None


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] in "'\"" and value[-1] == value[0]:
        inner = value[1:-1]
        return inner.replace("\\\\", "\\").replace(f"\\{value[0]}", value[0]) if "\\" in inner else inner
    return value


def read_assignments(text: str) -> dict[str, str] | None:
    """Variables of `NAME=value NAME=value`; None if a word is not of that form.

    Values are percent-encoded (`%20` is a blank).
    """
    variables: dict[str, str] = {}
    for word in text.split():
        entry = ASSIGNMENT.fullmatch(word)
        if entry is None:
            return None
        if len(variables) < MOST_ENTRIES:
            value = entry["value"][:LONGEST_VALUE]
            value = unquote(value, errors="replace") if "%" in value else value
            variables[entry["name"]] = masked(entry["name"], value)
    return variables or None
