"""Level 2: reports in one piece, many at once, to cycles as columns (used by the bulk entrance).

What `Cycles` makes of ordinary reports of one rank, with ordinary decode lines between, is plain; here it is done
for all of them together, and `Cycles`' memory goes on as if it had been fed line by line. Whatever is not plain
is left to `Cycles`: `plan` says how many of the reports are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from logwatch.columns import CycleColumns, first_true
from logwatch.model import Place
from logwatch.reading.reports import ACCEPT, Report, key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwatch.columns import Between, Bools, Floats, Ints
    from logwatch.reading.conditions import Surroundings
    from logwatch.reading.cycles import Cycles

_SHAPES = 4


@dataclass(slots=True)
class Reported:
    """Reports in one piece of one rank, all with the same lines; between them only what is named here.

    Attributes:
        labels: Of the lines of every report in order, `accept` among them.
        lines, offsets, times: Of the headers.
        cycles, batch_size, graph_percent: What the headers say, NaN where they do not.
        values: (n_reports, n_labels): seconds, and accepted drafts; none is NaN. `shares` likewise, NaN where none.
        between: What stands between them.
    """

    path: str
    rank: str | None
    labels: list[str]
    lines: Ints
    offsets: Ints
    times: Sequence[str | None]
    cycles: Floats
    batch_size: Floats
    graph_percent: Floats
    values: Floats
    shares: Floats
    between: Between

    def __len__(self) -> int:
        """How many reports."""
        return len(self.lines)

    def rest(self, first: int) -> Reported:
        """Those from `first` on, and what comes between them."""
        if not first:
            return self
        cut = slice(first, None)
        return replace(
            self,
            lines=self.lines[cut],
            offsets=self.offsets[cut],
            times=self.times[cut],
            cycles=self.cycles[cut],
            batch_size=self.batch_size[cut],
            graph_percent=self.graph_percent[cut],
            values=self.values[cut],
            shares=self.shares[cut],
            between=self.between.rest(first),
        )


def plan(cycles: Cycles, reported: Reported) -> CycleColumns | None:
    """The cycles of the plain reports at the beginning; None where the first is not plain. Changes nothing."""
    memory = cycles.memory
    reports, run = memory.reports, memory.run
    key = key_of(reported.rank, None)
    known, nameless = reports.ranks.get(key), reports.ranks.get("")
    warmth = run.surroundings.warmths.get(key)
    if (
        run.number < 0
        or not run.profiled
        or reports.headed
        or known is None
        or any(rank.open for rank in reports.ranks.values())
        or (nameless and nameless.open)
        or any(shape != reported.labels for shape in known.shapes)
        or not known.shapes
        or warmth is None
        or not warmth.cycles
    ):
        return None
    surroundings = cycles._surroundings()  # noqa: SLF001 - one stage in two modules
    running, context, graph, tokens = _loads(surroundings, key, reported)
    batch = np.where(np.isnan(reported.batch_size), running, reported.batch_size)
    percent = reported.graph_percent
    graph = np.where(np.isnan(percent), graph, percent >= 50)
    if ACCEPT in reported.labels:
        tokens = _rounded(reported.values[:, reported.labels.index(ACCEPT)])
    warm = ~np.isnan(batch) & ~np.isin(np.rint(batch), warmth.batches)
    count = min(first_true(warm), *(_alike(values) for values in (batch, context, tokens)))
    if not count:
        return None
    covers = np.nan_to_num(reported.cycles).astype(np.int64)
    phases = {label: at for at, label in enumerate(reported.labels) if label != ACCEPT}
    shares = {label: reported.shares[:, at] for label, at in phases.items()}
    return CycleColumns(
        stream=cycles.stream,
        rank=reported.rank,
        run=run.number,
        path=reported.path,
        lines=reported.lines,
        offsets=reported.offsets,
        times=reported.times,
        cycles=np.where(covers == 0, 1, covers),
        phases_s={label: reported.values[:, at] for label, at in phases.items()},
        shares={label: column for label, column in shares.items() if not np.isnan(column).all()},
        tokens_per_cycle=_known(tokens),
        batch_size=_known(batch),
        context_tokens=_known(context),
        graph=graph.astype(np.int64),
        fixed=surroundings.conditions(key),
    ).part(0, count)


def commit(cycles: Cycles, reported: Reported, count: int) -> None:
    """Go on as if the first `count` reports had been read, and all that comes before the last of them."""
    memory = cycles.memory
    reports, run = memory.reports, memory.run
    key = key_of(reported.rank, None)
    decodes = int(reported.between.decodes_before[count - 1])
    if decodes:
        last = decodes - 1
        columns = reported.between.decodes
        fields = {
            "running_requests": columns.running_requests[last].item(),
            "tokens": columns.tokens[last].item(),
            "tokens_per_cycle": columns.tokens_per_cycle[last].item(),
            "graph": True,
        }
        known_fields = {name: value for name, value in fields.items() if value == value}  # noqa: PLR0124 - not NaN
        cycles._surroundings().decode(key, known_fields)  # noqa: SLF001 - one stage in two modules
    run.busy = run.profiled = True
    run.ended = False
    run.held = []
    known = reports.ranks[key]
    known.closed = _report(reported, count - 1)
    known.shapes = [*known.shapes, *[reported.labels] * min(count, _SHAPES)][-_SHAPES:]
    reports.touched = [key] * min(len(reported.labels), 2)
    reports.last_headed[""] = key


def _report(reported: Reported, at: int) -> Report:
    cycles, batch, percent = (
        _or_none(values[at].item())
        for values in (reported.cycles, reported.batch_size, reported.graph_percent)
    )
    values = dict(zip(reported.labels, reported.values[at].tolist(), strict=True))
    shares = dict(zip(reported.labels, reported.shares[at].tolist(), strict=True))
    accepted = values.pop(ACCEPT, None)
    shares.pop(ACCEPT, None)
    return Report(
        Place(reported.path, reported.offsets[at].item(), reported.lines[at].item()),
        reported.times[at],
        header=True,
        cycles=None if cycles is None else int(cycles),
        batch_size=batch,
        graph_percent=percent,
        labels=list(reported.labels),
        phases_s=values,
        shares={label: share for label, share in shares.items() if _or_none(share) is not None},
        accepted_drafts=accepted,
    )


def _loads(surroundings: Surroundings, key: str, reported: Reported) -> tuple[Floats, Floats, Floats, Floats]:
    """Requests, context, graph (-1 unknown) and tokens a cycle as the last decode line before each report says."""
    load, decodes = surroundings._load_of(key), reported.between.decodes  # noqa: SLF001 - one stage in two modules
    running = decodes.running_requests.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        context = np.where((running != 0) & (decodes.tokens != 0), decodes.tokens / running, np.nan)
    graph = -1.0 if load.graph is None else float(load.graph)
    before = reported.between.decodes_before
    return (
        _with_first(load.running_requests, running)[before],
        _with_first(load.context_tokens, context)[before],
        _with_first(graph, np.ones(len(running)))[before],
        _with_first(load.tokens_per_cycle, decodes.tokens_per_cycle)[before],
    )


def _with_first(first: float | None, values: Floats) -> Floats:
    return np.concatenate([[np.nan if first is None else first], values])


def _rounded(accepted: Floats) -> Floats:
    """Tokens a cycle; rounded as Python rounds, which numpy does not."""
    distinct, which = np.unique(accepted, return_inverse=True)
    return np.array([round(value + 1, 9) for value in distinct.tolist()])[which]


def _alike(values: Floats) -> int:
    """How many at the beginning are all known, or all unknown."""
    unknown: Bools = np.isnan(values)
    return first_true(unknown != unknown[0])


def _known(values: Floats) -> Floats | None:
    return None if np.isnan(values[0]) else values


def _or_none(value: float) -> float | None:
    return None if value != value else value  # noqa: PLR0124 - not NaN
