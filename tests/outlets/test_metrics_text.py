"""What a scrape of the daemon reads is, byte for byte, what `prometheus_client` writes of the committed memory."""

import gzip
import random
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from outlet_items import cycle, incident, judgement, malformed, one_of_each, read, run_started
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from logwatch.judging.bands import DEFAULT_BAND, Band
from logwatch.model import Change, Level, Notice
from logwatch.outlets.memories import read_back, written
from logwatch.outlets.metrics import Metrics
from logwatch.outlets.metrics_samples import families_of
from logwatch.outlets.metrics_text import Pages
from logwatch.outlets.web.exposition import Exposition

TEXT, OPEN = "text/plain", "application/openmetrics-text;version=1.0.0"
STREAMS = ["node7.log", 'a "quoted\\ name', "naïve\nname"]
RANKS = [None, "TP0", "DP1 TP0"]
OF_THE_PROCESS = re.compile(rb"(# (HELP|TYPE|UNIT) )?(U__)?process_")
FORMATS = [
    pytest.param(TEXT, id="text"),
    pytest.param(OPEN, id="OpenMetrics"),
    pytest.param(f"{OPEN};escaping=allow-utf-8", id="OpenMetrics of Prometheus 3"),
    pytest.param(f"{OPEN};escaping=dots", id="names escaped by dots"),
    pytest.param("text/plain;version=1.0.0;escaping=values", id="names escaped by values"),
]


class Life:
    """A daemon's metrics over restarts, beside the memory that a literal daemon would show."""

    def __init__(self):
        self.now = 1_770_800_000.0
        self.kept = {}
        self.bands = [DEFAULT_BAND]
        self.begin()

    def begin(self):
        self.metrics = Metrics(self.bands, 82.2, committed=True, clock=lambda: self.now)
        names = [name for name, text in self.kept.items() if text is not None]
        self.metrics.recall(names, lambda kind, name: read_back(kind, name, self.kept.get(name), pytest.fail))
        self.exposition = Exposition(self.metrics)
        self.copied = self.metrics.memory.copy()

    def commit(self):
        new = self.metrics.written()
        self.kept |= {name: None if each is None else written(each) for name, each in new.items()}
        self.metrics.observe_commit()
        self.copied = self.metrics.memory.copy()

    def fail(self):
        new = self.metrics.written()
        self.kept_for_the_next = {name: None if each is None else written(each) for name, each in new.items()}
        self.kept |= (
            self.kept_for_the_next
        )  # the state file keeps what it could not write, for the next commit
        self.metrics.observe_commit(failed=True)

    def reload(self):
        self.bands = [Band("target_verify", 0.018, 0.0205)]
        self.metrics.configure(self.bands, None)

    def restart(self):
        self.commit()
        before = unseen(self.metrics.memory)
        self.begin()
        assert unseen(self.metrics.memory) == before

    def vanish(self):
        self.now += self.metrics.ttl_s + 1
        gone = self.metrics.expire(alive=STREAMS[:1])
        for name in gone:
            self.copied.streams.pop(name, None)


def unseen(memory):
    """All of it but when streams were last alive, which is not kept each time."""
    streams = {name: replace(stream, seen_s=0.0) for name, stream in memory.streams.items()}
    return replace(memory, streams=streams)


def own(text):
    """Without what the process says of itself, which is never twice the same."""
    return [line for line in text.splitlines(keepends=True) if not OF_THE_PROCESS.match(line)]


def scraped(exposition, accept, names=(), *, gzip=False):
    """As the page does."""
    answer = exposition.answer(accept, names, gzip=gzip)
    return exposition.slow(accept, names, gzip=gzip) if answer is None else answer


def expected(metrics, accept):
    registry = CollectorRegistry()
    registry.register(metrics)
    return choose_encoder(accept)[0](registry).splitlines(keepends=True)


def fill(metrics):
    metrics.add_receiver("pager")
    for each in (
        *one_of_each(),
        read(size=12_345_678),
        *(cycle(line=n, cycles=400_000) for n in range(3, 6)),
    ):
        metrics.take(each)
    metrics.written()
    metrics.observe_commit()


some_cycles = st.builds(
    cycle,
    st.sampled_from([0.0, 0.0004, 0.019, 0.02895, 3.0, 1e-9, 12345678.9]),
    line=st.integers(1, 10**7),
    stream=st.sampled_from(STREAMS),
    rank=st.sampled_from(RANKS),
    cycles=st.sampled_from([1, 100, 10**6]),
)
some_items = st.one_of(
    some_cycles,
    some_cycles.map(judgement),
    st.builds(
        incident,
        st.sampled_from(Change),
        stream=st.sampled_from(STREAMS),
        rank=st.sampled_from(RANKS),
        kind=st.sampled_from(["out_of_band", "level_shift", "spread"]),
        key=st.sampled_from(["a", "b"]),
    ),
    st.builds(read, size=st.sampled_from([0, 999_999, 10**6, 10**9]), stream=st.sampled_from(STREAMS)),
    st.builds(run_started, stream=st.sampled_from(STREAMS), tp_size=st.sampled_from(["1", "8"])),
    st.builds(lambda stream: malformed(path=f"/logs/{stream}"), st.sampled_from(STREAMS)),
)
some_steps = st.one_of(
    some_items.map(lambda item: lambda life: life.metrics.take(item)),
    some_items.map(lambda item: lambda life: life.metrics.take(item)),
    st.sampled_from(STREAMS).map(
        lambda name: lambda life: life.metrics.notice(Notice("lost", "", Level.ERROR, name, bytes=7))
    ),
    st.sampled_from(STREAMS).map(lambda name: lambda life: life.metrics.add_stream(name)),
    st.sampled_from([Life.commit, Life.commit, Life.fail, Life.reload, Life.restart, Life.vanish]),
    st.tuples(st.sampled_from(STREAMS), st.sampled_from([0, 4096])).map(
        lambda of: lambda life: life.metrics.observe_source(of[0], of[1], of[1] / 1e4)
    ),
)


def shown(metrics):
    """The memory that a scrape shows."""
    with metrics.still() as (memory, _):
        return memory


def samples(families):
    """Counts by series."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if sample.name.endswith(("_bucket", "_count", "_sum"))
        or (sample.name.endswith("_total") and "stream" in sample.labels)
    }


A_STREAM_GOES = [
    lambda life: life.metrics.take(cycle(stream=STREAMS[1])),
    *(Life.commit, Life.vanish, Life.restart),
]


@given(steps=st.lists(some_steps, max_size=40), look=st.integers(1, 5))
@example(steps=A_STREAM_GOES, look=1)
@settings(max_examples=150, deadline=None)
def test_a_scrape_is_what_the_library_writes_of_the_last_commit(steps, look):
    """Whatever was fed, committed, removed and restarted: the kept text is that of a writer without memory."""
    life = Life()
    for number, step in enumerate([*steps, Life.commit]):
        step(life)
        if number % look == 0 or step is Life.commit:
            for accept in (TEXT, OPEN):
                assert own(scraped(life.exposition, accept).body) == expected(life.metrics, accept)
            with life.metrics.still() as (shown, facts):
                pass
            copied = families_of(life.copied, facts)
            assert {k: v for k, v in samples(families_of(shown, facts)).items() if v} == {
                key: each for key, each in samples(copied).items() if each
            }


@pytest.mark.parametrize("accept", FORMATS)
def test_every_format_is_the_librarys(accept):
    """Head lines, units, exemplars and the end are those of `prometheus_client`, whichever way names are escaped."""
    metrics = Metrics(baseline_tokens_per_second=82.2, committed=True)
    fill(metrics)
    answer = scraped(Exposition(metrics), accept)
    assert answer.content_type == choose_encoder(accept)[1]
    assert own(answer.body) == expected(metrics, accept)


@pytest.mark.parametrize("accept", FORMATS[:2])
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["logwatch_cycles_total"], id="a counter"),
        pytest.param(["logwatch_phase_duration_seconds_count"], id="one series of a histogram"),
        pytest.param(["logwatch_run_info", "logwatch_build_info", "logwatch_open_files"], id="several"),
        pytest.param(["logwatch_cycles"], id="a family that has no series of its name"),
        pytest.param(["nothing"], id="nothing"),
    ],
)
def test_named_series_are_what_the_library_gives(accept, names):
    """`name[]` gives these series under the heads of their families, and no other family."""
    metrics = Metrics(baseline_tokens_per_second=82.2, committed=True)
    fill(metrics)
    registry = CollectorRegistry()
    registry.register(metrics)
    wanted = choose_encoder(accept)[0](registry.restricted_registry(names))
    assert scraped(Exposition(metrics), accept, names).body == wanted


@pytest.mark.parametrize("accept", FORMATS)
def test_a_compressed_scrape_is_the_same_scrape(accept):
    """What was compressed once and what is added each time is one gzip file, scrape for scrape."""
    metrics = Metrics(committed=True)
    exposition = Exposition(metrics)
    for number in range(3):
        metrics.take(cycle(line=number))
        metrics.written()
        metrics.observe_commit()
        for _ in range(2):
            metrics.observe_files(number)
            answer = scraped(exposition, accept, gzip=True)
            assert answer.gzipped
            assert own(gzip.decompress(answer.body)) == expected(metrics, accept)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"bands": {"target_verify": (0.018, 0.0205)}}, id="other bands"),
        pytest.param({"open_incidents": {}}, id="an incident that is over"),
    ],
)
def test_kept_text_follows_what_lies_outside_a_stream(change):
    """A rank's text depends on the bands and on what is open, though the rank itself is the same object."""
    metrics, pages = Metrics(committed=True), Pages(exemplars=False)
    fill(metrics)
    pages.write(shown(metrics))
    changed = replace(shown(metrics), **change)
    assert pages.write(changed) == Pages(exemplars=False).write(changed) != pages.write(shown(metrics))


def test_what_did_not_change_is_shared_and_what_did_is_not():
    """A commit copies the streams, ranks and phases that were booked to, and no other."""
    metrics = Metrics(committed=True)
    for rank in ("TP0", "TP1"):
        metrics.take(cycle(rank=rank))
    metrics.take(cycle(stream="node8.log"))
    seen = []
    for _ in range(2):
        metrics.written()
        metrics.observe_commit()
        seen.append(shown(metrics).streams)
        metrics.take(cycle(rank="TP1", phases_s={"target_verify": 0.019}))
    before, after = seen
    assert after["node8.log"] is before["node8.log"]
    assert after["node7.log"] is not before["node7.log"]
    assert after["node7.log"].ranks["TP0"] is before["node7.log"].ranks["TP0"]
    assert after["node7.log"].ranks["TP1"] is not before["node7.log"].ranks["TP1"]
    before_phases, after_phases = (each["node7.log"].ranks["TP1"].phases for each in seen)
    assert after_phases["draft_forward"] is before_phases["draft_forward"]
    assert before["node7.log"].ranks["TP1"].phases["target_verify"].cycles == 100
    assert after["node7.log"].ranks["TP1"].phases["target_verify"].cycles == 200


def test_only_what_changed_is_kept_anew():
    """The state file is given the streams that were booked to since the last time, and told of those that went."""
    now = [1_770_800_000.0]
    metrics = Metrics(committed=True, clock=lambda: now[0])
    for stream in ("a.log", "b.log"):
        metrics.take(read(stream=stream))
    assert set(metrics.written()) == {"metrics", "metrics/a.log", "metrics/b.log"}
    metrics.take(read(stream="b.log"))
    assert set(metrics.written()) == {"metrics", "metrics/b.log"}
    now[0] += metrics.ttl_s + 1
    metrics.expire(alive=["b.log"])
    assert metrics.written()["metrics/a.log"] is None


def test_counts_of_a_file_that_kept_all_streams_in_one_go_on():
    """What an earlier version wrote under one name is read, and written stream by stream from then on."""
    first = Metrics()
    first.take(cycle())
    kept = {"metrics": written(first.memory)}
    second = Metrics(committed=True)
    second.recall(list(kept), lambda kind, name: read_back(kind, name, kept.get(name), pytest.fail))
    assert shown(second).streams["node7.log"].ranks["TP0"].phases["target_verify"].cycles == 100
    assert set(second.written()) == {"metrics", "metrics/node7.log"}


def test_kept_text_does_not_grow():
    """Parts of vanished streams and ranks leave the memory with them."""
    now = [1_770_800_000.0]
    metrics = Metrics(committed=True, clock=lambda: now[0])
    exposition, chance, sizes = Exposition(metrics), random.Random(3), []
    for round_ in range(6):
        for _ in range(20):
            metrics.take(cycle(stream=f"{round_}-{chance.randrange(10)}.log"))
        metrics.written()
        metrics.observe_commit()
        exposition.answer(TEXT)
        sizes.append(len(exposition._formats[False]._pages._parts))
        now[0] += metrics.ttl_s + 1
        metrics.expire()
    assert max(sizes) <= 10 * (1 + 1 + 3)  # streams, each with itself, one rank and three phases
    assert all(abs(later - earlier) <= 10 for earlier, later in pairwise(sizes))
