import json
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from logwatch.judging.baseline import (
    Learning,
    baseline_of,
    grid_step,
    inliers,
    learn,
    robust_level,
    robust_line,
)
from logwatch.judging.charts import Chart, ChartMemory
from logwatch.model import Change, Moment

LEVEL = 0.019145


def noise(samples, deviation=5e-5, seed=1):
    rng = random.Random(seed)
    return [LEVEL + rng.gauss(0, deviation) for _ in range(samples)]


def findings(values, chart=None, contexts=None):
    chart = chart or Chart(1e6, least_effect=0.0025)
    contexts = contexts or [None] * len(values)
    told = [
        (n, chart.update(v, n, context=c)) for n, (v, c) in enumerate(zip(values, contexts, strict=True), 1)
    ]
    return [(n, finding) for n, finding in told if finding is not None], chart


def test_quiet_noise_says_nothing_and_freezes_its_baseline():
    """Samples that stay what they are give no finding, and the baseline is frozen near the truth."""
    told, chart = findings(noise(3000))
    assert told == []
    assert chart.memory.frozen
    assert chart.memory.base.level == pytest.approx(LEVEL, rel=3e-4)
    assert chart.memory.base.scale == pytest.approx(5e-5, rel=0.05)


@pytest.mark.parametrize(
    ("change", "kind", "direction"),
    [
        pytest.param(lambda v, n, rng: v * 1.01, "level_shift", "high", id="one percent slower"),
        pytest.param(lambda v, n, rng: v * 0.99, "level_shift", "low", id="one percent faster"),
        pytest.param(lambda v, n, rng: v * (1 + 0.02 * n / 800), "level_shift", "high", id="a slow drift"),
        pytest.param(lambda v, n, rng: LEVEL + 2 * (v - LEVEL), "spread", "high", id="twice the spread"),
        pytest.param(
            lambda v, n, rng: v * (1.5 if rng.random() < 0.1 else 1), "second_mode", "high", id="two modes"
        ),
    ],
)
def test_each_kind_of_change_is_told_once(change, kind, direction):
    """A change is told once, by its kind, with an onset near the truth."""
    rng = random.Random(3)
    quiet, after = noise(2000), noise(800, seed=2)
    told, _ = findings(quiet + [change(v, n, rng) for n, v in enumerate(after)])
    opened = [(n, f) for n, f in told if f.change is Change.OPENED]
    assert [(f.kind, f.direction) for _, f in opened] == [(kind, direction)]
    number, finding = opened[0]
    assert 2000 < number <= 2800
    assert 1950 <= finding.onset.line <= number


def test_the_field_s_change_is_told_at_exactly_the_shortest_run():
    """19.145 to 28.95 ms, rounded as in the log, is told at the 20th changed sample, onset exact."""
    rng = random.Random(5)
    quiet = [round(v, 5) for v in noise(1500, 5e-6)]
    slow = [round(0.02895 + rng.gauss(0, 5e-6), 5) for _ in range(300)]
    told, _ = findings(quiet + slow)
    number, finding = told[0]
    assert (number, finding.onset, finding.samples) == (1520, Moment(1501), 20)
    assert finding.after / finding.before == pytest.approx(1.512, abs=0.002)
    sized = told[1][1]
    assert sized.change is Change.EXPLAINED
    assert "95 % interval" in sized.detail


@pytest.mark.parametrize("length", [1, 3, 10])
def test_what_went_away_is_not_told(length):
    """Transients shorter than the shortest run say nothing."""
    values = noise(2000)
    values[1500 : 1500 + length] = [v * 1.5 for v in values[1500 : 1500 + length]]
    assert findings(values)[0] == []


def test_samples_after_a_change_never_enter_the_baseline():
    """Long after a change the baseline is what it was, and the way back is told as recovery."""
    shifted = [v * 1.05 for v in noise(3000, seed=2)]
    told, chart = findings(noise(2500) + shifted + noise(400, seed=3))
    assert chart.memory.base.level == pytest.approx(LEVEL, rel=3e-4)
    assert [f.change for _, f in told] == [Change.OPENED, Change.EXPLAINED, Change.RESOLVED]
    over = told[-1][1].resolved.line
    assert 5500 < over <= 5503


def test_a_log_that_begins_with_a_change_is_learnt_after_it():
    """A learning window that holds a change is thrown away, not averaged."""
    values = noise(300) + [v * 1.5 for v in noise(3000, seed=2)]
    told, chart = findings(values)
    assert told == []
    assert chart.memory.base.level == pytest.approx(1.5 * LEVEL, rel=1e-3)


def test_the_context_is_taken_out():
    """What grows with the context as it did while learning is no change; the same on top of it is."""
    rng = random.Random(8)
    contexts = [100 + (n * 190) % 1900 for n in range(3000)]
    values = [0.0052 + 2.1e-6 * c + rng.gauss(0, 2e-5) for c in contexts]
    assert findings(values, contexts=contexts)[0] == []
    slower = values[:2500] + [v + 1.5e-4 for v in values[2500:]]
    told = findings(slower, contexts=contexts)[0]
    assert told[0][1].kind == "level_shift"
    assert told[0][1].onset.line >= 2495


@given(cut=st.integers(1, 2999), seed=st.integers(0, 3))
@settings(max_examples=12, deadline=None)
def test_a_restored_chart_continues_exactly(cut, seed):
    """Memory written as JSON and read back tells the same as no restart, at whatever sample it was cut."""
    values = noise(2200, seed=seed) + [v * 1.02 for v in noise(800, seed=seed + 9)]
    whole, _ = findings(values)
    adapter = TypeAdapter(ChartMemory)
    first = Chart(1e6)
    head = [(n, f) for n, v in enumerate(values[:cut], 1) if (f := first.update(v, n))]
    memory = adapter.validate_json(json.dumps(json.loads(adapter.dump_json(first.memory))))
    second = Chart(1e6, memory=memory)
    tail = [(n, f) for n, v in enumerate(values[cut:], cut + 1) if (f := second.update(v, n))]
    assert head + tail == whole


def test_memory_does_not_grow():
    """A chart that has seen ten thousand samples remembers no more than one that has seen three thousand."""
    adapter = TypeAdapter(ChartMemory)
    sizes = [len(adapter.dump_json(findings(noise(samples))[1].memory)) for samples in (3000, 10_000)]
    assert sizes[1] < sizes[0] * 1.1
    assert max(sizes) < 12_000


def test_rounding_does_not_break_the_scale():
    """On a grid the MAD is 0 or one step: the scale is neither."""
    values = [round(v, 5) for v in noise(600, 3e-6)]
    memory = Learning()
    for value in values:
        learn(memory, value, None)
    assert 2.8e-6 < baseline_of(memory).scale < 6e-6
    assert grid_step(values) == pytest.approx(1e-5)


def test_robust_figures_do_not_follow_outliers():
    """A tenth of far outliers moves neither level nor line by much."""
    rng = random.Random(4)
    contexts = [float(n * 10) for n in range(60)]
    values = [5e-3 + 2e-6 * c + rng.gauss(0, 2e-5) for c in contexts]
    for n in range(0, 60, 10):
        values[n] += 1e-3
    slope, error = robust_line(values, contexts)
    assert slope == pytest.approx(2e-6, abs=4 * error)
    assert len(inliers([v - 2e-6 * c for v, c in zip(values, contexts, strict=True)])) == 54
    assert robust_level([1.0, 1.01, 0.99] * 40 + [50.0])[0] == pytest.approx(1.0, abs=0.01)


SERIES = st.lists(
    st.sampled_from([0.0, 1e-9, 0.019, 0.01901, 0.02, 0.5, 60.0, 1e6]) | st.floats(0, 1e3, allow_nan=False),
    min_size=1,
    max_size=8,
)


@given(pattern=SERIES, context=st.none() | st.lists(st.floats(0, 1e6), min_size=8, max_size=8))
@settings(max_examples=25, deadline=None)
@example(pattern=[0.0], context=None)
@example(pattern=[0.019], context=[5.0] * 8)
@example(pattern=[0.0, 1e6], context=None)
def test_no_series_breaks_a_chart(pattern, context):
    """Constant, empty, absurd or periodic: a chart says something or nothing, and can be written down."""
    values = [pattern[n % len(pattern)] for n in range(1200)]
    contexts = None if context is None else [context[n % 8] for n in range(1200)]
    _, chart = findings(values, contexts=contexts)
    adapter = TypeAdapter(ChartMemory)
    assert adapter.validate_json(adapter.dump_json(chart.memory)) == chart.memory


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(0.0, 0.5, id="from nothing to something"),
        pytest.param(0.5, 0.0, id="from something to nothing"),
        pytest.param(1e-9, 1e6, id="by fifteen orders of magnitude"),
    ],
)
def test_absurd_steps_are_told_like_others(before, after):
    """A step from or to nothing is told, sized and ended without a division by nothing."""
    told, _ = findings([before] * 1200 + [after] * 400 + [before] * 100)
    assert [f.change for _, f in told] == [Change.OPENED, Change.EXPLAINED, Change.RESOLVED]
