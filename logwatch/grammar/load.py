"""Level 1: finds and reads grammar files: configured directories, then the packaged ones."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from logwatch.errors import GrammarError, Problem
from logwatch.grammar.ast import (
    Field,
    Grammar,
    Option,
    Pair,
    Pairs,
    Pattern,
    Rule,
    Source,
    beginning,
    settled,
)
from logwatch.grammar.check import check
from logwatch.grammar.notation import NotationError, literal, parse
from logwatch.grammar.places import Places
from logwatch.grammar.problems import PatternProblem, nearest
from logwatch.resources import folder

RECORD_KEYS = ("kind", "anchor", "claim", "pattern", "pairs", "set", "whole")
FILE_KEYS = ("name", "about", "ignore", "record")
LARGEST_FILE = 1_000_000
MOST_RULES = 500
TOML_HINTS = {
    "Unescaped": "in single quotes a text stands as it is: pattern = '...'",
    "Invalid value": 'texts stand in quotes: anchor = "..."',
    "twice": 'name it otherwise and say its kind: [record.phase_2] with kind = "phase"',
}
"""What to do about what `tomllib` says."""


def load_grammars(directories: Sequence[Path] = ()) -> tuple[Grammar, ...]:
    """Read all grammars: those of the configured directories first, then the packaged ones.

    A configured grammar takes the place of a packaged one of the same name.

    Raises:
        GrammarError: With every problem of every file.
    """
    problems: list[Problem] = []
    grammars: dict[str, Grammar] = {}
    for directory in [*directories, folder("grammars")]:
        here: dict[str, str] = {}
        if not directory.is_dir():
            problems.append(
                Problem(str(directory), "No such directory of grammars", "put *.toml files there")
            )
            continue
        for path in sorted(directory.glob("*.toml")):
            try:
                grammar = read_grammar(path)
            except GrammarError as error:
                problems.extend(error.problems)
            else:
                grammars.setdefault(grammar.name, grammar)
                first = here.setdefault(grammar.name, path.name)
                if first != path.name:
                    what = f"`{first}` beside it has the name `{grammar.name}` too"
                    problems.append(Problem(str(path), what, "say another `name`"))
    if problems:
        raise GrammarError(*problems)
    return tuple(grammars.values())


def read_grammar(path: Path) -> Grammar:
    """Read and check one grammar file.

    Raises:
        GrammarError: With every problem of the file.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise GrammarError(Problem(str(path), f"A grammar file has at most {LARGEST_FILE} bytes"))
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise GrammarError(Problem(str(path), f"Cannot be read: {error.strerror}")) from error
    except UnicodeDecodeError as error:
        raise GrammarError(Problem(str(path), "Is not UTF-8", f"byte {error.start}")) from error
    return parse_grammar(text, str(path))


def parse_grammar(text: str, path: str) -> Grammar:
    """Read and check a grammar file's text; `path` is for messages and the default name.

    Raises:
        GrammarError: With every problem of the file.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GrammarError(_toml_problem(error, path)) from None
    reading = _File(text, path)
    grammar = reading.grammar(table)
    reading.problems.extend(check(grammar))
    if reading.problems:
        raise GrammarError(*reading.problems)
    return grammar


def _toml_problem(error: tomllib.TOMLDecodeError, path: str) -> Problem:
    what, _, place = str(error).rpartition(" (at ")
    numbers = [word.strip(",)") for word in place.split() if word.strip(",)").isdigit()]
    hint = next((hint for words, hint in TOML_HINTS.items() if words in what), "")
    return Problem(":".join([path, *numbers]), f"Is not TOML: {what or error}", hint)


class _File:
    """One file on its way to a `Grammar`: collects problems instead of stopping at the first."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self.places = Places(text, path)
        self.problems: list[Problem] = []

    def grammar(self, table: Mapping[str, Any]) -> Grammar:
        self._known(table, FILE_KEYS, ())
        name = self._text(table, "name", (), Path(self.path).stem)
        ignore = table.get("ignore", [])
        if not isinstance(ignore, list) or not all(
            isinstance(text, str) and len(text) >= 3 for text in ignore
        ):
            self._complain(("ignore",), "`ignore` is a list of texts of three characters or more")
            ignore = []
        records = table.get("record", {})
        if not isinstance(records, dict):
            self._complain(("record",), "Each record is a table of its own", "write [record.NAME]")
            records = {}
        elif not records and "records" not in table:
            self._complain((), "A grammar needs at least one table [record.NAME]")
        if len(records) > MOST_RULES:
            self._complain(("record",), f"A grammar has at most {MOST_RULES} records")
            records = {}
        rules = [self._rule(key, value) for key, value in records.items()]
        about = self._text(table, "about", (), "")
        return Grammar(name, self.path, tuple(rule for rule in rules if rule), tuple(ignore), about)

    def _rule(self, name: str, table: Any) -> Rule | None:
        place = ("record", name)
        if not isinstance(table, dict):
            self._complain(place, f"[record.{name}] is a table")
            return None
        before = len(self.problems)
        self._known(table, RECORD_KEYS, place)
        sources: dict[str, Source] = {}
        pairs = self._pairs(table.get("pairs", {}), place, sources)
        anchor = self._text(table, "anchor", place)
        if anchor:
            sources["anchor"] = self.places.source((*place, "anchor"), anchor)
        if "pattern" in table or not anchor:
            pattern = self._pattern(table, "pattern", place, sources, pairs)
        else:  # the anchor, and whatever follows it
            sources["pattern"] = sources["anchor"]
            end = (len(anchor), len(anchor))
            pattern = settled((*literal(anchor), Option((Field(None, "text", end),), end)))
        if pairs and pattern and not any(isinstance(node, Pairs) for node in pattern):
            hint = "put {pairs} where the list begins; other keys stand above the table of pairs"
            self._complain((*place, "pairs"), "The pattern has no {pairs}", hint)
        kind = self._text(table, "kind", place, name)
        claim = self._claim(table, place, sources, kind, anchor, pattern)
        constants = table.get("set", {})
        if not isinstance(constants, dict) or not all(isinstance(value, str) for value in constants.values()):
            self._complain((*place, "set"), '`set` is a table of texts, for example { event = "ready" }')
        whole = self._text(table, "whole", place, "") or None
        if len(self.problems) > before or pattern is None:
            return None
        return Rule(name, kind, anchor, pattern, claim, whole, constants, sources)

    def _claim(
        self,
        table: Mapping[str, Any],
        place: tuple[str, ...],
        sources: dict[str, Source],
        kind: str,
        anchor: str,
        pattern: Pattern | None,
    ) -> Pattern | None:
        """What the file says, or the anchor where the pattern begins with it.

        An event is there or not: what only begins like one is no malformed event.
        """
        if "claim" in table:
            return self._pattern(table, "claim", place, sources, ())
        start = anchor.rstrip(" \t")
        if kind != "event" and pattern is not None and start and beginning(pattern).startswith(start):
            sources["claim"] = sources["anchor"]
            return literal(start)
        return None

    def _pairs(self, table: Any, place: tuple[str, ...], sources: dict[str, Source]) -> tuple[Pair, ...]:
        if not isinstance(table, dict):
            self._complain((*place, "pairs"), '`pairs` is a table: "key" = "{field:kind}"')
            return ()
        pairs = []
        for keys in table:
            value = self._pattern(table, keys, (*place, "pairs"), sources, ())
            if value is not None:
                spellings = tuple(key.strip() for key in keys.split(" | "))
                pairs.append(Pair(spellings, value, f"pairs.{keys}"))
        return tuple(pairs)

    def _pattern(
        self,
        table: Mapping[str, Any],
        key: str,
        place: tuple[str, ...],
        sources: dict[str, Source],
        pairs: tuple[Pair, ...],
    ) -> Pattern | None:
        text = self._text(table, key, place)
        if not text:
            return None
        source = self.places.source((*place, key), text)
        sources[".".join((*place[2:], key))] = source  # below the rule
        try:
            return parse(text, pairs)
        except NotationError as error:
            self.problems.append(PatternProblem.at(source, error.position, error.what, error.hint))
            return None

    def _text(
        self, table: Mapping[str, Any], key: str, place: tuple[str, ...], default: str | None = None
    ) -> str:
        value = table.get(key, default)
        if value is None:
            self._complain(place, f"`{key}` is missing")
        elif not isinstance(value, str) or (value == "" and default is None):
            self._complain((*place, key), f"`{key}` is a text" + ("" if value else " that is not empty"))
        else:
            return value
        return ""

    def _known(self, table: Mapping[str, Any], known: Sequence[str], place: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                self._complain((*place, key), f"`{key}` is not known here", nearest(key, known))

    def _complain(self, place: tuple[str, ...], what: str, hint: str = "") -> None:
        self.problems.append(Problem(self.places.where(place), what, hint))
