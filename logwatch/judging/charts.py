"""Level 1: control charts as small stream objects.

A `Chart` watches one series under equal conditions. It learns what is normal from its first samples,
watches with a bank of capped CUSUMs while it goes on learning, and freezes its baseline when it has seen
enough: samples after a change never move it. A change is told once, with its onset, gets its size with an
interval when enough samples have followed, and is over when the evidence for the old level is a thousand to
one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from logwatch.judging.bank import Bank, build, forget_outliers, needed_samples, weigh_rest, weigh_shift
from logwatch.judging.baseline import (
    CLIP,
    Baseline,
    Learning,
    baseline_of,
    change_inside,
    far_side,
    learn,
    outlier_side,
)
from logwatch.judging.firing import Firing, Newest, follow, opened
from logwatch.model import Finding, Moment

FIRST = 512
"""Samples before the first bank is built; it is rebuilt at each doubling until the baseline is good
enough."""

MOST = 20_480
RESTARTS = 3
BACK = 2.0
"""A value this near to the level, in scales, after outliers: they went away, and so does their evidence."""

SUSPECT = 0.5
"""Evidence at which learning pauses."""

CEILING = 2.0
"""Evidence that is held back goes no higher."""

RING_EXTRA = 4


@dataclass
class ChartMemory:
    """What one chart remembers: about 1 KB and a ring.

    Attributes:
        ring: Newest samples: value in the baseline's scales, line, time.
        total, hits: Sums since the bank was built: clipped values, stretches of outliers begun.
        before_outliers: Evidence when the stretch of outliers began that is not over.
        held_back: Which gate last kept evidence from being told.
        total_at, hits_at, moment_at: The same where each statistic's evidence began.
    """

    learning: Learning = field(default_factory=Learning)
    frozen: bool = False
    build_at: int = FIRST
    restarts: int = 0
    coarsest: float = 0.0
    base: Baseline | None = None
    bank: Bank = field(default_factory=Bank)
    seen: int = 0
    previous: float = 0.0
    outside: int = 0
    beyond: int = 0
    total: float = 0.0
    hits: int = 0
    total_at: list[float] = field(default_factory=list)
    hits_at: list[int] = field(default_factory=list)
    moment_at: list[tuple[int, str | None]] = field(default_factory=list)
    ring: list[tuple[float, int, str | None]] = field(default_factory=list)
    firing: Firing | None = None
    held_back: str = ""
    before_outliers: list[float] = field(default_factory=list)


class Chart:
    """Watches one series for a shifted level, slow drift, more spread and a second mode.

    Prefer a band where the tuned value is known: it speaks after three samples and needs no learning. A chart
    sees what a band cannot, a few percent inside it, and knows how much is noise.

    Args:
        run_length: Samples between false alarms, on average.
        least_effect: Smallest shift worth a word, as a share of the level.
        least_samples: Fewest samples on which a shift may be told.
        memory: To go on from; None begins to learn.

    >>> chart = Chart(run_length=1e6)
    >>> quiet = [chart.update(0.019 + 1e-5 * (n * 7 % 5), n) for n in range(1, 600)]
    >>> [finding for finding in quiet if finding]
    []
    >>> told = next(filter(None, (chart.update(0.0195, n) for n in range(600, 700))))
    >>> told.kind, told.onset.line, told.samples
    ('level_shift', 600, 20)
    """

    def __init__(
        self,
        run_length: float,
        least_effect: float = 0.0025,
        least_samples: int = 20,
        memory: ChartMemory | None = None,
    ) -> None:
        self.run_length = run_length
        self.least_effect = least_effect
        self.least_samples = least_samples
        self.memory = memory or ChartMemory()

    def update(
        self, value: float, line: int, time: str | None = None, context: float | None = None
    ) -> Finding | None:
        """Take one sample; give what it made known."""
        memory = self.memory
        base = memory.base
        if base is None:
            learn(memory.learning, value, context)
            if memory.learning.samples >= memory.build_at:
                self._build()
            return None
        if base.per_token:
            if not base.knows(context):
                return None
            z = (value - base.expected(context)) / base.scale
        else:
            z = (value - base.level) / base.scale
        ring = memory.ring
        ring.append((z, line, time))
        if len(ring) > self.least_samples + RING_EXTRA:
            del ring[0]
        clipped = CLIP if z > CLIP else max(z, -CLIP)
        blind = memory.outside != 0  # what came before predicts nothing
        e = clipped if blind else (clipped - base.phi * memory.previous) / memory.bank.root
        memory.previous = 0.0 if self._outliers(z, e) else clipped
        beyond = far_side(z, memory.bank.far)
        began = bool(beyond) and beyond != memory.beyond
        memory.beyond = beyond
        if memory.firing is not None:
            return self._follow(e, Moment(line, time))
        top = self._evidence(e, clipped, began, line, time)
        if top >= 1.0:
            return self._told(context)
        if not memory.frozen and top < SUSPECT:
            learn(memory.learning, value, context)
            if memory.learning.samples >= memory.build_at:
                self._build()
        return None

    def adopt(self, baseline: Baseline) -> None:
        """Watch against this baseline from the first sample on."""
        least = self.least_effect * abs(baseline.level) / baseline.scale
        self.memory.base, self.memory.frozen = baseline, True
        self.memory.bank = build(baseline, self.run_length, least, self.least_samples)
        self._calm()

    def _outliers(self, z: float, e: float) -> int:
        """On which side this sample is an outlier; what a stretch of them told goes when they went away."""
        memory = self.memory
        side = outlier_side(z, e)
        if memory.outside:
            if abs(z) < BACK:
                forget_outliers(memory.bank, memory.before_outliers)
            if not side:
                memory.before_outliers = []
        elif side:
            memory.before_outliers = memory.bank.state.copy()
        memory.outside = side
        return side

    def _evidence(self, e: float, clipped: float, began: bool, line: int, time: str | None) -> float:
        """Weigh one innovation by all statistics; the largest evidence."""
        memory = self.memory
        bank = memory.bank
        memory.seen += 1
        begun: list[int] = []
        top = weigh_shift(bank, e, memory.outside, begun)
        top = max(top, weigh_rest(bank, e, (memory.outside, memory.beyond), began, begun))
        for index in begun:
            bank.origin[index] = memory.seen
            memory.total_at[index] = memory.total
            memory.hits_at[index] = memory.hits
            memory.moment_at[index] = (line, time)
        memory.total += clipped
        memory.hits += began
        return top

    def _told(self, context: float | None) -> Finding | None:
        """The strongest statistic's finding, if it passes the gates."""
        memory = self.memory
        bank, base = memory.bank, memory.base
        assert base is not None
        seen = Newest(memory.ring, self.least_samples)
        enough = [index for index, state in enumerate(bank.state) if state >= 1.0]
        for index in sorted(enough, key=bank.state.__getitem__, reverse=True):
            since = memory.seen - bank.origin[index] + 1
            firing = opened(
                kind=bank.kinds[index],
                size=bank.size[index],
                since=since,
                mean=(memory.total - memory.total_at[index]) / since,
                hits=memory.hits - memory.hits_at[index],
                onset=Moment(*memory.moment_at[index]),
                seen=seen,
                base=base,
                level=base.expected(context),
                least=max(self.least_effect, memory.coarsest) * abs(base.level),
            )
            if isinstance(firing, Firing):
                memory.firing = firing
                return firing.finding
            memory.held_back = firing.reason
            bank.state[index] = 0.0 if firing.gone else min(bank.state[index], CEILING)
        return None

    def _follow(self, e: float, here: Moment) -> Finding | None:
        memory = self.memory
        assert memory.firing is not None
        assert memory.base is not None
        finding = follow(memory.firing, e, here, memory.ring, memory.base, memory.bank, self.least_samples)
        if memory.firing.over:
            memory.firing = None
            self._calm()
        return finding

    def _build(self) -> None:
        """Build the bank from what was learnt, unless the learning window holds a change itself."""
        memory = self.memory
        base = baseline_of(memory.learning)
        step, error = change_inside(memory.learning)
        least = max(self.least_effect, memory.coarsest) * abs(base.level)
        if abs(step) > max(least, 6 * error):
            if memory.restarts < RESTARTS:
                memory.restarts += 1
                memory.learning, memory.base, memory.build_at = Learning(), None, FIRST
                return
            memory.coarsest = 1.5 * abs(step) / abs(base.level)
            least = memory.coarsest * abs(base.level)
        memory.base = base
        memory.bank = build(base, self.run_length, least / base.scale, self.least_samples)
        enough = min(needed_samples(self.run_length, least / base.scale, base.phi), MOST)
        memory.frozen = base.samples >= enough
        memory.build_at = min(2 * memory.build_at, max(enough, base.samples + 1))
        memory.ring = []
        self._calm()
        if memory.frozen:
            memory.learning = Learning()

    def _calm(self) -> None:
        memory = self.memory
        count = len(memory.bank.kinds)
        memory.bank.state = [0.0] * count
        memory.bank.origin = [0] * count
        memory.bank.modes = False
        memory.before_outliers = [0.0] * count
        memory.seen, memory.total, memory.hits = 0, 0.0, 0
        memory.total_at, memory.hits_at = [0.0] * count, [0] * count
        memory.moment_at = [(0, None)] * count
