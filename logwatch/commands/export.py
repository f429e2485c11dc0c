"""Level 6: `logwatch export`: what an operator's other systems need, made to match the configuration."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logwatch.commands.common import config_option
from logwatch.errors import ConfigError, Problem, SourceError
from logwatch.model import seconds_of
from logwatch.resources import folder

if TYPE_CHECKING:
    from logwatch.config import Config
    from logwatch.outlets.prometheus_rules import RuleSettings

output_option = click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="Where to write to; else standard output.",
)


@click.group(short_help="Write dashboards, rules, unit, runbooks, history, man page.")
def command() -> None:
    """Write dashboards, rules, unit, runbooks, history, man page, completion.

    \b
    Example:
      logwatch export rules > /etc/prometheus/rules/logwatch.yml
    """


@command.command()
@config_option
@output_option
def rules(config_path: Path | None, output: Path | None) -> None:
    """Prometheus recording and alerting rules.

    \b
    Example:
      logwatch export rules | promtool check rules /dev/stdin
    """
    from logwatch.config import load_config
    from logwatch.outlets.prometheus_rules import rule_file

    _write(rule_file(rule_settings(load_config(config_path))), output)


@command.command()
@click.argument("name", default="logwatch-server")
@config_option
@output_option
@click.option("--all", "every", is_flag=True, help="Write all dashboards; --output is a folder then.")
def dashboard(name: str, config_path: Path | None, output: Path | None, every: bool) -> None:
    """Grafana dashboards: logwatch-server, logwatch-fleet, logwatch-health.

    \b
    Example:
      logwatch export dashboard --all -o /var/lib/grafana/dashboards
    """
    from logwatch.config import load_config
    from logwatch.outlets.dashboards import NAMES, DashboardSettings
    from logwatch.outlets.dashboards import dashboard as dashboard_text

    config = load_config(config_path)
    settings = DashboardSettings(
        phase=config.band[0].phase if config.band else DashboardSettings().phase,
        status_url=config.http.external_url,
        runbook_url=config.alerting.runbook_url,
    )
    if name not in NAMES:
        raise SourceError(Problem(name, "no such dashboard", f"there are: {', '.join(NAMES)}"))
    if not every:
        _write(dashboard_text(folder("dashboards"), name, settings), output)
        return
    if output is None:
        raise SourceError(Problem("--all", "needs a folder to write to", "add --output FOLDER"))
    output.mkdir(parents=True, exist_ok=True)
    for each in NAMES:
        _write(dashboard_text(folder("dashboards"), each, settings), output / f"{each}.json")


@command.command()
@config_option
@output_option
@click.option("--systemd", "version", type=int, default=257, show_default=True, help="Version it is for.")
def unit(config_path: Path | None, output: Path | None, version: int) -> None:
    """Systemd unit: a sandboxed sidecar with a watchdog.

    \b
    Example:
      logwatch export unit -o /etc/systemd/system/logwatch.service
    """
    from logwatch.config import find_config, load_config
    from logwatch.outlets.unit import CONFIG, PROGRAM, UnitSettings
    from logwatch.outlets.unit import unit as unit_text

    config = load_config(config_path)
    found = find_config(config_path, os.environ)
    secrets = (
        path
        for alert in config.alert
        for path in (alert.webhook_file, alert.bearer_token_file, alert.routing_key_file)
    )
    settings = UnitSettings(
        program=shutil.which("logwatch") or PROGRAM,
        config=str(found.absolute()) if found else CONFIG,
        files=tuple(source.path for source in config.source if source.path),
        journal=not config.source or any(source.journal for source in config.source),
        secrets=tuple(str(path) for path in secrets if path is not None),
        systemd=version,
    )
    _write(unit_text(settings), output)


@command.command()
@click.argument("alert", required=False)
@output_option
def runbooks(alert: str | None, output: Path | None) -> None:
    """Runbooks: what an alert means and what to do. Lists them, shows one, or copies all.

    \b
    Example:
      logwatch export runbooks SpecVerifyOutOfBand
    """
    paths = {path.stem: path for path in sorted((folder("dashboards") / "runbooks").glob("*.md"))}
    if alert is not None:
        if alert not in paths:
            raise SourceError(Problem(alert, "no such runbook", f"there are: {', '.join(paths)}"))
        _write(paths[alert].read_text(encoding="utf-8"), output)
    elif output is None:
        for name in paths:
            click.echo(name)
    else:
        output.mkdir(parents=True, exist_ok=True)
        for path in paths.values():
            _write(path.read_text(encoding="utf-8"), output / path.name)


@command.command()
@click.option(
    "--parquet",
    "target",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder to write to: one file a day and stream.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="State directory; else $STATE_DIRECTORY, else ~/.local/state/logwatch.",
)
@click.option("--since", metavar="TIME", help="Leave out what is older (ISO 8601).")
@click.option("--until", metavar="TIME", help="Leave out what is younger (ISO 8601).")
def history(target: Path, state: Path | None, since: str | None, until: str | None) -> None:
    """Samples that the daemon has kept, as Parquet.

    \b
    Example:
      logwatch export history --parquet samples --state /var/lib/logwatch
    """
    from logwatch.outlets.history import export_parquet
    from logwatch.wiring import default_state_directory

    written = export_parquet(
        state or default_state_directory(os.environ),
        target,
        _instant("--since", since, -1e18),
        _instant("--until", until, 1e18),
    )
    for path in written:
        click.echo(path)


@command.command()
@output_option
def man(output: Path | None) -> None:
    """The man page logwatch(1).

    \b
    Example:
      logwatch export man -o /usr/local/share/man/man1/logwatch.1
    """
    from logwatch import __version__
    from logwatch.commands.manual import man_page

    _write(man_page(_whole_command_line(), __version__), output)


@command.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@output_option
def completion(shell: str, output: Path | None) -> None:
    """Completion for a shell.

    \b
    Example:
      logwatch export completion bash > /etc/bash_completion.d/logwatch
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None, "the choices are click's own shells"
    _write(made(_whole_command_line(), {}, "logwatch", "_LOGWATCH_COMPLETE").source() + "\n", output)


def _whole_command_line() -> click.Command:
    """The `logwatch` that this command was called through."""
    return click.get_current_context().find_root().command


def _instant(option: str, text: str | None, default: float) -> float:
    """Seconds since the epoch; a time without a zone is UTC, as in the state.

    Raises:
        ConfigError: It is not a time.
    """
    if text is None:
        return default
    instant = seconds_of(text)
    if instant is None:
        raise ConfigError(Problem(option, f"{text!r} is not a time", "write it as 2026-02-11T08:15:02"))
    return instant


def rule_settings(config: Config) -> RuleSettings:
    """What of the configuration enters the rules."""
    from logwatch.outlets.prometheus_rules import RuleSettings

    return RuleSettings(
        severities={band.phase: band.severity for band in reversed(config.band)},
        baseline=config.speculation.baseline_tokens_per_second is not None,
        runbook_url=config.alerting.runbook_url,
        dashboard_url=config.alerting.dashboard_url,
    )


def _write(text: str, output: Path | None) -> None:
    """Write to the file, or to standard output.

    Raises:
        ConfigError: The file cannot be written.
    """
    if output is None or str(output) == "-":
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            Problem(str(output), f"cannot be written: {error.strerror}", "choose another --output")
        ) from None
