"""Level 3: what the families hold as `prometheus_client`'s samples: slow, literal, and good for every format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from prometheus_client.core import Metric
from prometheus_client.samples import Exemplar, Sample
from prometheus_client.utils import floatToGoString

from logwatch.outlets.metrics_families import (
    OF_LOGWATCH,
    Facts,
    empty_families,
    open_kinds,
    write_bands,
    write_itself,
    write_phase,
    write_rank,
    write_stream,
)
from logwatch.outlets.metrics_memory import EDGES_S, MetricsMemory, PhaseMemory, Sighting

EDGES = (*(floatToGoString(edge) for edge in EDGES_S), "+Inf")  # type: ignore[no-untyped-call]  # it has no types
"""The values of a histogram's label `le`."""


class Samples:
    """A pen that makes samples. They carry no time stamps: the scrape's time is theirs."""

    def __init__(self) -> None:
        self.families = empty_families()

    def add(self, name: str, labels: Mapping[str, str], value: float | None) -> None:
        """A sample of the family, unless the value is not known."""
        if value is not None:
            family = self.families[name]
            suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
            family.samples.append(Sample(family.name + suffix, dict(labels), float(value)))

    def histogram(self, name: str, labels: Mapping[str, str], phase: PhaseMemory) -> None:
        """The samples of a phase's histogram."""
        family, count = self.families[name], 0
        for bucket, (edge, samples) in enumerate(zip(EDGES, phase.buckets, strict=True)):
            count += samples
            seen = phase.sightings.get(bucket)
            exemplar = None if seen is None else exemplar_of(seen)
            family.samples.append(
                Sample(f"{family.name}_bucket", {**labels, "le": edge}, count, None, exemplar)
            )
        family.samples.append(Sample(f"{family.name}_count", dict(labels), count))
        family.samples.append(Sample(f"{family.name}_sum", dict(labels), phase.sum_s))


def families_of(memory: MetricsMemory, facts: Facts) -> Iterable[Metric]:
    """All families with their samples."""
    pen, is_open = Samples(), open_kinds(memory)
    for name, stream in memory.streams.items():
        write_stream(pen, name, stream, memory.bands)
        for tags, rank in stream.ranks.items():
            write_rank(pen, name, tags, rank, is_open.get((name, tags), {}))
            for phase, each in rank.phases.items():
                write_phase(pen, name, tags, phase, each, memory.bands)
    if not memory.streams:
        write_bands(pen, "", memory.bands)
    write_itself(pen, memory, facts)
    return pen.families.values()


def families_of_logwatch(memory: MetricsMemory, facts: Facts) -> Iterable[Metric]:
    """The families in which no stream has a part."""
    pen = Samples()
    write_itself(pen, memory, facts)
    return [pen.families[name] for name in OF_LOGWATCH]


def exemplar_of(seen: Sighting) -> Exemplar:
    """Where the bucket's newest sample stands, within the 128 characters that an exemplar may have."""
    # Plain characters only: not every parser of OpenMetrics reads escapes in an exemplar.
    labels = {"file": re.sub(r"[^\w.+-]", "_", seen.file), "line": str(seen.line)}
    return Exemplar(labels | ({"offset": str(seen.offset)} if seen.offset >= 0 else {}), seen.value_s)
