"""What a replay writes is the same whether its samples come as columns or one by one, and so is a stretch of it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_columns_equal_objects import PHASES, WORST, Server

from logwatch.commands import replay_reading
from logwatch.commands.replay_streams import Stream
from logwatch.commands.replay_window import Window
from logwatch.commands.replay_worker import Job, work
from logwatch.config import Config
from logwatch.model import seconds_of
from logwatch.outlets.report.as_openmetrics import whole_openmetrics
from logwatch.outlets.report.as_parquet import whole_parquet
from logwatch.outlets.report.track import Tracker

BANDS = [
    {"phase": "target_verify", "low": "18.5ms", "high": "19.5ms"},
    {"phase": "target_verify", "low": "20ms", "high": "30ms", "when": {"batch_size": "4..8"}},
    {"phase": "draft_forward", "low": "0.1ms", "high": "0.55ms"},
    {"phase": "draft_extend", "low": "0.58ms", "high": "0.62ms", "per_context_token": "0.0000001ms"},
]
CONFIG = Config.model_validate({"band": BANDS, "speculation": {"baseline_tokens_per_second": 95.5}})
LOGS = Path(__file__).parents[1] / "fixtures" / "logs"


@pytest.fixture(autouse=True)
def _cut_often(monkeypatch):
    """Small logs in many chunks."""
    monkeypatch.setattr(replay_reading, "CHUNK", 150_000)
    monkeypatch.setattr(replay_reading, "DENSE_CHUNK", 80_000)
    monkeypatch.setattr(replay_reading, "SMALL", 1000)


def written(log, folder, *, columns, window=(None, None), config=CONFIG):
    """All that a replay of one log keeps and writes: `explain` wants every cycle as an object."""
    job = Job(
        Stream("s", (str(log),)),
        config,
        window,
        folder,
        page=True,
        parquet=True,
        openmetrics=True,
        explain=not columns,
    )
    folder.mkdir(parents=True)
    part = work(job)
    whole_parquet([folder], folder / "whole")
    table = pl.read_parquet(folder / "whole")
    whole_openmetrics([folder], folder / "whole")
    return part, table, (folder / "whole").read_bytes()


def check(log, folder, window=(None, None)):
    """Both ways agree in every output; the table that both wrote."""
    (one, rows, text), (other, frame, metrics) = (
        written(log, folder / str(columns), columns=columns, window=window) for columns in (True, False)
    )
    assert one.collector.summary() == other.collector.summary()
    assert one.tracker.tracks == other.tracker.tracks
    assert (one.tracker.starts, one.tracker.malformed) == (other.tracker.starts, other.tracker.malformed)
    assert (one.undated, one.late) == (other.undated, other.late)
    assert rows.equals(frame)
    assert rows.schema == frame.schema
    assert text == metrics
    return rows


def test_columns_are_what_is_tested(tmp_path, monkeypatch):
    """On a steady log nearly all cycles come as columns, and without columns none does."""
    taken = []
    follow = Tracker.take_many
    monkeypatch.setattr(
        Tracker, "take_many", lambda self, cycles: (taken.append(len(cycles)), follow(self, cycles))
    )
    log = tmp_path / "s.log"
    log.write_bytes(Server(1, []).log(1500, 0.0))
    written(log, tmp_path / "columns", columns=True, config=Config())
    assert sum(taken) > 1200
    taken.clear()
    written(log, tmp_path / "objects", columns=False, config=Config())
    assert not taken


@given(
    st.integers(0, 1_000_000),
    st.lists(st.sampled_from(WORST), max_size=5, unique=True),
    st.sampled_from([0.001, 0.01, 0.05]),
)
@settings(max_examples=4, deadline=None, phases=PHASES, suppress_health_check=[HealthCheck.too_slow])
def test_outputs_do_not_depend_on_how_samples_come(tmp_path_factory, seed, mishaps, rate):
    """Whatever happens to a server: summary, picture, Parquet and OpenMetrics are equal to the last digit."""
    folder = tmp_path_factory.mktemp("outputs")
    (folder / "s.log").write_bytes(Server(seed, mishaps).log(800, rate))
    check(folder / "s.log", folder)


@pytest.mark.parametrize("what", WORST)
def test_each_mishap_gives_the_same(tmp_path, what):
    """Each of what may happen, often and by itself."""
    (tmp_path / "s.log").write_bytes(Server(7, [what]).log(350, 0.04))
    check(tmp_path / "s.log", tmp_path)


def test_real_logs_give_the_same(tmp_path):
    """Real servers' logs one after the other: clocks go back, settings change, some reports have no date."""
    files = sorted(path for path in LOGS.rglob("*.log") if path.is_file())
    (tmp_path / "s.log").write_bytes(b"\n".join(path.read_bytes() * 2 for path in files))
    check(tmp_path / "s.log", tmp_path)


@pytest.mark.parametrize(
    ("since", "until"),
    [
        pytest.param(None, "2026-02-11T00:10:00", id="its beginning"),
        pytest.param("2026-02-11T00:05:00", None, id="its end"),
        pytest.param("2026-02-11T00:05:00", "2026-02-11T00:15:00", id="its middle"),
        pytest.param("2026-02-11T00:05:00", "2026-02-11T00:05:03", id="a moment"),
    ],
)
@pytest.mark.parametrize(
    "mishaps", [[], ["restart", "malformed", "rank", "crash"]], ids=["steady", "troubled"]
)
def test_a_stretch_gives_what_its_records_one_by_one_give(tmp_path, monkeypatch, since, until, mishaps):
    """A chunk that lies all in it, or all outside, is not asked for its records; nothing changes by that."""
    log = tmp_path / "s.log"
    log.write_bytes(Server(3, mishaps).log(1000, 0.01))
    window = seconds_of(since), seconds_of(until)
    rows = check(log, tmp_path, window)
    monkeypatch.setattr(Window, "keeps_all", lambda *_: None)
    _, each, _ = written(log, tmp_path / "each", columns=True, window=window)
    assert rows.equals(each)
    assert 0 < rows.height < 3900  # of a thousand reports of four phases
