"""Bytes become lines by one rule, wherever the chunks were cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logwatch.model import Level, Notice
from logwatch.reading.lines import Lines

BYTES = st.lists(
    st.sampled_from(
        [b"a", b"\n", b"\r", b"\r\n", b"\0", b"\xff", "█".encode(), b"\xf0\x9f\x98", b"xyz " * 9]
    ),
    max_size=40,
).map(b"".join)


def read(lines: Lines, *chunks: bytes) -> list[tuple[int, int, str, bool]]:
    found = [line for chunk in chunks for line in lines.feed(chunk)]
    found.extend(lines.finish())
    return [(line.place.line, line.place.offset, line.text, line.complete) for line in found]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param([b"a\nb\n"], [(1, 0, "a"), (2, 2, "b")], id="two lines in one chunk"),
        pytest.param([b"a\r", b"\nb\n"], [(1, 0, "a"), (2, 3, "b")], id="CRLF cut in the middle"),
        pytest.param([b"19.1", b"4 ms\n"], [(1, 0, "19.14 ms")], id="a number cut in the middle"),
        pytest.param(
            [b"\n\na\n\n"], [(1, 0, ""), (2, 1, ""), (3, 2, "a"), (4, 4, "")], id="empty lines count"
        ),
        pytest.param([b"\xef\xbb\xbfa\nb\n"], [(1, 3, "a"), (2, 5, "b")], id="byte order mark"),
        pytest.param([b"\xef", b"\xbb", b"\xbfa\n"], [(1, 3, "a")], id="byte order mark cut in the middle"),
        pytest.param(
            [b"a\n\xef\xbb\xbfb\n"], [(1, 0, "a"), (2, 2, "\ufeffb")], id="mark only at the beginning"
        ),
        pytest.param([b"\0" * 9, b"\0a\0b\n"], [(1, 10, "ab")], id="hole of NULs"),
        pytest.param([b"a\n\0\0\0b\nc\n"], [(1, 0, "a"), (2, 5, "b"), (3, 7, "c")], id="hole between lines"),
        pytest.param([b"a\r b\rc\n"], [(1, 0, "a"), (1, 2, " b"), (1, 5, "c")], id="progress states"),
        pytest.param([b"\r\r\n"], [(1, 0, "")], id="nothing but carriage returns"),
        pytest.param([b"x\xc3\ny\xff\xc0\x80\n"], [(1, 0, "x�"), (2, 3, "y���")], id="invalid UTF-8"),
        pytest.param(["é\nü\n".encode()], [(1, 0, "é"), (2, 3, "ü")], id="offsets are bytes"),
    ],
)
def test_bytes_become_lines(chunks, expected):
    """Line number, byte offset and text of every line."""
    assert read(Lines("x"), *chunks) == [(*row, True) for row in expected]


@given(BYTES, st.data())
@settings(deadline=None)
def test_lines_do_not_depend_on_chunks(data, draw):
    """A line is the same wherever the chunk that brought it was cut, also when it is too long."""
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=12)))
    chunks = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    whole_notices: list[Notice] = []
    cut_notices: list[Notice] = []
    whole = read(Lines("x", max_bytes=32, notify=whole_notices.append), data)
    cut = read(Lines("x", max_bytes=32, notify=cut_notices.append), *chunks)
    assert cut == whole
    assert cut_notices == whole_notices


@given(BYTES)
@settings(deadline=None)
def test_lines_equal_the_rule_said_plainly(data):
    """The fast reader gives what the rule in the docstring gives, said in three lines."""
    rows = data.split(b"\n")
    complete = [True] * (len(rows) - 1) + [False]
    if not rows[-1].replace(b"\0", b""):
        rows.pop()
    expected = []
    for number, (row, whole) in enumerate(zip(rows, complete, strict=False), 1):
        parts = [part for part in row.replace(b"\0", b"").split(b"\r") if part] or [b""]
        expected += [(number, part.decode("utf-8", "replace"), whole) for part in parts]
    found = read(Lines("x"), data)
    assert [(line, text, whole) for line, _, text, whole in found] == expected


@given(BYTES, st.integers(0, 300))
@settings(deadline=None)
def test_reading_again_from_the_unfinished_line_gives_the_same(data, cut):
    """Who stops and reads on from `memory.offset` sees every line once."""
    first = Lines("x")
    seen = [(line.place, line.text) for line in first.feed(data[:cut])]
    memory = first.memory
    assert min(cut, len(data)) - memory.offset == first.pending_bytes
    second = Lines("x", memory.line, memory.offset)
    seen += [(line.place, line.text) for line in second.feed(data[memory.offset :])]
    whole = Lines("x")
    assert seen == [(line.place, line.text) for line in whole.feed(data)]


def test_a_line_without_end_is_given_by_finish_as_incomplete():
    """A last line without newline is given once, flagged."""
    assert read(Lines("x"), b"a\nb") == [(1, 0, "a", True), (2, 2, "b", False)]


def test_a_report_line_behind_thousands_of_progress_states_is_given():
    """What the last carriage return leaves is a line of its own."""
    bar = "\rLoading… 37%|███".encode()
    found = read(Lines("x"), bar * 5000 + b"\r  Target verify: 19.14 ms/cyc\nnext\n")
    assert found[-2][2] == "  Target verify: 19.14 ms/cyc"
    assert found[-1] == (2, found[-1][1], "next", True)


def test_a_giant_line_is_cut_to_its_ends_in_bounded_memory():
    """Three hundred megabytes without newline cost two windows, are counted, and the next line is read."""
    notices: list[Notice] = []
    lines = Lines("x", notify=notices.append)
    chunk = b"z" * (1 << 20)
    list(lines.feed(b"Accept len: 0.92 "))
    for _ in range(300):
        list(lines.feed(chunk))
        assert len(lines._head) + len(lines._tail) <= 4 << 20
    found = list(lines.feed(b" Decode batch\nnext\n"))
    assert [line.text[:10] for line in found] == ["Accept len", "zzzzzzzzzz", "next"]
    assert found[1].text.endswith(" Decode batch")
    assert [line.complete for line in found] == [False, False, True]
    assert [line.place.line for line in found] == [1, 1, 2]
    assert [(notice.kind, notice.level) for notice in notices] == [("line_too_long", Level.ERROR)]
    assert notices[0].bytes == 300 * (1 << 20) + 17 + 13 - (1 << 20)


def test_a_character_is_not_cut_where_a_giant_line_is():
    """The cut falls between characters."""
    found = read(Lines("x", max_bytes=10), ("é" * 20 + "\n").encode())
    assert [row[2] for row in found] == ["éé", "éé"]


def test_utf_16_is_named_as_unsupported():
    """A file in another encoding is never passed over in silence; its ASCII is read."""
    notices: list[Notice] = []
    found = read(Lines("x", notify=notices.append), b"\xff\xfe" + "a b\nc\n".encode("utf-16-le"))
    assert [row[2] for row in found] == ["a b", "c"]
    assert [notice.kind for notice in notices] == ["unsupported_encoding"]


def test_a_hole_of_gigabytes_is_passed_over_for_good():
    """NULs before a line are not pending: a restart does not read them again."""
    lines = Lines("x")
    for _ in range(64):
        list(lines.feed(bytes(1 << 20)))
    assert (lines.pending_bytes, lines.memory.offset) == (0, 64 << 20)


def test_another_file_starts_at_its_own_first_line():
    """After a rotation the numbers begin anew, and nothing of the old file is left."""
    lines = Lines("a")
    list(lines.feed(b"1\nhalf"))
    lines.start("b")
    assert [(line.place.path, line.place.line, line.text) for line in lines.feed(b"2\n")] == [("b", 1, "2")]
