"""The proof: latency, load, peers, faults, hostile lines, fuzzing and a week; tables in `benchmarks/README.md`.

    python benchmarks/proof.py quick                  # under ten minutes, in CI
    python benchmarks/proof.py long                   # about an hour
    python benchmarks/proof.py quick --only soak fuzz # these parts; nothing is written

Each part is a program of its own, whose command stands above its table. What measures time runs alone; the rest runs
side by side, at low priority. The README's block is written anew after each part, so that a proof that is cut short
leaves what it had. The exit status is 1 if anything was lost, doubled, superlinear, crashed or grew; figures that only
a quiet machine can meet are printed beside their goals.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "benchmarks" / "README.md"
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import proof_kit as kit  # noqa: E402  # behind the path

from logwatch import __version__  # noqa: E402  # behind the path

GOALS = {"quick": "proof-quick", "long": "proof"}


@dataclass(frozen=True)
class Part:
    """A program of the proof.

    Attributes:
        name: What `--only` calls it.
        command: Its words after `python benchmarks/`.
        limit_s: How long it may take before it counts as hanging; several times what it needs.
        alone: Whether nothing else may run meanwhile.
    """

    name: str
    command: str
    limit_s: float
    alone: bool = True


PARTS = {
    "quick": (
        Part("idle", "load.py --only idle", 120),
        Part("many", "load.py --only many --seconds 10", 240),
        Part("latency", "load.py --only latency --rounds 20", 240),
        Part("peers", "peers.py --lines 200000 --rounds 10", 600),
        Part("load", "load.py --only sustained --seconds 30 --rate 25000", 300),
        Part("clients", "load.py --only attacks", 240),
        Part("faults", "faults.py", 600),
        Part("soak", "soak.py --share 0.04", 900, alone=False),
        Part("lines", "fuzz_lines.py --seconds 30", 600, alone=False),
        Part("fuzz", "fuzz.py --seconds 8 --workers 2", 900, alone=False),
    ),
    "long": (
        Part("idle", "load.py --only idle", 120),
        Part("many", "load.py --only many --seconds 60", 600),
        Part("latency", "load.py --only latency --rounds 100", 900),
        Part("peers", "peers.py --lines 1000000 --rounds 30", 1200),
        Part("load", "load.py --only sustained --seconds 600", 1200),
        Part("clients", "load.py --only attacks", 240),
        Part("faults", "faults.py --long", 900),
        Part("soak", "soak.py", 7200, alone=False),
        Part("lines", "fuzz_lines.py --seconds 300", 1800, alone=False),
        Part("fuzz", "fuzz.py --seconds 310 --workers 2", 7200, alone=False),
    ),
}


def machine() -> str:
    """Versions, processor and load, in a phrase."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    busy = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    return (
        f"logwatch {__version__}, Python {platform.python_version()}, Linux {platform.release()}, "
        f"{os.cpu_count()} cores of {cpu[1] if cpu else platform.machine()}; load average at the start {busy}"
    )


def commit() -> str:
    """Which sources these are."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    name = git("rev-parse", "--short", "HEAD")
    if not name:
        return "no checkout of git"
    # Its own tables and what fuzzing keeps are no change of what is proven.
    changed = git("status", "--porcelain", "--", "logwatch", "grammars", "benchmarks/*.py")
    return f"commit {name}" + (", with changes" if changed else "")


@dataclass
class Proof:
    """One run: the parts that are to come, that run and that are done.

    Attributes:
        size: `quick` or `long`.
        parts: What is to be run, in order.
    """

    size: str
    parts: Sequence[Part]
    tables: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    begun: float = field(default_factory=time.time)
    head: str = field(default_factory=lambda: f"{commit()}; {machine()}")
    _live: set[subprocess.Popen[str]] = field(default_factory=set)
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self, *, write: bool) -> None:
        """All parts; what may stand beside others comes last, and together."""

        def done(part: Part) -> None:
            print(self.tables[part.name], flush=True)
            if write:
                self.write()

        try:
            for part in self.parts:
                if part.alone:
                    self._run(part)
                    done(part)
            beside = [part for part in self.parts if not part.alone]
            with ThreadPoolExecutor(max(1, len(beside))) as workers:
                running = {workers.submit(self._run, part): part for part in beside}
                try:
                    for future in as_completed(running):
                        future.result()
                        done(running[future])
                finally:
                    self._end()
        finally:
            self._end()

    def _end(self) -> None:
        """Leave no process behind."""
        self._ended.set()
        for process in list(self._live):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _run(self, part: Part) -> None:
        if self._ended.is_set():
            return
        command = [sys.executable, *f"benchmarks/{part.command}".split()]
        print(f"proof: {part.name}: python {' '.join(command[1:])}", file=sys.stderr, flush=True)
        begun = time.monotonic()
        process = subprocess.Popen(
            command if part.alone else ["nice", "-n", "10", *command],
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=ROOT,
            start_new_session=True,
        )
        self._live.add(process)
        hung = []
        try:
            shown, _ = process.communicate(timeout=part.limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            shown, _ = process.communicate()
            hung = [f"stopped after {part.limit_s:.0f} s"]
        except BaseException:  # the proof itself is ended
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        self._live.discard(process)
        lines = shown.strip().splitlines()
        wrong = hung + [line.partition(": ")[2] for line in lines if line.startswith("FAILED: ")]
        if process.returncode and not wrong:
            wrong = [f"exit status {process.returncode}"]
        self.wrong += [f"{part.name}: {each}" for each in wrong]
        kept = [line for line in lines if not line.startswith("FAILED: ")] or [f"### {part.name}: no table"]
        took = f"`python {' '.join(command[1:])}` ({time.monotonic() - begun:.0f} s)"
        said = [f"- **FAILED**: {each[:500]}" for each in wrong]
        self.tables[part.name] = "\n".join(
            [f"#{kept[0]}", "", took, *kept[1:], *(["", *said] if said else []), ""]
        )

    def text(self) -> str:
        """The README's block as it stands now."""
        began = dt.datetime.fromtimestamp(self.begun, dt.UTC)
        head = [
            f"### `make {GOALS[self.size]}`",
            "",
            f"One run, begun {began:%Y-%m-%d %H:%M} UTC, {(time.time() - self.begun) / 60:.0f} minutes; {self.head}.",
        ]
        if missing := [part.name for part in self.parts if part.name not in self.tables]:
            head.append(f"**Not finished**: {', '.join(missing)}.")
        head.append(
            f"**Failed**: {len(self.wrong)} goals, named below."
            if self.wrong
            else "Nothing that must hold failed."
        )
        tables = [self.tables[part.name] for part in self.parts if part.name in self.tables]
        return "\n".join([*head, "", *tables])

    def write(self) -> None:
        """Put the block into `benchmarks/README.md`, and the long run's peers into README.md too."""
        kit.replace_block(README, GOALS[self.size], self.text())
        if self.size == "long" and (
            peers := re.findall(r"^\| .*|^\|-.*", self.tables.get("peers", ""), re.MULTILINE)
        ):
            kit.replace_block(ROOT / "README.md", "peers", "\n".join(peers))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("size", choices=sorted(PARTS))
    parser.add_argument("--only", nargs="*", help="these parts only; nothing is written then")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = [part for part in PARTS[arguments.size] if not arguments.only or part.name in arguments.only]
    proof = Proof(arguments.size, chosen)
    proof.run(write=not arguments.only)
    for each in proof.wrong:
        print(f"FAILED: {each}")
    print(f"proof: {'failed' if proof.wrong else 'passed'}, {time.time() - proof.begun:.0f} s")
    return int(bool(proof.wrong))


if __name__ == "__main__":
    sys.exit(main())
