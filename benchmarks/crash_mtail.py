"""The scenarios of following that apply to mtail, run against mtail and logwatch side by side on the same files.

Run: `python -m benchmarks.crash --mtail` (Debian package `mtail`). Both follow one directory; each line carries a
number, and what each counted is compared with what was written. mtail keeps no state, so what it had counted before a
kill is asked of it just before; what it misses or counts twice is its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks.crash import ROOT, line, pack, wait_for

PROGRAM = r"""
counter seen by ms
/Target verify: +(?P<ms>[0-9.]+) ms\/cyc/ {
  seen[$ms]++
}
"""
PAUSE_S = 0.7
"""Between steps: more than two of mtail's polls."""
MANY = 1_000_000


class Bench:
    """A directory of logs, and both programs following it."""

    def __init__(self, directory: Path, pattern: str) -> None:
        self.logs = directory / "logs"
        self.path = self.logs / "server.log"
        self.written = 0
        self.counted: dict[str, Counter[int]] = {"mtail": Counter(), "logwatch": Counter()}
        self._directory, self._pattern = directory, pattern
        self._processes: list[subprocess.Popen[bytes]] = []
        self.logs.mkdir()
        (directory / "program.mtail").write_text(PROGRAM)

    def start(self) -> None:
        """Start both, and wait until both listen."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        target = str(self.logs / self._pattern)
        self._spawn("mtail", "--progs", self._directory / "program.mtail", "--logs", target, "--address", "127.0.0.1",
                    "--port", self._port)  # fmt: skip
        self._spawn(sys.executable, "-m", "logwatch", "watch", "--start", "beginning", "--listen", "127.0.0.1:0",
                    "--state", self._directory / "state", target)  # fmt: skip
        wait_for(lambda: self._mtail() is not None)
        wait_for((self._directory / "state" / "state.sqlite").exists)
        time.sleep(PAUSE_S)

    def _spawn(self, *command: object) -> None:
        with (self._directory / "output").open("ab") as output:
            self._processes.append(
                subprocess.Popen(
                    [str(part) for part in command],
                    stdout=output,
                    stderr=output,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                )
            )

    def kill(self) -> None:
        """SIGKILL both; what mtail knew is asked of it just before."""
        self.counted["mtail"] += self._mtail() or Counter()
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()

    def _mtail(self) -> Counter[int] | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/json", timeout=5) as answer:
                metrics = json.load(answer)
        except OSError:
            return None
        return Counter(
            {
                _number(float(each["Labels"][0])): each["Value"]["Value"]
                for metric in metrics
                for each in metric.get("LabelValues") or ()
            }
        )

    def finish(self) -> dict[str, tuple[int, int]]:
        """Lines missed and counted too often, by program."""
        time.sleep(2 * PAUSE_S)
        self.kill()
        with contextlib.closing(sqlite3.connect(self._directory / "state" / "state.sqlite")) as connection:
            rows = connection.execute("SELECT seconds FROM samples").fetchall()
        self.counted["logwatch"] = Counter(_number(seconds * 1000) for (seconds,) in rows)
        return {
            name: (self.written - len(seen), sum(seen.values()) - len(seen))
            for name, seen in self.counted.items()
        }

    def write(self, count: int, path: Path | None = None) -> None:
        """The next lines, at the end of the log or of another file."""
        with (path or self.path).open("a") as file:
            file.writelines(line(self.written + each, MANY) for each in range(count))
        self.written += count

    def rotated(self, number: int = 1) -> Path:
        """A rotated copy's path."""
        return self.path.with_name(f"server.log.{number}")


def _number(milliseconds: float) -> int:
    return round((milliseconds - 19.0) * 1e6)


def rename(bench: Bench) -> None:
    bench.path.rename(bench.rotated())
    bench.write(20, bench.rotated())
    time.sleep(PAUSE_S)
    bench.write(20)


def late(bench: Bench) -> None:
    bench.write(20)
    bench.path.rename(bench.rotated())
    time.sleep(3.0)
    bench.write(20)


def over(bench: Bench) -> None:
    bench.write(20)
    fresh = bench.logs / "fresh"
    bench.write(20, fresh)
    fresh.rename(bench.path)


def thrice(bench: Bench) -> None:
    for _ in range(3):
        for number in (2, 1):
            if bench.rotated(number).exists():
                bench.rotated(number).rename(bench.rotated(number + 1))
        bench.path.rename(bench.rotated())
        bench.write(20)


def copied(bench: Bench) -> None:
    shutil.copyfile(bench.path, bench.rotated())
    os.truncate(bench.path, 0)
    bench.write(5)


def copied_unread(bench: Bench) -> None:
    bench.write(20)
    copied(bench)


def copied_longer(bench: Bench) -> None:
    shutil.copyfile(bench.path, bench.rotated())
    os.truncate(bench.path, 0)
    bench.write(200)


def hole(bench: Bench) -> None:
    shutil.copyfile(bench.path, bench.rotated())
    os.truncate(bench.path, 0)
    with bench.path.open("r+") as file:
        file.seek(1 << 20)
        file.writelines(line(bench.written + each, MANY) for each in range(20))
    bench.written += 20


def link(bench: Bench) -> None:
    runs = [bench.logs / f"run{number}" for number in (1, 2)]
    bench.path.rename(runs[0])
    bench.path.symlink_to(runs[0])
    time.sleep(PAUSE_S)
    bench.write(20, runs[0])
    bench.write(20, runs[1])
    swap = bench.logs / "swap"
    swap.symlink_to(runs[1])
    swap.rename(bench.path)
    time.sleep(PAUSE_S)
    bench.write(20)


def short(bench: Bench) -> None:
    bench.write(20, bench.logs / "short.log")


def half(bench: Bench) -> None:
    text = line(bench.written, MANY)
    with bench.path.open("a", buffering=1) as file:
        file.write(text[:49])
        file.flush()
        time.sleep(3.0)
        file.write(text[49:])
    bench.written += 1


def killed(bench: Bench) -> None:
    time.sleep(PAUSE_S)
    bench.kill()
    bench.write(20)
    bench.start()
    bench.write(20)


def killed_and_packed(bench: Bench) -> None:
    time.sleep(PAUSE_S)
    bench.kill()
    bench.write(20)
    bench.path.rename(bench.rotated())
    pack(bench.rotated())
    bench.write(20)
    bench.start()
    bench.write(20)


SCENARIOS: list[tuple[str, str, Callable[[Bench], None], str]] = [
    ("1", "rename; the writer goes on in the renamed file", rename, "server.log"),
    ("2", "rename; the new file comes 3 s later", late, "server.log"),
    ("3", "a new file is renamed over the old one", over, "server.log"),
    ("4", "three rotations at once", thrice, "server.log"),
    ("6", "copy-truncate", copied, "server.log"),
    ("6", "copy-truncate before all was read", copied_unread, "server.log"),
    ("7", "copy-truncate, at once longer than before", copied_longer, "server.log"),
    ("10", "copy-truncate, a writer without O_APPEND", hole, "server.log"),
    ("17", "symlink switched to a file with content", link, "server.log"),
    ("25", "a file comes and is closed at once", short, "*.log"),
    ("34", "half a line, its rest 3 s later", half, "server.log"),
    ("50", "SIGKILL, lines written meanwhile", killed, "server.log"),
    ("20", "SIGKILL, rotated and packed meanwhile", killed_and_packed, "server.log"),
]


def main() -> int:
    version = subprocess.run(["mtail", "--version"], capture_output=True, text=True, check=True).stdout
    print(f"{version.split(' git')[0]}; lines missed / counted too often:\n")
    print("| scenario | | written | mtail | logwatch |\n|---|---|---|---|---|")
    perfect = True
    for number, name, scenario, pattern in SCENARIOS:
        with tempfile.TemporaryDirectory(prefix="logwatch-mtail-") as directory:
            bench = Bench(Path(directory), pattern)
            bench.path.touch()
            bench.start()
            bench.write(20)
            time.sleep(PAUSE_S)
            scenario(bench)
            found = bench.finish()
        perfect = perfect and found["logwatch"] == (0, 0)
        cells = " | ".join(
            "0 / 0" if each == (0, 0) else f"**{each[0]} / {each[1]}**" for each in found.values()
        )
        print(f"| {number} | {name} | {bench.written} | {cells} |", flush=True)
    return 0 if perfect else 1
