"""Level 2: causes that lie in how the server was started: graphs, NCCL, settings, version (see `causes.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from logwatch.judging.case import Case, Opinion, both_short, changed, changed_settings, grew, joined, sentence
from logwatch.judging.facts import BY_PID, comparable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from logwatch.judging.facts import Facts, Sighting

_GRAPH_SETTINGS = ("disable_cuda_graph", "disable_decode_cuda_graph", "cuda_graph_backend_decode")
_SLOWING = frozenset({
    "attention_backend", "decode_attention_backend", "prefill_attention_backend", "tp_size", "dp_size",
    "ep_size", "pp_size", "kv_cache_dtype", "quantization", "dtype", "disable_custom_all_reduce",
    "enable_nccl_nvls", "enable_symm_mem", "enable_dp_attention", "moe_runner_backend", "moe_a2a_backend",
    "disable_overlap_schedule", "speculative_num_steps", "speculative_eagle_topk",
    "speculative_num_draft_tokens", "model_path", "speculative_draft_model_path", "speculative_algorithm",
    "enable_torch_compile", "page_size", "cuda_graph_max_bs", "cuda_graph_max_bs_decode",
    "max_running_requests", "mem_fraction_static",
})  # fmt: skip
_SLOWING_VARIABLES = (
    "P2P",
    "SHM",
    "PROTO",
    "ALGO",
    "NCHANNELS",
    "IB",
    "NVLS",
    "CUMEM",
    "SOCKET",
    "NET",
    "BUFFSIZE",
    "LAUNCH_BLOCKING",
)


_OWN = frozenset({"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_HOSTID", "NCCL_TOPO_FILE"})
"""Variables in which hosts, and so ranks, may differ."""


def cuda_graph_off(case: Case) -> Opinion:
    """For: decode lines or reports without a graph, a setting, a message. Against: those with one."""
    parts: list[str] = []
    score = 0.0
    for name, old, new in changed_settings(case):
        if name in _GRAPH_SETTINGS and new in {"True", "true", "disabled"}:
            parts.append(f"{name} went from {old} to {new} (line {case.after.settings_line})")
            score = 0.7
    lines, reports = _seen(case, _LINES), _seen(case, _REPORTS)
    seen = lines or reports
    if seen is not None and seen.share < 1:
        return Opinion(score * seen.share, seen.text)
    if seen is not None:
        score = min(score + 0.25, 0.98) if score and seen.lost else max(score, 0.85 if seen.lost else 0.5)
        parts.append(seen.text)
    measured = case.after.reports_on
    if lines is not None and reports is None and measured.count and measured.last >= case.onset_line:
        # A report's share is measured over all its cycles, a decode line tells of the last one.
        score, parts = score / 4, [*parts, f"but {measured.count} reports ran with a graph"]
    told = next((each for each in _messages(case) if "draft" not in each[1].lower()), None)
    if told is not None and (seen is not None or max(case.after.graph_on.last, measured.last) < told[0]):
        score = max(score, 0.6)
        parts.append(f'line {told[0]}: "{told[1][:80]}"')
    if parts:
        return Opinion(min(score, 0.98), sentence(parts))
    with_graph = (
        (case.after.graph_on, "decode lines say `cuda graph: True`"),
        (measured, "reports ran with a graph"),
    )
    return Opinion(text=", ".join(f"{each.count} {what}" for each, what in with_graph if each.count))


def _messages(case: Case) -> list[tuple[int, str]]:
    """Messages about graphs that are not used, without those that the run of before wrote as well."""
    before = {text for _, text in case.before.graph_lost} if case.before else set()
    anywhere = case.before is not None or not case.after.graph_on.count
    lost = case.after.graph_lost
    return [
        (line, text) for line, text in lost if text not in before and (anywhere or line >= case.onset_line)
    ]


@dataclass(frozen=True, slots=True)
class _Words:
    """What is said of graphs by one kind of witness."""

    few: str
    without: str
    before: str


_LINES = _Words("decode lines had no graph", "decode lines say `cuda graph: False`", "they said True")
_REPORTS = _Words("reports ran without a graph", "reports ran without a graph", "they ran with one")


class _Seen(NamedTuple):
    """Work without a graph: its share, whether there was a graph before, and how to say it."""

    share: float
    lost: bool
    text: str


def _seen(case: Case, words: _Words) -> _Seen | None:
    """What one kind of witness says against graphs; None where it says nothing."""
    on, off = _sightings(case.after, words)
    if not off.count or (case.onset_line and off.last < case.onset_line):
        return None
    was = _sightings(case.before, words)[0] if case.before else on
    if on.count and (case.before is not None or off.first < case.onset_line):
        all_ = off.count + on.count
        return _Seen(off.count / all_, lost=False, text=f"only {off.count} of {all_} {words.few}")
    if was.count:
        said = f"before {words.before} ({was.count} from line {was.first} of that run)"
        return _Seen(1, lost=True, text=f"{words.without} ({off.count} from line {off.first}), {said}")
    return _Seen(1, lost=False, text=f"all {off.count} {words.without} (line {off.first})")


def _sightings(facts: Facts, words: _Words) -> tuple[Sighting, Sighting]:
    if words is _LINES:
        return facts.graph_on, facts.graph_off
    return facts.reports_on, facts.reports_off


def draft_graph_missing(case: Case) -> Opinion:
    """For: the draft's phases grew alone, and no graph was captured for them. Against: verify grew as well."""
    larger = [name for name in ("draft_forward", "draft_extend") if case.ratios.get(name, 1.0) >= 1.3]
    if case.ratios.get("target_verify", 1.0) >= 1.15 or case.after.mostly_eager:
        return Opinion(text="target verify changed as well" if larger else "")
    captured = case.after.captured
    missing = [
        name
        for name, part in (("draft decode", "draft_forward"), ("draft extend", "draft_extend"))
        if captured
        and part in {*larger, case.phase}
        and not any(name.split()[-1] in each for each in captured)
    ]
    if case.before is not None and larger:
        missing += [name for name in case.before.captured if "draft" in name and name not in captured]
    told = next((each for each in _messages(case) if "draft" in each[1].lower()), None)
    if told:
        return Opinion(0.8, f'Line {told[0]}: "{told[1][:90]}".')
    if missing and larger:
        return Opinion(
            0.7, f"No graph was captured for {' and '.join(sorted(set(missing)))}; {grew(case, larger)}."
        )
    return Opinion(text="draft and extend graphs were captured" if captured else "")


def nccl_environment(case: Case) -> Opinion:
    """For: variables or transports that changed, or are uneven between workers. Against: all are equal."""
    parts: list[str] = []
    score = 0.0
    if case.before is not None:
        score = _variables(case, *comparable(case.before, case.after), parts)
        old_way, new_way = set(case.before.transports), set(case.after.transports)
        if old_way and new_way and old_way != new_way:
            fresh = sorted(new_way - old_way)
            lines = ", ".join(str(case.after.transports[name].first) for name in fresh)
            where = f" (line {lines})" if fresh else ""
            parts.append(f"transport went from {joined(old_way)} to {joined(new_way)}{where}")
            score = 0.95 if score else 0.85
    elif case.tuned and case.after.variables:
        score = _variables(case, *_against_tuned(case), parts)
        parts = [f"against the run that was tuned, {parts[0]}", *parts[1:]] if parts else []
    elif not case.better and (disabled := _disabled(case.after)):
        parts.append(disabled)
        score = 0.4
    uneven = _uneven(case)
    if uneven and not case.better:
        score = max(score, 0.55 if case.before is None else 0.7)
        parts.append(uneven)
    if parts:
        return Opinion(score, sentence(parts))
    if case.before is not None and case.before.variables and case.after.variables:
        return Opinion(text=f"NCCL variables and transports are equal ({len(case.after.merged())} variables)")
    if case.before is None and case.tuned and case.after.variables:
        return Opinion(text="NCCL variables are those of the run that was tuned")
    return Opinion()


def _against_tuned(case: Case) -> tuple[dict[str, str], dict[str, str]]:
    """Variables of the run that was tuned and of this one, as far as both could tell them."""
    after = case.after.merged()
    if not any(who for who in case.after.variables if not who.startswith(BY_PID)):
        return {name: value for name, value in case.tuned.items() if name.startswith("NCCL")}, after
    whole = any(not name.startswith("NCCL") for name in case.tuned)
    known = {
        name: value for name, value in after.items() if whole or name in case.tuned or name.startswith("NCCL")
    }
    return dict(case.tuned), known


def _variables(case: Case, before: Mapping[str, str], after: Mapping[str, str], parts: list[str]) -> float:
    """Add what differs between these variables to the parts; the score."""
    score = 0.0
    for name, old, new in changed(before, after):
        # Who looks for what is slow turns NCCL's messages on: that comes after the harm.
        if name.startswith(("NCCL", "CUDA", "GLOO", "NVSHMEM")) and not name.startswith("NCCL_DEBUG"):
            score = max(score, 0.6 if any(word in name for word in _SLOWING_VARIABLES) else 0.4)
            parts.append(_variable_text(name, old, new, case.after.variable_lines.get(name, 0)))
    return score


def settings_changed(case: Case) -> Opinion:
    """For: settings of the server that differ, with both values. Against: none differs."""
    different = changed_settings(case)
    if not different:
        equal = case.before is not None and case.before.settings and case.after.settings
        return Opinion(text=f"{len(case.after.settings)} server settings are equal" if equal else "")
    rest = [each for each in different if "cuda_graph" not in each[0]]
    if not rest and (case.after.graph_off.count or case.after.reports_off.count):
        return Opinion(text="only settings of CUDA graphs differ")
    different = rest or different
    slowing = [each for each in different if each[0] in _SLOWING]
    shown = sorted(different, key=lambda each: (each[0] not in _GRAPH_SETTINGS, each[0] not in _SLOWING))[:4]
    more = f" and {len(different) - 4} more" if len(different) > 4 else ""
    listed = ", ".join(
        f"{name} from {was} to {now}" for name, old, new in shown for was, now in [both_short(old, new)]
    )
    return Opinion(0.55 if slowing else 0.3, f"Changed: {listed}{more} (line {case.after.settings_line}).")


def version_changed(case: Case) -> Opinion:
    """For: another version of the engine. Against: the same one."""
    if case.before is None or case.before.version is None or case.after.version is None:
        return Opinion()
    if case.before.version == case.after.version:
        return Opinion(text=f"version {case.after.version} is the same")
    return Opinion(0.5, f"The engine went from {case.before.version} to {case.after.version}.")


def _uneven(case: Case) -> str:
    """Variables that some processes lack or hold with another value, if they did not in the run before.

    NCCL's own lines name processes, the plugin's name ranks: the same process under two names, which tell
    different variables. So each kind is compared with its like.
    """
    as_before = _uneven_names(case.before) if case.before else {}
    for (name, kind), alike in _uneven_names(case.after).items():
        if (name, kind) in as_before:
            continue
        values = [variables.get(name) for variables in alike.values()]
        if None in values:
            reached = f"{len(values) - values.count(None)} of {len(values)} {kind}"
            return f"{name} reached {reached} (line {case.after.variable_lines[name]})"
        listed = ", ".join(f"{who}: {found[name]}" for who, found in list(alike.items())[:4])
        return f"{name} differs between {kind} ({listed})"
    return ""


def _uneven_names(facts: Facts) -> dict[tuple[str, str], dict[str, dict[str, str]]]:
    """By variable and kind of process, all processes of that kind."""
    by_pid = {who: found for who, found in facts.variables.items() if who.startswith(BY_PID)}
    by_rank = {who: found for who, found in facts.variables.items() if who not in by_pid}
    return {
        (name, kind): alike
        for alike, kind in ((by_rank, "ranks"), (by_pid, "processes"))
        for name in facts.variable_lines
        if name.startswith("NCCL") and not name.startswith("NCCL_DEBUG") and name not in _OWN
        if len({variables.get(name) for variables in alike.values()}) > 1
    }


def _disabled(facts: Facts) -> str:
    """Ways of NCCL that a variable turns off, told where there is no earlier run to compare with."""
    off = {
        name: value
        for name, value in facts.merged().items()
        if name.startswith("NCCL_") and name.endswith("_DISABLE") and value != "0"
    }
    ways = f"; the transport is {joined(set(facts.transports))}" if facts.transports else ""
    listed = ", ".join(f"{name}={value} (line {facts.variable_lines[name]})" for name, value in off.items())
    return f"{listed} {'are' if len(off) > 1 else 'is'} set{ways}" if off else ""


def _variable_text(name: str, old: str | None, new: str | None, line: int) -> str:
    if old is None:
        return f"{name}={new} is new (line {line})"
    if new is None:
        return f"{name}={old} is missing"
    return f"{name} went from {old} to {new} (line {line})"
