"""Parquet and OpenMetrics: what a replay writes for other programs, read back by those programs."""

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager

import polars as pl
import pytest
from outlet_items import cycle, decode, incident, judgement, run_started
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from logwatch.model import Change
from logwatch.outlets.report.as_openmetrics import OpenMetricsParts, whole_openmetrics
from logwatch.outlets.report.as_parquet import SCHEMA, ParquetParts, whole_parquet


@pytest.fixture
def utc(monkeypatch):
    """A machine whose clock shows UTC."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def parquet(path, *items):
    """One stream's samples in one file."""
    folder = path.parent / "parts"
    folder.mkdir()
    sink = ParquetParts(folder)
    for item in items:
        sink.take(item)
    sink.close()
    whole_parquet([folder], path)


def openmetrics(path, *items, stream="node7.log"):
    """One stream's samples in one file, and the sink that wrote them."""
    folder = path.parent / "parts"
    folder.mkdir()
    sink = OpenMetricsParts(folder, stream, 82.2)
    for item in items:
        sink.take(item)
    sink.close()
    whole_openmetrics([folder], path)
    return sink


def minutes(count, verify_s=0.01914, *, start=0, **changed):
    """Cycles a minute apart, each with its judgement."""
    for minute in range(start, start + count):
        of = cycle(verify_s, line=minute + 1, time=f"2026-02-11T08:{minute:02}:00", **changed)
        yield of
        yield judgement(of)


def test_parquet_has_a_row_a_phase_with_units_in_the_names(tmp_path, utc):
    """Each phase of each report is a row: its seconds, its conditions and what its band said."""
    path = tmp_path / "samples.parquet"
    parquet(path, *minutes(2), *minutes(1, 0.02895, start=2, rank=None))
    frame = pl.read_parquet(path)
    assert frame.schema == pl.Schema(SCHEMA)
    assert frame.height == 9
    assert frame.filter(pl.col("phase") == "target_verify").select(
        "rank", "line", "seconds_per_cycle", "share_ratio", "in_band", "band_high_seconds", "num_steps"
    ).rows() == [
        ("TP0", 1, 0.01914, 0.95, True, 0.021, 2),
        ("TP0", 2, 0.01914, 0.95, True, 0.021, 2),
        (None, 3, 0.02895, 0.95, False, 0.021, 2),
    ]
    assert str(frame["time"][0]) == "2026-02-11 08:00:00+00:00"
    assert frame["in_band"][0] is None


def test_parquet_of_nothing_is_a_file_with_columns(tmp_path):
    """A replay without samples leaves an empty table, not a missing file."""
    parquet(tmp_path / "none.parquet")
    assert pl.read_parquet(tmp_path / "none.parquet").shape == (0, len(SCHEMA))


def test_parquet_survives_many_parts(tmp_path, monkeypatch):
    """What is written down in parts comes back in order."""
    monkeypatch.setattr("logwatch.outlets.report.as_parquet.ROWS", 7)
    parquet(tmp_path / "p", *minutes(50))
    lines = pl.read_parquet(tmp_path / "p").filter(pl.col("phase") == "target_verify")["line"]
    assert lines.to_list() == list(range(1, 51))


def test_openmetrics_text_is_what_the_format_demands(tmp_path, utc):
    """Families are whole, reports of one second are a millisecond apart, and what has no date is counted."""
    first, same = cycle(line=1, cycles=100), cycle(0.0195, line=9, cycles=50)
    undated, late = cycle(line=11, time=None), cycle(line=12, time="2026-02-11T07:00:00")
    sink = openmetrics(
        tmp_path / "o.om",
        run_started(),
        decode(running_requests=1),
        first,
        judgement(first),
        same,
        judgement(same),
        undated,
        late,
        stream='no"de\\7.log',
    )
    text = (tmp_path / "o.om").read_text()
    assert (sink.undated, sink.late) == (1, 1)
    assert text.endswith("\n# EOF\n")
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    scraped = 'job="logwatch",instance="replay"'
    verify = f'{{{scraped},stream="node7.log",rank="TP0",phase="target_verify"}}'
    assert f"logwatch_phase_seconds{verify} 0.01914 1770797702.000\n" in text
    assert f"logwatch_phase_seconds{verify} 0.0195 1770797702.001\n" in text
    assert f"logwatch_cycles_total{verify} 150 1770797702.001\n" in text
    assert rf'logwatch_running_requests{{{scraped},stream="no\"de\\7.log",rank="TP0"}} 1' in text


def made_blocks(out, data):
    """Promtool makes blocks of the file."""
    made = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", out, data],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr


@pytest.mark.parametrize("held_chars", [0, 1000, 1 << 20], ids=["nothing held", "a little held", "all held"])
def test_series_that_come_mixed_are_written_one_after_the_other(tmp_path, utc, monkeypatch, held_chars):
    """The strict parser and promtool take what two ranks wrote by turns: a series stands in one piece, in order."""
    monkeypatch.setattr("logwatch.outlets.report.openmetrics_series.HELD_CHARS", held_chars)
    ranks = minutes(20, rank="TP0"), minutes(20, 0.0195, rank="TP1"), minutes(20, 0.0195, rank=None)
    mixed = [item for by_turns in zip(*ranks, strict=True) for item in by_turns]
    openmetrics(tmp_path / "o.om", *mixed, incident(noticed=incident().noticed), incident(Change.RESOLVED))
    families = list(text_string_to_metric_families((tmp_path / "o.om").read_text()))
    verify = [
        [sample.value for sample in family.samples if sample.labels["phase"] == "target_verify"]
        for family in families
        if family.name in {"logwatch_phase_seconds", "logwatch_cycles"}
    ]
    assert verify == [[0.01914] * 20 + [0.0195] * 40, [100 * n for n in range(1, 21)] * 3]
    made_blocks(tmp_path / "o.om", tmp_path / "data")


@contextmanager
def prometheus(data, tmp_path):
    """A real Prometheus over the blocks; gives a function that asks it."""
    config = tmp_path / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:

        def ask(query, at):
            given = urllib.parse.urlencode({"query": query, "time": at})
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/api/v1/query?{given}", timeout=10
            ) as answer:
                return json.load(answer)["data"]["result"]

        try:
            deadline = time.monotonic() + 30
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5).close()
                    break
                except OSError:
                    assert time.monotonic() < deadline
                    assert server.poll() is None
                    with socket.socket() as pause:  # nothing announces readiness: ask again in a moment
                        pause.settimeout(0.1)
                        pause.connect_ex(("127.0.0.1", port))
            yield ask
        finally:
            server.terminate()


def test_prometheus_loads_and_answers(tmp_path):
    """Promtool makes blocks of the file, and a Prometheus over them shows last month's regression."""
    out = tmp_path / "o.om"
    opened = incident(noticed=incident().noticed)
    openmetrics(out, *minutes(30), *minutes(30, 0.02895, start=30), opened, incident(Change.RESOLVED))
    data = tmp_path / "data"
    made_blocks(out, data)
    noon = time.mktime((2026, 2, 11, 8, 59, 30, 0, 0, -1))
    with prometheus(data, tmp_path) as ask:
        verify = '{phase="target_verify",stream="node7.log",rank="TP0"}'
        (value,) = ask(f"max_over_time(logwatch_phase_seconds{verify}[1h])", noon)
        assert value["value"][1] == "0.02895"
        rate = "rate(logwatch_cycle_phase_seconds_total{phase='target_verify'}[20m])"
        (mean,) = ask(f"{rate} / rate(logwatch_cycles_total[20m])", noon)
        assert float(mean["value"][1]) == pytest.approx(0.02895)
        (in_band,) = ask(f"avg_over_time(logwatch_phase_in_band{verify}[1h])", noon)
        assert float(in_band["value"][1]) == pytest.approx(0.5)
        (speedup,) = ask("logwatch_speculation_speedup_ratio", noon)
        assert float(speedup["value"][1]) < 1
