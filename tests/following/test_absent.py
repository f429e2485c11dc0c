"""A file that came, and was rotated away, before anything about it was committed or even seen."""

from __future__ import annotations

import os
import time

import pytest

from logwatch.model import Cycle
from tests.following.watching import Watching

SECOND_NS = 1_000_000_000


def reports(*numbers):
    """Reports whose verify time carries a number."""
    return "".join(
        "[2026-02-11 08:15:02 TP0] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n"
        f"  Target verify:     {19 + number * 1e-3:.3f} ms/cyc  ( 95.0%)\n"
        "  Accept len:         0.92\n"
        for number in numbers
    )


def seen(watching):
    """Numbers of the reports that were counted."""
    return [
        round((c.phases_s["target_verify"] * 1e3 - 19) * 1e3) for c in watching.items if isinstance(c, Cycle)
    ]


def written(path, text, seconds_from_now):
    """A file last written at some time: two files of one tick of the clock would tell nothing."""
    path.write_text(text)
    when = time.time_ns() + seconds_from_now * SECOND_NS
    os.utime(path, ns=(when, when))


@pytest.mark.parametrize(
    "killed", [pytest.param(True, id="around a kill"), pytest.param(False, id="between two looks")]
)
@pytest.mark.parametrize("generations", [1, 3])
@pytest.mark.parametrize(
    "source", [pytest.param("a.log", id="a fixed path"), pytest.param("*.log", id="a pattern")]
)
def test_what_came_and_went_unseen_is_read(tmp_path, source, killed, generations):
    """The log was missing, then came and was rotated away: all of it is read, once, in order."""
    log = tmp_path / "a.log"
    written(tmp_path / "a.log.9", reports(99), -3600)
    watching = Watching(tmp_path / source)
    watching.read()
    watching.commit()
    if killed:
        log.write_text(reports(0))
        watching.read()
        watching.kill()
    for number in range(generations):
        written(tmp_path / f"a.log.{generations - number}", reports(number), 1 + number)
    written(log, reports(generations), 10)
    watching.read()
    watching.commit()
    watching.finish()
    assert seen(watching) == list(range(generations + 1))


def test_what_lay_there_before_is_left(tmp_path):
    """Rotated copies that are older than the look that found no log are no part of it."""
    log = tmp_path / "a.log"
    written(tmp_path / "a.log.1", reports(7), -3600)
    watching = Watching(log)
    watching.read()
    written(log, reports(1, 2), 5)
    watching.finish()
    assert seen(watching) == [1, 2]
