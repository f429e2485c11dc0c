"""What the tests of following share: a naive reader behind a real `Tail`, killed and restarted at will."""

from __future__ import annotations

import gzip
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from logwatch.intake.tail import Chunk, Source, Tail
from logwatch.intake.wake import HandWaker, Waker
from logwatch.model import Notice

EVENT_S = 0.5
"""How long to wait for an event that must come; it comes within milliseconds."""


def bytes_read() -> int:
    """Bytes that this process has read so far."""
    fields = Path("/proc/self/io").read_text().split()
    return int(fields[fields.index("rchar:") + 1])


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Follower:
    """Collects the lines that a `Tail` gives, commits at will, dies at will.

    Attributes:
        lines: Complete lines by stream, in order.
        partial: Lines that ended without a newline, by stream.
        notices: All that was said.
    """

    def __init__(self, *sources: Source, watcher: str = "reconcile", **options: object) -> None:
        self.sources, self.watcher, self.options = sources, watcher, options
        self.clock = Clock()
        self.lines: dict[str, list[str]] = defaultdict(list)
        self.partial: dict[str, list[str]] = defaultdict(list)
        self.places: list[tuple[str, int, int]] = []
        self.notices: list[Notice] = []
        self._pending: dict[str, bytes] = defaultdict(bytes)
        self._saved: dict[str, str] = {}
        self._committed: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
        self._start()

    def _start(self) -> None:
        self._closed = False
        self._reading: dict[str, tuple[str, int]] = {}
        self.waker = Waker(self.notices.append) if self.watcher == "inotify" else HandWaker()
        self.tail = Tail(
            self.sources,
            dict(self._saved),
            self.notices.append,
            waker=self.waker,
            clock=self.clock,
            **self.options,
        )

    def turn(self, budget: int = 1 << 20) -> None:
        """One turn of the daemon."""
        for chunk in self.tail.read(budget):
            self._take(chunk)

    def read(self, budget: int = 1 << 20) -> None:
        """Turns until nothing is left; in inotify mode only what events point at."""
        self.turn(budget)
        while self.tail.behind or (self.watcher == "inotify" and self.waker.wait(0.02)):
            self.turn(budget)

    def await_lines(self, count: int, stream: str | None = None) -> None:
        """Turns, as events come, until so many lines were seen."""
        while sum(len(lines) for name, lines in self.lines.items() if stream in {None, name}) < count:
            assert self.watcher != "inotify" or self.waker.wait(EVENT_S), f"no event; {dict(self.lines)}"
            before = dict(self.lines)
            self.turn()
            assert self.watcher == "inotify" or self.lines != before or self.tail.behind

    def _take(self, chunk: Chunk) -> None:
        if chunk.bulk:
            assert chunk.data.endswith(b"\n")
            assert not self._pending[chunk.stream]
        held = self._pending[chunk.stream]
        if chunk.ends:
            if held:
                self.partial[chunk.stream].append(held.decode())
            self._pending[chunk.stream] = b""
            return
        goes_on = self._reading.get(chunk.stream) == (chunk.path, chunk.offset)
        assert goes_on or not held, "the daemon drops an unfinished line where a chunk does not follow on"
        self._reading[chunk.stream] = (chunk.path, chunk.offset + len(chunk.data))
        *whole, rest = (held + chunk.data).split(b"\n")
        self.lines[chunk.stream] += [line.decode() for line in whole]
        self._pending[chunk.stream] = rest
        self.places.append((chunk.path, chunk.offset, chunk.first_line))

    def commit(self) -> None:
        """What the daemon writes into its state."""
        for stream, text in self.tail.positions(lambda stream: len(self._pending[stream])).items():
            if text is None:
                self._saved.pop(stream, None)
            else:
                self._saved[stream] = text
        self._committed = (_copy(self.lines), _copy(self.partial))

    def kill(self) -> None:
        """SIGKILL and restart: everything since the last commit is forgotten."""
        self.close()
        self.lines = defaultdict(list, _copy(self._committed[0]))
        self.partial = defaultdict(list, _copy(self._committed[1]))
        self._pending.clear()
        self._start()

    def restart(self) -> None:
        """SIGTERM and restart."""
        self.commit()
        self.kill()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.tail.close()
        if isinstance(self.waker, Waker):
            self.waker.close()

    def said(self, kind: str) -> list[Notice]:
        """Notices of a kind."""
        return [notice for notice in self.notices if notice.kind.startswith(kind)]

    @property
    def all(self) -> list[str]:
        """Lines of the only stream."""
        assert len(self.lines) <= 1, dict(self.lines)
        return next(iter(self.lines.values()), [])


def _copy(lines: dict[str, list[str]]) -> dict[str, list[str]]:
    return {stream: list(each) for stream, each in lines.items()}


def serials(first: int, last: int) -> list[str]:
    """Numbered lines, each unlike all others."""
    return [f"line {number:06d} {number * 2654435761 % 2**32:08x}" for number in range(first, last + 1)]


def text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def append(path: Path, lines: Iterable[str]) -> None:
    """Write whole lines at the end, as a logger does."""
    with path.open("a") as file:
        file.write(text(lines))


def pack(path: Path) -> Path:
    """As gzip does: content and time stamp kept, the original gone."""
    packed = path.with_name(f"{path.name}.gz")
    stat = path.stat()
    with path.open("rb") as source, gzip.open(packed, "wb") as target:
        shutil.copyfileobj(source, target)
    os.utime(packed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    path.unlink()
    return packed


def copytruncate(path: Path, copy: Path) -> None:
    """As logrotate's copytruncate does."""
    shutil.copyfile(path, copy)
    os.truncate(path, 0)


def shift(path: Path, most: int = 40) -> None:
    """`a.1 -> a.2` and so on, as logrotate does before it renames the live file."""
    for number in range(most, 0, -1):
        for ending in ("", ".gz"):
            old = path.with_name(f"{path.name}.{number}{ending}")
            if old.exists():
                old.rename(path.with_name(f"{path.name}.{number + 1}{ending}"))


Steps = list[Callable[[], None]]
