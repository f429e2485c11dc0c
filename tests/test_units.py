"""Durations as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwatch.units import format_bytes, format_duration, milliseconds, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("19ms", 0.019),
        ("20.5ms", 0.0205),
        ("2.1us", 2.1e-6),
        ("2.1µs", 2.1e-6),
        ("30s", 30.0),
        ("7d", 604800.0),
        ("1.5h", 5400.0),
        ("250ns", 2.5e-7),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text, seconds):
    """The parsed float is the one that Python would write for the number."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["19", "ms", "-1ms", "1e3ms", "19 parsecs", "", "nan s", "19,5ms"])
def test_anything_else_is_refused(text):
    """The message says what a duration looks like."""
    with pytest.raises(ValueError, match="is not a duration; write a number and a unit"):
        parse_duration(text)


@given(st.floats(min_value=1e-6, max_value=1e7))
def test_what_is_written_is_read_back(seconds):
    """To nine significant digits, which is finer than any clock here."""
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-8)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0205, "20.5ms"),
        (0.017, "17ms"),
        (30, "30s"),
        (604800, "7d"),
        (0, "0s"),
        (2.1e-6, "2.1us"),
        (0.002861, "2.861ms"),
    ],
)
def test_durations_are_written_short(seconds, text):
    """In the largest unit that needs few digits."""
    assert format_duration(seconds) == text


def test_milliseconds_have_the_reports_two_decimals():
    """As the servers write them."""
    assert milliseconds(0.028954) == "28.95 ms"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1200, "1.2 kB"), (10**9, "1.0 GB"), (5 * 10**12, "5.0 TB")],
)
def test_bytes_for_people(count, text):
    """Powers of a thousand."""
    assert format_bytes(count) == text
