"""Receivers over real sockets and processes; the forms that they get."""

import json
import os
import select
import sys
import time
from pathlib import Path

import pytest
from oncall_kit import LINKS, NOW_S, free_port, incident

from logwatch.errors import ConfigError
from logwatch.outlets.deliver_alerts import Book, enter
from logwatch.outlets.deliver_courier import DeliveryError
from logwatch.outlets.deliver_forms import alertmanager_form, pagerduty_form
from logwatch.outlets.deliver_receivers import (
    Alertmanager,
    Command,
    ReceiverSettings,
    Webhook,
    receivers,
)


def body(*incidents):
    """The alert document after these transitions."""
    book = Book()
    updates = [enter(book, item, LINKS, NOW_S + 600, 0.3) for item in incidents or [incident()]]
    return updates[-1].body


def test_alertmanager_gets_api_v2(http_receiver):
    """POST /api/v2/alerts: a list with one alert, start = onset, end in the near future while it fires."""
    Alertmanager("am", http_receiver.url + "/prefix").send(body(), NOW_S + 600)
    path, headers, sent = http_receiver.next()
    assert path == "/prefix/api/v2/alerts"
    assert headers["Content-Type"] == "application/json"
    (alert,) = sent
    assert alert["labels"] == {
        "alertname": "SpecVerifyOutOfBand",
        "severity": "critical",
        "instance": "node7:9877",
        "stream": "node7",
        "phase": "target_verify",
        "via": "logwatch",
    }
    assert alert["startsAt"] < alert["endsAt"]
    assert alert["generatorURL"] == "http://node7:9877"
    assert alert["annotations"]["runbook_url"] == "http://wiki/runbooks/SpecVerifyOutOfBand.md"


def test_alertmanager_end_is_after_its_start():
    """A resolution in the same second as the onset still gives an interval that Alertmanager takes."""
    onset = incident().onset
    (form,) = alertmanager_form(body(incident(), incident("resolved", resolved=onset)), NOW_S + 600)
    assert form["startsAt"] < form["endsAt"]


def test_webhook_document_is_complete(http_receiver, tmp_path):
    """The documented JSON, with the token from its file."""
    (tmp_path / "token").write_text("s3cret\n")
    Webhook("hook", http_receiver.url, bearer_token_file=tmp_path / "token").send(body(), NOW_S)
    _, headers, sent = http_receiver.next()
    assert headers["Authorization"] == "Bearer s3cret"
    assert set(sent) == {
        "schema",
        "key",
        "change",
        "status",
        "labels",
        "annotations",
        "starts_at",
        "ends_at",
        "changed_at",
        "links",
        "incident",
    }
    assert sent["incident"]["causes"][0]["cause"] == "cuda_graph_off"
    assert sent["incident"]["onset"] == {"line": 41, "time": "2026-02-11T08:15:02"}


def test_slack_form_says_it_in_plain_text(http_receiver, tmp_path):
    """Slack's address is a secret from a file; what comes out of a log can neither mention nor link."""
    (tmp_path / "url").write_text(http_receiver.url + "/services/T/B/x\n")
    hostile = incident(stream="<!channel> *now* <http://evil|click>", detail="<!here> `x`")
    Webhook("slack", tmp_path / "url", template="slack").send(body(hostile), NOW_S)
    path, _, sent = http_receiver.next()
    assert path == "/services/T/B/x"
    assert "<" not in sent["text"]
    types = [
        block["text"]["type"] for block in sent["attachments"][0]["blocks"] if block["type"] != "context"
    ]
    assert types == ["plain_text", "plain_text"]
    context = sent["attachments"][0]["blocks"][-1]["elements"][0]["text"]
    assert "evil" not in context
    assert "Runbook" in context


def test_pagerduty_form_keeps_its_key(tmp_path):
    """Trigger and resolve carry the same `dedup_key` of at most 255 characters."""
    trigger = pagerduty_form(body(), "key")
    resolve = pagerduty_form(body(incident(), incident("resolved")), "key")
    assert (trigger["event_action"], resolve["event_action"]) == ("trigger", "resolve")
    assert trigger["dedup_key"] == resolve["dedup_key"]
    assert len(trigger["dedup_key"]) <= 255
    assert len(trigger["payload"]["summary"]) <= 1024
    assert trigger["payload"]["severity"] == "critical"


@pytest.mark.parametrize(
    ("status", "answer", "message", "letter"),
    [
        pytest.param(500, b"", "answered 500", False, id="server error"),
        pytest.param(400, b"bad\nlabel", "answered 400: bad label", True, id="this alert is refused"),
        pytest.param(404, b"", "answered 404", False, id="wrong address"),
        pytest.param(429, b"", "answered 429", False, id="too many requests"),
        pytest.param(302, b"", "answered 302", False, id="redirections are not followed"),
    ],
)
def test_answers(http_receiver, status, answer, message, letter):
    """What is not 2xx is an error, with the first words of the answer."""
    http_receiver.status, http_receiver.answer = status, answer
    with pytest.raises(DeliveryError) as error:
        Webhook("hook", http_receiver.url + "/secret").send(body(), NOW_S)
    assert str(error.value) == message
    assert error.value.letter is letter


def test_a_receiver_that_is_not_there():
    """The message names the reason and no address, which may be a secret."""
    with pytest.raises(DeliveryError, match=r"^cannot be reached: Connection refused$"):
        Webhook("hook", f"http://127.0.0.1:{free_port()}/secret").send(body(), NOW_S)


@pytest.mark.parametrize("drip", [False, True], ids=["silent", "a byte now and then"])
def test_the_limit_is_for_the_whole_exchange(http_receiver, drip):
    """A receiver that hangs, or answers by drips, costs no more than the time limit."""
    http_receiver.drip = drip
    if not drip:
        http_receiver.hold.clear()
    begun = time.monotonic()
    with pytest.raises(DeliveryError, match=r"no answer within 0\.3 s|cannot be reached"):
        Webhook("hook", http_receiver.url, timeout_s=0.3).send(body(), NOW_S)
    assert time.monotonic() - begun < 30


def test_command_gets_json_on_standard_input(tmp_path):
    """The argument vector is passed as it is: no shell sees it."""
    out = tmp_path / "out"
    script = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2] + sys.stdin.read())"
    Command("page", [sys.executable, "-c", script, str(out), "$(id);"], 20).send(body(), NOW_S)
    assert out.read_text().startswith("$(id);{")
    assert json.loads(out.read_text()[6:])["labels"]["alertname"] == "SpecVerifyOutOfBand"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param("import sys; sys.exit('no\\nway')", "exit status 1: no way", id="exit status"),
        pytest.param("import time; time.sleep(60)", "took longer than 0.5 s", id="too slow"),
        pytest.param("import os; os.close(0); raise SystemExit(3)", "exit status 3", id="reads nothing"),
    ],
)
def test_command_that_fails(script, message):
    """A command that fails or takes too long is an error, and is gone afterwards."""
    limit_s = 0.5 if "sleep" in script else 20
    with pytest.raises(DeliveryError) as error:
        Command("page", [sys.executable, "-c", script], limit_s).send(body(), NOW_S)
    assert str(error.value) == message


def test_command_leaves_no_children(tmp_path):
    """What a command started dies with it, when it is late."""
    pid = tmp_path / "pid"
    script = (
        "import subprocess, sys, pathlib, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    with pytest.raises(DeliveryError):
        Command("page", [sys.executable, "-c", script], 2).send(body(), NOW_S)
    try:
        child = os.pidfd_open(int(pid.read_text()))
    except ProcessLookupError:
        return
    readable, _, _ = select.select([child], [], [], 10)
    os.close(child)
    assert readable, "the child is still alive"


def test_command_that_does_not_exist():
    """A program that is not there is an error of the receiver, not of the daemon."""
    with pytest.raises(DeliveryError, match=r"^cannot be started: No such file or directory$"):
        Command("page", ["/no/such/program"]).send(body(), NOW_S)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        pytest.param([{"alertmanager": "http://a:9093"}], ["alertmanager:a:9093"], id="Alertmanager"),
        pytest.param([{"webhook": "https://h/secret/path"}], ["webhook:h"], id="webhook, path left out"),
        pytest.param(
            [{"webhook_file": Path("/run/slack"), "template": "slack"}], ["slack:slack"], id="Slack"
        ),
        pytest.param([{"command": ("/usr/local/bin/page", "-x")}], ["command:page"], id="command"),
        pytest.param([{"webhook": "https://h/a"}] * 2, ["webhook:h", "webhook:h-2"], id="two of one name"),
        pytest.param([{"command": ("a",), "name": "desk"}], ["desk"], id="named"),
    ],
)
def test_names_tell_receivers_apart_without_secrets(settings, names):
    """A receiver's name is its kind and host, or what the configuration says."""
    assert [r.name for r in receivers(ReceiverSettings(**s) for s in settings)] == names


def test_all_problems_of_receivers_at_once():
    """PagerDuty without a key and a password in an address are both named."""
    with pytest.raises(ConfigError) as error:
        receivers(
            [
                ReceiverSettings(webhook="https://h", template="pagerduty"),
                ReceiverSettings(alertmanager="http://me:pw@am:9093"),
            ]
        )
    assert str(error.value) == (
        "alert[1]: PagerDuty needs a routing key; set `routing_key_file`\n"
        "alert[2]: an address with a password; use `webhook_file` or `bearer_token_file`"
    )


def test_a_secret_that_cannot_be_read_names_its_file_only(tmp_path):
    """The attempt fails and is repeated: the file may come back."""
    with pytest.raises(DeliveryError, match=r"its secret cannot be read from .*token: FileNotFoundError"):
        Webhook("hook", "http://127.0.0.1:9", bearer_token_file=tmp_path / "token").send(body(), NOW_S)
