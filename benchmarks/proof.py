"""The proof: fuzzing, hostile lines, load, faults, soak and peers, one after the other; writes their tables.

    python benchmarks/proof.py quick     # under ten minutes, in CI
    python benchmarks/proof.py long      # some hours: an hour of fuzzing, ten minutes of load, a week's soak

Tables go to `benchmarks/proof.md`, with the machine and the versions. The exit status is 1 if anything was lost,
doubled, superlinear, crashed or grew; figures that only a quiet machine can meet are printed beside their goals.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import faults  # noqa: E402  # behind the path
import fuzz  # noqa: E402
import fuzz_lines  # noqa: E402
import load  # noqa: E402
import peers  # noqa: E402
import proof_kit as kit  # noqa: E402
from fuzz_targets import TARGETS  # noqa: E402

from logwatch import __version__  # noqa: E402

Part = tuple[str, list[str]]


@dataclass(frozen=True)
class Size:
    """How long each part takes."""

    fuzz_s: int
    lines_s: float
    load_s: float
    rounds: int
    long_faults: bool
    week: float
    burst: int


SIZES = {
    "quick": Size(fuzz_s=8, lines_s=30, load_s=40, rounds=20, long_faults=False, week=0.04, burst=200_000),
    "long": Size(
        fuzz_s=330, lines_s=600, load_s=600, rounds=200, long_faults=True, week=1.0, burst=2_000_000
    ),
}


def fuzzing(size: Size) -> Part:
    """Every target by coverage, and lines for time."""
    try:
        import atheris  # noqa: F401  # only whether it is there
    except ImportError:
        return (
            "### Fuzzing\n\natheris is not installed; `tests/proof/test_fuzz.py` fuzzes by Hypothesis.\n",
            [],
        )
    rows = fuzz.campaign(list(TARGETS), size.fuzz_s)
    wrong = [f"fuzzing found inputs that break {row['target']}" for row in rows if row["found"]]
    cells = [[f"{value:,}" if isinstance(value, int) else value for value in row.values()] for row in rows]
    return kit.table(f"Fuzzing, {size.fuzz_s} s each", cells, list(rows[0])), wrong


def hostile(size: Size) -> Part:
    """Time of long lines."""
    seed = int(time.time())
    tried, found = fuzz_lines.search(size.lines_s * 2 / 3, seed)
    worst, which = fuzz_lines.dearest(size.lines_s / 3, seed)
    rows = [
        (f"lines tried, seed {seed}", f"{tried:,}", ""),
        ("took longer than linear time", f"{len(found)}", "0"),
        ("the dearest, of 1 MiB (the longest that is read)", f"{worst:.1f} s of one core: `{which}`", ""),
    ]
    return kit.table("Hostile lines", rows), [f"superlinear: {line}" for _, line in found]


def soaking(size: Size) -> Part:
    """In a process of its own: it steers the clock, and its memory and descriptors are what is measured."""
    command = [sys.executable, str(ROOT / "benchmarks" / "soak.py"), "--share", str(size.week)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wrong = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    if done.returncode and not wrong:
        wrong = [done.stderr[-2000:]]
    return done.stdout, wrong


def parts(size: Size, folder: Path) -> dict[str, Callable[[], Part]]:
    """All parts in order: what needs a quiet machine first."""
    return {
        "idle": lambda: load.idle(folder / "idle", 5),
        "latency": lambda: load.latency(folder / "latency", size.rounds),
        "peers": lambda: peers.compare(folder / "peers", size.burst, max(12, size.rounds // 4)),
        "load": lambda: load.sustained(
            folder / "load", size.load_s, 200, 50_000, max(20.0, size.load_s / 10)
        ),
        "attacks": lambda: load.attacks(folder / "attacks", 1000, 15.0),
        "faults": lambda: faults.run(folder / "faults", long=size.long_faults),
        "lines": lambda: hostile(size),
        "fuzz": lambda: fuzzing(size),
        "soak": lambda: soaking(size),
    }


def machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    busy = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    return (
        f"logwatch {__version__}, Python {platform.python_version()}, Linux {platform.release()}, "
        f"{os.cpu_count()} cores of {model}; load average at the start {busy}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("size", choices=sorted(SIZES))
    parser.add_argument("--only", nargs="*", help="these parts only; nothing is written then")
    arguments = parser.parse_args()
    size, wrong, tables = SIZES[arguments.size], [], []
    goal = "proof-quick" if arguments.size == "quick" else "proof"
    head = f"## Proof ({arguments.size})\n\n`make {goal}` on {machine()}.\n"
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="logwatch-proof-", dir=memory if memory.is_dir() else None
    ) as name:
        for part, run in parts(size, Path(name)).items():
            if arguments.only and part not in arguments.only:
                continue
            begun = time.monotonic()
            shown, bad = run()
            print(f"{shown}({part}: {time.monotonic() - begun:.0f} s)\n", flush=True)
            tables.append(shown)
            wrong += [f"{part}: {each}" for each in bad]
    if not arguments.only:
        (ROOT / "benchmarks" / "proof.md").write_text("\n".join([head, *tables]))
    for each in wrong:
        print(f"FAILED: {each}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
