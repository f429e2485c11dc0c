"""A large backlog enters by the bulk path, and live following goes on without a seam."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import crash
from logwatch import daemon as daemon_module
from logwatch.backlog import Backlog
from logwatch.intake.chunks import Chunk
from logwatch.model import Read, Record
from logwatch.pipeline import Pipeline
from tests.following.test_state_and_crash import running, wait_for
from tests.following.watching import SETTINGS

LOGS = sorted((Path(__file__).parents[2] / "fixtures" / "logs" / "sglang_h200").glob("*.log"))


def told(items):
    """All but the records that bulk does not give one by one, and how much was read in all."""
    reads = [item for item in items if isinstance(item, Read)]
    sums = tuple(
        sum(getattr(each, name) for each in reads) for name in ("bytes", "lines", "matched", "malformed")
    )
    return [item for item in items if not isinstance(item, Read | Record)], sums


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_range_gives_what_its_bytes_give(tmp_path, log):
    """Cycles, judgements and incidents of a range are those of its bytes, and the pipeline goes on behind it."""
    data = log.read_bytes()
    data = data[: data.rfind(b"\n") + 1]
    path = tmp_path / "server.log"
    path.write_bytes(data)
    middle = data.index(b"\n", len(data) // 3) + 1
    expected = Pipeline(SETTINGS, "s", str(path))
    items = [*expected.feed_bytes(data), *expected.finish()]
    pipeline, backlog = Pipeline(SETTINGS, "s", str(path)), Backlog(())
    found = []
    for start, end, line in ((0, middle, 1), (middle, len(data), data[:middle].count(b"\n") + 1)):
        found += backlog.items(pipeline, Chunk("s", str(path), start, data[start:end], line, bulk=True))
    found += pipeline.finish()
    assert told(found) == told(items)
    assert (pipeline.line, pipeline.pending_bytes) == (expected.line, 0)


def test_daemon_catches_up_in_bulk_and_goes_on_live(tmp_path, monkeypatch):
    """What was written in hours of downtime and what is written now are one history."""
    monkeypatch.setattr(daemon_module, "BULK_BYTES", 100_000)
    seen = []
    items = Backlog.items
    monkeypatch.setattr(Backlog, "items", lambda *given: seen.append(given[-1]) or items(*given))
    log = tmp_path / "server.log"
    log.write_text("".join(crash.line(number, 100_000) for number in range(3)))
    with running(log, tmp_path / "state"):
        wait_for(lambda: crash.count(tmp_path / "state") == 3)
    with log.open("a") as file:
        file.writelines(crash.line(number, 100_000) for number in range(3, 5000))
    with running(log, tmp_path / "state"):
        wait_for(lambda: crash.count(tmp_path / "state") == 5000)
        with log.open("a") as file:
            file.writelines(crash.line(number, 100_000) for number in range(5000, 5010))
        wait_for(lambda: crash.count(tmp_path / "state") == 5010)
    found = crash.outcome(tmp_path / "state")
    assert [row[3] for row in found.history] == list(range(1, 5011))
    assert found.counters["read_bytes"] == log.stat().st_size
    assert found.counters["lines"]["matched"] == 5010
    assert [each.path for each in seen] == [str(log)]
