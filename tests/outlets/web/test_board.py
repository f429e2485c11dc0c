"""What the page shows from: bounded, of one instant, and carried over a restart."""

import sqlite3

import pytest
from outlet_items import cycle, incident, judgement, run_started
from pydantic import TypeAdapter

from logwatch.model import Change
from logwatch.outlets.metrics import Metrics
from logwatch.outlets.web import board as board_module
from logwatch.outlets.web.api import Query, refill
from logwatch.outlets.web.board import MAX_PAST, RING, Board, BoardMemory
from logwatch.outlets.web.site import Site

VERIFY = ("node7.log", "TP0", "target_verify")


def feed(board, *items):
    for item in items:
        board.take(item)


def test_a_judgement_marks_the_sample_it_judged():
    """The band of a sample is the one that judged it; other charts leave it alone."""
    board = Board(clock=lambda: 5.0)
    feed(board, cycle(0.02895, line=7), judgement(cycle(0.02895, line=7)))
    (sample,) = board.view().rings[VERIFY]
    assert (sample.in_band, sample.band.high, sample.read_s, sample.line) == (False, 0.021, 5.0, 7)
    feed(board, judgement(cycle(0.019, line=3)))
    assert board.view().rings[VERIFY] == (sample,)


def test_a_view_does_not_change_when_the_board_does():
    """A reader in another thread sees one instant."""
    board = Board()
    feed(board, cycle())
    view, version = board.view(), board.version
    feed(board, cycle(line=2), incident())
    assert len(view.rings[VERIFY]) == 1
    assert view.open == ()
    assert board.version > version


def test_the_board_is_bounded(monkeypatch):
    """Whatever a log says, rings, runs and incidents stay within their numbers."""
    monkeypatch.setattr(board_module, "MAX_RINGS", 10)
    monkeypatch.setattr(board_module, "MAX_RUNS", 3)
    monkeypatch.setattr(board_module, "MAX_OPEN", 4)
    board = Board()
    for n in range(400):
        feed(
            board,
            cycle(rank=f"TP{n % 30}"),
            cycle(rank="TP0"),
            run_started(stream=f"{n}.log", **{f"setting{m}": "x" * 1000 for m in range(5)}),
            incident(key=str(n)),
            incident(Change.RESOLVED, key=f"past{n}"),
        )
    view = board.view()
    assert len(view.rings) == 10
    assert len(view.rings[VERIFY]) == RING
    assert len(view.runs) == 3
    assert [each.key for each in view.open] == ["399", "398", "397", "396"]
    assert len(view.past) == MAX_PAST
    assert max(len(value) for run in view.runs.values() for value in run.settings.values()) <= 200


def test_runs_go_through_json_and_samples_come_from_the_history():
    """After a restart the page shows the run, the strip and the open incident at once."""
    before = Board(clock=lambda: 5.0)
    feed(
        before,
        run_started(1, tp_size="8", random_seed="1"),
        run_started(2, tp_size="4", random_seed="2"),
        cycle(),
        judgement(cycle()),
        incident(),
    )
    adapter = TypeAdapter(BoardMemory)
    after = Board()
    after.memory = adapter.validate_json(adapter.dump_json(before.memory))
    after.restore(before.view().rings[VERIFY], before.view().open)
    assert after.view().runs == before.view().runs
    assert after.view().runs["node7.log"].changed == (("tp_size", "8", "4"),)
    assert after.view().rings[VERIFY] == before.view().rings[VERIFY]
    assert after.view().open == before.view().open


def test_expired_streams_leave_the_page():
    """Samples and runs of a vanished stream go; its open incident becomes a past one."""
    board = Board()
    feed(board, cycle(), run_started(tp_size="8"), incident(), cycle(stream="node8.log"))
    board.forget(["node7.log"])
    view = board.view()
    assert {key[0] for key in view.rings} == {"node8.log"}
    assert (view.runs, view.open) == ({}, ())
    assert [each.key for each in view.past] == [incident().key]


class Broken:
    """A history whose file is damaged."""

    def samples(self, query):
        raise sqlite3.DatabaseError("malformed")

    def incidents(self, query):
        raise sqlite3.OperationalError("unable to open")


class Older:
    """A history that knows more than the board."""

    def __init__(self):
        self.asked = []

    def samples(self, query):
        self.asked.append(query)
        return []

    def incidents(self, query):
        self.asked.append(query)
        return [incident()]


def test_the_history_is_asked_where_there_is_one(serve):
    """Questions go to the state file with their filters."""
    history = Older()
    client = serve(Site(Metrics(), Board(), history=history))
    assert client.get("/api/v1/samples?phase=target_verify&limit=5&since=10&until=20").json["samples"] == []
    assert len(client.get("/api/v1/incidents?kind=out_of_band").json["incidents"]) == 1
    assert history.asked == [
        Query(phase="target_verify", limit=5, since_s=10.0, until_s=20.0),
        Query(kind="out_of_band"),
    ]


def test_a_new_process_shows_what_its_history_knows():
    """The board is refilled at the start; a history that cannot be read leaves it empty, and that is all."""
    board = Board()
    refill(board, Older())
    assert [each.key for each in board.view().open] == [incident().key]
    refill(empty := Board(), Broken())
    assert empty.view().open == ()


@pytest.mark.parametrize("path", ["samples", "incidents"])
def test_a_history_that_cannot_be_read_is_replaced_by_the_rings(serve, path):
    """A damaged state file costs the older samples, not the answer."""
    site = Site(Metrics(), Board(), history=Broken())
    feed(site.board, cycle(phases_s={"target_verify": 0.019}), incident())
    assert len(serve(site).get(f"/api/v1/{path}").json[path]) == 1
