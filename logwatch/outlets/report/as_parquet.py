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

from typing import TYPE_CHECKING

import polars as pl

from logwatch.outlets.report.samples import Sample, Samples, utc_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from logwatch.model import Item

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
ROWS = 50_000
"""Rows held in memory before they are written down."""


class ParquetParts:
    """Sink that writes samples into files of `folder`, in constant memory; see `whole_parquet`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._samples = Samples()
        self._rows: list[tuple[object, ...]] = []
        self._parts = 0

    def take(self, item: Item) -> None:
        """Take one item."""
        for sample in self._samples.feed(item):
            self._sample(sample)

    def close(self) -> None:
        """Write down what is left."""
        for sample in self._samples.flush():
            self._sample(sample)
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
            self._write()

    def _write(self) -> None:
        if self._rows:
            raw = {**SCHEMA, "time": pl.Int64}
            frame = pl.DataFrame(self._rows, schema=raw, orient="row")
            frame = frame.with_columns(pl.col("time").cast(pl.Datetime("ms")).dt.replace_time_zone("UTC"))
            frame.write_parquet(self._folder / f"{self._parts:08}.parquet")
            self._parts += 1
            self._rows.clear()


def whole_parquet(folders: Sequence[Path], path: Path) -> None:
    """Put the parts of several streams into one file, in the streams' order."""
    parts = [part for folder in folders for part in sorted(folder.glob("*.parquet"))]
    frames = [pl.scan_parquet(part) for part in parts] or [pl.LazyFrame(schema=SCHEMA)]
    pl.concat(frames).sink_parquet(path, metadata={"schema": "logwatch.samples/1"}, compression="zstd")
