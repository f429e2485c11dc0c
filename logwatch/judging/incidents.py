"""Level 2: judgements to incidents: when one opens, worsens and resolves, since when, by how much.

A band opens an incident after `open_after` consecutive samples on one side of it and resolves it after
`resolve_after` consecutive samples inside; samples are counted, never seconds, so that a replay finds what
the daemon found. Levels are compared at equal conditions: as shares of the band's centre at each sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import fmean, median, pstdev
from typing import TYPE_CHECKING

from logwatch.judging.bands import DEFAULT_BAND, Band, Rules, band_for
from logwatch.judging.economics import cost_sentence, economics_of
from logwatch.model import Change, Cycle, Incident, Item, Judgement, Limits, Moment, Signal
from logwatch.units import milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HISTORY = 64
"""Samples kept before an onset and since one: enough for a median, little enough for a state file."""

WORSE = 1.2
"""An open incident worsened when the newest `open_after` samples all are by this factor further out."""

STEADY = 0.01
NOISY = 0.10


@dataclass
class Series:
    """What is remembered of one phase of one rank.

    Attributes:
        good: Value over centre of the newest samples before the stretch, oldest first.
        side: Side on which the stretch lies, or empty.
        values, shares: The stretch's newest samples: value, and value over centre.
        count: Samples in the stretch.
        inside: Consecutive samples inside since the stretch's last one outside.
        inside_since: The first of them.
        told: Share last reported, to know what is worse.
        open: The incident, while one is open.
    """

    good: list[float] = field(default_factory=list)
    side: str = ""
    onset: Moment = field(default_factory=lambda: Moment(0))
    values: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    count: int = 0
    inside: int = 0
    inside_since: Moment = field(default_factory=lambda: Moment(0))
    inside_shares: list[float] = field(default_factory=list)
    told: float = 1.0
    open: Incident | None = None


@dataclass
class IncidentsMemory:
    """What `Incidents` remembers: one `Series` for each rank and phase that a band judges."""

    series: dict[str, Series] = field(default_factory=dict)


class Incidents:
    """Turns judgements into incidents; all passes through, an incident follows the judgement that proves it.

    Args:
        bands: The same that `Judgements` has: they say how many samples open and resolve.
        rules: For the baseline throughput that speculation has to beat.
    """

    def __init__(self, bands: Sequence[Band] = (DEFAULT_BAND,), rules: Rules | None = None) -> None:
        self.bands = tuple(bands)
        self.rules = rules or Rules()
        self.memory = IncidentsMemory()

    def feed(self, item: Item) -> Iterator[Item]:
        """Pass the item on and, after a judgement, what it changed."""
        yield item
        if isinstance(item, Judgement) and item.chart == "band":
            band = band_for(self.bands, item.phase, item.cycle.conditions)
            if band is not None:
                key = f"{item.cycle.stream}/{item.cycle.rank or '-'}/{item.phase}"
                yield from self._judged(self.memory.series.setdefault(key, Series()), item, band)

    def finish(self) -> Iterator[Item]:
        """An incident that is open at the end of the input stays open."""
        return iter(())

    def _judged(self, series: Series, item: Judgement, band: Band) -> Iterator[Incident]:
        here = Moment(item.cycle.place.line, item.cycle.time)
        share = item.value / item.limits.centre if item.limits.centre else 1.0
        side = {Signal.ABOVE: "high", Signal.BELOW: "low"}.get(item.signal, "")
        if not side:
            yield from _inside(series, item, band, share, here)
            return
        if side != series.side and series.side:
            yield from _turned(series, here)
        if not series.side:
            series.side, series.onset = side, here
        series.inside, series.inside_shares = 0, []
        series.count += 1
        _keep(series.values, item.value)
        _keep(series.shares, share)
        if series.open is None:
            if series.count >= band.open_after:
                yield self._opened(series, item, band, here)
        else:
            yield from _continued(series, item, band)

    def _opened(self, series: Series, item: Judgement, band: Band, here: Moment) -> Incident:
        cycle, kind = item.cycle, "out_of_band"
        before = median(series.good) if series.good else None
        after = median(series.shares)
        series.told = after
        series.open = Incident(
            key=incident_key(cycle, item.phase, kind, series.onset),
            change=Change.OPENED,
            kind=kind,
            phase=item.phase,
            direction=series.side,
            stream=cycle.stream,
            rank=cycle.rank,
            run=cycle.run,
            severity=band.severity if series.side == "high" else "warning",
            onset=series.onset,
            noticed=here,
            resolved=None,
            before=None if before is None else before * item.limits.centre,
            after=median(series.values),
            ratio=after / (before or 1.0),
            samples=series.count,
            band=item.limits,
            detail=_detail(series, item, band, self.rules),
        )
        return series.open


def incident_key(cycle: Cycle, phase: str, kind: str, onset: Moment) -> str:
    """Key of an incident: its onset's time tells lines of different files of one stream apart."""
    at = f"{onset.line}@{onset.time}" if onset.time else f"{onset.line}"
    return f"{cycle.stream}/{cycle.rank or '-'}/{phase}/{kind}/{at}"


def _inside(series: Series, item: Judgement, band: Band, share: float, here: Moment) -> Iterator[Incident]:
    if series.open is None:
        _forget_stretch(series)
        if not item.cycle.warm_up:
            _keep(series.good, share)
        return
    if not series.inside:
        series.inside_since = here
    series.inside += 1
    _keep(series.inside_shares, share)
    if series.inside >= band.resolve_after:
        yield from _resolved(series, series.inside_since)


def _turned(series: Series, here: Moment) -> Iterator[Incident]:
    """The value jumped to the band's other side: what was open there is over."""
    if series.open is not None:
        yield from _resolved(series, here)
    else:
        _forget_stretch(series)


def _resolved(series: Series, since: Moment) -> Iterator[Incident]:
    assert series.open is not None
    yield replace(_current(series, series.open), change=Change.RESOLVED, resolved=since)
    series.open = None
    series.good = list(series.inside_shares)
    _forget_stretch(series)


def _continued(series: Series, item: Judgement, band: Band) -> Iterator[Incident]:
    assert series.open is not None
    newest = series.shares[-band.open_after :]
    further = min(newest) / series.told if series.side == "high" else series.told / max(*newest, 1e-12)
    if further < WORSE or series.count < 2 * band.open_after:
        return
    series.values, series.shares = series.values[-band.open_after :], newest
    series.told = median(newest)
    series.open = replace(
        _current(series, series.open),
        change=Change.WORSENED,
        noticed=Moment(item.cycle.place.line, item.cycle.time),
        band=item.limits,
    )
    yield series.open


def _current(series: Series, incident: Incident) -> Incident:
    """The incident with the level of the samples seen since."""
    then = incident.after / incident.ratio  # what the ratio is against, in the value's unit
    after = median(series.values)
    return replace(incident, after=after, ratio=after / then, samples=series.count)


def _forget_stretch(series: Series) -> None:
    series.side, series.count, series.inside = "", 0, 0
    series.values, series.shares, series.inside_shares = [], [], []


def _keep(values: list[float], value: float) -> None:
    values.append(value)
    if len(values) > HISTORY:
        del values[0]


def _detail(series: Series, item: Judgement, band: Band, rules: Rules) -> str:
    """What a person asks next: is it noise, what does it cost, whose band is it."""
    sentences = [_steadiness(series.values)]
    sentences.append(cost_sentence(economics_of(item.cycle, rules.baseline_tokens_per_second)))
    if band == DEFAULT_BAND:
        limits = f"{band_text(item.limits)}"
        sentences.append(f"The band is the default, {limits}; `logwatch tune` learns this server's own.")
    return " ".join(sentence for sentence in sentences if sentence)


def _steadiness(values: Sequence[float]) -> str:
    mean = fmean(values)
    if len(values) < 2 or not mean:
        return ""
    variation = pstdev(values) / mean
    if variation < STEADY:
        return f"It is steady, not noise (coefficient of variation {variation:.2%})."
    return f"It varies by {variation:.0%} from sample to sample." if variation > NOISY else ""


def band_text(limits: Limits) -> str:
    """A band for people: `17.00 ms to 21.00 ms`."""
    return f"{milliseconds(limits.low)} to {milliseconds(limits.high)}"
