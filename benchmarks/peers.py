"""The same scenarios before logwatch, mtail and the `tail -F | grep` that people use; prints the table.

    python benchmarks/peers.py             # prints the table
    python benchmarks/peers.py --readme    # and puts it into README.md

Each tool counts the lines of `Target verify`. A scenario writes numbered lines and then does what loggers, rotators
and crashes do; the cell says how many of them were counted (more than all: some twice). mtail is left out where it is
not installed.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

sys.path[:0] = [str(Path(__file__).parent)]

import proof_kit as kit  # noqa: E402  # behind the path

START = datetime(2026, 2, 11, 8, 15, tzinfo=UTC).timestamp()
"""Of the log; a line is a second."""
SETTLE_S = 1.5
"""After what was expected was seen, or not, for that which comes late or twice."""
PATIENCE_S = 4.0
OURS_S = 60.0
"""How long the others may take to count, and we: a busy machine must not make logwatch fail."""
README = Path(__file__).resolve().parents[1] / "README.md"

PROGRAM = r"""
counter verify_total
gauge verify_ms
/Target verify:\s+(?P<ms>\d+\.\d+) ms\/cyc/ {
  verify_total++
  verify_ms = $ms
}
"""


class Tool(Protocol):
    """A follower of logs."""

    name: str

    def start(self) -> None: ...
    def stop(self, number: int = signal.SIGTERM) -> None: ...
    def count(self) -> float: ...
    def pids(self) -> list[int]: ...


class Logwatch:
    name = "logwatch"

    def __init__(self, folder: Path, pattern: str) -> None:
        self._folder, self._pattern = folder / "tool", pattern
        self._daemon: kit.Daemon | None = None

    def start(self) -> None:
        if self._daemon is None:
            config = kit.toml([{"path": self._pattern, "start": "beginning"}])
            self._daemon = kit.Daemon(self._folder, config)
        else:
            self._daemon.start()

    def stop(self, number: int = signal.SIGTERM) -> None:
        assert self._daemon is not None
        self._daemon.signal(number)
        if number in {signal.SIGTERM, signal.SIGKILL}:
            self._daemon.process.wait(30)

    def count(self) -> float:
        assert self._daemon is not None
        return self._daemon.total("logwatch_cycles_total", 'phase="target_verify"')

    def pids(self) -> list[int]:
        assert self._daemon is not None
        return [self._daemon.process.pid]


class Mtail:
    name = "mtail"

    def __init__(self, folder: Path, pattern: str) -> None:
        self._folder, self._pattern = folder / "tool", pattern
        (self._folder / "progs").mkdir(parents=True)
        (self._folder / "progs" / "verify.mtail").write_text(PROGRAM)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]

    def start(self) -> None:
        command = ["mtail", f"-progs={self._folder}/progs", f"-logs={self._pattern}", "-address=127.0.0.1"]
        command += [f"-port={self._port}", f"-log_dir={self._folder}"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        kit.until(lambda: bool(self._get()), 20)

    def stop(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)
        if number in {signal.SIGTERM, signal.SIGKILL}:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _get(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def count(self) -> float:
        found = re.search(r"^verify_total\{[^}]*\} (\S+)", self._get(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def pids(self) -> list[int]:
        return [self._process.pid]


class TailGrep:
    name = "tail -F, grep"

    def __init__(self, folder: Path, pattern: str) -> None:
        self._folder, self._pattern = folder / "tool", pattern
        self._folder.mkdir(parents=True)
        self._out = self._folder / "out"

    def start(self) -> None:
        # As people write it: what is there already is not asked for, and the shell expands the pattern once.
        script = f"exec tail -q -n 0 -F {self._pattern} | grep --line-buffered 'Target verify' >> {self._out}"
        self._process = subprocess.Popen(
            ["sh", "-c", script], stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(0.4)

    def stop(self, number: int = signal.SIGTERM) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        if number in {signal.SIGTERM, signal.SIGKILL}:
            self._process.wait()

    def count(self) -> float:
        return self._out.read_bytes().count(b"\n") if self._out.exists() else 0

    def pids(self) -> list[int]:
        found = subprocess.run(
            ["pgrep", "-g", str(self._process.pid)], capture_output=True, text=True, check=False
        )
        return [int(pid) for pid in found.stdout.split()]


class Scene:
    """A log, its writer, and the tool before it."""

    def __init__(self, folder: Path, tool: Callable[[Path, str], Tool], pattern: str = "a.log") -> None:
        self.folder = folder
        self.log = folder / "a.log"
        self.written = 0
        self.earlier = 0.0
        self.tool = tool(folder, str(folder / pattern))
        self.log.touch()
        self.tool.start()
        self.write(5)  # all tools are awake, and mtail's metric exists
        kit.until(lambda: self.tool.count() >= 5, self.patience_s)
        time.sleep(0.3)

    @property
    def patience_s(self) -> float:
        """How long a count is waited for."""
        return OURS_S if isinstance(self.tool, Logwatch) else PATIENCE_S

    def lines(self, count: int) -> bytes:
        """The next lines; no two are alike."""
        return b"".join(
            f"[{datetime.fromtimestamp(START + n, UTC):%Y-%m-%d %H:%M:%S} TP0]"
            f"   Target verify: {19 + n * 1e-3:.3f} ms/cyc\n".encode()
            for n in range(self.written, self.written + count)
        )

    def count(self) -> float:
        """Lines counted by all lives of the tool: mtail begins at 0 in each."""
        return self.earlier + self.tool.count()

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the tool, and keep what it had counted where it does not itself."""
        if isinstance(self.tool, Mtail):
            self.earlier += self.tool.count()
        self.tool.stop(number)

    def write(self, count: int, path: Path | None = None, before: bytes = b"", behind: bytes = b"") -> None:
        """Append so many lines."""
        with (path or self.log).open("ab", buffering=0) as file:
            file.write(before + self.lines(count) + behind)
        self.written += count

    def result(self) -> str:
        """`25 of 25`, and what happened besides."""
        kit.until(lambda: self.count() >= self.written, self.patience_s)
        time.sleep(SETTLE_S)
        try:
            count = self.count()
        except OSError:
            return "died"
        return f"{count:.0f} of {self.written}"


def renamed(scene: Scene) -> None:
    """Rename; the writer goes on in the old file for a second; then the new one."""
    old = scene.log.rename(scene.log.with_name("a.log.1"))
    scene.write(5, old)
    time.sleep(1.0)
    scene.write(5, old)
    scene.write(10)


def twice(scene: Scene) -> None:
    """Rotated twice within a few milliseconds, ten lines each."""
    scene.write(10)
    scene.log.rename(scene.log.with_name("a.log.2"))
    scene.write(10)
    scene.log.rename(scene.log.with_name("a.log.1"))
    scene.write(10)


def copy_truncate(scene: Scene) -> None:
    """Copied and truncated, and at once more written than was in it before."""
    shutil.copyfile(scene.log, scene.log.with_name("a.log.1"))
    os.truncate(scene.log, 0)
    scene.write(40)


def copy_truncate_unread(scene: Scene) -> None:
    """As above, while the follower was stopped and had not read everything: the rest is in the copy."""
    scene.tool.stop(signal.SIGSTOP)
    scene.write(20)
    shutil.copyfile(scene.log, scene.log.with_name("a.log.1"))
    os.truncate(scene.log, 0)
    scene.write(40)
    scene.tool.stop(signal.SIGCONT)


def symlink(scene: Scene) -> None:
    """The followed name is a link, switched to the next run's file."""
    first, second = scene.log.with_name("run1.txt"), scene.log.with_name("run2.txt")
    scene.log.rename(first)
    scene.log.symlink_to(first.name)
    time.sleep(1.0)
    scene.write(10, first)
    scene.write(10, second)
    fresh = scene.log.with_name("fresh")
    fresh.symlink_to(second.name)
    fresh.rename(scene.log)
    scene.write(10, second)


def gzipped(scene: Scene) -> None:
    """Rotated and compressed while the follower was stopped and had not read the end."""
    scene.tool.stop(signal.SIGSTOP)
    scene.write(20)
    with scene.log.open("rb") as source, gzip.open(scene.log.with_name("a.log.1.gz"), "wb") as packed:
        shutil.copyfileobj(source, packed)
    scene.log.unlink()
    scene.write(10)
    scene.tool.stop(signal.SIGCONT)


def long_line(scene: Scene) -> None:
    """A line of 20 MB, then ordinary ones."""
    scene.write(10, before=b"x" * 20_000_000 + b"\n")


def bad_utf8(scene: Scene) -> None:
    """Bytes that are no UTF-8, NULs, colours and CRLF in and around the lines."""
    with scene.log.open("ab") as file:
        file.write(b"\xff\xfe\xc3 \0\0\n" + b"\x1b[36m  Target verify:\x1b[0m     19.10 ms/cyc\r\n" * 5)
    scene.written += 5
    scene.write(5)


def half_a_line(scene: Scene) -> None:
    """Half a line, a second's pause, the rest."""
    line = scene.lines(1)
    with scene.log.open("ab", buffering=0) as file:
        file.write(line[:50])
        time.sleep(1.0)
        file.write(line[50:])
    scene.written += 1


def restart(scene: Scene) -> None:
    """Stopped politely; lines are written; started again. The count goes on."""
    scene.stop()
    scene.write(20)
    scene.tool.start()


def kill_and_rotate(scene: Scene) -> None:
    """Killed; lines written, rotated, and more written; started again."""
    scene.write(10)
    kit.until(lambda: scene.count() >= scene.written, scene.patience_s)
    scene.stop(signal.SIGKILL)
    scene.write(10)
    scene.log.rename(scene.log.with_name("a.log.1"))
    scene.write(10)
    scene.tool.start()


def short_lived(scene: Scene) -> None:
    """A new file of the pattern, written and closed within milliseconds."""
    scene.write(10, scene.log.with_name("b.log"))


def container(scene: Scene) -> None:
    """The lines as Docker's json-file driver and containerd write them."""
    with scene.log.open("ab") as file:
        for raw in scene.lines(5).decode().splitlines():
            file.write(f'{{"log":"{raw}\\n","stream":"stdout","time":"2026-02-11T08:15:02.1Z"}}\n'.encode())
            file.write(f"2026-02-11T08:15:02.123456789Z stdout F {raw}\n".encode())
    scene.written += 10


SCENARIOS: dict[str, tuple[Callable[[Scene], None], str]] = {
    "rename, writer late": (renamed, "a.log"),
    "rotated twice at once": (twice, "a.log"),
    "copy-truncate, then more than before": (copy_truncate, "a.log"),
    "copy-truncate with unread lines": (copy_truncate_unread, "a.log"),
    "symlink switched": (symlink, "a.log"),
    "rotated and gzipped with unread lines": (gzipped, "a.log"),
    "20 MB line before the lines": (long_line, "a.log"),
    "bad UTF-8, NULs, colours, CRLF": (bad_utf8, "a.log"),
    "half a line, then its rest": (half_a_line, "a.log"),
    "restart": (restart, "a.log"),
    "SIGKILL, rotation, restart": (kill_and_rotate, "a.log"),
    "new file of a glob, written and closed": (short_lived, "*.log"),
    "Docker and containerd lines": (container, "a.log"),
}


FIGURES = (
    "speed: a burst followed, lines a second of processor time",
    "resident memory behind it",
    "line to count, p50 / p99",
)


def tools() -> list[Callable[[Path, str], Tool]]:
    return [Logwatch, *([Mtail] if shutil.which("mtail") else []), TailGrep]


@contextlib.contextmanager
def scene(folder: Path, tool: Callable[[Path, str], Tool], pattern: str) -> Iterator[Scene]:
    folder.mkdir(parents=True)
    made = Scene(folder, tool, pattern)
    try:
        yield made
    finally:
        made.tool.stop(signal.SIGKILL)


def matrix(folder: Path) -> list[list[str]]:
    """One row a scenario, one cell a tool."""
    rows = []
    for number, name in enumerate(SCENARIOS):

        def cell(numbered: tuple[int, Callable[[Path, str], Tool]], row: int = number) -> str:
            column, tool = numbered
            play, pattern = list(SCENARIOS.values())[row]
            with scene(folder / f"{row}-{column}", tool, pattern) as made:
                play(made)
                return made.result()

        with ThreadPoolExecutor(3) as workers:  # each has files of its own, and most of it is waiting
            rows.append([name, *workers.map(cell, enumerate(tools()))])
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    return rows


def rss_mb(pids: list[int]) -> float:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * kit.PAGE / 1e6


def cpu_s(pids: list[int]) -> float:
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / kit.TICKS


def speed(folder: Path, lines: int, rounds: int) -> list[list[str]]:
    """Following a burst of lines, of which one in a hundred counts; memory behind it; latency of one line."""
    rates, memory, latency = ([name] for name in FIGURES)
    for place, tool in enumerate(tools()):
        with scene(folder / f"speed{place}", tool, "a.log") as made:
            pids = made.tool.pids()
            used, burst = cpu_s(pids), (kit.ACCESS * 99).encode() + made.lines(1)
            with made.log.open("ab") as file:
                for _ in range(lines // 10_000):
                    file.write(burst * 100)
            made.written += lines // 100
            kit.until(lambda made=made: made.count() >= made.written, 120, 0.1)
            used = cpu_s(pids) - used
            rates.append(f"{lines / max(used, 0.01):,.0f}")
            memory.append(f"{rss_mb(pids):.0f} MB")
            took = []
            for number in range(rounds):
                time.sleep(0.6 + 0.4 * (number * 0.618 % 1))  # on its own, as in life
                made.write(1)
                begun = time.monotonic()
                kit.until(lambda made=made: made.count() >= made.written, 10, 0.002)
                took.append(time.monotonic() - begun)
            latency.append(f"{kit.ms(kit.quantile(took, 0.5))} / {kit.ms(kit.quantile(took, 0.99))}")
    return [rates, memory, latency]


def compare(folder: Path, lines: int, rounds: int) -> tuple[str, list[str]]:
    """The table, and where logwatch did not count every line once."""
    rows = matrix(folder)
    wrong = [f"{row[0]}: {row[1]}" for row in rows if len(set(row[1].split(" of "))) != 1]
    rows += speed(folder, lines, rounds)
    return kit.table("Peers: lines counted", rows, ["scenario", *(tool.name for tool in tools())]), wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=1_000_000, help="of the burst")
    parser.add_argument("--rounds", type=int, default=30, help="of single lines, for the latency")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="logwatch-peers-") as folder:
        shown, wrong = compare(Path(folder), arguments.lines, arguments.rounds)
    print(shown)
    if arguments.readme:
        kit.replace_block(README, "peers", shown.partition("\n\n")[2])
    for each in wrong:
        print(f"FAILED: {each}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
