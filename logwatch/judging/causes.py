"""Level 2: likely causes, a table of rules.

Each rule looks at one `Case` (a change between a before and an after) and answers with a score and the
evidence that the log gives for it, or with what speaks against it. At most three causes are named, best
first; where none is left, `unknown` says what was ruled out. Rules and their sources:

| cause | speaks for it | speaks against it | source |
|---|---|---|---|
| `cuda_graph_off` | decode lines without a graph, a setting, a message | lines with one | REPORTS 13-15 |
| `draft_graph_missing` | draft or extend grew alone, no graph captured | verify grew as well | REPORTS 17 |
| `nccl_environment` | variables or transport changed or are uneven | all equal | REPORTS 35-41 |
| `settings_changed` | server settings that differ, both values | none differs | REPORTS 33 |
| `version_changed` | another engine version | the same one | REPORTS 23 |
| `load` | a larger batch or a longer context | neither moved | REPORTS 31 |
| `neighbour` | verify, draft and extend grew alike | graphs, settings, NCCL changed | h200/burn.py |
| `acceptance_dropped` | fewer tokens a cycle at equal cycle time | tokens unchanged | REPORTS 20-27 |
| `draft_misconfigured` | exactly 1.00 tokens a cycle | anything accepted | REPORTS 22 |
| `kv_pressure` | requests retracted since | none | SHAPES 4 |
| `one_rank_slow` | this rank alone is slower than the others | all alike | REPORTS 43 |
| `warm_up` | the first reports after a start | later reports | h200/README |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logwatch.judging.conditions import TOKENS
from logwatch.judging.facts import BY_PID
from logwatch.model import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from logwatch.judging.facts import Facts

MOST = 3
LEAST_SCORE = 0.25
AGAINST_BEST = 0.5
LOAD_EXPLAINS = 0.6
"""Score of `load` from which on it explains a change so well that nothing need be wrong."""

GREW = 1.10
_GOOD_IF_HIGH = (TOKENS, "speculation", "cuda_graph")
PARTS = ("draft_forward", "target_verify", "draft_extend")
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
)


@dataclass(frozen=True, slots=True)
class Case:
    """A change to be explained.

    Attributes:
        phase: What changed; `direction` `high` or `low`.
        ratios: After over before of every phase, as far as known.
        tokens, batch, context: (before, after), None where unknown.
        before: Facts of the run before the change; None where nothing came before, or it is the same run.
        after: Facts of the run after it.
        onset_line: Where it began in the after's log, 0 where the whole run is meant.
        rank_excess: This rank's level over the other ranks' median.
        early: The change is in the first reports after a start.
    """

    phase: str
    direction: str
    after: Facts
    before: Facts | None = None
    ratios: Mapping[str, float] = field(default_factory=dict)
    tokens: tuple[float | None, float | None] = (None, None)
    batch: tuple[float | None, float | None] = (None, None)
    context: tuple[float | None, float | None] = (None, None)
    onset_line: int = 0
    rank_excess: float | None = None
    early: bool = False


@dataclass(frozen=True, slots=True)
class Opinion:
    """A rule's answer: a score with evidence, or 0 and what speaks against (empty: nothing known)."""

    score: float = 0.0
    text: str = ""


def likely_causes(case: Case) -> tuple[Cause, ...]:
    """At most three causes, best first; never empty: `unknown` says what was ruled out."""
    opinions = {name: rule(case) for name, rule in RULES.items()}
    found = [
        Cause(name, opinion.text, round(opinion.score, 2))
        for name, opinion in opinions.items()
        if opinion.score >= LEAST_SCORE
    ]
    found.sort(key=lambda cause: -cause.score)
    if found:
        return tuple(cause for cause in found[:MOST] if cause.score >= AGAINST_BEST * found[0].score)
    ruled_out = [f"{name}: {opinion.text}" for name, opinion in opinions.items() if opinion.text]
    told = "; ".join(ruled_out) if ruled_out else "the log says nothing of settings, graphs or NCCL"
    return (Cause("unknown", f"Ruled out: {told}.", 0.0),)


def load_explains(causes: tuple[Cause, ...]) -> bool:
    """Whether the load is the best cause, and a good one: then nothing need be wrong."""
    return causes[0].cause == "load" and causes[0].score >= LOAD_EXPLAINS


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str | None, str | None]]:
    """What differs: (name, before, after), None where it is missing."""
    names = sorted({*before, *after})
    return [(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)]


def _cuda_graph_off(case: Case) -> Opinion:
    off, on = case.after.graph_off, case.after.graph_on
    parts: list[str] = []
    score = 0.0
    for name, old, new in _changed_settings(case):
        if name in _GRAPH_SETTINGS and new in {"True", "true", "disabled"}:
            parts.append(f"{name} went from {old} to {new} (line {case.after.settings_line})")
            score = 0.7
    if off.count and (case.onset_line == 0 or off.last >= case.onset_line):
        was = case.before.graph_on if case.before else on
        if on.count and (case.before is not None or off.first < case.onset_line):
            share = off.count / (off.count + on.count)
            return Opinion(
                score * share, f"only {off.count} of {off.count + on.count} decode lines had no graph"
            )
        if was.count:
            score += 0.25 if score else 0.85
            parts.append(
                f"decode lines say `cuda graph: False` ({off.count} from line {off.first}), "
                f"before they said True ({was.count} from line {was.first} of that run)"
            )
        else:
            score = max(score, 0.5)
            parts.append(f"all {off.count} decode lines say `cuda graph: False` (line {off.first})")
    for line, text in case.after.graph_lost:
        if line >= case.onset_line or case.before is not None or not on.count:
            score = max(score, 0.6)
            parts.append(f'line {line}: "{text[:80]}"')
            break
    if parts:
        faster = case.direction == "low" and case.phase not in _GOOD_IF_HIGH
        return Opinion(0.0 if faster else min(score, 0.98), _sentence(parts))
    return Opinion(text=f"{on.count} decode lines say `cuda graph: True`" if on.count else "")


def _draft_graph_missing(case: Case) -> Opinion:
    grew = [name for name in ("draft_forward", "draft_extend") if case.ratios.get(name, 1.0) >= 1.3]
    if (
        case.ratios.get("target_verify", 1.0) >= 1.15
        or case.after.graph_off.count > case.after.graph_on.count
    ):
        return Opinion(text="target verify changed as well" if grew else "")
    captured = case.after.captured
    missing = [
        name
        for name, part in (("draft decode", "draft_forward"), ("draft extend", "draft_extend"))
        if captured and part in {*grew, case.phase} and not any(name.split()[-1] in each for each in captured)
    ]
    if case.before is not None and grew:
        missing += [name for name in case.before.captured if "draft" in name and name not in captured]
    told = next(((line, text) for line, text in case.after.graph_lost if "draft" in text.lower()), None)
    if told:
        return Opinion(0.8, f'Line {told[0]}: "{told[1][:90]}".')
    if missing and grew:
        return Opinion(
            0.7, f"No graph was captured for {' and '.join(sorted(set(missing)))}; {_grew(case, grew)}."
        )
    return Opinion(text="draft and extend graphs were captured" if captured else "")


def _nccl_environment(case: Case) -> Opinion:
    parts: list[str] = []
    score = 0.0
    if case.before is not None:
        if case.before.variables and case.after.variables:
            for name, old, new in changed(case.before.merged(), case.after.merged()):
                if not name.startswith(("NCCL", "CUDA", "GLOO", "NVSHMEM")):
                    continue
                line = case.after.variable_lines.get(name, 0)
                weight = 0.6 if any(word in name for word in _SLOWING_VARIABLES) else 0.4
                score = max(score, weight)
                parts.append(_variable_text(name, old, new, line))
        old_way, new_way = set(case.before.transports), set(case.after.transports)
        if old_way and new_way and old_way != new_way:
            fresh = sorted(new_way - old_way)
            lines = ", ".join(str(case.after.transports[name].first) for name in fresh)
            where = f" (line {lines})" if fresh else ""
            parts.append(f"transport went from {_joined(old_way)} to {_joined(new_way)}{where}")
            score = 0.95 if score else 0.85
    elif disabled := _disabled(case.after):
        parts.append(disabled)
        score = 0.4
    uneven = _uneven(case.after)
    if uneven:
        score = max(score, 0.55 if case.before is None else 0.7)
        parts.append(uneven)
    if parts:
        return Opinion(score, _sentence(parts))
    if case.before is not None and case.before.variables and case.after.variables:
        return Opinion(text=f"NCCL variables and transports are equal ({len(case.after.merged())} variables)")
    return Opinion()


def _settings_changed(case: Case) -> Opinion:
    different = _changed_settings(case)
    if not different:
        equal = case.before is not None and case.before.settings and case.after.settings
        return Opinion(text=f"{len(case.after.settings)} server settings are equal" if equal else "")
    rest = [each for each in different if "cuda_graph" not in each[0]]
    if not rest and case.after.graph_off.count:
        return Opinion(text="only settings of CUDA graphs differ")
    different = rest or different
    slowing = [each for each in different if each[0] in _SLOWING]
    shown = sorted(different, key=lambda each: each[0] not in _SLOWING)[:4]
    more = f" and {len(different) - 4} more" if len(different) > 4 else ""
    listed = ", ".join(f"{name} from {_short(old)} to {_short(new)}" for name, old, new in shown)
    return Opinion(0.55 if slowing else 0.3, f"Changed: {listed}{more} (line {case.after.settings_line}).")


def _version_changed(case: Case) -> Opinion:
    if case.before is None or case.before.version is None or case.after.version is None:
        return Opinion()
    if case.before.version == case.after.version:
        return Opinion(text=f"version {case.after.version} is the same")
    return Opinion(0.5, f"The engine went from {case.before.version} to {case.after.version}.")


def _load(case: Case) -> Opinion:
    if case.phase == TOKENS:
        return Opinion()
    found = []
    for name, (old, new), least in (("batch size", case.batch, 1.25), ("context", case.context, 1.5)):
        if old and new:
            factor = new / old if case.direction == "high" else old / new
            if factor >= least:
                # Over a restart, and by the context, other things may have changed as well.
                sure = name == "batch size" and case.before is None
                text = f"the {name} went from {old:.4g} to {new:.4g}"
                found.append((LOAD_EXPLAINS if sure else 0.45, text))
    if found:
        return Opinion(max(score for score, _ in found), _sentence([text for _, text in found]))
    return Opinion(text="batch size and context did not move" if case.batch[1] and case.batch[0] else "")


def _neighbour(case: Case) -> Opinion:
    grew = {name: case.ratios[name] for name in PARTS if name in case.ratios}
    if len(grew) < 2 or min(grew.values()) < GREW:
        return Opinion(text="the phases did not grow alike" if len(grew) > 1 else "")
    if max(grew.values()) / min(grew.values()) > 1.25:
        return Opinion(text="the phases did not grow alike")
    if case.after.graph_off.count > case.after.graph_on.count or _changed_settings(case):
        return Opinion(text="graphs or settings changed")
    if case.before and set(case.before.transports) != set(case.after.transports):
        return Opinion(text="the transport changed")
    return Opinion(0.6, f"All phases grew alike, graphs on and settings equal: {_grew(case, list(grew))}.")


def _acceptance_dropped(case: Case) -> Opinion:
    old, new = case.tokens
    if old is None or new is None:
        return Opinion()
    if new < 0.9 * old and case.direction == ("low" if case.phase == TOKENS else case.direction):
        score = 0.8 if case.phase in {TOKENS, "speculation"} else 0.3
        return Opinion(score, f"Tokens per cycle went from {old:.2f} to {new:.2f}.")
    return Opinion(text=f"tokens per cycle stayed at {new:.2f}")


def _draft_misconfigured(case: Case) -> Opinion:
    new = case.tokens[1]
    if new is None:
        return Opinion()
    if new <= 1.005:
        what = _sentence(
            ["exactly 1.00 tokens a cycle: no draft token is ever accepted (hidden states or draft model?)"]
        )
        return Opinion(0.9 if case.phase in {TOKENS, "speculation"} else 0.4, what)
    return Opinion(text=f"drafts are accepted ({new:.2f} tokens a cycle)" if case.phase == TOKENS else "")


def _kv_pressure(case: Case) -> Opinion:
    seen = case.after.retracts
    if seen.count and seen.last >= case.onset_line:
        usage = f", token usage up to {case.after.usage:.2f}" if case.after.usage else ""
        return Opinion(0.5, f"{seen.count} retractions of requests, the last at line {seen.last}{usage}.")
    return Opinion(text="no retractions" if case.after.graph_on.count or case.after.graph_off.count else "")


def _one_rank_slow(case: Case) -> Opinion:
    if case.rank_excess is None:
        return Opinion()
    if case.rank_excess >= 1.15:
        return Opinion(0.75, f"This rank takes {case.rank_excess:.2f} times what the others take.")
    return Opinion(text="all ranks are alike")


def _warm_up(case: Case) -> Opinion:
    if not case.early or case.direction == "low":
        return Opinion()
    return Opinion(0.3, "These are among the first reports after a start.")


RULES: Mapping[str, Callable[[Case], Opinion]] = {
    "cuda_graph_off": _cuda_graph_off,
    "draft_graph_missing": _draft_graph_missing,
    "nccl_environment": _nccl_environment,
    "settings_changed": _settings_changed,
    "version_changed": _version_changed,
    "load": _load,
    "neighbour": _neighbour,
    "acceptance_dropped": _acceptance_dropped,
    "draft_misconfigured": _draft_misconfigured,
    "kv_pressure": _kv_pressure,
    "one_rank_slow": _one_rank_slow,
    "warm_up": _warm_up,
}


def _changed_settings(case: Case) -> list[tuple[str, str | None, str | None]]:
    if case.before is None or not case.before.settings or not case.after.settings:
        return []
    return changed(case.before.settings, case.after.settings)


def _uneven(facts: Facts) -> str:
    """Variables that some processes lack or hold with another value.

    NCCL's own lines name processes, the plugin's name ranks: the same process under two names, which tell
    different variables. So each kind is compared with its like.
    """
    by_pid = {who: found for who, found in facts.variables.items() if who.startswith(BY_PID)}
    by_rank = {who: found for who, found in facts.variables.items() if who not in by_pid}
    for alike, kind in ((by_rank, "ranks"), (by_pid, "processes")):
        for name, line in facts.variable_lines.items():
            values = [variables.get(name) for variables in alike.values()]
            if not name.startswith("NCCL") or len(set(values)) < 2:
                continue
            if None in values:
                return (
                    f"{name} reached {len(values) - values.count(None)} of {len(values)} {kind} (line {line})"
                )
            listed = ", ".join(f"{who}: {found[name]}" for who, found in list(alike.items())[:4])
            return f"{name} differs between {kind} ({listed})"
    return ""


def _disabled(facts: Facts) -> str:
    """Ways of NCCL that a variable turns off, told where there is no earlier run to compare with."""
    off = {
        name: value
        for name, value in facts.merged().items()
        if name.startswith("NCCL_") and name.endswith("_DISABLE") and value != "0"
    }
    ways = f"; the transport is {_joined(set(facts.transports))}" if facts.transports else ""
    listed = ", ".join(f"{name}={value} (line {facts.variable_lines[name]})" for name, value in off.items())
    return f"{listed} {'are' if len(off) > 1 else 'is'} set{ways}" if off else ""


def _variable_text(name: str, old: str | None, new: str | None, line: int) -> str:
    if old is None:
        return f"{name}={new} is new (line {line})"
    if new is None:
        return f"{name}={old} is missing"
    return f"{name} went from {old} to {new} (line {line})"


def _grew(case: Case, names: list[str]) -> str:
    return ", ".join(f"{name} x {case.ratios[name]:.2f}" for name in names)


def _joined(names: set[str]) -> str:
    return " + ".join(sorted(names))


def _short(value: str | None) -> str:
    text = "nothing" if value is None else value
    return text if len(text) <= 40 else f"{text[:37]}..."


def _sentence(parts: list[str]) -> str:
    text = "; ".join(parts)
    plain = "_" not in text.split(maxsplit=1)[0]  # a variable's or a setting's name stays as it is written
    return f"{text[0].upper() if plain else text[0]}{text[1:]}."
