"""Level 3: books what the pipeline gives into the metrics' memory. No lock, no names of metrics, no HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from logwatch.judging.bands import Band
from logwatch.judging.economics import cycle_time_s, economics, speculates
from logwatch.model import (
    Change,
    Cycle,
    Incident,
    Item,
    Judgement,
    Malformed,
    Notice,
    Place,
    Read,
    Record,
    RunStarted,
    Signal,
)
from logwatch.outlets.metrics_memory import (
    MAX_NAMES,
    MAX_PHASE_SERIES,
    MAX_PHASES,
    MAX_RANKS,
    MAX_STREAMS,
    OVERFLOW,
    MetricsMemory,
    OpenIncident,
    PhaseMemory,
    RankMemory,
    StreamMemory,
    is_amount,
    label,
)

MAX_PATHS = 4096
MAX_OPEN_INCIDENTS = 1024

Entry = TypeVar("Entry")


class Books:
    """Where each item of the pipeline is counted.

    Args:
        bands: What judges phases.
        baseline_tokens_per_second: Throughput without speculation, or None.
        clock: Unix time, seconds.
    """

    def __init__(
        self, bands: Sequence[Band], baseline_tokens_per_second: float | None, clock: Callable[[], float]
    ) -> None:
        self.memory = MetricsMemory(bands=shown(bands))
        self.baseline = baseline_tokens_per_second
        self.changed: dict[str, dict[str, set[str]]] = {}
        """Streams that were booked to, which of their ranks, and of these which phases; the caller empties it."""
        self._clock = clock
        self._paths: dict[str, str] = {}

    def book(self, item: Item) -> None:
        """Count one item."""
        if isinstance(item, Read):
            self._read(item)
        elif isinstance(item, Record):
            self._record(item)
        elif isinstance(item, Cycle):
            self._cycle(item)
        elif isinstance(item, Judgement):
            self._judgement(item)
        elif isinstance(item, Malformed):
            self._malformed(item)
        elif isinstance(item, Incident):
            self._incident(item)
        else:
            self._run_started(item)

    def notice(self, notice: Notice) -> None:
        """Count what happened beside the data. Kinds with a counter of their own also move that counter."""
        kinds = self.memory.notices
        levels = kinds[self._enter(kinds, label(notice.kind), MAX_NAMES, "other", dict[str, int])]
        levels[notice.level.value] = levels.get(notice.level.value, 0) + 1
        if notice.kind == "notify_overflow":
            self.memory.notify_overflow += 1
        name = notice.stream or self._paths.get(notice.path or "")
        if name is None:
            return
        stream = self.stream(name)
        kind, _, detection = notice.kind.partition("_by_")
        if kind == "rotated":
            stream.rotations += 1
        elif kind == "truncated":
            detection = label(detection or "size")
            stream.truncations[detection] = stream.truncations.get(detection, 0) + 1
        if kind in {"truncated", "lost"}:
            stream.lost_bytes += max(0, notice.bytes)
        elif kind in {"line_too_long", "skipped"}:
            stream.skipped_bytes += max(0, notice.bytes)

    def stream(self, name: str) -> StreamMemory:
        """The stream of that name, about to change; made if it is new."""
        return self.memory.streams[self._stream(name)]

    def alerts(self, receiver: str) -> dict[str, int]:
        """Outcomes of a receiver."""
        known = self.memory.alerts
        return known[self._enter(known, label(receiver), MAX_NAMES, "other", _no_alerts)]

    def learn(self, path: str, stream: str) -> None:
        """Lines of this path belong to this stream."""
        if self._paths.get(path) != stream:
            self._paths[path] = stream
            if len(self._paths) > MAX_PATHS:
                del self._paths[next(iter(self._paths))]

    def forget(self, streams: set[str]) -> None:
        """All series of these streams go."""
        for name in streams:
            del self.memory.streams[name]
            self.changed[name] = {}
        self._paths = {path: stream for path, stream in self._paths.items() if stream not in streams}
        open_incidents = self.memory.open_incidents
        for key in [key for key, each in open_incidents.items() if each.stream in streams]:
            del open_incidents[key]

    def configure(self, bands: Sequence[Band], baseline_tokens_per_second: float | None) -> None:
        """Judge by these from now on."""
        self.baseline = baseline_tokens_per_second
        self.memory.judge_by(shown(bands))
        self.touch_all()

    def touch_all(self) -> None:
        """Every stream, rank and phase counts as changed."""
        for name, stream in self.memory.streams.items():
            self.changed[name] = {tags: set(rank.phases) for tags, rank in stream.ranks.items()}

    def restore(self, memory: MetricsMemory) -> None:
        """Go on from what was read back; what is known already stays known."""
        known, self.memory = self.memory, memory
        memory.adopt()
        memory.judge_by(known.bands)
        for name, stream in known.streams.items():
            self.stream(name).seen_s = stream.seen_s
        for receiver in known.alerts:
            self.alerts(receiver)
        self.touch_all()

    def _enter(
        self, entries: dict[str, Entry], name: str, cap: int, what: str, make: Callable[[], Entry]
    ) -> str:
        """Under which name an entry is booked: its own, made if there is room, else `overflow`."""
        if name not in entries:
            if len(entries) >= cap:
                self.memory.overflow[what] += 1
                name = OVERFLOW
            if name not in entries:
                entries[name] = make()
        return name

    def _stream(self, name: str) -> str:
        """The label value of a stream that is about to change."""
        entered = self._enter(self.memory.streams, label(name), MAX_STREAMS, "stream", StreamMemory)
        self.changed.setdefault(entered, {})
        return entered

    def _rank(self, stream: str, rank: str | None) -> tuple[RankMemory, set[str]]:
        """A rank, about to change, of the stream with that label value; and its phases that changed."""
        ranks = self.memory.streams[stream].ranks
        entered = self._enter(ranks, label(rank or ""), MAX_RANKS, "rank", RankMemory)
        return ranks[entered], self.changed[stream].setdefault(entered, set())

    def _phase(self, rank: RankMemory, changed: set[str], phase: str) -> PhaseMemory:
        """A phase of that rank, about to change."""
        name = label(phase)
        if name not in rank.phases:
            # A phase with a band always has a place: a hostile log cannot push it out.
            full = len(rank.phases) >= MAX_PHASES or self.memory.phase_series() >= MAX_PHASE_SERIES
            if full and name not in self.memory.bands:
                self.memory.overflow["phase"] += 1
                name = OVERFLOW
            rank.phases.setdefault(name, PhaseMemory())
            kinds = rank.incidents.setdefault(name, {})
            for kind in ("out_of_band",) * (name in self.memory.bands) + ("level_shift",):
                kinds.setdefault(kind, 0)
        changed.add(name)
        return rank.phases[name]

    def _of(self, place: Place) -> str:
        """Stream of an item that does not name it: by its path, else the file's name, as is the default."""
        return self._stream(self._paths.get(place.path) or place.path.rpartition("/")[2])

    def _read(self, item: Read) -> None:
        stream = self.stream(item.stream)
        self.learn(item.path, item.stream)
        stream.seen_s = self._clock()
        stream.read_bytes += item.bytes
        stream.lines["matched"] += item.matched
        stream.lines["ignored"] += item.ignored
        stream.lines["malformed"] += item.malformed

    def _record(self, item: Record) -> None:
        if item.kind not in {"decode", "spec_metrics"}:
            return
        name = self._of(item.place)
        stream, (rank, _) = self.memory.streams[name], self._rank(name, item.rank)
        fields = item.fields
        for field in ("running_requests", "generation_tokens_per_second", "tokens_per_cycle"):
            if (value := _amount(stream, fields.get(field))) is not None:
                setattr(rank, field, value)

    def _malformed(self, item: Malformed) -> None:
        kinds = self.memory.streams[self._of(item.place)].malformed
        reasons = kinds[self._enter(kinds, label(item.kind), MAX_NAMES, "other", dict[str, int])]
        reason = reason_of(item)
        reasons[reason] = reasons.get(reason, 0) + 1

    def _run_started(self, item: RunStarted) -> None:
        self.learn(item.place.path, item.stream)
        name = self._stream(item.stream)
        stream = self.memory.streams[name]
        stream.run = _run_labels(item.settings)
        # What the run before was judged by says nothing of this one, which may not have that phase.
        for tags, rank in stream.ranks.items():
            for phase, memory in rank.phases.items():
                if memory.in_band is not None:
                    memory.in_band = None
                    self.changed[name].setdefault(tags, set()).add(phase)

    def _cycle(self, item: Cycle) -> None:
        name = self._stream(item.stream)
        self.learn(item.place.path, item.stream)
        stream, (rank, changed) = self.memory.streams[name], self._rank(name, item.rank)
        now = self._clock()
        stream.seen_s = rank.sample_read_s = now
        rank.sample_s = instant(item.time, now)
        if item.conditions.version and stream.run:
            stream.run["version"] = label(item.conditions.version)
        for phase, value_s in item.phases_s.items():
            if is_amount(value_s):
                self._phase(rank, changed, phase).observe(value_s, max(0, item.cycles), item.place)
            else:
                stream.rejected += 1
        if (tokens := _amount(stream, item.tokens_per_cycle)) is not None:
            rank.tokens_per_cycle = tokens
        cycle_s = cycle_time_s(item)
        if cycle_s is not None and is_amount(cycle_s):
            baseline = self.baseline if speculates(item) else None
            now_worth = economics(cycle_s, rank.tokens_per_cycle, baseline, item.conditions.batch_size)
            rank.estimated_tokens_per_second = now_worth.estimated_tokens_per_second
            rank.breakeven_tokens_per_cycle = now_worth.breakeven_tokens_per_cycle
            rank.speedup_ratio = now_worth.speedup

    def _judgement(self, item: Judgement) -> None:
        if item.chart != "band" or item.phase not in item.cycle.phases_s:
            return
        rank, changed = self._rank(self._stream(item.cycle.stream), item.cycle.rank)
        phase = self._phase(rank, changed, item.phase)
        phase.in_band = item.signal is Signal.IN_BAND
        phase.low_s, phase.high_s = item.limits.low, item.limits.high

    def _incident(self, item: Incident) -> None:
        rank, _ = self._rank(self._stream(item.stream), item.rank)
        phase, kind = label(item.phase), label(item.kind)
        phases = rank.incidents
        kinds = phases[self._enter(phases, phase, MAX_PHASES, "phase", dict[str, int])]
        kinds.setdefault(kind, 0)
        is_open = self.memory.open_incidents
        kinds[kind] += item.change is Change.OPENED
        if item.change is Change.RESOLVED:
            is_open.pop(item.key, None)
        elif len(is_open) < MAX_OPEN_INCIDENTS:
            where = label(item.stream), label(item.rank or "")
            is_open[item.key] = OpenIncident(*where, phase, kind, item.severity)


def reason_of(item: Malformed) -> str:
    """Why a line is malformed, as one of a handful of label values."""
    if not item.found or item.found.startswith("the end"):
        return "line_ended"
    wanted = item.expected.lower()
    if any(word in wanted for word in ("number", "duration", "integer", "time", "percent")):
        return "bad_value"
    return "unexpected_text"


def shown(bands: Sequence[Band]) -> dict[str, tuple[float, float]]:
    """Edges by phase: of the band that holds always, else of the phase's first."""
    edges: dict[str, tuple[float, float]] = {}
    for band in sorted(bands, key=lambda band: len(band.when)):
        edges.setdefault(label(band.phase), (band.low_s, band.high_s))
    return edges


def instant(time_text: str | None, now: float) -> float:
    """Unix time of a log's time (without a zone: this host's), or `now` where it has no date."""
    if time_text is not None and len(time_text) > 10:
        with suppress(ValueError, OverflowError, OSError):
            return datetime.fromisoformat(time_text).timestamp()
    return now


def _amount(stream: StreamMemory, value: object) -> float | None:
    """A value if it is a number that may enter a metric; else None, and counted unless absent."""
    if isinstance(value, int | float) and is_amount(value):
        return float(value)
    stream.rejected += value is not None
    return None


def _no_alerts() -> dict[str, int]:
    return {"delivered": 0, "failed": 0}


def _run_labels(settings: Mapping[str, str]) -> dict[str, str]:
    off = settings.get("disable_cuda_graph", "").lower()
    return {
        "num_steps": label(settings.get("speculative_num_steps", "")),
        "topk": label(settings.get("speculative_eagle_topk", "")),
        "draft_tokens": label(settings.get("speculative_num_draft_tokens", "")),
        "graph": {"true": "off", "false": "on"}.get(off, ""),
        "tp_size": label(settings.get("tp_size", "")),
        "version": label(settings.get("version", "")),
    }
