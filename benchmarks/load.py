"""One daemon under load: 200 files, 50,000 lines a second in all, rotation, scrapes, attacks; latencies; idle.

    python benchmarks/load.py --seconds 600

Each line is accounted for: lines, records and cycles that the metrics count against what was written, and the sum of
verify times, of which each report has its own. What depends on the machine (latencies, start-up) is a figure, not a
verdict; lost or doubled lines, growing memory and a daemon that does not answer are failures.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent)]

from proof_kit import (  # noqa: E402  # behind the path
    ACCESS,
    DECODE,
    REPORT_LINES,
    Daemon,
    Receiver,
    daemon,
    ms,
    quantile,
    report,
    table,
    toml,
    until,
)

TICK_S = 0.1
DECODE_EVERY, REPORT_EVERY = 100, 1000
"""Lines of a file between two decode lines, and between two reports: mostly access lines, as in life."""
BASE_MS, STEP_MS = 19.0, 1e-6


AS_PROMETHEUS = {
    "Accept": "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5",
    "Accept-Encoding": "gzip",
}
LIVE_S = 2.0
PROBE_S = 0.005
"""Computing that is timed beside the scrapes: how much longer it takes is what else the machine does."""


@dataclass
class Written:
    """What the writer wrote, in all."""

    lines: int = 0
    decodes: int = 0
    reports: int = 0
    verify_ms: float = 0.0
    rotations: int = 0
    late_s: float = 0.0
    by_file: dict[str, int] = field(default_factory=dict)


class Writer:
    """Writes to many files at a steady rate and rotates them: by rename, rename and gzip, or copy-truncate."""

    def __init__(self, folder: Path, files: int, rate: float, rotate_every_s: float) -> None:
        self.folder, self.count, self.rate, self.rotate_every_s = folder, files, rate, rotate_every_s
        self.written = Written()
        self.paths = [folder / f"node{number:03}.log" for number in range(files)]
        self.files = [path.open("ab", buffering=0) for path in self.paths]
        self.lines = [0] * files
        self.turns = [0] * files

    def run(self, seconds: float) -> Written:
        begun = time.monotonic()
        due, share = 0.0, 0.0
        ticks = int(seconds / TICK_S)
        for tick in range(ticks):
            share += self.rate * TICK_S / self.count
            each = int(share)
            share -= each
            for number in range(self.count):
                self._write(number, each)
            due += self.count * TICK_S / self.rotate_every_s
            while due >= 1:
                due -= 1
                self._rotate(self.written.rotations % self.count)
            wait = begun + (tick + 1) * TICK_S - time.monotonic()
            self.written.late_s = max(self.written.late_s, -wait)
            if wait > 0:
                time.sleep(wait)
        self.written.by_file = {path.name: lines for path, lines in zip(self.paths, self.lines, strict=True)}
        return self.written

    def _write(self, number: int, lines: int) -> None:
        text, written = [], self.written
        while lines > 0:
            at = self.lines[number]
            if at % REPORT_EVERY == REPORT_EVERY // 2:
                value = BASE_MS + written.reports * STEP_MS
                text.append(report(value, time.time()))
                written.reports += 1
                written.verify_ms += value
                step = REPORT_LINES
            elif at % DECODE_EVERY == 0:
                text.append(DECODE)
                written.decodes += 1
                step = 1
            else:
                step = min(lines, DECODE_EVERY - at % DECODE_EVERY)
                # The port is the file's and the place's, as in life: two files of equal bytes nobody can tell apart.
                text.append(ACCESS.replace("43856", f"{number}{at:07}") * step)
            self.lines[number] += step
            written.lines += step
            lines -= step
        self.files[number].write("".join(text).encode())

    def _rotate(self, number: int) -> None:
        path, how = self.paths[number], (number + self.turns[number]) % 3
        self.turns[number] += 1
        self.written.rotations += 1
        older, old = path.with_name(f"{path.name}.2.gz"), path.with_name(f"{path.name}.1")
        if old.exists():
            with old.open("rb") as source, gzip.open(older, "wb", compresslevel=1) as packed:
                shutil.copyfileobj(source, packed)
            old.unlink()
        if how == 2:  # copy-truncate; nothing is written in between
            shutil.copyfile(path, old)
            os.truncate(path, 0)
            return
        path.rename(old)
        self.files[number].close()
        self.files[number] = path.open("ab", buffering=0)


def _writer(folder: str, files: int, rate: float, rotate_every_s: float, seconds: float, answer: Any) -> None:
    answer.send(Writer(Path(folder), files, rate, rotate_every_s).run(seconds))


@dataclass
class Watch:
    """What was seen of the daemon while it worked."""

    scrapes_s: list[float] = field(default_factory=list)
    texts_s: list[float] = field(default_factory=list)
    busy_s: list[float] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)
    lag_s: list[float] = field(default_factory=list)
    lag_bytes: list[float] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)


def look(running: Daemon, watch: Watch, done: threading.Event) -> None:
    """Scrape all metrics once a second, as Prometheus does more rarely, and once more as plain text."""
    asked = urllib.request.Request(f"{running.address}/metrics", headers=AS_PROMETHEUS)
    while not done.wait(0.5):
        begun = time.monotonic()
        with urllib.request.urlopen(asked, timeout=30) as answer:
            answer.read()
        watch.scrapes_s.append(time.monotonic() - begun)
        begun, computed = time.monotonic(), time.thread_time()
        while time.thread_time() - computed < PROBE_S:
            pass
        watch.busy_s.append(time.monotonic() - begun)
        if done.wait(0.5):
            break
        begun = time.monotonic()
        text = running.get("/metrics")
        watch.texts_s.append(time.monotonic() - begun)
        lags: dict[str, list[float]] = {"logwatch_lag_seconds": [0.0], "logwatch_lag_bytes": [0.0]}
        for line in text.splitlines():
            name = line.partition("{")[0]
            if name in lags:
                lags[name].append(float(line.rpartition(" ")[2]))
        watch.lag_s.append(max(lags["logwatch_lag_seconds"]))
        watch.lag_bytes.append(sum(lags["logwatch_lag_bytes"]))
        watch.rss_mb.append(running.rss_mb)
        watch.descriptors.append(running.descriptors)


def sustained(
    folder: Path, seconds: float, files: int, rate: float, rotate_every_s: float
) -> tuple[str, list[str]]:
    """The load itself: a table, and what went wrong."""
    logs = folder / "logs"
    logs.mkdir(parents=True)
    # The files are there beforehand, and one is written to, as after a start of the machine.
    for number in range(files):
        (logs / f"node{number:03}.log").touch()
    config = toml([{"path": f"{logs}/*.log", "start": "beginning"}])
    context = multiprocessing.get_context("spawn")
    with daemon(folder / "daemon", config) as running:
        until(lambda: running.total("logwatch_open_files") >= 0, 10)
        ours, theirs = context.Pipe()
        writer = context.Process(
            target=_writer, args=(str(logs), files, rate, rotate_every_s, seconds, theirs)
        )
        watch, done = Watch(), threading.Event()
        looker = threading.Thread(target=look, args=(running, watch, done))
        cpu, begun = running.cpu_s, time.monotonic()
        writer.start()
        looker.start()
        written: Written = ours.recv()
        writer.join()
        took = time.monotonic() - begun
        caught_up = until(lambda: running.total("logwatch_lines_total") >= written.lines, 60, 0.25)
        behind = time.monotonic() - begun - took
        done.set()
        looker.join()
        used = running.cpu_s - cpu
        time.sleep(1.0)  # what would come twice comes now
        series, said = running.metrics(), running.said()
    total = {
        name: sum(value for key, value in series.items() if key.startswith(name + "{") and label in key)
        for name, label in (
            ("logwatch_lines_total", ""),
            ("logwatch_cycles_total", 'phase="target_verify"'),
            ("logwatch_cycle_phase_seconds_total", 'phase="target_verify"'),
            ("logwatch_lost_bytes_total", ""),
            ("logwatch_rotations_total", ""),
            ("logwatch_truncations_total", ""),
        )
    }
    matched = sum(
        v for k, v in series.items() if k.startswith("logwatch_lines_total{") and 'outcome="matched"' in k
    )
    wrong = []
    for what, seen, put in (
        ("lines", total["logwatch_lines_total"], written.lines),
        ("records", matched, written.decodes + written.reports * REPORT_LINES),
        ("cycles", total["logwatch_cycles_total"], written.reports * 100),
        ("lost bytes", total["logwatch_lost_bytes_total"], 0),
    ):
        if seen != put:
            wrong.append(f"{what}: {seen:.0f} counted, {put} written")
    for name, lines in written.by_file.items():
        own = (
            value
            for key, value in series.items()
            if key.startswith("logwatch_lines_total{") and f'"{name}"' in key
        )
        if (seen := sum(own)) != lines:
            told = [line for line in said.splitlines() if name in line]
            wrong.append(f"{name}: {seen:.0f} of {lines} lines; it was said: {told[-5:]}")
    expected_s = written.verify_ms / 1e3 * 100
    if abs(total["logwatch_cycle_phase_seconds_total"] - expected_s) > 1e-6 * expected_s:
        wrong.append(
            f"verify seconds: {total['logwatch_cycle_phase_seconds_total']} counted, {expected_s} written"
        )
    if not caught_up:
        wrong.append("the daemon did not catch up")
    rss = watch.rss_mb or [0.0]
    early = max(rss[len(rss) // 3 : len(rss) // 2] or rss)
    growth = max(rss[-max(1, len(rss) // 6) :]) - early
    if growth > max(12.0, 0.12 * early):
        wrong.append(f"memory grew by {growth:.0f} MB after the first third")
    rows = [
        (
            "files, lines a second, for",
            f"{files}, {written.lines / took:,.0f}, {took:.0f} s",
            f"200, {rate:,.0f}",
        ),
        ("lines written", f"{written.lines:,}", ""),
        ("lines counted", f"{total['logwatch_lines_total']:,.0f}", "equal"),
        ("records written", f"{written.decodes + written.reports * REPORT_LINES:,}", ""),
        ("records counted", f"{matched:,.0f}", "equal"),
        (
            "sum of verify seconds, counted / written",
            f"{total['logwatch_cycle_phase_seconds_total'] / expected_s:.9f}",
            "1",
        ),
        ("bytes lost", f"{total['logwatch_lost_bytes_total']:.0f}", "0"),
        ("rotations done", f"{written.rotations}", ""),
        (
            "rotations and truncations seen",
            f"{total['logwatch_rotations_total']:.0f} + {total['logwatch_truncations_total']:.0f}",
            "",
        ),
        ("processor time of one core", f"{used / (took + behind):.0%}", "< 100 %"),
        (
            "lag, median / worst",
            f"{quantile(watch.lag_s, 0.5):.2f} / {max(watch.lag_s, default=0):.2f} s",
            "bounded",
        ),
        ("lag in bytes, worst", f"{max(watch.lag_bytes, default=0) / 1e6:.1f} MB", "bounded"),
        ("time to finish after the last line", f"{behind:.2f} s", ""),
        (
            "scrape of everything as Prometheus asks (OpenMetrics, gzip), p50 / p99",
            f"{ms(quantile(watch.scrapes_s, 0.5))} / {ms(quantile(watch.scrapes_s, 0.99))}",
            "p99 < 100 ms",
        ),
        (
            "scrape of everything as plain text, p50 / p99",
            f"{ms(quantile(watch.texts_s, 0.5))} / {ms(quantile(watch.texts_s, 0.99))}",
            "p99 < 100 ms",
        ),
        (
            f"{ms(PROBE_S)} of computing beside it took, p50 / p99 (a busy machine)",
            f"{ms(quantile(watch.busy_s, 0.5))} / {ms(quantile(watch.busy_s, 0.99))}",
            "",
        ),
        ("resident memory, at a third / at the end", f"{early:.0f} / {rss[-1]:.0f} MB", "flat"),
        (
            "descriptors, median / worst",
            f"{quantile(watch.descriptors, 0.5)} / {max(watch.descriptors, default=0)}",
            "bounded",
        ),
        ("writer's worst delay (a busy machine)", f"{written.late_s:.2f} s", ""),
    ]
    return table(f"Load: {files} files, {rate:,.0f} lines/s, rotation, {seconds:.0f} s", rows), wrong


# -- many clients ----------------------------------------------------------------------------------------------


async def _scrape(host: str, port: int, results: dict[str, int], slow_s: float = 0.0) -> None:
    """One client: asks, reads, notes how it ended. A slow one sends a header a second and never ends."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 20)
        if slow_s:
            writer.write(b"GET /metrics HTTP/1.1\r\n")
            end = time.monotonic() + slow_s
            while time.monotonic() < end:
                writer.write(b"X-a: b\r\n")
                await writer.drain()
                await asyncio.sleep(1.0)
        else:
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            answer = await asyncio.wait_for(reader.read(), 60)
            results["answered" if answer.startswith(b"HTTP/1.1 200") else "turned away"] += 1
        writer.close()
    except (OSError, TimeoutError):
        results["cut off" if slow_s else "turned away"] += 1


async def _crowd(address: str, clients: int, slow_s: float) -> dict[str, int]:
    host, _, port = address.partition("://")[2].rpartition(":")
    results = {"answered": 0, "turned away": 0, "cut off": 0}
    await asyncio.gather(*(_scrape(host, int(port), results, slow_s) for _ in range(clients)))
    return results


def attacks(folder: Path, clients: int, slow_s: float) -> tuple[str, list[str]]:
    """A thousand scrapes at once, and a thousand clients that never finish their request."""
    log = folder / "a.log"
    folder.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(report(19.1) for _ in range(20)))
    rows, wrong = [], []
    with daemon(folder / "daemon", toml([{"path": str(log), "start": "beginning"}])) as running:
        until(lambda: running.total("logwatch_cycles_total", 'phase="target_verify"') == 2000, 20)
        calm = running.rss_mb
        written = 20
        for name, slow in ((f"{clients} scrapes at once", 0.0), (f"{clients} slow-loris clients", slow_s)):
            crowd: dict[str, int] = {}
            thread = threading.Thread(
                target=lambda slow=slow, crowd=crowd: crowd.update(
                    asyncio.run(_crowd(running.address, clients, slow))
                )
            )
            begun = time.monotonic()
            thread.start()
            good: list[float] = []
            bad = 0
            while thread.is_alive():
                with log.open("a") as file:
                    file.write(report(19.1))
                written += 1
                asked = time.monotonic()
                try:
                    running.get("/metrics?name[]=logwatch_lines_total", 5)
                    good.append(time.monotonic() - asked)
                except OSError:
                    bad += 1
                time.sleep(0.2)
            took = time.monotonic() - begun
            kept_up = until(
                lambda all_of=written * 100: (
                    running.total("logwatch_cycles_total", 'phase="target_verify"') == all_of
                ),
                10,
            )
            if not kept_up:
                wrong.append(f"{name}: reading did not go on")
            if not until(lambda: running.get("/-/healthy", 5).startswith("logwatch is healthy"), 15):
                wrong.append(f"{name}: not healthy afterwards")
            told = ", ".join(f"{count} {what}" for what, count in crowd.items() if count)
            rows += [
                (name, f"{told}; {took:.1f} s", ""),
                (
                    "another client's scrapes meanwhile",
                    f"{len(good)} good, {bad} turned away, p99 {ms(quantile(good, 0.99))}",
                    "most good",
                ),
                ("reports read meanwhile", "all" if kept_up else "NOT all", "all"),
            ]
            if bad > len(good):
                wrong.append(f"{name}: an honest client was turned away {bad} times of {bad + len(good)}")
            if crowd.get("turned away"):
                wrong.append(f"{name}: {crowd['turned away']} were turned away instead of waiting in line")
        rows.append(("resident memory before / after", f"{calm:.0f} / {running.rss_mb:.0f} MB", "< 128 MB"))
        if running.rss_mb > 128:
            wrong.append(f"memory after the attacks: {running.rss_mb:.0f} MB")
    return table("Many clients", rows), wrong


# -- latency and idle ------------------------------------------------------------------------------------------


def latency(folder: Path, rounds: int) -> tuple[str, list[str]]:
    """From a line's write to its metric and to its alert."""
    folder.mkdir(parents=True, exist_ok=True)
    receiver = Receiver()
    config = toml([{"path": f"{folder}/*.log", "start": "beginning"}], [{"webhook": receiver.url}])
    to_metric, to_alert, wrong = [], [], []
    with daemon(folder / "daemon", config) as running:
        log = folder / "metric.log"
        log.write_text(report(19.0) * 3)  # how a report ends is learnt from the first ones
        until(lambda: running.total("logwatch_cycles_total", 'phase="target_verify"') >= 200, 20)
        for number in range(rounds):
            value = 19.5 + number * 0.001
            time.sleep(0.6 + 0.4 * (number * 0.618 % 1))  # on its own, as in life
            begun = time.monotonic()
            with log.open("a") as file:
                # What closes the report is the next line, as in life.
                file.write(report(value) + ACCESS)
            wanted = f"{value / 1e3:.9f}".rstrip("0")
            name = "logwatch_phase_seconds"
            seen = until(
                lambda wanted=wanted, name=name: any(
                    f"{v:.9f}".rstrip("0") == wanted
                    for k, v in running.metrics(name).items()
                    if "verify" in k
                ),
                10,
                0.002,
            )
            to_metric.append(time.monotonic() - begun)
            if not seen:
                wrong.append(f"a report was not in the metrics after {to_metric[-1]:.1f} s")
                break
        proven: dict[str, float] = {}
        for number in range(rounds):
            path = folder / f"alert{number}.log"
            with path.open("a") as file:
                file.write("".join(report(19.1) for _ in range(5)) + report(28.95) * 2)
            time.sleep(0.05)
            with path.open("a") as file:
                file.write(report(28.95) + ACCESS)
                file.flush()
                proven[path.name] = time.time()
            until(
                lambda number=number: (
                    len({letter["labels"]["stream"] for _, letter in receiver.letters}) > number
                ),
                10,
                0.005,
            )
        for came, letter in receiver.letters:
            if (stream := letter["labels"]["stream"]) in proven:
                to_alert.append(came - proven.pop(stream))
        if proven:
            wrong.append(f"{len(proven)} alerts never came")
        memory = running.rss_mb
    receiver.close()
    rows = [
        (
            "from line to metric, p50 / p99",
            f"{ms(quantile(to_metric, 0.5))} / {ms(quantile(to_metric, 0.99))}",
            "",
        ),
        (
            "from proving line to webhook, p50 / p99",
            f"{ms(quantile(to_alert, 0.5))} / {ms(quantile(to_alert, 0.99))}",
            "< 1 s",
        ),
        ("resident memory with that", f"{memory:.0f} MB", ""),
    ]
    return table(f"Latency, {rounds} times each", rows), wrong


def idle(folder: Path, starts: int) -> tuple[str, list[str]]:
    """Start-up and the idle daemon."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.log").write_text("".join(report(19.1) for _ in range(20)))
    startups, computed = [], []
    config = toml([{"path": f"{folder}/a.log", "start": "beginning"}])
    for _ in range(starts):
        with daemon(folder / "daemon", config) as running:
            startups.append(running.startup_s)
            computed.append(running.cpu_s)
    with daemon(folder / "daemon", config) as running:
        time.sleep(3.0)
        used, begun = running.cpu_s, time.monotonic()
        time.sleep(5.0)
        share = (running.cpu_s - used) / (time.monotonic() - begun)
        memory = running.rss_mb
        loaded = Path(f"/proc/{running.process.pid}/maps").read_text()
    rows = [
        (
            "start to ready, best / median",
            f"{min(startups):.2f} / {quantile(startups, 0.5):.2f} s",
            "< 0.7 s",
        ),
        ("processor time until then, best", f"{min(computed):.2f} s", ""),
        ("resident memory, idle", f"{memory:.0f} MB", "< 64 MB"),
        ("polars loaded", "yes" if "polars" in loaded else "no", "no"),
        ("processor time, idle", f"{share:.1%} of a core", ""),
    ]
    return table("Idle", rows), ["polars is loaded by `watch`"] if "polars" in loaded else []


def many(folder: Path, files: int, live: int, seconds: float) -> tuple[str, list[str]]:
    """Processor time of many files of which few live, beside that of the few alone."""
    shares, rows = [], []
    for count in (live, files):
        logs = folder / str(count) / "logs"
        logs.mkdir(parents=True)
        paths = [logs / f"node{number:04}.log" for number in range(count)]
        for path in paths:
            path.write_text(report(19.0) + ACCESS)
        config = toml([{"path": f"{logs}/*.log", "start": "beginning"}])
        with daemon(folder / str(count) / "daemon", config) as running:
            done = threading.Event()
            writer = threading.Thread(target=_live, args=(paths[:: count // live], done))
            time.sleep(
                22.0
            )  # all were read and committed, and looked at twice since: that is how idle files go on
            writer.start()
            time.sleep(2.0)
            used, begun = running.cpu_s, time.monotonic()
            time.sleep(seconds)
            shares.append((running.cpu_s - used) / (time.monotonic() - begun))
            done.set()
            writer.join()
            rows += [
                (f"{count:,} files, {live} of them live", f"{shares[-1]:.2%} of a core", ""),
                ("its resident memory, descriptors", f"{running.rss_mb:.0f} MB, {running.descriptors}", ""),
            ]
    rows.append((f"so {files - live:,} idle files cost", f"{shares[1] - shares[0]:.2%} of a core", "< 0.5 %"))
    return table(f"Many files, each live one with a report every {LIVE_S:.0f} s", rows), []


def _live(paths: list[Path], done: threading.Event) -> None:
    """Write a report and some access lines to one file after the other."""
    number = 0
    while not done.wait(LIVE_S / len(paths)):
        with paths[number % len(paths)].open("a") as file:
            file.write(report(19.0 + number * 1e-6) + ACCESS * 5)
        number += 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rate", type=float, default=50_000)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--only", choices=["sustained", "attacks", "latency", "idle", "many"])
    arguments = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory(prefix="logwatch-load-") as name:
        folder = Path(name)
        parts = {
            "idle": lambda: idle(folder / "idle", 5),
            "many": lambda: many(folder / "many", 2000, 10, min(60.0, arguments.seconds)),
            "latency": lambda: latency(folder / "latency", arguments.rounds),
            "attacks": lambda: attacks(folder / "attacks", arguments.clients, 15.0),
            "sustained": lambda: sustained(
                folder / "load",
                arguments.seconds,
                arguments.files,
                arguments.rate,
                max(20.0, arguments.seconds / 10),
            ),
        }
        for part, run in parts.items():
            if arguments.only in {None, part}:
                shown, bad = run()
                print(shown, flush=True)
                wrong += bad
    for each in wrong:
        print(f"FAILED: {each}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
