"""Writes what is committed in this folder: the Grafana dashboards, the default rules and the default unit.

    python dashboards/build.py            # write the files
    python dashboards/build.py --check    # say which are stale, exit status 1

Dashboards are built with grafana-foundation-sdk, a development dependency; `logwatch export dashboard` ships
the rendered JSON and adapts it to the configuration.
"""  # noqa: INP001 - a script, in a folder of data

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from boards.fleet import fleet
from boards.health import health
from boards.server import server
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from logwatch.outlets.prometheus_rules import RuleSettings, rule_file
from logwatch.outlets.unit import UnitSettings, unit

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import Dashboard

HERE = Path(__file__).parent


def rendered(made: Dashboard) -> str:
    """JSON of a dashboard, with what the builders have no words for."""
    plain = json.loads(JSONEncoder(sort_keys=True, indent=2).encode(made.build()))
    for number_, panel in enumerate(plain["panels"], 1):
        panel["id"] = number_
    for annotation in plain.get("annotations", {}).get("list", []):
        annotation |= {
            "titleFormat": "{{kind}} of {{phase}}",
            "textFormat": "{{stream}}",
            "tagKeys": "stream,phase,kind",
            "step": "15s",
        }
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def files() -> dict[Path, str]:
    """Everything that is committed here and can be stale."""
    return {
        HERE / "logwatch-server.json": rendered(server()),
        HERE / "logwatch-fleet.json": rendered(fleet()),
        HERE / "logwatch-health.json": rendered(health()),
        HERE / "rules" / "logwatch.yml": rule_file(RuleSettings()),
        HERE / "systemd" / "logwatch.service": unit(UnitSettings()),
    }


def main() -> int:
    """Write the files, or with `--check` name those that are stale."""
    stale = [path for path, text in files().items() if not path.is_file() or path.read_text("utf-8") != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            sys.stderr.write(f"{path} is stale: run `python dashboards/build.py`\n")
        return 1 if stale else 0
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
