"""What the proof's programs share: a daemon in a process of its own, its figures, and tables."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

ACCESS = '[2026-02-11 08:15:02] INFO:     127.0.0.1:43856 - "POST /generate HTTP/1.1" 200 OK\n'
DECODE = (
    "[2026-02-11 08:15:03 TP0] Decode batch, #running-req: 1, #token: 77, token usage: 0.00, accept len: 1.93, "
    "accept rate: 0.46, cuda graph: True, gen throughput (token/s): 340.35, #queue-req: 0\n"
)
REPORT_LINES = 5
READY_S = 180.0
"""It takes half a second on a quiet machine, and a quarter of a minute on one with ten times more to do than it can."""


def report(verify_ms: float, time_s: float = 1_770_797_702.0, rank: str = "TP0") -> str:
    """One EAGLE3_PROFILE report of five lines; the verify time may carry a number in its last digits."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_s))
    return (
        f"[{when} {rank}] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n"
        f"  Draft forward:      0.53 ms/cyc  (  2.6%)\n"
        f"  Target verify:     {verify_ms:.6f} ms/cyc  ( 95.0%)\n"
        f"  Total cycle:       {verify_ms + 1.01:.6f} ms/cyc\n"
        "  Accept len:         0.92\n"
    )


def toml(
    sources: Sequence[Mapping[str, Any]], alerts: Sequence[Mapping[str, Any]] = (), more: str = ""
) -> str:
    """A configuration on a free port."""
    parts = ['[http]\nlisten = "127.0.0.1:0"\n', more]
    for name, tables in (("source", sources), ("alert", alerts)):
        for each in tables:
            keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in each.items())
            parts += [f"[[{name}]]\n{keys}"]
    return "\n".join(parts)


class Daemon:
    """`logwatch watch` in a process of its own.

    Args:
        folder: Where its configuration, state and log lie.
        config: The configuration's text.
        before: Words before the command (`ip netns exec ...`).
        limits: Called in the child before it begins.
    """

    def __init__(
        self,
        folder: Path,
        config: str,
        *,
        before: Sequence[str] = (),
        limits: Callable[[], object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "logwatch.toml").write_text(config)
        self._before, self._limits = list(before), limits
        self._environment = (
            os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(folder)} | dict(environment or {})
        )
        self.start()

    def start(self) -> float:
        """Start it; gives the seconds until it was ready."""
        begun = time.monotonic()
        command = [
            *self._before,
            sys.executable,
            "-m",
            "logwatch",
            "watch",
            "--config",
            str(self.folder / "logwatch.toml"),
        ]
        command += ["--state", str(self.folder / "state")]
        said: list[str] = []
        ready = threading.Event()
        self._said = said
        self.address = ""
        # A socket, as journald gives: unlike a pipe's, its reading end can be shut under a thread that waits on it.
        self._ear, mouth = socket.socketpair()
        with mouth:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=mouth,
                env=self._environment,
                cwd=self.folder,
                preexec_fn=self._limits,  # noqa: PLW1509  # set before any thread of ours runs Python code in the child
            )
        threading.Thread(target=self._listen, args=(self._ear, ready, said), daemon=True).start()
        if not ready.wait(READY_S) or not self.address:
            self.kill()
            raise RuntimeError("the daemon did not become ready: " + self.said())
        self.startup_s = time.monotonic() - begun
        return self.startup_s

    def _listen(self, ear: socket.socket, ready: threading.Event, said: list[str]) -> None:
        with ear, ear.makefile(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                said.append(line)
                if found := re.search(r"metrics at (\S+)/metrics", line):
                    self.address = found[1]
                    ready.set()
        ready.set()

    def stop_listening(self) -> None:
        """Whoever reads its standard error is gone: the daemon's next word breaks on it."""
        self._ear.shutdown(socket.SHUT_RD)

    def said(self) -> str:
        """All that it wrote on standard error."""
        return "".join(self._said)

    def get(self, path: str, timeout_s: float = 30.0) -> str:
        """An answer's text."""
        with urllib.request.urlopen(self.address + path, timeout=timeout_s) as answer:
            return str(answer.read().decode())

    def metrics(self, *names: str) -> dict[str, float]:
        """Series and values; of these families only, if any are named."""
        query = "&".join(f"name[]={name}" for name in names)
        series = {}
        for line in self.get(f"/metrics?{query}" if query else "/metrics").splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                series[name] = float(value)
        return series

    def total(self, name: str, *labels: str) -> float:
        """Sum of a family's series that have these labels."""
        found = self.metrics(name).items()
        return sum(
            value
            for series, value in found
            if re.match(rf"{name}({{|$)", series) and all(x in series for x in labels)
        )

    @property
    def rss_mb(self) -> float:
        """Resident memory, MB."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE / 1e6

    @property
    def cpu_s(self) -> float:
        """Processor seconds used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def descriptors(self) -> int:
        """Open descriptors."""
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as the kernel does when memory is short."""
        self.process.kill()
        self.process.wait()

    def stop(self, timeout_s: float = 90.0) -> int:
        """End it politely; gives the exit status, or -9 where it had to be killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode


@contextlib.contextmanager
def daemon(folder: Path, config: str, **options: Any) -> Iterator[Daemon]:
    """A daemon that is stopped at the end."""
    running = Daemon(folder, config, **options)
    try:
        yield running
    finally:
        running.stop()


def until(wanted: Callable[[], bool], limit_s: float, every_s: float = 0.02) -> bool:
    """Wait for something outside; whether it came in time."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if wanted():
                return True
        time.sleep(every_s)
    return False


class Receiver(ThreadingHTTPServer):
    """A webhook that notes when each letter came; answers `status`, `delay_s` late, with `body`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, status: int = 200, delay_s: float = 0.0, body: bytes = b"", port: int = 0) -> None:
        self.status, self.delay_s, self.body = status, delay_s, body
        self.letters: list[tuple[float, dict[str, Any]]] = []
        super().__init__(("127.0.0.1", port), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are what is tested."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        came = time.time()
        time.sleep(self.server.delay_s)
        if self.server.status < 300:
            self.server.letters.append((came, json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share does not exceed; nan of nothing."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(
    title: str, rows: Sequence[Sequence[object]], head: Sequence[str] = ("what", "measured", "goal")
) -> str:
    """A Markdown table under its title."""
    lines = [f"### {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join([*lines, ""])


def replace_block(page: Path, name: str, text: str) -> None:
    """Put a text between the page's comment markers of this name.

    Raises:
        ValueError: The page has no such markers.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no lines `{begin}` and `{end}`")
    fresh = page.with_name(f".{page.name}.new")
    fresh.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")
    fresh.replace(page)


def block(page: Path, name: str) -> str:
    """What stands between the page's markers of this name."""
    return (
        page.read_text(encoding="utf-8")
        .partition(f"<!-- {name} -->")[2]
        .partition(f"<!-- end of {name} -->")[0]
    )


def ms(seconds: float) -> str:
    """Milliseconds for a table."""
    return f"{seconds * 1e3:.0f} ms" if seconds >= 0.01 else f"{seconds * 1e3:.1f} ms"
