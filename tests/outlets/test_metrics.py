"""The metrics' sink: what each item of the pipeline does to which series, and what survives what."""

import json
import math
import threading

import pytest
from clock_kit import Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from outlet_items import cycle, decode, incident, judgement, malformed, read, run_started
from prometheus_client import CollectorRegistry
from pydantic import TypeAdapter

from logwatch.judging.bands import Band
from logwatch.model import Change, Level, Notice
from logwatch.outlets import metrics_memory
from logwatch.outlets.memories import read_back, written
from logwatch.outlets.metrics import Metrics
from logwatch.outlets.metrics_books import reason_of
from logwatch.outlets.metrics_memory import EDGES_S, MAX_PHASES, MAX_RANKS, MAX_STREAMS, MetricsMemory

VERIFY = {"stream": "node7.log", "rank": "TP0", "phase": "target_verify"}
TP0 = {"stream": "node7.log", "rank": "TP0"}
NODE7 = {"stream": "node7.log"}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def metrics(clock):
    return Metrics(clock=clock)


def value(metrics, name, labels=None):
    registry = CollectorRegistry()
    registry.register(metrics)
    return registry.get_sample_value(f"logwatch_{name}", labels or {})


def all_samples(metrics):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in metrics.collect()
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("items", "name", "labels", "expected"),
    [
        pytest.param([cycle()], "phase_seconds", VERIFY, 0.01914, id="last sample of a phase"),
        pytest.param([cycle(0.019), cycle(0.029)], "phase_seconds", VERIFY, 0.029, id="newest sample wins"),
        pytest.param([cycle(), cycle()], "cycles_total", VERIFY, 200, id="cycles of both reports"),
        pytest.param([cycle()], "cycle_phase_seconds_total", VERIFY, 1.914, id="seconds times cycles"),
        pytest.param([cycle()], "phase_duration_seconds_count", VERIFY, 1, id="one sample a report"),
        pytest.param([cycle()], "tokens_per_cycle", TP0, 1.92, id="tokens per cycle of a report"),
        pytest.param([cycle()], "estimated_tokens_per_second", TP0, 1.92 / 0.02015, id="estimated tok/s"),
        pytest.param([decode(tokens_per_cycle=1.7)], "tokens_per_cycle", TP0, 1.7, id="of a decode line"),
        pytest.param([decode(running_requests=3)], "running_requests", TP0, 3, id="running requests"),
        pytest.param(
            [decode(generation_tokens_per_second=94.0)],
            "generation_tokens_per_second",
            TP0,
            94,
            id="throughput the engine states",
        ),
        pytest.param([judgement(cycle())], "phase_in_band", VERIFY, 1, id="in band"),
        pytest.param([judgement(cycle(0.02895))], "phase_in_band", VERIFY, 0, id="out of band"),
        pytest.param([judgement(cycle())], "band_high_seconds", VERIFY, 0.021, id="edge as applied"),
        pytest.param(
            [incident()], "incident_open", VERIFY | {"kind": "out_of_band"}, 1, id="an open incident"
        ),
        pytest.param(
            [incident(), incident(Change.RESOLVED)],
            "incident_open",
            VERIFY | {"kind": "out_of_band"},
            0,
            id="a resolved incident",
        ),
        pytest.param(
            [incident(), incident(Change.WORSENED), incident(Change.RESOLVED)],
            "incidents_total",
            VERIFY | {"kind": "out_of_band"},
            1,
            id="an incident counts once whatever becomes of it",
        ),
        pytest.param(
            [incident(Change.EXPLAINED)],
            "incident_open",
            VERIFY | {"kind": "out_of_band"},
            1,
            id="an incident that opened before the counters were lost is open",
        ),
        pytest.param(
            [incident()], "incident_severity", VERIFY | {"kind": "out_of_band"}, 3, id="a critical incident"
        ),
        pytest.param(
            [incident(), incident(Change.EXPLAINED, severity="info")],
            "incident_severity",
            VERIFY | {"kind": "out_of_band"},
            1,
            id="an incident that load explains",
        ),
        pytest.param(
            [incident(), incident(Change.RESOLVED)],
            "incident_severity",
            VERIFY | {"kind": "out_of_band"},
            0,
            id="none that is open",
        ),
        pytest.param([read()], "read_bytes_total", NODE7, 1000, id="bytes read"),
        pytest.param([read()], "lines_total", NODE7 | {"outcome": "matched"}, 8, id="lines by outcome"),
        pytest.param(
            [malformed()],
            "malformed_lines_total",
            NODE7 | {"kind": "decode", "reason": "bad_value"},
            1,
            id="a malformed line by reason",
        ),
        pytest.param(
            [cycle()], "last_sample_read_timestamp_seconds", TP0, 1_770_800_000.0, id="when it was read"
        ),
        pytest.param(
            [cycle(time="2026-02-11T08:15:02+00:00")],
            "last_sample_timestamp_seconds",
            TP0,
            1_770_797_702.0,
            id="the log's own time",
        ),
        pytest.param(
            [cycle(time=None)],
            "last_sample_timestamp_seconds",
            TP0,
            1_770_800_000.0,
            id="the time of reading where the log has none",
        ),
        pytest.param(
            [cycle(time="08:15:02")],
            "last_sample_timestamp_seconds",
            TP0,
            1_770_800_000.0,
            id="the time of reading where the log has no date",
        ),
        pytest.param(
            [cycle(rank=None)], "tokens_per_cycle", NODE7 | {"rank": ""}, 1.92, id="a log without ranks"
        ),
    ],
)
def test_an_item_moves_its_series(metrics, items, name, labels, expected):
    """Each kind of item sets the series that the contract names for it."""
    for item in items:
        metrics.take(item)
    assert expected == pytest.approx(value(metrics, name, labels))


@pytest.mark.parametrize(
    ("notice", "name", "labels", "expected"),
    [
        pytest.param(Notice("rotated", "", stream="node7.log"), "rotations_total", NODE7, 1, id="rotation"),
        pytest.param(
            Notice("truncated", "", Level.ERROR, "node7.log", bytes=70),
            "truncations_total",
            NODE7 | {"detection": "size"},
            1,
            id="truncation seen by size",
        ),
        pytest.param(
            Notice("truncated_by_hash", "", Level.ERROR, "node7.log"),
            "truncations_total",
            NODE7 | {"detection": "hash"},
            1,
            id="truncation seen by hash",
        ),
        pytest.param(
            Notice("lost", "", Level.ERROR, "node7.log", bytes=70),
            "lost_bytes_total",
            NODE7,
            70,
            id="bytes lost",
        ),
        pytest.param(
            Notice("line_too_long", "", Level.WARNING, "node7.log", bytes=9),
            "skipped_bytes_total",
            NODE7,
            9,
            id="bytes skipped in a line too long",
        ),
        pytest.param(
            Notice("sink_failed", "", Level.WARNING),
            "notices_total",
            {"kind": "sink_failed", "level": "warning"},
            1,
            id="any notice",
        ),
        pytest.param(Notice("notify_overflow", ""), "notify_overflow_total", {}, 1, id="notices dropped"),
    ],
)
def test_a_notice_moves_its_counter(metrics, notice, name, labels, expected):
    """What happens beside the data is counted, by its kind."""
    metrics.notice(notice)
    assert expected == value(metrics, name, labels)


@pytest.mark.parametrize(
    ("expected", "found", "reason"),
    [
        ("a number", "nan", "bad_value"),
        ("a time with its unit", "-1", "bad_value"),
        ("a unit of time", "parsecs/cyc", "bad_value"),
        ("a number", "the end of the line", "line_ended"),
        ("one of its keys", "usaccept", "unexpected_text"),
    ],
)
def test_malformed_lines_are_counted_by_few_reasons(expected, found, reason):
    """[58] What a grammar expected is many phrases; the label has a handful of values."""
    assert reason_of(malformed(expected, found)) == reason


def test_a_notice_without_stream_belongs_to_its_paths_stream(metrics):
    """Readers of lines know the file only; its stream was made known with it."""
    metrics.add_stream("node7", "/logs/server.log")
    metrics.notice(Notice("line_too_long", "", Level.ERROR, path="/logs/server.log", bytes=7))
    metrics.notice(Notice("line_too_long", "", Level.ERROR, path="/logs/other.log", bytes=7))
    assert value(metrics, "skipped_bytes_total", {"stream": "node7"}) == 7


def test_facts_of_others_are_shown(metrics, clock):
    """Lag, files, commits, alerts and reloads come from whoever knows them."""
    metrics.observe_source("node7.log", 4096, 0.25)
    metrics.observe_files(3)
    metrics.observe_commit()
    metrics.observe_commit(failed=True)
    metrics.add_receiver("pager")
    metrics.observe_alert("pager", "delivered")
    metrics.observe_pending(2)
    metrics.observe_reload(successful=False)
    assert value(metrics, "lag_bytes", NODE7) == 4096
    assert value(metrics, "lag_seconds", NODE7) == 0.25
    assert value(metrics, "open_files") == 3
    assert value(metrics, "state_commits_total") == 2
    assert value(metrics, "state_commit_errors_total") == 1
    assert value(metrics, "alerts_total", {"receiver": "pager", "outcome": "delivered"}) == 1
    assert value(metrics, "alerts_total", {"receiver": "pager", "outcome": "failed"}) == 0
    assert value(metrics, "alerts_pending") == 2
    assert value(metrics, "config_last_reload_successful") == 0
    clock.now += 5
    metrics.observe_reload(successful=True)
    assert value(metrics, "config_last_reload_successful") == 1
    assert value(metrics, "config_last_reload_success_timestamp_seconds") == clock.now


def test_a_baseline_gives_break_even_and_speed_up():
    """With a baseline the page of figures says from where on speculation pays, and how it does now."""
    metrics = Metrics(baseline_tokens_per_second=82.2)
    metrics.take(cycle(0.02895))
    assert value(metrics, "breakeven_tokens_per_cycle", TP0) == pytest.approx(0.02996 * 82.2)
    assert value(metrics, "speculation_speedup_ratio", TP0) == pytest.approx(1.92 / (0.02996 * 82.2))


def test_tokens_per_cycle_of_decode_lines_serve_a_report_without_them(metrics):
    """A report that gives no acceptance is judged with the rank's newest one."""
    metrics.take(decode(tokens_per_cycle=2.0))
    metrics.take(cycle(tokens_per_cycle=None))
    assert value(metrics, "estimated_tokens_per_second", TP0) == pytest.approx(2.0 / 0.02015)


def test_run_info_shows_the_newest_run(metrics):
    """A restart with other settings replaces the run's labels; there is one run a stream."""
    metrics.take(run_started(speculative_num_steps="2", disable_cuda_graph="False", tp_size="8"))
    metrics.take(run_started(speculative_num_steps="3", disable_cuda_graph="True", tp_size="8"))
    runs = [
        sample.labels
        for family in metrics.collect()
        if family.name == "logwatch_run"
        for sample in family.samples
    ]
    assert runs == [
        {"num_steps": "3", "topk": "", "draft_tokens": "", "graph": "off", "tp_size": "8", "version": ""}
        | NODE7
    ]


def test_a_new_run_is_not_shown_out_of_the_band_that_the_old_one_left(metrics):
    """A server that comes back without the profile leaves no red tile behind; the counts go on."""
    for item in (run_started(), cycle(0.02895), judgement(cycle(0.02895)), run_started()):
        metrics.take(item)
    assert value(metrics, "phase_in_band", VERIFY) is None
    assert value(metrics, "cycles_total", VERIFY) == 100
    metrics.take(judgement(cycle(run=1)))
    assert value(metrics, "phase_in_band", VERIFY) == 1


def test_series_of_a_known_stream_exist_with_0_before_the_first_event(metrics):
    """[62] All that can be known is there from the start, and the band's edges are."""
    metrics.add_stream("node7.log", "/logs/node7.log")
    for outcome in ("matched", "ignored", "malformed"):
        assert value(metrics, "lines_total", NODE7 | {"outcome": outcome}) == 0
    for name in ("read_bytes", "rotations", "lost_bytes", "skipped_bytes"):
        assert value(metrics, f"{name}_total", NODE7) == 0
    assert value(metrics, "truncations_total", NODE7 | {"detection": "size"}) == 0
    assert value(metrics, "lag_bytes", NODE7) == value(metrics, "lag_seconds", NODE7) == 0
    assert value(metrics, "band_low_seconds", VERIFY | {"rank": ""}) == 0.017
    metrics.take(cycle())
    assert value(metrics, "band_low_seconds", VERIFY) == 0.017
    assert value(metrics, "band_low_seconds", VERIFY | {"rank": ""}) is None
    assert value(metrics, "incidents_total", VERIFY | {"kind": "out_of_band"}) == 0
    assert value(metrics, "incident_open", VERIFY | {"kind": "out_of_band"}) == 0


def test_the_band_is_shown_before_any_stream_is_known(metrics):
    """The configured edges exist from the first scrape on."""
    nowhere = {"stream": "", "rank": "", "phase": "target_verify"}
    assert value(metrics, "band_high_seconds", nowhere) == 0.021


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0], ids=["nan", "inf", "-inf", "negative"])
def test_a_value_that_is_no_amount_enters_nothing(metrics, bad):
    """[58] NaN, infinities and negatives are counted as rejected, and the histogram's sum stays finite."""
    metrics.take(cycle())
    metrics.take(cycle(phases_s={"target_verify": bad}, tokens_per_cycle=bad))
    metrics.take(decode(generation_tokens_per_second=bad))
    assert value(metrics, "phase_duration_seconds_sum", VERIFY) == pytest.approx(0.01914)
    assert value(metrics, "phase_duration_seconds_count", VERIFY) == 1
    assert value(metrics, "tokens_per_cycle", TP0) == 1.92
    assert value(metrics, "generation_tokens_per_second", TP0) is None
    assert value(metrics, "rejected_values_total", NODE7) == 3


@given(values=st.lists(st.floats(min_value=0, max_value=2), max_size=30), cycles=st.integers(1, 1000))
@settings(max_examples=50, deadline=None)
def test_a_histogram_is_what_was_observed(values, cycles):
    """Every bucket counts the samples up to its edge, and the ratio of the counters is their mean."""
    metrics = Metrics()
    for each in values:
        metrics.take(cycle(phases_s={"target_verify": each}, cycles=cycles))
    for edge in EDGES_S:
        expected = sum(each <= edge for each in values)
        labels = VERIFY | {"le": str(edge)}
        assert expected == (value(metrics, "phase_duration_seconds_bucket", labels) or 0)
    if values:
        seconds, count = (
            value(metrics, name, VERIFY) for name in ("cycle_phase_seconds_total", "cycles_total")
        )
        assert sum(values) / len(values) == pytest.approx(seconds / count)


@pytest.mark.parametrize("verify_ms", [19, 19.15, 18.2, 20.4])
def test_neighbours_of_the_tuned_time_fall_into_narrow_buckets(verify_ms):
    """Around 19 ms an edge lies at most half a millisecond away, on either side."""
    below = max(edge for edge in EDGES_S if edge < verify_ms / 1000)
    above = min(edge for edge in EDGES_S if edge >= verify_ms / 1000)
    assert above - below <= 0.0005 + 1e-12


def test_memory_goes_on_after_a_restart(clock):
    """All that was counted goes through JSON and is exactly what the next process shows."""
    first = Metrics(clock=clock)
    for item in (
        cycle(),
        judgement(cycle()),
        incident(),
        read(),
        malformed(),
        run_started(tp_size="8"),
        decode(running_requests=1),
    ):
        first.take(item)
    first.notice(Notice("truncated_by_hash", "", Level.ERROR, "node7.log", bytes=5))
    first.observe_alert("pager", "delivered")
    adapter = TypeAdapter(MetricsMemory)
    second = Metrics(clock=clock)
    second.memory = adapter.validate_json(adapter.dump_json(first.memory))
    assert all_samples(first) == all_samples(second)
    second.take(cycle())
    assert value(second, "cycles_total", VERIFY) == 200


def test_restored_memory_keeps_what_is_already_known(metrics):
    """Streams and receivers made known before the state was read back are still there with 0."""
    metrics.add_stream("node8.log")
    metrics.add_receiver("pager")
    metrics.memory = MetricsMemory()
    assert value(metrics, "read_bytes_total", {"stream": "node8.log"}) == 0
    assert value(metrics, "alerts_total", {"receiver": "pager", "outcome": "failed"}) == 0


def test_memory_of_other_buckets_starts_its_histograms_again(metrics):
    """A state file of a version with other edges costs the histogram only, never a crash."""
    metrics.take(cycle())
    adapter = TypeAdapter(MetricsMemory)
    written = json.loads(adapter.dump_json(metrics.memory))
    written["streams"]["node7.log"]["ranks"]["TP0"]["phases"]["target_verify"]["buckets"] = [1, 2, 3]
    metrics.memory = adapter.validate_python(written)
    assert value(metrics, "phase_duration_seconds_count", VERIFY) == 0
    assert value(metrics, "cycles_total", VERIFY) == 100


def test_counters_go_on_over_a_reload(metrics):
    """[59] Other bands change the edges that are shown, and no counter."""
    metrics.take(cycle())
    metrics.take(judgement(cycle()))
    before = {
        key: each
        for key, each in all_samples(metrics).items()
        if key[0].endswith(("_total", "_bucket", "_count", "_sum"))
    }
    metrics.configure([Band("target_verify", 0.018, 0.0205)], None)
    assert before == {key: all_samples(metrics)[key] for key in before}
    assert value(metrics, "band_low_seconds", VERIFY) == 0.018
    assert value(metrics, "phase_in_band", VERIFY) is None


def test_a_reload_of_the_same_bands_changes_nothing(metrics):
    """What the band said of the last sample still holds."""
    metrics.take(judgement(cycle()))
    metrics.configure([Band("target_verify", 0.017, 0.021)], None)
    assert value(metrics, "phase_in_band", VERIFY) == 1


def test_series_of_a_vanished_stream_go_together(metrics, clock):
    """[60] After the TTL nothing of the stream is left, and its name comes back from 0; others stay untouched."""
    metrics.take(cycle())
    metrics.take(incident())
    metrics.take(cycle(stream="node8.log"))
    clock.now += metrics.ttl_s + 1
    metrics.observe_source("node8.log", 0, 0.0)
    assert metrics.expire() == ["node7.log"]
    assert not [key for key in all_samples(metrics) if ("stream", "node7.log") in key[1]]
    assert value(metrics, "cycles_total", VERIFY | {"stream": "node8.log"}) == 100
    metrics.take(cycle())
    assert value(metrics, "cycles_total", VERIFY) == 100
    assert value(metrics, "incident_open", VERIFY | {"kind": "out_of_band"}) == 0


@pytest.mark.parametrize("jump_s", [-3600.0, 10 * 365 * 86400.0], ids=["an hour back", "ten years ahead"])
def test_a_clock_that_jumps_takes_no_living_stream(metrics, clock, jump_s):
    """A stream that is alive stays, whatever the clock does, and one that ends later still expires."""
    metrics.take(cycle())
    clock.now += jump_s
    metrics.observe_source("node7.log", 0, 0.0)
    assert metrics.expire() == []
    clock.now += metrics.ttl_s + 1
    assert metrics.expire() == ["node7.log"]


def test_a_hostile_log_cannot_grow_the_metrics(metrics):
    """[61] 10,000 values of each label stay within the caps, are counted as overflow, and sums stay right."""
    for number in range(10_000):
        metrics.take(cycle(phases_s={f"phase_{number}": 0.001}))
    for number in range(1000):
        metrics.take(cycle(rank=f"TP{number}", phases_s={"target_verify": 0.019}))
        metrics.take(read(stream=f"{number}.log"))
    stream = metrics.memory.streams["node7.log"]
    assert len(stream.ranks["TP0"].phases) <= MAX_PHASES + 2
    assert len(stream.ranks) <= MAX_RANKS + 1
    assert len(metrics.memory.streams) <= MAX_STREAMS + 1
    assert value(metrics, "phase_seconds", VERIFY) == 0.019
    assert value(metrics, "label_overflow_total", {"label": "phase"}) > 9_000
    assert value(metrics, "label_overflow_total", {"label": "rank"}) > 800
    assert value(metrics, "label_overflow_total", {"label": "stream"}) > 400
    read_bytes = [each for key, each in all_samples(metrics).items() if key[0] == "logwatch_read_bytes_total"]
    assert sum(read_bytes) == 1000 * 1000


def test_a_label_value_is_short_and_printable(metrics):
    """A name from a log is cut and freed of control characters before it is a label value."""
    metrics.take(cycle(phases_s={"a\x00b\nc": 0.1, "x" * 5000: 0.1}))
    names = list(metrics.memory.streams["node7.log"].ranks["TP0"].phases)
    assert names == ["a\ufffdb\ufffdc", "x" * (metrics_memory.MAX_LABEL - 1) + "…"]


def test_a_scrape_is_one_instant_while_the_pipeline_writes(metrics):
    """[63] In every scrape the histogram's count is its last bucket and goes with the cycles' counter."""
    stop = threading.Event()

    def write():
        while not stop.is_set():
            metrics.take(cycle())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            samples = all_samples(metrics)
            labels = tuple(sorted(VERIFY.items()))
            count = samples.get(("logwatch_phase_duration_seconds_count", labels), 0)
            last = tuple(sorted((VERIFY | {"le": "+Inf"}).items()))
            assert samples.get(("logwatch_phase_duration_seconds_bucket", last), 0) == count
            assert samples.get(("logwatch_cycles_total", labels), 0) == count * 100
    finally:
        stop.set()
        writer.join()


def test_a_record_of_an_unknown_path_belongs_to_the_files_name(metrics):
    """The default name of a stream is its file's name; a path that was made known has the name given."""
    metrics.take(decode(path="/logs/other.log", running_requests=2))
    metrics.add_stream("node9", "/logs/server.log")
    metrics.take(decode(path="/logs/server.log", running_requests=4))
    assert value(metrics, "running_requests", {"stream": "other.log", "rank": "TP0"}) == 2
    assert value(metrics, "running_requests", {"stream": "node9", "rank": "TP0"}) == 4


def kept_of(metrics):
    """What the state file is given: JSON by name, None for what it is to forget."""
    return {name: None if each is None else written(each) for name, each in metrics.written().items()}


def recall(metrics, kept):
    """What the next life makes of it."""
    metrics.recall(list(kept), lambda kind, name: read_back(kind, name, kept.get(name), pytest.fail))


def counters(metrics):
    return {
        key: each
        for key, each in all_samples(metrics).items()
        if key[0].endswith(("_total", "_bucket", "_count", "_sum"))
    }


def test_a_killed_process_takes_no_count_back(clock):
    """[59] A scrape shows what was committed: whatever instant a kill comes at, no counter falls after it."""
    kept = {}
    first = Metrics(clock=clock, committed=True)
    first.add_stream("node7.log")
    highest = {}
    for n in range(12):
        for item in (cycle(line=n), judgement(cycle(line=n)), read(), malformed()):
            first.take(item)
        first.observe_alert("pager", "delivered")
        if n % 4 == 3:
            kept |= kept_of(first)
            first.observe_commit()
        seen = counters(first)
        assert all(seen[key] >= each for key, each in highest.items())
        highest = seen
        second = Metrics(clock=clock, committed=True)
        second.add_stream("node7.log")
        recall(second, kept)
        after = counters(second)
        own = ("logwatch_state_commits_total", ())
        assert all(after[key] >= each for key, each in seen.items() if key != own)
    assert highest["logwatch_cycles_total", tuple(sorted(VERIFY.items()))] == 1200


def test_a_commit_that_fails_shows_nothing_new_but_itself(clock):
    """[52] On a full disk the counts stand still, and the error is counted at once."""
    metrics = Metrics(clock=clock, committed=True)
    metrics.take(cycle())
    metrics.observe_commit(failed=True)
    assert value(metrics, "cycles_total", VERIFY) is None
    assert value(metrics, "state_commit_errors_total") == 1
    metrics.written()
    metrics.observe_commit()
    assert value(metrics, "cycles_total", VERIFY) == 100


def test_what_is_known_now_does_not_wait_for_a_commit(clock):
    """Lag, new streams and receivers, expiry and other bands show at once; they are no counts."""
    metrics = Metrics(clock=clock, committed=True)
    metrics.add_stream("node7.log")
    metrics.add_receiver("pager")
    metrics.observe_source("node7.log", 4096, 2.0)
    assert value(metrics, "lag_bytes", NODE7) == 4096
    assert value(metrics, "read_bytes_total", NODE7) == 0
    assert value(metrics, "alerts_total", {"receiver": "pager", "outcome": "failed"}) == 0
    metrics.configure([Band("target_verify", 0.018, 0.0205)], None)
    assert value(metrics, "band_low_seconds", VERIFY | {"rank": ""}) == 0.018
    clock.now += metrics.ttl_s + 1
    assert metrics.expire() == ["node7.log"]
    assert value(metrics, "lag_bytes", NODE7) is None
