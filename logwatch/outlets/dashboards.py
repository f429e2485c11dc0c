"""Level 3: the packaged Grafana dashboards, adapted to a configuration.

They are rendered by `dashboards/build.py` and travel as JSON, so that nobody needs its library to use them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("logwatch-server", "logwatch-fleet", "logwatch-health")


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """What of the configuration enters the dashboards.

    Attributes:
        phase: The phase that is shown first.
        status_url: The status page, or None.
        runbook_url: Folder of the runbooks, or None.
    """

    phase: str = "target_verify"
    status_url: str | None = None
    runbook_url: str | None = None


def dashboard(directory: Path, name: str, settings: DashboardSettings) -> str:
    """JSON of one dashboard."""
    plain: dict[str, Any] = json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))
    links = (("Status page", settings.status_url), ("Runbooks", settings.runbook_url))
    plain["links"] += [_link(title, url) for title, url in links if url]
    for variable in plain["templating"]["list"]:
        if variable["name"] == "phase":
            variable["current"] |= {"text": [settings.phase], "value": [settings.phase]}
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _link(title: str, url: str) -> dict[str, Any]:
    return {"title": title, "type": "link", "url": url, "icon": "external link", "targetBlank": True}
