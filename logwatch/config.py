"""Level 3: `logwatch.toml` to a frozen `Config`, with all problems at once.

Looked for at `--config`, `$LOGWATCH_CONFIG`, `./logwatch.toml`, `/etc/logwatch/logwatch.toml`. Every scalar
can be overridden by `LOGWATCH_SECTION__KEY`; secrets are read from the files that `*_file` keys name.

A relative path is relative to the folder of what names it, as Prometheus has it: in the file to the file's folder,
in the environment and on the command line to the working directory. `command` is looked up as a shell would.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from logwatch.config_problems import problems_of, toml_problem
from logwatch.errors import ConfigError, Problem
from logwatch.grammar.kinds import snake_case
from logwatch.units import format_duration, parse_duration

SEARCHED = (Path("logwatch.toml"), Path("/etc/logwatch/logwatch.toml"))
ENVIRONMENT_PREFIX = "LOGWATCH_"
STANDARD_INPUT = "-"
PATHS = {
    "source": ("path",),
    "http": ("web_config",),
    "alert": ("webhook_file", "bearer_token_file", "routing_key_file"),
    "grammars": ("directories",),
}
"""Keys by section whose values are paths, or lists of paths."""


def _seconds(value: object) -> object:
    """Seconds of `"19ms"`; a bare number has no unit and is refused."""
    if isinstance(value, str):
        return parse_duration(value)
    raise ValueError(f'{value!r} has no unit; write it as text with one, such as "19ms"')


def _url(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", value):
        raise ValueError(f"{value!r} is not an http or https address")
    return value


def _base_url(value: str) -> str:
    """One that something is appended to."""
    return _url(value).rstrip("/")


def _listen(value: str) -> str:
    if not re.fullmatch(r"(\S*):([0-9]{1,5})", value) or int(value.rpartition(":")[2]) > 65535:
        raise ValueError(f"{value!r} is not HOST:PORT")
    return value


def _phase(value: str) -> str:
    """The snake_case name of a phase, also where it is written as the log has it."""
    phase = snake_case(value)
    if not phase:
        raise ValueError(f"{value!r} is no name of a phase; write one as `logwatch replay` lists them")
    return phase


Phase = Annotated[str, AfterValidator(_phase)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0)]
Url = Annotated[str, AfterValidator(_url)]
BaseUrl = Annotated[str, AfterValidator(_base_url)]


class Section(BaseModel):
    """A table of the configuration: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SourceConfig(Section):
    """Where log bytes come from: a `path` (file, glob, FIFO; `-`: standard input) or a unit's `journal`."""

    path: str | None = Field(default=None, min_length=1)
    journal: str | None = Field(default=None, min_length=1)
    name: str | None = Field(default=None, min_length=1)
    start: Literal["end", "beginning"] = "end"

    @model_validator(mode="after")
    def _one_of(self) -> SourceConfig:
        if (self.path is None) == (self.journal is None):
            raise ValueError("a source needs either `path` or `journal`")
        return self


class BandConfig(Section):
    """The tuned interval of a phase, optionally for given conditions.

    `per_context_token` is what both edges rise by per token of context (attention's share of the phase).
    """

    phase: Phase
    low: Seconds
    high: Seconds
    open_after: int = Field(default=3, ge=1, le=1000)
    resolve_after: int = Field(default=5, ge=1, le=1000)
    when: Mapping[str, str | int | float | bool] = Field(default_factory=dict)
    per_context_token: Seconds = 0.0
    severity: Literal["critical", "warning", "info"] = "critical"

    @model_validator(mode="after")
    def _ordered(self) -> BandConfig:
        if self.low > self.high:
            raise ValueError(
                f"band of `{self.phase}`: low {format_duration(self.low)} is above "
                f"high {format_duration(self.high)}"
            )
        return self


class DetectConfig(Section):
    """Change detection besides bands."""

    false_alarms_per_year: float = Field(default=1.0, gt=0)


class BaselineConfig(Section):
    """What is normal for one phase under the conditions of its `bucket`, as `logwatch tune` writes it.

    Charts begin with it instead of learning. The keys are those of `judging.baseline.Baseline`.
    """

    phase: Phase
    bucket: str
    level: float
    scale: float = Field(gt=0)
    per_token: float = 0.0
    context: float = 0.0
    low_context: float = 0.0
    high_context: float = 0.0
    phi: float = Field(default=0.0, ge=-0.9, le=0.99)
    samples: int = Field(gt=1)
    bins: tuple[Annotated[int, Field(ge=0)], ...] = ()
    bin_scale: float = Field(default=1.0, gt=0)
    bin_shift: float = 0.0
    hits_low: int = Field(default=0, ge=0)
    hits_high: int = Field(default=0, ge=0)
    memory: tuple[float, float, float] = (1.0, 1.0, 1.0)


class SpeculationConfig(Section):
    """What speculation has to beat: tokens per second of the same server without it."""

    baseline_tokens_per_second: float | None = Field(default=None, gt=0)


class HttpConfig(Section):
    """The HTTP side. `web_config` names a file in the exporter-toolkit's format (TLS, basic auth)."""

    listen: Annotated[str, AfterValidator(_listen)] = "127.0.0.1:9877"
    external_url: BaseUrl | None = None
    web_config: Path | None = None
    enable_reload: bool = False


class AlertConfig(Section):
    """One receiver: exactly one of `alertmanager`, `webhook` and `command`."""

    alertmanager: BaseUrl | None = None
    webhook: Url | None = None
    webhook_file: Path | None = None
    command: tuple[str, ...] | None = None
    name: str | None = None
    template: Literal["logwatch", "slack", "pagerduty"] = "logwatch"
    bearer_token_file: Path | None = None
    routing_key_file: Path | None = None
    timeout: Annotated[Seconds, Field(gt=0)] = 10.0

    @model_validator(mode="after")
    def _one_of(self) -> AlertConfig:
        if (
            sum(x is not None for x in (self.alertmanager, self.webhook, self.webhook_file, self.command))
            != 1
        ):
            raise ValueError(
                "an alert needs exactly one of `alertmanager`, `webhook`, `webhook_file` and `command`"
            )
        if self.command is not None and not self.command:
            raise ValueError("`command` needs at least the program")
        return self


class AlertingConfig(Section):
    """What every alert carries: where the runbooks lie, and the dashboard."""

    runbook_url: BaseUrl | None = None
    dashboard_url: Url | None = None


class TunedConfig(Section):
    """The run that was tuned, as `logwatch tune` writes it down: what `logwatch doctor` compares with.

    Where its processes differed, `environment` has the values of all, joined by `|`.
    """

    environment: Mapping[str, str] = Field(default_factory=dict)


class HistoryConfig(Section):
    """How long samples and incidents are kept."""

    keep: Seconds = 30 * 86400.0


class GrammarsConfig(Section):
    """Directories of grammars of the user's own, searched before the packaged ones."""

    directories: tuple[Path, ...] = ()


class FollowConfig(Section):
    """How files are followed: `events` wakes by inotify, `poll` looks every `interval` (NFS)."""

    mode: Literal["events", "poll"] = "events"
    interval: Annotated[Seconds, Field(gt=0)] = 1.0


class Config(Section):
    """All that `logwatch.toml` may say. No file at all is a valid configuration."""

    source: tuple[SourceConfig, ...] = ()
    band: tuple[BandConfig, ...] = (
        BandConfig.model_validate({"phase": "target_verify", "low": "17ms", "high": "21ms"}),
    )
    baseline: tuple[BaselineConfig, ...] = ()
    detect: DetectConfig = DetectConfig()
    speculation: SpeculationConfig = SpeculationConfig()
    http: HttpConfig = HttpConfig()
    alert: tuple[AlertConfig, ...] = ()
    alerting: AlertingConfig = AlertingConfig()
    tuned: TunedConfig = TunedConfig()
    history: HistoryConfig = HistoryConfig()
    grammars: GrammarsConfig = GrammarsConfig()
    follow: FollowConfig = FollowConfig()


def find_config(given: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Path of the configuration to use, or None where there is none.

    Raises:
        ConfigError: The file that `--config` or `$LOGWATCH_CONFIG` names does not exist.
    """
    named = given or (Path(environment["LOGWATCH_CONFIG"]) if environment.get("LOGWATCH_CONFIG") else None)
    if named is not None:
        if not named.is_file():
            source = "--config" if given else "$LOGWATCH_CONFIG"
            raise ConfigError(Problem(str(named), "no such configuration file", f"check {source}"))
        return named
    return next((path for path in SEARCHED if path.is_file()), None)


def load_config(given: Path | None = None, environment: Mapping[str, str] | None = None) -> Config:
    """The configuration from its file and the environment.

    Raises:
        ConfigError: With every problem found: `file:line:column: what; try ...`.
    """
    environment = os.environ if environment is None else environment
    path = find_config(given, environment)
    text, table = "", {}
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(toml_problem(path, str(error))) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                Problem(str(path), f"cannot be read: {error}", "check its permissions")
            ) from None
        _join_paths(table, path.parent)
    _override(table, environment)
    try:
        return Config.model_validate(table)
    except ValidationError as error:
        name = str(path) if path else "the environment"
        raise ConfigError.all_of(problems_of(error, Config, name, text)) from None


def _join_paths(table: dict[str, Any], folder: Path) -> None:
    """Put the file's folder before its relative paths; what has a wrong type is left for the validation to name."""
    for section, keys in PATHS.items():
        found = table.get(section)
        for part in found if isinstance(found, list) else [found]:
            if isinstance(part, dict):
                part |= {key: _joined(part[key], folder) for key in keys if key in part}


def _joined(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_joined(each, folder) for each in value]
    if not isinstance(value, str) or value in {"", STANDARD_INPUT}:
        return value
    return str(folder / value)


def _override(table: dict[str, Any], environment: Mapping[str, str]) -> None:
    """Put `LOGWATCH_SECTION__KEY=value` into the table; text that is valid TOML keeps its type."""
    for variable, value in sorted(environment.items()):
        section, separator, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if not variable.startswith(ENVIRONMENT_PREFIX) or not separator:
            continue
        part = table.setdefault(section, {})
        if not isinstance(part, dict):
            raise ConfigError(
                Problem(f"${variable}", f"`{section}` is a list of tables; only single tables can be set so")
            )
        part[key] = _scalar(value)


def _scalar(value: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value
    return parsed if isinstance(parsed, int | float | bool | str | list) else value


def read_secret(path: Path) -> str:
    """Content of a secret's file, without the newline at its end.

    Raises:
        ConfigError: It cannot be read, or is empty.
    """
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            Problem(str(path), f"secret cannot be read: {error}", "check path and permissions")
        ) from None
    if not secret:
        raise ConfigError(Problem(str(path), "secret file is empty"))
    return secret
