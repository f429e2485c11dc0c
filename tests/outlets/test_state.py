"""The state file: one transaction, an outbox, history that can be asked and exported."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing

import polars as pl
import pytest
from clock_kit import Clock
from hypothesis import given, settings
from hypothesis import strategies as st

from logwatch.errors import SourceError
from logwatch.model import Change, Conditions, Cycle, Incident, Judgement, Limits, Moment, Place, Signal
from logwatch.outlets.history import History, export_parquet
from logwatch.outlets.state import State
from logwatch.outlets.state_file import FILE
from logwatch.outlets.web.api import Query

DAY_S = 86400.0


def cycle(number=1, time="2026-02-11T08:15:02", stream="a.log", rank="TP0", **phases):
    return Cycle(
        place=Place("a.log", 0, number),
        stream=stream,
        rank=rank,
        run=0,
        time=time,
        cycles=100,
        tokens_per_cycle=1.92,
        phases_s=phases or {"target_verify": 0.019, "total_cycle": 0.02},
        shares={"target_verify": 0.95},
        conditions=Conditions(batch_size=1.0, graph=True, num_steps=2, version="0.5.17"),
    )


def incident(change=Change.OPENED, key="k", onset="2026-02-11T08:15:02", resolved=None, **more):
    given = {
        "kind": "out_of_band", "phase": "target_verify", "direction": "high", "stream": "a.log", "rank": "TP0", "run": 0,
        "severity": "critical", "before": None, "after": 0.029, "ratio": 1.5, "samples": 3,
    }  # fmt: skip
    moment = Moment(9, resolved) if change is Change.RESOLVED else None
    return Incident(
        key=key, change=change, onset=Moment(1, onset), noticed=Moment(3), resolved=moment, **given | more
    )


def test_a_directory_that_may_not_even_be_looked_into_is_said(tmp_path):
    """The state lives in memory then; the daemon goes on (a name that no file system takes fails for root as well)."""
    notices = []
    with closing(State(tmp_path / ("x" * 300) / "state", notices.append)) as state:
        assert state.commit({"a.log": "1"})
    assert [notice.kind for notice in notices] == ["state_in_memory"]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def state(tmp_path, clock):
    notices = []
    made = State(tmp_path / "state", notices.append, clock=clock)
    made.notices = notices
    yield made
    made.close()


def rows(state, table):
    with closing(sqlite3.connect(state.directory / FILE)) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()


def test_everything_commits_together_or_not_at_all(state, tmp_path):
    """Before the commit a second life sees nothing of a batch, afterwards all of it."""
    state.take(cycle())
    state.take(incident())
    state.put("pager", "k", "{}", 0.0)
    with closing(State(tmp_path / "state", lambda _: None)) as other:
        assert (other.load().positions, other.letters("pager"), rows(state, "samples")) == ({}, [], [])
    assert state.commit({"a.log": "here"}, {"pipeline/a.log": "memory"})
    with closing(State(tmp_path / "state", lambda _: None)) as other:
        assert other.load().positions == {"a.log": "here"}
        assert other.load().memories == {"pipeline/a.log": "memory"}
        assert [letter.key for letter in other.letters("pager")] == ["k"]
    assert len(rows(state, "samples")) == 2
    assert len(rows(state, "incidents")) == 1


def test_position_can_be_forgotten(state, tmp_path):
    """None takes a position out; what a commit does not name stays."""
    state.commit({"a": "1", "b": "2"}, {"m": "3"})
    state.commit({"a": None}, {})
    with closing(State(tmp_path / "state", lambda _: None)) as other:
        assert other.load().positions == {"b": "2"}
        assert other.load().memories == {"m": "3"}


def test_sample_knows_what_its_band_said(state):
    """A band's judgement goes with its sample; a chart's does not."""
    each = cycle()
    state.take(each)
    limits = Limits(0.017, 0.019, 0.021)
    state.take(Judgement(each, "target_verify", 0.019, "ewma", 1.0, limits, Signal.ABOVE))
    state.take(Judgement(each, "target_verify", 0.019, "band", 0.019, limits, Signal.IN_BAND))
    state.commit()
    verify, total = History(state.directory).samples(Query())
    assert (verify.phase, verify.in_band) == ("target_verify", True)
    assert (verify.band.low, verify.band.high) == (limits.low, limits.high)
    assert (total.phase, total.in_band, total.band) == ("total_cycle", None, None)
    assert (verify.share, verify.batch_size, verify.graph, verify.cycles) == (0.95, 1.0, True, 100)


def test_incident_is_one_row_through_its_life(state):
    """Opened, worsened, resolved is one incident; opened once more under the same key is a second one."""
    state.take(incident())
    state.commit()
    state.take(incident(Change.WORSENED, after=0.031))
    state.take(incident(Change.RESOLVED, resolved="2026-02-11T09:00:00"))
    state.commit()
    state.take(incident())
    state.commit()
    history = History(state.directory)
    assert [each.change for each in history.incidents(Query())] == [Change.RESOLVED, Change.OPENED]
    assert [each.change for each in history.incidents(Query(state="open"))] == [Change.OPENED]
    assert [each.change for each in history.incidents(Query(state="resolved"))] == [Change.RESOLVED]


def test_incident_is_urgent(state):
    """An incident asks for its commit at once, a sample does not."""
    state.take(cycle())
    assert not state.urgent
    state.take(incident())
    assert state.urgent
    state.commit()
    assert not state.urgent


def seconds(time):
    from datetime import UTC, datetime

    return datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        pytest.param(Query(), [1, 2, 3, 4], id="all, oldest first"),
        pytest.param(Query(limit=2), [3, 4], id="the newest of them"),
        pytest.param(Query(stream="b.log"), [2], id="of a stream"),
        pytest.param(Query(rank=""), [3], id="without a rank"),
        pytest.param(Query(rank="TP0"), [1, 2, 4], id="of a rank"),
        pytest.param(Query(phase="draft_extend"), [4], id="of a phase"),
        pytest.param(Query(since_s=seconds("2026-02-11T08:00:02")), [2, 3, 4], id="since"),
        pytest.param(Query(until_s=seconds("2026-02-11T08:00:02")), [1, 2], id="until"),
    ],
)
def test_samples_are_found_by_time_stream_rank_and_phase(state, query, lines):
    """History answers what the JSON interface asks."""
    for number, more in enumerate(({}, {"stream": "b.log"}, {"rank": None}, {}), 1):
        phases = {"draft_extend": 0.001} if number == 4 else {"target_verify": 0.019}
        state.take(cycle(number, f"2026-02-11T08:00:0{number}", **more, **phases))
    state.commit()
    assert [each.line for each in History(state.directory).samples(query)] == lines


def test_letters_survive_and_are_tried_again(state, tmp_path):
    """Letters come out in order, keep their tries over a restart, and go when they are delivered."""
    for key in "abc":
        state.put("pager", key, "{}", 1.0)
    state.put("slack", "d", "{}", 1.0)
    assert state.letters("pager") == []
    state.commit()
    first, second, third = state.letters("pager")
    state.done([first.id])
    state.retry([second.id, 999], 50.0, 2)
    with closing(State(tmp_path / "state", lambda _: None)) as other:
        assert [(each.key, each.next_try, each.tries) for each in other.letters("pager")] == [
            ("b", 50.0, 2),
            ("c", 1.0, 0),
        ]
        assert other.receivers() == {"pager", "slack"}
        other.put("pager", "e", "{}", 0.0)
        other.commit()
        assert other.letters("pager")[-1].id > third.id


def test_couriers_and_the_pipeline_share_the_file(state):
    """Several threads deliver while the pipeline commits: nothing is lost, nothing is delivered twice."""
    taken = []

    def deliver():
        while len(taken) < 200:
            for letter in state.letters("pager"):
                taken.append(letter.key)
                state.done([letter.id])

    thread = threading.Thread(target=deliver)
    thread.start()
    for number in range(200):
        state.put("pager", str(number), "{}", 0.0)
        assert state.commit()
    thread.join(20)
    assert taken == [str(number) for number in range(200)]
    assert state.letters("pager") == []


def test_export_is_partitioned_by_day_and_stream(state, tmp_path):
    """One file a day and stream, in the layout that polars, DuckDB and Spark read as columns; times in UTC."""
    for day in (10, 11):
        for stream in ("a.log", "b/c=d.log"):
            state.take(cycle(day, f"2026-02-{day}T23:59:59.5", stream=stream))
    state.commit()
    target = tmp_path / "out"
    files = export_parquet(state.directory, target)
    assert sorted(str(path.relative_to(target)) for path in files) == [
        "day=2026-02-10/stream=a.log/samples.parquet",
        "day=2026-02-10/stream=b%2Fc%3Dd.log/samples.parquet",
        "day=2026-02-11/stream=a.log/samples.parquet",
        "day=2026-02-11/stream=b%2Fc%3Dd.log/samples.parquet",
    ]
    frame = pl.read_parquet(target, hive_partitioning=True).sort("day", "stream", "phase")
    assert frame.height == 8
    first = frame.row(0, named=True)
    assert (str(first["day"]), first["stream"], first["phase"], first["seconds"]) == (
        "2026-02-10",
        "a.log",
        "target_verify",
        0.019,
    )
    assert first["instant"].isoformat() == "2026-02-10T23:59:59.500000+00:00"
    assert (first["time"], first["graph"], first["num_steps"]) == ("2026-02-10T23:59:59.5", True, 2)
    assert frame.schema["context_tokens"] == pl.Float64


def test_export_of_a_stretch_replaces_an_earlier_one(state, tmp_path):
    """Exported again, a day's file is replaced as a whole and nothing unfinished is left."""
    target = tmp_path / "out"
    state.take(cycle(1, "2026-02-11T08:00:00"))
    state.commit()
    export_parquet(state.directory, target)
    state.take(cycle(2, "2026-02-11T09:00:00"))
    state.take(cycle(3, "2026-02-12T09:00:00"))
    state.commit()
    export_parquet(state.directory, target, until_s=seconds("2026-02-11T23:00:00"))
    assert pl.read_parquet(target, hive_partitioning=True)["line"].to_list() == [1, 1, 2, 2]
    assert [path.name for path in target.rglob("*") if path.is_file()] == ["samples.parquet"]


def test_parquet_is_read_by_arrow_too(state, tmp_path):
    """Another reader finds the partitions and the same schema in every file (nulls keep their type)."""
    dataset = pytest.importorskip("pyarrow.dataset")
    state.take(cycle(1, None, rank=None))
    state.take(cycle(2, "2026-02-12T09:00:00"))
    state.commit()
    export_parquet(state.directory, tmp_path / "out")
    table = dataset.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert table.num_rows == 4
    # Spark reads neither nanoseconds nor unsigned numbers, and takes a time without a zone for local time.
    assert str(table.schema.field("instant").type) == "timestamp[us, tz=UTC]"
    assert not [field.name for field in table.schema if "uint" in str(field.type)]
    assert set(table.column("stream").to_pylist()) == {"a.log"}
    schemas = {str(dataset.dataset(path).schema) for path in (tmp_path / "out").rglob("*.parquet")}
    assert len(schemas) == 1


@pytest.mark.parametrize("harm", ["nothing there", "no state file"])
def test_export_without_history_says_so(tmp_path, harm):
    """No state is an error that names the file and what to do."""
    if harm == "no state file":
        (tmp_path / FILE).write_bytes(b"rubbish, not a database " * 100)
    with pytest.raises(SourceError, match=FILE):
        export_parquet(tmp_path, tmp_path / "out")


BATCH = st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.text(max_size=5))), max_size=5)


@given(st.lists(st.tuples(BATCH, st.booleans()), max_size=10))
@settings(max_examples=40, deadline=None)
def test_any_sequence_of_commits_and_restarts(tmp_path_factory, steps):
    """Whatever is committed, forgotten and restarted: the file holds the last value of each name."""
    directory = tmp_path_factory.mktemp("state")
    expected: dict[str, str] = {}
    state = State(directory, lambda _: None)
    for batch, restart in steps:
        assert state.commit(dict(batch), {})
        for name, text in dict(batch).items():
            if text is None:
                expected.pop(name, None)
            else:
                expected[name] = text
        if restart:
            state.close()
            state = State(directory, lambda _: None)
        assert state.load().positions == expected
    state.close()
