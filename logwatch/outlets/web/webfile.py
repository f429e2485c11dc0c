"""Level 3: the web configuration file in the format of Prometheus' exporter toolkit: TLS, headers, users.

It is read again whenever it or a file that it names has changed; a version that cannot be used is told once,
and the one before stays in force.
"""

from __future__ import annotations

import difflib
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from logwatch.errors import ConfigError, Problem
from logwatch.model import Level, Notice, Notify
from logwatch.units import parse_duration

VERSIONS = {f"TLS1{minor}": getattr(ssl.TLSVersion, f"TLSv1_{minor}") for minor in (2, 3)}
"""Older ones are refused: no client of today needs them."""

CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}

_HASH_STARTS = ("$2a$", "$2b$", "$2y$")


def _is_hash(value: str) -> str:
    if not value.startswith(_HASH_STARTS) or len(value) != 60:
        raise ValueError("not a bcrypt hash; make one with `htpasswd -nBC 10 NAME`")
    return value


def _cipher(value: str) -> str:
    """OpenSSL's name of a suite that Go names: `ECDHE-RSA-AES128-GCM-SHA256`."""
    name = (
        value.removeprefix("TLS_")
        .replace("_WITH_", "_")
        .replace("AES_128", "AES128")
        .replace("AES_256", "AES256")
    )
    name = (
        name.replace("_CBC", "").removesuffix("_SHA256") if "POLY1305" in name else name.replace("_CBC", "")
    )
    openssl = name.replace("_", "-")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(openssl)
    except ssl.SSLError:
        raise ValueError(f"cipher suite {value!r} is not known here") from None
    return openssl


def _interval(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TlsConfig(_Section):
    """`tls_server_config`: certificate and key by file; OpenSSL's own choice of curves."""

    cert_file: Path
    key_file: Path
    client_auth_type: Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"] = (
        "NoClientCert"
    )
    client_ca_file: Path | None = None
    client_allowed_sans: tuple[str, ...] = ()
    min_version: Literal["TLS12", "TLS13"] = "TLS12"
    max_version: Literal["TLS12", "TLS13"] = "TLS13"
    cipher_suites: tuple[Annotated[str, AfterValidator(_cipher)], ...] = ()
    prefer_server_cipher_suites: bool = True

    @model_validator(mode="after")
    def _consistent(self) -> TlsConfig:
        if (self.client_auth_type == "NoClientCert") != (self.client_ca_file is None):
            raise ValueError("`client_ca_file` and a `client_auth_type` that verifies need each other")
        if self.client_allowed_sans and self.client_auth_type != "RequireAndVerifyClientCert":
            raise ValueError("`client_allowed_sans` needs `client_auth_type: RequireAndVerifyClientCert`")
        if self.min_version > self.max_version:
            raise ValueError("`min_version` is above `max_version`")
        return self

    def files(self) -> tuple[Path, ...]:
        """All files that it names."""
        return (self.cert_file, self.key_file, *([self.client_ca_file] if self.client_ca_file else []))


class HeaderConfig(_Section):
    """`headers`: a blank one is not set."""

    content_security_policy: str = Field("", alias="Content-Security-Policy")
    x_frame_options: Literal["", "deny", "sameorigin"] = Field("", alias="X-Frame-Options")
    x_content_type_options: Literal["", "nosniff"] = Field("", alias="X-Content-Type-Options")
    x_xss_protection: str = Field("", alias="X-XSS-Protection")
    strict_transport_security: str = Field("", alias="Strict-Transport-Security")


class HttpServerConfig(_Section):
    """`http_server_config`. HTTP/1.1 is spoken whatever `http2` says."""

    http2: bool = True
    headers: HeaderConfig = HeaderConfig()


class RateConfig(_Section):
    """`rate_limit`: a token bucket over all requests; interval in seconds, 0 for none."""

    interval: Annotated[float, BeforeValidator(_interval), Field(ge=0)] = 0.0
    burst: int = Field(0, ge=0)


class WebConfig(_Section):
    """All that the file may say."""

    tls_server_config: TlsConfig | None = None
    http_server_config: HttpServerConfig = HttpServerConfig()
    basic_auth_users: Mapping[str, Annotated[str, AfterValidator(_is_hash)]] = Field(default_factory=dict)
    rate_limit: RateConfig = RateConfig()

    def headers(self) -> dict[bytes, bytes]:
        """Headers that every answer carries."""
        given = self.http_server_config.headers.model_dump(by_alias=True)
        return {name.lower().encode(): value.encode() for name, value in given.items() if value}


def load_web_config(path: Path) -> WebConfig:
    """The file's content, its files made absolute.

    Raises:
        ConfigError: With every problem found.
    """
    import yaml  # noqa: PLC0415  # only those who have such a file pay for it

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            Problem(str(path), f"cannot be read: {error}", "check `[http] web_config`")
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        what = getattr(error, "problem", None) or "cannot be parsed"
        raise ConfigError(Problem(where, f"not valid YAML: {what}")) from None
    try:
        config = WebConfig.model_validate({} if found is None else found)
    except ValidationError as error:
        raise ConfigError.all_of(_problems(path, error)) from None
    tls = config.tls_server_config
    if tls is None:
        return config
    named = {
        name: path.parent / given
        for name in ("cert_file", "key_file", "client_ca_file")
        if (given := getattr(tls, name))
    }
    return config.model_copy(update={"tls_server_config": tls.model_copy(update=named)})


def build_tls(tls: TlsConfig) -> ssl.SSLContext:
    """The context that serves this configuration.

    Raises:
        ConfigError: Certificate, key or CA cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[tls.min_version]
    context.maximum_version = VERSIONS[tls.max_version]
    if tls.cipher_suites:
        context.set_ciphers(":".join(tls.cipher_suites))
    if not tls.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_mode = CLIENT_AUTH[tls.client_auth_type]
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    except (OSError, ssl.SSLError) as error:
        where = f"{tls.cert_file} and {tls.key_file}"
        raise ConfigError(
            Problem(where, f"not a certificate and its key: {error}", "check both files")
        ) from None
    if tls.client_ca_file is not None:
        try:
            context.load_verify_locations(cafile=tls.client_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(Problem(str(tls.client_ca_file), f"not a CA certificate: {error}")) from None
    return context


class WebFile:
    """The file as it is in force.

    Args:
        path: Where it lies.
        notify: Told when a new version cannot be used.

    Raises:
        ConfigError: It cannot be used at the start.
    """

    def __init__(self, path: Path, notify: Notify) -> None:
        self.path = path
        self._notify = notify
        self.config = load_web_config(path)
        self.tls = self._build()
        """The context that serves it, another object after each change; None for plain HTTP."""
        self._seen = self._stamp()

    def refresh(self) -> None:
        """Read it again if something changed. Costs a `stat` of each file; on one thread only."""
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        before = self.config
        try:
            self.config = load_web_config(self.path)
            self.tls = self._build()
        except ConfigError as error:
            self.config = before
            message = f"The web configuration of before stays in force. {error}"
            self._notify(Notice("web_config_failed", message, Level.WARNING, path=str(self.path)))
        else:
            self._seen = self._stamp()

    def _build(self) -> ssl.SSLContext | None:
        tls = self.config.tls_server_config
        return None if tls is None else build_tls(tls)

    def _stamp(self) -> tuple[tuple[int, int, int] | None, ...]:
        tls = self.config.tls_server_config
        return tuple(_file_stamp(path) for path in (self.path, *(tls.files() if tls else ())))


def _file_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _problems(path: Path, error: ValidationError) -> Iterator[Problem]:
    for item in error.errors(include_url=False, include_input=False):
        loc = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            near = difflib.get_close_matches(str(item["loc"][-1]), _known(), n=1)
            hint = f"did you mean `{near[0]}`?" if near else "it is not supported here; leave it out"
            yield Problem(str(path), f"unknown option `{loc}`", hint)
        else:
            message = item["msg"].removeprefix("Value error, ")
            yield Problem(str(path), f"`{loc}`: {message[0].lower()}{message[1:]}" if loc else message)


def _known() -> list[str]:
    models = (WebConfig, TlsConfig, HttpServerConfig, HeaderConfig, RateConfig)
    return [field.alias or name for model in models for name, field in model.model_fields.items()]
