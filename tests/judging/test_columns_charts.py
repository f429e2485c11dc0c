"""A chart that takes many samples at once remembers, and says, what it would have one by one."""

from __future__ import annotations

import random
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from logwatch.judging.charts import Chart
from logwatch.judging.columns_charts import Samples, take_quiet

LINES = 4000
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Thousands of samples one by one take minutes to shrink, and a seed says as much."""


def series(seed, kind):
    """Values and contexts of a server whose phase does as `kind` says."""
    draw = random.Random(seed)
    values, contexts, before = [], [], 0.0
    for at in range(LINES):
        before = 0.6 * before + draw.gauss(0, 1) if "correlated" in kind else draw.gauss(0, 1)
        context = float(draw.randrange(100, 9000))
        value = 0.019 + 1e-4 * before
        if "context" in kind:
            value += 2e-7 * context
        if "grid" in kind:
            value = round(value, 4)
        value *= happened(draw, kind, at)
        if "spread" in kind and at > 3000:
            value += 2e-4 * draw.gauss(0, 1)
        if "constant" in kind:
            value = 0.019
        values.append(value)
        contexts.append(None if "unknown" in kind and draw.random() < 0.1 else context)
    return values, contexts


def happened(draw, kind, at):
    """By what a sample is multiplied."""
    factor = 1.0
    if "spikes" in kind and draw.random() < (0.06 if "many" in kind else 0.01):
        factor *= draw.choice([1.05, 1.5, 0.5])
    if "modes" in kind and at > 2000 and draw.random() < 0.1:
        factor *= 1.5
    if "shift" in kind and 2500 < at < 3200:
        factor *= 1.004 if "small" in kind else 1.05
    if "bursts" in kind and at % 40 < 3:
        factor *= 1.03
    if "held" in kind and at > 700:
        factor *= 1.003
    return factor


def one_by_one(chart, samples, begin, end):
    """What the chart says of these, with the sample's index."""
    values, contexts = samples
    found = []
    for at in range(begin, end):
        finding = chart.update(values[at], at + 1, str(at) if at % 3 else None, contexts[at])
        if finding is not None:
            found.append((at, finding))
    return found


def in_columns(chart, samples, span, single):
    """The same, `span` at once where that is sure, else `single` one by one."""
    values = np.array(samples[0])
    contexts = np.array([np.nan if context is None else context for context in samples[1]])
    whole = Samples(
        values, contexts, np.arange(1, LINES + 1), [str(at) if at % 3 else None for at in range(LINES)]
    )
    at, found, many = 0, [], 0
    while at < LINES:
        taken = take_quiet(chart, whole.part(at, min(at + span, LINES)))
        many += taken
        at += taken
        end = min(at + single, LINES)
        found += one_by_one(chart, samples, at, end)
        at = end
    return found, many


KINDS = [
    "plain",
    "correlated",
    "grid",
    "context",
    "context unknown",
    "context unknown correlated spikes",
    "spikes",
    "modes",
    "shift",
    "small shift correlated",
    "spread",
    "spikes shift grid",
    "constant",
    "held",
    "held context correlated",
    "held many spikes",
    "bursts",
    "bursts correlated unknown context",
]


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 10_000), st.integers(1, 1500), st.integers(1, 40))
@example(318, 751, 7)  # where "held" has a large shift that is told beside larger ones that are not yet
@settings(max_examples=5, deadline=None, phases=PHASES, suppress_health_check=[HealthCheck.too_slow])
def test_many_at_once_as_one_by_one(kind, seed, span, single):
    """Whatever a series does, findings and memory are equal to the last digit, however it is cut."""
    samples = series(seed, kind)
    expected, chart = Chart(1e8, 0.005), Chart(1e8, 0.005)
    told = one_by_one(expected, samples, 0, LINES)
    found, _ = in_columns(chart, samples, span, single)
    assert found == told
    assert asdict(chart.memory) == asdict(expected.memory)


@pytest.mark.parametrize("kind", ["plain", "correlated", "grid", "context", "held", "bursts", "many spikes"])
def test_a_quiet_series_is_taken_in_columns(kind):
    """Nearly all samples behind those that the first baseline is learnt from."""
    _, many = in_columns(Chart(1e8, 0.005), series(3, kind), 1000, 1)
    assert many > 0.9 * (LINES - 512)
