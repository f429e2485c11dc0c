"""Level 2: under which conditions a cycle ran, from settings and decode lines (used by `cycles.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from logwatch.model import Conditions
from logwatch.reading.reports import rank_of_key
from logwatch.reading.windows import group_of, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from logwatch.model import Value

T = TypeVar("T")

_MOST_RANKS = 2048  # a hostile log may name any number
_MOST_BATCHES = 256


@dataclass(slots=True)
class Load:
    """What a rank's last decode line said of its batch."""

    running_requests: float | None = None
    context_tokens: float | None = None
    tokens_per_cycle: float | None = None
    graph: bool | None = None


@dataclass(slots=True)
class Warmth:
    """Which of a rank's cycles are no news.

    Attributes:
        cycles: Whether the run had one of this rank.
        batches: Batch sizes that it had, rounded.
    """

    cycles: bool = False
    batches: list[int] = field(default_factory=list)


@dataclass(slots=True)
class SurroundingsMemory:
    """What is remembered of all ranks; one for each run. Keys are `reports.key_of` a rank and a process.

    Attributes:
        shared_loads: By data-parallel rank: its ranks share a batch.
        last_load: Of any rank.
        warmths, inferred_warmths: Of reports and of inferred cycles.
    """

    loads: dict[str, Load] = field(default_factory=dict)
    shared_loads: dict[str, Load] = field(default_factory=dict)
    last_load: Load = field(default_factory=Load)
    warmths: dict[str, Warmth] = field(default_factory=dict)
    inferred_warmths: dict[str, Warmth] = field(default_factory=dict)


class Surroundings:
    """Knows under which conditions a rank's next cycle runs.

    Args:
        memory: Is read and written; the caller keeps it.
        settings: The server's.
        started: Whether the run's start was seen: then the first cycle of each rank warms up.
    """

    def __init__(self, memory: SurroundingsMemory, settings: Mapping[str, str], *, started: bool) -> None:
        self._memory = memory
        self._settings = settings
        self._started = started

    def decode(self, key: str, fields: Mapping[str, Value]) -> None:
        """A rank's decode line."""
        memory = self._memory
        running, tokens, graph = (
            number(fields, "running_requests"),
            number(fields, "tokens"),
            fields.get("graph"),
        )
        memory.last_load = load = Load(
            running,
            tokens / running if running and tokens else None,
            number(fields, "tokens_per_cycle"),
            graph if isinstance(graph, bool) else None,
        )
        _keep(memory.loads, key, load)
        _keep(memory.shared_loads, group_of(rank_of_key(key) or ""), load)

    def tokens_per_cycle(self, key: str) -> float | None:
        """What the nearest decode line says."""
        return self._load_of(key).tokens_per_cycle

    def conditions(
        self, key: str, batch_size: float | None = None, graph_percent: float | None = None
    ) -> Conditions:
        """A cycle's conditions; what its report says goes before what decode lines say."""
        settings, load = self._settings, self._load_of(key)
        return Conditions(
            batch_size=load.running_requests if batch_size is None else batch_size,
            context_tokens=load.context_tokens,
            num_steps=whole(settings.get("speculative_num_steps")),
            topk=whole(settings.get("speculative_eagle_topk")),
            draft_tokens=whole(settings.get("speculative_num_draft_tokens")),
            graph=load.graph if graph_percent is None else graph_percent >= 50,
            version=settings.get("version"),
        )

    def warms_up(self, key: str, batch_size: float | None, *, inferred: bool = False) -> bool:
        """Whether the cycle is a rank's first after a start, or its first at this batch size."""
        warmths = self._memory.inferred_warmths if inferred else self._memory.warmths
        warmth = warmths.get(key) or Warmth()
        warms_up = self._started and not warmth.cycles
        if batch_size is not None and round(batch_size) not in warmth.batches:
            warms_up = warms_up or bool(warmth.batches)
            warmth.batches = [*warmth.batches, round(batch_size)][-_MOST_BATCHES:]
        warmth.cycles = True
        _keep(warmths, key, warmth)
        return warms_up

    def _load_of(self, key: str) -> Load:
        """What a rank's last decode line said, or one's that shares its batch; without a rank, anyone's."""
        memory, rank = self._memory, rank_of_key(key)
        if key in memory.loads:
            return memory.loads[key]
        return memory.shared_loads.get(group_of(rank), Load()) if rank else memory.last_load


def whole(text: str | None) -> int | None:
    """A whole number of the settings, or None."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _keep(known: dict[str, T], key: str, value: T) -> None:
    """Remember, and of ranks without number only the latest."""
    known[key] = value
    if len(known) > _MOST_RANKS:
        del known[next(iter(known))]
