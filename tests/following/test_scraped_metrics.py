"""Scenarios 58 to 64: what a scraper sees, from the log's bytes through the whole pipeline to the exposition."""

from __future__ import annotations

import math
import subprocess
import threading
import time
import urllib.request

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from logwatch.config import Config
from logwatch.judging.bands import Band
from logwatch.model import Level, Notice
from logwatch.outlets.metrics import Metrics, build_registry
from logwatch.outlets.web.app import build_app
from logwatch.outlets.web.board import Board
from logwatch.outlets.web.server import Server, bind
from logwatch.outlets.web.site import Site
from logwatch.pipeline import Pipeline, Settings

VERIFY = {"stream": "a.log", "rank": "TP0", "phase": "target_verify"}


@pytest.fixture(scope="module")
def settings():
    return Settings.of_config(Config())


class Clock:
    """Unix time that the test owns."""

    now = 1_770_800_000.0

    def __call__(self):
        return self.now


class Watched:
    """A log's bytes on their way into the metrics."""

    def __init__(self, settings, clock):
        self.settings, self.metrics, self.pipelines = settings, Metrics(clock=clock), {}

    def write(self, text, stream="a.log"):
        if stream not in self.pipelines:
            self.metrics.add_stream(stream, f"/logs/{stream}")
            pipeline = Pipeline(self.settings, stream, f"/logs/{stream}", self.metrics.notice)
            self.pipelines[stream] = pipeline
        for item in self.pipelines[stream].feed_bytes(text.encode()):
            self.metrics.take(item)

    def value(self, name, **labels):
        return build_registry(self.metrics).get_sample_value(f"logwatch_{name}", labels)

    def counters(self):
        ends = ("_total", "_bucket", "_count", "_sum")
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.metrics.collect()
            for sample in family.samples
            if sample.name.endswith(ends)
        }


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watched(settings, clock):
    return Watched(settings, clock)


def report(number, verify="19.14", rank="TP0"):
    stamp = f"[2026-02-11 {8 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02} {rank}]"
    return f"{stamp} EAGLE3_PROFILE 100 cycles\n  Target verify:     {verify} ms/cyc  ( 95.0%)\n  Accept len:         0.92\n"


@pytest.mark.parametrize("bad", ["nan", "inf", "-1", "1e308", "19,14", "١٩"])
def test_58_what_is_no_number_is_rejected_and_counted(watched, bad):
    """A value that is none is counted as malformed, and the histogram's sum stays finite and right."""
    watched.write(report(1) + report(2, bad) + report(3) + report(4))
    malformed = watched.value("lines_total", stream="a.log", outcome="malformed")
    reasons = watched.value("malformed_lines_total", stream="a.log", kind="phase", reason="bad_value")
    assert (malformed, reasons) == (1, 1)
    total = watched.value("phase_duration_seconds_sum", **VERIFY)
    assert math.isfinite(total)
    assert total == pytest.approx(0.01914 * watched.value("phase_duration_seconds_count", **VERIFY))


def test_59_counters_never_fall(watched, clock):
    """Neither a reload, nor the expiry of others, nor rotation takes anything back."""
    watched.write("".join(report(n) for n in range(10)))
    watched.write(report(1), stream="b.log")
    highest = watched.counters()

    def nothing_fell():
        seen = watched.counters()
        assert not [
            key for key, each in highest.items() if seen.get(key, -1) < each and "b.log" not in str(key)
        ]
        highest.update(seen)

    watched.metrics.configure([Band("target_verify", 0.02, 0.03)], 82.2)
    nothing_fell()
    watched.metrics.notice(Notice("rotated", "", stream="a.log"))
    watched.metrics.notice(Notice("truncated_by_size", "", Level.WARNING, "a.log"))
    nothing_fell()
    clock.now += 4000
    watched.metrics.observe_source("a.log", 0, 0.0)
    assert watched.metrics.expire() == ["b.log"]
    nothing_fell()
    watched.write("".join(report(n) for n in range(10, 20)))
    nothing_fell()
    assert watched.value("rotations_total", stream="a.log") == 1


def test_60_series_of_an_ended_stream_go_together(watched, clock):
    """After the TTL no series is left; a new run of the same name begins at 0."""
    watched.write("".join(report(n, "28.95") for n in range(10)))
    clock.now += watched.metrics.ttl_s + 1
    assert watched.metrics.expire() == ["a.log"]
    assert "a.log" not in generate_latest(build_registry(watched.metrics)).decode()
    del watched.pipelines["a.log"]
    watched.write("".join(report(n) for n in range(3)))
    assert watched.value("cycles_total", **VERIFY) <= 300
    assert watched.value("incident_open", **VERIFY, kind="out_of_band") == 0


def test_61_hostile_labels_stay_within_caps(watched):
    """A hostile log's thousands of phases and ranks cost no more than some hundred; overflow is counted."""
    watched.write("".join(report(n) for n in range(2)))

    def attack(numbers):
        for n in numbers:
            watched.write(report(n, rank=f"TP{n % 200}").replace("Target verify", f"Phase {n}"))

    attack(range(2000))
    size = len(generate_latest(build_registry(watched.metrics)))
    attack(range(2000, 4000))
    assert len(generate_latest(build_registry(watched.metrics))) < 1.05 * size
    assert watched.value("label_overflow_total", label="phase") > 0
    assert watched.value("label_overflow_total", label="rank") > 0
    assert watched.value("phase_seconds", **VERIFY) == 0.01914


def test_62_series_exist_before_the_first_event(settings, clock):
    """A source that is known and has said nothing shows 0, and the band its edges."""
    watched = Watched(settings, clock)
    watched.write("")
    for outcome in ("matched", "ignored", "malformed"):
        assert watched.value("lines_total", stream="a.log", outcome=outcome) == 0
    for name in ("read_bytes_total", "rotations_total", "lost_bytes_total", "lag_bytes", "lag_seconds"):
        assert watched.value(name, stream="a.log") == 0
    assert watched.value("band_low_seconds", **VERIFY | {"rank": ""}) == 0.017
    for name in ("alerts_pending", "notify_overflow_total", "state_commit_errors_total"):
        assert watched.value(name) == 0


def test_63_scrapes_are_consistent_under_load(watched):
    """While lines pour in each scrape is one instant, and costs far below a tenth of a second of computing."""
    server = Server(build_app(Site(watched.metrics, Board())), bind("127.0.0.1:0"))
    server.start()
    stop = threading.Event()

    def pour():
        number = 0
        while not stop.is_set():
            watched.write("".join(report(number + n, rank=f"TP{n}") for n in range(8)))
            number += 1

    writer = threading.Thread(target=pour)
    writer.start()
    try:
        for _ in range(20):
            with urllib.request.urlopen(f"{server.address}/metrics", timeout=20) as answer:
                text = answer.read().decode()
            samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
            for name, count in samples.items():
                if name.startswith("logwatch_phase_duration_seconds_count"):
                    labels = name.partition("{")[2]
                    assert samples[f'logwatch_phase_duration_seconds_bucket{{le="+Inf",{labels}'] == count
                    assert float(samples[f"logwatch_cycles_total{{{labels}"]) == 100 * float(count)
    finally:
        stop.set()
        writer.join()
        server.stop()
    costs = []
    for _ in range(20):
        begun = time.thread_time()
        generate_latest(build_registry(watched.metrics))
        costs.append(time.thread_time() - begun)
    assert max(costs) < 0.1


@pytest.mark.needs("promtool")
def test_64_the_exposition_is_clean(watched):
    """Promtool has no complaint, OpenMetrics parses strictly, no exemplar is longer than 128 characters."""
    watched.write("".join(report(n, "28.95") for n in range(10)) + report(11, "nan") + report(12))
    registry = build_registry(watched.metrics)
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=generate_latest(registry), capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
    families = list(text_string_to_metric_families(generate_openmetrics(registry).decode()))
    exemplars = [sample.exemplar for family in families for sample in family.samples if sample.exemplar]
    assert exemplars
    assert all(sum(map(len, (*each.labels, *each.labels.values()))) <= 128 for each in exemplars)
