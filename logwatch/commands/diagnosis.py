"""Level 6: what is wrong with SGLang's processes: variables that were lost or differ, no profile, no graphs.

`/proc` shows what a process was started with. A variable that Python sets later is not there, so what the
log says of a rank (the plugin's `environment` line, NCCL's `set by environment` lines) counts for more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from logwatch.commands.processes import Process
    from logwatch.judging.facts import Facts

TELLING = re.compile(r"(?:NCCL|CUDA|TORCH|PYTORCH|NVSHMEM|GLOO|UCX|EAGLE3|SGLANG)_")
"""Variables that can make a server slow or fast."""

OWN = frozenset(
    {"CUDA_VISIBLE_DEVICES", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "SGLANG_DP_RANK", "TORCH_NCCL_RANK"}
)
"""Variables in which ranks may differ."""

PROFILE = "EAGLE3_PROFILE"
_ON = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    Attributes:
        level: `ok`, `note` or `problem`.
        what: A sentence without its full stop.
        hint: What to do, or empty.
    """

    level: str
    what: str
    hint: str = ""


def diagnose(
    processes: Sequence[Process], facts: Facts | None = None, tuned: Mapping[str, str] | None = None
) -> list[Finding]:
    """All findings: environments first, then the profile, then graphs.

    Args:
        processes: As `sglang_processes` gives them.
        facts: What the server's log says of the run, or None.
        tuned: Variables of the run that was tuned, or empty.
    """
    ranks = [process for process in processes if process.role == "scheduler"]
    by_pid = {process.pid: process for process in processes}
    found = [Finding("note", f"{p.name}: {p.trouble}", _unseen_hint(p)) for p in processes if p.trouble]
    differences = [
        *_lost(ranks, by_pid),
        *_uneven(ranks),
        *_in_log(ranks, facts),
        *_against_tuned(ranks, facts, tuned or {}),
    ]
    seen = sum(rank.environment is not None for rank in ranks)
    if not differences and seen:
        alike = f"{seen} ranks have the variables of their parent, all alike"
        differences = [Finding("ok", alike if seen > 1 else "the rank has the variables of its parent")]
    return [*found, *differences, *_profile(ranks, facts), *_graphs(processes, facts)]


def telling(environment: Mapping[str, str] | None) -> dict[str, str]:
    """The variables that matter."""
    return {name: value for name, value in (environment or {}).items() if TELLING.match(name)}


def _unseen_hint(process: Process) -> str:
    if "overwritten" in process.trouble:
        return "start the server with SPT_NOENV=1, or look at the plugin's `environment` line in the log"
    return ""


def _names(processes: Iterable[Process]) -> str:
    names = [process.name for process in processes]
    more = f" and {len(names) - 4} more" if len(names) > 5 else ""
    return ", ".join(names[:4] if more else names) + more


def _lost(ranks: Sequence[Process], by_pid: Mapping[int, Process]) -> Iterator[Finding]:
    """What a parent has and its ranks do not."""
    lost: dict[tuple[int, str, str | None], list[Process]] = {}
    for rank in ranks:
        parent = by_pid.get(rank.parent)
        if parent is None or parent.environment is None or rank.environment is None:
            continue
        for name, value in telling(parent.environment).items():
            own = rank.environment.get(name)
            if own != value and name not in OWN:
                lost.setdefault((parent.pid, name, own), []).append(rank)
    for (pid, name, own), some in sorted(lost.items(), key=lambda item: (item[0][1], item[0][0])):
        value = telling(by_pid[pid].environment)[name]
        has = "is missing" if own is None else f"is {own}"
        yield Finding(
            "problem",
            f"{name}={value} in the parent (pid {pid}) {has} in {_names(some)}",
            "export it where the workers are started (unit, container, the job's environment), and restart",
        )


def _uneven(ranks: Sequence[Process]) -> Iterator[Finding]:
    """What some ranks have and others do not, or with another value."""
    seen = [(rank, telling(rank.environment)) for rank in ranks if rank.environment is not None]
    for name in sorted({name for _, variables in seen for name in variables} - OWN):
        values: dict[str | None, list[Process]] = {}
        for rank, variables in seen:
            values.setdefault(variables.get(name), []).append(rank)
        if len(values) > 1:
            parts = (
                f"{'missing' if value is None else value} in {_names(some)}"
                for value, some in sorted(values.items(), key=lambda item: (item[0] is None, item[0] or ""))
            )
            hint = "give all ranks the same; NCCL's behaviour is decided by all of them together"
            yield Finding("problem", f"{name} differs between ranks: {'; '.join(parts)}", hint)


def _said(process: Process, facts: Facts | None) -> dict[str, str] | None:
    """What the log says that this process really has, or None where it says nothing."""
    if facts is None:
        return None
    return facts.variables.get(process.rank or "rank 0") or facts.variables.get(f"pid {process.pid}")


def _in_log(ranks: Sequence[Process], facts: Facts | None) -> Iterator[Finding]:
    """Where the log knows better than `/proc`."""
    for rank in ranks:
        said = telling(_said(rank, facts))
        known = telling(rank.environment)
        late = sorted(name for name, value in said.items() if known.get(name) != value)
        if late and rank.environment is not None:
            values = ", ".join(f"{name}={said[name]}" for name in late)
            what = f"{rank.name} has {values} by its log: set inside the program after its start"
            yield Finding("note", what, "the log is right; /proc shows only what a process was started with")


def _against_tuned(
    ranks: Sequence[Process], facts: Facts | None, tuned: Mapping[str, str]
) -> Iterator[Finding]:
    """What the tuned run had and these ranks do not; which GPUs, and what NCCL was asked to tell, is no matter."""
    for name, value in sorted(telling(tuned).items()):
        if name in OWN or name.startswith("NCCL_DEBUG"):
            continue
        values: dict[str | None, list[Process]] = {}
        for rank in ranks:
            said = _said(rank, facts)
            if said is None and rank.environment is None:
                continue
            now = (telling(rank.environment) | (said or {})).get(name)
            if now not in value.split("|"):
                values.setdefault(now, []).append(rank)
        for now, some in values.items():
            has = "is missing" if now is None else f"is {now}"
            yield Finding(
                "problem",
                f"{name}={value} in the tuned run {has} in {_names(some)}",
                "put it back, or tune anew if the change is meant",
            )


def _profile(ranks: Sequence[Process], facts: Facts | None) -> Iterator[Finding]:
    if facts is not None and facts.reports:
        yield Finding("ok", f"the profile is on: the log holds {facts.reports} samples of this run")
        return
    known = [rank for rank in ranks if rank.environment is not None]
    off = [rank for rank in known if (rank.environment or {}).get(PROFILE, "").lower() not in _ON]
    if off and len(off) == len(known):
        hint = f"set {PROFILE}=1 in the server's environment and restart; decode lines are used until then"
        yield Finding("problem", f"the profile is off: {PROFILE} is not set in {_names(off)}", hint)
    elif known and facts is not None:
        hint = (
            "is the plugin installed beside SGLang (`pip install sglang-logwatch`)? Has it served requests?"
        )
        yield Finding("problem", f"{PROFILE} is set, but the log holds no report of this run", hint)
    elif known:
        yield Finding("ok", f"{PROFILE} is set")


def _graphs(processes: Sequence[Process], facts: Facts | None) -> Iterator[Finding]:
    hint = "remove `--disable-cuda-graph`, or raise `--cuda-graph-max-bs` above the batch size"
    for process in processes:
        if "--disable-cuda-graph" in process.arguments:
            yield Finding("problem", f"{process.name} was started with --disable-cuda-graph", hint)
    if facts is None:
        return
    on, off = facts.graph_on, facts.graph_off
    if off.count and off.last > on.last:
        what = f"no CUDA graph is used: line {off.last} of the log says `cuda graph: False`"
        yield Finding("problem", what, hint)
    elif on.count:
        share = on.count / (on.count + off.count)
        yield Finding("ok", f"CUDA graphs are used: {share:.0%} of the log's decode lines say so")
    for line, text in facts.graph_lost:
        yield Finding("problem", f"line {line} of the log: {text}", hint)
