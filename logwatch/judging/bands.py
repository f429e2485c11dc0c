"""Level 1: bands and the other rules of judging, as plain values that the configuration builds.

A band is the tuned interval of one phase, for given conditions or for all. It stays a plain interval on the
measured value unless it says `when` (it then holds only there) or `per_context_token_s` (its edges then move
with the context, as attention's time does).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeAlias

from logwatch.errors import BandError, Problem
from logwatch.model import Conditions, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Wanted: TypeAlias = str | int | float | bool
"""What `when` asks of a condition: a value, a range `"4..8"`, or a version's beginning `"0.5"`."""

CONDITIONS = tuple(each.name for each in fields(Conditions))
"""The names that `when` may use."""


@dataclass(frozen=True, slots=True)
class Band:
    """The tuned interval of one phase.

    Attributes:
        phase: The phase's snake_case name.
        low_s, high_s: Edges in seconds, both inside the band; with `per_context_token_s` at context 0.
        open_after: Consecutive samples outside, on one side, that open an incident.
        resolve_after: Consecutive samples inside that resolve it.
        when: Conditions under which the band holds; an unknown condition never matches.
        severity: Given to the incidents of the side `high`.
        per_context_token_s: Seconds that both edges rise per token of context; not 0 needs a known context.

    Raises:
        BandError: With every problem of the band.

    >>> Band("target_verify", 0.018, 0.0205).limits(Conditions())
    Limits(low=0.018, centre=0.01925, high=0.0205)
    """

    phase: str
    low_s: float
    high_s: float
    open_after: int = 3
    resolve_after: int = 5
    when: Mapping[str, Wanted] = field(default_factory=dict)
    severity: str = "critical"
    per_context_token_s: float = 0.0

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise BandError(*problems)

    def holds(self, conditions: Conditions) -> bool:
        """Whether the band speaks about samples taken under these conditions."""
        if self.per_context_token_s and conditions.context_tokens is None:
            return False
        return all(_is(wanted, getattr(conditions, name)) for name, wanted in self.when.items())

    def limits(self, conditions: Conditions) -> Limits:
        """The interval at these conditions, in seconds."""
        shift = self.per_context_token_s * (conditions.context_tokens or 0.0)
        return Limits(self.low_s + shift, (self.low_s + self.high_s) / 2 + shift, self.high_s + shift)


def band_for(bands: Sequence[Band], phase: str, conditions: Conditions) -> Band | None:
    """The band that judges this phase here: of those that hold the one with most conditions, or the first."""
    best: Band | None = None
    for band in bands:
        if (
            band.phase == phase
            and (best is None or _specific(band) > _specific(best))
            and band.holds(conditions)
        ):
            best = band
    return best


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything else that judging takes from the user.

    Attributes:
        false_alarms_per_year: Of all charts of all series together.
        series: How many series share that budget (streams x ranks x charted phases).
        least_effect: Smallest change worth an incident of the charts, as a share of the level.
        least_samples: Fewest samples on which a chart may speak of a shift.
        baseline_tokens_per_second: Throughput of one request without speculation, or None.
        tuned_environment: Variables of the run that was tuned, for the causes.
    """

    false_alarms_per_year: float = 1.0
    series: int = 64
    least_effect: float = 0.005
    least_samples: int = 20
    baseline_tokens_per_second: float | None = None
    tuned_environment: Mapping[str, str] = field(default_factory=dict)


def _specific(band: Band) -> int:
    return len(band.when) + bool(band.per_context_token_s)


def _is(wanted: Wanted, found: float | str | None) -> bool:
    if found is None:
        return False
    if isinstance(wanted, bool) or isinstance(found, bool):
        return str(wanted).lower() == str(found).lower()
    if isinstance(found, str):
        return found == str(wanted) or found.startswith(f"{wanted}.")
    low, high = _range(wanted) or (math.nan, math.nan)
    return low <= round(found) <= high


def _range(wanted: Wanted) -> tuple[float, float] | None:
    """Both ends of `4`, `"4"` or `"4..8"`; None where it is none of them."""
    low, _, high = str(wanted).partition("..")
    try:
        ends = float(low), float(high or low)
    except ValueError:
        return None
    return ends if ends[0] <= ends[1] else None


def _problems(band: Band) -> list[Problem]:
    where = f"band {band.phase}"
    found: list[Problem] = []
    if not (math.isfinite(band.low_s) and math.isfinite(band.high_s) and band.low_s >= 0):
        found.append(Problem(where, "its edges must be finite times of at least 0"))
    elif band.low_s > band.high_s:
        edges = f"low {band.low_s * 1e3:g} ms is above high {band.high_s * 1e3:g} ms"
        found.append(Problem(where, edges, "swap them"))
    if band.open_after < 1 or band.resolve_after < 1:
        found.append(Problem(where, "open_after and resolve_after count samples", "use at least 1"))
    for name, wanted in band.when.items():
        if name not in CONDITIONS:
            found.append(
                Problem(where, f"`when` does not know {name!r}", f"it knows {', '.join(CONDITIONS)}")
            )
        elif name not in {"graph", "version"} and _range(wanted) is None:
            found.append(
                Problem(where, f"`when` cannot compare {name} with {wanted!r}", 'write 4, "4" or "4..8"')
            )
    return found


DEFAULT_BAND = Band("target_verify", 0.017, 0.021)
"""What holds without any configuration: the tuned ~19 ms of the field's machine."""
