"""What seldom happens to files, and must neither lose, repeat, hang nor end the watch."""

from __future__ import annotations

import errno
import gzip
import json
import os

import pytest

from logwatch.daemon import Daemon
from logwatch.intake import opened, tail
from logwatch.intake.followed import Followed
from logwatch.intake.tail import Source
from logwatch.intake.wake import Waker
from logwatch.model import Cycle, Read
from tests.daemon_kit import metric, running, watch_config
from tests.following import test_rotation
from tests.following.harness import Follower, append, bytes_read, pack, serials, text

PHASE = "[2026-02-11 08:15:02 TP0]   Target verify:     28.96 ms/cyc  ( 97.0%)\n"


@pytest.fixture
def unreadable(monkeypatch):
    """Makes files unreadable, whoever runs the tests."""
    closed: set[str] = set()
    really = opened.PlainFile.__init__

    def refuse(self, path):
        if str(path) in closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        really(self, path)

    monkeypatch.setattr(opened.PlainFile, "__init__", refuse)
    return closed


def named_badly(directory):
    """A log whose name is not UTF-8."""
    return directory / os.fsdecode(b"caf\xe9.log")


def test_name_that_is_not_utf8(tmp_path, follow):
    """Such a file is followed under a name that can be shown, and keeps its place over a restart."""
    path = named_badly(tmp_path)
    append(path, serials(1, 3))
    follower = follow(tmp_path / "*.log")
    follower.restart()
    append(path, serials(4, 5))
    follower.read()
    assert follower.lines == {"caf\ufffd.log": serials(1, 5)}
    assert {path for path, _, _ in follower.places} == {f"{tmp_path}/caf\ufffd.log"}
    assert not follower.notices


def test_daemon_outlives_a_name_that_is_not_utf8(tmp_path):
    """State, metrics and the log take such a file as any other."""
    path = named_badly(tmp_path)
    path.write_text(PHASE * 5)
    with running(watch_config(tmp_path / "*.log"), tmp_path / "state") as (daemon, eyes, _):
        eyes.wait_until(lambda: daemon._state.commits and eyes.of(Read))
    append(path, [PHASE.rstrip()] * 2)
    with running(watch_config(tmp_path / "*.log"), tmp_path / "state") as (daemon, eyes, _):
        eyes.wait_until(lambda: metric(daemon, "logwatch_read_bytes_total") == len(PHASE) * 7)


def test_followed_packed_file_is_deleted(tmp_path, follow):
    """A compressed file may go while it is held open."""
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(text(serials(1, 5)).encode()))
    follower = follow(path)
    path.unlink()
    follower.read()
    path.write_bytes(gzip.compress(text(serials(6, 9)).encode()))
    follower.clock.now += 11
    follower.read()
    assert follower.all == serials(1, 9)


def test_terabyte_of_hole_at_the_end(tmp_path, follow):
    """Space laid out in advance is not read."""
    path = tmp_path / "a.log"
    append(path, serials(1, 3))
    follower = follow(path)
    before = bytes_read()
    os.truncate(path, 1 << 40)
    follower.read()
    append(path, serials(4, 5))
    follower.read()
    assert bytes_read() - before < 64 << 20
    assert follower.all == serials(1, 5)


def test_files_deleted_after_their_descriptors_were_given_back(tmp_path):
    """Nothing is remembered of files of a glob that are long gone, however many there were."""
    for number in range(10):
        append(tmp_path / f"run{number}.log", serials(1, 3))
    follower = Follower(Source(str(tmp_path / "*.log"), start="beginning"), most_open=2)
    follower.read()
    for path in tmp_path.iterdir():
        path.unlink()
    for _ in range(10):
        follower.clock.now += 100
        follower.read()
        follower.commit()
    assert not follower.tail.streams
    assert not follower.tail._shop.known
    assert not follower.said("lost")
    follower.close()


def test_fifo_is_deleted_and_made_again(tmp_path):
    """A writer that opens the new FIFO finds a reader."""
    path = tmp_path / "log.fifo"
    os.mkfifo(path)
    follower = Follower(Source(str(path)))
    for number in range(3):
        follower.read()
        writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.write(writer, text(serials(number + 1, number + 1)).encode())
        if number == 1:  # while its writer is still there
            path.unlink()
            os.mkfifo(path)
        follower.read()
        os.close(writer)
        follower.read()
        if number == 0:
            path.unlink()
            follower.read()
            os.mkfifo(path)
    assert follower.all == serials(1, 3)
    follower.close()


def test_nobody_sleeps_on_a_closed_descriptor(tmp_path):
    """A FIFO that is gone does not keep the sleeper awake."""
    path = tmp_path / "log.fifo"
    os.mkfifo(path)
    waker = Waker(lambda _: None, "poll")
    following = tail.Tail([Source(str(path))], {}, lambda _: None, waker=waker, clock=lambda: 0.0)
    list(following.read())
    path.unlink()
    list(following.read())
    waker.wait(0)
    assert not waker.wait(0.01)
    following.close()
    waker.close()


@pytest.mark.parametrize("other", ["fifo", "directory"])
def test_other_kind_of_file_takes_the_name(tmp_path, follow, other):
    """A FIFO or directory in a log's place is followed; a log that comes back too."""
    path = tmp_path / "a.log"
    append(path, serials(1, 3))
    follower = follow(path)
    path.rename(tmp_path / "a.log.1")
    (os.mkfifo if other == "fifo" else os.mkdir)(path)
    follower.read()
    if other == "fifo":
        follower.clock.now += 11
        follower.read()
        with path.open("w") as file:
            file.write(text(serials(4, 5)))
            file.flush()
            follower.read()
    else:
        path.rmdir()
        append(path, serials(4, 5))
    follower.clock.now += 11
    follower.read()
    assert follower.all == serials(1, 5)


def test_long_unfinished_line_of_a_source_that_goes(tmp_path, follow):
    """A source that goes in the middle of a line of 100 kB, and comes back: the line is one."""
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 100_000)
    follower = follow(path)
    follower.tail.reconfigure([])
    follower.read()
    follower.commit()
    follower.kill()
    append(path, ["end", "next"])
    follower.read()
    assert [len(line) for line in follower.all] == [100_003, 4]


def test_half_a_line_of_a_source_that_goes_counts_once(tmp_path):
    """What is unfinished when a source goes is read when it comes back, and not before."""
    log = tmp_path / "a.log"
    log.write_text(PHASE + PHASE.rstrip("\n"))
    other = tmp_path / "b.log"
    other.touch()
    configs = [watch_config(log), watch_config(other), watch_config(log)]
    state = tmp_path / "state"
    with running(configs[0], state, load=lambda: configs[1]) as (daemon, eyes, _):
        eyes.wait_until(lambda: sum(each.bytes for each in eyes.of(Read)) == log.stat().st_size)
        daemon.reload()
        eyes.wait_until(lambda: not daemon._pipelines)
    append(log, [""])
    with running(configs[2], state) as (daemon, eyes, _):
        eyes.wait_until(lambda: metric(daemon, "logwatch_lines_total", "a.log", 'outcome="matched"') == 2)
        assert sum(each.matched for each in eyes.of(Read)) == 1


def test_copy_that_may_not_be_read(tmp_path, unreadable):
    """A rotated copy that nobody lets us read holds up what is written now for a minute, not for ever."""
    path = tmp_path / "a.log"
    append(path, serials(1, 100))
    follower = Follower(Source(str(path), start="beginning"))
    follower.read()
    unreadable.add(f"{path}.1")
    append(path, serials(101, 102))
    append(tmp_path / "a.log.1", serials(1, 102))
    path.write_text(text(serials(103, 104)))
    follower.read()
    follower.clock.now += 61
    follower.read()
    append(path, serials(105, 106))
    follower.read()
    assert follower.all == serials(1, 100) + serials(103, 106)
    assert follower.said("unreadable")
    assert follower.said("lost")
    follower.close()


def test_readable_only_later_and_from_its_end(tmp_path, unreadable):
    """`start = "end"` holds for a file that could not be opened when it was first seen."""
    path = tmp_path / "a.log"
    append(path, serials(1, 100))
    unreadable.add(str(path))
    follower = Follower(Source(str(path)))
    follower.read()
    append(path, serials(101, 102))
    follower.read()
    unreadable.clear()
    follower.read()
    append(path, serials(103, 104))
    follower.read()
    assert follower.all == serials(101, 104)
    follower.close()


def test_reading_fails_for_a_while(tmp_path, monkeypatch):
    """A disk or file server that fails in the middle of anything is tried again."""
    path = tmp_path / "a.log"
    append(path, serials(1, 3))
    follower = Follower(Source(str(path), start="beginning"))
    follower.read()
    append(path, serials(4, 5))
    with monkeypatch.context() as patched:

        def stale(*_, **__):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

        patched.setattr(opened.PlainFile, "read_at", stale)
        patched.setattr(opened.PlainFile, "facts", stale)
        path.rename(f"{path}.1")
        append(path, serials(6, 7))
        follower.read()
        patched.setattr(Followed, "_scan_source", stale)
        follower.clock.now += 11
        follower.read()
    follower.read()
    assert follower.all == serials(1, 7)
    assert follower.said("unreadable")
    follower.close()


def test_truncated_in_the_middle_of_a_backlog(tmp_path):
    """What a copy still holds of a backlog that was truncated while it was read is read there."""
    path = tmp_path / "a.log"
    append(path, serials(1, 300_000))
    follower = Follower(Source(str(path), start="beginning"), bulk_bytes=100_000)
    follower.turn()
    assert 0 < len(follower.all) < 300_000
    test_rotation.copytruncate(path, tmp_path / "a.log.1")
    append(path, serials(300_001, 300_002))
    follower.read()
    assert follower.all == serials(1, 300_002)
    follower.close()


def stamped(first, last):
    """Numbered lines with clock times, as servers write them."""
    return [
        f"[2026-02-11 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02} TP0] {line}"
        for number, line in enumerate(serials(first, last), first)
    ]


@pytest.mark.parametrize("down", [True, False], ids=["while down", "while following"])
@pytest.mark.parametrize("end", ["cut", "NULs"])
@pytest.mark.parametrize("lost", [10_000, 100_000, 500_000])
def test_power_cut_takes_the_end_of_the_log(tmp_path, lost, end, down):
    """Nothing is lost, and at most about as much counts twice as the power cut took, not the whole file."""
    path = tmp_path / "a.log"
    follower = Follower(Source(str(path), start="beginning"))
    for number in range(40):
        append(path, stamped(1 + number * 400, 400 + number * 400))
        follower.read()
        follower.commit()
    size = path.stat().st_size
    before = path.read_bytes()[: size - lost]
    path.write_bytes(before + bytes(lost) * (end == "NULs"))
    if down:
        follower.kill()
    append(path, ["", *stamped(20_001, 20_100)])
    follower.read()
    kept = [line.decode() for line in before.split(b"\n")[:-1]]
    again = follower.all[16_000:]
    twice = again.index(kept[-1]) + 1 if kept[-1] in again else 0
    assert again[:twice] == kept[len(kept) - twice :]
    assert len(text(again[:twice])) <= max(lost, 20_000)
    assert again[-100:] == stamped(20_001, 20_100)
    assert follower.said("truncated")
    follower.close()


def test_packed_while_no_new_log_is_there(tmp_path, follow):
    """A rotated log is packed before the server opens a new one, and the glob matches it: it is read once."""
    path = tmp_path / "a.log"
    append(path, serials(1, 100))
    follower = follow(tmp_path / "a.log*")
    path.rename(tmp_path / "a.log.1")
    follower.read()
    pack(tmp_path / "a.log.1")
    follower.read()
    append(path, serials(101, 102))
    follower.read()
    assert follower.lines == {"a.log": serials(1, 102)}


def test_rotated_while_down_and_no_new_log_yet(tmp_path, follow):
    """Looked at between a rename that nobody saw and the next log's first line: the copy is no stream of its own."""
    path = tmp_path / "a.log"
    append(path, serials(1, 100))
    follower = follow(tmp_path / "a.log*")
    for number in (2, 1):
        follower.close()
        path.rename(f"{path}.{number}")
        if number == 2:
            append(path, serials(101, 110))
    follower.kill()
    follower.read()
    append(path, serials(111, 112))
    follower.read()
    assert follower.lines == {"a.log": serials(1, 112)}


@pytest.mark.parametrize("packed", ["while followed", "while down"])
def test_killed_with_files_waiting(tmp_path, follow, packed):
    """Of several files that wait, the first is packed in a way that changes its time: those after it are read."""
    path = tmp_path / "a.log"
    append(path, serials(1, 10))
    follower = follow(path)
    path.rename(f"{path}.3")
    append(path, serials(11, 300))
    path.rename(f"{path}.2")
    append(path, serials(301, 310))
    written_ns = path.stat().st_mtime_ns

    def pack_first():
        os.utime(pack(tmp_path / "a.log.2"), ns=(written_ns + 10**10,) * 2)

    if packed == "while followed":
        pack_first()
    follower.turn(500)
    follower.turn(500)
    follower.commit()
    assert 10 < len(follower.all) < 300
    path.rename(f"{path}.1")
    if packed == "while down":
        pack_first()
    append(path, serials(311, 312))
    os.utime(path, ns=(written_ns + 2 * 10**10,) * 2)
    follower.kill()
    follower.read()
    assert follower.all == serials(1, 312)


@pytest.mark.parametrize("pattern", ["a.log", "a.log*"])
def test_looked_at_while_an_unread_log_is_packed(tmp_path, follow, pattern):
    """A file that nobody has read and its packed copy lie side by side for a moment: it is read once."""
    path = tmp_path / "a.log"
    path.touch()
    follower = follow(tmp_path / pattern)
    append(path, serials(1, 100))
    (tmp_path / "a.log.1").write_bytes(path.read_bytes())
    path.write_text(text(serials(101, 300)))
    packed = tmp_path / "a.log.1.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.log.1").read_bytes()))
    copied = (tmp_path / "a.log.1").stat()
    os.utime(
        packed, ns=(copied.st_atime_ns, copied.st_mtime_ns // 10**9 * 10**9)
    )  # whole seconds: seems older
    follower.read()
    (tmp_path / "a.log.1").unlink()
    append(path, serials(301, 302))
    follower.read()
    assert follower.lines == {"a.log": serials(1, 302)}


def test_position_of_a_newer_logwatch(tmp_path):
    """After a downgrade reading goes on where the newer version was, whatever else that kept."""
    path = tmp_path / "a.log"
    append(path, serials(1, 3))
    follower = Follower(Source(str(path), start="beginning"))
    follower.read()
    follower.commit()
    for stream, kept in follower._saved.items():
        position = json.loads(kept) | {"newer": 1}
        if stream:
            position["part"]["newer"] = [1]
        follower._saved[stream] = json.dumps(position)
    follower.kill()
    append(path, serials(4, 5))
    follower.read()
    assert follower.all == serials(1, 5)
    assert not follower.notices
    follower.close()


def test_rotated_copies_outlive_their_log(tmp_path, follow):
    """What is left of a log that was deleted long ago is not read again, though the glob matches it."""
    path = tmp_path / "a.log"
    append(path, serials(1, 100))
    follower = follow(tmp_path / "a.log*")
    path.rename(tmp_path / "a.log.1")
    append(path, serials(101, 102))
    follower.read()
    path.unlink()
    for _ in range(10):
        follower.clock.now += 100
        follower.read()
    follower.restart()
    follower.read()
    assert follower.lines == {"a.log": serials(1, 102)}
    (tmp_path / "a.log.1").unlink()
    for _ in range(10):
        follower.clock.now += 100
        follower.read()
    assert not follower.tail.streams


@pytest.mark.parametrize("most_open", [1, 64])
@pytest.mark.parametrize("written", [True, False], ids=["written to since", "not written to since"])
def test_backup_of_a_log_that_nobody_looked_at_yet(tmp_path, written, most_open):
    """After an unseen rotation the new log was copied, as administrators do: it is read once."""
    path = tmp_path / "a.log"
    append(path, stamped(1, 100))
    follower = Follower(Source(str(path), start="beginning"), most_open=most_open)
    follower.read()
    path.rename(tmp_path / "a.log.1")
    append(path, stamped(101, 150))
    os.utime(path, ns=(path.stat().st_mtime_ns + 10**9,) * 2)
    (tmp_path / "a.log.bak").write_bytes(path.read_bytes())
    os.utime(tmp_path / "a.log.bak", ns=(path.stat().st_mtime_ns + 10**9,) * 2)
    if written:
        append(path, stamped(151, 152))
        os.utime(path, ns=(path.stat().st_mtime_ns + 3 * 10**9,) * 2)
    follower.read()
    assert follower.all == stamped(1, 152 if written else 150)
    follower.close()


class Acts:
    """A sink that does something at its first item, once."""

    def __init__(self, wanted, act):
        self.wanted, self.act = wanted, act

    def take(self, item):
        if self.act is not None and self.wanted(item):
            act, self.act = self.act, None
            act()

    def close(self):
        pass


def read_bytes(eyes):
    return sum(each.bytes for each in eyes.of(Read))


def test_stop_in_a_backlog(tmp_path, monkeypatch):
    """SIGTERM ends the daemon soon though much is left, and the next life reads on."""
    monkeypatch.setattr("logwatch.daemon.STOP_S", 0.0)
    monkeypatch.setattr("logwatch.daemon.BULK_BYTES", 1 << 16)
    monkeypatch.setattr("logwatch.intake.lineage.BULK_BYTES", 1 << 15)
    for number in range(4):
        append(tmp_path / f"{number}.log", serials(1, 10_000))
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    config = watch_config(tmp_path / "*.log")
    daemons = []

    def opened_and_known(self, really=Daemon._open):
        daemons.append(self)
        really(self)

    def stop():
        daemons[0].stop()

    monkeypatch.setattr(Daemon, "_open", opened_and_known)
    halt = Acts(lambda item: isinstance(item, Read), stop)
    with running(config, tmp_path / "state", sinks=[halt]) as (_, eyes, _):
        pass
    first = read_bytes(eyes)
    assert 0 < first < size
    with running(config, tmp_path / "state") as (_, eyes, _):
        eyes.wait_until(lambda: first + read_bytes(eyes) == size)


@pytest.mark.parametrize("bulk", [False, True], ids=["live", "backlog"])
def test_defect_in_one_line_does_not_end_the_watch(tmp_path, monkeypatch, bulk):
    """Where a line makes us fail, that is said and counted as lost, and following goes on, also in mid-line."""
    if bulk:
        monkeypatch.setattr("logwatch.daemon.BULK_BYTES", 100)
    log = tmp_path / "a.log"
    log.write_text(PHASE * 5 + PHASE[:20])

    def fail():
        raise ZeroDivisionError

    def is_third(item):
        return isinstance(item, Cycle) and item.place.line == 3

    with running(watch_config(log), tmp_path / "state", sinks=[Acts(is_third, fail)]) as (daemon, eyes, out):
        eyes.wait_until(lambda: daemon._state.commits)
        with log.open("a") as file:
            file.write(PHASE[20:] + PHASE)
        eyes.wait_until(lambda: [each.place.line for each in eyes.of(Cycle)][-1:] == [7])
        assert [each.place.line for each in eyes.of(Cycle)] == [1, 2, 3, 6, 7]
        assert metric(daemon, "logwatch_lost_bytes_total", "a.log") > 0
        assert "internal error, please report it: ZeroDivisionError()" in out.getvalue()
