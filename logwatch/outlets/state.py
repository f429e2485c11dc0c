"""Level 3: the SQLite state: positions, memories, samples, incidents and unsent alerts, committed together.

What the pipeline gives is collected by `take` and `put`; `commit` writes it in one transaction with the positions that
it belongs to, so that whenever the process dies, what was counted and where reading goes on agree. Unsaved things are
kept until a commit succeeds; while commits fail, `failing` is set and reading must pause.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from logwatch.model import Change, Cycle, Incident, Item, Judgement, Level, Notice, Notify, Signal, seconds_of
from logwatch.outlets.deliver_courier import Letter
from logwatch.outlets.state_file import FILE, Kept, is_damage, open_state
from logwatch.outlets.state_retention import Retention

MOST_OPEN = 2000
"""Samples whose judgement may still come."""
_INCIDENT: TypeAdapter[Incident] = TypeAdapter(Incident)
_SAMPLE_COLUMNS = (
    "at_s, read_s, stream, rank, run, time, path, line, phase, seconds, cycles, share, tokens_per_cycle, batch_size, "
    "context_tokens, num_steps, topk, draft_tokens, graph, version, warm_up, complete, in_band, low_s, high_s"
)
_INSERT_SAMPLE = f"INSERT INTO samples({_SAMPLE_COLUMNS}) VALUES({','.join('?' * 25)})"  # both constants


class State:
    """The state file as a sink and an outbox.

    Args:
        directory: Where `state.sqlite` lies; made if need be.
        notify: Told of files set aside and of commits that fail; once for each stretch of trouble.
        keep_s: How long samples and closed incidents are kept.
        clock: Seconds since the epoch.
        uptime: Monotonic seconds.

    Attributes:
        failing: The last commit failed: do not read on before one succeeds.
        urgent: An incident waits for its commit: do not put it off.
    """

    def __init__(
        self,
        directory: Path,
        notify: Notify,
        *,
        keep_s: float = 30 * 86400.0,
        clock: Callable[[], float] = time.time,
        uptime: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory, self.keep_s = Path(directory), keep_s
        self.failing = False
        self.urgent = False
        self.commits = self.errors = 0
        self._notify, self._clock = notify, clock
        self._lock = threading.RLock()
        self._connection, self._kept, self._on_disk = open_state(self.directory, notify)
        self._inode = self._current_inode()
        self._letters = {row[0]: Letter(*row) for row in self._kept.letters}
        self._next_letter = max(self._letters, default=0) + 1
        self._new_letters: list[Letter] = []
        self._changed_letters: set[int] = set()
        self._samples: list[list[Any]] = []
        self._open_samples: dict[tuple[int, str], list[Any]] = {}
        self._incidents: list[Incident] = []
        self._unsaved_positions: set[str] = set()
        self._unsaved_memories: set[str] = set()
        self._retention = Retention(clock, uptime)
        if self._kept.positions and not self._stored():
            self._rewrite()

    # -- what the daemon does -----------------------------------------------------------------------------------

    def load(self) -> Kept:
        """What was kept by the last life: positions and memories, by name."""
        return Kept(dict(self._kept.positions), dict(self._kept.memories))

    def take(self, item: Item) -> None:
        """Collect what belongs into history."""
        if isinstance(item, Cycle):
            self._take_cycle(item)
        elif isinstance(item, Judgement) and item.chart == "band":
            row = self._open_samples.get((id(item.cycle), item.phase))
            if row is not None:
                row[22:25] = [int(item.signal is Signal.IN_BAND), item.limits.low, item.limits.high]
        elif isinstance(item, Incident):
            self._incidents.append(item)
            self.urgent = True

    def commit(
        self,
        positions: Mapping[str, str | None] | None = None,
        memories: Mapping[str, str | None] | None = None,
    ) -> bool:
        """Write all that was collected, with these positions and memories, in one transaction.

        Args:
            positions: By stream; None forgets one. What is left out stays as it is.
            memories: By name, likewise.

        Returns:
            Whether it is on disk. If not, all is kept for the next call.
        """
        with self._lock:
            _merge(self._kept.positions, self._unsaved_positions, positions or {})
            _merge(self._kept.memories, self._unsaved_memories, memories or {})
            try:
                if self._vanished():
                    self._renew("vanished")
                self._transact(self._write)
            except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
                if not self._recover(error):
                    return False
            self._committed()
            return True

    def close(self) -> None:
        """Close the file. What was not committed is read again by the next life."""
        with self._lock:
            self._connection.close()

    # -- the outbox ---------------------------------------------------------------------------------------------

    def put(self, receiver: str, key: str, body: str, next_try: float) -> None:
        """Add a letter; it is written by the next commit, and not given out before."""
        with self._lock:
            self._new_letters.append(Letter(self._next_letter, receiver, key, body, next_try, 0))
            self._next_letter += 1

    def letters(self, receiver: str) -> list[Letter]:
        """Committed letters of a receiver, oldest first."""
        with self._lock:
            return [letter for _, letter in sorted(self._letters.items()) if letter.receiver == receiver]

    def retry(self, ids: Sequence[int], next_try: float, tries: int) -> None:
        """Write down when to try again; where that fails, the next commit does."""
        with self._lock:
            for each in ids:
                if (old := self._letters.get(each)) is not None:
                    self._letters[each] = Letter(each, old.receiver, old.key, old.body, next_try, tries)
            self._letters_changed(ids)

    def done(self, ids: Sequence[int]) -> None:
        """Take letters out; where that fails, the next commit does."""
        with self._lock:
            for each in ids:
                self._letters.pop(each, None)
            self._letters_changed(ids)

    def receivers(self) -> set[str]:
        """Names of all receivers that have letters."""
        with self._lock:
            return {letter.receiver for letter in self._letters.values()}

    def _letters_changed(self, ids: Sequence[int]) -> None:
        self._changed_letters.update(ids)
        try:
            self._transact(self._write_letters)
            self._changed_letters.clear()
        except sqlite3.Error:
            return  # kept in `_changed_letters`; the next commit tries again and says what is wrong

    # -- rows ---------------------------------------------------------------------------------------------------

    def _take_cycle(self, cycle: Cycle) -> None:
        read_s = self._clock()
        time_s = seconds_of(cycle.time)
        given = cycle.conditions
        for phase, seconds in cycle.phases_s.items():
            row = [
                read_s if time_s is None else time_s,
                read_s,
                cycle.stream,
                cycle.rank,
                cycle.run,
                cycle.time,
                cycle.place.path,
                cycle.place.line,
                phase,
                seconds,
                cycle.cycles,
                cycle.shares.get(phase),
                cycle.tokens_per_cycle,
                given.batch_size,
                given.context_tokens,
                given.num_steps,
                given.topk,
                given.draft_tokens,
                given.graph,
                given.version,
                cycle.warm_up,
                cycle.complete,
                None,
                None,
                None,
            ]
            self._samples.append(row)
            self._open_samples[id(cycle), phase] = row
        if len(self._open_samples) > MOST_OPEN:
            self._open_samples = {(id(cycle), phase): row for phase, row in self._last_rows(cycle)}

    def _last_rows(self, cycle: Cycle) -> list[tuple[str, list[Any]]]:
        """Rows of the newest cycle: judgements follow their cycle at once."""
        return [(row[8], row) for row in self._samples[-len(cycle.phases_s) :]] if cycle.phases_s else []

    # -- transactions -------------------------------------------------------------------------------------------

    def _transact(self, write: Callable[[], None]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            write()
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _write(self) -> None:
        execute = self._connection.execute
        self._connection.executemany(_INSERT_SAMPLE, self._samples)
        for incident in self._incidents:
            self._write_incident(incident)
        _write_texts(
            self._connection, "positions(stream, position)", self._kept.positions, self._unsaved_positions
        )
        _write_texts(self._connection, "memories(name, memory)", self._kept.memories, self._unsaved_memories)
        for letter in self._new_letters:
            execute("INSERT OR REPLACE INTO outbox VALUES(?,?,?,?,?,?)", _row(letter))
        self._write_letters()

    def _write_letters(self) -> None:
        for each in self._changed_letters:
            if (letter := self._letters.get(each)) is None:
                self._connection.execute("DELETE FROM outbox WHERE id=?", (each,))
            else:
                self._connection.execute("INSERT OR REPLACE INTO outbox VALUES(?,?,?,?,?,?)", _row(letter))

    def _write_incident(self, incident: Incident) -> None:
        onset_s = seconds_of(incident.onset.time)
        resolved = incident.resolved
        resolved_s = seconds_of(resolved.time) if resolved else None
        at_s = self._clock() if onset_s is None else onset_s
        found = None
        if incident.change is not Change.OPENED:
            found = self._connection.execute(
                "SELECT max(id), at_s FROM incidents WHERE key=?", (incident.key,)
            ).fetchone()
        values = (
            incident.key,
            at_s if not found or found[1] is None else found[1],
            self._clock(),
            incident.stream,
            incident.rank,
            incident.phase,
            incident.kind,
            incident.change is not Change.RESOLVED,
            onset_s,
            (self._clock() if resolved_s is None else resolved_s) if resolved else None,
            _INCIDENT.dump_json(incident).decode(),
        )
        self._connection.execute(
            "INSERT OR REPLACE INTO incidents VALUES(?,?,?,?,?,?,?,?,?,?,?,?)",
            (found[0] if found else None, *values),
        )

    def _committed(self) -> None:
        for letter in self._new_letters:
            self._letters[letter.id] = letter
        self._new_letters.clear()
        self._changed_letters.clear()
        self._samples.clear()
        self._open_samples.clear()
        self._incidents.clear()
        self._unsaved_positions.clear()
        self._unsaved_memories.clear()
        self.commits += 1
        self.urgent = False
        if self.failing:
            self.failing = False
            self._notify(Notice("state_recovered", "the state is committed again; reading goes on"))
        self._retention.prune(self._connection, self.keep_s)

    # -- trouble ------------------------------------------------------------------------------------------------

    def _recover(self, error: Exception) -> bool:
        """Begin a new file if this one is no good; else say that commits fail. Whether the commit was made."""
        self.errors += 1
        if is_damage(error):
            try:
                self._renew("is damaged")
                self._transact(self._write)
            except (sqlite3.Error, OSError) as second:
                error = second
            else:
                return True
        if not self.failing:
            self._notify(
                Notice(
                    "state_commit_failed",
                    f"{self.directory / FILE} cannot be written ({error}): reading pauses until it can",
                    Level.ERROR,
                    path=str(self.directory / FILE),
                )
            )
        self.failing = True
        return False

    def _current_inode(self) -> int | None:
        try:
            return (self.directory / FILE).stat().st_ino
        except OSError:
            return None

    def _vanished(self) -> bool:
        return self._on_disk and self._current_inode() != self._inode

    def _renew(self, why: str) -> None:
        """Go on in a new file with all that is kept in memory."""
        self._connection.close()
        self._connection, _, self._on_disk = open_state(self.directory, self._notify)
        self._inode = self._current_inode()
        if why == "vanished":
            self._notify(
                Notice(
                    "state_vanished",
                    f"{self.directory / FILE} was removed or replaced while in use: begun anew; older history is gone",
                    Level.ERROR,
                    path=str(self.directory / FILE),
                )
            )
        self._rewrite()

    def _rewrite(self) -> None:
        """Mark everything in memory as not yet written."""
        self._unsaved_positions.update(self._kept.positions)
        self._unsaved_memories.update(self._kept.memories)
        self._changed_letters.update(self._letters)

    def _stored(self) -> bool:
        return bool(self._connection.execute("SELECT count(*) FROM positions").fetchone()[0])


def _row(letter: Letter) -> tuple[int, str, str, str, float, int]:
    return (letter.id, letter.receiver, letter.key, letter.body, letter.next_try, letter.tries)


def _merge(kept: dict[str, str], unsaved: set[str], new: Mapping[str, str | None]) -> None:
    for name, text in new.items():
        if text is None:
            kept.pop(name, None)
        else:
            kept[name] = text
        unsaved.add(name)


def _write_texts(
    connection: sqlite3.Connection, table: str, kept: Mapping[str, str], unsaved: set[str]
) -> None:
    name, _, columns = table.partition("(")
    key = columns.partition(",")[0]
    gone = [(each,) for each in unsaved if each not in kept]
    connection.executemany(f"DELETE FROM {name} WHERE {key}=?", gone)  # noqa: S608  # constants of the two callers
    rows = [(each, kept[each]) for each in unsaved if each in kept]
    connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES(?,?)", rows)  # likewise
