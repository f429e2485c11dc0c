"""`logwatch check`: everything that `watch` will need, looked at before."""

from __future__ import annotations

import json
import os
import socket
import textwrap
import threading
import tomllib
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner

from logwatch.commands.check import command
from logwatch.config import Config


@pytest.fixture
def findings(tmp_path, monkeypatch):
    """Write a configuration, run the command, give status and findings by part and name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOGWATCH_HTTP__LISTEN", "127.0.0.1:0")

    def run(text: str):
        (tmp_path / "logwatch.toml").write_text(text)
        done = CliRunner().invoke(command, ["--format", "json"])
        found = json.loads(done.output)["findings"]
        return done.exit_code, {(each["part"], each["name"]): each for each in found}

    return run


def test_all_well(findings, tmp_path):
    """A readable source and the packaged grammars."""
    (tmp_path / "a.log").write_text("x\n")
    code, found = findings('[[source]]\npath = "*.log"\n')
    assert code == 0
    assert found["source", "*.log"]["detail"] == "1 file, readable"
    assert ("grammar", "eagle3_profile") in found


def test_a_broken_configuration_is_named(findings):
    """With its line, and status 2."""
    code, found = findings("[http]\nlisen = 1\n")
    assert code == 2
    assert (
        found["configuration", "logwatch.toml:2:1"]["problem"]
        == "unknown option `http.lisen`; did you mean `listen`?"
    )


def test_a_broken_grammar_is_named(findings, tmp_path):
    """A grammar of the user's own, with file, line and column."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "mine.toml").write_text('name = "mine"\n[record.phase]\nanchor = "x"\npattern = "{"\n')
    code, found = findings('[grammars]\ndirectories = ["own"]\n')
    assert code == 2
    assert [name for part, name in found if part == "grammar" and "mine.toml:" in name]


def test_a_source_whose_directory_is_missing(findings, tmp_path):
    """Said, with what to do."""
    code, found = findings(f'[[source]]\npath = "{tmp_path}/absent/a.log"\n')
    assert code == 2
    assert "does not exist yet" in found["source", f"{tmp_path}/absent/a.log"]["problem"]


def test_receivers_are_reached_for(findings):
    """One that listens, one that does not, a program that is not there."""
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as server,
        closing(socket.create_server(("127.0.0.1", 0))) as other,
    ):
        port, dead = server.getsockname()[1], other.getsockname()[1]
        other.close()
        code, found = findings(
            f'[[alert]]\nalertmanager = "http://127.0.0.1:{port}"\n'
            f'[[alert]]\nwebhook = "http://127.0.0.1:{dead}/secret"\n'
            '[[alert]]\ncommand = ["/absent/page"]\n'
        )
    assert code == 2
    assert found["alert", f"http://127.0.0.1:{port}"]["detail"] == "reachable"
    assert "cannot be reached" in found["alert", f"http://127.0.0.1:{dead}"]["problem"]
    assert "not an executable" in found["alert", "/absent/page"]["problem"]


def test_an_unreadable_source(findings, tmp_path, monkeypatch):
    """What the daemon's user may not read is said now, not at night (root may read all, so access is asked for)."""
    log = tmp_path / "a.log"
    log.write_text("x\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    code, found = findings(f'[[source]]\npath = "{log}"\n')
    assert code == 2
    assert "is not readable" in found["source", str(log)]["problem"]
    code, found = findings(f'[[source]]\npath = "{tmp_path}/*.txt"\n')
    assert code == 2
    assert f"directory {tmp_path} is not readable" in found["source", f"{tmp_path}/*.txt"]["problem"]


def test_a_broken_web_configuration_is_named(findings, tmp_path):
    """TLS and users are looked at as the daemon will, and no secret is repeated."""
    (tmp_path / "web.yml").write_text("basic_auth_users: {alice: hunter2}\n")
    code, found = findings('[http]\nweb_config = "web.yml"\n')
    assert code == 2
    assert "not a bcrypt hash" in found["http", "web.yml"]["problem"]
    assert "hunter2" not in found["http", "web.yml"]["problem"]
    (tmp_path / "web.yml").write_text("http_server_config: {http2: false}\n")
    code, found = findings('[http]\nweb_config = "web.yml"\n')
    assert code == 0
    assert found["http", "web.yml"]["detail"] == "no TLS, 0 users"


@contextmanager
def answering(text: bytes, status: int = 200):
    """Something that speaks HTTP on loopback; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("text", "status", "code", "said"),
    [
        pytest.param(b"logwatch is healthy.\n", 200, 0, "logwatch answers there already", id="logwatch"),
        pytest.param(
            b"logwatch makes no progress.\n", 503, 0, "logwatch answers there already", id="a sick one"
        ),
        pytest.param(b"", 401, 0, "logwatch answers there already", id="one that asks who it is"),
        pytest.param(
            b"it works", 200, 2, "cannot listen there: address already in use; stop", id="another program"
        ),
    ],
)
def test_who_has_the_address(findings, monkeypatch, text, status, code, said):
    """A port that the daemon could not have is a problem, unless the daemon has it."""
    with answering(text, status) as address:
        monkeypatch.setenv("LOGWATCH_HTTP__LISTEN", address)
        status, found = findings("")
    assert status == code
    assert said in found["http", address]["detail"] + found["http", address]["problem"]


def test_an_address_that_is_free_is_said_to_be(findings):
    """And one that is no address of this machine is a problem."""
    assert findings("")[1]["http", "127.0.0.1:0"]["detail"] == "free"


def test_an_address_of_another_machine_is_a_problem(findings, monkeypatch):
    """Nobody else is asked what is there."""
    monkeypatch.setenv("LOGWATCH_HTTP__LISTEN", "192.0.2.1:9877")
    monkeypatch.setattr("urllib.request.urlopen", None)
    code, found = findings("")
    assert code == 2
    assert "cannot listen there" in found["http", "192.0.2.1:9877"]["problem"]


def test_the_help_shows_a_configuration_that_is_valid(findings):
    """What a message of a broken configuration points to can be copied, and names every section."""
    shown = CliRunner().invoke(command, ["--help"], terminal_width=120).output
    begin, end = shown.index("[[source]]"), shown.index("A relative path")
    example = textwrap.dedent(" " * 4 + shown[begin:end]).replace('listen     = "127.0.0.1:9877"', "")
    sections = set(tomllib.loads(example))
    assert sections == set(Config.model_fields) - {"baseline", "tuned"}  # these are written by `tune`
    code, found = findings(example)
    assert {part: each["problem"] for (part, _), each in found.items() if each["problem"]}.keys() <= {
        "http", "grammar", "source", "alert",
    }  # fmt: skip
    assert code == 2
