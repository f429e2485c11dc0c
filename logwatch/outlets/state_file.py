"""Level 3: the state's SQLite file: opened, and set aside where it cannot be used.

A state file that is damaged, empty, of a newer logwatch, or no file at all is renamed, said once, and begun anew with
what could still be read of positions, memories and unsent alerts. Where nothing can be written the state lives in
memory, and that is said too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from logwatch.errors import ConfigError, Problem
from logwatch.model import Level, Notice, Notify

FILE = "state.sqlite"
VERSION = 1
_CHECKED_BYTES = 32 << 20
"""Files up to this size are checked whole at start; larger ones as far as they are read."""
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
_TROUBLE = (sqlite3.Error, UnicodeDecodeError)
_BESIDE = ("", "-wal", "-shm")

SCHEMA = """
CREATE TABLE positions(stream TEXT PRIMARY KEY, position TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE memories(name TEXT PRIMARY KEY, memory TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE outbox(
    id INTEGER PRIMARY KEY AUTOINCREMENT, receiver TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL,
    next_try REAL NOT NULL, tries INTEGER NOT NULL);
CREATE TABLE samples(
    id INTEGER PRIMARY KEY, at_s REAL NOT NULL, read_s REAL NOT NULL, stream TEXT NOT NULL, rank TEXT,
    run INTEGER NOT NULL, time TEXT, path TEXT NOT NULL, line INTEGER NOT NULL, phase TEXT NOT NULL,
    seconds REAL NOT NULL, cycles INTEGER NOT NULL, share REAL, tokens_per_cycle REAL, batch_size REAL,
    context_tokens REAL, num_steps INTEGER, topk INTEGER, draft_tokens INTEGER, graph INTEGER, version TEXT,
    warm_up INTEGER NOT NULL, complete INTEGER NOT NULL, in_band INTEGER, low_s REAL, high_s REAL);
CREATE INDEX samples_at ON samples(at_s);
CREATE TABLE incidents(
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, at_s REAL NOT NULL, read_s REAL NOT NULL, stream TEXT NOT NULL,
    rank TEXT, phase TEXT NOT NULL, kind TEXT NOT NULL, open INTEGER NOT NULL, onset_s REAL, resolved_s REAL,
    body TEXT NOT NULL);
CREATE INDEX incidents_at ON incidents(at_s);
CREATE INDEX incidents_key ON incidents(key);
"""

UPGRADES: tuple[str, ...] = ()
"""SQL that leads from version 1 to 2, from 2 to 3, and so on: `VERSION - 1` steps, and none is ever changed."""


@dataclass(slots=True)
class Kept:
    """What the state file keeps besides history, by name; JSON texts."""

    positions: dict[str, str] = field(default_factory=dict)
    memories: dict[str, str] = field(default_factory=dict)
    letters: list[tuple[int, str, str, str, float, int]] = field(default_factory=list)


def lock(directory: Path) -> int | None:
    """Keep a state directory for this process; the descriptor holds it, None where nothing can be written.

    Raises:
        ConfigError: Another process has it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        problem = Problem(
            str(directory), "this state is in use by another logwatch", "stop it, or give --state DIR"
        )
        raise ConfigError(problem) from None
    return descriptor


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file is no good, and not that the disk or a lock is in the way.

    Our statements are fixed, so one that SQLite cannot make sense of (a table that is missing, a format of
    another SQLite) is met by a damaged file only; so is text that is not UTF-8, also in SQLite's own message.
    """
    if isinstance(error, UnicodeDecodeError):
        return True
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    code = getattr(error, "sqlite_errorcode", None)
    return "decode" in str(error) if code is None else (code & 0xFF) in _DAMAGE


def open_state(directory: Path, notify: Notify) -> tuple[sqlite3.Connection, Kept, bool]:
    """The state file of a directory, made if need be; what it keeps; and whether it is on disk."""
    path = directory / FILE
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return _open_or_renew(path, notify)
    except (OSError, sqlite3.Error) as error:
        kept = _salvage(path)
        notify(
            Notice(
                "state_in_memory",
                f"{path} cannot be written ({_short(error)}): nothing will survive a restart",
                Level.ERROR,
                path=str(path),
            )
        )
        connection = _connect(":memory:")
        connection.executescript(SCHEMA)
        return connection, kept, False


def _open_or_renew(path: Path, notify: Notify) -> tuple[sqlite3.Connection, Kept, bool]:
    why = _unusable(path)
    if why is None:
        connection = None
        try:
            connection = _connect(str(path))
            _prepare(connection)
            return connection, _read(connection), True
        except _TROUBLE as error:
            if connection is not None:
                connection.close()
            if not is_damage(error) and not _is_read_only(error):
                raise
            why = "is damaged" if is_damage(error) else "is read-only"
        except PermissionError:
            why = "is read-only"
        except _NewerError as error:
            if connection is not None:
                connection.close()
            why = str(error)
    kept = _salvage(path)
    aside = _set_aside(path)
    saved = f"; {len(kept.positions)} positions could be read from it" if kept.positions else ""
    notify(
        Notice(
            "state_set_aside",
            f"state file {path} {why}: it is set aside as {aside.name}, and a new one begun{saved}",
            Level.ERROR,
            path=str(path),
        )
    )
    connection = _connect(str(path))
    _prepare(connection)
    return connection, kept, True


def _unusable(path: Path) -> str | None:
    if path.is_dir():
        return "is a directory"
    if not path.exists():
        return None
    if path.stat().st_size == 0 and not Path(f"{path}-wal").exists():
        return "is empty"
    return None


class _NewerError(Exception):
    """The schema is of a newer logwatch."""


def _connect(path: str) -> sqlite3.Connection:
    if path != ":memory:":
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    # The pipeline's and the couriers' threads share it, one at a time, behind the lock of `State`.
    return sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL").fetchone()
    # A commit that a power cut takes back takes back positions and samples alike: they are read again.
    connection.execute("PRAGMA synchronous=NORMAL")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if version > VERSION:
        raise _NewerError(f"is of a newer logwatch (schema {version}, this one knows {VERSION})")
    if version == 0 and tables == 0:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version={VERSION}; COMMIT;")
        return
    size = connection.execute("PRAGMA page_count").fetchone()[0]
    size *= connection.execute("PRAGMA page_size").fetchone()[0]
    if size <= _CHECKED_BYTES:
        problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise _damaged(problem)
    if version < 1:
        raise _damaged(f"schema {version}")
    for number, step in enumerate(UPGRADES[version - 1 :], version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {step} PRAGMA user_version={number}; COMMIT;")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        f"PRAGMA user_version={VERSION}"
    )  # tells now, and not at the first commit, if it is read-only
    connection.execute("COMMIT")


def _damaged(what: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(what)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _is_read_only(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", 0)
    return (code & 0xFF) in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}


def _read(connection: sqlite3.Connection) -> Kept:
    return Kept(
        dict(connection.execute("SELECT stream, position FROM positions")),
        dict(connection.execute("SELECT name, memory FROM memories")),
        list(connection.execute("SELECT id, receiver, key, body, next_try, tries FROM outbox ORDER BY id")),
    )


def _salvage(path: Path) -> Kept:
    """What can still be read of a file that cannot be used; all of it or nothing."""
    try:
        if not path.is_file():
            return Kept()
    except OSError:  # not even its directory may be looked into
        return Kept()
    # A file in WAL mode cannot be opened in a directory that cannot be written to, unless nothing else writes it.
    for how in ("mode=ro", "immutable=1"):
        with contextlib.suppress(*_TROUBLE, OSError), _reading(path, how) as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] <= VERSION:
                return _read(connection)
    return Kept()


@contextlib.contextmanager
def _reading(path: Path, how: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True)
    try:
        yield connection
    finally:
        connection.close()


def _set_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.aside-{number}")).exists():
        number += 1
    for ending in _BESIDE:
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{ending}").rename(f"{aside}{ending}")
    return aside


def _short(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
