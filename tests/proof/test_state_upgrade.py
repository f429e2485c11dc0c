"""The state file outlives the program: files of every released schema open and keep all that they hold."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from pathlib import Path

import pytest

from logwatch.outlets import state_file
from logwatch.outlets.state import State
from logwatch.outlets.state_file import FILE, SCHEMA, UPGRADES, VERSION

RELEASED = Path(__file__).parents[2] / "fixtures" / "state"


def made(folder: Path, number: int) -> Path:
    """A state file as schema `number` wrote it."""
    folder.mkdir()
    connection = sqlite3.connect(folder / FILE)
    connection.executescript((RELEASED / f"schema-{number}.sql").read_text())
    connection.close()
    return folder


def contents(folder: Path) -> dict[str, list[tuple]]:
    """All rows by table, without columns that later schemas added."""
    connection = sqlite3.connect(folder / FILE)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
    connection.close()
    return rows


def shape(folder: Path) -> set[str]:
    """Tables and indexes, however they were made."""
    connection = sqlite3.connect(folder / FILE)
    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {" ".join(sql.split()) for (sql,) in found}


@pytest.mark.parametrize("number", range(1, VERSION + 1))
def test_every_released_schema_opens(tmp_path, number):
    """Positions, memories, unsent alerts, samples and incidents are all there, and the schema is today's."""
    folder = made(tmp_path / "state", number)
    before = {name: len(rows) for name, rows in contents(folder).items()}
    assert all(before.values()), "the fixture has a row in every table"
    said = []
    state = State(folder, said.append)
    assert said == []
    assert state.load().positions == {"server.log": '{"pipe": "server.log"}'}
    assert state.load().memories == {"metrics": "{}"}
    assert len(state.letters("webhook:host")) == 1
    assert state.commit({}, {})
    state.close()
    assert {name: len(rows) for name, rows in contents(folder).items()} == before
    fresh = tmp_path / "fresh"
    State(fresh, said.append).close()
    assert shape(folder) == shape(fresh)
    assert said == []


def test_a_schema_that_changes_gets_a_number():
    """Whoever changes the schema raises its number, gives the step to it, and adds a file of the one before."""
    recorded = dict(re.findall(r"^(\d+) (\w+)$", (RELEASED / "README.md").read_text(), re.MULTILINE))
    digest = hashlib.sha256(" ".join(SCHEMA.split()).encode()).hexdigest()[:16]
    assert recorded.get(str(VERSION)) == digest, (
        f"fixtures/state/README.md says how to go on; `{VERSION} {digest}`"
    )
    assert len(UPGRADES) == VERSION - 1
    assert [path.name for path in sorted(RELEASED.glob("schema-*.sql"))] == [
        f"schema-{n}.sql" for n in range(1, VERSION + 1)
    ]


def test_a_step_is_taken_once_and_whole(tmp_path, monkeypatch):
    """The next schema's step runs when an older file is opened, is not run again, and loses nothing."""
    folder = made(tmp_path / "state", VERSION)
    before = contents(folder)
    monkeypatch.setattr(state_file, "VERSION", VERSION + 1)
    monkeypatch.setattr(state_file, "UPGRADES", (*UPGRADES, "ALTER TABLE positions ADD COLUMN more TEXT;"))
    said = []
    for _ in range(2):
        State(folder, said.append).close()
    assert said == []
    after = contents(folder)
    assert [row[:2] for row in after["positions"]] == before.pop("positions")
    assert {name: after[name] for name in before} == before


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    """A file that cannot be brought up to date is set aside unchanged; positions and alerts go on."""
    folder = made(tmp_path / "state", VERSION)
    monkeypatch.setattr(state_file, "VERSION", VERSION + 1)
    monkeypatch.setattr(
        state_file, "UPGRADES", (*UPGRADES, "ALTER TABLE samples ADD COLUMN x; DROP TABLE nowhere;")
    )
    said = []
    state = State(folder, said.append)
    assert [notice.kind for notice in said] == ["state_set_aside"]
    assert state.load().positions == {"server.log": '{"pipe": "server.log"}'}
    state.close()
    (aside,) = (path for path in folder.iterdir() if path.name == f"{FILE}.aside-1")
    connection = sqlite3.connect(aside)
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert "x" not in [row[1] for row in connection.execute("PRAGMA table_info(samples)")]
    connection.close()


@pytest.mark.parametrize(
    ("harm", "kept"),
    [
        pytest.param("DROP TABLE memories", 0, id="a table is missing"),
        pytest.param("UPDATE positions SET position = CAST(x'ff' AS TEXT)", 0, id="text that is no UTF-8"),
        pytest.param("PRAGMA user_version = 99", 0, id="a newer logwatch's"),
        pytest.param("PRAGMA user_version = 0", 1, id="no number"),
    ],
)
def test_what_cannot_be_used_is_set_aside(tmp_path, harm, kept):
    """A damaged file is renamed and said; the new one works; the next start has nothing to say."""
    folder = made(tmp_path / "state", VERSION)
    connection = sqlite3.connect(folder / FILE)
    connection.execute(harm)
    connection.commit()
    connection.close()
    said = []
    state = State(folder, said.append)
    assert [notice.kind for notice in said] == ["state_set_aside"]
    assert len(state.load().positions) == kept
    assert state.commit({"a": "{}"}, {})
    state.close()
    State(folder, said.append).close()
    assert len(said) == 1
    assert (folder / f"{FILE}.aside-1").exists()


def test_a_file_of_a_newer_sqlite_is_set_aside(tmp_path):
    """A file format that this SQLite does not know is damage, not a reason to live in memory for ever."""
    folder = made(tmp_path / "state", VERSION)
    whole = bytearray((folder / FILE).read_bytes())
    whole[44:48] = (9).to_bytes(4, "big")
    (folder / FILE).write_bytes(whole)
    said = []
    State(folder, said.append).close()
    assert [notice.kind for notice in said] == ["state_set_aside"]
