"""A daemon in a thread of its own, watched through a sink: what tests of the whole daemon share."""

from __future__ import annotations

import io
import threading
import time
import urllib.request
from contextlib import contextmanager

from logwatch.config import Config
from logwatch.daemon import Daemon
from logwatch.model import Change, Incident
from logwatch.outlets.log import Log

PATIENCE_S = 40


class Eyes:
    """A sink that lets a test wait for what it wants to see."""

    def __init__(self):
        self.seen = []
        self._news = threading.Condition()

    def take(self, item):
        with self._news:
            self.seen.append(item)
            self._news.notify_all()

    def close(self):
        pass

    def of(self, kind):
        return [item for item in self.seen if isinstance(item, kind)]

    def wait(self, wanted):
        """Until what was seen satisfies."""
        with self._news:
            assert self._news.wait_for(lambda: wanted(self), PATIENCE_S), self.seen[-3:]

    def wait_until(self, wanted):
        """Until something outside satisfies; looked at a hundred times a second."""
        until = time.monotonic() + PATIENCE_S
        while not wanted():
            assert time.monotonic() < until, "nothing came of it"
            threading.Event().wait(0.01)


def watch_config(path, **more):
    """A configuration that follows a path from its beginning, on a free port."""
    table = {"source": [{"path": str(path), "start": "beginning"}], "http": {"listen": "127.0.0.1:0"}}
    return Config.model_validate(table | more)


@contextmanager
def running(config, state, load=None, sinks=()):
    """The daemon, ready; stopped and joined at the end."""
    eyes, out, ready = Eyes(), io.StringIO(), threading.Event()
    daemon = Daemon(config, state_directory=state, sinks=[eyes, *sinks], reload=load, log=Log(out))
    daemon.on_ready = ready.set
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        yield daemon, eyes, out
    finally:
        daemon.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def fetch(daemon, path, accept="text/plain"):
    """An answer's text."""
    request = urllib.request.Request(daemon.address + path, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return answer.read().decode()


def metric(daemon, name, *labels):
    """Value of the one series of this name that has these labels.

    Raises:
        ValueError: There is no such series, or there are several.
    """
    (value,) = [
        float(line.rpartition(" ")[2])
        for line in fetch(daemon, "/metrics").splitlines()
        if line.partition("{")[0].partition(" ")[0] == name and all(label in line for label in labels)
    ]
    return value


def opened(eyes):
    """Incidents that opened."""
    return [item for item in eyes.of(Incident) if item.change is Change.OPENED]
