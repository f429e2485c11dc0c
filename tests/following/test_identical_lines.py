"""Logs whose lines are all the same: no content tells one generation from another, so only counts are compared."""

from __future__ import annotations

import gzip
import itertools
import os
import shutil

import pytest

from logwatch.intake.tail import Source
from tests.following.harness import Follower, append

LINE = "[2026-02-11 08:00:00 TP0] POST /v1/chat/completions 200 OK, one like all others in this whole log"
WHOLE, UNREAD = 60, 5
SECOND = 1_000_000_000


class Rotator:
    """Writes one line again and again and rotates; files get times of a clock that goes on a second a step.

    Attributes:
        written: How many lines, in all.
    """

    def __init__(self, path, *, keeps_times):
        self.path, self.keeps_times = path, keeps_times
        self.now_ns = path.parent.stat().st_mtime_ns - 10_000 * SECOND
        self.written = 0

    def named(self, ending):
        return self.path.with_name(f"{self.path.name}{ending}")

    def _date(self, path):
        self.now_ns += SECOND + 1
        os.utime(path, ns=(self.now_ns, self.now_ns))

    def write(self, count, ending=""):
        append(self.named(ending), [LINE] * count)
        self.written += count
        self._date(self.named(ending))

    def move(self, source, target):
        self.named(source).rename(self.named(target))

    def remove(self, ending):
        self.named(ending).unlink()

    def pack(self, source, target):
        """Compress, but leave the original."""
        stat = self.named(source).stat()
        with self.named(source).open("rb") as plain, gzip.open(self.named(target), "wb") as packed:
            shutil.copyfileobj(plain, packed)
        self._date(self.named(target))
        if self.keeps_times:
            os.utime(self.named(target), ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def copy(self, source, target):
        shutil.copyfile(self.named(source), self.named(target))
        self._date(self.named(target))

    def truncate(self):
        os.truncate(self.path, 0)
        self._date(self.path)


# Steps with their arguments. Up to the dash all is read after each step; after it the follower looks, or not, between
# any two steps.
FLOWS = {
    "renamed, then packed, then copied and truncated": (
        f"write:{WHOLE} move::.1 write:{WHOLE - UNREAD} - write:{UNREAD} pack:.1:.2.gz remove:.1 copy::.1 truncate"
    ),
    "the same, and written to afterwards": (
        f"write:{WHOLE} move::.1 write:{WHOLE - UNREAD} - write:{UNREAD} pack:.1:.2.gz remove:.1 copy::.1 truncate "
        "write:3"
    ),
    "copied and truncated twice, shifted by name": (
        f"write:{WHOLE} copy::.1 truncate write:{WHOLE - UNREAD} - write:{UNREAD} move:.1:.2 copy::.1 truncate write:2"
    ),
    "copied and truncated twice, the older deleted": (
        f"write:{WHOLE} copy::.1 truncate write:{WHOLE - UNREAD} - write:{UNREAD} remove:.1 copy::.1 truncate write:2"
    ),
    "copied and truncated twice over the same copy": (
        f"write:{WHOLE} copy::.1 truncate write:{WHOLE - UNREAD} - write:{UNREAD} copy::.1 truncate write:2"
    ),
    "shifted by copying": (
        f"write:{WHOLE} copy::.1 truncate write:{WHOLE - UNREAD} - write:{UNREAD} copy:.1:.2 copy::.1 truncate write:2"
    ),
    "copied by date": (
        f"write:{WHOLE} copy::-20260210 truncate write:{WHOLE - UNREAD} - write:{UNREAD} copy::-20260211 truncate "
        "write:2"
    ),
    "packed straight from the live file": (
        f"write:{WHOLE} pack::.1.gz truncate write:{WHOLE - UNREAD} - write:{UNREAD} move:.1.gz:.2.gz pack::.1.gz "
        "truncate write:2"
    ),
    "packed after the copy": (
        f"write:{WHOLE} copy::.1 truncate write:{WHOLE - UNREAD} - write:{UNREAD} move:.1:.2 copy::.1 truncate "
        "pack:.2:.2.gz remove:.2 write:2"
    ),
    "both packed": (
        f"write:{WHOLE} move::.1 write:{WHOLE - UNREAD} - write:{UNREAD} move:.1:.2 move::.1 write:7 pack:.2:.2.gz "
        "remove:.2 pack:.1:.1.gz remove:.1 write:2"
    ),
    "three rotations by name at once": (
        f"write:{WHOLE} - move::.1 write:10 move:.1:.2 move::.1 write:10 move:.2:.3 move:.1:.2 move::.1 write:10"
    ),
    "a short generation behind a long one": (
        f"write:{WHOLE} move::.1 - write:20 move:.1:.2 move::.1 write:{WHOLE} move:.2:.3 move:.1:.2 move::.1 write:2"
    ),
    "nothing read of it, copied, and outgrown": (
        f"write:{WHOLE} move::.1 write:0 - write:8 move:.1:.2 copy::.1 truncate write:50"
    ),
    "nothing read of it, then copied": (
        f"write:{WHOLE} move::.1 write:0 - write:{WHOLE} move:.1:.2 copy::.1 truncate write:2"
    ),
}


@pytest.mark.parametrize("pattern", ["", "*"], ids=["one name", "a glob"])
@pytest.mark.parametrize("life", ["steady", "killed"])
@pytest.mark.parametrize("keeps_times", [True, False], ids=["times kept", "times new"])
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_06_identical_generations_are_all_counted(tmp_path, flow, keeps_times, life, pattern):
    """Whenever the follower looks, and whoever packs: as many lines come out as went in."""
    before, _, after = flow.partition(" - ")
    steps = after.split()
    wrong = []
    for number, looks in enumerate(_looks(len(steps) - 1)):
        directory = tmp_path / str(number)
        directory.mkdir()
        rotator = Rotator(directory / "a.log", keeps_times=keeps_times)
        seen, said = _follow(rotator, before.split(), zip(steps, [*looks, True], strict=True), life, pattern)
        if seen != rotator.written:
            wrong.append(
                (seen - rotator.written, [s for s, look in zip(steps, looks, strict=False) if look], said)
            )
        shutil.rmtree(directory)
    assert not wrong


@pytest.mark.parametrize("lines", ["alike", "different"])
@pytest.mark.parametrize("keeps_times", [True, False], ids=["times kept", "times new"])
def test_06_a_copy_that_only_its_name_tells_is_named(tmp_path, keeps_times, lines):
    """Nothing is passed over unsaid: neither time nor content says that this is the generation that was read."""
    rotator = Rotator(tmp_path / "a.log", keeps_times=keeps_times)
    rotator.write(0)
    follower = Follower(Source(str(rotator.path), start="beginning"))
    follower.read()
    try:
        append(rotator.path, [LINE if lines == "alike" else f"{LINE} {number}" for number in range(WHOLE)])
        rotator.move("", ".1")
        rotator.write(3)
        follower.read()
        rotator.pack(".1", ".2.gz")
        rotator.remove(".1")
        rotator.move("", ".1")
        rotator.write(3)
        follower.read()
        assert sum(map(len, follower.lines.values())) == WHOLE + 6
        said = [notice.message for notice in follower.notices if notice.kind == "taken_by_name"]
        assert len(said) == (lines == "alike" and not keeps_times)
        assert all("a.log.2.gz is taken for" in message for message in said)
    finally:
        follower.close()


def _looks(places):
    """Whether to look at each place: nowhere, at any one or two, everywhere."""
    for looks in itertools.product([False, True], repeat=places):
        if sum(looks) in {0, 1, 2, places}:
            yield looks


def _follow(rotator, before, after, life, pattern):
    rotator.write(0)
    follower = Follower(Source(f"{rotator.path}{pattern}", start="beginning"))
    follower.read()
    try:
        for step in before:
            _do(rotator, step)
            follower.read()
        follower.commit()
        for step, look in after:
            _do(rotator, step)
            if not look:
                continue
            follower.read()
            if life == "killed":
                follower.kill()
        follower.read()
        return sum(map(len, follower.lines.values())), [notice.kind for notice in follower.notices]
    finally:
        follower.close()


def _do(rotator, step):
    what, *arguments = step.split(":")
    getattr(rotator, what)(*(int(each) if each.isdigit() else each for each in arguments))
