"""Distributions and courses: exact where it can be, bounded always."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from logwatch.outlets.report.distribution import DISTINCT, Course, Distribution

REPORTED = st.integers(0, 3000).map(lambda hundredths: hundredths / 100)


@given(st.lists(REPORTED, min_size=1, max_size=60), st.lists(st.floats(0, 1), min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_quantiles_are_those_of_numpy(values, shares):
    """What servers print is counted exactly, so quantiles are exact."""
    counted = Distribution()
    for value in values:
        counted.add(value)
    expected = np.quantile(np.array(values), shares)
    assert np.allclose(counted.quantiles(*shares), expected, rtol=1e-12, atol=1e-12)
    assert math.isclose(counted.mean, math.fsum(values) / len(values), rel_tol=1e-9, abs_tol=1e-12)


@given(st.lists(REPORTED, max_size=20), st.lists(REPORTED, max_size=20))
@settings(max_examples=50, deadline=None)
def test_merging_is_adding_all(one, other):
    """Two distributions put together are the distribution of all values."""
    together, left, right = Distribution(), Distribution(), Distribution()
    for value in one:
        left.add(value)
        together.add(value)
    for value in other:
        right.add(value)
        together.add(value)
    left.merge(right)
    assert (left.count, left.quantiles(0.05, 0.5, 0.95)) == (
        together.count, together.quantiles(0.05, 0.5, 0.95),
    )  # fmt: skip


def test_many_different_values_stay_small_and_near():
    """Beyond its limit a distribution rounds to four digits: quantiles move by less than 0.05 %."""
    values = 0.010 + 0.010 * np.random.default_rng(7).random(200_000)
    counted = Distribution()
    for value in values.tolist():
        counted.add(value)
    assert counted.count == 200_000
    assert len(counted._counts) <= DISTINCT
    assert np.allclose(counted.quantiles(0.05, 0.5, 0.95), np.quantile(values, [0.05, 0.5, 0.95]), rtol=5e-4)


def test_nothing_has_zeros():
    """An empty distribution answers zeros, not an error."""
    assert Distribution().quantiles(0.05, 0.95) == [0.0, 0.0]
    assert Distribution().mean == 0.0


@given(st.lists(st.tuples(REPORTED, st.booleans()), min_size=1, max_size=300), st.sampled_from([4, 8, 64]))
@settings(max_examples=100, deadline=None)
def test_a_course_keeps_every_sample_in_few_bins(samples, width):
    """Bins never exceed the width, follow each other, and add up to what was given."""
    course = Course(width)
    for line, (value, outside) in enumerate(samples, 1):
        course.add(line, None, value, outside=outside)
    bins = course.bins
    assert len(bins) <= width
    assert sum(each.count for each in bins) == len(samples)
    assert sum(each.outside for each in bins) == sum(outside for _, outside in samples)
    assert [each.last_line + 1 for each in bins[:-1]] == [each.line for each in bins[1:]]
    assert min(each.low for each in bins) == min(value for value, _ in samples)
    assert max(each.high for each in bins) == max(value for value, _ in samples)
