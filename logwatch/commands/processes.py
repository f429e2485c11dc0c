"""Level 6: SGLang's processes on this host, as `/proc` shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TITLE = "sglang::"
_TAGS = re.compile(r"(?:ATTN_CP|MOE_DP|DP|PP|TP|EP)[0-9]+")
_ORDER = ("DP", "PP", "ATTN_CP", "MOE_DP", "TP", "EP")
_LAUNCH = ("sglang.launch_server", "sglang/launch_server.py", "sglang.serve")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")

OVERWRITTEN = "its environment was overwritten by its title"
"""What happens to `/proc/PID/environ` when a long title is set: setproctitle writes into the same memory."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process.

    Attributes:
        title: `sglang::scheduler_TP0`, or the command.
        role: `scheduler` (a rank), `launcher`, or `other`.
        rank: Its tags in the usual order, or None.
        arguments: The command line, as far as a title has left it.
        environment: What it was started with, or None where that cannot be known.
        trouble: Why not, or empty.
        log: The file that its standard output goes to, or None.
    """

    pid: int
    parent: int
    title: str
    role: str
    rank: str | None = None
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None
    trouble: str = ""
    log: str | None = None

    @property
    def name(self) -> str:
        """Rank where there is one, and the process id."""
        return f"{self.rank or self.title} (pid {self.pid})"


def sglang_processes(proc: Path = Path("/proc")) -> list[Process]:
    """SGLang's ranks and launchers, and the parents of its ranks, by process id."""
    everyone = {process.pid: process for process in _all(proc)}
    ranks = [process for process in everyone.values() if process.role == "scheduler"]
    wanted = {process.pid for process in everyone.values() if process.role != "other"}
    wanted |= {process.parent for process in ranks if process.parent in everyone and process.parent > 1}
    return [_complete(everyone[pid], proc) for pid in sorted(wanted)]


def _all(proc: Path) -> Iterator[Process]:
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                arguments = _strings((entry / "cmdline").read_bytes())
                parent = int(_status(entry).get("PPid", "0"))
            except (OSError, ValueError):
                continue  # it has ended meanwhile, or may not be looked at
            if arguments:
                yield _process(int(entry.name), parent, arguments)


def _process(pid: int, parent: int, arguments: tuple[str, ...]) -> Process:
    # A title takes the place of the whole command line, sometimes padded.
    title = arguments[0].strip()
    role, rank = "other", None
    if title.startswith(f"{_TITLE}scheduler"):
        tags = _TAGS.findall(title)
        role = "scheduler"
        rank = " ".join(sorted(tags, key=lambda tag: _ORDER.index(tag.rstrip("0123456789")))) or None
    elif any(part in argument for argument in arguments for part in _LAUNCH):
        role, title = "launcher", "launcher"
    return Process(pid, parent, title, role, rank, arguments)


def _complete(process: Process, proc: Path) -> Process:
    """With its environment and its log."""
    folder = proc / str(process.pid)
    environment: dict[str, str] | None = None
    trouble = ""
    try:
        strings = _strings((folder / "environ").read_bytes())
    except OSError as error:
        trouble = f"its environment cannot be read ({error.strerror}); run this as root or as its user"
    else:
        pairs = [text for text in strings if _VARIABLE.match(text)]
        if not strings or len(pairs) < len(strings):
            trouble = OVERWRITTEN
        if len(pairs) * 2 > len(strings):
            environment = dict(text.split("=", 1) for text in pairs)
    return replace(process, environment=environment, trouble=trouble, log=_log(folder))


def _log(folder: Path) -> str | None:
    for descriptor in ("1", "2"):
        try:
            target = (folder / "fd" / descriptor).readlink()
        except OSError:
            continue
        if target.is_absolute() and target.is_file():
            return str(target)
    return None


def _strings(data: bytes) -> tuple[str, ...]:
    return tuple(part.decode("utf-8", "replace") for part in data.split(b"\0") if part)


def _status(folder: Path) -> dict[str, str]:
    lines = (folder / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
