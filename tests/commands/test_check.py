"""`logwatch check`: everything that `watch` will need, looked at before."""

from __future__ import annotations

import json
import os
import socket
from contextlib import closing

import pytest
from click.testing import CliRunner

from logwatch.commands.check import command


@pytest.fixture
def findings(tmp_path, monkeypatch):
    """Write a configuration, run the command, give status and findings by part and name."""
    monkeypatch.chdir(tmp_path)

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
