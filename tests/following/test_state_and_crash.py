"""Scenarios 50 to 57: state, crash, disk. The real daemon where it matters, the parts where faults are injected."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from clock_kit import Clock

from benchmarks import crash
from logwatch.config import Config
from logwatch.daemon import Daemon
from logwatch.model import Change, Conditions, Cycle, Incident, Moment, Place
from logwatch.outlets.log import Log
from logwatch.outlets.state import State
from logwatch.outlets.state_file import FILE, VERSION
from logwatch.outlets.state_retention import ROWS
from tests.following.harness import append, copytruncate, serials
from tests.following.watching import Watching

ROOT = Path(__file__).parents[2]


def cycle(number, time=None, stream="a.log"):
    return Cycle(
        place=Place("a.log", 0, number),
        stream=stream,
        rank="TP0",
        run=0,
        time=time,
        cycles=100,
        tokens_per_cycle=1.92,
        phases_s={"target_verify": 0.019 + number * 1e-6},
        conditions=Conditions(batch_size=1.0),
    )


def incident(change=Change.OPENED, key="k", onset="2026-02-11T08:15:02"):
    return Incident(
        key=key, change=change, kind="out_of_band", phase="target_verify", direction="high", stream="a.log", rank="TP0",
        run=0, severity="critical", onset=Moment(1, onset), noticed=Moment(3), resolved=Moment(9) if change is Change.RESOLVED else None,
        before=None, after=0.029, ratio=1.5, samples=3,
    )  # fmt: skip


@pytest.fixture
def states(tmp_path):
    """Makes states in one directory; each closes the one before."""
    made = []

    def make(**options):
        if made:
            made[-1].close()
        made.append(State(tmp_path / "state", notices.append, **options))
        return made[-1]

    notices = make.notices = []
    yield make
    made[-1].close()


def samples(directory):
    with closing(sqlite3.connect(directory / FILE)) as connection:
        return [line for (line,) in connection.execute("SELECT line FROM samples ORDER BY id")]


def test_50_killed_at_random_instants(tmp_path):
    """A daemon killed ten times leaves the history, incidents and counters of one that was not (200 times: benchmarks)."""
    calm = crash.run(tmp_path / "calm", 3_000, 0, seed=1)
    killed = crash.run(tmp_path / "killed", 3_000, 10, seed=1)
    figures = crash.compare(calm, killed, 3_000)
    assert len(calm.history) == 3_000
    assert killed.history == calm.history, figures
    assert killed.incidents == calm.incidents
    assert calm.incidents
    assert killed.counters == calm.counters


def good_state(states):
    state = states()
    state.take(cycle(1))
    state.put("pager", "k", "{}", 0.0)
    assert state.commit({"a.log": '{"path": "a.log"}'}, {"pipeline/a.log": "{}"})
    state.close()
    return state.directory / FILE


def _zero_length(path):
    path.write_bytes(b"")
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def _nuls(path):
    path.write_bytes(b"\0" * path.stat().st_size)


def _truncated(path):
    os.truncate(path, path.stat().st_size // 2)


def _garbage(path):
    path.write_bytes(b"not a database, never was one " * 500)


def _directory(path):
    path.unlink()
    path.mkdir()
    (path / "something").touch()


def _newer(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version={VERSION + 1}")


def _scribbled(path):
    data = bytearray(path.read_bytes())
    data[4096:12288] = b"\x55" * 8192
    path.write_bytes(data)


@pytest.mark.parametrize(
    "harm",
    [_zero_length, _nuls, _truncated, _garbage, _directory, _newer, _scribbled],
    ids=lambda harm: harm.__name__.strip("_"),
)
def test_51_state_file_cannot_be_used(states, harm):
    """A bad state file is set aside and said once; the daemon starts with a new one and keeps working."""
    path = good_state(states)
    harm(path)
    state = states()
    (notice,) = [notice for notice in states.notices if notice.kind == "state_set_aside"]
    assert path.with_name(f"{FILE}.aside-1").exists()
    assert f"{FILE}.aside-1" in notice.message
    state.take(cycle(2))
    assert state.commit({"a.log": "{}"}, {})
    assert samples(path.parent)[-1:] == [2]
    states()
    assert len([notice for notice in states.notices if notice.kind == "state_set_aside"]) == 1


@pytest.mark.needs("root")
@pytest.mark.parametrize("what", ["file", "directory"])
def test_51_state_is_read_only(tmp_path, what):
    """A read-only state is carried on in a new file, or in memory where there can be none, and said once."""
    for parent in (tmp_path, *list(tmp_path.parents)[:2]):
        parent.chmod(0o755)
    directory = tmp_path / "state"
    notices = []
    state = State(directory, notices.append)
    state.commit({"a.log": '{"path": "a.log"}'}, {})
    state.close()
    for path in (directory, *directory.iterdir()):
        os.chown(path, 65534, 65534)
    (directory / FILE).chmod(0o444)
    if what == "directory":
        directory.chmod(0o555)
    os.seteuid(65534)
    try:
        state = State(directory, notices.append)
        assert state.load().positions == {"a.log": '{"path": "a.log"}'}
        assert state.commit({"a.log": "{}"}, {})
        state.close()
    finally:
        os.seteuid(0)
    assert [notice.kind for notice in notices] == ["state_set_aside" if what == "file" else "state_in_memory"]


def test_51_state_vanishes_while_in_use(states):
    """A state directory that is removed under the daemon is made again, with all but history."""
    state = states()
    state.take(cycle(1))
    state.put("pager", "k", "{}", 0.0)
    state.commit({"a.log": "1", "b.log": "2"}, {"m": "3"})
    shutil.rmtree(state.directory)
    state.take(cycle(2))
    assert state.commit({"a.log": "4"}, {})
    assert [notice.kind for notice in states.notices] == ["state_vanished"]
    state = states()
    assert state.load().positions == {"a.log": "4", "b.log": "2"}
    assert state.load().memories == {"m": "3"}
    assert [letter.key for letter in state.letters("pager")] == ["k"]
    assert samples(state.directory) == [2]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    path = tmp_path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", path], check=True)
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


@pytest.mark.needs("root")
def test_52_disk_full(small_disk):
    """A full disk keeps positions where they are and loses nothing of what waits; it goes on when there is room."""
    notices = []
    state = State(small_disk / "state", notices.append)
    assert state.commit({"a.log": "1"}, {})
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    for number in range(200):
        state.take(cycle(number))
    state.put("pager", "k", "x" * 20_000, 0.0)
    assert not state.commit({"a.log": "2"}, {})
    assert not state.commit({"a.log": "3"}, {})
    assert state.failing
    assert state.letters("pager") == []
    assert [notice.kind for notice in notices] == ["state_commit_failed"]
    filler.unlink()
    assert state.commit({"a.log": "3"}, {})
    assert not state.failing
    assert samples(state.directory) == list(range(200))
    assert len(state.letters("pager")) == 1
    assert [notice.kind for notice in notices] == ["state_commit_failed", "state_recovered"]
    state.close()


@pytest.mark.needs("root")
def test_52_daemon_pauses_on_a_full_disk(small_disk, tmp_path):
    """The whole daemon stops advancing while commits fail, and catches up afterwards without loss."""
    log = tmp_path / "server.log"
    log.touch()
    filler = small_disk / "filler"
    with running(log, small_disk / "state") as daemon:
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        with log.open("a") as file:
            file.writelines(crash.line(number, 1000) for number in range(300))
        wait_for(lambda: daemon._state.failing)
        with log.open("a") as file:
            file.writelines(crash.line(number, 1000) for number in range(300, 600))
        filler.unlink()
        wait_for(lambda: crash.count(small_disk / "state") == 600)
        assert daemon._state.errors > 0


class running:  # noqa: N801  # reads as what it is: with running(...)
    """A daemon in a thread of this process."""

    def __init__(self, log, state, **config):
        given = {
            "source": [{"path": str(log), "start": "beginning"}],
            "http": {"listen": "127.0.0.1:0"},
            **config,
        }
        self.output = Path(os.devnull).open("w")  # noqa: SIM115  # open as long as the daemon lives
        self.daemon = Daemon(Config.model_validate(given), state_directory=Path(state), log=Log(self.output))
        self.ready = threading.Event()
        self.daemon.on_ready = self.ready.set
        self.thread = threading.Thread(target=self.daemon.run)

    def __enter__(self):
        self.thread.start()
        assert self.ready.wait(20)
        return self.daemon

    def __exit__(self, *_):
        self.daemon.stop()
        self.thread.join(30)
        assert not self.thread.is_alive()
        self.output.close()


def wait_for(condition, patience_s=20.0):
    deadline = time.monotonic() + patience_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(0.02)


def test_53_power_cut(states, tmp_path):
    """What a power cut takes back (simulated: the file as of an earlier commit) is read again, and counts once."""
    log = tmp_path / "a.log"
    log.write_text("".join(crash.line(number, 1000) for number in range(10)))
    watching = Watching(log)
    state = states()

    def commit():
        for item in watching.items[watching._kept :]:
            state.take(item)
        watching.commit()
        assert state.commit(dict(watching._saved), {})

    watching.read()
    commit()
    fsynced = {
        path: path.read_bytes() for path in state.directory.iterdir() if not path.name.endswith("-shm")
    }
    survived = (dict(watching._saved), dict(watching._memories), list(watching.items))
    with log.open("a") as file:
        file.writelines(crash.line(number, 1000) for number in range(10, 20))
    watching.read()
    commit()
    state.close()
    for path, data in fsynced.items():
        path.write_bytes(data)
    watching._saved, watching._memories, watching.items = survived
    watching._kept = len(watching.items)
    watching.kill()
    state = states()
    assert state.load().positions == watching._saved
    watching.read()
    commit()
    assert len(samples(state.directory)) == len(watching.cycles) == 20


@pytest.mark.parametrize("leap_s", [-3600.0, 10 * 365 * 86400.0], ids=["an hour back", "ten years ahead"])
def test_54_clock_leaps(states, leap_s):
    """A clock that leaps deletes no history, unsends no alert and makes no lag negative."""
    clock, uptime = Clock(), Clock(0.0)
    state = states(clock=clock, uptime=uptime, keep_s=30 * 86400.0)
    state.take(cycle(1))
    state.put("pager", "k", "{}", clock.now)
    state.commit()
    clock.now += leap_s
    for _ in range(5):
        uptime.now += 61
        clock.now += 61
        state.take(cycle(2))
        assert state.commit()
    assert samples(state.directory) == [1] + [2] * 5
    assert len(state.letters("pager")) == 1


def test_54_new_year_in_the_log(tmp_path):
    """Year-less stamps over New Year's Eve give samples in the order of their lines."""
    log = tmp_path / "a.log"
    for number, stamp in enumerate(("Dec 31 23:59:58", "Dec 31 23:59:59", "Jan  1 00:00:00")):
        with log.open("a") as file:
            file.write(f"{stamp} host sglang[7]:   Target verify:     19.1{number} ms/cyc  ( 95.0%)\n")
    watching = Watching(log)
    watching.finish()
    assert watching.phases_ms == [19.1, 19.11, 19.12]


def test_55_stopping_with_a_dead_receiver(tmp_path):
    """SIGTERM with unsent alerts ends in time, and the alerts are there for the next life."""
    log = tmp_path / "server.log"
    log.write_text("".join(crash.line(number, 20) for number in range(20)))
    dead = {"alert": [{"alertmanager": "http://127.0.0.1:9"}]}
    with running(log, tmp_path / "state", **dead) as daemon:
        log.write_text(
            log.read_text() + "".join(crash.line(n, 20).replace("19.", "29.") for n in range(20, 40))
        )
        wait_for(lambda: crash.count(tmp_path / "state") >= 39 and daemon._state.receivers())
        started = time.monotonic()
        daemon.stop()
        daemon_thread = next(
            each for each in threading.enumerate() if getattr(each, "_target", None) == daemon.run
        )
        daemon_thread.join(15)
        assert time.monotonic() - started < 10
    state = State(tmp_path / "state", lambda _: None)
    assert len(state.receivers()) == 1
    assert state.letters(*state.receivers())
    state.close()


def test_56_reloads_under_load(tmp_path):
    """A hundred reloads, good and broken ones in turn, while lines come: the counters of a run without."""
    log = tmp_path / "server.log"
    log.touch()
    configuration = tmp_path / "logwatch.toml"
    good = f'[[source]]\npath = "{log}"\nstart = "beginning"\n[http]\nlisten = "127.0.0.1:0"\n'
    configuration.write_text(good)
    command = [
        sys.executable,
        "-m",
        "logwatch",
        "watch",
        "--config",
        str(configuration),
        "--state",
        str(tmp_path / "state"),
    ]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(command, stderr=said, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        wait_for(lambda: "metrics at" in (tmp_path / "said").read_text())
        for number in range(100):
            configuration.write_text(
                good if number % 2 == 0 else "[[band]]\nphase = 7\nnonsense"
            )  # torn writes too
            with log.open("a") as file:
                file.writelines(crash.line(10 * number + each, 1000) for each in range(10))
            process.send_signal(signal.SIGHUP)
        wait_for(lambda: crash.count(tmp_path / "state") >= 999, patience_s=60.0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    found = crash.outcome(tmp_path / "state")
    values = [row[5] for row in found.history]
    assert values == sorted(values)[: len(values)] or len(set(values)) == len(values)
    assert len(values) == len(set(values)) >= 999
    assert found.counters["read_bytes"] == log.stat().st_size
    assert "reload refused" in (tmp_path / "said").read_text()


@pytest.mark.parametrize("packed", [False, True], ids=["same files", "rotated and packed since"])
def test_57_state_moved_to_another_host(tmp_path, follow, packed):
    """On another host (other inodes and devices, simulated in the saved positions) the content finds the place."""
    path = tmp_path / "a.log"
    append(path, serials(1, 100))
    follower = follow(path)
    follower.commit()

    def elsewhere(text):
        position = json.loads(text)
        if "host" in position:
            return json.dumps(position | {"host": "another"})
        position["part"]["identity"] = {"device": 1, "inode": 2, "born_ns": 3}
        return json.dumps(position)

    follower._saved = {stream: elsewhere(text) for stream, text in follower._saved.items()}
    append(path, serials(101, 110))
    if packed:
        path.rename(f"{path}.1")
        subprocess.run(["gzip", f"{path}.1"], check=True)
        append(path, serials(111, 120))
    follower.kill()
    follower.read()
    assert follower.all == serials(1, 120 if packed else 110)
    assert not follower.said("lost")


def test_retention_deletes_in_bounded_batches(states):
    """Old samples and closed incidents go a bounded number at a time; open incidents and new samples stay."""
    clock, uptime = Clock(), Clock(0.0)
    state = states(clock=clock, uptime=uptime, keep_s=86400.0)
    for number in range(ROWS + 500):
        state.take(cycle(number))
    for key, change in (("closed", Change.OPENED), ("closed", Change.RESOLVED), ("open", Change.OPENED)):
        state.take(incident(change, key, onset=None))
    state.commit()
    for _ in range(3 * 24):
        clock.now += 3600
        uptime.now += 3600
        state.take(cycle(9999))
        state.commit()
        left = len(samples(state.directory))
    assert left <= 26
    with closing(sqlite3.connect(state.directory / FILE)) as connection:
        assert connection.execute("SELECT key FROM incidents").fetchall() == [("open",)]


def test_lost_bytes_are_counted(tmp_path, follow):
    """What was destroyed before anyone could read it is said, in bytes."""
    path = tmp_path / "a.log"
    append(path, serials(1, 10))
    follower = follow(path)
    follower.turn()
    append(path, serials(11, 20))
    follower.tail._followed.feeds["a.log"].look()
    os.truncate(path, 0)
    append(path, serials(21, 22))
    follower.read()
    assert follower.all == serials(1, 10) + serials(21, 22)
    assert sum(notice.bytes for notice in follower.said("lost")) == 210


def test_copy_of_an_unread_part_is_found_while_commits_lag(tmp_path, follow):
    """Killed between a truncation and its commit, the follower finds the copy once more."""
    path = tmp_path / "a.log"
    append(path, serials(1, 50))
    follower = follow(path)
    append(path, serials(51, 60))
    copytruncate(path, tmp_path / "a.log.1")
    append(path, serials(61, 70))
    for _ in range(3):
        follower.read()
        follower.kill()
    follower.read()
    assert follower.all == serials(1, 70)


def test_state_belongs_to_one_daemon(tmp_path):
    """A second daemon with the same state is refused, whoever comes later is not."""
    log = tmp_path / "server.log"
    log.touch()
    command = [
        sys.executable,
        "-m",
        "logwatch",
        "watch",
        "--listen",
        "127.0.0.1:0",
        "--state",
        str(tmp_path / "state"),
    ]
    with running(log, tmp_path / "state"):
        second = subprocess.run([*command, str(log)], capture_output=True, text=True, check=False, timeout=60)
    assert second.returncode == 2
    assert "in use by another logwatch" in second.stderr
    with running(log, tmp_path / "state"):
        pass
