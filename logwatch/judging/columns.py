"""Level 2: cycles as columns judged and followed as `Judgements` and `Incidents` do one by one.

What changes nothing but counts, means and histories is folded as columns; a cycle at which an incident may open,
worsen, be explained or resolve goes through the stages themselves, in its place. So what comes out, and what the
stages remember, is what they alone would have given: `tests/test_columns_equal_objects.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from logwatch.columns import CycleColumns, first_true
from logwatch.judging.bands import band_for
from logwatch.judging.columns_judged import by_charts, charted, compared, same_bands
from logwatch.judging.columns_levels import note_graphs, note_many
from logwatch.judging.columns_rows import Watched, advance, until
from logwatch.judging.conditions import TOKENS, batch_range, group_of
from logwatch.judging.economics import cycle_time_s
from logwatch.judging.facts import TEXTS, note
from logwatch.judging.held import may_go_unseen
from logwatch.judging.incidents import EXPLAIN_FOR
from logwatch.judging.judgements import Judgements
from logwatch.judging.levels import BATCH, CONTEXT
from logwatch.judging.watches import GRAPH, NO_DRAFT, NOTHING, SLOWER, RankValue
from logwatch.model import Cycle, Incident, Judgement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwatch.columns import Between, DecodeColumns, Floats
    from logwatch.judging.incidents import Incidents

    Told: TypeAlias = Cycle | Judgement | Incident

SHORTEST = 6
"""Fewer cycles than this go one by one."""


class Columns:
    """Both stages of judging over columns.

    Args:
        judgements, incidents: The stages, whose memory is read and written.
    """

    def __init__(self, judgements: Judgements, incidents: Incidents) -> None:
        self._judgements = judgements
        self._incidents = incidents

    def ready(self, columns: CycleColumns, between: Between) -> int:
        """How many cycles at the beginning may be fed; changes nothing.

        Args:
            columns: The cycles.
            between: What stands between them.
        """
        memory, rank = self._incidents.memory, columns.rank or "-"
        names = {*columns.phases_s, *columns.shares}
        watches, speakers = memory.watches, self._judgements.memory.speakers
        if (
            names & {TOKENS, BATCH, CONTEXT}
            or not (watches.drafts or "target_verify" in names)
            or speakers.get(group_of(columns.rank)) != (columns.rank or "")
            or rank not in memory.levels
            or (
                columns.rank
                and any({*watches.ranks.get(name, ())} != {columns.rank} for name in compared(columns))
            )
        ):
            return 0
        count = min(len(columns), same_bands(self._judgements, columns), charted(self._judgements, columns))
        if len(between.decodes.lines) and not self._graphs(between.decodes):
            count = min(count, first_true(between.decodes_before > 0))
        return count

    def feed(self, columns: CycleColumns, between: Between) -> Iterator[CycleColumns | Told]:
        """Judge these cycles; parts of them come out, and items of what could not be done as columns."""
        found = by_charts(self._judgements, columns)
        watched = self._watched(columns)
        rows, at, over = self._incidents.memory.rows, 0, (0, between.words_over)
        while at < len(columns):
            loud = min((until(rows.get(each.key), each, at) for each in watched), default=len(columns))
            end = min(
                loud, len(columns), min((index for index in found if index >= at), default=len(columns))
            )
            if self._explains(columns) or self._misses(columns):
                end = at
            single = min(end + 1, len(columns))
            if end - at < SHORTEST:
                end = at
            if end > at:
                over = self._pass(between, over, end - 1)
                self._fold(columns, watched, at, end)
                yield columns.part(at, end)
            for index in range(end, single):
                over = self._pass(between, over, index)
                yield from self._one(columns.cycle(index), found.get(index, ()))
            at = single

    def _one(self, cycle: Cycle, found: tuple[Judgement, ...] | list[Judgement]) -> Iterator[Told]:
        for each in (cycle, *self._judgements.by_bands(cycle), *found):
            for item in self._incidents.feed(each):
                assert isinstance(item, (Cycle, Judgement, Incident))  # that alone comes of a cycle
                yield item

    def _watched(self, columns: CycleColumns) -> list[Watched]:
        every, rank = np.arange(len(columns)), columns.rank or "-"
        watched = []
        first = columns.cycle(0).conditions
        for phase, judged in columns.judged.items():
            values, centre = columns.phases_s[phase], judged.centre
            shares = np.divide(values, centre, out=np.ones(len(values)), where=centre != 0)
            band = band_for(self._incidents.bands, phase, first)
            after = band.open_after if band else 1
            watched.append(Watched(f"{rank}/{phase}/band", after, every, values, shares, judged.sides))
        tokens = columns.tokens_per_cycle
        if tokens is not None:
            sides = -(tokens <= NO_DRAFT).astype(np.int64)
            watched.append(
                Watched(f"{rank}/{TOKENS}/nothing", NOTHING.open_after, every, tokens, tokens, sides)
            )
            slower = self._slower(columns, tokens)
            if slower is not None:
                watched.append(slower)
        return watched

    def _slower(self, columns: CycleColumns, tokens: Floats) -> Watched | None:
        baseline = self._incidents.rules.baseline_tokens_per_second
        if baseline is None:
            return None
        times = cycle_times(columns)
        batch = columns.batch_size
        alone = times > 0 if batch is None else (times > 0) & (np.rint(batch) == 1)
        reports = np.flatnonzero(alone)
        rates = tokens[reports] / times[reports]
        sides = -(rates < baseline).astype(np.int64)
        shares = rates / baseline if baseline else np.ones(len(rates))
        return Watched(f"{columns.rank or '-'}/speculation", SLOWER.open_after, reports, rates, shares, sides)

    def _explains(self, columns: CycleColumns) -> bool:
        """Whether an open incident may still learn its cause."""
        return any(
            held.followed < EXPLAIN_FOR and held.incident.rank == columns.rank and not held.mute
            for held in self._incidents.memory.held.values()
        )

    def _misses(self, columns: CycleColumns) -> bool:
        """Whether an open incident's phase is missing here, or was until now."""
        return any(
            may_go_unseen(held, columns.rank) and (held.unseen or held.incident.phase not in columns.phases_s)
            for held in self._incidents.memory.held.values()
        )

    def _fold(self, columns: CycleColumns, watched: list[Watched], begin: int, end: int) -> None:
        """These cycles change counts, means and histories only."""
        memory, rank = self._incidents.memory, columns.rank or "-"
        part = columns.part(begin, end)
        note_graphs(memory.facts, part)
        memory.stream = columns.stream
        still = any(key.startswith(f"{rank}/") for key in memory.held)
        note_many(memory.levels[rank], part, still=still)
        watches = memory.watches
        watches.cycles += len(part)
        watches.drafts = watches.drafts or "target_verify" in columns.phases_s
        self._newest(part)
        for each in watched:
            row = memory.rows.get(each.key)
            if row is not None:
                advance(row, each, begin, end)

    def _newest(self, part: CycleColumns) -> None:
        """The rank's newest values, to be compared with other ranks'; a mixture of batches is compared with none."""
        if part.rank is None:
            return
        watches, last = self._incidents.memory.watches, len(part) - 1
        if part.batch_size is not None:
            mixed = [batch for batch in np.unique(part.batch_size).tolist() if batch_range(batch) is None]
            plain = np.flatnonzero(~np.isin(part.batch_size, mixed))
            if not len(plain):
                return
            last = int(plain[-1])
        cycle = part.cycle(last)
        batch = batch_range(cycle.conditions.batch_size)
        number, context = watches.cycles - (len(part) - 1 - last), cycle.conditions.context_tokens
        for phase in compared(part):
            value = RankValue(cycle.phases_s[phase], number, batch[0] if batch else 0, context)
            watches.ranks[phase][part.rank] = value

    def _graphs(self, decodes: DecodeColumns) -> bool:
        """Whether the decode lines' graphs are no news."""
        memory, rank = self._incidents.memory, decodes.rank or "-"
        row = memory.rows.get(f"{rank}/cuda_graph")
        return rank in memory.watches.graphs and row is not None and not row.is_open

    def _pass(self, between: Between, over: tuple[int, int], at: int) -> tuple[int, int]:
        """Take decode lines and last words that come before cycle `at`; so many of each are over then."""
        decodes, words = int(between.decodes_before[at]), int(between.words_before[at])
        if decodes > over[0]:
            self._decoded(between.decodes, over[0], decodes)
        for word in range(max(over[1], words - TEXTS), words):
            note(self._incidents.memory.facts, between.word(word))
        return decodes, words

    def _decoded(self, decodes: DecodeColumns, begin: int, end: int) -> None:
        """Take the decode lines from `begin` on and before `end`."""
        memory, rank = self._incidents.memory, decodes.rank or "-"
        facts, running = memory.facts, decodes.running_requests[begin:end]
        if not facts.graph_on.count:
            facts.graph_on.first = decodes.lines[begin].item()
        facts.graph_on.count += end - begin
        facts.graph_on.last = decodes.lines[end - 1].item()
        largest = running.max().item()
        facts.largest_graph = max(facts.largest_graph, largest)
        usage = decodes.token_usage[begin:end]
        if not np.isnan(usage).all():
            facts.usage = max(facts.usage, np.nanmax(usage).item())
        graph = memory.watches.graphs[rank]
        last = running[-1].item()
        same = first_true(running[::-1] != last)
        graph.same = same + (graph.same if same == len(running) and last == graph.last_batch else 0)
        graph.last_batch, graph.largest, graph.without = last, max(graph.largest, largest), 0
        ones = np.ones(end - begin)
        watched = Watched(
            f"{rank}/cuda_graph",
            GRAPH.open_after,
            np.arange(end - begin),
            ones,
            ones,
            np.zeros(end - begin, np.int64),
        )
        advance(memory.rows[watched.key], watched, 0, end - begin)


def cycle_times(columns: CycleColumns) -> Floats:
    """`economics.cycle_time_s` of each, NaN where unknown."""
    total = columns.phases_s.get("total_cycle")
    if total is not None and bool((total != 0).all()):
        return total
    times = (cycle_time_s(columns.cycle(at)) for at in range(len(columns)))
    return np.array([np.nan if time is None else time for time in times])
