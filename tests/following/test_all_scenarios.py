"""Every scenario of the list has a test that carries its number."""

from __future__ import annotations

import re
from pathlib import Path

SCENARIOS = 66


def test_every_number_is_there():
    """Numbers 1 to 66, each in a test's name."""
    names = [
        name
        for path in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"^def test_([0-9]{2})_\w+\(", path.read_text(), re.MULTILINE)
    ]
    assert sorted({int(name) for name in names}) == list(range(1, SCENARIOS + 1))
