"""README's table of peers is the script's: the same scenarios, and every line counted once by us."""

from __future__ import annotations

import re
from pathlib import Path

import peers
import proof_kit as kit
import pytest

ROOT = Path(__file__).parents[2]


def rows(text):
    """Cells of a Markdown table: its head, and the rows."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()]
    return cells[0], cells[2:]


def test_the_table_has_the_scripts_rows():
    """Whoever adds a scenario prints the table anew."""
    head, found = rows(kit.block(ROOT / "README.md", "peers"))
    assert head == ["scenario", peers.Logwatch.name, peers.Mtail.name, peers.TailGrep.name]
    assert [row[0] for row in found] == [*peers.SCENARIOS, *peers.FIGURES]


def test_every_line_is_counted_once_by_us():
    """The table in the README shows no scenario in which logwatch lost a line or counted one twice."""
    _, found = rows(kit.block(ROOT / "README.md", "peers"))
    counted = [re.fullmatch(r"(\d+) of (\d+)", row[1]) for row in found[: len(peers.SCENARIOS)]]
    assert all(cell and cell[1] == cell[2] for cell in counted)


def test_a_block_is_replaced_alone(tmp_path):
    """What stands around the markers stays; a page without them is refused."""
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- end of x -->\nb\n")
    kit.replace_block(page, "x", "new | text\n")
    assert page.read_text() == "a\n<!-- x -->\nnew | text\n<!-- end of x -->\nb\n"
    assert kit.block(page, "x") == "\nnew | text\n"
    with pytest.raises(ValueError, match="no lines `<!-- y -->`"):
        kit.replace_block(page, "y", "")
