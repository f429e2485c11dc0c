"""Level 3: samples as a Parquet file, `logwatch.samples/1`: one row a phase of a report, in the log's order.

| column | meaning |
|---|---|
| `stream`, `rank`, `run` | whose sample; `rank` is null where the log has none; `run` counts from 0 |
| `path`, `line` | where the report begins |
| `time` | UTC, milliseconds; null where the log has none; a time without zone is this machine's local time |
| `log_time` | the time as the log wrote it |
| `phase`, `seconds_per_cycle`, `share_ratio` | the sample; share of the cycle from 0 to 1 |
| `cycles` | how many cycles the report covers |
| `tokens_per_cycle` | accepted drafts + 1, mean over the report |
| `batch_size`, `context_tokens`, `graph` | conditions, null where unknown |
| `num_steps`, `topk`, `draft_tokens`, `version` | the server's, from its settings |
| `warm_up` | first report after a start or at a new batch size |
| `in_band`, `band_low_seconds`, `band_high_seconds` | what the band said, null where none applies |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import polars as pl

from logwatch.columns import Judged
from logwatch.outlets.report.samples import Sample, Samples, all_utc_seconds, utc_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from logwatch.columns import CycleColumns
    from logwatch.model import Item

Kind = TypeVar("Kind", np.float64, np.int64)

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "stream": pl.String,
    "rank": pl.String,
    "run": pl.UInt32,
    "path": pl.String,
    "line": pl.UInt64,
    "time": pl.Datetime("ms", "UTC"),
    "log_time": pl.String,
    "phase": pl.String,
    "seconds_per_cycle": pl.Float64,
    "share_ratio": pl.Float64,
    "cycles": pl.UInt64,
    "tokens_per_cycle": pl.Float64,
    "batch_size": pl.Float64,
    "context_tokens": pl.Float64,
    "num_steps": pl.UInt32,
    "topk": pl.UInt32,
    "draft_tokens": pl.UInt32,
    "graph": pl.Boolean,
    "version": pl.String,
    "warm_up": pl.Boolean,
    "in_band": pl.Boolean,
    "band_low_seconds": pl.Float64,
    "band_high_seconds": pl.Float64,
}
RAW = {**SCHEMA, "time": pl.Int64}

UNJUDGED = 9
"""Stands for the side of a value that no band judges."""

ROWS = 50_000
"""Rows held in memory before they are written down."""


class ParquetParts:
    """Sink that writes samples into files of `folder`, in constant memory; see `whole_parquet`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._samples = Samples()
        self._rows: list[tuple[object, ...]] = []
        self._frames: list[pl.DataFrame] = []
        self._height = 0
        self._parts = 0

    def take(self, item: Item) -> None:
        """Take one item."""
        for sample in self._samples.feed(item):
            self._sample(sample)

    def take_many(self, cycles: CycleColumns) -> None:
        """Take many cycles of one rank, with what their bands said: the same as one by one."""
        for sample in self._samples.flush():
            self._sample(sample)
        self._close_rows()
        self._frame(_frame_of(cycles))

    def close(self) -> None:
        """Write down what is left."""
        for sample in self._samples.flush():
            self._sample(sample)
        self._close_rows()
        self._write()

    def _sample(self, sample: Sample) -> None:
        cycle, conditions = sample.cycle, sample.cycle.conditions
        seconds = utc_seconds(cycle.time)
        time = None if seconds is None else round(seconds * 1000)
        for phase, value in cycle.phases_s.items():
            judged = sample.judged.get(phase)
            self._rows.append(
                (
                    cycle.stream,
                    cycle.rank,
                    cycle.run,
                    cycle.place.path,
                    cycle.place.line,
                    time,
                    cycle.time,
                    phase,
                    value,
                    cycle.shares.get(phase),
                    cycle.cycles,
                    cycle.tokens_per_cycle,
                    conditions.batch_size,
                    conditions.context_tokens,
                    conditions.num_steps,
                    conditions.topk,
                    conditions.draft_tokens,
                    conditions.graph,
                    conditions.version,
                    cycle.warm_up,
                    sample.in_band(phase),
                    judged.limits.low if judged else None,
                    judged.limits.high if judged else None,
                )
            )
        if len(self._rows) >= ROWS:
            self._close_rows()

    def _close_rows(self) -> None:
        if self._rows:
            self._frame(pl.DataFrame(self._rows, schema=RAW, orient="row"))
            self._rows.clear()

    def _frame(self, frame: pl.DataFrame) -> None:
        self._frames.append(frame)
        self._height += frame.height
        if self._height >= ROWS:
            self._write()

    def _write(self) -> None:
        if self._frames:
            frame = pl.concat(self._frames)
            frame = frame.with_columns(pl.col("time").cast(pl.Datetime("ms")).dt.replace_time_zone("UTC"))
            frame.write_parquet(self._folder / f"{self._parts:08}.parquet")
            self._parts += 1
            self._frames.clear()
            self._height = 0


def _frame_of(cycles: CycleColumns) -> pl.DataFrame:
    """A row a phase of each cycle, in the shape of `RAW`."""
    phases, count, fixed = list(cycles.phases_s), len(cycles), cycles.fixed
    unknown = np.full(count, np.nan)
    nothing = Judged(unknown, unknown, unknown, np.full(count, UNJUDGED))
    bands = [cycles.judged.get(phase, nothing) for phase in phases]
    of_cycle = pl.DataFrame(
        {
            "line": cycles.lines,
            "time": [None if now is None else round(now * 1000) for now in all_utc_seconds(cycles.times)],
            "log_time": cycles.times,
            "cycles": cycles.cycles,
            "tokens_per_cycle": cycles.tokens_per_cycle,
            "batch_size": cycles.batch_size,
            "context_tokens": cycles.context_tokens,
            "graph": pl.Series(cycles.graph).replace(-1, None),
        }
    )
    of_phase = pl.DataFrame({"phase": phases})
    of_row = pl.DataFrame(
        {
            "seconds_per_cycle": _by_turns([cycles.phases_s[phase] for phase in phases]),
            "share_ratio": pl.Series(
                _by_turns([cycles.shares.get(phase, unknown) for phase in phases])
            ).fill_nan(None),
            "band_low_seconds": pl.Series(_by_turns([band.low for band in bands])).fill_nan(None),
            "band_high_seconds": pl.Series(_by_turns([band.high for band in bands])).fill_nan(None),
            "in_band": pl.Series(_by_turns([band.sides for band in bands])).replace(UNJUDGED, None) == 0,
        }
    )
    rows = pl.concat(
        [
            of_cycle[np.repeat(np.arange(count), len(phases))],
            of_phase[np.tile(np.arange(len(phases)), count)],
            of_row,
        ],
        how="horizontal",
    )
    same = {
        "stream": cycles.stream,
        "rank": cycles.rank,
        "run": cycles.run,
        "path": cycles.path,
        "num_steps": fixed.num_steps,
        "topk": fixed.topk,
        "draft_tokens": fixed.draft_tokens,
        "version": fixed.version,
        "warm_up": False,
    }
    return rows.with_columns(**{name: pl.lit(value) for name, value in same.items()}).select(
        pl.col(name).cast(kind) for name, kind in RAW.items()
    )


def _by_turns(columns: list[NDArray[Kind]]) -> NDArray[Kind]:
    """One value of each by turns."""
    return np.column_stack(columns).ravel()


def whole_parquet(folders: Sequence[Path], path: Path) -> None:
    """Put the parts of several streams into one file, in the streams' order."""
    parts = [part for folder in folders for part in sorted(folder.glob("*.parquet"))]
    frames = [pl.scan_parquet(part) for part in parts] or [pl.LazyFrame(schema=SCHEMA)]
    pl.concat(frames).sink_parquet(path, metadata={"schema": "logwatch.samples/1"}, compression="zstd")
