"""CONTRIBUTING's worked example, followed literally in a copy of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLE = TEXT.split("## Another engine's log, in ten minutes")[1].split("\n## ")[0]
BLOCKS = re.findall(r"```(sh|console)\n(.*?)```", EXAMPLE, re.DOTALL)


@pytest.fixture
def copy(tmp_path):
    """The project as somebody has it who has just cloned it, and a shell in it."""
    for folder in ("logwatch", "grammars", "fixtures", "tests", "dashboards"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "h200")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("logwatch", "-m logwatch"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (programs / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}

    def run(command):
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return tmp_path, run


def steps(kind, text):
    """Commands of a block, each with the output that the block shows (None: it shows none)."""
    if kind == "sh":
        return [(text, None)]
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def test_the_worked_example_works(copy):
    """Each command does what the page shows, and at the end a grammar, its log and its golden file are there."""
    folder, run = copy
    for kind, text in BLOCKS:
        for command, shown in steps(kind, text):
            status, output = run(command)
            assert status == 0, f"{command}\n{output}"
            if shown is not None:
                assert [line.rstrip() for line in output.splitlines()] == shown.splitlines(), command
    assert (folder / "fixtures/golden/cases/TRT001.jsonl").read_text().count('"record": "phase"') == 4
    status, output = run("python -m pytest -q tests/grammar/test_grammar_command.py")
    assert status == 0, f"one more grammar breaks a test\n{output}"


def test_every_file_that_is_named_exists():
    """Pages for contributors and about security name only tests and files that are there."""
    for page in ("CONTRIBUTING.md", "SECURITY.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for name in set(re.findall(r"`((?:tests|benchmarks|fixtures|logwatch)/[\w/.]+)`", text)):
            assert (ROOT / name).exists() or "TRT001" in name or name.endswith("README.md"), f"{page}: {name}"
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8")))
    assert {name for name in named if not (ROOT / "tests/proof" / f"{name}.py").exists()} == set()
