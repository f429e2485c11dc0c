"""Cycles and reports, on the timers' interface alone."""

import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logwatch.emitter.profiler import Profiler
from logwatch.emitter.timer import EventTimer, HostTimer, timer_for


class Rig:
    """A profiler whose timer is a host's, driven by a hand-moved clock."""

    def __init__(self, every=1, measured=("draft", "verify", "extend"), timer=None):
        self.now_s = 0.0
        self.reports = []
        self.timer = timer or HostTimer(lambda: self.now_s)
        self.profiler = Profiler(
            lambda _device: self.timer, self.reports.append, every, measured, lambda: self.now_s
        )

    def phase(self, name, seconds=1.0, size=1, graph=None, accepted=()):
        token = self.profiler.begin(name, "cuda", size)
        self.now_s += seconds
        if token is not None:
            self.profiler.end(token, graph=graph, accepted=accepted)
        return token


D, V, E = "draft", "verify", "extend"


@pytest.mark.parametrize(
    ("order", "phases_s"),
    [
        pytest.param([D, V, E, D], [{D: 1, V: 10, E: 2}], id="a cycle is closed by the next draft"),
        pytest.param(
            [D, V, D, V, E, D], [{D: 1, V: 10}, {D: 1, V: 10, E: 2}], id="the extend may be left out"
        ),
        pytest.param(
            [V, E, D, V, E, D],
            [{V: 10, E: 2}, {D: 1, V: 10, E: 2}],
            id="draft at the tail belongs to what follows",
        ),
        pytest.param([V, E, V, E, V], [{V: 10, E: 2}, {V: 10, E: 2}], id="no drafting at all"),
        pytest.param(
            [D, D, V, E, D], [{D: 1, V: 10, E: 2}], id="a draft that nobody verified does not count"
        ),
        pytest.param(
            [E, D, E, V, E, E, D], [{D: 1, V: 10, E: 2}], id="an extend counts after its verify, and once"
        ),
        pytest.param([D, V, E], [], id="the last cycle waits for the next"),
    ],
)
def test_phases_make_cycles(order, phases_s):
    """Draft, verify, extend make a cycle in whatever order a version calls them."""
    rig = Rig()
    for name in order:
        rig.phase(name, {D: 1, V: 10, E: 2}[name])
    assert [report.phases_s for report in rig.reports] == phases_s


def test_a_report_holds_the_means_over_its_cycles():
    """Batch, graph share, phases, launches, verifies and accepted drafts are those of the cycles in between."""
    rig = Rig(every=2)
    for size, graph, seconds, accepted in [
        (1, True, 3.0, [2]),
        (3, False, 5.0, [0, 1, 0]),
        (1, True, 9.0, []),
    ]:
        rig.phase(D, 1.0, size)
        rig.phase(V, seconds, size, graph, accepted)
        rig.phase(E, 0.5, size)
    (report,) = rig.reports
    assert (report.cycles, report.batch_size, report.graph_share) == (2, 2.0, 0.5)
    assert report.phases_s == {D: 1.0, V: 4.0, E: 0.5}
    assert report.launches_s == {D: 1.0, V: 4.0, E: 0.5}
    assert report.verifies_s == [3.0, 5.0]
    assert report.accepted_drafts == 0.75
    assert report.whole


def test_an_idle_batch_is_no_cycle():
    """A rank that only keeps others company measures waiting, not verifying."""
    rig = Rig()
    for size in (0, 1, 0, 1, 1):
        for name in (D, V, E):
            rig.phase(name, 1.0 if size else 50.0, size)
    assert [report.phases_s[V] for report in rig.reports] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("measured", "order", "phases_s"),
    [
        pytest.param((V, E), [V, E, V, E], {V: 10, E: 2}, id="without draft"),
        pytest.param((D, V), [D, V, D], {D: 1, V: 10}, id="without extend"),
        pytest.param((D, E), [D, E, D], {D: 1, E: 2}, id="without verify, draft counts the cycles"),
    ],
)
def test_a_phase_that_is_not_hooked_is_left_out(measured, order, phases_s):
    """The others are measured; there is no total of a part."""
    rig = Rig(measured=measured)
    for name in order:
        rig.phase(name, {D: 1, V: 10, E: 2}[name])
    assert [(report.phases_s, report.whole) for report in rig.reports] == [(phases_s, False)]


def test_a_phase_inside_another_is_part_of_it():
    """A subclass's verify that calls its parent's is one verify."""
    rig = Rig()
    rig.phase(D)
    outer = rig.profiler.begin(V, "cuda", 1)
    assert rig.phase(V) is None
    rig.profiler.end(outer)
    rig.phase(D)
    assert rig.reports[0].phases_s == {D: 1.0, V: 1.0}


def test_an_abandoned_phase_takes_its_cycle_with_it():
    """An original that raised leaves no half cycle behind, and the next one counts."""
    rig = Rig()
    rig.phase(D)
    rig.profiler.abandon(rig.profiler.begin(V, "cuda", 1))
    for name in (D, V, E, D):
        rig.phase(name)
    assert [report.cycles for report in rig.reports] == [1]


class Event:
    """An event of a device that gets as far as `reached`."""

    clock = 0
    reached = 0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        Event.clock += 1
        self.stamp = Event.clock

    def query(self):
        return self.stamp <= Event.reached

    def elapsed_time(self, end):
        assert end.query()
        return 1000.0 * (end.stamp - self.stamp)


@pytest.fixture
def device():
    Event.clock = Event.reached = 0
    return type("Module", (), {"Event": Event, "is_current_stream_capturing": staticmethod(lambda: False)})


def test_an_event_is_read_when_it_is_complete_and_not_before(device):
    """Cycles wait for the device, in order, and none is lost."""
    rig = Rig(timer=EventTimer(device))
    for _ in range(3):
        for name in (D, V, E):
            rig.phase(name)
    assert rig.reports == []
    Event.reached = 7  # one event short of the second cycle's end
    rig.phase(D)
    assert [report.phases_s for report in rig.reports] == [{D: 1.0, V: 1.0, E: 1.0}]
    Event.reached = Event.clock
    for name in (V, E, D):
        rig.phase(name)
    assert len(rig.reports) == 3


def test_without_events_left_cycles_are_skipped_and_later_ones_counted(device):
    """A pool that is used up costs cycles, never a wait, and recovers."""
    rig = Rig(timer=EventTimer(device, events=14))
    for _ in range(20):
        for name in (D, V, E):
            rig.phase(name)
    assert rig.reports == []
    Event.reached = 10**9
    for _ in range(4):
        for name in (D, V, E):
            rig.phase(name)
    assert {tuple(report.phases_s.values()) for report in rig.reports} == {(1.0, 1.0, 1.0)}
    assert 4 <= len(rig.reports) <= 6


def test_the_pool_makes_no_more_events_than_it_may(device):
    """Memory is bounded: events are reused."""
    timer = EventTimer(device, events=2)
    marks = [timer.mark(), timer.mark()]
    assert timer.mark() is None
    timer.release(marks[0])
    assert timer.mark() is marks[0]


@pytest.mark.parametrize(
    ("gap_s", "events", "phases_s"),
    [
        pytest.param(0.0001, 4, {D: 1.0, V: 1.0, E: 1.0}, id="phases in a row share their boundaries"),
        pytest.param(0.1, 6, {D: 1.0, V: 1.0, E: 1.0}, id="what lies long between two phases is in neither"),
    ],
)
def test_a_boundary_between_two_phases_is_one_event(device, gap_s, events, phases_s):
    """An event costs the device some microseconds, so a cycle has no more than it needs."""
    rig = Rig(timer=EventTimer(device))
    for name in (D, V, E):
        rig.phase(name)
        rig.now_s += gap_s
    assert Event.clock == events
    Event.reached = 10**9
    rig.phase(D)
    assert rig.reports[0].phases_s == phases_s


def test_nothing_is_put_into_a_graph_that_is_being_captured(device):
    """An event recorded during capture would become a node of the graph."""
    device.is_current_stream_capturing = staticmethod(lambda: True)
    rig = Rig(timer=EventTimer(device))
    assert [rig.phase(name) for name in (D, V, E, D)] == [None] * 4
    assert Event.clock == 0


def test_threads_put_their_cycles_together_each_for_itself():
    """Two workers in two threads interleave; no phase of one lands in a cycle of the other."""
    rig = Rig(every=200)
    turn = threading.Barrier(2)

    def work(seconds):
        for _ in range(101):
            for name in (D, V, E):
                turn.wait(timeout=20)
                token = rig.profiler.begin(name, "cuda", 1)
                turn.wait(timeout=20)
                rig.profiler.end(token, accepted=[seconds])

    threads = [threading.Thread(target=work, args=(seconds,)) for seconds in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    (report,) = rig.reports
    assert (report.cycles, set(report.phases_s)) == (200, {D, V, E})
    assert 1.0 < report.accepted_drafts < 2.0


@pytest.mark.parametrize(
    ("device_name", "kind"),
    [
        pytest.param("cuda", EventTimer, id="a name"),
        pytest.param("cuda:3", EventTimer, id="a name with its index"),
        pytest.param("cpu", HostTimer, id="a CPU's work is done when the call returns"),
    ],
)
@pytest.mark.usefixtures("server")
def test_the_device_says_which_clock(device_name, kind):
    """Events on an accelerator of any make, the host's clock on a CPU."""
    assert isinstance(timer_for(device_name), kind)


@pytest.mark.usefixtures("server")
def test_a_device_without_events_is_not_measured_by_the_host():
    """Host times of an asynchronous device would be those of launches, and wrong."""
    with pytest.raises(RuntimeError, match="no events on device 'mute'"):
        timer_for("mute")


STEPS = st.lists(
    st.tuples(st.sampled_from([D, V, E]), st.sampled_from(["fine", "fine", "fine", "idle", "raises"]))
)


def literal(steps):
    """The cycles that a patient reader would find in a list of steps, as phases with their times."""
    cycles, cycle = [], None
    for number, (name, fate) in enumerate(steps):
        if name == E and (cycle is None or V not in cycle or E in cycle):
            continue
        if name == D or cycle is None or name in cycle:
            cycle = {}
            cycles.append(cycle)
        cycle[name] = None if fate == "raises" or (name == V and fate == "idle") else float(number + 1)
        if fate == "raises":
            cycle = None
    return [c for c in cycles[:-1] if V in c and None not in c.values()]


@given(STEPS)
@example([(D, "fine"), (V, "raises"), (V, "fine")])
@example([(D, "fine"), (V, "fine"), (E, "raises"), (E, "fine")])
def test_any_order_of_steps_gives_the_cycles_that_a_reader_would_find(steps):
    """Whatever is called, idles or raises, what is counted is whole cycles with their own times."""
    rig = Rig()
    steps = [*steps, (D, "fine")]
    for number, (name, fate) in enumerate(steps):
        token = rig.profiler.begin(name, "cuda", 0 if fate == "idle" else 1)
        rig.now_s += number + 1
        if token is not None:
            rig.profiler.abandon(token) if fate == "raises" else rig.profiler.end(token)
    assert [{**report.phases_s} for report in rig.reports] == literal(steps)
