"""Fixtures of following: a follower in each way of watching and of living."""

from __future__ import annotations

import pytest

from logwatch.intake.tail import Source
from tests.following.harness import Follower

BOTH = ("inotify", "reconcile")


@pytest.fixture(params=BOTH)
def watcher(request):
    return request.param


@pytest.fixture
def follow(watcher):
    """Makes followers of paths; all are closed at the end."""
    made = []

    def make(*paths, start="beginning", name=None, **options):
        sources = [each if isinstance(each, Source) else Source(str(each), name, start) for each in paths]
        made.append(Follower(*sources, watcher=watcher, **options))
        made[-1].read()
        made[-1].commit()
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(params=["steady", "restarted", "killed"])
def step(request):
    """One step of a scenario marked with a flash: read, and perhaps die."""
    count = 0

    def act(follower, *, read=True):
        nonlocal count
        count += 1
        if read:
            follower.read()
        if request.param == "restarted":
            follower.restart()
        elif request.param == "killed":
            if count % 2:
                follower.commit()
            follower.kill()

    return act
