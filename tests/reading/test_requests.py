"""Requests that were answered are counted between lines of work, whatever is around their access lines."""

import pytest

from logwatch.config import Config
from logwatch.judging.watches import _SPEAKING
from logwatch.model import Change, Incident, Line, Place, Record
from logwatch.pipeline import Pipeline, Settings
from logwatch.reading.framing import Framing
from logwatch.reading.requests import MANY, SOME, WORK, Requests, is_answer

SETTINGS = Settings.of_config(Config())
OK = 'INFO:     127.0.0.1:50198 - "POST /generate HTTP/1.1" 200 OK'
AT = "[2026-02-11 08:15:02] "


def frames(text):
    return list(Framing().feed(Line(Place("x", 0, 1), text)))


@pytest.mark.parametrize(
    ("text", "time"),
    [
        pytest.param(OK, None, id="uvicorn's own form"),
        pytest.param(AT + OK, "2026-02-11T08:15:02", id="with SGLang's clock"),
        pytest.param(OK.removesuffix(" OK"), None, id="without the reason"),
        pytest.param("(APIServer pid=1) " + OK, None, id="vLLM's prefix"),
        pytest.param("server  | " + OK, None, id="docker compose"),
        pytest.param("2026-02-11T08:15:02Z stdout F " + OK, "2026-02-11T08:15:02Z", id="CRI"),
        pytest.param("Feb 11 08:15:02 host sglang[77]: " + OK, None, id="syslog"),
        pytest.param(OK.replace("INFO", "\x1b[32mINFO\x1b[0m").replace('"POST', '"\x1b[1mPOST'), None, id="colours"),
        pytest.param(OK.replace("/generate", "/v1/chat/completions"), None, id="chat"),
        pytest.param(OK.replace("/generate", "/v1/completions?trace=1"), None, id="a query"),
        pytest.param(OK.replace("/generate", "/models/glm/v1/responses"), None, id="behind a root path"),
        pytest.param(OK.replace("127.0.0.1:50198", "::1:50198"), None, id="IPv6"),
        pytest.param("127.0.0.1:50198" + OK.split("50198")[1], None, id="without a level"),
    ],
)  # fmt: skip
def test_an_answer_is_known_in_any_wrapping(text, time):
    """Whatever is around an access line, it says that a request was answered."""
    [frame] = frames(text)
    assert (is_answer(frame), frame.time) == (True, time)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(OK.replace("POST /generate", "GET /metrics"), id="metrics"),
        pytest.param(OK.replace("/generate", "/health_generate"), id="a health check that generates"),
        pytest.param(OK.replace("/generate", "/v1/embeddings"), id="embeddings, which decode nothing"),
        pytest.param(OK.replace("/generate", "/flush_cache"), id="an order"),
        pytest.param(OK.replace("200 OK", "503 Service Unavailable"), id="a request that failed"),
        pytest.param(OK.replace("200 OK", "2000"), id="no status"),
        pytest.param(f"{AT}Receive: obj=GenerateReqInput(text='{OK}')", id="a user's text"),
        pytest.param(f"{AT}the last line was {OK}", id="somebody quotes it"),
    ],
)
def test_what_is_no_answer(text):
    """Failures, health checks, and what users write do not count."""
    assert [is_answer(frame) for frame in frames(text)] == [False]


def test_a_record_for_every_fifty_after_a_minute():
    """It tells how many since the last line of work, and when and where the first was."""
    requests = Requests()
    times = [f"2026-02-11T08:{n // 60:02}:{n % 60:02}" for n in range(200)]
    made = [requests.answered(Place("x", 0, n), times[n]) for n in range(1, 151)]
    first, second = [each for each in made if each]
    assert first == Record(
        Place("x", 0, 100), "access", {"requests": 100, "since_line": 1, "since": times[1]}, times[100]
    )
    assert second.fields["requests"] == 100 + SOME
    requests.work()
    made = [requests.answered(Place("x", 0, n), None) for n in range(1, 2 * MANY)]
    first, *_ = [each for each in made if each]
    assert (first.fields, first.time) == ({"requests": MANY, "since_line": 1}, None)


def test_reading_and_judging_agree_on_what_work_is():
    """What ends silence begins the count anew; so does a start."""
    assert _SPEAKING | {"server_args"} == WORK


PREFIX = "[2026-02-11 08:{:02}:{:02}{}] "
DECODE = (
    "Decode batch, #running-req: 1, #token: 77, token usage: 0.00, accept len: 1.93, accept rate: 0.46, "
    "cuda graph: True, gen throughput (token/s): 340.35, #queue-req: 0\n"
)


def log(answers, every_s=1):
    """A server that decodes, then only answers, then decodes again."""
    lines = [PREFIX.format(0, 0, " TP0") + DECODE]
    for n in range(answers):
        seconds = int(n * every_s)
        lines.append(PREFIX.format(seconds // 60, seconds % 60, "") + OK + "\n")
    return "".join([*lines, PREFIX.format(59, 0, " TP0") + DECODE]).encode()


def test_a_log_of_answers_alone_is_an_incident():
    """Bytes in, silence out; no access line becomes an item or counts as matched, and it survives restarts."""
    data = log(200)
    items = []
    pipeline = Pipeline(SETTINGS, "s", "p")
    for at in range(0, len(data), 999):
        memory, path, line = pipeline.memory, "p", pipeline.line
        pending = pipeline.pending_bytes
        pipeline = Pipeline(SETTINGS, "s", "p")
        pipeline.memory = memory
        pipeline.start_file(path, line, at - pending)
        items += pipeline.feed_bytes(data[at - pending : at + 999])
    opened, resolved = [item for item in items if isinstance(item, Incident)]
    assert (opened.kind, opened.onset.line, opened.noticed.line) == ("silence", 2, 101)
    assert (resolved.change, resolved.resolved.line) == (Change.RESOLVED, 202)
    assert {item.kind for item in items if isinstance(item, Record)} == {"decode"}


def test_a_health_check_is_no_traffic():
    """An idle server that is asked whether it lives is silent for good reason."""
    data = log(2000).replace(b"POST /generate", b"POST /health_generate")
    items = list(Pipeline(SETTINGS, "s", "p").feed_bytes(data))
    assert [item for item in items if isinstance(item, Incident)] == []
