"""Level 7: the command line. Parse, call one function, print; the one place that catches errors."""

from __future__ import annotations

import importlib
import os
import sys

import click

from logwatch import __version__
from logwatch.commands.common import printable
from logwatch.errors import LogwatchError

COMMANDS = ("watch", "replay", "compare", "tune", "breakeven", "check", "grammar", "export", "doctor", "demo")


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


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="logwatch")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Know that speculative decoding stopped being worth it, since when, and why.

    \b
    Exit status: 0 all in band, 1 an incident or a change, 2 trouble.
    A tour of half a minute: logwatch demo
    """
    del debug  # read by `main`, which wraps every command


def main() -> None:
    """Run the command line. Errors are one line a problem on standard error, and status 2.

    Interrupted by the user: 130. A reader that left (`| head`): 141, as for a program that died of SIGPIPE.
    """
    debug = "--debug" in sys.argv[1:]
    try:
        sys.exit(cli(prog_name="logwatch", standalone_mode=False))
    except LogwatchError as error:
        if debug:
            raise
        problems = [f"logwatch: {printable(line)}" for line in str(error).splitlines()]
        click.echo("\n".join(problems), err=True)
    except click.ClickException as error:
        error.show()
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # Python would complain once more when it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:  # the outermost edge: a bug is one line too, unless asked for
        if debug:
            raise
        what = printable(f"{type(error).__name__}: {error}")
        click.echo(
            f"logwatch: internal error: {what}; run again with `logwatch --debug` and report it", err=True
        )
    sys.exit(2)
