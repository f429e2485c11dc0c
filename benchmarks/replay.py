"""How fast `logwatch replay` is, as ratios to peers in one run: `python -m benchmarks.replay [--size 1000]`.

Four logs are made, all from lines of a real server (fixtures/logs/sglang_h200), with the clock moving and the
phases' figures drawn anew within half a percent, clients and token counts at random:

- busy: a server with 20 ms cycles and a hundred requests a second: access lines, and a report each 100 cycles.
- profiled: the same with ten requests a second.
- served: as profiled, with a prefill line a request and a decode line each 40 cycles.
- recorded: the recorded server's own proportions. It served one request at a time as fast as it could, so that
  nearly every line is a record (29 % of the bytes are reports, 57 % decode lines).

Peers: mtail reads the same two kinds of records (phases and decode lines) in one shot; grep counts one literal;
zstd and zcat only unpack. `reading alone` is our bulk reader without judging: what compares with mtail's work.
Processor seconds are more to be trusted than seconds where the machine is shared, and both are printed. With the
default size it takes some ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import resource
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOG = ROOT / "fixtures" / "logs" / "sglang_h200" / "v0517_01_eagle3_graph_prof.log"
RUNS, ENOUGH_S = 3, 12.0
RATIOS = (
    ("mtail / reading alone", "mtail --one_shot", "reading alone"),
    ("mtail / replay", "mtail --one_shot", "logwatch replay"),
    ("replay / grep -c", "logwatch replay", "grep -c 'Target verify'"),
    ("replay .zst / zstd -dc", "logwatch replay .zst", "zstd -dc"),
    ("replay .gz / zcat", "logwatch replay .gz", "zcat"),
)
CLOCK = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( TP0)?\]")
MTAIL = r"""
gauge phase_ms by phase
gauge throughput
counter decode_lines
counter phase_lines
/^\s+(?P<phase>[A-Z][a-z]+ [a-z]+):\s+(?P<ms>[0-9.]+) ms\/cyc/ {
  phase_ms[$phase] = $ms
  phase_lines++
}
/Decode batch.*#running-req: (?P<r>[0-9]+),.*accept len: (?P<l>[0-9.]+),.*gen throughput \S+ (?P<rate>[0-9.]+)/ {
  throughput = $rate
  decode_lines++
}
"""


def steady_lines() -> list[str]:
    """The recorded server's lines after its start: reports, decode, prefill and access lines."""
    lines = LOG.read_text().splitlines()
    begin = next(at for at, line in enumerate(lines) if "ready to roll" in line) + 1
    return [line for line in lines[begin:] if not line.startswith("[rank")]


def start_lines() -> list[str]:
    """The recorded server's start."""
    lines = LOG.read_text().splitlines()
    return lines[: next(at for at, line in enumerate(lines) if "ready to roll" in line) + 1]


class Writer:
    """Writes lines with a moving clock until a size is reached."""

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.size = path, size
        self.now = datetime(2026, 2, 11, 8, 0, 0)  # noqa: DTZ001 - logs have no zone
        self.random = random.Random(7)
        self.made = 0
        self.parts: list[str] = []
        self.file = path.open("w")

    @property
    def full(self) -> bool:
        """Whether the size is reached."""
        return self.made >= self.size

    def put(self, line: str) -> None:
        """Write one line at the clock's time, its milliseconds drawn anew."""
        stamp = f"[{self.now:%Y-%m-%d %H:%M:%S}"
        line = CLOCK.sub(lambda found: f"{stamp}{found[1] or ''}]", line)
        if "ms/cyc" in line:
            line = re.sub(r"[0-9.]+ ms/cyc", self._anew, line)
        elif "127.0.0.1:" in line:
            line = re.sub(r"127\.0\.0\.1:[0-9]+", self._client, line)
        elif "token: " in line:
            line = re.sub(r"(#(?:new-)?token): [0-9]+", self._tokens, line)
        self.parts.append(line)
        self.made += len(line) + 1
        if len(self.parts) > 20_000:
            self.flush()

    def _anew(self, found: re.Match[str]) -> str:
        return f"{float(found[0][:-7]) * self.random.uniform(0.995, 1.005):.2f} ms/cyc"

    def _client(self, _: re.Match[str]) -> str:
        return f"10.1.{self.random.randrange(256)}.{self.random.randrange(256)}:{self.random.randrange(30000, 61000)}"

    def _tokens(self, found: re.Match[str]) -> str:
        return f"{found[1]}: {self.random.randrange(60_000)}"

    def flush(self) -> None:
        """Write down."""
        self.file.write("\n".join(self.parts) + "\n" if self.parts else "")
        self.parts.clear()

    def close(self) -> None:
        """All written."""
        self.flush()
        self.file.close()


def reports_of(lines: list[str]) -> list[list[str]]:
    """Whole reports, without the first one (an outlier after the start)."""
    found = [lines[at : at + 6] for at, line in enumerate(lines) if "EAGLE3 profile" in line]
    return [report for report in found[2:9] if "Accept len" in report[-1]]


def make_recorded(path: Path, size: int) -> None:
    """The recorded proportions, over and over."""
    out = Writer(path, size)
    for line in start_lines():
        out.put(line)
    lines = steady_lines()
    while not out.full:
        for line in lines:
            out.put(line)
            if CLOCK.match(line) and out.random.random() < 0.15:
                out.now += timedelta(seconds=1)
    out.close()


def make_served(path: Path, size: int, *, requests: int, decode: bool) -> None:
    """So many requests a second; a report each two seconds."""
    out = Writer(path, size)
    for line in start_lines():
        out.put(line)
    lines = steady_lines()
    reports = reports_of(lines)
    access = next(line for line in lines if "POST /generate" in line)
    prefill = next(line for line in lines if "Prefill batch" in line)
    decodes = [line for line in lines if "Decode batch" in line][5:20]
    tick = 0
    while not out.full:
        tick += 1
        out.now += timedelta(seconds=1)
        for _ in range(requests):
            out.put(access)
            if decode:
                out.put(prefill)
        if decode:
            out.put(out.random.choice(decodes))
        if tick % 2 == 0:
            for line in out.random.choice(reports):
                out.put(line)
    out.close()


def timed(command: list[str]) -> tuple[float, float, int]:
    """Wall and processor seconds of the quickest run, and the largest memory in bytes.

    A command runs until `RUNS` runs or `ENOUGH_S` seconds are over, whoever's it is.
    """
    runs: list[tuple[float, float]] = []
    memory = 0
    while len(runs) < RUNS and sum(wall for wall, _ in runs) < ENOUGH_S:
        begin = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            while process.stdout.read1(1 << 20):  # grep stops at its first hit where nobody reads
                pass
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
        runs.append((time.perf_counter() - begin, usage.ru_utime + usage.ru_stime))
        memory = max(memory, usage.ru_maxrss * 1024)
    return *min(runs), memory


COLUMNS = """
import sys
from logwatch.grammar.load import load_grammars
from logwatch.intake.bulk import Bulk
bulk, line, offset, rest, count = Bulk(load_grammars()), 2, 0, b"", 0
with open(sys.argv[1], "rb", buffering=0) as file:
    file.readline()
    while data := file.read(8 << 20):
        data = rest + data
        end = data.rfind(b"\\n") + 1
        found = bulk.read(data[:end], "p", line, offset)
        count += found.matched
        line, offset, rest = line + found.lines, offset + end, data[end:]
print(count)
"""


def main() -> None:
    """Make logs, run all, print a table and write it as JSON."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--size", type=int, default=1000, help="megabytes of each log")
    options.add_argument("--folder", type=Path, default=Path("/tmp/logwatch-benchmark"))
    options.add_argument("--logs", nargs="*", default=["busy", "profiled", "served", "recorded"])
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    given.folder.mkdir(exist_ok=True, parents=True)
    program = given.folder / "two_kinds.mtail"
    program.write_text(MTAIL)
    rows: list[dict[str, object]] = []
    for name in given.logs:
        rows += run(name, given.folder, given.size * 1_000_000, program)
        table([row for row in rows if row["log"] == name])
    ratios(rows)
    if given.json:
        given.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))


def machine() -> dict[str, object]:
    """Where it was measured."""
    import polars as pl

    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "polars": pl.__version__,
        "mtail": subprocess.run(
            ["mtail", "-version"], capture_output=True, text=True, check=False
        ).stdout.strip()[:60],
        "load": os.getloadavg(),
    }


def run(name: str, folder: Path, size: int, program: Path) -> list[dict[str, object]]:
    """All measurements of one log."""
    path = folder / f"{name}.log"
    if not path.exists() or abs(path.stat().st_size - size) > 1_000_000:
        if name == "recorded":
            make_recorded(path, size)
        else:
            make_served(path, size, requests=100 if name == "busy" else 10, decode=name == "served")
    logwatch = [sys.executable, "-m", "logwatch", "replay", "--format", "json"]
    commands: dict[str, list[str]] = {
        "grep -c 'Target verify'": ["grep", "-c", "Target verify", str(path)],
        "reading alone": [sys.executable, "-c", COLUMNS, str(path)],
        "logwatch replay": [*logwatch, str(path)],
        "mtail --one_shot": ["mtail", "--one_shot", "--progs", str(program), "--logs", str(path)],
    }
    if name == "busy":
        for form, pack, unpack in (
            ("zst", ["zstd", "-qfk", "-T0"], ["zstd", "-dc"]),
            ("gz", ["gzip", "-kf", "-6"], ["zcat"]),
        ):
            packed = Path(f"{path}.{form}")
            if not packed.exists() or packed.stat().st_mtime < path.stat().st_mtime:
                subprocess.run([*pack, str(path)], check=True)
            commands[" ".join(unpack)] = [*unpack, str(packed)]
            commands[f"logwatch replay .{form}"] = [*logwatch, str(packed)]
    rows = []
    for title, command in commands.items():
        wall, processor, memory = timed(command)
        rows.append(
            {
                "log": name, "what": title, "seconds": round(wall, 3), "cpu_seconds": round(processor, 3),
                "megabytes_per_second": round(size / 1e6 / wall, 1), "peak_megabytes": round(memory / 1e6),
            }
        )  # fmt: skip
        print(f"  {name}: {title}: {wall:.2f} s", file=sys.stderr)
    return rows


def table(rows: list[dict[str, object]]) -> None:
    """Rows as Markdown."""
    load = os.getloadavg()[0]
    print(f"\n`{rows[0]['log']}` (load of the machine at the end: {load:.1f}):\n")
    print("| what | seconds | processor seconds | MB/s | peak MB |\n|---|---:|---:|---:|---:|")
    for row in rows:
        print(
            "| {what} | {seconds} | {cpu_seconds} | {megabytes_per_second} | {peak_megabytes} |".format(**row)
        )


def ratios(rows: list[dict[str, object]]) -> None:
    """How often as long one takes as another, in seconds and in processor seconds, as Markdown."""
    logs = list(dict.fromkeys(row["log"] for row in rows))
    print("\nRatios of seconds / of processor seconds:\n")
    print("| log | " + " | ".join(title for title, *_ in RATIOS) + " |")
    print("|---|" + "---:|" * len(RATIOS))
    for log in logs:
        found = {str(row["what"]): row for row in rows if row["log"] == log}
        cells = [
            " / ".join(f"{_seconds(found[one], key) / _seconds(found[other], key):.3g}" for key in KEYS)
            if one in found and other in found
            else ""
            for _, one, other in RATIOS
        ]
        print(f"| {log} | " + " | ".join(cells) + " |")


KEYS = ("seconds", "cpu_seconds")


def _seconds(row: dict[str, object], key: str) -> float:
    return max(float(str(row[key])), 0.001)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
