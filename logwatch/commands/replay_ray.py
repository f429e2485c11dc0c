"""Level 6: streams of a replay over a Ray cluster (extra `ray`): one task a stream, samples back as Arrow.

The files must have the same paths on all nodes (a shared file system, or object-store addresses). Streams are
judged where they are read, by the same `work` as on one machine, so the answer is the same.
"""

from __future__ import annotations

import os
import socket
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logwatch.commands.replay_worker import Job, Part, work
from logwatch.errors import Problem, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

KNOCK_S = 5.0


@dataclass
class Packed:
    """A part on its way back.

    Attributes:
        samples: Arrow table (`logwatch.samples/1`), or None where Parquet is not wanted.
        families: OpenMetrics lines by file name.
    """

    part: Part
    samples: Any
    families: dict[str, bytes]


def work_on_ray(jobs: Sequence[Job]) -> list[Part]:
    """Replay streams on the cluster that this process is connected to, else on that of `$RAY_ADDRESS`.

    Raises:
        SourceError: Ray is not installed, or no cluster answers.
        LogwatchError: What `work` raises.
    """
    try:
        import ray
    except ImportError:
        raise SourceError(
            Problem("--engine ray", "Ray is not installed", "pip install 'sglang-logwatch[ray]'")
        ) from None
    if not ray.is_initialized():
        try:
            _knock(os.environ.get("RAY_ADDRESS", ""))
            ray.init(address="auto", log_to_driver=False)
        except OSError:
            what = "no Ray cluster answers"
            raise SourceError(
                Problem("--engine ray", what, "start one (`ray start --head`) or set RAY_ADDRESS")
            ) from None
    remote = ray.remote(_work)
    pending = [remote.remote(replace(job, folder=None), job.folder is not None) for job in jobs]
    parts = []
    for job, reference in zip(jobs, pending, strict=True):
        try:
            packed: Packed = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        if job.folder is not None:
            _unpack(packed, job.folder)
        parts.append(packed.part)
    return parts


def _knock(address: str) -> None:
    """Fail at once where nobody listens at an address: Ray itself tries for minutes, and then ends the process.

    Raises:
        OSError: Nobody does.
    """
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()


def _work(job: Job, files: bool) -> Packed:
    if not files:
        return Packed(work(job), None, {})
    import polars as pl

    with tempfile.TemporaryDirectory(prefix="logwatch-replay-") as made:
        folder = Path(made)
        part = work(replace(job, folder=folder))
        tables = sorted(folder.glob("*.parquet"))
        samples = pl.concat([pl.read_parquet(table) for table in tables]).to_arrow() if tables else None
        return Packed(part, samples, {path.name: path.read_bytes() for path in folder.glob("*.om")})


def _unpack(packed: Packed, folder: Path) -> None:
    if packed.samples is not None:
        import polars as pl

        frame = pl.from_arrow(packed.samples)
        assert isinstance(frame, pl.DataFrame)
        frame.write_parquet(folder / "00000000.parquet")
    for name, lines in packed.families.items():
        (folder / name).write_bytes(lines)
