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
from logwatch.outlets.metrics_memory import label
from logwatch.outlets.report.samples import Sample, Samples, utc_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from logwatch.model import Item

STEP_S = 0.001
"""Between two samples that the log dates alike."""

BACK_S = 1.0
"""How far behind the newest sample a clock may be to count as the same moment."""

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

HELD_CHARS = 1 << 20
"""What one stream holds of samples before it writes them down."""

SCRAPED = {"job": "logwatch", "instance": "replay"}

Key = tuple[str, str]  # family, labels


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
        self._folder = folder
        self._stream = stream
        self._samples = Samples()
        self._parts: dict[Key, Path] = {}
        self._held: dict[Key, list[str]] = {}
        self._held_chars = 0
        self._last: dict[Key, float] = {}
        self._sums: dict[Key, float] = {}
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

    def close(self) -> None:
        """Write down what is left."""
        for sample in self._samples.flush():
            self._sample(sample)
        self._write_down()

    def _sample(self, sample: Sample) -> None:
        cycle = sample.cycle
        now = utc_seconds(cycle.time)
        if now is None:
            self.undated += 1
            return
        who = _labels(stream=cycle.stream, rank=cycle.rank or "")
        for phase, value in cycle.phases_s.items():
            labels = _labels(stream=cycle.stream, rank=cycle.rank or "", phase=phase)
            if not self._put("logwatch_phase_seconds", labels, now, value):
                return
            cycles = self._sum("logwatch_cycles", labels, cycle.cycles)
            self._put("logwatch_cycles", labels, now, cycles)
            total = self._sum("logwatch_cycle_phase_seconds", labels, value * cycle.cycles)
            self._put("logwatch_cycle_phase_seconds", labels, now, total)
            judged = sample.judged.get(phase)
            if judged is not None:
                self._put("logwatch_band_low_seconds", labels, now, judged.limits.low)
                self._put("logwatch_band_high_seconds", labels, now, judged.limits.high)
                self._put("logwatch_phase_in_band", labels, now, int(bool(sample.in_band(phase))))
        economics = economics_of(cycle, self.baseline)
        for family, figure in (
            ("logwatch_tokens_per_cycle", cycle.tokens_per_cycle),
            ("logwatch_estimated_tokens_per_second", economics.estimated_tokens_per_second),
            ("logwatch_breakeven_tokens_per_cycle", economics.breakeven_tokens_per_cycle),
            ("logwatch_speculation_speedup_ratio", economics.speedup),
        ):
            if figure is not None:
                self._put(family, who, now, figure)

    def _decode(self, record: Record) -> None:
        now = utc_seconds(record.time)
        if now is None:
            return
        labels = _labels(stream=self._stream, rank=record.rank or "")
        for family, name in (
            ("logwatch_running_requests", "running_requests"),
            ("logwatch_generation_tokens_per_second", "generation_tokens_per_second"),
        ):
            value = record.fields.get(name)
            if isinstance(value, int | float):
                self._put(family, labels, now, value)

    def _incident(self, incident: Incident) -> None:
        moment = incident.resolved if incident.change is Change.RESOLVED else incident.noticed
        now = utc_seconds(moment.time if moment else None)
        if now is None:
            return
        labels = _labels(
            stream=incident.stream, rank=incident.rank or "", phase=incident.phase, kind=incident.kind
        )
        open_ = self._open.setdefault(("logwatch_incident_open", labels), set())
        if incident.change is Change.RESOLVED:
            open_.discard(incident.key)
        else:
            open_.add(incident.key)
        self._put("logwatch_incident_open", labels, now, int(bool(open_)))

    def _sum(self, family: str, labels: str, more: float) -> float:
        key = family, labels
        self._sums[key] = self._sums.get(key, 0) + more
        return self._sums[key]

    def _put(self, family: str, labels: str, now: float, value: float) -> bool:
        key = family, labels
        last = self._last.get(key)
        if last is not None and now <= last:
            if now < last - BACK_S:
                self.late += 1
                return False
            now = last + STEP_S
        self._last[key] = now
        name = f"{family}_total" if FAMILIES[family][0] == "counter" else family
        line = f"{name}{labels} {value!r} {now:.3f}\n"
        self._held.setdefault(key, []).append(line)
        self._held_chars += len(line)
        if self._held_chars > HELD_CHARS:
            self._write_down()
        return True

    def _write_down(self) -> None:
        """Put what is held behind what its series' file has; no file stays open, for there may be thousands."""
        for key, lines in self._held.items():
            part = self._parts.get(key)
            if part is None:
                part = self._parts[key] = self._folder / f"{key[0]}.{len(self._parts):06}.om"
            with part.open("a", encoding="utf-8") as file:
                file.writelines(lines)
        self._held.clear()
        self._held_chars = 0


def whole_openmetrics(folders: Sequence[Path], path: Path) -> None:
    """Put families one after the other, and in each one series after the other, as the format demands."""
    with path.open("wb") as out:
        for family, (kind, words) in FAMILIES.items():
            parts = [part for folder in folders for part in sorted(folder.glob(f"{family}.*.om"))]
            if parts:
                out.write(f"# TYPE {family} {kind}\n# HELP {family} {words}\n".encode())
            for part in parts:
                with part.open("rb") as lines:
                    shutil.copyfileobj(lines, out)
        out.write(b"# EOF\n")


def _labels(**labels: str) -> str:
    """Labels as the format writes them, with those that a scrape would have added: dashboards choose by them.

    >>> _labels(stream='a"b', phase="x")
    '{job="logwatch",instance="replay",stream="a\\\\"b",phase="x"}'
    """
    pairs = (f'{name}="{_escaped(value)}"' for name, value in (SCRAPED | labels).items())
    return f"{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    return label(value).replace("\\", r"\\").replace('"', r"\"")
