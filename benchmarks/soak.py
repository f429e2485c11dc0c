"""A compressed week: a simulated clock, a million reports, hundreds of rotations, restarts and kills.

    python benchmarks/soak.py                  # the week
    python benchmarks/soak.py --share 0.03     # the first five hours of it

The daemon itself is driven turn by turn on one thread, on a clock that jumps a minute at a time: its own commits,
retention and expiry run as they would in a week. Five servers of two ranks each write a report every six seconds into
files that are rotated. Now and then one of them is really slower for two hours; whatever else is told is a false alarm.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).parent)]

import proof_kit as kit  # noqa: E402  # behind the path

import logwatch.daemon as house  # noqa: E402  # behind the path
from logwatch.config import Config  # noqa: E402  # behind the path
from logwatch.intake.tail import Tail  # noqa: E402  # behind the path
from logwatch.model import Change, Incident, Item  # noqa: E402  # behind the path
from logwatch.outlets.log import Log  # noqa: E402  # behind the path
from logwatch.outlets.metrics import Metrics  # noqa: E402  # behind the path
from logwatch.outlets.state import State  # noqa: E402  # behind the path

TICK_S = 60.0
WEEK_TICKS = 7 * 24 * 60
SERVERS, RANKS, REPORTS_A_TICK = 5, ("TP0", "TP1"), 10
ROTATE_TICKS, RESTART_TICKS = 40, 50
BEGIN_S = 1_770_768_000.0
KEEP = "1d"
SLOW = ((0.20, 120, 1.5), (0.55, 120, 1.06), (0.80, 120, 1.5))
"""When, as a share of the week, for how many ticks, and by how much a server is really slower; in turn."""


class Clock:
    """Seconds since the epoch and since the start, as told."""

    def __init__(self) -> None:
        self.now = BEGIN_S

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now - BEGIN_S + 1000.0


@dataclass
class Seen:
    """What the daemon told over all its lives."""

    opened: list[tuple[float, Incident]] = field(default_factory=list)
    cycles: int = 0
    seconds: float = 0.0
    clock: Clock = field(default_factory=Clock)

    def take(self, item: Item) -> None:
        if isinstance(item, Incident) and item.change is Change.OPENED:
            self.opened.append((self.clock.now, item))

    def close(self) -> None:
        """Nothing is held."""


class Steered(house.Daemon):
    """The daemon, with somebody else's hand on its loop."""

    def begin(self) -> None:
        self._open()

    def turn(self) -> None:
        self._turn()
        while self._tail.behind:
            self._turn()

    def end(self, *, politely: bool) -> None:
        """Stop, or vanish: then what was not committed is gone."""
        if politely:
            self._turn()
        else:
            self._commit = lambda: None
        self._close()

    def count(self) -> tuple[float, float]:
        """Cycles and their verify seconds, over all streams."""
        found = (0.0, 0.0)
        for stream in self._metrics.memory.streams.values():
            for rank in stream.ranks.values():
                phase = rank.phases.get("target_verify")
                if phase is not None:
                    found = (found[0] + phase.cycles, found[1] + phase.seconds)
        return found


class Servers:
    """What is written: reports whose verify time is noise around 19.15 ms, and now and then really slower."""

    def __init__(self, folder: Path, ticks: int, seed: int) -> None:
        self.chance = random.Random(seed)
        self.paths = [folder / f"server{number}.log" for number in range(SERVERS)]
        self.ticks, self.reports, self.seconds, self.rotations = ticks, 0, 0.0, 0
        folder.mkdir(parents=True, exist_ok=True)
        for path in self.paths:
            path.write_text(
                "[2026-02-11 00:00:00] server_args=ServerArgs(model_path='/m', tp_size=2, speculative_num_steps=2)\n"
            )

    def factor(self, server: int, tick: int) -> float:
        for number, (share, length, factor) in enumerate(SLOW):
            if number % SERVERS == server and share * self.ticks <= tick < share * self.ticks + length:
                return factor
        return 1.0

    def write(self, tick: int, now_s: float) -> None:
        chance = self.chance
        for server, path in enumerate(self.paths):
            factor, lines = self.factor(server, tick), []
            for number in range(REPORTS_A_TICK):
                when = time.strftime(
                    "%Y-%m-%d %H:%M:%S", time.gmtime(now_s + number * TICK_S / REPORTS_A_TICK)
                )
                for rank in RANKS:
                    spike = chance.random() < 0.005
                    verify = round(factor * (19.15 + chance.gauss(0, 0.06)) + (1.5 if spike else 0.0), 2)
                    accept = 0.92 + chance.gauss(0, 0.03)
                    lines.append(
                        f"[{when} {rank}] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n"
                        f"  Draft forward:      {0.53 + chance.gauss(0, 0.01):.2f} ms/cyc  (  2.6%)\n"
                        f"  Target verify:     {verify:.2f} ms/cyc  ( 95.0%)\n"
                        f"  Total cycle:       {verify + 1.01:.2f} ms/cyc\n"
                        f"  Accept len:         {accept:.2f}\n"
                    )
                    self.reports += 1
                    self.seconds += verify / 10
            with path.open("a") as file:
                file.write("".join(lines))

    def rotate(self, tick: int) -> None:
        """One server's log, by rename and gzip, or by copy and truncation."""
        path = self.paths[(tick // ROTATE_TICKS) % SERVERS]
        old, older = path.with_name(f"{path.name}.1"), path.with_name(f"{path.name}.2.gz")
        if old.exists():
            with old.open("rb") as source, gzip.open(older, "wb", compresslevel=1) as packed:
                shutil.copyfileobj(source, packed)
            old.unlink()
        if (tick // ROTATE_TICKS) % 3 == 2:
            shutil.copyfile(path, old)
            os.truncate(path, 0)
        else:
            path.rename(old)
            path.touch()
        self.rotations += 1


@dataclass
class Figure:
    """How the process stood at some time."""

    rss_mb: float
    descriptors: int
    state_mb: float
    turn_s: float


def measure(state: Path, turns: list[float]) -> Figure:
    files = [path for path in state.iterdir() if path.is_file()]
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * kit.PAGE / 1e6
    fds = sum(1 for _ in Path("/proc/self/fd").iterdir())
    size = sum(path.stat().st_size for path in files) / 1e6
    return Figure(rss, fds, size, kit.quantile(turns, 0.5))


def steer(clock: Clock) -> None:
    """Put the clock into everything that reads one by itself."""

    def with_clock(kind: Any, **given: Any) -> Any:
        return lambda *arguments, **named: kind(*arguments, **(given | named))

    house.time = SimpleNamespace(time=clock.time, monotonic=clock.monotonic)
    house.State = with_clock(State, clock=clock.time, uptime=clock.monotonic)
    house.Tail = with_clock(Tail, clock=clock.monotonic)
    house.Metrics = with_clock(Metrics, clock=clock.time)


def soak(folder: Path, share: float, seed: int = 1) -> tuple[str, list[str]]:
    """The week, or a share of it: a table, and what failed."""
    ticks = int(WEEK_TICKS * share)
    logs, state, clock = folder / "logs", folder / "state", Clock()
    servers, seen = Servers(logs, ticks, seed), Seen(clock=clock)
    steer(clock)
    config = Config.model_validate(
        {
            "source": [{"path": f"{logs}/*.log", "start": "beginning"}],
            "http": {"listen": "127.0.0.1:0"},
            "history": {"keep": KEEP},
            "follow": {"mode": "poll"},
        }
    )
    said = (folder / "said").open("w")

    def life() -> Steered:
        running = Steered(config, state_directory=state, sinks=[seen], log=Log(said))
        running.begin()
        return running

    figures, turns, lives, begun = [], [], 1, time.perf_counter()
    running = life()
    for tick in range(ticks):
        servers.write(tick, clock.now)
        if tick % ROTATE_TICKS == ROTATE_TICKS - 1:
            servers.rotate(tick)
        clock.now += TICK_S
        asked = time.perf_counter()
        running.turn()
        turns.append(time.perf_counter() - asked)
        if tick % RESTART_TICKS == RESTART_TICKS - 1:
            # At the end of a life, so that all figures are of the same age: a start looks into every copy.
            figures.append(measure(state, turns[-200:]))
            running.end(politely=lives % 2 == 0)
            running, lives = life(), lives + 1
            print(f"{7 * tick / WEEK_TICKS:.2f} days: {figures[-1]}", file=sys.stderr, flush=True)
    clock.now += TICK_S
    running.turn()
    running.turn()
    cycles, seconds = running.count()
    running.end(politely=True)
    took = time.perf_counter() - begun
    said.close()
    return judge(servers, seen, figures, share, lives, (cycles, seconds), took)


def judge(
    servers: Servers,
    seen: Seen,
    figures: list[Figure],
    share: float,
    lives: int,
    counted: tuple[float, float],
    took: float,
) -> tuple[str, list[str]]:
    """What came of it."""
    wrong = []
    if counted[0] != servers.reports * 100 or abs(counted[1] - servers.seconds) > 1e-6 * servers.seconds:
        wrong.append(f"{counted[0] / 100:.0f} of {servers.reports} reports counted, or not these")
    found, false = 0, []
    windows = list(real(servers.ticks))
    for at_s, incident in seen.opened:
        server = int(incident.stream.removeprefix("server").removesuffix(".log"))
        # A baseline learnt in the slow hours may call the return to normal a shift, which is one: half an hour's grace.
        if any(server == which and begin <= at_s <= end + 1800 for which, begin, end in windows):
            found += 1
        else:
            false.append(incident)
    missed = [
        which
        for which, begin, end in windows
        if not any(i.stream == f"server{which}.log" and begin <= at_s <= end for at_s, i in seen.opened)
    ]
    if missed:
        wrong.append(f"regressions of servers {missed} were not told")
    streams = SERVERS * len(RANKS)
    promise = streams * 7 * share / 365
    middle, last = figures[len(figures) // 3], figures[-1]
    for what, early, late, most in (
        ("memory", middle.rss_mb, max(f.rss_mb for f in figures[-3:]), middle.rss_mb * 1.15 + 8),
        ("descriptors", middle.descriptors, last.descriptors, middle.descriptors + 8),
        ("state", middle.state_mb, last.state_mb, max(middle.state_mb * 1.3, 40.0 if share < 0.5 else 0.0)),
    ):
        if late > most:
            wrong.append(f"{what} grew from {early:.1f} to {late:.1f}")
    if len(false) > 3 + 3 * promise:
        wrong.append(f"{len(false)} false alarms, {promise:.2f} promised")
    rows = [
        ("simulated time, real time", f"{7 * share:.2f} days in {took:.0f} s", ""),
        ("reports", f"{servers.reports:,}", ""),
        ("reports counted once", f"{counted[0] / 100:,.0f}", "equal"),
        ("sum of verify seconds, counted / written", f"{counted[1] / servers.seconds:.9f}", "1"),
        (
            "rotations, restarts (half of them kills)",
            f"{servers.rotations}, {lives - 1}",
            "hundreds in a week",
        ),
        (
            "resident memory, after a third / at the end",
            f"{middle.rss_mb:.0f} / {last.rss_mb:.0f} MB",
            "flat",
        ),
        ("descriptors", f"{middle.descriptors} / {last.descriptors}", "flat"),
        (
            f"state on disk (history of {KEEP})",
            f"{middle.state_mb:.1f} / {last.state_mb:.1f} MB",
            "flat after a day",
        ),
        ("a minute's turn (100 reports), median", f"{kit.ms(middle.turn_s)} / {kit.ms(last.turn_s)}", "flat"),
        ("real regressions, told", f"{len(windows)}, {len(windows) - len(missed)}", "all"),
        ("incidents about them", f"{found}", ""),
        ("false alarms", f"{len(false)}", f"promised: {promise:.2f} (one a year and rank)"),
    ]
    kinds = sorted({f"{i.kind} of {i.phase}" for i in false})
    if kinds:
        rows.append(("their kinds", ", ".join(kinds), ""))
    return kit.table(f"Soak: {7 * share:.2f} simulated days", rows), wrong


def real(ticks: int) -> Iterator[tuple[int, float, float]]:
    """Server, begin and end of each real regression that fits into the time."""
    for number, (share, length, _) in enumerate(SLOW):
        begin = BEGIN_S + int(share * ticks) * TICK_S
        yield number % SERVERS, begin, begin + min(length, ticks - int(share * ticks)) * TICK_S


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the week")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="logwatch-soak-", dir=memory if memory.is_dir() else None
    ) as folder:
        shown, wrong = soak(Path(folder), arguments.share, arguments.seed)
        print(shown)
        for each in wrong:
            print(f"FAILED: {each}")
            print((Path(folder) / "said").read_text()[-1500:], file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
