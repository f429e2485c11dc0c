"""Level 7: the command line. Parse, call one function, print; the one place that catches errors."""

from __future__ import annotations

import importlib
import io
import os
import sys
import traceback
from typing import Literal, TextIO

import click

from logwatch import __version__
from logwatch.commands.common import printable
from logwatch.errors import LogwatchError

COMMANDS = ("watch", "replay", "compare", "tune", "breakeven", "check", "grammar", "export", "doctor", "demo")


class _ReaderLeftError(Exception):
    """Nobody reads standard output any more."""


class LazyGroup(click.Group):
    """A group whose commands are imported when asked for: `logwatch --version` loads none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the contract, which is the order of a first day with logwatch."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import `logwatch.commands.NAME` and give its `command`."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"logwatch.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # click would end with 1, which says that there is an incident
            raise _ReaderLeftError from error


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="logwatch")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Know that speculative decoding stopped being worth it, since when, and why.

    \b
    Exit status: 0 all in band, 1 an incident or a change, 2 trouble.
    A tour of half a minute: logwatch demo
    """
    del debug  # read by `main`, which wraps every command
    if os.environ.get("NO_COLOR"):
        ctx.color = False


def main() -> None:
    """Run the command line. Errors are one line a problem on standard error, and status 2.

    Interrupted by the user: 130. A reader that left (`| head`): 141, as for a program that died of SIGPIPE.
    """
    _ready_streams()
    debug = "--debug" in sys.argv[1:]
    try:
        sys.exit(cli(prog_name="logwatch", standalone_mode=False))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except _ReaderLeftError:
        _drop_output()
        sys.exit(141)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
    except Exception as error:  # noqa: BLE001 - the outermost edge: a bug is one line too, unless asked for
        if debug:
            traceback.print_exc()
        else:
            click.echo("\n".join(f"logwatch: {line}" for line in _lines(error)), err=True)
        if isinstance(error, OSError):
            _drop_output()
    sys.exit(2)


def _lines(error: Exception) -> list[str]:
    """What, where, what to do: a line a problem, and nothing in it that steers a terminal."""
    if isinstance(error, LogwatchError):
        return [printable(line) for line in str(error).splitlines()]
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        path = context.command_path if context else "logwatch"
        what = printable(error.format_message().rstrip(".").replace("\n", " "))
        where = path.removeprefix("logwatch").strip()
        return [f"{where}: {what}; see `{path} --help`" if where else f"{what}; see `{path} --help`"]
    if isinstance(error, OSError) and error.strerror:
        where = printable(str(error.filename or "standard output"))
        return [f"{where}: {error.strerror}; check path, permissions and disk"]
    what = printable(f"{type(error).__name__}: {error}")
    return [f"internal error: {what}; run again with `logwatch --debug` and report it"]


def _ready_streams() -> None:
    """Closed streams hold nothing and swallow what is written; what an encoding lacks is written as `?`."""
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere("w")
    sys.stderr = sys.stderr or _nowhere("w")
    for stream in (sys.stdout, sys.stderr):
        # A locale of C keeps the bytes of a file's name as they are: that is as good in UTF-8.
        whole = stream.encoding.lower() == "utf-8" and stream.errors == "surrogateescape"
        if isinstance(stream, io.TextIOWrapper) and not whole:
            stream.reconfigure(errors="replace")


def _nowhere(mode: Literal["r", "w"]) -> TextIO:
    """The null device under the lowest free number: where streams are closed in their order, under their own."""
    return os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8")


def _drop_output() -> None:
    """Python would complain once more when it flushes standard output at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
