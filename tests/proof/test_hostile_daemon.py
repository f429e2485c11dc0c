"""The daemon in front of a hostile log, hostile files and hostile names: what it serves, sends, keeps and says."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from daemon_kit import fetch, opened, running, watch_config
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from spite import BACKWARDS, C1, COLOUR, FILE_NAME, SECRET, everything, steering
from test_hostile_logs import Tags

from logwatch.model import Cycle, Incident, Read


class Receiver(ThreadingHTTPServer):
    """Keeps what is posted to it."""

    def __init__(self):
        self.got, self.status = [], 200
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, dict(self.headers), json.loads(body)))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Everything that a daemon told about the hostile log: pages, letters, log, state."""
    folder = tmp_path_factory.mktemp("daemon")
    log = folder / FILE_NAME
    receiver = Receiver()
    (folder / "url").write_text(receiver.url("slack/WEBHOOKHUSHHUSH"))
    (folder / "token").write_text("TOKENHUSHHUSH")
    (folder / "key").write_text("ROUTINGHUSHHUSH")
    (folder / "page").write_text("#!/bin/sh\ncat > $(dirname $0)/paged\n")
    (folder / "page").chmod(0o755)
    alerts = [
        {"webhook": receiver.url("plain")},
        {
            "webhook_file": str(folder / "url"),
            "template": "slack",
            "bearer_token_file": str(folder / "token"),
        },
        {"webhook": receiver.url("pd"), "template": "pagerduty", "routing_key_file": str(folder / "key")},
        {"alertmanager": receiver.url("am")},
        {"command": [str(folder / "page")]},
        {"webhook": "http://127.0.0.1:9/closed", "bearer_token_file": str(folder / "token"), "timeout": "1s"},
    ]
    state = folder / "state"
    with running(watch_config(str(folder / "*.log"), alert=alerts), state) as (daemon, eyes, out):
        log.write_text(everything(), encoding="utf-8")
        eyes.wait(lambda e: len([i for i in opened(e) if i.phase == "target_verify"]) >= 3)
        pages = {
            path: fetch(daemon, path)
            for path in (
                "/",
                "/metrics",
                "/api/v1/status",
                "/api/v1/samples",
                "/api/v1/incidents",
                "/runbooks",
            )
        }
        pages["openmetrics"] = fetch(daemon, "/metrics", accept="application/openmetrics-text; version=1.0.0")
        eyes.wait_until(
            lambda: {path.split("/")[1] for path, _, _ in receiver.got} == {"plain", "slack", "pd", "am"}
        )
        eyes.wait_until(lambda: (folder / "paged").exists() and "cannot be reached" in out.getvalue())
        paged = (folder / "paged").read_text()
    rows = sqlite3.connect(state / "state.sqlite")
    tables = [name for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    kept = json.dumps([rows.execute(f"SELECT * FROM {table}").fetchall() for table in tables], default=str)
    return {"pages": pages, "letters": receiver.got, "paged": paged, "log": out.getvalue(), "state": kept}


def test_the_page_is_ours(seen):
    """The status page holds one script, ours, and no element or attribute of the log's."""
    for path in ("/", "/runbooks"):
        tags = Tags(seen["pages"][path])
        assert not tags.tags & {"lw-evil", "iframe", "img", "object", "form"}
        assert not [name for name in tags.attributes if name.startswith("on")]
        assert seen["pages"][path].count("<script") <= 1
    assert steering(seen["pages"]["/"]) == []


def test_labels_cannot_be_forged(seen):
    """Both forms of the metrics parse; every family is ours; labels hold nothing that steers a terminal."""
    for page, parse in (("/metrics", parse_text), ("openmetrics", parse_openmetrics)):
        # The library's own parser stumbles over an escaped quote in an exemplar, which Prometheus does not.
        families = list(parse(re.sub(" # {file=.*", "", seen["pages"][page])))
        assert {family.name.partition("_")[0] for family in families} <= {"logwatch", "process", "python"}
        streams = {sample.labels.get("stream") for family in families for sample in family.samples} - {None}
        assert len(streams) == 1
        assert steering(seen["pages"][page]) == []


def test_alerts_say_what_we_say(seen):
    """What people on call read is one line a field, without control, direction or mention characters."""
    texts = [text for _, _, body in seen["letters"] for text in strings(body)]
    texts += list(strings(json.loads(seen["paged"])))
    assert len(texts) > 50
    prose = [text for text in texts if text.startswith(("Firing", "Most likely", "Target verify", "Try"))]
    assert prose
    assert all(steering(text) == [] for text in prose)
    slack = [body for path, _, body in seen["letters"] if path.startswith("/slack")]
    assert all("<lw-evil" not in body["text"] for body in slack)


def strings(value):
    """All texts in a JSON document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def test_the_log_of_the_daemon_is_lines_of_text(seen):
    """What the daemon says of a hostile log cannot steer the terminal of who reads it, nor add lines."""
    assert steering(seen["log"]) == []
    assert all(line.startswith("logwatch ") for line in seen["log"].splitlines())


def test_secrets_stay_where_they_are(seen):
    """Neither the server's secrets nor our own are shown, sent, said or kept."""
    told = {
        "pages": json.dumps(seen["pages"]),
        "letters": json.dumps([body for path, _, body in seen["letters"] if path != "/pd"]),
        "log": seen["log"],
        "state": seen["state"],
        "command": seen["paged"],
    }
    for name, text in told.items():
        assert SECRET not in text, name
    sent = [headers.get("Authorization") for path, headers, _ in seen["letters"] if path.startswith("/slack")]
    assert sent[0] == "Bearer TOKENHUSHHUSH"


def test_only_regular_files_are_followed(tmp_path):
    """Devices, FIFOs without a writer, loops and directories with a log's name neither hang nor are read."""
    (tmp_path / "sound.log").write_text(everything(), encoding="utf-8")
    (tmp_path / "zero.log").symlink_to("/dev/zero")
    (tmp_path / "sound.log.1").symlink_to("/dev/zero")
    (tmp_path / "loop.log").symlink_to("loop.log")
    (tmp_path / "nowhere.log").symlink_to("/nonexistent/x")
    (tmp_path / "folder.log").mkdir()
    os.mkfifo(tmp_path / "fifo.log")
    os.mkfifo(tmp_path / "sound.log.2")
    with running(watch_config(tmp_path / "*.log*"), tmp_path / "state") as (_daemon, eyes, _out):
        eyes.wait(lambda e: len(e.of(Cycle)) > 100)
        with (tmp_path / "sound.log").open("a") as log:
            log.write(everything())
        eyes.wait(lambda e: len(e.of(Cycle)) > 200)
        assert {item.stream for item in eyes.of(Cycle)} == {"sound.log"}


def test_a_rotated_name_leads_nowhere_else(tmp_path):
    """A link with a rotated copy's name is no way to have another file's words shown."""
    log, target = tmp_path / "a.log", tmp_path / "private" / "shadow"
    target.parent.mkdir()
    target.write_text("root:PRIVATEWORDS:1\nDecode batch, #running-req: PRIVATEWORDS\n")
    log.write_text(everything(), encoding="utf-8")
    with running(watch_config(log), tmp_path / "state") as (daemon, eyes, out):
        eyes.wait(lambda e: len(e.of(Cycle)) > 100)
        log.rename(tmp_path / "a.log.2")
        (tmp_path / "a.log.1").symlink_to(target)
        log.write_text(everything(), encoding="utf-8")
        eyes.wait(lambda e: len(e.of(Cycle)) > 200)
        shown = out.getvalue() + fetch(daemon, "/") + fetch(daemon, "/api/v1/status")
        assert "PRIVATEWORDS" not in shown
        assert all(Path(read.path).name != "a.log.1" for read in eyes.of(Read))


def test_what_no_browser_may_do(seen, tmp_path):
    """A foreign page cannot reload the daemon, frame the page, or have it fetch or run anything else."""
    import urllib.error
    import urllib.request

    with running(watch_config(str(tmp_path / "a.log"), http={"listen": "127.0.0.1:0", "enable_reload": True}),
                 tmp_path / "state") as (daemon, _eyes, _out):  # fmt: skip
        with urllib.request.urlopen(daemon.address) as answer:
            headers = answer.headers
        request = urllib.request.Request(
            f"{daemon.address}/-/reload", method="POST", headers={"Origin": "http://evil.example"}
        )
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers


def test_the_state_is_for_its_owner_alone(tmp_path):
    """Directory and files of the state are readable by nobody else."""
    with running(watch_config(tmp_path / "a.log"), tmp_path / "state"):
        modes = {
            path.name: path.stat().st_mode & 0o077
            for path in [tmp_path / "state", *(tmp_path / "state").iterdir()]
        }
    assert set(modes.values()) == {0}, modes


def test_hostile_values_are_there_at_all():
    """The log that these tests use holds what they look for."""
    assert all(each in everything() for each in (COLOUR, C1, BACKWARDS, SECRET))
    assert any(isinstance(item, type) for item in (Incident,))
