"""Level 1: AST to Rust-regex text, and its use on whole columns of lines (bulk replay).

How to use it in bulk:

    bulk = BulkReader(load_grammars())
    result = bulk.read(texts)              # a polars Series of messages: what `Frame.text` is, one a line
    for table in result.tables:            # one per rule and shape that occurred
        table.kind                         # "decode"
        table.frame                        # `row` (index into `texts`), then one column a field (or null)
    for row, outcome in result.singles:    # what was read line by line: `Parsed` or `Failed`
        ...

or, for row order and Python values, `result.outcomes()`. What is in neither is in no grammar (`None` of
`streaming.Reader`). The result equals that of `streaming.Reader`, line for line: rules are tried in the
same order, a rule that does not match a line to its end leaves it to the next, and what no rule takes as a
column goes through the streaming reader itself (near misses, `grep` prefixes, glued progress bars,
`server_args`).

Lists of pairs are read by shape (see `shapes`): the first line of a new order of keys is read item by item,
and makes the expression for all others. Keep one `BulkReader` for all chunks of a file: it keeps the
shapes.

For own expressions: `rules(grammars)` gives per rule its anchor (filter by it first: a literal search is
far faster), the Rust-regex text and the groups; texts must have blanks and tabs stripped at both ends.
Polars is imported when a `BulkReader` is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from logwatch.grammar.columns import GOOD, convert, stripped
from logwatch.grammar.outcomes import Failed, Parsed
from logwatch.grammar.shapes import Shape, fixed_shape, head_shape, pairs_of, shape_of
from logwatch.grammar.streaming import Reader, RuleReader

if TYPE_CHECKING:
    import polars as pl

    from logwatch.grammar.ast import Grammar, Rule
    from logwatch.model import Value

LINE: Final = "line__"
MOST_SHAPES: Final = 64
MOST_TRIES: Final = 200
"""Lines read singly in search of a new shape, per call and rule: malformed lines give none."""


@dataclass(frozen=True, slots=True)
class BulkRule:
    """One rule in its Rust form.

    Attributes:
        regex: Matches a stripped text from end to end. Of a rule with pairs it leaves the list in one group,
            `pairs__`; `shapes.shape_of` makes the expression of a list's shape.
    """

    name: str
    kind: str
    anchor: str
    regex: str
    groups: tuple[str, ...]


def rules(grammars: Iterable[Grammar]) -> list[BulkRule]:
    """All rules in the order in which they are tried."""
    found = []
    for grammar in grammars:
        for rule in grammar.rules:
            shape = head_shape(rule) if pairs_of(rule) else fixed_shape(rule)
            names = tuple(group.name for group in shape.groups)
            found.append(BulkRule(rule.name, rule.kind, rule.anchor, shape.regex, names))
    return found


@dataclass(frozen=True, slots=True)
class Table:
    """Records of one kind as columns.

    Attributes:
        frame: (n_records, 1 + n_fields): `row`, index into the texts read, then the fields, null where a
            record has none.
    """

    kind: str
    frame: pl.DataFrame


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What a column of texts holds: most of it as tables, the odd lines singly."""

    tables: list[Table]
    singles: list[tuple[int, Parsed | Failed]]

    def outcomes(self) -> Iterator[tuple[int, Parsed | Failed]]:
        """All of it in the texts' order."""
        found = list(self.singles)
        for table in self.tables:
            for values in table.frame.iter_rows(named=True):
                row = values.pop("row")
                fields: dict[str, Value] = {
                    name: value for name, value in values.items() if value is not None
                }
                found.append((row, Parsed(table.kind, fields)))
        found.sort(key=lambda outcome: outcome[0])
        yield from found


class BulkReader:
    """Reads columns of texts; gives what `streaming.Reader` gives for each of them."""

    def __init__(self, grammars: Iterable[Grammar]) -> None:
        grammars = tuple(grammars)
        self._reader = Reader(grammars)
        self._ignore = tuple(text for grammar in grammars for text in grammar.ignore)
        self._rules = [_RuleColumns(rule) for grammar in grammars for rule in grammar.rules]
        self._anchors = list(dict.fromkeys(rule.rule.anchor for rule in self._rules))

    def read(self, texts: pl.Series) -> BulkResult:
        """Read a column of texts, null where there is none."""
        import polars as pl  # noqa: PLC0415 - heavy, and the watch path never comes here

        left = (
            pl.DataFrame({"row": pl.int_range(len(texts), eager=True), "text": texts})
            .filter(pl.col("text").str.contains_any(self._anchors))
            .with_columns(stripped("text"))
        )
        if self._ignore:
            ignored = pl.any_horizontal(*(pl.col("text").str.starts_with(text) for text in self._ignore))
            left = left.filter(~ignored)
        tables: list[Table] = []
        apart: list[pl.Series] = []
        for rule in self._rules:
            if left.is_empty():
                break
            has_anchor = pl.col("text").str.contains(rule.rule.anchor, literal=True)
            candidates = left.filter(has_anchor)
            if candidates.is_empty():
                continue
            frames, rest = rule.read(candidates) if rule.in_columns else ([], candidates)
            tables.extend(Table(rule.rule.kind, frame) for frame in frames)
            # Of what it has not read it may yet read some, singly: no rule behind it may take that.
            matches = pl.col("text").str.contains(rule.regex)
            apart.append(rest.filter(matches)["row"])
            if frames or len(apart[-1]):
                left = pl.concat([left.filter(~has_anchor), rest.filter(~matches)])
        singles: list[tuple[int, Parsed | Failed]] = []
        # Columns in the message count from its first character: the unstripped text is read again.
        for row in pl.concat([left["row"], *apart]).sort():
            outcome = self._reader.read(texts[row])
            if outcome is not None:
                singles.append((row, outcome))
        return BulkResult(tables, singles)


class _RuleColumns:
    """One rule over columns."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        shape = fixed_shape(rule)
        self._has_pairs = pairs_of(rule) is not None
        self._shapes: list[Shape] = [] if self._has_pairs else [shape]
        self.regex = (head_shape(rule) if self._has_pairs else shape).regex
        self.in_columns = not any(group.kind.gives == "map" for group in shape.groups)
        self._single = RuleReader(rule)

    def read(self, candidates: pl.DataFrame) -> tuple[list[pl.DataFrame], pl.DataFrame]:
        """Frames of the rows that the rule reads, one a shape, and the other rows."""
        frames: list[pl.DataFrame] = []
        for shape in self._shapes:
            if candidates.is_empty():
                break
            found, candidates = self._apply(shape, candidates)
            if not found.is_empty():
                frames.append(found)
        if self._has_pairs:
            return self._new_shapes(frames, candidates)
        return frames, candidates

    def _new_shapes(
        self, frames: list[pl.DataFrame], candidates: pl.DataFrame
    ) -> tuple[list[pl.DataFrame], pl.DataFrame]:
        start = 0  # rows before it were read singly, and gave no shape
        for _ in range(MOST_TRIES):
            if start >= candidates.height or len(self._shapes) >= MOST_SHAPES:
                break
            shape = self._shape_of(candidates["text"][start])
            if shape is None or shape in self._shapes:
                start += 1  # malformed, or with a value beyond what columns hold
                continue
            self._shapes.append(shape)
            found, candidates = self._apply(shape, candidates)
            if not found.is_empty():
                frames.append(found)
        return frames, candidates

    def _shape_of(self, text: str) -> Shape | None:
        if not isinstance(self._single.read(text), Parsed):
            return None
        start = self._single.pairs_start(text)
        return None if start is None else shape_of(self.rule, text[start:])

    def _apply(self, shape: Shape, candidates: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows that the shape reads, as fields, and the other rows as they were."""
        import polars as pl  # noqa: PLC0415 - see BulkReader.read

        regex = f"(?P<{LINE}>{shape.regex})"
        groups = candidates.select("row", "text", pl.col("text").str.extract_groups(regex).alias("groups"))
        fields = convert(self.rule, shape.groups, groups.unnest("groups"), LINE)
        return fields.filter(GOOD).drop(GOOD), candidates.filter(~fields[GOOD])
