"""Level 2: likely causes, a table of rules.

Each rule looks at one `Case` (a change between a before and an after) and answers with a score and the
evidence that the log gives for it, or with what speaks against it. At most three causes are named, best
first; where none is left, `unknown` says what was ruled out. Rules and their sources:

| cause | speaks for it | speaks against it | source |
|---|---|---|---|
| `cuda_graph_off` | work without a graph, a setting, a message | those with one, as before | REPORTS 13-15 |
| `draft_graph_missing` | draft or extend grew alone, no graph captured | verify grew as well | REPORTS 17 |
| `nccl_environment` | variables or transport changed, untuned, uneven | all equal, as before | REPORTS 35-41 |
| `settings_changed` | server settings that differ, both values | none differs | REPORTS 33 |
| `version_changed` | another engine version | the same one | REPORTS 23 |
| `load` | a larger batch or a longer context | neither moved | REPORTS 31 |
| `neighbour` | verify, draft and extend grew alike | graphs, settings, NCCL, version or load changed | h200/burn.py |
| `acceptance_dropped` | fewer tokens a cycle (never of a time) | tokens unchanged | REPORTS 20-27 |
| `draft_misconfigured` | exactly 1.00 tokens a cycle | anything accepted, speculation off | REPORTS 22 |
| `kv_pressure` | requests retracted since | none, or as often before | SHAPES 4 |
| `one_rank_slow` | this rank alone is slower than the others | all alike | REPORTS 43 |
| `warm_up` | the first reports after a start | later reports, another cause | h200/README |

and, where the log went silent,

| `server_stuck` | a watchdog, crash or abort since the last line of work | none | SHAPES 4 |
| `log_went_quiet` | answers go on, nothing else is wrong | the server is stuck | REPORTS 44 |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwatch.judging import causes_server as server
from logwatch.judging import causes_work as work
from logwatch.model import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from logwatch.judging.case import Case, Opinion

MOST = 3
LEAST_SCORE = 0.25
AGAINST_BEST = 0.5
SILENT = "samples"
"""What an incident of silence is about."""

RULES: Mapping[str, Callable[[Case], Opinion]] = {
    "cuda_graph_off": server.cuda_graph_off,
    "draft_graph_missing": server.draft_graph_missing,
    "nccl_environment": server.nccl_environment,
    "settings_changed": server.settings_changed,
    "version_changed": server.version_changed,
    "load": work.load,
    "neighbour": work.neighbour,
    "acceptance_dropped": work.acceptance_dropped,
    "draft_misconfigured": work.draft_misconfigured,
    "kv_pressure": work.kv_pressure,
    "one_rank_slow": work.one_rank_slow,
    "warm_up": work.warm_up,
}

SLOWING = frozenset(
    {"cuda_graph_off", "draft_graph_missing", "neighbour", "kv_pressure", "one_rank_slow", "warm_up"}
)
"""What can only make a server slower."""

SILENCE: Mapping[str, Callable[[Case], Opinion]] = {
    "server_stuck": work.server_stuck,
    "settings_changed": server.settings_changed,
    "version_changed": server.version_changed,
    "log_went_quiet": work.log_went_quiet,
}
"""Of a log that holds no samples any more little else can be said."""


def likely_causes(case: Case) -> tuple[Cause, ...]:
    """At most three causes, best first; never empty: `unknown` says what was ruled out."""
    opinions = {name: rule(case) for name, rule in _asked(case).items()}
    found = [
        Cause(name, opinion.text, round(opinion.score, 2))
        for name, opinion in opinions.items()
        if opinion.score >= LEAST_SCORE
    ]
    if len(found) > 1:  # that it has just begun is worth a word where there is no other
        found = [cause for cause in found if cause.cause != "warm_up"]
    found.sort(key=lambda cause: -cause.score)
    if found:
        return tuple(cause for cause in found[:MOST] if cause.score >= AGAINST_BEST * found[0].score)
    ruled_out = [f"{name}: {opinion.text.rstrip('.')}" for name, opinion in opinions.items() if opinion.text]
    if ruled_out:
        return (Cause("unknown", f"Ruled out: {'; '.join(ruled_out)}.", 0.0),)
    return (Cause("unknown", "The log says nothing of settings, graphs or NCCL.", 0.0),)


def _asked(case: Case) -> Mapping[str, Callable[[Case], Opinion]]:
    """The rules that may explain this at all: what harms makes nothing better, and drafts that fail nothing slower."""
    if case.phase == SILENT:
        return SILENCE
    wanted = {"settings_changed", "version_changed"}
    if case.timed:
        wanted |= {"nccl_environment", "load"}
    if case.timed and not case.better:
        wanted |= SLOWING
    if case.drafted and not case.better:
        wanted |= {"acceptance_dropped", "draft_misconfigured"}
    if case.phase == "cuda_graph":
        wanted |= {"cuda_graph_off"}
    return {name: rule for name, rule in RULES.items() if name in wanted}


def load_explains(causes: tuple[Cause, ...]) -> bool:
    """Whether the load is the best cause, and a good one: then nothing need be wrong."""
    return causes[0].cause == "load" and causes[0].score >= work.LOAD_EXPLAINS
