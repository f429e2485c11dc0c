"""Settings and environments as flat maps of text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwatch.grammar.maps import LONGEST_VALUE, MOST_ENTRIES, read_arguments, read_assignments


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        pytest.param("ServerArgs(a='x', b=1, c=None)", {"a": "x", "b": "1", "c": "None"}, id="call"),
        pytest.param("{'a': 'x', 'b': True}", {"a": "x", "b": "True"}, id="dict"),
        pytest.param('{"a": "x"}', {"a": "x"}, id="double quotes"),
        pytest.param(
            "S(a=[1, 2], b={'c': (3, 4)}, d=E(f='g, h'))",
            {"a": "[1, 2]", "b": "{'c': (3, 4)}", "d": "E(f='g, h')"},
            id="nested",
        ),
        pytest.param(r"S(a='it\'s, so', b=1)", {"a": "it's, so", "b": "1"}, id="escaped quote"),
        pytest.param("S(a='', b=\"\")", {"a": "", "b": ""}, id="empty"),
        pytest.param("S(a=1) and more, b=2", {"a": "1"}, id="text behind it"),
        pytest.param("S(a=1, tp_size=1", {"a": "1"}, id="cut in a value: left out"),
        pytest.param("S(a=1, b='un", {"a": "1"}, id="cut in quotes"),
        pytest.param("S(a=1, b=[1, 2", {"a": "1"}, id="cut in brackets"),
        pytest.param("S(a=1, bc", {"a": "1"}, id="cut in a key"),
        pytest.param("S(a=1, ", {"a": "1"}, id="cut behind a comma"),
        pytest.param("S()", None, id="nothing in it"),
        pytest.param("None", None, id="neither"),
        pytest.param("S(a='[', b=']')", {"a": "[", "b": "]"}, id="brackets in quotes"),
    ],
)
def test_arguments(text, settings):
    """Both notations give the same flat map; what was cut off is left out."""
    assert read_arguments(text) == settings


keys = st.from_regex(r"[a-z_][a-z0-9_]{0,20}", fullmatch=True)
plain = st.one_of(
    st.integers(), st.booleans(), st.none(), st.text(max_size=20), st.lists(st.text(max_size=5), max_size=3)
)


@given(st.dictionaries(keys, plain, min_size=1, max_size=8))
def test_what_python_prints_is_read(settings):
    """The `repr` of any settings comes back: texts without quotes, the rest as printed."""
    shown = {key: repr(value) for key, value in settings.items()}
    call = "ServerArgs(" + ", ".join(f"{key}={value}" for key, value in shown.items()) + ")"
    found = read_arguments(call)
    assert found == read_arguments(repr(settings))
    assert found is not None
    assert list(found) == list(settings)
    for key, value in settings.items():
        if isinstance(value, str) and "\\" not in shown[key]:
            assert found[key] == value
        elif not isinstance(value, str):
            assert found[key] == shown[key]


@given(st.text(alphabet="ab=,'\"()[]{}\\: ", max_size=60))
def test_any_text_is_read_or_refused(text):
    """No text raises."""
    assert read_arguments("S(" + text) is None or read_arguments("S(" + text)
    assert read_assignments(text) is None or read_assignments(text)


def test_bounds():
    """Entries, and the length of a value, are bounded."""
    many = read_arguments("S(" + ", ".join(f"k{n}={n}" for n in range(3000)) + ")")
    long = read_arguments(f"S(a='{'x' * 100_000}')")
    assert many is not None
    assert long is not None
    assert len(many) == MOST_ENTRIES
    assert len(long["a"]) == LONGEST_VALUE


@pytest.mark.parametrize("pump", ["'", '"', "[", "(", "a=1,", "\\", "a='", "'\"", "a=[],"])
def test_linear_time(pump):
    """No text takes more than a moment."""
    started = time.process_time()
    read_arguments("S(a=" + pump * (100_000 // len(pump)))
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        pytest.param("A=1 B=x,y C=", {"A": "1", "B": "x,y", "C": ""}, id="variables"),
        pytest.param("A=x=y", {"A": "x=y"}, id="sign in a value"),
        pytest.param("A=x%20y%25", {"A": "x y%"}, id="blank in a value"),
        pytest.param("A=%C3%A9%FF", {"A": "é\ufffd"}, id="no ASCII"),
        pytest.param("A=%2520", {"A": "%20"}, id="a percent sign before 20"),
        pytest.param("A=1 word", None, id="not a variable"),
        pytest.param("", None, id="none"),
    ],
)
def test_assignments(text, variables):
    """A list of variables is one wholly, or not at all."""
    assert read_assignments(text) == variables
