"""Reading ahead and cutting: order, errors, and memory."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logwatch.commands.replay_reading import MIDLINE, Cutter, _ahead


def test_everything_comes_in_order():
    """A thread makes it, and nothing is lost or overtaken."""
    assert list(_ahead(iter(range(1000)))) == list(range(1000))


def test_an_error_is_raised_where_the_items_are_wanted():
    """After everything that came before it."""

    def source():
        yield 1
        raise OSError("gone")

    seen = []
    with pytest.raises(OSError, match="gone"):
        seen.extend(_ahead(source()))
    assert seen == [1]


def test_only_one_is_made_ahead():
    """Memory stays bounded by three: one in use, one waiting, one in the making."""
    made = []

    def source():
        for number in range(100):
            made.append(number)
            yield number

    for number in _ahead(source()):
        assert len(made) <= number + 3


def test_who_leaves_early_leaves_no_thread():
    """An interrupted replay ends at once."""
    ahead = _ahead(iter(range(1_000_000)))
    assert next(ahead) == 0
    ahead.close()
    assert [thread for thread in threading.enumerate() if thread.name == "logwatch-read-ahead"] == []


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"bc\n", b"\r\n", b"\xff", b"long " * 9]), max_size=30).map(
        b"".join
    ),
    st.lists(st.integers(1, 9), max_size=20),
)
@settings(max_examples=150, deadline=None)
def test_units_are_whole_lines_and_lose_no_byte(data, sizes):
    """Only the first and the last unit may end within a line."""
    cutter, begin, units = Cutter("p"), 0, []
    for size in sizes:
        units += cutter.cut(data[begin : begin + size], None)
        begin += size
    units += [*cutter.cut(data[begin:], None), *cutter.finish()]
    assert b"".join(unit.data for unit in units) == data
    assert all(unit.data.endswith(b"\n") for unit in units[:-1])


def test_a_line_without_end_is_not_held():
    """What is longer than the limit goes on at once."""
    cutter = Cutter("p")
    first = list(cutter.cut(b"a\nb" + b"x" * MIDLINE, None))
    assert [len(unit.data) for unit in first] == [2]
    assert [len(unit.data) for unit in cutter.cut(b"y", None)] == [MIDLINE + 2]
    assert [unit.data for unit in cutter.cut(b"z\nc\n", None)] == [b"z\n", b"c\n"]
