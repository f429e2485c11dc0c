import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judging_samples import cycle, through
from pydantic import TypeAdapter

from logwatch.judging.bands import Band, Rules
from logwatch.judging.held import UNSEEN_FOR
from logwatch.judging.incidents import Incidents, IncidentsMemory
from logwatch.judging.judgements import Judgements
from logwatch.model import Change, Incident, Moment

FIELD_29 = [0.02896, 0.02894, 0.02896, 0.02895, 0.02894]
FIELD_19 = [0.01914, 0.01914, 0.01914, 0.01915, 0.01915]
SHARE_29, SHARE_19 = 0.97, 0.95


def incidents_of(cycles, bands=None, rules=None):
    arguments = {} if bands is None else {"bands": bands}
    stages = Judgements(**arguments), Incidents(**arguments, rules=rules)
    return [item for item in through(cycles, *stages) if isinstance(item, Incident)]


def series(values, **keywords):
    return [cycle(value, line, **keywords) for line, value in enumerate(values, 1)]


def test_five_reports_out_of_the_default_band_with_nothing_before():
    """The field's slow log opens one incident at its third line, 1.52 times the band's centre."""
    [found] = incidents_of(series(FIELD_29))
    assert (found.change, found.kind, found.direction) == (Change.OPENED, "out_of_band", "high")
    assert (found.onset, found.noticed, found.resolved) == (Moment(1), Moment(3), None)
    assert found.before is None
    assert round(found.ratio, 2) == 1.52
    assert round(found.after * 1e3, 2) == 28.96
    assert found.severity == "critical"


def test_the_restart_that_nobody_was_told_of():
    """19.145 to 28.95 ms is seen at the third changed report, is steady, and its cost comes out of the numbers."""
    before = [cycle(v, n, shares={"target_verify": SHARE_19}, tokens=1.9) for n, v in enumerate(FIELD_19, 1)]
    after = [
        cycle(v, n, shares={"target_verify": SHARE_29}, tokens=1.806, run=1)
        for n, v in enumerate(FIELD_29, 6)
    ]
    found, slower = incidents_of(before + after, rules=Rules(baseline_tokens_per_second=82.2))
    assert slower.kind == "slower_than_baseline"
    assert (slower.onset.line, slower.noticed.line, round(slower.after, 1)) == (6, 10, 60.5)
    assert (found.onset.line, found.noticed.line) == (6, 8)
    assert round(found.ratio, 2) == 1.51
    assert round(found.before * 1e3, 2) == 19.14
    assert "steady, not noise (coefficient of variation 0.03 %)" in found.detail
    assert "costs more than it gives: 60.5 tok/s against 82.2 without it" in found.detail


def test_an_incident_resolves_at_the_first_of_five_good_samples():
    """Resolved is when it ended, not when that was known; the level is that of the bad samples."""
    opened, resolved = incidents_of(series(FIELD_19 + FIELD_29 + [0.0289] + FIELD_19 + FIELD_29[:2]))
    assert opened.change is Change.OPENED
    assert resolved.change is Change.RESOLVED
    assert resolved.key == opened.key
    assert resolved.resolved == Moment(12)
    assert resolved.samples == 6
    assert resolved.after == pytest.approx(0.028945)


def without_verify(lines, rank="TP0"):
    return [cycle(line=line, rank=rank, phases={"inferred_cycle": 0.02}, run=1) for line in lines]


def test_what_nothing_tells_of_any_more_ends_where_it_was_told_of_last():
    """A server that is started without the profile gives no verify time: no alert of it fires for ever."""
    opened, resolved = incidents_of(series(FIELD_29) + without_verify(range(6, 80)))
    assert (resolved.change, resolved.key) == (Change.RESOLVED, opened.key)
    assert resolved.resolved == Moment(6)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(without_verify(range(6, 6 + UNSEEN_FOR - 1)), id="not for long"),
        pytest.param(
            [*without_verify(range(6, 50)), cycle(0.029, 50), *without_verify(range(51, 95))],
            id="now and then",
        ),
        pytest.param(without_verify(range(6, 200), rank="TP1"), id="another rank"),
    ],
)
def test_a_phase_that_is_told_of_seldom_stays_open(after):
    """Decode lines before the first report of a run say nothing of verify, nor do other ranks."""
    assert [each.change for each in incidents_of(series(FIELD_29) + after)] == [Change.OPENED]


def test_after_an_unseen_end_the_next_bad_samples_open_anew():
    """Nothing is left of the stretch that ended."""
    again = [cycle(value, 80 + line, run=2) for line, value in enumerate(FIELD_29)]
    found = incidents_of(series(FIELD_29) + without_verify(range(6, 80)) + again)
    assert [each.change for each in found] == [Change.OPENED, Change.RESOLVED, Change.OPENED]
    assert found[2].onset == Moment(80)


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        pytest.param([19, 30, 30, 19, 30, 30, 19], [], id="two in a row are not three"),
        pytest.param([19, 30, 12, 30, 12], [], id="both sides in turn are not three on one side"),
        pytest.param([19, 30, 30, 30, 19, 19, 19, 19, 30], ["opened"], id="four good ones do not resolve"),
        pytest.param([19] * 3 + [30] * 6 + [45] * 3, ["opened", "worsened"], id="three much further out"),
        pytest.param([19] * 3 + [12] * 3, ["opened"], id="too fast is out of band as well"),
        pytest.param([30] * 3 + [12] * 3, ["opened", "resolved", "opened"], id="across the band at once"),
        pytest.param([21.0, 21.0, 21.0, 17.0], [], id="the edges are inside"),
    ],
)
def test_transitions(values, changes):
    """Only consecutive samples on one side count."""
    found = incidents_of(series([v / 1e3 for v in values]))
    assert [incident.change.value for incident in found] == changes


def test_ranks_and_streams_are_judged_apart():
    """Two ranks' alternating reports are two series, with an incident each."""
    cycles = [
        cycle(value, 2 * n + (rank == "TP1"), rank=rank)
        for n, value in enumerate(FIELD_29, 1)
        for rank in ("TP0", "TP1")
    ]
    assert [i.rank for i in incidents_of(cycles)] == ["TP0", "TP1"]


def test_bands_hold_under_their_conditions_only():
    """The most specific band judges; a sample for which no band holds neither counts nor breaks the row."""
    bands = [
        Band("target_verify", 0.017, 0.021, when={"batch_size": "1"}),
        Band("target_verify", 0.030, 0.040, when={"batch_size": "4..8"}),
    ]
    cycles = [
        cycle(0.030, 1, batch_size=1.0),
        cycle(0.030, 2, batch_size=2.0),
        cycle(0.030, 3, batch_size=1.0),
        cycle(0.030, 4),
        cycle(0.030, 5, batch_size=1.0),
    ]
    [found] = incidents_of(cycles, bands)
    assert (found.onset.line, found.noticed.line) == (1, 5)
    assert incidents_of([cycle(0.035, n, batch_size=8.0) for n in range(1, 9)], bands) == []


def test_a_band_may_follow_the_context():
    """Edges rise with the context where the band says so, and the ratio compares at equal context."""
    band = Band("target_verify", 0.0050, 0.0055, per_context_token_s=2.1e-6)
    healthy = [cycle(0.00525 + 2.1e-6 * c, n, context_tokens=c) for n, c in enumerate(range(0, 2000, 200), 1)]
    assert incidents_of(healthy, [band]) == []
    slow = [
        cycle(
            1.5 * x.phases_s["target_verify"], x.place.line + 10, context_tokens=x.conditions.context_tokens
        )
        for x in healthy
    ]
    found = incidents_of(healthy + slow, [band])
    assert round(found[0].ratio, 3) == 1.5


VALUES = st.lists(st.sampled_from([0.012, 0.019, 0.020, 0.030, 0.045]), max_size=60)


@given(values=VALUES, cut=st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_a_restored_stage_continues_exactly(values, cut):
    """Memory written as JSON and read back gives the same incidents as no restart."""
    cycles = series(values)
    whole = incidents_of(cycles)
    first = Incidents()
    head = [i for i in through(cycles[:cut], Judgements(), first) if isinstance(i, Incident)]
    adapter = TypeAdapter(IncidentsMemory)
    second = Incidents()
    second.memory = adapter.validate_json(json.dumps(json.loads(adapter.dump_json(first.memory))))
    tail = [i for i in through(cycles[cut:], Judgements(), second) if isinstance(i, Incident)]
    assert head + tail == whole


@given(values=VALUES)
@settings(max_examples=60, deadline=None)
def test_everything_passes_through_in_order(values):
    """What goes in comes out, unchanged and in order; incidents only come between."""
    cycles = series(values)
    out = list(through(cycles, Judgements(), Incidents()))
    assert [item for item in out if item in cycles] == cycles


def test_load_that_explains_it_is_no_alarm():
    """A batch that grew takes longer: out of a band that names no batch size, but nobody need get up."""
    cycles = [cycle(0.019, n, batch_size=1.0) for n in range(1, 15)]
    cycles += [cycle(0.024, n, batch_size=8.0) for n in range(15, 20)]
    [found] = incidents_of(cycles)
    assert (found.kind, found.severity, found.causes[0].cause) == ("out_of_band", "info", "load")
