"""Level 1: where the keys and texts of a TOML file stand, which `tomllib` does not say.

Reads the file's lines once more, for tables, keys and one-line strings only. What is written in another way
(inline tables, multi-line strings) gets the place of its table or key.
"""

from __future__ import annotations

import re
import tomllib
from typing import Final

from logwatch.grammar.ast import Source

TABLE: Final = re.compile(r"\s*\[{1,2}\s*([^\[\]]+?)\s*\]{1,2}\s*(?:#.*)?$")
PART: Final = r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'"""
ENTRY: Final = re.compile(rf"\s*(?P<key>(?:{PART})(?:\s*\.\s*(?:{PART}))*)\s*=\s*")
ESCAPE: Final = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|.)")


class Places:
    """The places of one file's keys."""

    def __init__(self, text: str, path: str) -> None:
        self._path = path
        self._lines = text.splitlines()
        self._keys: dict[tuple[str, ...], tuple[int, int, int]] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(self._lines, start=1):
            header = TABLE.match(line)
            if header is not None:
                table = _parts(header[1])
                for size in range(1, len(table) + 1):
                    self._keys.setdefault(table[:size], (number, line.index("[") + 1, 0))
                continue
            entry = ENTRY.match(line)
            if entry is not None:
                place = (*table, *_parts(entry["key"]))
                self._keys.setdefault(place, (number, entry.start("key") + 1, entry.end()))

    def where(self, place: tuple[str, ...]) -> str:
        """`file:line:column` of a key, or of the innermost table that holds it."""
        while place:
            if place in self._keys:
                line, column, _ = self._keys[place]
                return f"{self._path}:{line}:{column}"
            place = place[:-1]
        return self._path

    def source(self, place: tuple[str, ...], value: str) -> Source:
        """A text value and the column of each of its characters."""
        line, column, value_at = self._keys.get(place, (1, 1, 0))
        columns = _columns(self._lines[line - 1], value_at, len(value)) if value_at else None
        return Source(self._path, line, columns or (column,) * (len(value) + 1), value)


def _parts(key: str) -> tuple[str, ...]:
    """The parts of a dotted key; nothing for what is no key."""
    try:
        table = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    parts: list[str] = []
    while isinstance(table, dict):
        ((part, table),) = table.items()
        parts.append(part)
    return tuple(parts)


def _columns(line: str, at: int, size: int) -> tuple[int, ...] | None:
    """Columns of a one-line string's characters; None if the value at `at` is no such string of this size."""
    quote = line[at : at + 1]
    if quote not in {'"', "'"} or line.startswith(quote * 3, at):
        return None
    columns = []
    position = at + 1
    while position < len(line) and line[position] != quote:
        columns.append(position + 1)
        escape = ESCAPE.match(line, position) if quote == '"' else None
        position = escape.end() if escape else position + 1
    columns.append(position + 1)
    return tuple(columns) if len(columns) == size + 1 else None
