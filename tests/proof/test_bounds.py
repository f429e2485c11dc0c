"""What a hostile or careless writer can make large stays small: memory, series, state, answers."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest
from daemon_kit import fetch, running, watch_config
from pydantic import TypeAdapter

from logwatch.config import Config
from logwatch.model import Cycle
from logwatch.outlets.metrics import Metrics, build_registry
from logwatch.outlets.web.board import Board
from logwatch.pipeline import Pipeline, PipelineMemory, Settings

SETTINGS = Settings.of_config(Config())
MEMORY = TypeAdapter(PipelineMemory)
REPORT = (
    "[2026-02-11 08:15:02 {rank}] EAGLE3_PROFILE 100 cycles, batch {batch:.1f}, graph 100.0%\n"
    "  {phase}:     19.14 ms/cyc  ( 95.0%)\n  Total cycle:       20.15 ms/cyc\n  Accept len:         0.92\n"
)


def piece(what: str, number: int) -> str:
    """A piece of log in which one thing differs from every other piece."""
    given = {"rank": "TP0", "batch": 1.0, "phase": "Target verify"}
    if what == "ranks":
        given["rank"] = f"TP{number}"
    elif what == "phases":
        given["phase"] = f"Phase {number:x}".translate(str.maketrans("0123456789", "ghijklmnop"))
    elif what == "batches":
        given["batch"] = float(number)
    elif what == "settings":
        return (
            f"server_args=ServerArgs(model_path='/m{number}', tp_size=8, x{number}='{'y' * 50}')\n"
            + REPORT.format(**given)
        )
    elif what == "environments":
        return (
            f"[2026-02-11 08:15:02 TP0] EAGLE3_PROFILE environment NCCL_A{number}={'z' * 50}\n"
            + REPORT.format(**given)
        )
    elif what == "processes":
        return (
            f"h:{number}:{number} [0] NCCL INFO NCCL_PROTO set by environment to LL\n(W pid={number}) "
            + REPORT.format(**given)
        )
    elif what == "containers":
        return f'{{"log":"{"a" * 20_000}","stream":"s{number}"}}\n'
    return REPORT.format(**given)


@pytest.mark.parametrize(
    "what", ["ranks", "phases", "batches", "settings", "environments", "processes", "containers", "reports"]
)
def test_memories_are_bounded(what):
    """From some number on, more different things take no more memory: neither what is kept nor what is shown."""
    pipeline, metrics, board = Pipeline(SETTINGS, "s", "p"), Metrics(), Board()
    few, lots = {"containers": (40, 200), "ranks": (2400, 4000), "processes": (2400, 4000)}.get(
        what, (300, 2000)
    )
    sizes = []
    for number in range(1, lots + 1):
        for item in pipeline.feed_bytes(piece(what, number).encode()):
            metrics.take(item)
            board.take(item)
        if number in {few, lots}:
            shown = sum(len(family.samples) for family in build_registry(metrics).collect())
            kept = TypeAdapter(type(board.memory)).dump_json(board.memory)
            sizes.append((len(MEMORY.dump_json(pipeline.memory)), shown, len(kept)))
    for early, late, least in zip(*sizes, (300_000, 3_000, 300_000), strict=True):
        assert late <= max(early * 1.5, least), sizes


def test_a_line_without_end_takes_no_more_than_a_mebibyte_or_two():
    """Thirty megabytes without a newline: memory stays, and the next line is read."""
    pipeline = Pipeline(SETTINGS, "s", "p")
    list(pipeline.feed_bytes(REPORT.format(rank="TP0", batch=1.0, phase="Target verify").encode() * 3))
    tracemalloc.start()
    for _ in range(480):
        list(pipeline.feed_bytes(b"x" * 65536))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    items = list(
        pipeline.feed_bytes(b"\n" + REPORT.format(rank="TP0", batch=1.0, phase="Target verify").encode() * 2)
    )
    assert peak < 8_000_000
    assert len([item for item in items if isinstance(item, Cycle)]) >= 1


def test_an_archive_that_unpacks_to_a_hundred_times_its_size(tmp_path):
    """A rotated copy that is a bomb is read piecewise; what stands behind it is read too."""
    log = tmp_path / "a.log"
    text = REPORT.format(rank="TP0", batch=1.0, phase="Target verify")
    log.write_text(text * 3)
    with running(watch_config(log), tmp_path / "state") as (daemon, eyes, _out):
        eyes.wait(lambda e: len(e.of(Cycle)) == 3)
        log.rename(tmp_path / "old")
        whole = (tmp_path / "old").read_bytes() + b"\0" * 60_000_000 + b"\n" + text.encode()
        with gzip.open(tmp_path / "a.log.1.gz", "wb", compresslevel=1) as packed:
            packed.write(whole)
        (tmp_path / "old").unlink()
        tracemalloc.start()
        log.write_text(text * 2)
        eyes.wait(lambda e: len(e.of(Cycle)) >= 5)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert json.loads(fetch(daemon, "/api/v1/status"))["schema"] == "logwatch.status/1"
    assert peak < 24_000_000
