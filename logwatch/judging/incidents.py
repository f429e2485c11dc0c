"""Level 2: judgements to incidents: when one opens, worsens, is explained, resolves; since when; how much.

Everything passes through; an incident follows the item that proves it. Three kinds of proof: a band left for
`open_after` samples in a row, a chart's finding, and the watches of `watches.py`. Samples are counted, never
seconds, so that a replay finds what the daemon found.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from logwatch.judging.bands import DEFAULT_BAND, Band, Rules, band_for
from logwatch.judging.case import Case
from logwatch.judging.causes import likely_causes, load_explains
from logwatch.judging.conditions import TOKENS, telling
from logwatch.judging.economics import cost_sentence, economics_of
from logwatch.judging.facts import Facts, begin, note
from logwatch.judging.held import UNSEEN_FOR, Held, may_go_unseen
from logwatch.judging.levels import BATCH, CONTEXT, Levels, before_and_after, note_levels
from logwatch.judging.stretch import Row, Rule, Sample, count, forget, steadiness
from logwatch.judging.terms import band_text, incident_key, ratio_of, severity_of
from logwatch.judging.watches import RANK, SILENCE, WatchesMemory, silence_text, trap_text, watch
from logwatch.model import (
    Cause,
    Change,
    Cycle,
    Finding,
    Incident,
    Item,
    Judgement,
    Malformed,
    Moment,
    Read,
    Record,
    RunStarted,
    Signal,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EARLY = 3
"""Reports after a start that are still its beginning: what happens there is compared with the run before."""

MOST_ROWS = 2048
"""Watched values: a hostile log may name any number of ranks and phases."""

EXPLAIN_FOR = 12
"""Samples after an incident opened in which later evidence may still change its causes."""


@dataclass
class IncidentsMemory:
    """What `Incidents` remembers.

    Attributes:
        rows: By watched value, for bands and watches.
        held: Open incidents, by the same keys; charts by `rank/phase/kind/chart`.
        facts, earlier: Of this run and the one before.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    watches: WatchesMemory = field(default_factory=WatchesMemory)
    levels: dict[str, Levels] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    earlier: Facts | None = None
    stream: str = ""


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
        """Pass the item on and, after it, what it changed."""
        yield item
        if isinstance(item, Judgement):
            yield from self._judged(item)
        elif not isinstance(item, (Read, Malformed, Incident)):
            yield from self._other(item)

    def finish(self) -> Iterator[Item]:
        """An incident that is open at the end of the input stays open."""
        return iter(())

    def _other(self, item: Record | RunStarted | Cycle) -> Iterator[Incident]:
        memory = self.memory
        if isinstance(item, RunStarted):
            yield from self._run(item)
        note(memory.facts, item)
        if isinstance(item, Cycle):
            memory.stream = item.stream
            rank = item.rank or "-"
            still = any(key.startswith(f"{rank}/") for key in memory.held)
            note_levels(memory.levels, item, still=still)
            yield from self._explained(item)
            yield from self._unseen(item)
        for rule, key, rank_of, sample in watch(memory.watches, item, self.rules.baseline_tokens_per_second):
            cycle = item if isinstance(item, Cycle) else None
            yield from self._counted(key, rule, sample, rank_of, cycle)

    def _judged(self, item: Judgement) -> Iterator[Incident]:
        cycle = item.cycle
        if item.finding is not None:
            yield from self._found(item, item.finding)
            return
        band = band_for(self.bands, item.phase, cycle.conditions)
        if band is None:
            return
        side = {Signal.ABOVE: "high", Signal.BELOW: "low"}.get(item.signal, "")
        here = Moment(cycle.place.line, cycle.time)
        sample = Sample(item.value, side, item.limits.centre, here, item.limits, usable=not cycle.warm_up)
        rule = Rule("out_of_band", item.phase, band.open_after, band.resolve_after, band.severity)
        yield from self._counted(
            f"{cycle.rank or '-'}/{item.phase}/band", rule, sample, cycle.rank, cycle, band
        )

    def _counted(
        self,
        key: str,
        rule: Rule,
        sample: Sample,
        rank: str | None,
        cycle: Cycle | None,
        band: Band | None = None,
    ) -> Iterator[Incident]:
        """Count a sample by its rule and tell what that changed."""
        memory = self.memory
        row = memory.rows.get(key)
        if row is None:
            while len(memory.rows) >= MOST_ROWS:
                calm = next((name for name, each in memory.rows.items() if not each.is_open), None)
                if calm is None:
                    return
                del memory.rows[calm]
            row = memory.rows[key] = Row()
        for change in count(row, sample, rule):
            held = memory.held.get(key)
            if change is Change.OPENED:
                held = memory.held[key] = self._opened(row, rule, sample, rank, cycle, band)
                yield held.incident
            elif held is not None:
                after = row.level
                now = replace(
                    held.incident, after=after, samples=row.samples, ratio=ratio_of(after, held.reference)
                )
                if change is Change.WORSENED:
                    held.incident = replace(now, change=change, band=sample.limits)
                    yield held.incident
                else:
                    del memory.held[key]
                    yield replace(now, change=change, resolved=row.inside_since)
                    yield from self._unmuted(held.incident)
            if change is Change.RESOLVED:
                forget(row)
                if sample.side:
                    yield from self._counted(key, rule, sample, rank, cycle, band)

    def _opened(
        self, row: Row, rule: Rule, sample: Sample, rank: str | None, cycle: Cycle | None, band: Band | None
    ) -> Held:
        usual = row.usual
        reference = (1.0 if usual is None else usual) * sample.centre
        ratio = row.share / (usual or 1.0)
        incident = Incident(
            key=incident_key(self._stream(cycle), rank, rule.phase, rule.kind, row.onset),
            change=Change.OPENED,
            kind=rule.kind,
            phase=rule.phase,
            direction=row.side,
            stream=self._stream(cycle),
            rank=rank,
            run=self.memory.facts.run if cycle is None else cycle.run,
            severity=rule.severity if row.side == "high" else rule.severity_low,
            onset=row.onset,
            noticed=sample.here,
            resolved=None,
            before=None if usual is None else reference,
            after=row.level,
            ratio=ratio,
            samples=row.samples,
            band=sample.limits,
        )
        causes = self._causes(incident)
        detail = self._detail(row, incident, sample, cycle, band)
        severity = "info" if load_explains(causes) else incident.severity
        told = replace(incident, causes=causes, detail=detail, severity=severity)
        return Held(told, row.level / ratio if ratio else reference, severity=incident.severity)

    def _found(self, item: Judgement, finding: Finding) -> Iterator[Incident]:
        """A chart's finding: what it tells of one series."""
        memory, cycle = self.memory, item.cycle
        key = f"{cycle.rank or '-'}/{item.phase}/{finding.kind}/chart"
        held = memory.held.get(key)
        if finding.change is Change.OPENED:
            if held is not None:
                return  # the same change under other conditions
            held = memory.held[key] = Held(self._of_chart(item, finding), finding.before)
            held.mute = f"{cycle.rank or '-'}/{item.phase}/band" in memory.held
        elif held is None or held.incident.onset != finding.onset:
            return
        elif finding.change is Change.RESOLVED:
            del memory.held[key]
            held.incident = replace(held.incident, change=finding.change, resolved=finding.resolved)
        else:
            ratio = ratio_of(finding.after, finding.before)
            held.incident = replace(
                held.incident,
                change=finding.change,
                after=finding.after,
                ratio=ratio,
                samples=finding.samples,
                severity=severity_of(item.phase, finding, ratio),
                detail=finding.detail or held.incident.detail,
            )
        if not held.mute:
            yield held.incident

    def _unmuted(self, over: Incident) -> Iterator[Incident]:
        """A band's incident is over, but the chart of the same phase still tells a change: tell that now."""
        for key, held in self.memory.held.items():
            if (
                held.mute
                and key.startswith(f"{over.rank or '-'}/{over.phase}/")
                and over.kind == "out_of_band"
            ):
                held.mute = False
                yield held.incident

    def _of_chart(self, item: Judgement, finding: Finding) -> Incident:
        cycle = item.cycle
        tokens = item.phase == TOKENS and finding.kind == "level_shift"
        kind = "acceptance_dropped" if tokens else finding.kind
        ratio = ratio_of(finding.after, finding.before)
        incident = Incident(
            key=incident_key(cycle.stream, cycle.rank, item.phase, kind, finding.onset),
            change=Change.OPENED,
            kind=kind,
            phase=item.phase,
            direction=finding.direction,
            stream=cycle.stream,
            rank=cycle.rank,
            run=cycle.run,
            severity=severity_of(item.phase, finding, ratio),
            onset=finding.onset,
            noticed=Moment(cycle.place.line, cycle.time),
            resolved=None,
            before=finding.before,
            after=finding.after,
            ratio=ratio,
            samples=finding.samples,
        )
        sentences = (
            finding.detail,
            cost_sentence(economics_of(cycle, self.rules.baseline_tokens_per_second)),
        )
        detail = " ".join(sentence for sentence in sentences if sentence)
        return replace(incident, causes=self._causes(incident), detail=detail)

    def _explained(self, cycle: Cycle) -> Iterator[Incident]:
        """Evidence that came after the alarm may tell another cause than was told."""
        for held in self.memory.held.values():
            if held.followed >= EXPLAIN_FOR or held.incident.rank != cycle.rank or held.mute:
                continue
            held.followed += 1
            causes = self._causes(held.incident, held.followed)
            best, told = causes[0], held.incident.causes[:1]
            if not told or (
                best.cause != told[0].cause and (best.score > told[0].score or told[0].cause == "warm_up")
            ):
                severity = held.severity or held.incident.severity
                held.incident = replace(
                    held.incident,
                    change=Change.EXPLAINED,
                    causes=causes,
                    severity="info" if load_explains(causes) else severity,
                )
                yield held.incident

    def _unseen(self, cycle: Cycle) -> Iterator[Incident]:
        """Incidents of phases that this rank does not tell of any more end where it told of them no more."""
        memory = self.memory
        for key, held in list(memory.held.items()):
            if not may_go_unseen(held, cycle.rank):
                continue
            if held.incident.phase in cycle.phases_s:
                held.unseen, held.unseen_since = 0, None
                continue
            held.unseen_since = held.unseen_since or Moment(cycle.place.line, cycle.time)
            held.unseen += 1
            if held.unseen >= UNSEEN_FOR:
                del memory.held[key]
                if key in memory.rows:
                    forget(memory.rows[key])
                if not held.mute:
                    yield replace(held.incident, change=Change.RESOLVED, resolved=held.unseen_since)

    def _run(self, item: RunStarted) -> Iterator[Incident]:
        """A new run: facts begin anew; with other settings the charts do, and their incidents end."""
        memory = self.memory
        old = memory.facts
        memory.stream = item.stream
        memory.facts = begin(item)
        if old.reports or old.settings or old.variables:
            memory.earlier = old
        if old.settings and item.settings and telling(item.settings) != old.settings:
            here = Moment(item.place.line, item.time)
            for key in [key for key in memory.held if key.endswith("/chart")]:
                held = memory.held.pop(key)
                if not held.mute:
                    yield replace(
                        held.incident,
                        change=Change.RESOLVED,
                        resolved=here,
                        detail="A run with other settings began: its baseline begins anew.",
                    )

    def _causes(self, incident: Incident, followed: int = 0) -> tuple[Cause, ...]:
        memory = self.memory
        facts = memory.facts
        levels = memory.levels.get(incident.rank or "-", Levels())
        samples = incident.samples + followed
        before, after = before_and_after(levels, samples)
        ranks = max(len(memory.levels), 1)
        early = facts.reports - samples * ranks <= EARLY * ranks
        crossed = early and memory.earlier is not None
        uneven = memory.rows.get(f"{incident.rank}/{incident.phase}/ranks")
        excess = incident.ratio if incident.kind == RANK.kind else None
        ratios = {name: after[name] / before[name] for name in after if before.get(name)}
        if incident.phase not in {TOKENS, "speculation"}:
            ratios[incident.phase] = incident.ratio
        case = Case(
            phase=incident.phase,
            direction=incident.direction,
            after=facts,
            before=memory.earlier if crossed else None,
            ratios=ratios,
            tokens=(
                (incident.before, incident.after)
                if incident.phase == TOKENS and incident.before is not None
                else (before.get(TOKENS), after.get(TOKENS))
            ),
            batch=(before.get(BATCH), after.get(BATCH)),
            context=(before.get(CONTEXT), after.get(CONTEXT)),
            onset_line=0 if crossed else incident.onset.line,
            rank_excess=uneven.share if uneven and uneven.shares else excess,
            early=early and bool(facts.settings) and samples <= 2 * EARLY,
            tuned=self.rules.tuned_environment,
        )
        return likely_causes(case)

    def _detail(
        self, row: Row, incident: Incident, sample: Sample, cycle: Cycle | None, band: Band | None
    ) -> str:
        """What a person asks next: is it noise, what does it cost, whose band is it."""
        sentences: list[str] = []
        if band is not None or incident.kind == RANK.kind:
            sentences.append(steadiness(row))
        if incident.kind == "graph_lost":
            sentences.append(trap_text(self.memory.watches, incident.rank))
        if incident.kind == SILENCE.kind:
            sentences.append(silence_text(self.memory.watches, sample.here))
        if cycle is not None:
            sentences.append(cost_sentence(economics_of(cycle, self.rules.baseline_tokens_per_second)))
        if band == DEFAULT_BAND and sample.limits is not None:
            limits = band_text(sample.limits)
            sentences.append(f"The band is the default, {limits}; `logwatch tune` learns this server's own.")
        return " ".join(sentence for sentence in sentences if sentence)

    def _stream(self, cycle: Cycle | None) -> str:
        return cycle.stream if cycle is not None else self.memory.stream
