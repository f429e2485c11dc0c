"""A real server on a free port for every test that asks for one, and a client that speaks HTTP to it."""

import contextlib
import gzip
import http.client
import json
from dataclasses import dataclass, field

import pytest

from logwatch.outlets.metrics import Metrics
from logwatch.outlets.web.app import build_app
from logwatch.outlets.web.board import Board
from logwatch.outlets.web.server import Server, bind
from logwatch.outlets.web.site import Site


@dataclass
class Answer:
    """What a server said."""

    status: int
    headers: dict = field(repr=False)
    body: bytes

    @property
    def text(self):
        data = gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body
        return data.decode()

    @property
    def json(self):
        return json.loads(self.text)


@dataclass
class Client:
    """Asks one server."""

    port: int
    site: Site

    def get(self, path, method="GET", **headers):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=named)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())


@pytest.fixture
def site():
    return Site(Metrics(), Board())


@pytest.fixture
def serve():
    """Starts servers for sites, and stops them after the test."""
    with contextlib.ExitStack() as stack:

        def start(site, web=None, **changed):
            server = Server(build_app(site, web), bind("127.0.0.1:0"), web, **changed)
            server.start()
            stack.callback(server.stop)
            return Client(int(server.address.rpartition(":")[2]), site)

        yield start


@pytest.fixture
def client(serve, site):
    return serve(site)
