"""What every test shares: a test that drives a real program says so, and is left out, aloud, where it is missing."""

from __future__ import annotations

import difflib
import os
import shutil

import pytest

_left_out: dict[str, int] = {}


def pytest_addoption(parser):
    """`--update-golden`, for whoever changed what a golden file holds."""
    parser.addoption(
        "--update-golden", action="store_true", help="Rewrite golden files; `git diff` is the review."
    )


@pytest.fixture
def golden(request):
    """Compare a text with a golden file, or rewrite the file where `--update-golden` says so."""

    def compare(path, text):
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        known = path.read_text(encoding="utf-8")
        if text != known:
            diff = difflib.unified_diff(known.splitlines(), text.splitlines(), "golden", "now", lineterm="")
            pytest.fail("\n".join([f"{path} differs", *diff]))

    return compare


def pytest_configure(config):
    """Make the marker known."""
    config.addinivalue_line(
        "markers", "needs(*programs): programs on PATH that the test drives; `root`: the superuser"
    )


def pytest_collection_modifyitems(config, items):
    """Leave out what cannot run here. CI installs everything, so there a missing program is a failure."""
    if os.environ.get("CI"):
        return
    kept, gone = [], []
    for item in items:
        missing = [need for mark in item.iter_markers("needs") for need in mark.args if not _is_here(need)]
        (gone if missing else kept).append(item)
        for need in missing:
            _left_out[need] = _left_out.get(need, 0) + 1
    if gone:
        config.hook.pytest_deselected(items=gone)
        items[:] = kept


def _is_here(need: str) -> bool:
    return (
        os.geteuid() == 0
        if need == "root"
        else shutil.which(need, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is not None
    )


def pytest_terminal_summary(terminalreporter):
    """Say what was left out, and what would bring it back."""
    for need, count in sorted(_left_out.items()):
        remedy = "run as the superuser" if need == "root" else "tests/packages installs it, as root"
        terminalreporter.write_line(f"left out: {count} tests that need {need} ({remedy})", yellow=True)
