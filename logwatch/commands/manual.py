"""Level 6: the man page, made from the commands themselves, so that it says what `--help` says."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES = (
    ("/etc/logwatch/logwatch.toml, ./logwatch.toml", "Configuration; see logwatch check below."),
    ("$STATE_DIRECTORY, ~/.local/state/logwatch", "Positions, history and alerts that wait."),
)
_ENVIRONMENT = (
    ("LOGWATCH_CONFIG", "Configuration file to use."),
    ("LOGWATCH_SECTION__KEY", "Overrides a scalar of the configuration."),
    ("NO_COLOR", "No colour on a terminal."),
)
_STATUS = (("0", "All in band."), ("1", "An incident, or a significant change."), ("2", "Trouble."))


def man_page(cli: click.Command, version: str) -> str:
    """The page `logwatch(1)` in man's own notation.

    Args:
        cli: The whole command line.
        version: For the page's foot.
    """
    context = click.Context(cli, info_name="logwatch", max_content_width=72)
    lines = [
        f'.TH LOGWATCH 1 "" "logwatch {version}" "User Commands"',
        ".SH NAME",
        f"logwatch \\- {_escaped(cli.get_short_help_str(200).rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B logwatch",
        _escaped(" ".join(cli.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_help(cli),
        *_options(cli, context),
        ".SH COMMANDS",
        *_commands(cli, context),
    ]
    for title, table in (("FILES", _FILES), ("ENVIRONMENT", _ENVIRONMENT), ("EXIT STATUS", _STATUS)):
        lines += [f".SH {title}", *(line for term, text in table for line in _item(term, text))]
    return "\n".join(lines) + "\n"


def _commands(group: click.Command, context: click.Context) -> Iterator[str]:
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, parent=context, info_name=name)
        yield f".SS {_escaped(inner.command_path)} {_escaped(' '.join(command.collect_usage_pieces(inner)))}"
        yield from _help(command)
        yield from _options(command, inner)
        yield from _commands(command, inner)


def _help(command: click.Command) -> Iterator[str]:
    """A command's help as paragraphs; what click leaves as it is (`\\b`) stays as it is."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))):
        kept = paragraph.startswith("\b")
        text = paragraph.lstrip("\b\n")
        if number:
            yield ".PP"
        if kept:
            yield from (".nf", *(_escaped(line) for line in text.splitlines()), ".fi")
        else:
            yield _escaped(" ".join(text.split()))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1] and parameter.name != "help":
            yield from _item(*record)


def _item(term: str, text: str) -> Iterator[str]:
    yield from (".TP", f".B {_escaped(term)}", _escaped(" ".join(text.split())))


def _escaped(text: str) -> str:
    """Text that man takes as text: backslashes, hyphens that are typed, a dot at the beginning of a line."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped.startswith((".", "\\(aq")) else escaped
