"""Level 3: old samples as OpenMetrics text, for `promtool tsdb create-blocks-from openmetrics`.

Names, labels and units are those of `/metrics` (contract, section 8), so that a dashboard shows last month
beside today. A log without dates has no place on a time axis: such samples are left out and counted. Several
reports of one second are set a millisecond apart, because a series has one value an instant; where a log's
clock went back, what lies before the newest sample is left out and counted.

The format wants the samples of one series together and in the order of time, and a log brings all series at
once: each has a file of its own until the end, and what is not yet in it is bounded.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from logwatch.judging.economics import economics_of
from logwatch.model import Change, Incident, Record
from logwatch.outlets.report.openmetrics_series import (
    BREAKEVEN,
    CYCLES,
    HIGH,
    INSIDE,
    LOW,
    PHASE,
    RATE,
    SPEEDUP,
    SPENT,
    TOKENS,
    Key,
    Many,
    Moments,
    Series,
    labels_of,
)
from logwatch.outlets.report.samples import (
    Decodes,
    Sample,
    Samples,
    all_utc_seconds,
    samples_of,
    utc_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from logwatch.columns import CycleColumns
    from logwatch.model import Item

FAMILIES = {
    "logwatch_phase_seconds": ("gauge", "Seconds a cycle spends in the phase, from the log's reports."),
    "logwatch_band_low_seconds": ("gauge", "Lower edge of the phase's band."),
    "logwatch_band_high_seconds": ("gauge", "Upper edge of the phase's band."),
    "logwatch_phase_in_band": ("gauge", "1 while the phase is within its band."),
    "logwatch_cycle_phase_seconds": ("counter", "Seconds spent in the phase by all cycles reported."),
    "logwatch_cycles": ("counter", "Cycles reported."),
    "logwatch_tokens_per_cycle": ("gauge", "Tokens per cycle, bonus token counted."),
    "logwatch_estimated_tokens_per_second": ("gauge", "Tokens per cycle over the cycle's seconds."),
    "logwatch_breakeven_tokens_per_cycle": (
        "gauge",
        "Tokens per cycle at which speculation equals the baseline.",
    ),
    "logwatch_speculation_speedup_ratio": ("gauge", "Tokens per cycle over break-even."),
    "logwatch_running_requests": ("gauge", "Running requests, from decode lines."),
    "logwatch_generation_tokens_per_second": ("gauge", "Generated tokens per second, from decode lines."),
    "logwatch_incident_open": ("gauge", "1 while an incident of the kind is open."),
}
"""Type and help by family; counters' samples end with `_total`."""

DECODED = {
    "logwatch_running_requests": "running_requests",
    "logwatch_generation_tokens_per_second": "generation_tokens_per_second",
}
"""Field of a decode line by family."""


class OpenMetricsParts:
    """Sink that writes the series of one stream into files of `folder`; `whole_openmetrics` makes one file.

    Args:
        folder: Of this stream alone.
        stream: Its name; records do not say it.
        baseline_tokens_per_second: Throughput without speculation, or None.

    Attributes:
        undated: Samples left out because the log does not date them.
        late: Samples left out because the log's clock went back.
    """

    def __init__(self, folder: Path, stream: str, baseline_tokens_per_second: float | None = None) -> None:
        self.baseline = baseline_tokens_per_second
        self.undated = 0
        self.late = 0
        self._stream = stream
        self._samples = Samples()
        self._series = Series(folder)
        self._open: dict[Key, set[str]] = {}

    def take(self, item: Item) -> None:
        """Take one item."""
        for sample in self._samples.feed(item):
            self._sample(sample)
        if isinstance(item, Record):
            if item.kind == "decode":
                self._decode(item)
        elif isinstance(item, Incident):
            self._incident(item)

    def take_many(self, cycles: CycleColumns) -> None:
        """Take many cycles of one rank, with what their bands said: the same as one by one."""
        from logwatch.outlets.report.openmetrics_columns import put_cycles  # noqa: PLC0415 - numpy, for columns

        for sample in self._samples.flush():
            self._sample(sample)
        if not put_cycles(self._series, cycles, self.baseline):
            for sample in samples_of(cycles):
                self._sample(sample)

    def take_decodes(self, decodes: Decodes) -> None:
        """Take many decode lines of one rank: the same as one by one."""
        seconds = all_utc_seconds(decodes.times())
        labels = labels_of(stream=self._stream, rank=decodes.rank or "")
        for family, name in DECODED.items():
            said = zip(seconds, decodes.figures(name), strict=True)
            known = [(now, value) for now, value in said if now is not None and value is not None]
            key, moments = (family, labels), Moments([now for now, _ in known])
            if known and not self._series.put_many([Many(key, moments, [repr(value) for _, value in known])]):
                for now, value in known:
                    self._put(key, now, value)

    def close(self) -> None:
        """Write down what is left."""
        for sample in self._samples.flush():
            self._sample(sample)
        self._series.write_down()

    def _sample(self, sample: Sample) -> None:
        cycle = sample.cycle
        now = utc_seconds(cycle.time)
        if now is None:
            self.undated += 1
            return
        who = labels_of(stream=cycle.stream, rank=cycle.rank or "")
        for phase, value in cycle.phases_s.items():
            labels = labels_of(stream=cycle.stream, rank=cycle.rank or "", phase=phase)
            if not self._put((PHASE, labels), now, value):
                return
            cycles = self._series.total((CYCLES, labels), cycle.cycles)
            self._put((CYCLES, labels), now, cycles)
            total = self._series.total((SPENT, labels), value * cycle.cycles)
            self._put((SPENT, labels), now, total)
            judged = sample.judged.get(phase)
            if judged is not None:
                self._put((LOW, labels), now, judged.limits.low)
                self._put((HIGH, labels), now, judged.limits.high)
                self._put((INSIDE, labels), now, int(bool(sample.in_band(phase))))
        economics = economics_of(cycle, self.baseline)
        for family, figure in (
            (TOKENS, cycle.tokens_per_cycle),
            (RATE, economics.estimated_tokens_per_second),
            (BREAKEVEN, economics.breakeven_tokens_per_cycle),
            (SPEEDUP, economics.speedup),
        ):
            if figure is not None:
                self._put((family, who), now, figure)

    def _decode(self, record: Record) -> None:
        now = utc_seconds(record.time)
        if now is None:
            return
        labels = labels_of(stream=self._stream, rank=record.rank or "")
        for family, name in DECODED.items():
            value = record.fields.get(name)
            if isinstance(value, int | float):
                self._put((family, labels), now, value)

    def _incident(self, incident: Incident) -> None:
        moment = incident.resolved if incident.change is Change.RESOLVED else incident.noticed
        now = utc_seconds(moment.time if moment else None)
        if now is None:
            return
        labels = labels_of(
            stream=incident.stream, rank=incident.rank or "", phase=incident.phase, kind=incident.kind
        )
        key = "logwatch_incident_open", labels
        open_ = self._open.setdefault(key, set())
        if incident.change is Change.RESOLVED:
            open_.discard(incident.key)
        else:
            open_.add(incident.key)
        self._put(key, now, int(bool(open_)))

    def _put(self, key: Key, now: float, value: float) -> bool:
        taken = self._series.put(key, now, value)
        self.late += not taken
        return taken


def whole_openmetrics(folders: Sequence[Path], path: Path) -> None:
    """Put families one after the other, and in each one series after the other, as the format demands."""
    with path.open("wb") as out:
        for family, (kind, words) in FAMILIES.items():
            name = f"{family}_total" if kind == "counter" else family
            parts = [part for folder in folders for part in sorted(folder.glob(f"{name}.*.om"))]
            if parts:
                out.write(f"# TYPE {family} {kind}\n# HELP {family} {words}\n".encode())
            for part in parts:
                with part.open("rb") as lines:
                    shutil.copyfileobj(lines, out)
                part.unlink()  # the disk need not hold everything twice
        out.write(b"# EOF\n")
