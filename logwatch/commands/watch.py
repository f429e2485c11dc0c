"""Level 6: `logwatch watch`: the daemon's command line and its signals."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click

from logwatch.commands.common import config_option
from logwatch.config import Config, HttpConfig, SourceConfig, load_config
from logwatch.errors import ConfigError, Problem, SourceError


@click.command()
@click.argument("source", nargs=-1)
@config_option
@click.option("--listen", help="HOST:PORT of /metrics and the status page, instead of the configured one.")
@click.option(
    "--start",
    type=click.Choice(["end", "beginning"]),
    help="Where to begin in files that are there already; default: as configured, else at their end.",
)
@click.option(
    "--poll", is_flag=True, help="Look at files by the clock instead of waiting for events (for NFS)."
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="State directory; else $STATE_DIRECTORY, else ~/.local/state/logwatch.",
)
def command(
    source: tuple[str, ...],
    config_path: Path | None,
    listen: str | None,
    start: str | None,
    poll: bool,
    state: Path | None,
) -> None:
    """Follow logs, judge them, export metrics and alert.

    Runs until SIGTERM; SIGHUP loads the configuration again. SOURCE is a file, a glob in quotes, a FIFO or - for
    standard input; without one, the configured sources are followed, which may be units of the journal too.
    What the configuration may say: logwatch check --help.

    \b
    Example:
      logwatch watch --start beginning '/var/log/sglang/*.log'
    """
    from logwatch.daemon import Daemon
    from logwatch.wiring import default_state_directory

    def load() -> Config:
        config = _with_options(load_config(config_path), source, listen, start, poll=poll)
        if not config.source:  # also at a reload: an editor may have written half of the file
            hint = "name a file, as in `logwatch watch server.log`, or add a [[source]] to logwatch.toml"
            raise SourceError(Problem("watch", "nothing to follow", hint))
        return config

    config = load()
    daemon = Daemon(config, state_directory=state or default_state_directory(os.environ), reload=load)
    daemon.on_ready = lambda: click.echo(f"logwatch: metrics at {daemon.address}/metrics", err=True)
    signal.signal(signal.SIGTERM, lambda *_: daemon.stop())
    signal.signal(signal.SIGINT, lambda *_: daemon.stop())
    signal.signal(signal.SIGHUP, lambda *_: daemon.reload())
    daemon.run()


def _with_options(
    config: Config, source: tuple[str, ...], listen: str | None, start: str | None, *, poll: bool
) -> Config:
    """The configuration with what the command line says instead."""
    if "" in source:
        raise ConfigError(Problem("SOURCE", "an empty name is no file", "is a variable of the shell empty?"))
    sources = tuple(SourceConfig(path=path) for path in source) or config.source
    if start:
        sources = tuple(each.model_copy(update={"start": start}) for each in sources)
    http, follow = config.http, config.follow
    if listen:
        try:
            http = http.model_copy(update={"listen": HttpConfig(listen=listen).listen})
        except ValueError:
            raise ConfigError(Problem("--listen", f"{listen!r} is not HOST:PORT")) from None
    if poll:
        follow = follow.model_copy(update={"mode": "poll"})
    return config.model_copy(update={"source": sources, "http": http, "follow": follow})
