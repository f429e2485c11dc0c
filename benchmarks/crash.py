"""SIGKILL the real daemon at random instants while a log is written and rotated; compare history with a calm run.

Run: `python -m benchmarks.crash --kills 200`. Each line of the log is a numbered sample (its number is in its
value), so a line lost, counted twice or out of order shows in the history. The log is rotated in turn by rename, by
rename and gzip, and by copy-truncate. A stretch of it is out of band, so that incidents open and resolve.
`--mtail` puts the scenarios that apply to it before mtail too.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN = datetime(2026, 2, 11, 8, 15, tzinfo=UTC)
ROTATE_EVERY = 1_900
SLOW = (0.40, 0.45)
"""The part of the log, as a share, that is out of band."""
DEADLINE_S = 120.0
HISTORY = (
    "time, rank, run, line, phase, seconds, cycles, share, tokens_per_cycle, batch_size, in_band, "
    "warm_up, complete"
)


def line(number: int, lines: int) -> str:
    """Line `number`: a report of one phase whose seconds carry the number."""
    base = 29.0 if SLOW[0] * lines <= number < SLOW[1] * lines else 19.0
    when = (BEGIN + timedelta(seconds=number)).strftime("%Y-%m-%d %H:%M:%S")
    return f"[{when} TP0]   Target verify:     {base + number * 1e-6:.6f} ms/cyc  ( 95.0%)\n"


class Logger:
    """Writes numbered lines and rotates, always at the same lines, so that two runs write the same files."""

    def __init__(self, directory: Path, lines: int) -> None:
        self.path = directory / "server.log"
        self.lines = lines
        self.written = 0
        self._rotations = 0
        self._file = self.path.open("ab", buffering=0)

    def write(self, count: int) -> None:
        """The next lines, now and then in two pieces."""
        for _ in range(min(count, self.lines - self.written)):
            if self.written and self.written % ROTATE_EVERY == 0:
                self._rotate()
            data = line(self.written, self.lines).encode()
            if self.written % 97 == 0:
                self._file.write(data[:31])
                data = data[31:]
            self._file.write(data)
            self.written += 1

    def close(self) -> None:
        self._file.close()

    def _rotate(self) -> None:
        self._rotations += 1
        for number in range(self._rotations, 0, -1):
            for ending in ("", ".gz"):
                old = Path(f"{self.path}.{number}{ending}")
                if old.exists():
                    old.rename(f"{self.path}.{number + 1}{ending}")
        way = self._rotations % 3
        if way == 2:
            shutil.copyfile(self.path, f"{self.path}.1")
            os.truncate(self.path, 0)
            return
        self.path.rename(f"{self.path}.1")
        self._file.close()
        self._file = self.path.open("ab", buffering=0)
        if way == 1:
            pack(Path(f"{self.path}.1"))


def pack(path: Path) -> None:
    """As gzip does: time stamp kept, the original gone."""
    packed = Path(f"{path}.gz")
    stat = path.stat()
    with path.open("rb") as source, gzip.open(packed, "wb") as target:
        shutil.copyfileobj(source, target)
    os.utime(packed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    path.unlink()


@dataclass
class Outcome:
    """What a run left in its state file."""

    history: list[tuple[object, ...]] = field(default_factory=list)
    incidents: list[tuple[object, ...]] = field(default_factory=list)
    counters: dict[str, object] = field(default_factory=dict)
    kills: int = 0
    seconds: float = 0.0


@contextlib.contextmanager
def daemon(log: Path, state: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`logwatch watch` on a log, killed at the end if it still lives."""
    command = [sys.executable, "-m", "logwatch", "watch", "--start", "beginning", "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (state.parent / "daemon.log").open("ab") as output:
        process = subprocess.Popen(
            [*command, "--state", str(state), str(log)],
            stdout=output,
            stderr=output,
            env=environment,
            cwd=state.parent,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def count(state: Path) -> int:
    """Samples in a state file so far."""
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{state}/state.sqlite?mode=ro", uri=True)
        ) as connection:
            return int(connection.execute("SELECT count(*) FROM samples").fetchone()[0])
    except sqlite3.Error:
        return 0


def positions(state: Path) -> int:
    """Positions in a state file: one more than streams."""
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{state}/state.sqlite?mode=ro", uri=True)
        ) as connection:
            return int(connection.execute("SELECT count(*) FROM positions").fetchone()[0])
    except sqlite3.Error:
        return 0


def wait_for(condition: Callable[[], bool]) -> None:
    """Sleep until it holds.

    Raises:
        TimeoutError: It does not within `DEADLINE_S`.
    """
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the daemon does not do what it should")
        time.sleep(0.02)


def finish(process: subprocess.Popen[bytes], state: Path, wanted: int) -> None:
    """Wait until the history is whole, or stands still; then stop the daemon as systemd does."""
    seen, since = -1, time.monotonic()
    while seen < wanted and time.monotonic() - since < 15.0:
        now = count(state)
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.wait(DEADLINE_S)


def outcome(state: Path) -> Outcome:
    """History, incidents and counters as the state file holds them."""
    with contextlib.closing(sqlite3.connect(f"file:{state}/state.sqlite?mode=ro", uri=True)) as connection:
        history = connection.execute(f"SELECT {HISTORY} FROM samples ORDER BY id").fetchall()
        incidents = connection.execute(
            "SELECT key, stream, rank, phase, kind, open, onset_s, resolved_s, body FROM incidents ORDER BY id"
        ).fetchall()
        memory = connection.execute(
            "SELECT memory FROM memories WHERE name = 'metrics/server.log'"
        ).fetchone()
    stream = json.loads(memory[0]) if memory else {}
    counters = {name: stream.get(name) for name in ("lines", "read_bytes", "lost_bytes")}
    return Outcome(history, incidents, counters)


def run(directory: Path, lines: int, kills: int, seed: int, *, tell: bool = False) -> Outcome:
    """Write `lines` lines under a daemon that is killed `kills` times.

    Returns:
        What its state holds once everything was read.
    """
    logs, state = directory / "logs", directory / "state"
    logs.mkdir(parents=True)
    logger = Logger(logs, lines)
    with daemon(logger.path, state) as process:  # it knows of the log from now on
        wait_for(lambda: positions(state) > 1)
        process.kill()
    chance = random.Random(seed)
    started = time.monotonic()
    piece = lines // (kills + 1)
    for number in range(kills):
        target = logger.written + piece
        with daemon(logger.path, state) as process:
            # Every other life ends while it starts; the rest some moments after it began to read.
            if number % 2:
                logger.write((target - logger.written) // 3)
                begun = count(state)
                wait_for(lambda begun=begun: count(state) > begun)
            until = time.monotonic() + chance.uniform(0.0, 1.2)
            pause = (until - time.monotonic()) / 20
            while time.monotonic() < until:
                logger.write(min(max(1, piece // 20), target - logger.written))
                time.sleep(max(0.0, pause))
            process.kill()
        logger.write(target - logger.written - chance.choice((0, 0, 7)))
        if tell and (number + 1) % 10 == 0:
            print(f"{number + 1} kills, {logger.written} lines, {count(state)} samples", file=sys.stderr)
    with daemon(logger.path, state) as process:
        logger.write(lines)
        finish(process, state, lines)
    logger.close()
    found = outcome(state)
    found.kills, found.seconds = kills, time.monotonic() - started
    return found


def compare(calm: Outcome, killed: Outcome, lines: int) -> dict[str, object]:
    """Figures of a killed run against a calm one; all zero is the promise."""
    numbers = [round((float(row[5]) * 1e3 % 10 - 9) * 1e6) for row in killed.history]
    return {
        "lines": lines,
        "kills": killed.kills,
        "samples lost": len(set(range(lines)) - set(numbers)),
        "samples counted twice": len(numbers) - len(set(numbers)),
        "samples out of order": sum(a > b for a, b in itertools.pairwise(numbers)),
        "history equals the calm run's": killed.history == calm.history,
        "incidents equal": killed.incidents == calm.incidents,
        "incidents": len(killed.incidents),
        "counters equal": killed.counters == calm.counters,
        "seconds": round(killed.seconds, 1),
    }


def table(figures: dict[str, object]) -> str:
    """Figures as a Markdown table."""
    rows = [
        f"| {name} | {value:,} |"
        if isinstance(value, int) and not isinstance(value, bool)
        else f"| {name} | {value} |"
        for name, value in figures.items()
    ]
    return "\n".join(["| | |", "|---|---|", *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=20260211)
    parser.add_argument("--keep", type=Path, help="keep logs and states here")
    parser.add_argument(
        "--mtail", action="store_true", help="compare with mtail, scenario by scenario, instead"
    )
    given = parser.parse_args()
    if given.mtail:
        from benchmarks.crash_mtail import main as mtail_main

        return mtail_main()
    directory = given.keep or Path(tempfile.mkdtemp(prefix="logwatch-crash-"))
    try:
        calm = run(directory / "calm", given.lines, 0, given.seed)
        killed = run(directory / "killed", given.lines, given.kills, given.seed, tell=True)
    finally:
        if given.keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    figures = compare(calm, killed, given.lines)
    print(table(figures))
    return 0 if figures["history equals the calm run's"] and figures["incidents equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
