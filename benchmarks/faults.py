"""Break everything around a running daemon: receivers, disk, permissions, clock, kernel limits, the process itself.

    python benchmarks/faults.py            # about a minute; `--long`: SIGSTOP for a minute

Each fault has the same end: once it is over, every report that was written is counted exactly once, every incident
was told to whoever can be told, and nothing crashed. Needs root for disks and capabilities; what cannot be tried here
says so in its row.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

from proof_kit import Daemon, Receiver, daemon, report, table, toml, until  # noqa: E402  # behind the path

PATIENCE_S = 120.0


class Log:
    """A log whose reports carry their number in the verify time: what is lost or doubled shows in the sum."""

    def __init__(self, path: Path) -> None:
        self.path, self.count, self.sum_s = path, 0, 0.0
        path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, reports: int, ms: float = 19.0) -> None:
        """Append so many reports."""
        with self.path.open("a") as file:
            for _ in range(reports):
                value = ms + self.count * 1e-6
                file.write(report(value))
                self.count += 1
                self.sum_s += value / 1e3 * 100

    def rotate(self, mode: int = 0o644) -> None:
        """Move it away and begin a new one."""
        for number in range(5, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self.path.with_name(f"{self.path.name}.{number}").rename(f"{self.path}.{number + 1}")
        self.path.rename(f"{self.path}.1")
        self.path.touch(mode)

    def is_counted(self, running: Daemon) -> bool:
        """Whether each report was counted once."""
        cycles = running.total("logwatch_cycles_total", 'phase="target_verify"', f'stream="{self.path.name}"')
        if cycles != self.count * 100:
            return False
        name = "logwatch_cycle_phase_seconds_total"
        seconds = running.total(name, 'phase="target_verify"', f'stream="{self.path.name}"')
        return abs(seconds - self.sum_s) < 1e-9 * max(1.0, self.sum_s) + 1e-6

    def settled(self, running: Daemon) -> str:
        """What came of it, for the table."""
        if not until(lambda: self.is_counted(running), PATIENCE_S):
            cycles = running.total("logwatch_cycles_total", 'phase="target_verify"')
            told = running.said().strip().splitlines()[-3:]
            return f"FAILED: {cycles / 100:.0f} of {self.count} reports counted, or not these; it was said: {told}"
        time.sleep(0.7)  # what would be counted twice is counted now
        return f"all {self.count} reports once" if self.is_counted(running) else "FAILED: counted twice"


Fault = Callable[[Path], str]


def source(log: Log) -> str:
    return toml([{"path": str(log.path), "start": "beginning"}])


# -- receivers -------------------------------------------------------------------------------------------------


class Raw:
    """A TCP server that says a fixed thing, or nothing, to whoever connects."""

    def __init__(self, says: bytes | None, hold: bool = False) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._says, self._hold = says, hold
        self._kept: list[socket.socket] = []
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                if self._says:
                    with contextlib.suppress(OSError):
                        client.sendall(self._says)
                if self._hold:
                    self._kept.append(client)
                else:
                    client.close()


def drip() -> int:
    """A server that sends a digit of its status every half second, for ever."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            client, _ = listener.accept()

            def slowly(client: socket.socket = client) -> None:
                with contextlib.suppress(OSError):
                    client.sendall(b"HTTP/1.1 20")
                    while True:
                        client.sendall(b"0")
                        time.sleep(0.5)

            threading.Thread(target=slowly, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


def self_signed(folder: Path) -> int | None:
    """A TLS server whose certificate nobody vouches for."""
    if shutil.which("openssl") is None:
        return None
    key, certificate = folder / "key.pem", folder / "cert.pem"
    command = (
        f"openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=x -keyout {key} -out {certificate}"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    receiver = Receiver()
    receiver.socket = context.wrap_socket(receiver.socket, server_side=True, do_handshake_on_connect=False)
    return int(receiver.server_port)


def receivers(folder: Path) -> Iterator[tuple[str, str]]:
    """All ways in which a receiver fails, at once, beside one that works."""
    good, five, bad_request, garbage = (
        Receiver(),
        Receiver(500),
        Receiver(404),
        Receiver(200, body=b"\xff\x00garbage"),
    )
    slow, redirect = Receiver(200, delay_s=60), Receiver(301)
    with socket.create_server(("127.0.0.1", 0)) as free:
        refused_port = free.getsockname()[1]
    tls = self_signed(folder)
    failing = folder / "failing"
    failing.write_text("#!/bin/sh\necho no >&2\nexit 3\n")
    failing.chmod(0o755)
    ways: dict[str, dict[str, object]] = {
        "refused": {"webhook": f"http://127.0.0.1:{refused_port}"},
        "hanging": {"webhook": slow.url},
        "accepts and says nothing": {"webhook": f"http://127.0.0.1:{Raw(None, hold=True).port}"},
        "hangs up": {"webhook": f"http://127.0.0.1:{Raw(None).port}"},
        "answers 500": {"webhook": five.url},
        "answers 404": {"alertmanager": bad_request.url},
        "answers 200 with garbage": {"webhook": garbage.url},
        "speaks no HTTP": {"webhook": f"http://127.0.0.1:{Raw(b'SSH-2.0-x' + bytes(300)).port}"},
        "endless header": {
            "webhook": f"http://127.0.0.1:{Raw(b'HTTP/1.1 200 OK' + b'A' * 500_000, hold=True).port}"
        },
        "drips": {"webhook": f"http://127.0.0.1:{drip()}"},
        "redirects": {"webhook": redirect.url},
        "TLS where there is none": {"webhook": f"https://127.0.0.1:{five.server_port}"},
        "certificate of nobody": {"webhook": f"https://127.0.0.1:{tls}"},
        "no such host": {"webhook": "http://nowhere.invalid"},
        "no route": {"webhook": "http://[100::1]:9"},
        "secret's file is gone": {"webhook": good.url, "bearer_token_file": str(folder / "gone")},
        "command fails": {"command": [str(failing)]},
        "command hangs": {"command": ["sleep", "1000"]},
        "command is not there": {"command": [str(folder / "nothing")]},
    }
    if tls is None:
        del ways["certificate of nobody"]
    alerts = [{"name": name.replace("'", ""), "timeout": "1s", **way} for name, way in ways.items()]
    alerts.append({"name": "good", "webhook": good.url})
    log = Log(folder / "a.log")
    with daemon(folder / "daemon", toml([{"path": str(log.path), "start": "beginning"}], alerts)) as running:
        log.write(5)
        log.write(4, ms=28.95)
        proven = time.monotonic()
        came = until(lambda: bool(good.letters), PATIENCE_S)
        yield (
            "every other receiver fails",
            f"told after {time.monotonic() - proven:.1f} s" if came else "FAILED: not told",
        )

        def failed(name: str) -> float:
            return running.total("logwatch_alerts_total", f'receiver="{name}"', 'outcome="failed"')

        for name in (name.replace("'", "") for name in ways):
            if "garbage" in name:
                ok = until(lambda: bool(garbage.letters), PATIENCE_S)
                yield name, "taken" if ok else "FAILED: not taken"
            else:
                ok = until(lambda name=name: failed(name) > 0, PATIENCE_S)
                yield name, "counted as failed, tried again" if ok else "FAILED: not counted"
        yield "reading meanwhile", log.settled(running)
        late = Receiver(port=refused_port)
        came = until(lambda: bool(late.letters), PATIENCE_S)
        yield "the refusing one is back", "told" if came else "FAILED: never told"
        begun = time.monotonic()
        status = running.stop()
        took = time.monotonic() - begun
        yield (
            "stopped while they hang",
            f"status {status} in {took:.1f} s" if status == 0 and took < 15 else "FAILED",
        )
        running.start()
        yield (
            "letters after the restart",
            "kept" if running.total("logwatch_alerts_pending") > 0 else "FAILED: lost",
        )


# -- disk and permissions --------------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "2m") -> Iterator[Path]:
    """A file system of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True, capture_output=True
    )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def says(running: Daemon, words: str) -> bool:
    """Whether it says this in time."""
    return until(lambda: words in running.said(), PATIENCE_S)


def failing(running: Daemon) -> bool:
    return running.total("logwatch_state_commit_errors_total") > 0


def disk_full(folder: Path) -> str:
    log = Log(folder / "a.log")
    with small_disk(folder / "daemon" / "state"), daemon(folder / "daemon", source(log)) as running:
        log.write(20)
        until(lambda: log.is_counted(running), PATIENCE_S)
        filler = folder / "daemon" / "state" / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        for _ in range(30):
            log.write(20)
            if until(lambda: failing(running), 0.2):
                break
        seen = until(lambda: failing(running), PATIENCE_S)
        log.write(30)
        filler.unlink()
        told = "said" if says(running, "cannot be written") else "FAILED: not said"
        return f"{told if seen else 'FAILED: not noticed'}; {log.settled(running)}"


def read_only(folder: Path) -> str:
    """A file system cannot become read-only while it is written to, so it is before a start."""
    log, state = Log(folder / "a.log"), folder / "daemon" / "state"
    with small_disk(state), daemon(folder / "daemon", source(log)) as running:
        log.write(20)
        until(lambda: log.is_counted(running), PATIENCE_S)
        running.stop()
        subprocess.run(["mount", "-o", "remount,ro", str(state)], check=True, capture_output=True)
        log.write(20)
        running.start()
        told = "said; " if says(running, "cannot be written") else "FAILED: not said; "
        meanwhile = log.settled(running)
        running.stop()
        subprocess.run(["mount", "-o", "remount,rw", str(state)], check=True, capture_output=True)
        running.start()
        log.write(20)
        return f"{told}meanwhile {meanwhile}; writable again: {log.settled(running)}"


def state_removed(folder: Path) -> str:
    log = Log(folder / "a.log")
    with daemon(folder / "daemon", source(log)) as running:
        log.write(20)
        until(lambda: log.is_counted(running), PATIENCE_S)
        shutil.rmtree(folder / "daemon" / "state")
        log.write(20)
        first = log.settled(running)
        running.kill()
        log.write(5)
        running.start()
        return f"{first}; after a kill {log.settled(running)}"


def permission_lost(folder: Path) -> str:
    log = Log(folder / "a.log")
    plain = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    with daemon(folder / "daemon", source(log), before=plain) as running:
        log.write(20)
        until(lambda: log.is_counted(running), PATIENCE_S)
        log.rotate(mode=0)
        log.write(20)
        seen = says(running, "ermission")
        log.path.chmod(0o644)
        return ("said; " if seen else "FAILED: not said; ") + log.settled(running)


def directory_gone(folder: Path) -> str:
    log = Log(folder / "logs" / "a.log")
    with daemon(folder / "daemon", source(log)) as running:
        log.write(20)
        until(lambda: log.is_counted(running), PATIENCE_S)
        log.path.parent.rename(folder / "gone")
        time.sleep(0.5)
        log.path.parent.mkdir()
        log.write(20)
        return log.settled(running)


# -- the process and the kernel --------------------------------------------------------------------------------


def stopped(folder: Path, seconds: float) -> str:
    log = Log(folder / "a.log")
    with daemon(folder / "daemon", source(log)) as running:
        log.write(20)
        until(lambda: log.is_counted(running), PATIENCE_S)
        running.signal(signal.SIGSTOP)
        for _ in range(3):
            log.write(50)
            log.rotate()
            time.sleep(seconds / 3)
        log.write(7)
        running.signal(signal.SIGCONT)
        return log.settled(running)


def killed(folder: Path, times: int) -> str:
    log = Log(folder / "a.log")
    with daemon(folder / "daemon", source(log)) as running:
        for number in range(times):
            log.write(40)
            time.sleep(0.05 * number)
            running.kill()
            log.write(10)
            log.rotate()
            running.start()
        return log.settled(running)


@contextlib.contextmanager
def memory_group(limit_bytes: int) -> Iterator[Path | None]:
    """A control group with so much memory, of whichever kind there is; None where none can be made."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(root, f"logwatch-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / limit).exists():
                (group / limit).write_text(str(limit_bytes))
                yield group
                return
        finally:
            until(lambda made=group: not (made / "cgroup.procs").read_text().split(), PATIENCE_S)
            group.rmdir()
    yield None


def out_of_memory(folder: Path, times: int) -> str:
    """A neighbour in its control group (`MemoryMax=`) eats the memory; the daemon is the first to go."""
    log = Log(folder / "a.log")
    eat = "import time\nheld = []\nwhile True: held.append(b'x' * (1 << 20)); time.sleep(0.002)"
    with memory_group(256 << 20) as group:
        if group is None:
            return "cannot be tried here: no control group for memory"
        join = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        with daemon(folder / "daemon", source(log), before=join) as running:
            for _ in range(times):
                log.write(40)
                Path(f"/proc/{running.process.pid}/oom_score_adj").write_text("1000")
                with subprocess.Popen([*join, sys.executable, "-c", eat]) as eater:
                    ended = running.process.wait(PATIENCE_S)
                    eater.kill()
                if ended != -signal.SIGKILL:
                    return f"FAILED: ended with {ended}, not by the kernel"
                log.write(10)
                log.rotate()
                running.start()
            return log.settled(running)


def without_inotify(folder: Path, limit: str) -> str:
    """In a user namespace of its own, whose kernel limit is 0."""
    log = Log(folder / "a.log")
    script = f'echo 0 > /proc/sys/user/{limit} && exec "$@"'
    before = ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"]
    with daemon(folder / "daemon", source(log), before=before) as running:
        log.write(20)
        first = log.settled(running)
        log.rotate()
        log.write(20)
        told = "said" if says(running, "inotify") else "FAILED: not said"
        return f"{told}; {first}; rotated: {log.settled(running)}"


def few_descriptors(folder: Path) -> str:
    logs = [Log(folder / f"{number:03}.log") for number in range(150)]
    for log in logs:
        log.write(3)
    config = toml([{"path": f"{folder}/*.log", "start": "beginning"}])

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with daemon(folder / "daemon", config, limits=limit) as running:
        for log in logs:
            log.write(2)
        ok = until(
            lambda: running.total("logwatch_cycles_total", 'phase="target_verify"') == 150 * 500, PATIENCE_S
        )
        return (
            "150 files with 64 descriptors: all counted" if ok else "FAILED: not all of 150 files were read"
        )


def log_pipe_broken(folder: Path) -> str:
    """Who reads our standard error dies; then something is to be said."""
    log = Log(folder / "a.log")
    with daemon(folder / "daemon", source(log)) as running:
        log.write(5)
        until(lambda: log.is_counted(running), PATIENCE_S)
        running.stop_listening()
        log.write(4, ms=28.95)
        log.rotate()
        log.write(6)
        ok = log.settled(running)
        return ok if running.process.poll() is None else f"FAILED: exit status {running.process.returncode}"


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(which, now);
  if (which == CLOCK_REALTIME) {
    FILE *file = fopen(getenv("CLOCK_OFFSET"), "r");
    long offset = 0;
    if (file) { if (fscanf(file, "%ld", &offset) != 1) offset = 0; fclose(file); }
    now->tv_sec += offset;
  }
  return status;
}
"""


def clock_steps(folder: Path) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return "not tried: no C compiler"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "clock.c").write_text(CLOCK)
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "clock.so"), str(folder / "clock.c"), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    offset, log, receiver = folder / "offset", Log(folder / "a.log"), Receiver()
    offset.write_text("0")
    config = toml([{"path": str(log.path), "start": "beginning"}], [{"webhook": receiver.url}])
    environment = {"LD_PRELOAD": str(folder / "clock.so"), "CLOCK_OFFSET": str(offset)}
    with daemon(folder / "daemon", config, environment=environment) as running:
        log.write(20)
        until(lambda: log.is_counted(running), PATIENCE_S)
        bad = []
        for name, step, ms in (("-1 h", -3600, 28.95), ("+10 years", 315_360_000, 19.0), ("back", 0, 28.95)):
            letters = len(receiver.letters)
            offset.write_text(str(step))
            time.sleep(0.3)
            log.write(6, ms=ms)
            if not until(lambda: log.is_counted(running), PATIENCE_S):
                bad.append(f"{name}: {log.settled(running)}")
            if not until(lambda letters=letters: len(receiver.letters) > letters, PATIENCE_S):
                bad.append(f"{name}: no alert")
            if any(
                value < 0 for value in running.metrics("logwatch_lag_seconds", "logwatch_lag_bytes").values()
            ):
                bad.append(f"{name}: negative lag")
        samples = running.get("/api/v1/samples?phase=target_verify&limit=1000").count('"line"')
        if samples != log.count:
            bad.append(f"{samples} of {log.count} samples in history")
        return "FAILED: " + "; ".join(bad) if bad else f"{log.settled(running)}; alerts came; history whole"


def scenarios(long: bool) -> dict[str, Fault]:
    """Faults by what the table calls them, cheapest to judge first."""
    return {
        f"SIGSTOP for {60 if long else 6} s, rotated thrice": lambda folder: stopped(
            folder, 60 if long else 6
        ),
        "SIGKILL (as the OOM killer does), 5 times": lambda folder: killed(folder, 5),
        "out of memory in its control group, 3 times": partial(out_of_memory, times=3),
        "standard error's reader is gone": log_pipe_broken,
        "log directory moved away and made anew": directory_gone,
        "state directory removed": state_removed,
        "disk full": disk_full,
        "state read-only": read_only,
        "permission lost after rotation": permission_lost,
        "no inotify instances left": partial(without_inotify, limit="max_inotify_instances"),
        "no inotify watches left": partial(without_inotify, limit="max_inotify_watches"),
        "64 descriptors": few_descriptors,
        "clock steps -1 h, +10 years, back": clock_steps,
    }


def run(folder: Path, *, long: bool = False, only: str = "") -> tuple[str, list[str]]:
    """All faults: a table, and what failed."""

    def one(numbered: tuple[int, tuple[str, Fault]]) -> tuple[str, str]:
        number, (name, fault) = numbered
        place = folder / f"fault{number}"
        place.mkdir(parents=True)
        try:
            row = (name, fault(place))
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            row = (name, f"FAILED: {error}")
        print(*row, sep=": ", file=sys.stderr, flush=True)
        return row

    chosen = [each for each in scenarios(long).items() if only in each[0]]
    with ThreadPoolExecutor(4) as workers:  # most of it is waiting
        rows = list(workers.map(one, enumerate(chosen)))
    if only in "receivers":
        place = folder / "receivers"
        place.mkdir(parents=True)
        for name, what in receivers(place):
            rows.append((f"receiver: {name}", what))
            print(*rows[-1], sep=": ", file=sys.stderr, flush=True)
    wrong = [f"{name}: {what}" for name, what in rows if "FAILED" in what]
    return table("Faults", rows, ("fault", "what came of it")), wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="", help="a part of a fault's name, or `receivers`")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="logwatch-faults-") as folder:
        shown, wrong = run(Path(folder), long=arguments.long, only=arguments.only)
    print(shown)
    for each in wrong:
        print(f"FAILED: {each}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
