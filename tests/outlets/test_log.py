"""The daemon's own log."""

from __future__ import annotations

import io

import pytest

from logwatch.model import Level, Notice
from logwatch.outlets.log import PER_MINUTE, Log


@pytest.mark.parametrize(
    ("journal", "line"),
    [
        pytest.param(True, "<4>odd\n", id="under systemd with the journal's priority"),
        pytest.param(False, "logwatch warning: odd\n", id="elsewhere with the level's name"),
    ],
)
def test_a_line_says_its_level(journal, line):
    """The journal gets priorities, people get words."""
    out = io.StringIO()
    Log(out, journal=journal).say(Level.WARNING, "odd")
    assert out.getvalue() == line


def test_what_repeats_is_said_so_often_a_minute_and_no_more():
    """A storm of one kind does not fill the disk, and a minute later it is heard again."""
    out, now = io.StringIO(), [0.0]
    log = Log(out, clock=lambda: now[0])
    for _ in range(100):
        log.notice(Notice("rotated", "a was rotated"))
    assert len(out.getvalue().splitlines()) == PER_MINUTE
    log.notice(Notice("truncated", "b was truncated"))
    assert len(out.getvalue().splitlines()) == PER_MINUTE + 1
    now[0] = 61.0
    log.notice(Notice("rotated", "a was rotated"))
    assert len(out.getvalue().splitlines()) == PER_MINUTE + 2


def test_log_content_cannot_steer_the_terminal():
    """Escape and newline arrive as text."""
    out = io.StringIO()
    Log(out).say(Level.INFO, "a\x1b[2Jb\nc")
    assert out.getvalue() == "logwatch info: a\\x1b[2Jb\\x0ac\n"
