"""Level 1: the rule of consecutive samples, for whatever has a good and a bad side.

A `Row` is what is remembered of one watched value. `count` takes one `Sample` and says whether an incident
opens, worsens or is over. Levels are compared at equal conditions: as shares of what each sample should
have been.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean, median, pstdev

from logwatch.model import Change, Limits, Moment

HISTORY = 64
"""Samples kept before an onset and since one: enough for a median, little enough for a state file."""

WORSE = 1.2
"""An open incident worsened when the newest `open_after` samples all are by this factor further out."""

STEADY = 0.01
NOISY = 0.10


@dataclass(frozen=True, slots=True)
class Rule:
    """How many samples in a row open an incident and end it, and what it is called."""

    kind: str
    phase: str
    open_after: int = 3
    resolve_after: int = 5
    severity: str = "critical"
    severity_low: str = "warning"


@dataclass(frozen=True, slots=True)
class Sample:
    """One watched value.

    Attributes:
        side: `high` or `low` where it is out, empty where it is good.
        centre: What it should have been; levels are compared as shares of it.
        usable: Whether it may count as what is usual (a warm-up may not).
        since: Where what it says began, if that was before.
    """

    value: float
    side: str
    centre: float
    here: Moment
    limits: Limits | None = None
    usable: bool = True
    since: Moment | None = None


@dataclass
class Row:
    """What is remembered of one watched value.

    Attributes:
        good: Shares of the newest samples before the stretch, oldest first.
        side: Side on which the stretch lies, or empty.
        values, shares: The stretch's newest samples: value, and value over centre.
        samples: Samples in the stretch.
        inside: Consecutive good samples since the stretch's last bad one, the first at `inside_since`.
        told: Share last told, to know what is worse.
        is_open: Whether an incident is.
    """

    good: list[float] = field(default_factory=list)
    side: str = ""
    onset: Moment = field(default_factory=lambda: Moment(0))
    values: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    samples: int = 0
    inside: int = 0
    inside_since: Moment = field(default_factory=lambda: Moment(0))
    inside_shares: list[float] = field(default_factory=list)
    told: float = 1.0
    is_open: bool = False

    @property
    def usual(self) -> float | None:
        """Share that was usual before the stretch; None where nothing came before."""
        return median(self.good) if self.good else None

    @property
    def level(self) -> float:
        """Median of the stretch, in the value's unit."""
        return median(self.values)

    @property
    def share(self) -> float:
        """Median of the stretch, as a share of what it should have been."""
        return median(self.shares)


def count(row: Row, sample: Sample, rule: Rule) -> list[Change]:
    """Take one sample: what it changes, in order. After RESOLVED the stretch is still there: `forget` it."""
    share = sample.value / sample.centre if sample.centre else 1.0
    if not sample.side:
        return _good(row, sample, rule, share)
    changes: list[Change] = []
    if row.side and sample.side != row.side:
        if row.is_open:  # it jumped to the other side: what was open here is over
            row.inside_since = sample.here
            return [Change.RESOLVED]
        forget(row)
    if not row.side:
        row.side, row.onset = sample.side, sample.since or sample.here
    row.inside, row.inside_shares = 0, []
    row.samples += 1
    _keep(row.values, sample.value)
    _keep(row.shares, share)
    if not row.is_open:
        if row.samples >= rule.open_after:
            row.is_open, row.told = True, row.share
            changes.append(Change.OPENED)
    elif _is_worse(row, rule):
        changes.append(Change.WORSENED)
    return changes


def forget(row: Row) -> None:
    """The stretch is over; what came since is good again."""
    if row.is_open:
        row.good = [*row.good, *row.inside_shares][-HISTORY:]
    row.side, row.samples, row.inside, row.is_open = "", 0, 0, False
    row.values, row.shares, row.inside_shares = [], [], []


def steadiness(row: Row) -> str:
    """Whether the stretch is steady or noise, one sentence, or empty."""
    mean = fmean(row.values)
    if len(row.values) < 2 or not mean:
        return ""
    variation = pstdev(row.values) / mean
    if variation < STEADY:
        return f"It is steady, not noise (coefficient of variation {variation * 100:.2f} %)."
    return f"It varies by {variation * 100:.0f} % from sample to sample." if variation > NOISY else ""


def _good(row: Row, sample: Sample, rule: Rule, share: float) -> list[Change]:
    if not row.is_open:
        forget(row)
        if sample.usable:
            _keep(row.good, share)
        return []
    if not row.inside:
        row.inside_since = sample.here
    row.inside += 1
    _keep(row.inside_shares, share)
    return [Change.RESOLVED] if row.inside >= rule.resolve_after else []


def _is_worse(row: Row, rule: Rule) -> bool:
    newest = row.shares[-rule.open_after :]
    further = min(newest) / max(row.told, 1e-12) if row.side == "high" else row.told / max(*newest, 1e-12)
    if further < WORSE or row.samples < 2 * rule.open_after:
        return False
    row.values, row.shares = row.values[-rule.open_after :], newest
    row.told = median(newest)
    return True


def _keep(values: list[float], value: float) -> None:
    values.append(value)
    if len(values) > HISTORY:
        del values[0]
