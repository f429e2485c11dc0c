"""Asks the package index's vulnerability service about every package in a directory, and says plainly what came of it.

    python tests/audit.py dist/runtime/lib/python3.11/site-packages     # what `make audit` does

Exit status: 0, nothing is known against any of them; 1, something is; 2, about some or all nobody could be asked, which
says nothing about them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def verdict(packages: list[dict[str, Any]], error: str) -> tuple[int, list[str]]:
    """Exit status and lines to print, from pip-audit's list of dependencies (empty: it gave none) and its last words."""
    bad = [(package, found) for package in packages for found in package.get("vulns", [])]
    lines = [
        f"{package['name']} {package['version']}: {found['id']}, "
        f"mended in {', '.join(found['fix_versions']) or 'no version yet'}"
        for package, found in bad
    ]
    unasked = [package for package in packages if "vulns" not in package]
    if bad:
        return 1, [*lines, f"audit: {len(bad)} known weaknesses"]
    if unasked or not packages:
        why = unasked[0]["skip_reason"] if unasked else error
        return 2, [
            why,
            f"audit: NOT AUDITED: no answer about {len(unasked) or 'all'} packages, which says nothing about them.",
            "audit: a mirror of the package index gives none; run `make audit` where the index itself answers.",
        ]
    return 0, [f"audit: nothing is known against any of {len(packages)} packages"]


def main(directory: str) -> int:
    """Ask, and print what came of it."""
    program = Path(sys.executable).with_name("pip-audit")
    command = [program, "--progress-spinner", "off", "--format", "json", "--path", directory]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        packages = []
    status, lines = verdict(packages, (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1])
    sys.stdout.write("\n".join(lines) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
