"""Level 2: break-even. What a cycle costs, what it gives, and from where on speculation pays.

Tokens per cycle always count the bonus token (accepted drafts + 1). Throughputs are those of one request; the
baseline is measured at batch size 1, so only there (or where the batch size is unknown) may it be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logwatch.model import Cycle

_PARTS = ("draft_forward", "target_verify", "draft_extend")
_TOLERANCE = 1e-12


def breakeven_tokens_per_cycle(cycle_s: float, baseline_tokens_per_second: float) -> float:
    """Tokens per cycle at which speculation equals the baseline.

    >>> breakeven_tokens_per_cycle(0.030, 82)
    2.46
    """
    return cycle_s * baseline_tokens_per_second


def expected_tokens_per_cycle(accuracy: float, steps: int | None = None) -> float:
    """Tokens per cycle of a chain draft whose each next token is right with probability `accuracy`.

    With k steps 1 + p + ... + p^k; with unlimited steps (None) 1 / (1 - p).

    >>> expected_tokens_per_cycle(0.5, steps=2)
    1.75
    """
    if steps is None:
        return 1.0 / (1.0 - accuracy) if accuracy < 1.0 else float("inf")
    return float(sum(accuracy**power for power in range(steps + 1)))


def required_accuracy(tokens_per_cycle: float, steps: int | None = None) -> float | None:
    """Conditional accuracy a draft needs for so many tokens per cycle; None where no accuracy reaches it.

    >>> round(required_accuracy(4.5), 3)
    0.778
    >>> required_accuracy(4.5, steps=2) is None
    True
    """
    if tokens_per_cycle <= 1.0:
        return 0.0
    if steps is None:
        return 1.0 - 1.0 / tokens_per_cycle
    if tokens_per_cycle > steps + 1:
        return None
    low, high = 0.0, 1.0
    while high - low > _TOLERANCE:
        middle = (low + high) / 2
        if expected_tokens_per_cycle(middle, steps) < tokens_per_cycle:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def estimated_tokens_per_second(tokens_per_cycle: float, cycle_s: float, batch_size: float = 1.0) -> float:
    """Tokens per second of the whole batch."""
    return tokens_per_cycle * batch_size / cycle_s


def cycle_time_s(cycle: Cycle) -> float | None:
    """Seconds of one whole cycle, from the best that the report gives.

    In order: its total; the inferred cycle; draft, verify and extend; the longest phase by its share.
    """
    phases = cycle.phases_s
    for name in ("total_cycle", "inferred_cycle"):
        if phases.get(name):
            return phases[name]
    if all(name in phases for name in _PARTS):
        return sum(phases[name] for name in _PARTS)
    timed = [name for name in phases if cycle.shares.get(name)]
    if not timed:
        return None
    longest = max(timed, key=lambda name: phases[name])
    return phases[longest] / cycle.shares[longest] or None


def speculates(cycle: Cycle) -> bool:
    """Whether the cycle is one of a server that drafts: without drafts, each decode step is one token."""
    return (
        "inferred_cycle" not in cycle.phases_s
        or cycle.tokens_per_cycle != 1.0
        or cycle.conditions.num_steps is not None
    )


@dataclass(frozen=True, slots=True)
class Economics:
    """What one cycle costs and gives. None: the log or the options do not say.

    Attributes:
        estimated_tokens_per_second: Of the whole batch.
        speedup: Speculation over baseline, only at batch size 1 (or unknown).
    """

    cycle_s: float | None = None
    tokens_per_cycle: float | None = None
    baseline_tokens_per_second: float | None = None
    estimated_tokens_per_second: float | None = None
    breakeven_tokens_per_cycle: float | None = None
    speedup: float | None = None


def economics_of(cycle: Cycle, baseline_tokens_per_second: float | None = None) -> Economics:
    """Break-even of one report; nothing breaks even where nothing is drafted."""
    baseline = baseline_tokens_per_second if speculates(cycle) else None
    return economics(cycle_time_s(cycle), cycle.tokens_per_cycle, baseline, cycle.conditions.batch_size)


def economics(
    cycle_s: float | None,
    tokens_per_cycle: float | None,
    baseline_tokens_per_second: float | None = None,
    batch_size: float | None = None,
) -> Economics:
    """Break-even from numbers."""
    alone = batch_size is None or round(batch_size) == 1
    breakeven = cycle_s * baseline_tokens_per_second if cycle_s and baseline_tokens_per_second else None
    return Economics(
        cycle_s=cycle_s,
        tokens_per_cycle=tokens_per_cycle,
        baseline_tokens_per_second=baseline_tokens_per_second,
        estimated_tokens_per_second=(
            estimated_tokens_per_second(tokens_per_cycle, cycle_s, batch_size or 1.0)
            if tokens_per_cycle is not None and cycle_s
            else None
        ),
        breakeven_tokens_per_cycle=breakeven,
        speedup=tokens_per_cycle / breakeven if alone and tokens_per_cycle and breakeven else None,
    )


@dataclass(frozen=True, slots=True)
class Breakeven:
    """The answer of `logwatch breakeven`; None where the numbers given do not say.

    Attributes:
        cycle_s, baseline_tokens_per_second, target_tokens_per_second, steps: As given.
        tokens_per_cycle: As given or measured.
        breakeven_tokens_per_cycle: Tokens per cycle at which speculation equals the baseline.
        target_tokens_per_cycle: Tokens per cycle that give the target throughput.
        required_accuracy: Conditional accuracy for the target (else for break-even), unlimited steps.
        required_accuracy_at_steps: The same with `steps` draft steps; None also where no accuracy reaches it.
        estimated_tokens_per_second, speedup: What `tokens_per_cycle` gives.
    """

    cycle_s: float | None
    baseline_tokens_per_second: float | None
    target_tokens_per_second: float | None
    steps: int | None
    tokens_per_cycle: float | None
    breakeven_tokens_per_cycle: float | None
    target_tokens_per_cycle: float | None
    required_accuracy: float | None
    required_accuracy_at_steps: float | None
    estimated_tokens_per_second: float | None
    speedup: float | None


def breakeven(
    cycle_s: float | None,
    baseline_tokens_per_second: float | None = None,
    target_tokens_per_second: float | None = None,
    steps: int | None = None,
    tokens_per_cycle: float | None = None,
) -> Breakeven:
    """All break-even figures that the numbers given allow.

    >>> answer = breakeven(0.030, 82, 150)
    >>> [round(x, 3) for x in (answer.breakeven_tokens_per_cycle, answer.target_tokens_per_cycle,
    ...                        answer.required_accuracy)]
    [2.46, 4.5, 0.778]
    """
    now = economics(cycle_s, tokens_per_cycle, baseline_tokens_per_second)
    target = cycle_s * target_tokens_per_second if cycle_s and target_tokens_per_second else None
    goal = target if target is not None else now.breakeven_tokens_per_cycle
    return Breakeven(
        cycle_s=cycle_s,
        baseline_tokens_per_second=baseline_tokens_per_second,
        target_tokens_per_second=target_tokens_per_second,
        steps=steps,
        tokens_per_cycle=tokens_per_cycle,
        breakeven_tokens_per_cycle=now.breakeven_tokens_per_cycle,
        target_tokens_per_cycle=target,
        required_accuracy=None if goal is None else required_accuracy(goal),
        required_accuracy_at_steps=None if goal is None or steps is None else required_accuracy(goal, steps),
        estimated_tokens_per_second=now.estimated_tokens_per_second,
        speedup=now.speedup,
    )


def cost_sentence(now: Economics) -> str:
    """What speculation costs or gives now, one sentence for people; empty where the numbers do not say."""
    if now.breakeven_tokens_per_cycle is None or now.baseline_tokens_per_second is None:
        return ""
    need = f"break-even {now.breakeven_tokens_per_cycle:.2f} tokens a cycle"
    against = f"{now.baseline_tokens_per_second:.1f} without it"
    if now.speedup is None or now.tokens_per_cycle is None or now.cycle_s is None:
        return f"Against {now.baseline_tokens_per_second:.1f} tok/s without speculation: {need}."
    rate = now.tokens_per_cycle / now.cycle_s
    verdict = "costs more than it gives" if now.speedup < 1.0 else "is worth having"
    return (
        f"Speculation {verdict}: {rate:.1f} tok/s against {against} ({need}, now {now.tokens_per_cycle:.2f})."
    )
