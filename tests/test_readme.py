"""The README is run: each `console` block in a temporary folder that holds the fixtures, and compared."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def _steps(block: str) -> list[tuple[str, str]]:
    """Commands of a block with the output that follows each."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def _pattern(output: str) -> str:
    """What is written must stand there; `...` stands for any text."""
    return ".*?".join(re.escape(piece) for piece in output.rstrip("\n").split("..."))


def test_there_are_examples():
    """A README without a block to run would pass everything below."""
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("block", BLOCKS, ids=[_steps(block)[0][0][:40] for block in BLOCKS])
def test_the_readme_shows_what_happens(block, tmp_path):
    """Every command prints what the README says it prints."""
    shutil.copytree(ROOT / "fixtures", tmp_path / "fixtures")
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }
    for command, expected in _steps(block):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        seen = "\n".join(line.rstrip() for line in (done.stdout + done.stderr).splitlines())
        assert re.fullmatch(_pattern(expected), seen, re.DOTALL), f"$ {command}\n{seen}"


def test_every_command_is_in_the_readme():
    """Each command of the contract is named, so that people find it."""
    from logwatch.cli import COMMANDS

    assert not [name for name in COMMANDS if f"logwatch {name}" not in README]
