"""`logwatch demo`: a regression played live, seen, explained and over."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from logwatch.commands.demo import command


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param(
            [],
            [
                "server start, run 1",
                "opened: target_verify on TP1 is high: 9.14 ms, 1.83 x the level before",
                "NCCL_P2P_DISABLE=1 is new",
                "resolved: target_verify on TP1 was high: ",
                "from line 809 until line ",
                "2 incidents opened",
            ],
            id="the recorded two-GPU server",
        ),
        pytest.param(
            ["--field"],
            [
                "is high: 28.96 ms, 1.51 x the level before (19.14 ms), since line 95",
                "steady, not noise",
                "64.2 tok/s against 82.2",
                "resolved: target_verify on TP0 was high",
                "speculation on TP0 is low (slower than baseline): 64.28 tok/s",
            ],
            id="the field's case",
        ),
    ],
)
def test_the_story_is_told(options, told):
    """An incident opens with its size and cause, and resolves; the demo ends by itself."""
    done = CliRunner().invoke(command, ["--seconds", "2", *options], catch_exceptions=False)
    assert done.exit_code == 0
    assert "metrics at http://127.0.0.1:" in done.output
    assert [text for text in told if text not in done.output] == []
