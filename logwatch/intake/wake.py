"""Level 3: wake-up hints: watchdog's inotify, a heartbeat and hands (signals, HTTP); polling where there is no inotify.

Events only wake: what to read is decided by `stat` and the position, so a lost event makes a line late, not lost.
Of the many events that a directory sends only writing, creating, moving, deleting and changes of mode count; reading
fires events too. This talks to watchdog's `InotifyFD` and not to its `Observer`, because the observer holds back
whatever follows a move out of the directory for half a second, starts one thread a directory, and does not tell its
handlers that the kernel's queue overflowed.
"""

from __future__ import annotations

import errno
import os
import select
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from logwatch.model import Level, Notice, Notify

if TYPE_CHECKING:
    from watchdog.observers.inotify_c import CallbackId, InotifyEvent, InotifyFD, WatchDescriptor

MOST_HINTS = 4096


class Hints(Protocol):
    """What `Tail` asks of whoever wakes it."""

    def changed(self) -> set[str] | None:
        """Absolute paths that may have changed since the last call; None: anything may have."""

    def watch(self, directories: Iterable[str]) -> None:
        """Report changes in these directories from now on, and in no others."""

    def listen(self, descriptors: Iterable[int]) -> None:
        """Wake when one of these descriptors has something to read."""


class Waker:
    """Sleeps until something may have changed.

    Args:
        notify: Told once when inotify cannot be used, and at each overflow.
        mode: `events`, or `poll` for file systems without events (NFS, some overlays).

    Attributes:
        mode: As given.
        overflows: How often the kernel dropped events.
    """

    def __init__(self, notify: Notify, mode: str = "events") -> None:
        self.mode = mode
        self._notify = notify
        self._lock = threading.Lock()
        self._hints: set[str] = set()
        self._anything = True
        self._overflown = False
        self._descriptors: tuple[int, ...] = ()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._watches: dict[str, _Directory] = {}
        self._blind: set[str] = set()
        self._inotify: InotifyFD | None = None
        self.overflows = 0
        if mode == "events":
            self._start()

    @property
    def polling(self) -> bool:
        """Whether only the heartbeat and hands wake."""
        return self._inotify is None

    def wake(self) -> None:
        """Wake the sleeper. Safe from any thread and from a signal handler."""
        try:
            os.eventfd_write(self._bell, 1)
        except (BlockingIOError, OSError):  # it rings already, or is closed
            return

    def wait(self, timeout: float) -> bool:
        """Sleep until a hint, a hand or `timeout` seconds; whether it was woken."""
        poller = select.poll()
        poller.register(self._bell, select.POLLIN)
        for descriptor in self._descriptors:
            poller.register(descriptor, select.POLLIN)
        woken = bool(poller.poll(max(0.0, timeout) * 1000))
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        return woken

    def changed(self) -> set[str] | None:
        """As `Hints.changed`."""
        with self._lock:
            hints, anything = self._hints, self._anything or self.polling
            overflown, self._overflown = self._overflown, False
            self._hints, self._anything = set(), False
        if overflown:
            self.overflows += 1
            self._notify(
                Notice(
                    "notify_overflow",
                    "the kernel dropped file events; every file is looked at",
                    Level.WARNING,
                )
            )
        return None if anything else hints

    def watch(self, directories: Iterable[str]) -> None:
        """As `Hints.watch`."""
        if self._inotify is None:
            return
        wanted = set(directories)
        for path in self._watches.keys() - wanted:
            self._watches.pop(path).close()
        for path in wanted - self._watches.keys() - self._blind:
            self._add(path)
        for path, watched in list(self._watches.items()):
            if watched.gone:  # deleted or renamed since: the name may mean another directory by now
                watched.close()
                del self._watches[path]
                self._add(path)

    def listen(self, descriptors: Iterable[int]) -> None:
        """As `Hints.listen`."""
        self._descriptors = tuple(descriptors)

    def close(self) -> None:
        """Stop watching."""
        self._stop()
        os.close(self._bell)

    def _start(self) -> None:
        try:
            from watchdog.observers.inotify_c import InotifyFD  # noqa: PLC0415  # absent where there is no inotify

            self._inotify = InotifyFD()
            self._inotify.start()
        except (ImportError, OSError) as error:
            self._inotify = None
            self._fall_back(error)

    def _add(self, path: str) -> None:
        if self._inotify is None:
            return
        try:
            self._watches[path] = _Directory(self._inotify, path, self._hint, self._overflow)
        except FileNotFoundError:  # gone between the scan and now: the next scan names its parent
            return
        except PermissionError as error:
            self._notify(
                Notice(
                    "watch_failed",
                    f"{path} cannot be watched ({error.strerror}); it is looked at by the clock",
                    Level.WARNING,
                    path=path,
                )
            )
            self._blind.add(path)
        except OSError as error:
            self._stop()
            self._fall_back(error)

    def _fall_back(self, error: Exception) -> None:
        self._notify(
            Notice(
                "polling",
                f"inotify cannot be used ({error}); files are looked at by the clock instead. "
                'Raise fs.inotify.max_user_watches and max_user_instances, or set follow.mode = "poll"',
                Level.WARNING,
            )
        )

    def _stop(self) -> None:
        inotify, self._inotify = self._inotify, None
        self._watches.clear()
        if inotify is not None:
            inotify.stop()
            inotify.join()

    def _hint(self, path: str) -> None:
        with self._lock:
            if len(self._hints) < MOST_HINTS:
                self._hints.add(path)
            else:
                self._anything = True
        self.wake()

    def _overflow(self) -> None:
        with self._lock:
            self._anything = self._overflown = True
        self.wake()


class _Directory:
    """One watched directory: watchdog calls it from its reading thread."""

    def __init__(
        self, inotify: InotifyFD, path: str, hint: Callable[[str], None], overflow: Callable[[], None]
    ) -> None:
        from watchdog.observers.inotify_c import CallbackId, Mask  # noqa: PLC0415  # only where there is inotify
        from watchdog.observers.inotify_c import InotifyConstants as Event  # noqa: PLC0415  # as above

        self.path = path
        self.gone = False
        self._hint, self._overflow, self._inotify = hint, overflow, inotify
        self._id: CallbackId = CallbackId(id(self))
        self._descriptor: WatchDescriptor | None = None
        mask = Mask(
            Event.IN_MODIFY
            | Event.IN_ATTRIB
            | Event.IN_MOVE
            | Event.IN_CREATE
            | Event.IN_DELETE
            | Event.IN_CLOSE_WRITE
            | Event.IN_DELETE_SELF
            | Event.IN_MOVE_SELF
            | Event.IN_ONLYDIR
        )
        self._descriptor = inotify.add_callback(os.fsencode(path), mask, self, self._id)
        if self._descriptor == -1:  # watchdog passes over EACCES
            self._descriptor = None
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    def on_event(self, event: InotifyEvent) -> None:
        if event.is_delete_self or event.is_move_self:
            self.gone = True
        name = os.fsdecode(event.name)
        self._hint(os.path.join(self.path, name) if name else self.path)

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:  # noqa: ARG002  # watchdog's interface
        self._descriptor = None
        self.gone = True
        self._hint(self.path)

    def on_queue_overflow(self) -> None:
        self._overflow()

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._inotify.remove_callbacks([(descriptor, self._id)])


class HandWaker:
    """Woken by hand only: for tests and replays that own the time. Every call of `changed` allows for anything."""

    def __init__(self) -> None:
        self.woken = False
        self.directories: set[str] = set()

    def wake(self) -> None:
        """Wake the sleeper."""
        self.woken = True

    def wait(self, timeout: float) -> bool:  # noqa: ARG002  # the hand owns the time
        """Whether it was woken since the last call; sleeps never."""
        woken, self.woken = self.woken, False
        return woken

    def changed(self) -> set[str] | None:
        """As `Hints.changed`."""
        return None

    def watch(self, directories: Iterable[str]) -> None:
        """As `Hints.watch`."""
        self.directories = set(directories)

    def listen(self, descriptors: Iterable[int]) -> None:
        """Nothing to do: the hand looks after each step."""
