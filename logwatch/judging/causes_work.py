"""Level 2: causes that lie in what the server is given to do, and in what runs beside it (see `causes.py`)."""

from __future__ import annotations

from logwatch.judging.case import SPECULATION, Case, Opinion, changed_settings, grew, sentence
from logwatch.judging.causes_server import nccl_environment, version_changed
from logwatch.judging.conditions import TOKENS

LOAD_EXPLAINS = 0.6
"""Score of `load` from which on it explains a change so well that nothing need be wrong."""

PARTS = ("draft_forward", "target_verify", "draft_extend")
_GREW = 1.10


def load(case: Case) -> Opinion:
    """For: a larger batch or a longer context. Against: neither moved."""
    found = []
    for name, (old, new), least in (("batch size", case.batch, 1.25), ("context", case.context, 1.5)):
        if old and new:
            factor = old / new if case.better else new / old
            if factor >= least:
                # Over a restart, and by the context, other things may have changed as well.
                sure = name == "batch size" and case.before is None
                text = f"the {name} went from {_count(old)} to {_count(new)}"
                found.append((LOAD_EXPLAINS if sure else 0.45, text))
    if found:
        return Opinion(max(score for score, _ in found), sentence([text for _, text in found]))
    return Opinion(text="batch size and context did not move" if case.batch[1] and case.batch[0] else "")


def _count(value: float) -> str:
    return f"{value:.4g}" if value < 1000 else f"{value:,.0f}"


def neighbour(case: Case) -> Opinion:
    """For: all phases grew alike. Against: whatever else makes them slower together, or they did not."""
    larger = {name: case.ratios[name] for name in PARTS if name in case.ratios}
    if len(larger) < 2:
        return Opinion()
    if min(larger.values()) < _GREW or max(larger.values()) / min(larger.values()) > 1.25:
        return Opinion(text="the phases did not grow alike")
    after, before = case.after, case.before
    others = {
        "graphs, settings or version changed": bool(
            after.mostly_eager or changed_settings(case) or version_changed(case).score
        ),
        "NCCL's environment changed": bool(nccl_environment(case).score),
        "the load grew": bool(load(case).score),
        "the other ranks did not slow down": bool(one_rank_slow(case).score),
    }
    if any(others.values()):
        return Opinion(text=next(text for text, holds in others.items() if holds))
    known = ["graphs on"] if after.graph_on.count or after.reports_on.count else []
    known += ["settings equal"] if before and before.settings and after.settings else []
    told = f", {' and '.join(known)}" if known else ""
    return Opinion(
        0.6,
        f"All phases grew alike{told}: {grew(case, list(larger))}. Another job on these GPUs or this host, or lower "
        "clocks, would do that.",
    )


def acceptance_dropped(case: Case) -> Opinion:
    """For: fewer tokens a cycle. Against: as many as before."""
    old, new = case.tokens
    if old is None or new is None:
        return Opinion()
    if new < 0.9 * old:
        # Of tokens a cycle it is no more than what is to be explained.
        score = 0.8 if case.phase == SPECULATION else 0.5
        return Opinion(score, f"Tokens per cycle went from {old:.2f} to {new:.2f}.")
    return Opinion(text=f"tokens per cycle stayed at {new:.2f}")


def draft_misconfigured(case: Case) -> Opinion:
    """For: exactly 1.00 tokens a cycle. Against: anything accepted."""
    new = case.tokens[1]
    if new is None or case.after.settings.get("speculative_algorithm") in {"None", ""}:
        return Opinion()
    if new <= 1.005:
        what = "Exactly 1.00 tokens a cycle: no draft token is ever accepted (hidden states or draft model?)."
        return Opinion(0.9, what)
    return Opinion(text=f"drafts are accepted ({new:.2f} tokens a cycle)" if case.phase == TOKENS else "")


def kv_pressure(case: Case) -> Opinion:
    """For: requests retracted since the onset. Against: none, or as often as before."""
    seen, before = case.after.retracts, case.before
    if seen.count and seen.last >= case.onset_line:
        if before and seen.count * before.reports <= 2 * before.retracts.count * case.after.reports:
            return Opinion(text=f"requests were retracted as often before ({before.retracts.count} times)")
        usage = f", token usage up to {case.after.usage:.2f}" if case.after.usage else ""
        score = 0.5 if before or seen.first >= case.onset_line else 0.3
        return Opinion(score, f"{seen.count} retractions of requests, the last at line {seen.last}{usage}.")
    return Opinion(text="no retractions" if case.after.graph_on.count or case.after.graph_off.count else "")


def one_rank_slow(case: Case) -> Opinion:
    """For: this rank alone is slower than the others. Against: all are alike."""
    if case.rank_excess is None:
        return Opinion()
    if case.rank_excess >= 1.15:
        return Opinion(0.75, f"This rank takes {case.rank_excess:.2f} times what the others take.")
    return Opinion(text="all ranks are alike")


def warm_up(case: Case) -> Opinion:
    """For: the first reports after a start."""
    if not case.early:
        return Opinion()
    return Opinion(0.3, "These are among the first reports after a start.")


def server_stuck(case: Case) -> Opinion:
    """For: a watchdog, crash or abort since the last line of work. Against: none in the log."""
    facts = case.after
    seen = (facts.graph_on, facts.graph_off, facts.reports_on, facts.reports_off)
    work = max(each.last for each in seen)
    line, text = facts.troubles[-1] if facts.troubles else (0, "")
    return Opinion(0.7, f'Line {line}: "{text[:90]}".') if line > work else Opinion()


def log_went_quiet(case: Case) -> Opinion:
    """For: answers go on, and nothing else is known to be wrong. Against: the server is stuck."""
    if server_stuck(case).score:
        return Opinion()
    return Opinion(
        0.3,
        "Requests are answered all the same: the log level or `decode_log_interval` may have changed, the lines may go "
        "elsewhere, or another process may answer.",
    )
