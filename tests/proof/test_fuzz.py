"""Hostile input does no harm: every input that once did, and a few hundred new ones in each run."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from fuzz_targets import LOG, PIECES, TARGETS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logwatch.outlets.state_file import SCHEMA, VERSION

FIXTURES = Path(__file__).parents[2] / "fixtures"
CASES = sorted(path for path in (FIXTURES / "fuzz").glob("*/*") if path.is_file())
a_few = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
    ],
)
cuts = st.binary(max_size=15).map(lambda sizes: bytes([len(sizes)]) + sizes)
logs = st.tuples(
    cuts,
    st.lists(st.one_of(st.sampled_from([*PIECES, LOG]), st.binary(max_size=6)), max_size=30).map(b"".join),
).map(b"".join)


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_stays_repaired(case):
    """An input that broke a target once does not do so again."""
    TARGETS[case.parent.name](case.read_bytes())


@pytest.mark.parametrize("target", ["chunks", "replay", "restart", "scrape"])
@a_few
@given(data=logs)
def test_logs(target, data):
    """Any log, cut, restarted and read in bulk anywhere: the same findings; metrics and page are sound."""
    TARGETS[target](data)


@pytest.mark.parametrize("target", sorted(TARGETS))
@a_few
@given(data=st.binary(max_size=200))
def test_noise(target, data):
    """Any bytes at all in any place where others' bytes arrive."""
    TARGETS[target](data)


NOTATION = [
    "abc",
    "{?",
    "?}",
    "{|",
    "|",
    "|}",
    "{cycles:int}",
    "{:word}",
    "{tokens:real}",
    "{pairs}",
    "{",
    "}",
    "*",
    " ",
    "\\",
    "'",
    "é",
    "{'{'}",
]


@a_few
@given(st.lists(st.sampled_from(NOTATION), max_size=12).map("".join), st.text(max_size=40))
def test_patterns(pattern, line):
    """Any string of the notation's signs is refused with its place, or reads any line."""
    TARGETS["pattern"](f"{pattern}\n{line}".encode("utf-8", "surrogatepass"))


words = st.sampled_from(
    [
        "source",
        "band",
        "path",
        "low",
        "high",
        "phase",
        "when",
        "http",
        "listen",
        "alert",
        "webhook",
        "detect",
        "keep",
    ]
)
tables = st.recursive(
    st.one_of(
        st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just("19ms"), st.just("a:1")
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=4)),
    max_leaves=12,
)


def toml(value) -> str:
    """A value in TOML, in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return (
            '"'
            + "".join(c if c.isalnum() or c in " :" else f"\\U{ord(c):08x}" for c in value if ord(c) < 0xD800)
            + '"'
        )
    return repr(value).lower()


@a_few
@given(st.dictionaries(words, tables, max_size=4))
def test_configurations(table):
    """Known keys with values of any type: refused with all problems, or usable."""
    TARGETS["configuration"]("\n".join(f"{key} = {toml(value)}" for key, value in table.items()).encode())


@a_few
@given(data=st.data())
def test_state_files_with_a_damaged_page(data, tmp_path):
    """A state file of which any stretch was overwritten."""
    whole = bytearray(a_state_file(tmp_path))
    at = data.draw(st.integers(0, len(whole) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=64))
    whole[at : at + len(noise)] = noise
    TARGETS["state_file"](bytes(whole[: data.draw(st.sampled_from([len(whole), 100, 4096, at + 1]))]))


def a_state_file(folder: Path) -> bytes:
    path = folder / "sound.sqlite"
    if not path.exists():
        connection = sqlite3.connect(path)
        connection.executescript(f"PRAGMA auto_vacuum=INCREMENTAL; {SCHEMA} PRAGMA user_version={VERSION};")
        connection.execute("INSERT INTO positions VALUES('s', '{}')")
        connection.commit()
        connection.close()
    return path.read_bytes()


headers = st.sampled_from(
    ["Host: a", "Accept: application/openmetrics-text; version=1.0.0", "Accept: */*;q=x", "Accept-Encoding: gzip;q=0",
     "Content-Length: -1", "Content-Length: 5", "Transfer-Encoding: chunked", "Connection: close", "Expect: 100-continue",
     "Upgrade: websocket", "Authorization: Basic %", "Origin: null", "Cookie: " + "a" * 300, "Range: bytes=0-", ": x", "X"]
)  # fmt: skip
paths = st.sampled_from(
    ["/", "/metrics", "/metrics?name[]=", "/api/v1/samples?since=1e99", "/api/v1/incidents?state=x&state=y", "/static/../page.css",
     "/static/%2e%2e%2fpage.py", "/runbooks/../../etc/passwd", "/-/reload", "/%00", "//", "*", "http://a/metrics", "/api/v1/samples?limit=-1"]
)  # fmt: skip


@a_few
@given(
    st.sampled_from(["GET", "POST", "HEAD", "OPTIONS", "TRACE", "get", ""]),
    paths,
    st.lists(headers, max_size=5),
)
def test_requests(method, path, lines):
    """Well-formed and nearly well-formed requests: never an error of ours, and the next client is served."""
    TARGETS["http"]("\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode())
