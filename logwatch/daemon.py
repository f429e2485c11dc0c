"""Level 5: the daemon: wake, read, judge, hand to the outlets, commit. One thread owns all of it."""

from __future__ import annotations

import math
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import Empty, Queue
from typing import TypeVar

from logwatch.backlog import Backlog
from logwatch.config import Config
from logwatch.errors import LogwatchError
from logwatch.intake.chunks import Chunk
from logwatch.intake.tail import Tail
from logwatch.intake.wake import Waker
from logwatch.judging.held import ended_unseen
from logwatch.model import Item, Level, Notice, Sink
from logwatch.observing import Observing
from logwatch.outlets.deliver import Deliver
from logwatch.outlets.deliver_alerts import Book
from logwatch.outlets.history import History
from logwatch.outlets.log import Log
from logwatch.outlets.memories import read_back, written
from logwatch.outlets.metrics import Metrics
from logwatch.outlets.state import State
from logwatch.outlets.state_file import lock
from logwatch.outlets.systemd import Systemd, Watchdog
from logwatch.outlets.web.api import refill
from logwatch.outlets.web.board import Board, BoardMemory
from logwatch.outlets.web.sentence import summarize
from logwatch.outlets.web.site import Site
from logwatch.pipeline import Pipeline, PipelineMemory, Settings
from logwatch.serving import Serving
from logwatch.units import format_bytes
from logwatch.wiring import links_of, most_open, receivers_of, sources_of

T = TypeVar("T")

PIPELINE = "pipeline/"
"""Begins the name under which a stream's memory is kept."""
HTTP_RELOAD_S = 10.0
BUDGET_BYTES = 1 << 20
"""What one file may take of a turn, so that a busy one does not starve the others."""
BULK_BYTES = 16 << 20
"""A backlog of so many bytes in one file is read by the bulk path."""
COMMIT_S = 0.5
HOUSEKEEPING_S = 1.0
RECOVERY_S = 300.0
"""How long a start may take that has to mend a large state file."""
STOP_S = 2.0
"""How long a stop goes on reading: what a large backlog still holds is read by the next life."""
HEALTHY_S = 60.0
"""Without a finished turn for so long the daemon is not healthy; the heartbeat makes one a second."""


class Daemon:
    """Follows the configured sources until it is told to stop.

    Args:
        config: What to do.
        state_directory: Where the state file lies.
        sinks: Further takers of every item (the demo's story).
        reload: Gives the configuration anew, for SIGHUP.
        log: The daemon's own log.

    Raises:
        LogwatchError: Grammar, band, receiver or address cannot be used; nothing is left open.
    """

    def __init__(
        self,
        config: Config,
        *,
        state_directory: Path,
        sinks: Sequence[Sink] = (),
        reload: Callable[[], Config] | None = None,
        log: Log | None = None,
    ) -> None:
        self._config = config
        self._load = reload or (lambda: config)
        self._settings = Settings.of_config(config)
        self._log = log or Log(journal="JOURNAL_STREAM" in os.environ)
        self._systemd = Systemd()
        self._watchdog = Watchdog(self._systemd, ("read", "commit", "http"))
        self._asked: Queue[Queue[str]] = Queue()
        self._board = Board()
        self._metrics = Metrics(
            self._settings.bands, config.speculation.baseline_tokens_per_second, committed=True
        )
        self._observing = Observing(self._metrics)
        self._receivers = receivers_of(config)
        self._further = tuple(sinks)
        self._state_directory = state_directory
        # Plain flags: a signal may interrupt `Event.set` in the middle, and its handler would wait for that for ever.
        self._stopping = self._reload_wanted = False
        self._stop_at = math.inf
        self._ready = threading.Event()
        self._turned = time.monotonic()
        self._pipelines: dict[str, Pipeline] = {}
        self._reading: dict[str, tuple[str, int]] = {}
        self._dirty: set[str] = set()
        self._followed: set[str] = set()
        self._told = False
        self._committed = self._kept_house = -1e9
        self.on_ready: Callable[[], object] = lambda: None
        site = Site(
            metrics=self._metrics,
            board=self._board,
            history=History(state_directory),
            ready=self._ready.is_set,
            healthy=lambda: time.monotonic() - self._turned < HEALTHY_S,
            reload=self._reload_over_http,
        )
        self._serving = Serving(config, site, self._notice, self._beat)

    @property
    def address(self) -> str:
        """Where the pages are: `http://127.0.0.1:9877`."""
        return self._serving.address

    # -- life --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Follow until `stop`, then read what is there, commit, and deliver what is due."""
        self._open()
        try:
            self._turn()
            self._systemd.ready(self._status())
            self._ready.set()
            self.on_ready()
            while not self._stopping:
                hurry = self._tail.behind and not self._state.failing
                self._waker.wait(0.0 if hurry else self._pause())
                self._turn()
            self._systemd.stopping()
            self._turn()
        finally:
            self._close()

    def stop(self) -> None:
        """End `run`. Safe from any thread and from a signal handler."""
        self._stop_at = time.monotonic() + STOP_S
        self._stopping = True
        self._waker.wake()

    def reload(self) -> None:
        """Load the configuration again at the next turn. Safe from any thread and from a signal handler."""
        self._reload_wanted = True
        self._waker.wake()

    def _open(self) -> None:
        self._systemd.extend_start(RECOVERY_S)
        self._lock = lock(self._state_directory)
        self._state = State(self._state_directory, self._notice, keep_s=self._config.history.keep)
        saved = self._state.load()
        self._memories = saved.memories
        self._waker = Waker(self._notice, self._config.follow.mode)
        self._backlog = Backlog(self._config.grammars.directories)
        held = [(name, held) for name, held in self._systemd.stored() if name.startswith("log-")]
        self._kept_open = {name for name, _ in held}
        self._tail = Tail(
            sources_of(self._config),
            saved.positions,
            self._notice,
            waker=self._waker,
            bulk_bytes=BULK_BYTES,
            held=[descriptor for _, descriptor in held],
            most_open=most_open(),
        )
        self._deliver = Deliver(
            self._receivers,
            self._state,
            links_of(self._config, self.address),
            self._log.say,
            self._notice,
            memory=self._remembered(Book, "deliver"),
        )
        self._metrics.recall(list(self._memories), self._remembered)
        if (board := self._remembered(BoardMemory, "board")) is not None:
            self._board.memory = board
        refill(self._board, History(self._state_directory))
        self._sinks: tuple[Sink, ...] = (
            self._state,
            self._metrics,
            self._board,
            self._deliver,
            *self._further,
        )
        self._serving.start()
        self._deliver.start()

    def _close(self) -> None:
        self._commit()
        self._deliver.close()
        self._serving.stop()
        self._tail.close()
        self._waker.close()
        self._state.close()
        if self._lock is not None:
            os.close(self._lock)

    # -- a turn ------------------------------------------------------------------------------------

    def _pause(self) -> float:
        """Seconds to sleep if nothing happens: until the next commit, heartbeat or sign of life."""
        uncommitted = self._dirty or self._tail.changed or self._told
        until_commit = self._committed + COMMIT_S - time.monotonic() if uncommitted else HOUSEKEEPING_S
        return max(0.0, min(until_commit, self._config.follow.interval, HOUSEKEEPING_S))

    def _turn(self) -> None:
        if self._reload_wanted:
            self._reload_wanted = False
            problems = self._reload()
            while not self._asked.empty():
                self._asked.get().put(problems)
        if self._state.failing:
            self._commit()
        if not self._state.failing:
            for chunk in self._tail.read(BUDGET_BYTES):
                self._read(chunk)
                if self._state.urgent or self._commit_is_due():
                    self._commit()
                if self._state.failing or time.monotonic() > self._stop_at:
                    break
        self._watchdog.moved("read")
        self._commit_what_is_due()
        now = time.monotonic()
        if now - self._kept_house >= HOUSEKEEPING_S:
            self._kept_house = now
            self._keep_house()
        self._turned = now

    def _commit_what_is_due(self) -> None:
        # Positions move without data too (where a file begins), and so do the counts of deliveries.
        if not self._dirty and not self._tail.changed and not self._told:
            self._watchdog.moved("commit")  # nothing to commit is no hang
        elif self._commit_is_due():
            self._commit()

    def _commit_is_due(self) -> bool:
        return time.monotonic() - self._committed >= COMMIT_S

    def _read(self, chunk: Chunk) -> None:
        pipeline = self._pipeline(chunk.stream, chunk.path)
        self._dirty.add(chunk.stream)
        if not chunk.ends and self._reading.get(chunk.stream) != (chunk.path, chunk.offset):
            pipeline.start_file(chunk.path, chunk.first_line, chunk.offset)
        self._reading[chunk.stream] = (chunk.path, -1 if chunk.ends else chunk.offset + len(chunk.data))
        try:
            if chunk.ends:
                self._take(pipeline.finish_file())
            elif chunk.bulk:
                self._take(self._backlog.items(pipeline, chunk))
            else:
                self._take(pipeline.feed_bytes(chunk.data))
        except Exception as error:  # noqa: BLE001  # a line on which we fail must not end the watch over all others
            self._pass_over(pipeline, chunk, error)

    def _pass_over(self, pipeline: Pipeline, chunk: Chunk, error: Exception) -> None:
        """Go on behind the whole lines of a chunk on which we failed."""
        frame = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{error!r} at {frame.filename}:{frame.lineno}"
        span = f"bytes {chunk.offset} to {chunk.offset + len(chunk.data)} of {chunk.path}"
        message = f"internal error, please report it: {what}; {span} are passed over from there on"
        self._notice(Notice("lost", message, Level.ERROR, chunk.stream, chunk.path, len(chunk.data)))
        whole = chunk.data.rfind(b"\n") + 1
        line = chunk.first_line + chunk.data.count(b"\n")
        pipeline.start_file(chunk.path, line, chunk.offset + whole)
        self._take(pipeline.feed_bytes(chunk.data[whole:]))

    def _take(self, items: Iterable[Item]) -> None:
        for item in items:
            for sink in self._sinks:
                sink.take(item)

    def _pipeline(self, stream: str, path: str) -> Pipeline:
        if stream not in self._pipelines:
            self._metrics.add_stream(stream, path)
            pipeline = Pipeline(self._settings, stream, path, self._notice)
            memory = self._remembered(PipelineMemory, f"{PIPELINE}{stream}")
            if memory is not None:
                pipeline.memory = memory
            self._pipelines[stream] = pipeline
        return self._pipelines[stream]

    def _notice(self, notice: Notice) -> None:
        self._log.notice(notice)
        self._metrics.notice(notice)
        self._board.notice(notice)

    def _reload(self) -> str:
        """Take over the configuration as it is now; keep the old one whole if it has a problem."""
        self._systemd.reloading()
        try:
            config = self._load()
            settings = Settings.of_config(config)
            told = receivers_of(config)
            before = self.address
            self._serving.configure(config)  # the last that may refuse: it changes what is in force
        except LogwatchError as error:
            problems = str(error)
            self._metrics.observe_reload(successful=False)
            self._log.say(Level.ERROR, f"reload refused, the old configuration is kept: {problems}")
        else:
            problems = ""
            self._config, self._settings = config, settings
            self._state.keep_s = config.history.keep
            self._tail.reconfigure(sources_of(config))
            self._backlog = Backlog(config.grammars.directories)
            for pipeline in self._pipelines.values():
                pipeline.configure(settings)
            self._metrics.configure(settings.bands, config.speculation.baseline_tokens_per_second)
            self._deliver.configure(told, links_of(self._config, self.address))
            self._metrics.observe_reload(successful=True)
            moved = f"; metrics at {self.address}/metrics from now on" if self.address != before else ""
            self._log.say(Level.INFO, f"configuration loaded again{moved}")
            if config.follow.mode != self._waker.mode:
                what = f"`follow.mode` stays {self._waker.mode!r} until a restart; all else is in force"
                self._log.say(Level.WARNING, what)
        self._systemd.ready(self._status())
        return problems

    def _reload_over_http(self) -> str:
        """Ask the pipeline's thread to reload, and wait for its answer."""
        answer: Queue[str] = Queue()
        self._asked.put(answer)
        self.reload()
        try:
            return answer.get(timeout=HTTP_RELOAD_S)
        except Empty:
            return f"no answer within {HTTP_RELOAD_S:.0f} s; see the daemon's log"

    # -- keeping and telling -----------------------------------------------------------------------

    def _remembered(self, kind: type[T], name: str) -> T | None:
        """What an earlier life remembered under this name; None where that cannot be used any more."""
        return read_back(kind, name, self._memories.pop(name, None), self._notice)

    def _commit(self) -> None:
        """Write positions, memories, samples, counters, incidents and letters: all of it or nothing."""
        memories: dict[str, str | None] = {
            f"{PIPELINE}{stream}": written(self._pipelines[stream].memory)
            if stream in self._pipelines
            else None
            for stream in self._dirty
        }
        for name, each in self._metrics.written().items():
            memories[name] = None if each is None else written(each)
        memories["board"] = written(self._board.memory)
        memories["deliver"] = written(self._deliver.memory)
        positions = self._tail.positions(self._pending)
        done = self._state.commit(positions, memories)
        self._metrics.observe_commit(failed=not done)
        self._committed = time.monotonic()
        if done:
            self._dirty.clear()
            self._told = False
            self._deliver.wake()
        else:
            self._tail.forget_commit()
        self._watchdog.moved("commit")

    def _pending(self, stream: str) -> int:
        pipeline = self._pipelines.get(stream)
        return pipeline.pending_bytes if pipeline else 0

    def _keep_house(self) -> None:
        """What is looked at about once a second: lag, vanished streams, status, sign of life."""
        lags = self._tail.lag()
        self._observing.sources(lags, time.monotonic())
        self._metrics.observe_files(self._tail.open_files)
        self._board.forget(self._metrics.expire(alive=lags))
        for stream in (self._followed | self._pipelines.keys()) - lags.keys():
            self._end(stream)
        self._followed = set(lags)
        self._told |= self._observing.delivery(self._deliver.status())
        self._keep_open()
        self._systemd.status(self._status())

    def _end(self, stream: str) -> None:
        """A log is gone, perhaps one that only an earlier life has read: what is open in it ends with it."""
        pipeline = self._pipeline(stream, stream)
        if self._tail.keeps(stream):
            pipeline.start_file(stream)  # its unfinished line is read again when a source means it again
        self._take(pipeline.finish())
        self._take(ended_unseen(pipeline.memory.incidents.held))
        del self._pipelines[stream]
        self._reading.pop(stream, None)
        self._dirty.add(stream)

    def _keep_open(self) -> None:
        """Have systemd hold the logs that are being read: one deleted during a restart can still be read."""
        now = self._tail.descriptors()
        for name in now.keys() - self._kept_open:
            self._systemd.store(name, now[name])
        for name in self._kept_open - now.keys():
            self._systemd.forget(name)
        self._kept_open = set(now)

    def _beat(self) -> None:
        """On the server's thread, about once a second: tell systemd that all parts move."""
        self._watchdog.moved("http")
        self._watchdog.check()
        if hung := self._watchdog.hung():
            what = f"nothing moves in: {', '.join(sorted(hung))}; systemd will restart the daemon"
            self._log.notice(Notice("hung", what, Level.ERROR))

    def _status(self) -> str:
        """One line: `3 sources, lag 0 B. Target verify takes 19.14 ms a cycle, inside its band ...`."""
        lags = self._tail.lag()
        behind = format_bytes(sum(lag.bytes for lag in lags.values()))
        return f"{len(lags)} sources, lag {behind}. {summarize(self._board.view(), len(lags)).sentence}"
