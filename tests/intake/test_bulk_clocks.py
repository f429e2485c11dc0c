"""Stretches of a chunk that surely are too short for a record of answered requests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwatch.intake.bulk_clocks import are_short
from logwatch.model import seconds_of
from logwatch.reading.framing import Framing
from logwatch.reading.lines import Lines
from logwatch.reading.requests import LONG_S, MANY

WORK = b"work\n"
ACCESS = b'INFO:     127.0.0.1:43856 - "POST /generate HTTP/1.1" 200 OK\n'


def at(clock, tags=b""):
    return b"[2026-02-11 " + clock + tags + b"] " + ACCESS


def short(*stretches):
    """By stretch between lines of work."""
    data, work = WORK, [0]
    for stretch in stretches:
        work.append(len(data) + len(stretch))
        data += stretch + WORK
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1
    starts = np.concatenate([[0], ends[:-1]])
    places = np.array(work)
    return are_short(data, starts, places[:-1], places[1:]).tolist()


@pytest.mark.parametrize(
    ("stretch", "expected"),
    [
        pytest.param(b"", True, id="empty"),
        pytest.param(at(b"08:57:52") * 99, True, id="a second"),
        pytest.param(at(b"08:57:52") + at(b"08:58:51"), True, id="59 seconds"),
        pytest.param(at(b"08:57:52") + at(b"08:58:52"), False, id="a minute"),
        pytest.param(at(b"08:58:52") + at(b"08:57:52"), False, id="a clock that goes back"),
        pytest.param(
            at(b"08:57:52.001") + at(b"08:58:51.999", b" DP1 TP0"), True, id="fractions, and a rank"
        ),
        pytest.param(
            at(b"08:57:52") + b"  Accept len:    0.94\n" + at(b"08:57:53"), True, id="a line without time"
        ),
        pytest.param(b"  Accept len:    0.94\n" * 3, True, id="no times at all"),
        pytest.param(at(b"08:57:52") * MANY, False, id="many"),
        pytest.param(at(b"08:57:52") + ACCESS, False, id="another beginning"),
        pytest.param(at(b"08:57:52", b" +02:00"), False, id="a zone"),
        pytest.param(at(b"08:57:52.001") + at(b"08:57:52.001Z"), False, id="a zone behind a fraction"),
        pytest.param(at(b"08:57:52") + b"[2026-02-11 08:57:52] x" + at(b"09:57:52"), False, id="a torn line"),
        pytest.param(b"  x [2025-02-11 08:57:52] y\n", False, id="a date in a line without prefix"),
        pytest.param(b"  2025-02-11 08:57:52 y\n", False, id="a date behind blanks"),
        pytest.param(b"  x 2025-02-11 08:57:52 TP0] y\n", False, id="a date that lost its bracket"),
        pytest.param(b"\n" + at(b"08:57:52"), False, id="an empty line"),
    ],
)
def test_a_stretch_is_short_if_all_its_clocks_say_so(stretch, expected):
    """Its neighbours make no difference."""
    long = at(b"08:57:52") + at(b"09:58:52")
    assert short(stretch) == [expected]
    assert short(long, stretch, b"", stretch, long) == [False, expected, True, expected, False]


PIECES = [
    b"[2026-02-11 08:57:52] ",
    b"[2026-02-11 08:57:52.123 DP1 TP0] ",
    b"[2026-02-11 08:58:51] ",
    b"[2026-02-11 08:58:52] ",
    b"[2026-02-11 09:58:52.5] ",
    b"[2026-02-11 08:57:52Z] ",
    b"2026-05-21 03:51:35 TP0] ",
    b"2026-02-11T08:15:02Z stdout F ",
    b"\n",
    b"  Accept len:    0.94\n",
    b"  ",
    ACCESS,
    ACCESS,
    b"\x1b[0m",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=3)), max_size=12).map(b"".join))
def test_no_time_in_a_short_stretch_is_a_minute_from_another(stretch):
    """Whatever the framing finds in its lines."""
    if stretch and not stretch.endswith(b"\n"):
        stretch += b"\n"
    if b"\0" not in stretch and short(stretch) == [True]:
        frames = [frame for line in Lines("p", offset=1).feed(stretch) for frame in Framing().feed(line)]
        times = [time for frame in frames if (time := seconds_of(frame.time)) is not None]
        assert max(times, default=0) - min(times, default=0) < LONG_S
