"""A server whose log goes silent while it answers: told by replay and by the daemon, with its onset and its end."""

import json

from click.testing import CliRunner
from daemon_kit import opened, running, watch_config

from logwatch.cli import cli
from logwatch.model import Change, Incident, Read
from logwatch.outlets.deliver_text import description, summary

DECODE = (
    "[2026-02-11 {} TP0] Decode batch, #running-req: 1, #token: 77, token usage: 0.00, accept len: 1.93, "
    "accept rate: 0.46, cuda graph: True, gen throughput (token/s): 97.35, #queue-req: 0\n"
)
ANSWER = '[2026-02-11 {}] INFO:     127.0.0.1:43856 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
HEALTH = '[2026-02-11 {}] INFO:     127.0.0.1:43858 - "GET /health HTTP/1.1" 200 OK\n'


def clock(seconds):
    return f"{8 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


WORKS = "".join(DECODE.format(clock(n)) + ANSWER.format(clock(n)) for n in range(20))
SILENT = "".join(ANSWER.format(clock(n)) + HEALTH.format(clock(n)) for n in range(60, 180))
WORKS_AGAIN = DECODE.format(clock(200)) * 3


def test_replay_tells_silence(tmp_path):
    """The incident begins with the first answer that no line of work follows, and ends with the next such line."""
    log = tmp_path / "server.log"
    log.write_text(WORKS + SILENT + WORKS_AGAIN)
    result = CliRunner().invoke(cli, ["replay", str(log), "--format", "json"])
    [told] = json.loads(result.stdout)["incidents"]
    assert (result.exit_code, told["kind"], told["direction"]) == (1, "silence", "low")
    assert told["onset"] == {"line": 40, "time": "2026-02-11T08:00:19"}
    assert told["noticed"]["time"] == "2026-02-11T08:01:48"
    assert told["resolved"]["time"] == "2026-02-11T08:03:20"
    assert told["causes"][0]["cause"] == "log_went_quiet"


def test_replay_tells_silence_in_words(tmp_path):
    """What a person reads: no figure where there is none, how many were answered, and what may have happened."""
    log = tmp_path / "server.log"
    log.write_text(WORKS + SILENT)
    result = CliRunner().invoke(cli, ["replay", str(log), "--format", "markdown"])
    assert "requests are answered, but no line of prefill, decode or report is written" in result.stdout
    assert "50 requests were answered within 89 s" in result.stdout
    assert "likely cause: log went quiet" in result.stdout


def test_the_daemon_tells_silence_over_a_restart(tmp_path):
    """Half of the silence is read by one daemon, half by the next, which also sees the end."""
    log, state = tmp_path / "server.log", tmp_path / "state"
    lines = SILENT.splitlines(keepends=True)
    log.write_text(WORKS + "".join(lines[:90]))
    with running(watch_config(log), state) as (_, eyes, _out):
        eyes.wait_until(lambda: sum(item.lines for item in eyes.of(Read)) == 130)
        assert opened(eyes) == []
    with log.open("a") as file:
        file.write("".join(lines[90:]))
    with running(watch_config(log), state) as (_, eyes, out):
        eyes.wait(opened)
        with log.open("a") as file:
            file.write(WORKS_AGAIN)
        eyes.wait(lambda e: [i for i in e.of(Incident) if i.change is Change.RESOLVED])
        [told] = opened(eyes)
    assert (told.kind, told.onset.line, told.noticed.time) == ("silence", 40, "2026-02-11T08:01:48")
    assert summary(told) == "Requests are answered, but the log holds no samples any more."
    assert description(told, 1, resolved=False).startswith(
        "Requests are answered, but the log holds no samples any more, since 2026-02-11 08:00:19 (line 40). "
        "50 requests were answered within 89 s"
    )
    assert "SpecSilence opened" in out.getvalue()
