"""Level 6: `logwatch check`: is everything there that `watch` will need?"""

from __future__ import annotations

import glob
import http.client
import json
import os
import shutil
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click

from logwatch.commands.common import config_option, format_option
from logwatch.config import AlertConfig, Config, SourceConfig, find_config, load_config, read_secret
from logwatch.errors import BandError, ConfigError, LogwatchError, Problem, SourceError

REACH_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        part: `configuration`, `grammar`, `http`, `source` or `alert`.
        name: Which one.
        problem: What is wrong and what to do, or empty.
        detail: What was seen.
    """

    part: str
    name: str
    detail: str = ""
    problem: str = ""


@click.command(short_help="Is everything there that `watch` will need?")
@config_option
@format_option("table", "json")
@click.option("--no-network", is_flag=True, help="Do not connect to alert receivers.")
def command(config_path: Path | None, output: str, no_network: bool) -> None:
    """Check configuration, grammars, the address of /metrics, sources and alert receivers.

    \b
    Example:
      logwatch check --config /etc/logwatch/logwatch.toml

    \b
    Everything in the configuration may be left out. One that says most of it:
      [[source]]                        # one for each file, glob, FIFO or unit
      path  = "/var/log/sglang/*.log"   # or: journal = "sglang.service"
      name  = "node7"                   # the label `stream`; else the file's name
      start = "end"                     # or "beginning": where files begin that are there already
      [[band]]
      phase = "target_verify"
      low   = "18ms"
      high  = "20.5ms"
      open_after    = 3                 # samples outside in a row
      resolve_after = 5                 # samples inside in a row
      severity      = "critical"        # or "warning", "info"
      when = { batch_size = "1" }       # only under these conditions
      [speculation]
      baseline_tokens_per_second = 82.2 # of the same server without speculation
      [detect]
      false_alarms_per_year = 1
      [http]
      listen     = "127.0.0.1:9877"
      web_config = "web.yml"            # TLS and users, as Prometheus' exporters have it
      external_url  = "https://node7/"  # what alerts link to
      enable_reload = false             # POST /-/reload
      [[alert]]                         # one for each receiver
      alertmanager = "http://127.0.0.1:9093"  # or webhook, webhook_file, command
      [alerting]
      runbook_url   = "https://..."
      dashboard_url = "https://..."
      [history]
      keep = "30d"
      [grammars]
      directories = ["grammars"]        # of your own
      [follow]
      mode = "events"                   # or "poll" (NFS), every `interval`
      interval = "1s"

    A relative path in the file is relative to the file's folder. LOGWATCH_SECTION__KEY in the environment overrides
    a value of a single table: LOGWATCH_HTTP__LISTEN=0.0.0.0:9877.

    Exit status: 0 if all is well, 2 otherwise.
    """
    findings = list(check(config_path, network=not no_network))
    if output == "json":
        click.echo(
            json.dumps({"schema": "logwatch.check/1", "findings": [asdict(f) for f in findings]}, indent=2)
        )
    else:
        for found in findings:
            mark = click.style("problem", fg="red") if found.problem else click.style(f"{'ok':7}", fg="green")
            click.echo(f"{mark} {found.part} {found.name}: {found.problem or found.detail}")
    if any(found.problem for found in findings):
        raise click.exceptions.Exit(2)


def check(config_path: Path | None, *, network: bool) -> Iterator[Finding]:
    """Look at one part after the other; a part that cannot be read ends what depends on it."""
    try:
        path = find_config(config_path, os.environ)
        config = load_config(config_path)
    except LogwatchError as error:
        yield from (Finding("configuration", p.where, problem=_sentence(p)) for p in error.problems)
        return
    yield Finding("configuration", str(path or "(none)"), "valid" if path else "defaults are used")
    yield from _bands(config)
    yield from _grammars(config)
    if config.http.web_config is not None:
        yield from _web(config.http.web_config)
    yield _listen(config)
    for source in config.source:
        yield _source(source)
    for alert in config.alert:
        yield _alert(alert, network=network)


def _bands(config: Config) -> Iterator[Finding]:
    from logwatch.pipeline import band_of

    for band in config.band:
        try:
            band_of(band)
        except BandError as error:
            yield from (Finding("configuration", p.where, problem=_sentence(p)) for p in error.problems)


def _sentence(problem: Problem) -> str:
    return problem.what + (f"; {problem.hint}" if problem.hint else "")


def _grammars(config: Config) -> Iterator[Finding]:
    from logwatch.grammar.load import load_grammars

    try:
        grammars = load_grammars(config.grammars.directories)
    except LogwatchError as error:
        yield from (Finding("grammar", p.where, problem=_sentence(p)) for p in error.problems)
        return
    for grammar in grammars:
        yield Finding("grammar", grammar.name, f"{len(grammar.rules)} records")


def _web(path: Path) -> Iterator[Finding]:
    from logwatch.outlets.web.webfile import build_tls, load_web_config

    try:
        web = load_web_config(path)
        if web.tls_server_config is not None:
            build_tls(web.tls_server_config)
    except LogwatchError as error:
        yield from (Finding("http", p.where, problem=_sentence(p)) for p in error.problems)
        return
    scheme = "TLS" if web.tls_server_config else "no TLS"
    users = len(web.basic_auth_users)
    yield Finding("http", str(path), f"{scheme}, {users} user{'' if users == 1 else 's'}")


def _listen(config: Config) -> Finding:
    """Whether the daemon could listen there, or listens there already."""
    from logwatch.outlets.web.server import bind

    name = config.http.listen
    try:
        bind(name, {}).close()
    except ConfigError as error:
        if error.problems[0].what.endswith("in use") and _is_logwatch(name):
            return Finding("http", name, "logwatch answers there already")
        return Finding("http", name, problem=_sentence(error.problems[0]))
    return Finding("http", name, "free")


def _is_logwatch(listen: str) -> bool:
    """Whether a daemon of ours is at an address; whom it asks for a password is one, too."""
    host, _, port = listen.rpartition(":")
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    for scheme in ("http", "https"):
        url = f"{scheme}://{host or '127.0.0.1'}:{port}/-/healthy"
        try:
            with urllib.request.urlopen(url, timeout=REACH_TIMEOUT_S, context=unchecked) as answer:  # noqa: S310 - the scheme is ours
                return bool(answer.read(99).startswith(b"logwatch"))
        except urllib.error.HTTPError as error:
            with error:
                return error.code == http.HTTPStatus.UNAUTHORIZED or error.read(99).startswith(b"logwatch")
        except (OSError, http.client.HTTPException):
            continue
    return False


def _source(source: SourceConfig) -> Finding:
    if source.journal is not None:
        found = shutil.which("journalctl")
        problem = "" if found else "journalctl is not on PATH; install systemd, or follow a file instead"
        return Finding("source", source.journal, f"journal, through {found}", problem)
    assert source.path is not None
    name = source.path
    if name == "-":
        return Finding("source", name, "standard input")
    paths = glob.glob(name, recursive=True)  # noqa: PTH207 - `Path.glob` takes no absolute pattern
    if not paths:
        return _nothing_yet(name)
    unreadable = [path for path in paths if not os.access(path, os.R_OK)]
    if unreadable:
        return Finding(
            "source",
            name,
            problem=f"{unreadable[0]} is not readable; add the daemon's user to the log's group",
        )
    return Finding("source", name, f"{len(paths)} file{'s' if len(paths) > 1 else ''}, readable")


def _nothing_yet(name: str) -> Finding:
    """A pattern that nothing matches: well, if a file could be seen once it is there."""
    folder = Path(name).parent
    if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
        problem = f"directory {folder} is not readable; give the daemon's user access to it"
    elif folder.is_dir() or "*" in str(folder):
        return Finding("source", name, "no file matches yet; it is followed as soon as one appears")
    else:
        problem = f"directory {folder} does not exist yet; create it or correct the path"
    return Finding("source", name, problem=problem)


def _alert(alert: AlertConfig, *, network: bool) -> Finding:
    if alert.command is not None:
        program = shutil.which(alert.command[0])
        problem = "" if program else f"{alert.command[0]} is not an executable; check `command`"
        return Finding("alert", alert.command[0], str(program), problem)
    try:
        url = alert.alertmanager or alert.webhook or read_secret(Path(str(alert.webhook_file)))
        for secret in (alert.bearer_token_file, alert.routing_key_file):
            if secret is not None:
                read_secret(secret)
    except LogwatchError as error:
        return Finding("alert", error.problems[0].where, problem=_sentence(error.problems[0]))
    parts = urlsplit(url)
    # Only the host: the rest of a webhook's address is a secret.
    name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if not network:
        return Finding("alert", name, "not tried")
    try:
        _connect(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    except OSError as error:
        return Finding(
            "alert", name, problem=f"cannot be reached: {error}; is it running, is the address right?"
        )
    return Finding("alert", name, "reachable")


def _connect(host: str, port: int) -> None:
    if not host:
        raise SourceError(Problem(host, "has no host"))
    socket.create_connection((host, port), timeout=REACH_TIMEOUT_S).close()
