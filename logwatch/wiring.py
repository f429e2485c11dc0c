"""Level 4: what the configuration says, as the values that intake and outlets take."""

from __future__ import annotations

import resource
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from logwatch.config import Config
from logwatch.intake.chunks import Source
from logwatch.outlets.deliver_alerts import Links
from logwatch.outlets.deliver_courier import Receiver
from logwatch.outlets.deliver_receivers import ReceiverSettings, receivers


def default_state_directory(environment: Mapping[str, str]) -> Path:
    """`$STATE_DIRECTORY`, which systemd sets, or `~/.local/state/logwatch`."""
    given = environment.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(given) if given else Path.home() / ".local" / "state" / "logwatch"


def most_open() -> int:
    """How many logs are held open at most: a quarter of the descriptors that we may have, and no more than 64."""
    return min(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)


def sources_of(config: Config) -> list[Source]:
    """What to follow."""
    return [
        Source(
            source.path or source.journal or "", source.name, source.start, journal=source.journal is not None
        )
        for source in config.source
    ]


def receivers_of(config: Config) -> list[Receiver]:
    """Who is told.

    Raises:
        ConfigError: A secret's file cannot be read.
    """
    return receivers([ReceiverSettings(**alert.model_dump()) for alert in config.alert])


def links_of(config: Config, address: str) -> Links:
    """What alerts point to; `address` is where our own pages are."""
    url = config.http.external_url or address
    parts = urlsplit(url)
    # Every host has these: only its name tells it from the others of a fleet.
    loopback = parts.hostname in {"127.0.0.1", "::1", "localhost"}
    everywhere = parts.hostname in {"0.0.0.0", "::"}  # noqa: S104  # compared, not bound
    own = f"{socket.gethostname()}:{parts.port}" if config.http.external_url is None else parts.netloc
    return Links(
        instance=own if loopback or everywhere else parts.netloc,
        status_url=f"{parts.scheme}://{own}" if everywhere else url,
        runbook_url=config.alerting.runbook_url,
        dashboard_url=config.alerting.dashboard_url,
    )
