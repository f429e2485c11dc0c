"""Level 1: AST to a pyparsing parser, for text that arrives line by line.

A rule is met only by a text that holds its anchor, and is matched in its fused form: one `pyparsing.Regex` with named
groups, tried at the text's first character. What fails although it starts like a record (`Rule.claim`) is read once
more in the element form, which says what was expected at which column.

Where a record may begin, the one rule for all grammars, tried in this order:

1. at the text's first character (blanks at both ends never count);
2. behind what `grep` puts in front: `server.log:`, `123:` or `server.log:123:` (`-` with context lines);
3. a rule whose pattern begins with its anchor, also at the anchor's first place in the text, if what stands before
   ends in `]` or `|` (a progress bar, another logger's prefix) and holds no quote and no brace (so it is no one's
   prompt).

A text that starts with one of a grammar's `ignore` texts is passed over whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyparsing as pp

from logwatch.grammar.ast import Grammar, Literal, Pair, Rule, fields_of
from logwatch.grammar.elements import Expectation, expectation
from logwatch.grammar.expression import ANYTHING, PAIRS_GROUP, Group, expression, groups_of
from logwatch.grammar.kinds import Converter
from logwatch.grammar.pairs import BARE_NUMBER, Item, is_glued, items
from logwatch.grammar.shapes import Shape, fixed_shape, head_shape, pairs_of, shape_of, value_regex
from logwatch.grammar.vocabulary import RECORDS
from logwatch.model import Value

BLANKS: Final = " \t"
BEFORE_GREP: Final = re.compile(
    r"(?:[^\s:]{1,1000}:)?[0-9]{1,12}:|[^\s:]{1,1000}:|(?:[^\s:]{1,1000}-)?[0-9]{1,12}-"
)
SHAPES_AT_HAND: Final = 6
SHAPES_IN_A_LIFE: Final = 40
TRIES_IN_A_LIFE: Final = 1000
"""Making a shape costs as much as reading a hundred lines item by item; a log that never repeats itself gets none."""


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


class Reader:
    """Reads one text at a time by several grammars. The first rule that matches wins, in the order given.

    For whole files `rust.BulkReader` gives the same records faster.
    """

    def __init__(self, grammars: Iterable[Grammar]) -> None:
        grammars = tuple(grammars)
        self._ignore = tuple(text for grammar in grammars for text in grammar.ignore)
        self._rules = tuple(RuleReader(rule) for grammar in grammars for rule in grammar.rules)
        self._anchors = tuple((rule.anchor, rule) for rule in self._rules)

    def read(self, text: str) -> Outcome:
        """Read one line's message; None if no grammar claims it."""
        met = False
        failed: Failed | None = None
        stripped = text
        for anchor, rule in self._anchors:
            if anchor not in text:
                continue
            if not met:
                met = True
                stripped = text.strip(BLANKS)
                if stripped.startswith(self._ignore):
                    return None
            outcome = rule.read(stripped)
            if outcome is None:
                continue
            if isinstance(outcome, Parsed):
                return outcome
            failed = failed or outcome
        if not met:
            return None
        indent = len(text) - len(text.lstrip(BLANKS))
        return self._read_behind(stripped, indent, failed)

    def _read_behind(self, stripped: str, indent: int, failed: Failed | None) -> Outcome:
        """Places 2 and 3 of the module's rule."""
        later: Failed | None = None
        for rule in self._rules:
            if rule.anchor not in stripped:
                continue
            for start in rule.later_starts(stripped):
                outcome = rule.read(stripped[start:])
                if isinstance(outcome, Parsed):
                    return outcome
                if outcome is not None and later is None:
                    later = _moved(outcome, start)
        failed = later or failed
        return None if failed is None else _moved(failed, indent)


def _moved(failed: Failed, by: int) -> Failed:
    return Failed(failed.kind, failed.column + by, failed.expected, failed.found) if by else failed


Take: TypeAlias = tuple[str, Converter, bool, float]
"""Name, converter, whether the next group is its unit, and the largest sane value (infinity for what is no number)."""


class RuleReader:
    """One rule, ready to read texts of which both ends are stripped."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.anchor = rule.anchor
        self._pairs = PairsReader(rule) if pairs_of(rule) else None
        self._leads = isinstance(rule.pattern[0], Literal) and expression_starts_with(rule)
        shape = head_shape(rule) if self._pairs else fixed_shape(rule)
        self._fused = pp.Regex(shape.regex).set_name(rule.name)
        self._match = self._fused.re_match
        self._takes = takes(rule, shape.groups)
        self._constants: dict[str, Value] = dict(rule.constants)
        self._claims = re.compile("^" + expression(rule.claim, ANYTHING)).match if rule.claim else None

    def read(self, text: str) -> Outcome:
        """The record, or why there is none although the text claims to be one, or None."""
        if self._pairs is not None:
            quick = self._pairs.quick(text)
            if quick is not None:
                return Parsed(self.rule.kind, {**self._constants, **quick})
        match = self._match(text)
        if match is None:
            return self._near_miss(text)
        fields = dict(self._constants)
        wrong = take(match, self._takes, fields, self.rule.kind)
        if wrong is None and self._pairs is not None:
            wrong = self._pairs.read(text, match.start(PAIRS_GROUP), fields)
        if wrong is not None:
            return wrong if self._claims is not None else None
        if self.rule.whole is not None:
            fields[self.rule.whole] = text[:LONGEST_WHOLE]
        return Parsed(self.rule.kind, fields)

    def pairs_start(self, text: str) -> int | None:
        """Where a matching text's list of pairs begins."""
        match = self._match(text)
        return match.start(PAIRS_GROUP) if match is not None and self._pairs is not None else None

    def _near_miss(self, text: str) -> Failed | None:
        if self._claims is None or self._claims(text) is None:
            return None
        return failure(self.rule.kind, expectation(self.rule.pattern, text), text)

    def later_starts(self, text: str) -> Sequence[int]:
        """Places 2 and 3 of the module's rule, for this rule and this text."""
        starts = []
        grep = BEFORE_GREP.match(text)
        if grep is not None:
            starts.append(grep.end() + len(text[grep.end() :]) - len(text[grep.end() :].lstrip(BLANKS)))
        if self._leads:
            at = text.find(self.anchor)
            before = text[:at].rstrip(BLANKS)
            if before.endswith(("]", "|")) and not any(char in before for char in "\"'{}"):
                starts.append(at)
        return starts


LONGEST_WHOLE: Final = 500


def expression_starts_with(rule: Rule) -> bool:
    """Whether every text that the pattern matches starts with the anchor."""
    text = ""
    for node in rule.pattern:
        if isinstance(node, Literal):
            text += node.text
        elif type(node).__name__ == "Blank":
            text += " "
        else:
            break
    return text.startswith(rule.anchor.rstrip(BLANKS))


def takes(rule: Rule, groups: tuple[Group, ...]) -> tuple[Take, ...]:
    """How to make fields of a match's groups, in the groups' order."""
    slots = RECORDS[rule.kind]
    return tuple(
        (
            group.name,
            group.kind.convert,
            group.unit_group is not None,
            slots[group.name].most
            if group.kind.gives in {"int", "real", "seconds", "share"}
            else float("inf"),
        )
        for group in groups
    )


def take(
    match: re.Match[str], wanted: tuple[Take, ...], fields: dict[str, Value], kind: str
) -> Failed | None:
    """Put a match's values into `fields`, or say which one is none."""
    for name, convert, has_unit, most in wanted:
        text = match[name]
        if text is None:
            continue
        value = convert(text, match[name + "__unit"] if has_unit else None)
        if value is None or (isinstance(value, (int, float)) and value > most):
            return Failed(
                kind, match.start(name) + 1, _sane(value, most), _found(match.string, match.start(name))
            )
        fields[name] = value
    return None


def _sane(value: Value | None, most: float) -> str:
    return "a sane value" if value is None else f"at most {most:g}"


def _found(text: str, at: int) -> str:
    word = FOUND.match(text, at)
    return word[0] if word else "the end of the line"


FOUND: Final = re.compile(r"[^\s,]{1,24}|.")


def failure(kind: str, expected: Expectation, text: str) -> Failed:
    """A failure out of what the element form says."""
    return Failed(kind, expected.position + 1, expected.what, _found(text, expected.position))


class PairsReader:
    """A rule's list of pairs: by shape where the line has a known one, else item by item."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        node = pairs_of(rule)
        pairs: tuple[Pair, ...] = node.pairs if node else ()
        self._values = {key: ValueReader(rule, pair) for pair in pairs for key in pair.keys}
        self._keys = frozenset(self._values)
        self._passed_over: set[str] = set()
        self._shapes: list[tuple[Callable[[str], re.Match[str] | None], tuple[Take, ...]]] = []
        self._shapes_made = self._tries = 0

    def quick(self, text: str) -> dict[str, Value] | None:
        """The fields of a whole line of a known shape, the head's too; None if it has none or a value is not sane."""
        for index, (match_shape, wanted) in enumerate(self._shapes):
            match = match_shape(text)
            if match is not None:
                if index:
                    self._shapes.insert(0, self._shapes.pop(index))
                fields: dict[str, Value] = {}
                return fields if take(match, wanted, fields, self._rule.kind) is None else None
        return None

    def read(self, text: str, start: int, fields: dict[str, Value]) -> Failed | None:
        """Read item by item into `fields`."""
        kind = self._rule.kind
        known = 0
        after_unknown = False
        for item in items(text, start):
            if isinstance(item, int):
                return Failed(kind, len(text) + 1, "a closing `]`", "the end of the line")
            if item.key is None:
                if after_unknown and BARE_NUMBER.fullmatch(item.text):
                    continue
                return _no_pair(kind, item, text)
            reader = self._values.get(item.key)
            if reader is None:
                if self._is_seam(item.key):
                    return Failed(kind, item.at + 1, "one of its keys", _found(text, item.at))
                after_unknown = True
                continue
            after_unknown = False
            known += 1
            wrong = reader.read(item, text, fields)
            if wrong is not None:
                return wrong
        if not known:
            return Failed(kind, start + 1, "one of its keys", _found(text, start))
        self._learn(text, start)
        return None

    def _is_seam(self, key: str) -> bool:
        if key in self._passed_over:
            return False
        if is_glued(key, self._keys, self._rule.anchor):
            return True
        if len(self._passed_over) < 500:
            self._passed_over.add(key)
        return False

    def _learn(self, text: str, start: int) -> None:
        if self._shapes_made >= SHAPES_IN_A_LIFE or self._tries >= TRIES_IN_A_LIFE:
            return
        self._tries += 1
        shape: Shape | None = shape_of(self._rule, text[start:])
        if shape is None:
            return
        self._shapes_made += 1
        fused = pp.Regex(shape.regex).set_name(self._rule.name)
        self._shapes.insert(0, (fused.re_match, takes(self._rule, shape.groups)))
        del self._shapes[SHAPES_AT_HAND:]


def _no_pair(kind: str, item: Item, text: str) -> Failed:
    at = item.at + len(item.text)
    return Failed(
        kind, at + 1, "`:` and a value", _found(text, at) if at < len(text) else "the end of the line"
    )


class ValueReader:
    """One key's value."""

    def __init__(self, rule: Rule, pair: Pair) -> None:
        self._kind = rule.kind
        self._pair = pair
        self._match = pp.Regex(f"^{value_regex(pair)}$").re_match
        self._takes = takes(rule, groups_of(tuple(fields_of(pair.value))))

    def read(self, item: Item, text: str, fields: dict[str, Value]) -> Failed | None:
        """Read the value into `fields`."""
        match = self._match(item.value)
        if match is None:
            return _moved(
                failure(self._kind, expectation(self._pair.value, item.value), item.value), item.value_at
            )
        if any(name in fields for name, *_ in self._takes):
            return Failed(self._kind, item.at + 1, "each key once", _found(text, item.at))
        wrong = take(match, self._takes, fields, self._kind)
        return None if wrong is None else _moved(wrong, item.value_at)
