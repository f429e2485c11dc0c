"""Level 0: finds the data folders that travel with the package (`grammars`, `dashboards`, `demo`)."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent


def folder(name: str) -> Path:
    """Path of a packaged data folder.

    In a wheel the folders lie in `logwatch/_data`; in a checkout (editable install) they are the repository's
    own top-level folders.
    """
    packaged = PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else PACKAGE.parent / name
