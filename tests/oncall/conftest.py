"""Fixtures of the tests of alerting."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
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
