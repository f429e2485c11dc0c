"""Alerts from incidents to receivers, on a clock of the test's own."""

import json
import threading
from datetime import datetime
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from oncall_kit import LINKS, NOW_S, ListOutbox, incident
from pydantic import TypeAdapter

from logwatch.model import Cause, Level, Moment
from logwatch.outlets.deliver import JOIN_WINDOW_S, Book, Deliver
from logwatch.outlets.deliver_courier import (
    KEPT,
    LONGEST_BACKOFF_S,
    MOST_LETTERS,
    RESEND_S,
    RESOLVED_FOR_S,
    SETTLE_S,
    DeliveryError,
)


class Listener:
    """A receiver that writes down what it is told, or refuses."""

    def __init__(self, name="listener", repeats=False):
        self.name, self.repeats = name, repeats
        self.told, self.error = [], None
        self.heard = lambda _alert: None

    def send(self, alert, now_s):
        if self.error is not None:
            raise self.error
        self.told.append((alert["change"], alert["status"], now_s))
        self.last = alert
        self.heard(alert)


class Desk:
    """A `Deliver` and its clock, its couriers stepped by hand."""

    def __init__(self, *listeners, memory=None, outbox=None):
        self.now_s = NOW_S
        self.outbox = outbox or ListOutbox()
        self.log, self.notices = [], []
        self.deliver = Deliver(
            listeners,
            self.outbox,
            LINKS,
            lambda level, line: self.log.append((level, line)),
            self.notices.append,
            clock=lambda: self.now_s,
            random=Random(1),
            memory=memory,
        )

    def take(self, *items):
        for item in items:
            self.deliver.take(item)

    def step(self, after_s=0.0):
        """Move the clock on and let each courier do what is due."""
        self.now_s += after_s
        return [courier.step(self.now_s) for courier in self.deliver.couriers]


def changes(listener):
    return [change for change, _, _ in listener.told]


@pytest.mark.parametrize(
    ("incidents", "expected"),
    [
        pytest.param([incident()], ["opened"], id="one rank"),
        pytest.param([incident(rank=f"TP{n}") for n in range(8)], ["opened"], id="eight ranks, one alert"),
        pytest.param([incident(rank=None)], ["opened"], id="a log without ranks"),
        pytest.param([incident(), incident("explained")], ["opened"], id="explained before it was sent"),
        pytest.param(
            [incident(), incident("resolved")], ["opened", "resolved"], id="over before it was sent"
        ),
        pytest.param(
            [incident(), incident(rank="TP1"), incident("resolved")],
            ["opened"],
            id="one of two ranks is still bad",
        ),
        pytest.param([incident("resolved")], [], id="a resolution of what nobody was told"),
        pytest.param([incident("worsened")], ["opened"], id="an update of what nobody was told"),
        pytest.param(
            [incident(), incident(phase="total_cycle", key="other")],
            ["opened", "opened"],
            id="another phase is another alert",
        ),
        pytest.param(
            [incident(), incident(stream="node8", key="other")],
            ["opened", "opened"],
            id="another stream is another alert",
        ),
    ],
)
def test_one_trouble_is_one_alert(incidents, expected):
    """Ranks that see the same phase of the same stream leave its band are one alert."""
    listener = Listener()
    desk = Desk(listener)
    desk.take(*incidents)
    desk.step(JOIN_WINDOW_S)
    assert changes(listener) == expected


def test_the_first_message_waits_for_other_ranks_but_less_than_a_second():
    """Within the join window nothing is sent; at its end the message names all ranks."""
    listener = Listener()
    desk = Desk(listener)
    desk.take(incident(rank="TP0"), incident(rank="TP1"))
    assert desk.step() == [NOW_S + JOIN_WINDOW_S]
    assert listener.told == []
    desk.step(JOIN_WINDOW_S)
    assert listener.last["annotations"]["ranks"] == "TP0, TP1"
    assert JOIN_WINDOW_S < 0.5


def test_a_log_without_ranks_does_not_wait():
    """Where no other rank can join, the alert leaves at once."""
    listener = Listener()
    desk = Desk(listener)
    desk.take(incident(rank=None))
    desk.step()
    assert changes(listener) == ["opened"]


@pytest.mark.parametrize("repeats", [False, True], ids=["a webhook", "Alertmanager"])
def test_what_waits_for_a_receiver_that_is_gone_is_bounded(repeats):
    """Of thousands of letters the open alerts and the newest of those that are over are kept, and that is said."""
    listener = Listener(repeats=repeats)
    listener.error = DeliveryError("cannot be reached")
    desk = Desk(listener)
    desk.take(incident(stream="open", key="open"))
    for number in range(2 * MOST_LETTERS):
        name = f"s{number}"
        desk.take(incident(stream=name, key=name), incident("resolved", stream=name, key=name))
        desk.take(incident(stream="open", key="open", rank="TP1"))
    for _ in range(3):
        desk.step(LONGEST_BACKOFF_S)
    letters = desk.outbox.letters("listener")
    assert len(letters) <= MOST_LETTERS
    assert {"open", f"s{2 * MOST_LETTERS - 1}"} <= {letter.key for letter in letters}
    (notice,) = [notice for notice in desk.notices if notice.kind == "alerts_given_up"]
    assert "751 alerts that were over were never told to listener" in notice.message
    listener.error, told = None, set()
    listener.heard = lambda alert: told.add(alert["labels"]["stream"])
    desk.step(LONGEST_BACKOFF_S)
    assert "open" in told


def test_labels_stay_while_values_change():
    """Labels, start and key are the same from opening to resolution; the figures move in the annotations."""
    listener = Listener()
    desk = Desk(listener)
    seen = []
    for change, after in (("opened", 0.02895), ("worsened", 0.0412), ("resolved", 0.0412)):
        severity = "critical" if change == "opened" else "warning"
        desk.take(incident(change, after=after, ratio=after / 0.01915, severity=severity))
        desk.step(1)
        seen.append(listener.last)
    assert len({json.dumps([a["labels"], a["starts_at"], a["key"]]) for a in seen}) == 1
    assert "28.95 ms" in seen[0]["annotations"]["description"]
    assert "41.20 ms" in seen[1]["annotations"]["description"]
    assert not any(char.isdigit() for char in seen[0]["labels"]["alertname"] + seen[0]["labels"]["phase"])


def test_a_later_rank_is_no_second_call():
    """One more rank after the message went out is not said to people again, but is in the next message."""
    listener = Listener()
    desk = Desk(listener)
    desk.take(incident())
    desk.step(1)
    desk.take(incident(rank="TP1"))
    desk.step(1)
    desk.take(incident("worsened", rank="TP1", ratio=2.0))
    desk.step(1)
    assert changes(listener) == ["opened", "worsened"]
    assert listener.last["annotations"]["ranks"] == "TP0, TP1"


def test_ranks_that_say_the_same_are_one_message():
    """Eight ranks that worsen and are explained alike are told once each, not eight times."""
    listener = Listener()
    desk = Desk(listener)
    ranks = [f"TP{number}" for number in range(8)]
    desk.take(*(incident(rank=rank) for rank in ranks))
    desk.step(1)
    for rank in ranks:
        desk.take(incident("worsened", rank=rank, ratio=2.1, after=0.0402))
        desk.step(0.01)
    desk.step(1)
    cause = (Cause("nccl_environment", "NCCL_PROTO is missing in TP1", 0.95),)
    for rank in ranks:
        desk.take(incident("explained", rank=rank, ratio=2.1, after=0.0402, causes=cause))
        desk.step(0.01)
    desk.step(1)
    assert changes(listener) == ["opened", "worsened", "explained"]


def test_alertmanager_is_told_again_while_it_fires():
    """An alert that fires is repeated; a resolved one for five minutes more, then its letter is gone."""
    listener = Listener(repeats=True)
    desk = Desk(listener)
    desk.take(incident(rank=None))
    desk.step()
    for _ in range(3):
        desk.step(RESEND_S)
    assert [status for _, status, _ in listener.told] == ["firing"] * 4
    desk.take(incident("resolved", rank=None))
    told_s = desk.now_s
    while desk.step()[0] is not None:
        desk.now_s += RESEND_S
    over = [now_s for _, status, now_s in listener.told if status == "resolved"]
    assert over[0] == told_s
    assert over[-1] - told_s == RESOLVED_FOR_S
    assert len(over) == 1 + RESOLVED_FOR_S / RESEND_S
    assert desk.outbox.rows == {}


def test_the_end_of_an_old_alert_does_not_end_a_new_one():
    """An alert that fires again within five minutes of its end goes on firing: the old end is repeated no more."""
    listener = Listener(repeats=True)
    desk = Desk(listener)
    desk.take(incident(rank=None), incident("resolved", rank=None))
    desk.step()
    desk.step(SETTLE_S)
    assert [status for _, status, _ in listener.told] == ["firing", "resolved"]
    desk.take(incident(rank=None, key="the next one"))
    for _ in range(4):
        desk.step(RESEND_S)
    assert [status for _, status, _ in listener.told[2:]] == ["firing"] * 4


def test_alertmanager_hears_of_what_came_and_went_while_it_was_away():
    """It is told first that it fired, and only after its grouping time that it is over."""
    listener = Listener(repeats=True)
    listener.error = DeliveryError("connection refused")
    desk = Desk(listener)
    desk.take(incident(rank=None))
    desk.step()
    desk.take(incident("resolved", rank=None))
    desk.step(LONGEST_BACKOFF_S)
    listener.error = None
    desk.step(LONGEST_BACKOFF_S)
    assert [status for _, status, _ in listener.told] == ["firing"]
    desk.step(SETTLE_S)
    assert [status for _, status, _ in listener.told] == ["firing", "resolved"]


def test_backoff_grows_to_a_minute_and_is_jittered():
    """Attempts at a receiver that is down come less and less often, never in step, and never stop."""
    listener = Listener()
    listener.error = DeliveryError("cannot be reached: Connection refused")
    desk = Desk(listener)
    desk.take(incident(rank=None))
    waits = []
    for _ in range(20):
        (next_s,) = desk.step()
        waits.append(next_s - desk.now_s)
        desk.now_s = next_s
    assert 0.5 <= waits[0] <= 1.0
    assert all(LONGEST_BACKOFF_S / 2 <= wait <= LONGEST_BACKOFF_S for wait in waits[7:])
    assert len({round(wait, 6) for wait in waits}) == len(waits)
    listener.error = None
    desk.step()
    assert changes(listener) == ["opened"]


def test_trouble_with_a_receiver_is_said_once():
    """One notice when a receiver fails and one when it is back, however many attempts lie between."""
    listener = Listener()
    listener.error = DeliveryError("answered 503")
    desk = Desk(listener)
    desk.take(incident(rank=None))
    for _ in range(10):
        desk.step(LONGEST_BACKOFF_S)
    listener.error = None
    desk.step(LONGEST_BACKOFF_S)
    assert [notice.kind for notice in desk.notices] == ["sink_failed", "receiver_back"]
    (status,) = desk.deliver.status()
    assert (status.delivered, status.failed, status.pending, status.error) == (1, 10, 0, "")


def test_an_alert_that_is_refused_does_not_hold_up_others():
    """A receiver that rejects one alert still gets the next one at once."""

    class Picky(Listener):
        def send(self, alert, now_s):
            if alert["labels"]["stream"] == "bad":
                raise DeliveryError("answered 400: no", letter=True)
            super().send(alert, now_s)

    listener = Picky()
    desk = Desk(listener)
    desk.take(incident(rank=None, stream="bad", key="bad"), incident(rank=None))
    desk.step()
    assert changes(listener) == ["opened"]
    assert desk.deliver.status()[0].pending == 1


def test_one_receiver_never_waits_for_another():
    """What one receiver refuses, another one has got."""
    down, up = Listener("down"), Listener("up")
    down.error = DeliveryError("answered 500")
    desk = Desk(down, up)
    desk.take(incident(rank=None))
    desk.step()
    assert changes(up) == ["opened"]
    assert desk.outbox.receivers() == {"down"}


@pytest.mark.parametrize("step_s", [-3600.0, 10 * 365 * 86400.0], ids=["an hour back", "ten years ahead"])
def test_a_clock_step_holds_no_alert(step_s):
    """A letter that waits for its next try leaves at the latest two minutes after the clock was set."""
    listener = Listener()
    listener.error = DeliveryError("answered 500")
    desk = Desk(listener)
    desk.take(incident(rank=None))
    desk.step()
    listener.error = None
    desk.step(step_s)
    assert changes(listener) == ["opened"]


def test_restart_goes_on_where_it_was():
    """Open alerts and letters of an earlier life: the next life repeats, resolves, and opens nothing twice."""
    first = Listener(repeats=True)
    desk = Desk(first)
    desk.take(incident(), incident(rank="TP1"))
    desk.step(1)
    adapter = TypeAdapter(Book)
    book = adapter.validate_json(adapter.dump_json(desk.deliver.memory))
    assert book == desk.deliver.memory
    second = Listener(repeats=True)
    later = Desk(second, memory=book, outbox=desk.outbox)
    later.take(incident("explained", causes=(Cause("load", "batch size 1 to 8", 0.95),)))
    later.step(RESEND_S)
    later.take(incident("resolved"), incident("resolved", rank="TP1"))
    later.step(1)
    assert changes(first) == ["opened"]
    assert changes(second) == ["explained", "resolved"]
    assert second.last["key"] == first.last["key"]
    assert second.last["starts_at"] == first.last["starts_at"]


def test_letters_of_a_receiver_that_is_no_more_are_dropped_and_it_is_said():
    """After a change of configuration nothing waits for ever for somebody who is not there."""
    desk = Desk(Listener("old"))
    desk.take(incident(rank=None))
    later = Desk(outbox=desk.outbox)
    later.deliver.start()
    later.deliver.close()
    assert desk.outbox.rows == {}
    assert [notice.message for notice in later.notices] == [
        "1 alerts for old are dropped: it is not configured any more."
    ]


def test_the_log_always_hears_of_it():
    """Without any receiver each transition is one line in the daemon's log, as loud as its severity."""
    desk = Desk()
    desk.take(incident(), incident("resolved"))
    (opened, first), (resolved, last) = desk.log
    assert (opened, resolved) == (Level.ERROR, Level.INFO)
    assert first == (
        "SpecVerifyOutOfBand opened (node7): Target verify is at 28.95 ms a cycle since 2026-02-11 08:15:02 "
        "(line 41), 1.51 times the 19.15 ms before. Its band is 17.00 ms to 21.00 ms. Speculation costs more than "
        "it gives: 60.5 tok/s against 82.2 without it. Most likely cuda graph off: the report's header says graph "
        "0.0%. Ranks: TP0."
    )
    assert "Over since 2026-02-11 08:20:00 (line 90). Target verify was at 28.95 ms a cycle" in last
    assert "\n" not in first


class Deliveries(RuleBasedStateMachine):
    """Whatever fails, restarts and changes: each alert is opened first, once, and told to its end in order."""

    def __init__(self):
        super().__init__()
        self.history, self.open_ranks, self.number = {}, [], 0
        self.believed = None
        self.listener = None

    @initialize(repeats=st.booleans())
    def begin(self, repeats):
        self.listener = Listener(repeats=repeats)
        self.listener.heard = self.hear
        self.desk = Desk(self.listener)

    def hear(self, alert):
        """Write down what is told, and what an Alertmanager believes then: all these alerts have the same labels."""
        self.history.setdefault(alert["key"], []).append((alert["change"], alert["status"]))
        self.believed = alert["status"]

    def tell(self, change, rank):
        key = f"node7/TP{rank}/target_verify/out_of_band/{self.number}"
        self.desk.take(incident(change, rank=f"TP{rank}", key=key))

    @precondition(lambda self: not self.open_ranks)
    @rule(ranks=st.integers(1, 4))
    def opens(self, ranks):
        self.number += 1
        self.open_ranks = list(range(ranks))
        for rank in self.open_ranks:
            self.tell("opened", rank)

    @precondition(lambda self: self.open_ranks)
    @rule(change=st.sampled_from(["worsened", "explained"]))
    def changes(self, change):
        self.tell(change, self.open_ranks[0])

    @precondition(lambda self: self.open_ranks)
    @rule()
    def one_rank_resolves(self):
        self.tell("resolved", self.open_ranks.pop())

    @rule()
    def time_passes(self):
        self.desk.step(LONGEST_BACKOFF_S)

    @rule(error=st.sampled_from([None, DeliveryError("down"), DeliveryError("answered 400", letter=True)]))
    def receiver_fails_or_heals(self, error):
        self.listener.error = error

    @rule()
    def daemon_restarts(self):
        adapter = TypeAdapter(Book)
        book = adapter.validate_json(adapter.dump_json(self.desk.deliver.memory))
        now_s, outbox = self.desk.now_s, self.desk.outbox
        self.desk = Desk(self.listener, memory=book, outbox=outbox)
        self.desk.now_s = now_s

    def teardown(self):
        if self.listener is None:
            return
        self.listener.error = None
        for _ in range(3):
            self.desk.step(SETTLE_S)
        assert self.believed == (None if not self.number else "firing" if self.open_ranks else "resolved")
        if self.listener.repeats:
            return  # of alerts with the same labels only the newest is told to its end
        assert len(self.history) == self.number
        for number, told in enumerate(self.history.values(), 1):
            assert told[0] == ("opened", "firing")
            assert [change for change, _ in told].count("opened") == 1
            statuses = [status for _, status in told]
            assert statuses == sorted(statuses, key=["firing", "resolved"].index)
            still_open = number == self.number and self.open_ranks
            assert statuses[-1] == ("firing" if still_open else "resolved")


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        pytest.param("2026-02-11T08:15:02Z", "2026-02-11T08:15:02.000Z", id="with a zone"),
        pytest.param("2026-02-11T09:15:02.250+01:00", "2026-02-11T08:15:02.250Z", id="with another zone"),
        pytest.param(None, "NOW", id="without a time"),
        pytest.param("03:51:54", "NOW", id="a clock time without a date"),
        pytest.param("2999-01-01T00:00:00Z", "NOW", id="a time to come"),
        pytest.param("2026-99-99T00:00:00", "NOW", id="not a time"),
    ],
)
def test_start_is_the_onset_or_now(time, expected):
    """`starts_at` is the onset's instant, and never later than now."""
    listener = Listener()
    desk = Desk(listener)
    onset = Moment(41, time)
    desk.take(incident(rank=None, onset=onset))
    desk.step()
    now = datetime.fromtimestamp(NOW_S).astimezone().timestamp()
    told = datetime.fromisoformat(listener.last["starts_at"]).timestamp()
    wanted = now if expected == "NOW" else datetime.fromisoformat(expected).timestamp()
    assert told == pytest.approx(wanted)


def test_threads_deliver_and_close_in_time():
    """In life: `start`, `take`, `wake` brings the alert to the receiver; `close` returns though one hangs."""
    arrived, release = threading.Event(), threading.Event()
    hanging, ready = Listener("hanging"), Listener("ready")
    hanging.heard, ready.heard = (lambda _: release.wait(30)), (lambda _: arrived.set())
    desk = Desk(hanging, ready)
    desk.deliver.start()
    desk.take(incident(rank=None))
    desk.deliver.wake()
    assert arrived.wait(10)
    threading.Timer(0.5, release.set).start()
    desk.deliver.close()
    assert desk.outbox.letters("ready") == []


def test_a_bug_in_a_receiver_does_not_end_its_thread():
    """An unforeseen error is said loudly, and the letter stays."""
    called = threading.Event()
    broken = Listener()

    def heard(_alert):
        called.set()
        raise ZeroDivisionError

    broken.heard = heard
    desk = Desk(broken)
    desk.deliver.start()
    desk.take(incident(rank=None))
    desk.deliver.wake()
    assert called.wait(10)
    desk.deliver.close()
    assert desk.notices[0].level is Level.ERROR
    assert len(desk.outbox.rows) == 1


def test_kept_letters_are_not_pending():
    """What was delivered and is only repeated does not count as an alert that waits."""
    listener = Listener(repeats=True)
    desk = Desk(listener)
    desk.take(incident(rank=None))
    desk.step()
    assert [row.tries for row in desk.outbox.rows.values()] == [KEPT]
    assert desk.deliver.status()[0].pending == 0


def test_other_receivers_after_a_reload():
    """A reload keeps a receiver that is as it was, with its figures, stops one that is gone, starts a new one."""
    arrived = threading.Event()
    kept, gone, new = Listener("kept"), Listener("gone"), Listener("new")
    new.heard = lambda _: arrived.set()
    desk = Desk(kept, gone)
    desk.deliver.start()
    courier = desk.deliver.couriers[0]
    desk.deliver.configure([kept, new], LINKS)
    assert desk.deliver.couriers[0] is courier
    desk.take(incident(rank=None))
    desk.deliver.wake()
    assert arrived.wait(10)
    desk.deliver.close()
    assert gone.told == []
    assert [status.name for status in desk.deliver.status()] == ["kept", "new"]
