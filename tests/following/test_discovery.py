"""Scenarios 25 to 32: discovery and start."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from logwatch.intake.names import is_rotated_name
from logwatch.intake.tail import Source
from logwatch.intake.wake import Waker
from tests.following.harness import Follower, append, bytes_read, pack, serials, text


def test_25_short_lived_file_is_read_whole(tmp_path, follow):
    """A file that appears, is written and closed between two looks is read from its first byte."""
    follower = follow(tmp_path / "*.log", start="end")
    append(tmp_path / "new.log", serials(1, 20))
    follower.read()
    assert follower.lines == {"new.log": serials(1, 20)}


def test_26_neither_file_nor_directory_exists_at_start(tmp_path, follow):
    """What is missing is waited for, and read from its first byte when it comes."""
    path = tmp_path / "deep" / "deeper" / "a.log"
    follower = follow(path, start="end")
    path.parent.parent.mkdir()
    follower.read()
    path.parent.mkdir()
    follower.read()
    append(path, serials(1, 5))
    follower.read()
    assert follower.all == serials(1, 5)
    assert not follower.notices


@pytest.mark.needs("root")
def test_27_unreadable_file_is_tried_again(tmp_path, follow):
    """No permission is said once and tried again, also after a rotation."""
    os.chmod(tmp_path, 0o755)  # noqa: PTH101  # the directory itself may be looked at
    for parent in list(tmp_path.parents)[:2]:
        parent.chmod(0o755)
    path = tmp_path / "a.log"
    append(path, serials(1, 5))
    path.chmod(0o600)
    os.seteuid(65534)
    try:
        follower = follow(path)
        for _ in range(3):
            follower.clock.now += 1
            follower.read()
        assert len(follower.said("unreadable")) == 1
        os.seteuid(0)
        path.chmod(0o644)
        os.seteuid(65534)
        follower.read()
        assert follower.all == serials(1, 5)
        os.seteuid(0)
        path.rename(f"{path}.1")
        append(path, serials(6, 9))
        path.chmod(0o600)
        os.seteuid(65534)
        follower.read()
        assert follower.all == serials(1, 5)
        os.seteuid(0)
        path.chmod(0o644)
        os.seteuid(65534)
        follower.read()
        assert follower.all == serials(1, 9)
        assert len(follower.said("unreadable")) == 2
    finally:
        os.seteuid(0)


def test_28_two_thousand_files_of_which_ten_live(tmp_path, follow):
    """Idle files cost next to nothing and hold no descriptor each."""
    for number in range(2000):
        (tmp_path / f"server-{number:04d}.log").write_text(f"old {number}\n")
    before = len(list(Path("/proc/self/fd").iterdir()))
    follower = follow(tmp_path / "*.log", start="end")
    live = [tmp_path / f"server-{number:04d}.log" for number in range(0, 2000, 200)]
    for path in live:
        append(path, serials(1, 3))
    follower.clock.now += 1
    follower.read()
    assert {stream: lines for stream, lines in follower.lines.items() if lines} == {
        path.name: serials(1, 3) for path in live
    }
    assert len(list(Path("/proc/self/fd").iterdir())) - before < 80
    if follower.watcher == "inotify":
        # An idle second: the heartbeat's look at open files; every tenth one looks at all.
        started = time.process_time()
        for _ in range(10):
            follower.clock.now += 1.01
            follower.turn()
        busy = time.process_time() - started
        assert busy / 10 < 0.005 * 2, f"{busy / 10:.2%} of a core"  # twice the promise: machines differ


@pytest.mark.parametrize("name", ["polling", "full look now and then"])
def test_29_file_system_without_events(tmp_path, name):
    """Without events (simulated by a waker that never hears of the file) the clock finds what is new."""
    path = tmp_path / "a.log"
    append(path, serials(1, 2))
    follower = Follower(
        Source(str(path), start="beginning"), watcher="inotify" if name != "polling" else "reconcile"
    )
    follower.turn()
    if name != "polling":
        follower.waker.watch([])  # nothing is heard of the directory any more
        follower.waker.changed()
    append(path, serials(3, 4))
    path.rename(f"{path}.1")
    append(path, serials(5, 6))
    if name != "polling":
        follower.clock.now += 11
    follower.turn()
    assert follower.all == serials(1, 6)
    follower.close()


@pytest.mark.needs("root")
def test_30_event_queue_overflows(tmp_path):
    """When the kernel drops events everything is looked at, and the overflow is said and counted."""
    path = tmp_path / "a.log"
    append(path, serials(1, 2))
    follower = Follower(Source(str(tmp_path / "*.log"), start="beginning"), watcher="inotify")
    follower.read()
    limit = Path("/proc/sys/fs/inotify/max_queued_events")
    before = limit.read_text()
    limit.write_text("4")
    try:
        small = Waker(follower.notices.append)
        small.watch([str(tmp_path)])
    finally:
        limit.write_text(before)
    follower.waker.close()
    follower.waker = follower.tail._waker = small
    with follower.waker._inotify._lock:  # its reading thread waits here, so that the queue fills up
        for number in range(200):
            append(tmp_path / f"b{number}.log", serials(number, number))
        append(path, serials(3, 4))
    assert follower.waker.wait(1.0)
    deadline = time.monotonic() + 2
    while not follower.said("notify_overflow") and time.monotonic() < deadline:
        follower.waker.wait(0.05)
        follower.turn()
    follower.read()
    assert follower.lines["a.log"] == serials(1, 4)
    assert sum(len(lines) for lines in follower.lines.values()) == 204
    assert small.overflows >= 1
    assert len(follower.said("notify_overflow")) == small.overflows
    follower.close()


@pytest.mark.needs("root")
@pytest.mark.parametrize("limit", ["max_user_instances", "max_user_watches"])
def test_31_no_inotify_left(tmp_path, limit):
    """Where inotify has reached its limits, polling takes over and says so once."""
    path = tmp_path / "a.log"
    append(path, serials(1, 2))
    setting = Path("/proc/sys/fs/inotify") / limit
    before = setting.read_text()
    setting.write_text("0")
    try:
        follower = Follower(Source(str(path), start="beginning"), watcher="inotify")
        follower.turn()
    finally:
        setting.write_text(before)
    append(path, serials(3, 4))
    follower.turn()
    assert follower.all == serials(1, 4)
    assert follower.waker.polling
    assert len(follower.said("polling")) == 1
    follower.close()


def test_32_start_at_the_end_of_a_huge_file(tmp_path, follow):
    """Starting at the end reads no 50 GB, but still looks up the line with which the run began."""
    path = tmp_path / "a.log"
    header = "[2026-02-11 08:15:02] server_args=ServerArgs(model_path='x')"
    with path.open("wb") as file:
        file.write(text([header]).encode())
        file.seek(50 << 30)
        file.write(b"\n" + text([*serials(1, 5), "unfinis"])[:-1].encode())
    before, read_before = resource.getrusage(resource.RUSAGE_SELF), bytes_read()
    follower = follow(path, start="end")
    with path.open("a") as file:
        file.write("hed\n")
    append(path, serials(6, 7))
    follower.read()
    assert follower.all == [header, "unfinished", *serials(6, 7)]
    assert bytes_read() - read_before < 1 << 30
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_maxrss - before.ru_maxrss < 200 << 10


def test_32_header_behind_the_start(tmp_path, follow):
    """Of several headers the last one counts."""
    path = tmp_path / "a.log"
    append(path, ["server_args=old", *serials(1, 5), "server_args=new", *serials(6, 9)])
    follower = follow(path, start="end")
    append(path, serials(10, 11))
    follower.read()
    assert follower.all == ["server_args=new", *serials(10, 11)]


@pytest.mark.parametrize(
    ("name", "rotated"),
    [
        ("a.log.1", True),
        ("a.log.12.gz", True),
        ("a.log-20260211", True),
        ("a-2026-02-11.log", True),
        ("a.log.2026-02-11T10:00:00", True),
        ("a.log.old", True),
        ("a.log.gz", True),
        ("a.1.log", False),
        ("a-1.log", False),
        ("a1.log", False),
        ("a.log", False),
        ("b.log", False),
        ("a.log.err", False),
        ("ab.log", False),
        ("a2.log", False),
    ],
)
def test_rotated_names(name, rotated):
    """What rotators call their copies is told from other names."""
    assert is_rotated_name(name, "a.log") is rotated


def test_streams_of_equal_names(tmp_path, follow):
    """Two files of one name in different directories are two streams, and keep their names over restarts."""
    for node in ("node1", "node2"):
        (tmp_path / node).mkdir()
        append(tmp_path / node / "server.log", serials(1, 2))
    follower = follow(tmp_path / "*" / "server.log")
    expected = {"server.log": serials(1, 2), "server.log~node2": serials(1, 2)}
    assert follower.lines == expected
    follower.restart()
    append(tmp_path / "node2" / "server.log", serials(3, 3))
    follower.read()
    assert follower.lines == expected | {"server.log~node2": serials(1, 3)}


def test_late_directory_of_a_wild_pattern(tmp_path, follow):
    """A directory that appears later and matches is watched and read."""
    follower = follow(tmp_path / "*" / "*.log")
    (tmp_path / "new").mkdir()
    follower.read()
    append(tmp_path / "new" / "a.log", serials(1, 3))
    follower.read()
    assert follower.lines == {"a.log": serials(1, 3)}


def test_existing_rotated_copies_come_first(tmp_path, follow):
    """At the first start from the beginning, rotated copies that the glob matches come before the live file."""
    append(tmp_path / "a.log.2", serials(1, 3))
    append(tmp_path / "a.log.1", serials(4, 6))
    append(tmp_path / "a.log", serials(7, 9))
    follower = follow(tmp_path / "a.log*")
    assert follower.lines == {"a.log": serials(1, 9)}


def test_existing_rotated_copies_are_passed_over_at_the_end(tmp_path, follow):
    """At the first start from the end, neither rotated copies nor what the live file holds count."""
    append(tmp_path / "a.log.1", serials(4, 6))
    append(tmp_path / "a.log", serials(7, 9))
    follower = follow(tmp_path / "a.log*", start="end")
    append(tmp_path / "a.log", serials(10, 11))
    follower.read()
    assert follower.lines == {"a.log": serials(10, 11)}


def test_budget_is_per_file_and_turn(tmp_path):
    """A busy file does not keep the others waiting for more than its budget."""
    append(tmp_path / "busy.log", serials(1, 1000))
    append(tmp_path / "calm.log", serials(1, 2))
    follower = Follower(Source(str(tmp_path / "*.log"), start="beginning"))
    follower.turn(1000)
    assert follower.lines["calm.log"] == serials(1, 2)
    assert 0 < len(follower.lines["busy.log"]) < 100
    assert follower.tail.behind
    assert follower.tail.lag()["busy.log"].bytes > 10_000
    follower.read(1000)
    assert follower.lines["busy.log"] == serials(1, 1000)
    assert follower.tail.lag()["busy.log"].bytes == 0
    follower.close()


def test_backlog_is_given_as_ranges(tmp_path, follow):
    """A large backlog is handed out as ranges of whole lines, then chunks go on without a seam."""
    path = tmp_path / "a.log"
    append(path, serials(1, 20_000))
    follower = follow(path, bulk_bytes=100_000)
    append(path, serials(20_001, 20_010))
    follower.read()
    assert follower.all == serials(1, 20_010)
    assert follower.places[0] == (str(path), 0, 1)
    assert follower.places[-1][2] == 20_001


def test_source_that_goes_and_comes_back_keeps_its_place(tmp_path, follow):
    """A file that no source means for a while is neither read meanwhile nor read twice, also over a restart."""
    path, other = tmp_path / "a.log", tmp_path / "b.log"
    append(path, serials(1, 3))
    append(other, serials(1, 3))
    follower = follow(path)
    follower.tail.reconfigure([Source(str(other), start="beginning")])
    follower.sources = (Source(str(other), start="beginning"),)
    append(path, serials(4, 5))
    follower.read()
    assert follower.lines == {"a.log": serials(1, 3), "b.log": serials(1, 3)}
    follower.restart()
    follower.read()
    follower.tail.reconfigure([Source(str(tmp_path / "*.log"))])
    follower.read()
    assert follower.lines == {"a.log": serials(1, 5), "b.log": serials(1, 3)}


def test_source_gets_another_name(tmp_path, follow):
    """A new name is a new stream, which goes on where the old one was."""
    path = tmp_path / "a.log"
    append(path, serials(1, 3))
    follower = follow(path)
    follower.tail.reconfigure([Source(str(path), "node7")])
    append(path, serials(4, 5))
    follower.read()
    assert follower.lines == {"a.log": serials(1, 3), "node7": serials(4, 5)}


def test_directory_as_a_source(tmp_path, follow):
    """A directory means the files in it that are not hidden."""
    append(tmp_path / "a.log", serials(1, 3))
    append(tmp_path / ".hidden", serials(7, 9))
    follower = follow(tmp_path)
    append(tmp_path / "b.log", serials(4, 5))
    follower.read()
    assert follower.lines == {"a.log": serials(1, 3), "b.log": serials(4, 5)}


@pytest.mark.parametrize("start", ["end", "beginning"])
def test_hundreds_of_rotated_copies(tmp_path, follow, start):
    """However many rotated copies lie about, none is read twice, also after a restart."""
    for number in range(1, 301):
        append(tmp_path / f"a.log.{number}", serials(number, number))
        os.utime(tmp_path / f"a.log.{number}", (1e9 - number, 1e9 - number))
    append(tmp_path / "a.log", serials(1000, 1001))
    follower = follow(tmp_path / "a.log*", start=start)
    before = list(follower.lines.get("a.log", []))
    assert len(before) == (302 if start == "beginning" else 0)
    for _ in range(3):
        follower.restart()
        follower.clock.now += 11
        follower.read()
    (tmp_path / "a.log").rename(tmp_path / "a.log.0")
    append(tmp_path / "a.log", serials(1002, 1003))
    follower.read()
    assert follower.lines == {"a.log": before + serials(1002, 1003)}


def test_packed_file_by_itself(tmp_path, follow):
    """A compressed file that a source names is read once, and not unpacked again at every look."""
    path = tmp_path / "old.log"
    append(path, serials(1, 50_000))
    packed = pack(path)
    follower = follow(packed)
    assert follower.all == serials(1, 50_000)
    part = follower.tail._followed.feeds["old.log.gz"].parts[0]
    opened = part.file._archive
    for _ in range(3):
        follower.clock.now += 11
        follower.read()
    assert part.file._archive is opened
    follower.restart()
    follower.read()
    assert follower.all == serials(1, 50_000)


def test_deleted_file_is_given_back(tmp_path, follow):
    """A file that was deleted and read to its end is said and closed after a while, so that its space is free."""
    path = tmp_path / "a.log"
    append(path, serials(1, 3))
    follower = follow(path)
    path.unlink()
    follower.read()
    assert follower.tail.open_files == 1
    follower.clock.now += 61
    follower.turn()
    assert follower.said("deleted")
    follower.clock.now += 61
    follower.turn()
    assert follower.tail.open_files == 0
    append(path, serials(4, 5))
    follower.clock.now += 11
    follower.read()
    assert follower.all == serials(1, 5)
