"""Fixtures of the tests of alerting."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from dashboard_kit import (
    EARLIER_S,
    MINUTES,
    STEP_S,
    Prometheus,
    fill,
    openmetrics,
    replayed,
    start_prometheus,
)
from oncall_kit import HttpReceiver


@pytest.fixture
def http_receiver():
    receiver = HttpReceiver()
    receiver.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.put((self.path, dict(self.headers), json.loads(body)))
            receiver.hold.wait(20)
            try:
                if receiver.drip:
                    while not receiver.stopping.wait(0.05):
                        self.wfile.write(b"H")
                self.send_response(receiver.status)
                self.send_header("Content-Length", str(len(receiver.answer)))
                self.end_headers()
                self.wfile.write(receiver.answer)
            except OSError:
                pass  # the other side has given up, which is what some tests are about

        def do_GET(self):
            self.send_response(receiver.status)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield receiver
    receiver.hold.set()
    receiver.stopping.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory):
    """A real Prometheus that holds an hour of a replayed server log."""
    folder = tmp_path_factory.mktemp("prometheus")
    begin_s = int(time.time()) - MINUTES * 60
    fill(folder, openmetrics(begin_s))
    fill(folder, replayed(folder, begin_s - EARLIER_S))
    process, url = start_prometheus(folder)
    reader = threading.Thread(target=process.stderr.read)
    reader.start()
    yield Prometheus(url, begin_s, begin_s + MINUTES * 60 - STEP_S)
    process.terminate()
    process.wait()
    reader.join()
    process.stderr.close()
