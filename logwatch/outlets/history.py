"""Level 3: what the state file remembers, asked by time and stream, and written as Parquet."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from logwatch.errors import Problem, SourceError
from logwatch.model import Incident, Limits
from logwatch.outlets.state_file import FILE
from logwatch.outlets.web.board import Sample

if TYPE_CHECKING:
    import polars as pl

    from logwatch.outlets.web.api import Query

_SAMPLE = (
    "stream, coalesce(rank, ''), run, phase, seconds, time, read_s, line, cycles, share, batch_size, graph, in_band, "
    "low_s, high_s"
)


class History:
    """Questions to the state file. Each opens it for reading only, so any thread may ask."""

    def __init__(self, directory: Path) -> None:
        self._path = Path(directory) / FILE

    def samples(self, query: Query) -> Sequence[Sample]:
        """Samples that match, oldest first, the newest `query.limit` of them."""
        wanted = {"stream": query.stream, "coalesce(rank, '')": query.rank, "phase": query.phase}
        where, values = _where(wanted, query.since_s, query.until_s)
        sql = f"SELECT {_SAMPLE} FROM samples WHERE {where} ORDER BY at_s DESC, id DESC LIMIT ?"  # noqa: S608  # constants
        rows = self._rows(sql, (*values, query.limit))
        return [_sample(row) for row in reversed(rows)]

    def _rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Answer of the state file; nothing where it cannot be read: the daemon says so, and keeps what it can."""
        try:
            with _reading(self._path) as connection:
                return connection.execute(sql, values).fetchall()
        except sqlite3.Error:
            return []

    def incidents(self, query: Query) -> Sequence[Incident]:
        """Incidents that match, as known now, oldest onset first, the newest `query.limit` of them."""
        from pydantic import TypeAdapter  # noqa: PLC0415  # exports need none of it

        wanted = {
            "stream": query.stream,
            "coalesce(rank, '')": query.rank,
            "phase": query.phase,
            "kind": query.kind,
            "open": None if query.state is None else query.state == "open",
        }
        where, values = _where(wanted, -1e18, query.until_s)
        sql = (
            f"SELECT body FROM incidents WHERE {where} AND (open OR coalesce(resolved_s, at_s) >= ?) "  # noqa: S608  # constants
            "ORDER BY at_s DESC, id DESC LIMIT ?"
        )
        rows = self._rows(sql, (*values, max(query.since_s, -1e18), query.limit))
        adapter = TypeAdapter(Incident)
        return [adapter.validate_json(body) for (body,) in reversed(rows)]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5.0)
    try:
        yield connection
    finally:
        connection.close()


def _where(wanted: dict[str, Any], since_s: float, until_s: float) -> tuple[str, list[Any]]:
    parts, values = ["at_s >= ?", "at_s <= ?"], [max(since_s, -1e18), min(until_s, 1e18)]
    for column, value in wanted.items():
        if value is not None:
            parts.append(f"{column} = ?")
            values.append(value)
    return " AND ".join(parts), values


def _sample(row: tuple[Any, ...]) -> Sample:
    *plain, graph, in_band, low_s, high_s = row
    band = None if low_s is None else Limits(low_s, (low_s + high_s) / 2, high_s)
    given: tuple[Any, ...] = (*plain, _bool(graph), _bool(in_band), band)
    return Sample(*given)


def _bool(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def export_parquet(
    state_directory: Path, target: Path, since_s: float = -1e18, until_s: float = 1e18
) -> list[Path]:
    """Write samples as `TARGET/day=2026-02-11/stream=server.log/samples.parquet`; the files written.

    Days are those of the sample's time, in UTC. Columns of a file, null where the log did not say: `instant`
    (microseconds, UTC), `time` (as the log wrote it), `rank`, `run`, `path`, `line`, `phase`, `seconds`,
    `cycles`, `share`, `tokens_per_cycle`, conditions, `warm_up`, `complete`, `in_band`. Each file appears whole
    under its name or not at all, and replaces the one of an earlier export.

    Raises:
        SourceError: There is no state file, or it cannot be read, or the target cannot be written.
    """
    path = Path(state_directory) / FILE
    if not path.is_file():
        raise SourceError(
            Problem(
                str(path), "no history here", "has `logwatch watch` run? set STATE_DIRECTORY to its state"
            )
        )
    try:
        with _reading(path) as connection:
            return [
                _write_part(connection, Path(target), day, stream, since_s, until_s)
                for day, stream in connection.execute(
                    "SELECT DISTINCT CAST(floor(at_s / 86400) AS INTEGER), stream FROM samples "
                    "WHERE at_s >= ? AND at_s <= ? ORDER BY 1, 2",
                    (since_s, until_s),
                ).fetchall()
            ]
    except sqlite3.Error as error:
        raise SourceError(Problem(str(path), f"cannot be read: {error}", "is it a state file?")) from None
    except OSError as error:
        raise SourceError(
            Problem(str(target), f"cannot be written: {error.strerror or error}", "choose another directory")
        ) from None


def _write_part(
    connection: sqlite3.Connection, target: Path, day: int, stream: str, since_s: float, until_s: float
) -> Path:
    import polars as pl  # noqa: PLC0415  # heavy, and only exports need it

    schema: Any = _schema()
    cursor = connection.execute(
        f"SELECT {', '.join('at_s' if name == 'instant' else name for name in schema)} FROM samples "  # noqa: S608  # constants
        "WHERE stream = ? AND at_s >= ? AND at_s < ? AND at_s <= ? ORDER BY at_s, id",
        (stream, max(since_s, day * 86400.0), (day + 1) * 86400.0, until_s),
    )
    frame = pl.DataFrame(cursor.fetchall(), schema=list(schema), orient="row", infer_schema_length=None)
    frame = frame.with_columns((pl.col("instant") * 1_000_000).round().cast(pl.Int64)).cast(schema)
    name = datetime.fromtimestamp(day * 86400, UTC).date().isoformat()
    folder = target / f"day={name}" / f"stream={quote(stream, safe=' ~@+,')}"
    folder.mkdir(parents=True, exist_ok=True)
    final, unfinished = folder / "samples.parquet", folder / ".samples.parquet.unfinished"
    frame.write_parquet(unfinished)
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.replace(final)
    return final


def _schema() -> Mapping[str, pl.DataType]:
    import polars as pl  # noqa: PLC0415  # heavy, and only exports need it

    text, real, whole, yes = pl.String(), pl.Float64(), pl.Int64(), pl.Boolean()
    return {
        "instant": pl.Datetime("us", "UTC"),
        "time": text,
        "rank": text,
        "run": whole,
        "path": text,
        "line": whole,
        "phase": text,
        "seconds": real,
        "cycles": whole,
        "share": real,
        "tokens_per_cycle": real,
        "batch_size": real,
        "context_tokens": real,
        "num_steps": whole,
        "topk": whole,
        "draft_tokens": whole,
        "graph": yes,
        "version": text,
        "warm_up": yes,
        "complete": yes,
        "in_band": yes,
    }
