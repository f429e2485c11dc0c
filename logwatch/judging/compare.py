"""Level 2: two runs compared at equal conditions: what changed, how surely, how much, and the likely cause.

Each phase is compared within each batch size that both runs know, at a common context: each run's own
robust line moves its samples there. The evidence of all batch sizes counts; the shift is told for the best
known one. The draft's shape, graphs and versions are not made equal: they are what may have changed.

Imports numpy and scipy: for commands, never on the watch path.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from logwatch.judging.baseline import grid_step, robust_line
from logwatch.judging.case import Case, changed
from logwatch.judging.causes import likely_causes
from logwatch.judging.causes_work import PARTS
from logwatch.judging.conditions import TOKENS, WHOLE
from logwatch.judging.economics import Economics, cycle_time_s, economics, speculates
from logwatch.judging.facts import comparable
from logwatch.judging.ranktests import (
    Difference,
    Stratum,
    difference,
    p_value,
    shape_p_value,
    spread_over_grid,
)
from logwatch.judging.runs import Observed, Run, series_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from logwatch.judging.facts import Facts
    from logwatch.model import Cause

FLOOR = 0.02
ALPHA = 0.01
FEWEST = 4
SHAPE_FROM = 20
POWER_Z = 2.58 + 0.84
"""Standard errors between nothing and an effect that is found four times in five at the 1 % level."""

LINE_FROM = 8
SURE_SLOPE = 4.0


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """One phase before and after, at equal conditions.

    Attributes:
        conditions: The batch size told of; `context` the common context, None where it did not matter.
        before, after: Medians at these conditions, seconds (tokens per cycle: tokens).
        shift, low, high: Hodges-Lehmann shift and its 95 % interval.
        verdict: `changed`, `same` or `cannot_tell`.
        needed: Samples on each side that would tell, where it cannot be told.
        explains: Share of the whole cycle's change, or None.
        spread_p_value: Of another shape around the median.
    """

    phase: str
    conditions: str
    context: float | None
    samples: tuple[int, int]
    before: float
    after: float
    shift: float
    low: float
    high: float
    p_value: float
    verdict: str
    needed: int | None = None
    explains: float | None = None
    spread_p_value: float | None = None

    @property
    def ratio(self) -> float:
        """What the shift makes of the level before."""
        return 1 + self.shift / self.before if self.before else 1.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs compared.

    Attributes:
        verdict: `changed` where any phase or the tokens changed, `same` where all that can be told are, else
            `cannot_tell`.
        settings, environment: (name, before, after), None where missing; transports count as environment.
        economics: Before and after.
        notes: What a reader must know: conditions that were not comparable.
    """

    good: str
    bad: str
    verdict: str
    phases: tuple[PhaseChange, ...]
    settings: tuple[tuple[str, str | None, str | None], ...]
    environment: tuple[tuple[str, str | None, str | None], ...]
    causes: tuple[Cause, ...]
    economics: tuple[Economics, Economics]
    notes: tuple[str, ...] = field(default=())


def compare(
    good: Run,
    bad: Run,
    *,
    floor: float = FLOOR,
    alpha: float = ALPHA,
    baseline_tokens_per_second: float | None = None,
) -> Comparison:
    """Compare two runs that have samples."""
    before, after = series_of(good), series_of(bad)
    notes: list[str] = []
    found: list[PhaseChange] = []
    for phase in dict.fromkeys([*before, *after]):
        if phase not in before or phase not in after:
            continue
        change = _phase(phase, before[phase], after[phase], floor, alpha)
        if isinstance(change, str):
            notes.append(change)
        else:
            found.append(change)
    notes += _missing(good, bad, before, after)
    notes += [
        f"The {which} log is of a server without speculation: one token a step."
        for which, run in (("first", good), ("second", bad))
        if not any(map(speculates, run.cycles))
    ]
    phases = tuple(_explained(sorted(found, key=lambda each: _order(each.phase))))
    verdict = _verdict(phases)
    return Comparison(
        good=good.label,
        bad=bad.label,
        verdict=verdict,
        phases=phases,
        settings=tuple(changed(good.facts.settings, bad.facts.settings)),
        environment=tuple(environment_changes(good.facts, bad.facts)),
        causes=_causes(good, bad, phases) if verdict == "changed" else (),
        economics=(
            _economics(good, phases, baseline_tokens_per_second),
            _economics(bad, phases, baseline_tokens_per_second),
        ),
        notes=tuple(notes),
    )


def _missing(good: Run, bad: Run, before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    """Phases that cannot be compared, because one of the logs has no sample of them that counts."""
    for which, other, run, here, there in (
        ("first", "second", good, before, after),
        ("second", "first", bad, after, before),
    ):
        lacking = [phase for phase in there if phase not in here]
        written = {phase for each in run.cycles for phase in each.phases_s}
        written |= {TOKENS for each in run.cycles if each.tokens_per_cycle is not None}
        only = [phase for phase in lacking if phase not in written]
        early = [phase for phase in lacking if phase in written]
        if only:
            yield f"Only in the {other} log: {', '.join(only)}."
        if early:
            yield (
                f"The {which} log has too few reports of {', '.join(early)}: the first after a start or a change of "
                "the batch do not count."
            )


def environment_changes(before: Facts, after: Facts) -> list[tuple[str, str | None, str | None]]:
    """Variables, transports and networks that differ; nothing where one of the logs is silent about them."""
    found: list[tuple[str, str | None, str | None]] = []
    found += changed(*comparable(before, after))
    for name, old, new in (
        ("transport", before.transports, after.transports),
        ("network", before.networks, after.networks),
    ):
        if old and new and set(old) != set(new):
            found.append((name, " + ".join(sorted(old)), " + ".join(sorted(new))))
    return found


def at_common_context(samples: list[Observed], context: float | None) -> list[float]:
    """Values moved along the samples' own line to this context; as they are where no line can be seen."""
    values = [each.value for each in samples]
    contexts = [each.context for each in samples if each.context is not None]
    if context is None or len(contexts) < max(len(values), LINE_FROM):
        return values
    slope, error = robust_line(values, contexts, grid_step(values))
    if abs(slope) < SURE_SLOPE * error:
        return values
    return [value - slope * (x - context) for value, x in zip(values, contexts, strict=True)]


def _phase(
    phase: str,
    before: dict[str, list[Observed]],
    after: dict[str, list[Observed]],
    floor: float,
    alpha: float,
) -> PhaseChange | str:
    """The change over all batch sizes that both know, told for the best known; or why there is none."""
    old, new = _by_batch(before), _by_batch(after)
    common = [name for name in old if name in new and min(len(old[name]), len(new[name])) >= 2]
    if not common:
        return (
            f"{phase}: no common conditions with 2 samples ({_counted(old)} in the first, {_counted(new)} "
            "in the second log)."
        )
    strata = {name: _stratum(old[name], new[name]) for name in common}
    name = max(common, key=lambda each: min(len(old[each]), len(new[each])))
    stratum, context = strata[name]
    found = difference(stratum)
    p = p_value([each for each, _ in strata.values()])
    level = float(np.median(stratum.a))
    smaller = min(len(stratum.a), len(stratum.b))
    verdict, needed = _judge(found, p, abs(level) or 1.0, smaller, floor, alpha)
    shape = (
        shape_p_value(stratum.a, stratum.b, (found.time_a, found.time_b)) if smaller >= SHAPE_FROM else None
    )
    return PhaseChange(
        phase=phase,
        conditions=name,
        context=context,
        samples=(len(stratum.a), len(stratum.b)),
        before=median(_values(old[name], context)),
        after=median(_values(new[name], context)),
        shift=found.shift,
        low=found.low,
        high=found.high,
        p_value=p,
        verdict=verdict,
        needed=needed,
        spread_p_value=shape,
    )


def _values(samples: list[Observed], context: float | None) -> list[float]:
    return at_common_context(samples, context)


def _stratum(old: list[Observed], new: list[Observed]) -> tuple[Stratum, float | None]:
    """Both sides at their common median context, which is None where the context did not matter."""
    known = [each.context for each in (*old, *new) if each.context is not None]
    context = median(known) if len(known) == len(old) + len(new) else None
    a, b = at_common_context(old, context), at_common_context(new, context)
    plain_a, plain_b = [each.value for each in old], [each.value for each in new]
    step = max(grid_step(plain_a), grid_step(plain_b))
    moved = a != plain_a or b != plain_b
    stratum = Stratum(spread_over_grid(np.array(a), step, 7), spread_over_grid(np.array(b), step, 11))
    return stratum, context if moved else None


def _counted(groups: dict[str, list[Observed]]) -> str:
    return ", ".join(f"{name or 'any batch'}: {len(samples)}" for name, samples in groups.items())


def _by_batch(series: dict[str, list[Observed]]) -> dict[str, list[Observed]]:
    """Buckets by their batch size alone: the draft's shape may be what changed."""
    found: dict[str, list[Observed]] = {}
    for bucket, samples in series.items():
        batch = next((part for part in bucket.split(",") if part.startswith("batch_size")), "")
        found.setdefault(batch, []).extend(samples)
    return found


def _judge(
    found: Difference, p: float, level: float, samples: int, floor: float, alpha: float
) -> tuple[str, int | None]:
    if p < alpha and abs(found.shift) >= floor * level:
        return "changed", None
    edge = floor * level
    half = max((found.high - found.low) / 2, 1e-12)
    if samples >= FEWEST and -edge <= found.low and found.high <= edge:
        return "same", None
    error = half / 1.96 * math.sqrt(samples)
    goal = max(abs(found.shift), edge)
    needed = math.ceil((POWER_Z * error / goal) ** 2)
    return "cannot_tell", max(needed, samples + 1, 6)


def _explained(phases: list[PhaseChange]) -> list[PhaseChange]:
    """Each part's share of the change of all parts together."""
    total = sum(each.shift for each in phases if each.phase not in (*WHOLE, TOKENS))
    if not total:
        return phases
    return [
        each if each.phase in (*WHOLE, TOKENS) else replace(each, explains=each.shift / total)
        for each in phases
    ]


def _verdict(phases: tuple[PhaseChange, ...]) -> str:
    verdicts = {each.verdict for each in phases}
    if "changed" in verdicts:
        return "changed"
    main = [each for each in phases if each.phase in {"target_verify", *WHOLE}] or list(phases)
    return "same" if main and all(each.verdict == "same" for each in main) else "cannot_tell"


def _causes(good: Run, bad: Run, phases: tuple[PhaseChange, ...]) -> tuple[Cause, ...]:
    moved = [each for each in phases if each.verdict == "changed"]
    parts = [each for each in moved if each.phase not in (*WHOLE, TOKENS)]
    main = max(parts or moved, key=lambda each: abs(each.shift))
    tokens = next((each for each in phases if each.phase == TOKENS), None)
    drafts = any(map(speculates, bad.cycles))
    return likely_causes(
        Case(
            phase=main.phase,
            direction="high" if main.shift > 0 else "low",
            after=bad.facts,
            before=good.facts,
            ratios={each.phase: each.ratio for each in phases if each.phase in PARTS},
            tokens=(tokens.before, tokens.after) if tokens and drafts else (None, None),
        )
    )


def _economics(run: Run, phases: tuple[PhaseChange, ...], baseline: float | None) -> Economics:
    """Of a run's own cycles at the batch size that was compared (its smallest where none was)."""
    named = next((each.conditions for each in phases if each.phase != TOKENS), "")
    low, _, high = named.partition("=")[2].partition("..")
    ends = (float(low), float(high or low)) if low else None
    cycles = [
        each
        for each in run.cycles
        if not each.warm_up
        and (ends is None or ends[0] <= round(each.conditions.batch_size or -1.0) <= ends[1])
    ]
    times = [time for each in cycles if (time := cycle_time_s(each)) is not None]
    tokens = [each.tokens_per_cycle for each in cycles if each.tokens_per_cycle is not None]
    return economics(
        median(times) if times else None,
        median(tokens) if tokens else None,
        baseline if any(map(speculates, cycles)) else None,
        ends[0] if ends else None,
    )


def _order(phase: str) -> int:
    return (*PARTS, *WHOLE, TOKENS).index(phase) if phase in (*PARTS, *WHOLE, TOKENS) else 1
