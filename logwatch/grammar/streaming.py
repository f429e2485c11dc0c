"""Level 1: AST to a pyparsing parser, for text that arrives line by line.

A rule is met only by a text that holds its anchor, and is matched in its fused form: one `pyparsing.Regex`
with named groups, tried at the text's first character. What fails although it starts like a record
(`Rule.claim`) is read once more in the element form, which says what was expected at which column.

Where a record may begin, the one rule for all grammars, tried in this order:

1. at the text's first character (blanks at both ends never count);
2. behind what `grep` puts in front: `server.log:`, `123:` or `server.log:123:` (`-` with context lines);
3. behind a progress bar (it holds `%|`) or another logger's prefix (it begins like one: `[`, `(`, a digit or
   a word in capitals), either of which ends in `]` or `|` and holds no quote and no brace: a prompt that
   somebody logged does, mostly. This place is the anchor's first where the pattern begins with its anchor,
   else behind the last `]` or `|` before it, and then only for rules that have a claim.

A text that starts with one of a grammar's `ignore` texts is passed over whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from logwatch.grammar.ast import beginning
from logwatch.grammar.elements import failure
from logwatch.grammar.expression import ANYTHING, PAIRS_GROUP, expression
from logwatch.grammar.lists import PairsReader
from logwatch.grammar.outcomes import Failed, Outcome, Parsed, moved
from logwatch.grammar.shapes import fixed_shape, head_shape, pairs_of
from logwatch.grammar.values import fused, take, takes

if TYPE_CHECKING:
    from logwatch.grammar.ast import Grammar, Rule
    from logwatch.model import Value

__all__ = ["Failed", "Outcome", "Parsed", "Reader", "RuleReader"]

BLANKS: Final = " \t"
LONGEST_WHOLE: Final = 500
"""Characters of a line kept as a field (`Rule.whole`)."""
BEFORE_GREP: Final = re.compile(
    r"(?:[^\s:]{1,1000}:)?[0-9]{1,12}:|[^\s:]{0,1000}[./][^\s:]{0,1000}:|(?:[^\s:]{1,1000}-)?[0-9]{1,12}-"
)
BEGINS_LIKE_A_PREFIX: Final = re.compile(r"[\[(0-9]|[A-Z][A-Z0-9]+[ \t\]]")
NOT_IN_A_PREFIX: Final = re.compile(r"[\"'{}]|:[ \t]")
NOT_AROUND_A_BAR: Final = re.compile(r"[\"'{}]")


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
                    later = moved(outcome, start)
        failed = later or failed
        return None if failed is None else moved(failed, indent)


class RuleReader:
    """One rule, ready to read texts of which both ends are stripped."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.anchor = rule.anchor
        self._pairs = PairsReader(rule) if pairs_of(rule) else None
        self._leads = beginning(rule.pattern).startswith(rule.anchor.rstrip(BLANKS))
        shape = head_shape(rule) if self._pairs else fixed_shape(rule)
        self._match = fused(shape.regex)
        self._takes = takes(rule, shape.groups)
        self._constants: dict[str, Value] = dict(rule.constants)
        self._claims = re.compile("^" + expression(rule.claim, ANYTHING)).match if rule.claim else None

    def read(self, text: str) -> Outcome:
        """The record, or why there is none although the text claims to be one, or None."""
        if self._pairs is not None:
            quick = self._pairs.quick(text)
            if quick is not None:
                return self._record(text, {**self._constants, **quick})
        match = self._match(text)
        if match is None:
            return self._near_miss(text)
        fields = dict(self._constants)
        wrong = take(match, self._takes, fields, self.rule.kind)
        if wrong is None and self._pairs is not None:
            wrong = self._pairs.read(text, match.start(PAIRS_GROUP), fields)
        if wrong is not None:
            return wrong if self._claims is not None else None
        return self._record(text, fields)

    def _record(self, text: str, fields: dict[str, Value]) -> Parsed:
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
        return failure(self.rule.kind, self.rule.pattern, text)

    def later_starts(self, text: str) -> Sequence[int]:
        """Places 2 and 3 of the module's rule, for this rule and this text."""
        starts = []
        grep = BEFORE_GREP.match(text)
        if grep is not None:
            starts.append(_next_word(text, grep.end()))
        at = text.find(self.anchor)
        if not self._leads:
            at = max(text.rfind("]", 0, at), text.rfind("|", 0, at)) + 1 if self._claims else 0
        if at > 0 and _may_stand_before(text[:at].rstrip(BLANKS)):
            starts.append(_next_word(text, at))
        return starts


def _next_word(text: str, at: int) -> int:
    while at < len(text) and text[at] in BLANKS:
        at += 1
    return at


def _may_stand_before(text: str) -> bool:
    """Whether a text is a progress bar or a logger's prefix, behind which a record may begin."""
    if not text.endswith(("]", "|")):
        return False
    if "%|" in text:
        return NOT_AROUND_A_BAR.search(text) is None
    return BEGINS_LIKE_A_PREFIX.match(text) is not None and NOT_IN_A_PREFIX.search(text) is None
