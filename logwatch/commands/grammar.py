"""Level 6: `logwatch grammar`: look at grammars, try them on logs, ask them about a line, draw them."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logwatch.commands.common import config_option, format_option, printable, printable_json
from logwatch.intake.names import readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from logwatch.grammar.ast import Grammar, Rule
    from logwatch.model import Malformed, Record, Value

directory_option = click.option(
    "--directory",
    "directories",
    multiple=True,
    type=click.Path(path_type=Path),
    help="One more directory of grammars, before the configured ones.",
)


@click.group(short_help="Show, test, explain and draw grammars.")
def command() -> None:
    """Show, test, explain and draw the grammars that logs are read by.

    \b
    A grammar is a TOML file; each table [record.NAME] is one kind of line:
      anchor          a text that stands in every such line
      pattern         the line; without it: the anchor, and whatever follows
      kind            the record it gives, if not NAME: phase, decode, event, ...
      claim           how a line starts that is this record or malformed
      set, whole      fields that do not stand in the line; field for its whole text
      pairs           table of a list's keys: "accept len" = "{tokens_per_cycle:real}"

    \b
    A pattern holds
      text            these characters; a blank is one or more blanks or tabs
      {name:kind}     a field; {:kind} is matched and forgotten
      {?...?}         a part that may be missing
      {|...|...|}     one of several parts
      {...}           anything, up to the first occurrence of the literal behind it
      {pairs}         `key: value, key: value` in any order; unknown keys are passed over
      {'...'}         exactly these characters
    Kinds of fields are listed by `logwatch grammar show`. What other programs put before the message
    (times, ranks, containers, journals) is taken off first: `explain` says where the message begins.

    \b
    Examples:
      logwatch grammar test server.log --format jsonl
      logwatch grammar explain '  Target verify:  19,14 ms/cyc'
    """


def _grammars(config_path: Path | None, directories: tuple[Path, ...]) -> tuple[Grammar, ...]:
    from logwatch.config import load_config
    from logwatch.grammar.load import load_grammars

    return load_grammars([*directories, *load_config(config_path).grammars.directories])


@command.command("list")
@config_option
@directory_option
@format_option("table", "json")
def list_(config_path: Path | None, directories: tuple[Path, ...], output: str) -> None:
    """List the grammars in the order in which they are tried.

    \b
    Example:
      logwatch grammar list
    """
    grammars = _grammars(config_path, directories)
    if output == "json":
        click.echo(
            json.dumps(
                [{"name": g.name, "path": g.path, "records": [r.name for r in g.rules]} for g in grammars],
                indent=2,
            )
        )
        return
    width = max(len(grammar.name) for grammar in grammars)
    for grammar in grammars:
        kinds = ", ".join(dict.fromkeys(rule.kind for rule in grammar.rules))
        click.echo(f"{grammar.name:{width}}  {kinds}\n{'':{width}}  {grammar.path}")


@command.command()
@click.argument("name", required=False)
@config_option
@directory_option
def show(name: str | None, config_path: Path | None, directories: tuple[Path, ...]) -> None:
    """Show the records of the grammar NAME: pattern, fields, expression; without NAME, the kinds of both.

    \b
    Example:
      logwatch grammar show sglang
    """
    if name is None:
        click.echo("\n".join(_kinds()))
        return
    grammar = _named(_grammars(config_path, directories), name)
    click.echo(f"{click.style(grammar.name, bold=True)}  {grammar.path}")
    for text in grammar.ignore:
        click.echo(f"  passes over what starts with `{text}`")
    for rule in grammar.rules:
        click.echo("\n" + "\n".join(_shown(rule)))


def _kinds() -> Iterator[str]:
    from logwatch.grammar.kinds import KINDS
    from logwatch.grammar.vocabulary import RECORDS

    yield click.style("Kinds of fields", bold=True)
    for kind in KINDS.values():
        yield f"  {kind.name:14}  {kind.help}"
    yield click.style("Kinds of records, and their fields", bold=True)
    for name, slots in RECORDS.items():
        fields = textwrap.wrap(", ".join(slots), 80)
        yield f"  {name:14}  " + f"\n{'':18}".join(fields)


def _shown(rule: Rule) -> Iterator[str]:
    from logwatch.grammar.ast import fields_of
    from logwatch.grammar.kinds import KINDS
    from logwatch.grammar.shapes import fixed_shape, head_shape, pairs_of

    title = rule.name if rule.name == rule.kind else f"{rule.name} ({rule.kind})"
    yield click.style(title, bold=True)
    yield f"  anchor   {rule.anchor}"
    yield f"  pattern  {rule.sources['pattern'].text}"
    pairs = pairs_of(rule)
    for pair in pairs.pairs if pairs else ():
        yield f"    {' | '.join(pair.keys)}: {rule.sources[pair.place].text}"
    for field in fields_of(rule.pattern):
        if field.name:
            yield f"  field    {field.name}: {KINDS[field.kind].noun}"
    for constant, value in rule.constants.items():
        yield f"  field    {constant}: always {value}"
    yield f"  regex    {(head_shape(rule) if pairs else fixed_shape(rule)).regex}"


def _named(grammars: tuple[Grammar, ...], name: str) -> Grammar:
    from logwatch.errors import GrammarError, Problem
    from logwatch.grammar.problems import nearest

    for grammar in grammars:
        if grammar.name == name:
            return grammar
    raise GrammarError(Problem(name, "No such grammar", nearest(name, [g.name for g in grammars])))


@command.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@config_option
@directory_option
@format_option("table", "jsonl")
def test(
    paths: tuple[str, ...], config_path: Path | None, directories: tuple[Path, ...], output: str
) -> None:
    """Print every record of the files, and every line that starts as a record but does not finish as one.

    Container and journal wrappings are taken off, packed files are unpacked; `-` is standard input.

    \b
    Example:
      logwatch grammar test server.log.gz --format jsonl
    """
    grammars = _grammars(config_path, directories)
    for path in paths:
        counts: Counter[str] = Counter()
        for found in _records(path, grammars):
            counts[_title(found)] += 1
            click.echo(
                printable_json(json.dumps(_as_json(found), ensure_ascii=False))
                if output == "jsonl"
                else _as_row(found)
            )
        if output == "table":
            summary = ", ".join(f"{count} {title}" for title, count in counts.most_common())
            click.echo(click.style(f"{printable(readable(path))}: {summary or 'no records'}", bold=True))


def _records(path: str, grammars: tuple[Grammar, ...]) -> Iterator[Record | Malformed]:
    """All of one file, through the stages that `watch` uses."""
    from logwatch.grammar.streaming import Reader
    from logwatch.intake.archive import open_archive
    from logwatch.reading.framing import Framing
    from logwatch.reading.lines import Lines
    from logwatch.reading.records import Records

    lines, framing, records = Lines(readable(path)), Framing(), Records(Reader(grammars))
    with open_archive(path) as archive:
        while data := archive.read():
            for line in lines.feed(data):
                for frame in framing.feed(line):
                    yield from records.feed(frame)
        for line in lines.finish():
            for frame in framing.feed(line):
                yield from records.feed(frame)
        for frame in framing.finish():
            yield from records.feed(frame)
        if archive.damage:
            click.echo(printable(f"logwatch: {readable(path)}: {archive.damage}"), err=True)


def _title(found: Record | Malformed) -> str:
    from logwatch.model import Record

    return found.kind if isinstance(found, Record) else f"malformed {found.kind}"


def _as_json(found: Record | Malformed) -> dict[str, object]:
    """Contract, section 5.3."""
    from logwatch.model import Record

    place: dict[str, object] = {"path": found.place.path, "line": found.place.line}
    if isinstance(found, Record):
        said = {"record": found.kind, "time": found.time, "rank": found.rank}
        return {**place, **said, "fields": dict(found.fields)}
    return {
        **place,
        "malformed": found.kind,
        "column": found.column,
        "expected": found.expected,
        "found": found.found,
        "time": found.time,
        "rank": found.rank,
    }


def _as_row(found: Record | Malformed) -> str:
    from logwatch.model import Record

    what = (
        _fields(found.fields)
        if isinstance(found, Record)
        else (f"column {found.column}: expected {found.expected}, found `{found.found}`")
    )
    what, time, rank = (printable(each) for each in (what, found.time or "-", found.rank or "-"))
    title = _title(found)
    title = title if isinstance(found, Record) else click.style(title, fg="red")
    return f"{found.place.line:>6}  {time:19}  {rank:7}  {title:12}  {what}"


def _fields(fields: Mapping[str, Value]) -> str:
    parts = []
    for name, value in fields.items():
        if isinstance(value, dict):
            parts.append(f"{name}={{{len(value)} entries}}")
        elif isinstance(value, float) and name.endswith("seconds"):
            parts.append(f"{name.removesuffix('seconds')}ms={value * 1000:.6g}")
        else:
            parts.append(f"{name}={value}")
    return " ".join(parts)


@command.command()
@click.argument("line")
@config_option
@directory_option
def explain(line: str, config_path: Path | None, directories: tuple[Path, ...]) -> None:
    """Say which record LINE is (or each of several), or where and why not.

    \b
    Example:
      logwatch grammar explain '[2026-02-11 08:15:02 TP0] Decode batch, #running-req: one'
    """
    from logwatch.grammar.streaming import Failed, Reader
    from logwatch.model import Line, Place
    from logwatch.reading.framing import Framing

    grammars = _grammars(config_path, directories)
    reader, framing = Reader(grammars), Framing()
    texts = line.strip("\r\n").split("\n")
    lines = (Line(Place("-", 0, number), text.rstrip("\r")) for number, text in enumerate(texts, start=1))
    frames = [*chain.from_iterable(map(framing.feed, lines)), *framing.finish()]
    for frame in frames:
        found = reader.read(frame.text)
        if len(frames) > 1 or frame.column > 1:
            tags = f"time {frame.time or 'none'}, rank {frame.rank or 'none'}"
            which = f"Line {frame.place.line}, message" if len(texts) > 1 else "Message"
            click.echo(f"{which} from column {frame.column} on ({tags}).")
        if found is None:
            click.echo("\n".join(_passed_over(grammars, frame.text)))
        elif isinstance(found, Failed):
            click.echo(f"Malformed: starts as a record `{found.kind}`, but does not finish as one.")
            click.echo(
                _caret(frame.text, found.column - 1, f"expected {found.expected}, found `{found.found}`")
            )
        else:
            click.echo(f"A record `{found.kind}`:")
            for name, value in found.fields.items():
                click.echo(printable_json(f"  {name} = {json.dumps(value, ensure_ascii=False)}"))


def _passed_over(grammars: tuple[Grammar, ...], text: str) -> Iterator[str]:
    from logwatch.grammar.elements import expectation

    stripped = text.strip(" \t")
    for grammar in grammars:
        for beginning in grammar.ignore:
            if stripped.startswith(beginning):
                yield f"Passed over: {grammar.name} ignores what starts with `{beginning}`."
                return
    near = [(grammar, rule) for grammar in grammars for rule in grammar.rules if rule.anchor in text]
    if not near:
        yield "No record: no grammar's anchor stands in it."
        return
    yield "No record. It holds an anchor of:"
    for grammar, rule in near[:5]:
        why = expectation(rule.pattern, stripped)
        yield f"{grammar.name}, record {rule.name}: {rule.sources['pattern'].text}"
        yield _caret(stripped, why.position, f"expected {why.what}")


def _caret(text: str, position: int, what: str) -> str:
    """The text, cut to a window around the position, with a caret below it."""
    start = max(0, position - 60)
    window = "".join(char if char.isprintable() else " " for char in text[start : position + 40])
    dots = "..." if start else ""
    return f"  {dots}{window}\n  {' ' * (len(dots) + position - start)}^ {printable(what)}"


@command.command()
@click.argument("name")
@click.option(
    "-o", "--output", "path", type=click.Path(path_type=Path), help="File; default: standard output."
)
@config_option
@directory_option
def diagram(name: str, path: Path | None, config_path: Path | None, directories: tuple[Path, ...]) -> None:
    """Draw the grammar NAME as railroad diagrams, one HTML page that needs nothing else.

    \b
    Example:
      logwatch grammar diagram sglang --output sglang.html
    """
    from logwatch.grammar.diagram import page

    html = page(_named(_grammars(config_path, directories), name))
    if path is None:
        click.echo(html)
    else:
        path.write_text(html, encoding="utf-8")
        click.echo(f"Wrote {path}.", err=True)
