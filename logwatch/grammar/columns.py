"""Level 1: groups of a match to fields, a column at a time, as the converters of `kinds` would.

A value that columns cannot hold as converters do (an integer of twenty digits, say) takes its row out: the
row is then read by the streaming reader, which decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from logwatch.grammar.kinds import LONGEST_NUMBER, LONGEST_TEXT, TRUE, UNITS, Kind
from logwatch.grammar.streaming import LONGEST_WHOLE
from logwatch.grammar.vocabulary import NUMBERS, RECORDS

if TYPE_CHECKING:
    import polars as pl

    from logwatch.grammar.ast import Rule
    from logwatch.grammar.expression import Group

SAFE_INT_DIGITS: Final = 15
BLANKS: Final = " \t"
GOOD: Final = "good__"


def stripped(name: str) -> pl.Expr:
    """The text column without blanks at both ends."""
    import polars as pl  # noqa: PLC0415 - heavy, and the watch path never comes here

    return pl.col(name).str.strip_chars(BLANKS)


def convert(rule: Rule, groups: tuple[Group, ...], texts: pl.DataFrame, line: str) -> pl.DataFrame:
    """Fields of rows.

    Args:
        rule: Gives the constants and what is sane.
        groups: Of the expression.
        texts: `row`, `text` (stripped), `line` (null where the expression did not match), and one text
            column per group.
        line: Name of that column.

    Returns:
        `row`, then one column a field, and `good__`: whether the row matched and its values are sane.
    """
    import polars as pl  # noqa: PLC0415 - see stripped

    slots = RECORDS[rule.kind]
    constants = [pl.lit(value).alias(name) for name, value in rule.constants.items()]
    values = [_value(group, texts) for group in groups]
    whole = [pl.col("text").str.slice(0, LONGEST_WHOLE).alias(rule.whole)] if rule.whole else []
    given = [pl.col(group.name).is_null().alias(f"{group.name}__none") for group in groups]
    matched = pl.col(line).is_not_null().alias(GOOD)
    frame = texts.select("row", *constants, *values, *whole, *given, matched)
    sane = [pl.col(f"{group.name}__none") | _sane(group, slots[group.name].most) for group in groups]
    return frame.with_columns(pl.all_horizontal(GOOD, *sane)).drop(f"{group.name}__none" for group in groups)


def _sane(group: Group, most: float) -> pl.Expr:
    import polars as pl  # noqa: PLC0415 - see stripped

    value = pl.col(group.name)
    if group.kind.gives in NUMBERS:
        return (value <= most).fill_null(value=False)
    return value.is_not_null()


def _value(group: Group, matched: pl.DataFrame) -> pl.Expr:
    import polars as pl  # noqa: PLC0415 - see stripped

    kind = group.kind
    text = pl.col(group.name)
    short = pl.when(text.str.len_chars() <= LONGEST_NUMBER).then(text)
    match kind.name:
        case "int":
            value = pl.when(text.str.len_chars() <= SAFE_INT_DIGITS).then(text).cast(pl.Int64, strict=False)
        case "real":
            value = short.cast(pl.Float64, strict=False)
            value = pl.when(value.is_finite()).then(value)
        case "duration":
            powers = {unit: f"e{power}" for unit, power in UNITS.items()}
            power = pl.col(group.unit_group or "").replace_strict(
                powers, default=None, return_dtype=pl.String
            )
            value = (short + power).cast(pl.Float64, strict=False)
        case "bool":
            value = pl.when(text.is_not_null()).then(text.is_in(sorted(TRUE)))
        case "text":
            value = text.str.strip_chars(BLANKS).str.slice(0, LONGEST_TEXT)
        case "sentence":
            value = text.str.strip_chars(BLANKS).str.strip_suffix(".").str.slice(0, LONGEST_TEXT)
        case "label":
            value = _by_distinct(text, kind, matched[group.name])
        case "word" | "name" | "timestamp":
            value = pl.when(text.str.len_chars() <= LONGEST_TEXT).then(text)
        case _:
            value = (short + f"e{kind.power}").cast(pl.Float64, strict=False)
    return value.alias(group.name)


def _by_distinct(text: pl.Expr, kind: Kind, column: pl.Series) -> pl.Expr:
    """Convert each distinct text once: labels are few, and Python's lower case is not Rust's."""
    import polars as pl  # noqa: PLC0415 - see stripped

    names = {label: kind.convert(label, None) for label in column.drop_nulls().unique().to_list()}
    if not names:
        return text
    return text.replace_strict(list(names), list(names.values()), default=None, return_dtype=pl.String)
