"""Wrappings come off in any nesting; the message, its time, its rank and its column stay."""

import json
import time as clock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from logwatch.model import Frame, Line, Place
from logwatch.reading.framing import Framing, FramingMemory

MESSAGE = "Decode batch, #running-req: 1, gen throughput (token/s): 140.94, #queue-req: 0"
PREFIX = "[2026-08-15 08:50:19 TP0] "
TIME = "2026-08-15T08:50:19"


def lines_of(*texts: str) -> list[Line]:
    return [Line(Place("x", -1, number), text) for number, text in enumerate(texts, 1)]


def frames_of(*texts: str, framing: Framing | None = None) -> list[Frame]:
    framing = framing or Framing()
    frames = [frame for line in lines_of(*texts) for frame in framing.feed(line)]
    return [*frames, *framing.finish()]


def short(frame: Frame) -> tuple[str, str | None, str | None]:
    return frame.text, frame.time, frame.rank


@pytest.mark.parametrize(
    ("line", "time", "rank"),
    [
        pytest.param(MESSAGE, None, None, id="no wrapping"),
        pytest.param("[03:51:54] " + MESSAGE, "03:51:54", None, id="clock only"),
        pytest.param("[2025-10-16 10:13:56] " + MESSAGE, "2025-10-16T10:13:56", None, id="no rank"),
        pytest.param(
            "[2025-10-16 10:13:56.123 TP3] " + MESSAGE, "2025-10-16T10:13:56.123", "TP3", id="milliseconds"
        ),
        pytest.param(
            "[2025-10-16 10:13:56,123] " + MESSAGE, "2025-10-16T10:13:56.123", None, id="comma fraction"
        ),
        pytest.param(
            "[2025-10-16 10:13:56 TP1 PP2 DP0] " + MESSAGE,
            "2025-10-16T10:13:56",
            "DP0 PP2 TP1",
            id="order of 0.4",
        ),
        pytest.param(
            "[2025-10-16 10:13:56 EP5 TP4 MOE_DP3 ATTN_CP2 PP1 DP0] " + MESSAGE,
            "2025-10-16T10:13:56",
            "DP0 PP1 ATTN_CP2 MOE_DP3 TP4 EP5",
            id="every tag",
        ),
        pytest.param(
            "[2025-10-16 10:13:56 encode_dp_worker[2]] " + MESSAGE,
            "2025-10-16T10:13:56",
            None,
            id="encode worker",
        ),
        pytest.param(
            "[2025-10-16 10:13:56 encode_server] " + MESSAGE, "2025-10-16T10:13:56", None, id="other words"
        ),
        pytest.param("2026-05-21 03:51:35 TP0] " + MESSAGE, "2026-05-21T03:51:35", "TP0", id="bracket lost"),
        pytest.param("TP0] " + MESSAGE, None, "TP0", id="time lost"),
        pytest.param("DP1 TP0 EP0] " + MESSAGE, None, "DP1 TP0 EP0", id="time lost, many tags"),
        pytest.param("[gpu_id=3] " + MESSAGE, None, None, id="SGLang 0.1"),
        pytest.param(
            "2025-10-19 02:44:17 INFO 31223 [DP3 TP3 EP3 scheduler_metrics_mixin.py:222] " + MESSAGE,
            "2025-10-19T02:44:17",
            "DP3 TP3 EP3",
            id="trainer's format with ranks",
        ),
        pytest.param(
            "2025-10-19 02:44:17 INFO 31223 [file.py:222] " + MESSAGE,
            "2025-10-19T02:44:17",
            None,
            id="trainer's format",
        ),
        pytest.param(
            "2025-02-20 15:32:28,973 - INFO - flashinfer.jit: " + MESSAGE,
            "2025-02-20T15:32:28.973",
            None,
            id="level and name",
        ),
        pytest.param(
            "2025-02-20 15:32:28,973 - sglang.x - INFO - " + MESSAGE,
            "2025-02-20T15:32:28.973",
            None,
            id="name and level",
        ),
        pytest.param("(SGLangEngine pid=41850) " + PREFIX + MESSAGE, TIME, "TP0", id="Ray"),
        pytest.param(
            "(SGLangEngine pid=41850, ip=192.0.2.1) " + PREFIX + MESSAGE, TIME, "TP0", id="Ray with address"
        ),
        pytest.param("(pid=41850) " + PREFIX + MESSAGE, TIME, "TP0", id="Ray without name"),
        pytest.param(
            "(Engine(rank=0) pid=41850) " + PREFIX + MESSAGE, TIME, "TP0", id="Ray, parentheses in the name"
        ),
        pytest.param("(A pid=1) (B pid=2, ip=192.0.2.1) " + PREFIX + MESSAGE, TIME, "TP0", id="Ray twice"),
        pytest.param("WorkerWrapper pid=2451) " + PREFIX + MESSAGE, TIME, "TP0", id="Ray, parenthesis lost"),
        pytest.param(
            "\x1b[36m(Engine pid=41850)\x1b[0m " + PREFIX + MESSAGE, TIME, "TP0", id="Ray in colour"
        ),
        pytest.param(
            "(Engine pid=1) " + PREFIX + MESSAGE + " [repeated 3x across cluster]",
            TIME,
            "TP0",
            id="Ray, repeated",
        ),
        pytest.param(
            "(Engine pid=1) "
            + PREFIX
            + MESSAGE
            + " [repeated 3x across cluster] (Ray deduplicates logs by default.)",
            TIME,
            "TP0",
            id="Ray, repeated, with hint",
        ),
        pytest.param(
            "[2026-03-06 11:18:25] (Worker pid=3) " + PREFIX + MESSAGE,
            TIME,
            "TP0",
            id="job runner's time first",
        ),
        pytest.param("(Engine pid=41850)\t" + PREFIX + MESSAGE, TIME, "TP0", id="Ray and a TAB"),
        pytest.param("    " + PREFIX + MESSAGE, TIME, "TP0", id="pasted with indentation"),
        pytest.param("scalellm          | " + PREFIX + MESSAGE, TIME, "TP0", id="docker compose"),
        pytest.param(
            "web_1  | \x1b[32m" + PREFIX + MESSAGE + "\x1b[0m", TIME, "TP0", id="docker compose in colour"
        ),
        pytest.param("2026-08-15T08:50:20.123456789Z stdout F " + PREFIX + MESSAGE, TIME, "TP0", id="CRI"),
        pytest.param(
            "2026-08-15T02:50:20.1-06:00 stderr F " + MESSAGE,
            "2026-08-15T02:50:20.1-06:00",
            None,
            id="CRI with zone",
        ),
        pytest.param(
            "2026-08-15T08:50:20.123456789Z " + PREFIX + MESSAGE, TIME, "TP0", id="kubectl --timestamps"
        ),
        pytest.param(
            "2026-08-15T08:50:20.123456789Z   " + MESSAGE,
            "2026-08-15T08:50:20.123456789Z",
            None,
            id="kubectl, phase line",
        ),
        pytest.param(
            "2026-08-15T08:50:20Z [03:51:54] " + MESSAGE,
            "2026-08-15T08:50:20Z",
            None,
            id="clock does not replace date",
        ),
        pytest.param(
            "2026-09-27T00:15:24.123Z abcdefgh-12345 INFO TP0] " + MESSAGE,
            "2026-09-27T00:15:24.123Z",
            "TP0",
            id="hosting service",
        ),
        pytest.param(
            "DEFAULT 2025-07-23T08:45:34.855882Z " + PREFIX + MESSAGE, TIME, "TP0", id="cloud export"
        ),
        pytest.param(
            "Aug 15 08:50:20 node7 sglang[123]: " + PREFIX + MESSAGE, TIME, "TP0", id="journald short"
        ),
        pytest.param(
            "Aug  5 08:50:20.123456 node7 sglang[123]: " + MESSAGE, None, None, id="journald short-precise"
        ),
        pytest.param(
            "Sat 2026-08-15 08:50:20 UTC node7 sglang[123]: " + MESSAGE,
            "2026-08-15T08:50:20",
            None,
            id="journald short-full",
        ),
        pytest.param(
            "2026-08-15T08:50:20+0000 node7 sglang[1]: " + MESSAGE,
            "2026-08-15T08:50:20+0000",
            None,
            id="journald short-iso",
        ),
        pytest.param("<30>Aug 15 08:50:20 node7 sglang[123]: " + MESSAGE, None, None, id="syslog"),
        pytest.param(
            "Aug 15 08:50:20 node7 sglang: " + MESSAGE, None, None, id="syslog without a process id"
        ),
        pytest.param("Aug 15 08:50:20 " + MESSAGE, None, None, id="ts"),
        pytest.param("INFO:sglang.srt.managers.scheduler:" + MESSAGE, None, None, id="Python's own format"),
        pytest.param(
            "2026-08-15 08:50:19,123:INFO:" + MESSAGE, TIME + ".123", None, id="level between colons"
        ),
        pytest.param(
            "2026-08-15 08:50:19,123 INFO sglang.srt - " + MESSAGE, TIME + ".123", None, id="name and dash"
        ),
        pytest.param(
            "2026-08-15 08:50:19.123 | INFO     | sglang.srt.scheduler:decode:123 - " + MESSAGE,
            TIME + ".123",
            None,
            id="loguru",
        ),
        pytest.param(
            "[2026-08-15 08:50:19,123][sglang.srt][INFO] - " + MESSAGE, TIME + ".123", None, id="Hydra"
        ),
        pytest.param(
            "2026-08-15T08:50:19.123000+00:00 sglang/server/0123abcd " + MESSAGE,
            TIME + ".123000+00:00",
            None,
            id="a container service's stream of logs",
        ),
        pytest.param(
            '2026-08-15T08:50:20Z {app="sglang", pod="sglang-0"} ' + PREFIX + MESSAGE,
            TIME,
            "TP0",
            id="Loki's labels",
        ),
        pytest.param(
            json.dumps({"labels": {}, "line": PREFIX + MESSAGE, "timestamp": "2026-08-15T08:50:20Z"}),
            TIME,
            "TP0",
            id="Loki json",
        ),
        pytest.param(
            json.dumps({"textPayload": MESSAGE, "timestamp": TIME + "Z", "severity": "INFO"}),
            TIME + "Z",
            None,
            id="cloud export, json",
        ),
        pytest.param(
            "<30>1 2026-08-15T08:50:20Z node7 sglang 123 - - " + MESSAGE,
            "2026-08-15T08:50:20Z",
            None,
            id="syslog RFC 5424",
        ),
        pytest.param("I0815 07:19:24.745000 18465 run.py:793] " + PREFIX + MESSAGE, TIME, "TP0", id="glog"),
        pytest.param("[0] " + PREFIX + MESSAGE, TIME, "TP0", id="mpirun"),
        pytest.param("301.39.147.975 I " + MESSAGE, None, None, id="llama.cpp"),
        pytest.param("[53409] 5.05.552.787 I " + MESSAGE, None, None, id="llama.cpp behind its router"),
        pytest.param(
            "2026-08-15 08:50:19.123 | 1.12.930.414 I " + MESSAGE,
            TIME + ".123",
            None,
            id="llama.cpp in a log viewer",
        ),
        pytest.param(
            "[08/15/2026-08:50:19] [TRT-LLM] [I] [_torch][RANK 3] " + MESSAGE,
            TIME,
            "RANK3",
            id="TensorRT-LLM",
        ),
        pytest.param("[08/15/2026-08:50:19] [TRT-LLM] [I] " + MESSAGE, TIME, None, id="TensorRT-LLM, older"),
        pytest.param("[1,0]<stdout>: " + PREFIX + MESSAGE, TIME, "TP0", id="mpirun tagged"),
        pytest.param("[default0]:" + PREFIX + MESSAGE, TIME, "TP0", id="torchrun"),
        pytest.param("[rank3]: " + PREFIX + MESSAGE, TIME, "TP0", id="torchrun, newer"),
        pytest.param(
            "[rank4]:[E304 12:54:52.122900428 ProcessGroupNCCL.cpp:616] " + MESSAGE, None, None, id="PyTorch"
        ),
        pytest.param("sglang.1.abc@node7    | " + PREFIX + MESSAGE, TIME, "TP0", id="docker service logs"),
        pytest.param("server.log:" + PREFIX + MESSAGE, TIME, "TP0", id="grep -H"),
        pytest.param("/var/log/a-b/server.log.1:12:" + PREFIX + MESSAGE, TIME, "TP0", id="grep -Hn"),
        pytest.param("server.log-12-" + PREFIX + MESSAGE, TIME, "TP0", id="grep -n with context"),
        pytest.param("12:" + PREFIX + MESSAGE, TIME, "TP0", id="grep -n"),
        pytest.param("0: " + PREFIX + MESSAGE, TIME, "TP0", id="srun --label"),
        pytest.param("INFO 05-01 14:24:50 [metrics.py:101] " + MESSAGE, None, None, id="vLLM"),
        pytest.param(
            "2025-07-29T15:39:27.815Z WARNING 07-29 15:39:27 [a.py:17] " + MESSAGE,
            "2025-07-29T15:39:27.815Z",
            None,
            id="vLLM in a job service",
        ),
        pytest.param(
            "\x1b[1;31m" + PREFIX + "Decode \x1b[0mbatch" + MESSAGE[12:], TIME, "TP0", id="colours within"
        ),
        pytest.param(
            json.dumps(
                {"log": PREFIX + MESSAGE + "\n", "stream": "stderr", "time": "2026-08-15T08:50:20.5Z"}
            ),
            TIME,
            "TP0",
            id="Docker json-file",
        ),
        pytest.param(
            json.dumps({"log": "\x1b[36m" + MESSAGE + "\x1b[0m\n", "time": "2026-08-15T08:50:20.5Z"}),
            "2026-08-15T08:50:20.5Z",
            None,
            id="Docker, colour and no inner time",
        ),
        pytest.param(
            json.dumps({"__REALTIME_TIMESTAMP": "1786783820000001", "MESSAGE": MESSAGE}),
            "2026-08-15T08:50:20.000001+00:00",
            None,
            id="journald json",
        ),
        pytest.param(
            json.dumps({"MESSAGE": list((PREFIX + MESSAGE).encode())}), TIME, "TP0", id="journald json, bytes"
        ),
        pytest.param(
            "web  | " + json.dumps({"log": "(A pid=1) " + PREFIX + MESSAGE + "\n"}),
            TIME,
            "TP0",
            id="compose, json, Ray",
        ),
    ],
)
def test_wrappings_come_off(line, time, rank):
    """The message is what the program wrote; its time and rank are the innermost ones."""
    frames = [frame for frame in frames_of(line) if "Decode" in frame.text]
    assert [(frame.text.strip(), frame.time, frame.rank) for frame in frames] == [(MESSAGE, time, rank)]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(PREFIX + MESSAGE, id="plain"),
        pytest.param("(Engine pid=1) " + PREFIX + MESSAGE, id="Ray"),
        pytest.param("\x1b[36m(Engine pid=1)\x1b[0m " + PREFIX + MESSAGE, id="colours before it"),
        pytest.param('{"log":"' + PREFIX + MESSAGE + '\\n"}', id="json"),
        pytest.param("98%|███ | " + PREFIX + MESSAGE, id="progress bar"),
        pytest.param(PREFIX + "Decode ba" + PREFIX + MESSAGE, id="torn"),
    ],
)
def test_the_column_is_that_of_the_physical_line(line):
    """A malformed line can be shown with a caret under what was wrong."""
    frame = frames_of(line)[-1]
    assert frame.text == MESSAGE
    assert frame.column == line.rindex("Decode batch") + 1


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        pytest.param(
            "Capturing batches (bs=1 avail_mem=23.02 GB):  98%|███ | Capturing batches (bs=1): 100%|████ | "
            + PREFIX
            + MESSAGE,
            [("Capturing batches (bs=1 avail_mem=23.02 GB):  ", None, None), (MESSAGE, TIME, "TP0")],
            id="two bars",
        ),
        pytest.param(
            "Capturing (avail_mem=7.08 GB):   0%|          | 0/17 [00:00<?, ?it/s]2025-06-16 11:19:57,453 - INFO - a.jit: Loading",
            [("Capturing (avail_mem=7.08 GB):   ", None, None), ("Loading", "2025-06-16T11:19:57.453", None)],
            id="another logger's line glued to a bar",
        ),
        pytest.param(
            "12it [00:01, 3.70it/s]" + PREFIX + MESSAGE,
            [("12it ", None, None), (MESSAGE, TIME, "TP0")],
            id="bar without a total",
        ),
        pytest.param(
            "Loading… 37%|███  Target verify: 19 ms/cyc",
            [("Loading… ", None, None), ("Target verify: 19 ms/cyc", None, None)],
            id="phase line behind a bar",
        ),
        pytest.param(
            "a:  37%|3  | 1/3 [00:00<00:00, 3.72it/s]",
            [("a:  37%|3  | 1/3 [00:00<00:00, 3.72it/s]", None, None)],
            id="nothing behind the bar",
        ),
        pytest.param(
            PREFIX + "Decode batch, #runn" + PREFIX + MESSAGE,
            [("Decode batch, #runn", TIME, "TP0"), (MESSAGE, TIME, "TP0")],
            id="torn write",
        ),
        pytest.param(
            "[2026-08-15 08:5" + PREFIX + MESSAGE,
            [("[2026-08-15 08:5", None, None), (MESSAGE, TIME, "TP0")],
            id="torn prefix",
        ),
        pytest.param(
            'INFO:     192.0.2.5:44476 - "POST /v1/chat/completions HTTP/1.1" 200 OK' + PREFIX + MESSAGE,
            [
                ('INFO:     192.0.2.5:44476 - "POST /v1/chat/completions HTTP/1.1" 200 OK', None, None),
                (MESSAGE, TIME, "TP0"),
            ],
            id="access line without its newline",
        ),
        pytest.param(
            '{"log":"a\\n","stream":"stderr"}{"log":"b\\n","stream":"stderr"}',
            [("a", None, None), ("b", None, None)],
            id="two objects on one line",
        ),
        pytest.param(
            '{"MESSAGE":"a\\nb"}', [("a", None, None), ("b", None, None)], id="a journal entry of two lines"
        ),
    ],
)
def test_a_line_may_hold_several_messages(line, messages):
    """Each message of a line is a frame, and each has its own prefix."""
    assert [short(frame) for frame in frames_of(line)] == messages


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(f"Receive: obj=GenerateReqInput(text='{PREFIX}{MESSAGE}')", id="a request"),
        pytest.param(f"Receive: obj=GenerateReqInput(text='98%|██ | {MESSAGE}')", id="a request with a bar"),
        pytest.param(
            f"Finish: obj=GenerateReqInput(...), out={{'text': '{PREFIX}{MESSAGE}'}}", id="an answer"
        ),
        pytest.param(f'prompt "{PREFIX}{MESSAGE}"', id="a quoted prompt"),
    ],
)
@pytest.mark.parametrize("before", [pytest.param(PREFIX, id="prefixed"), pytest.param("", id="bare")])
def test_user_text_is_never_taken_for_a_log_line(before, message):
    """What users sent may look like a log line and stays what it is."""
    assert [frame.text for frame in frames_of(before + message)] == [message]


@pytest.mark.parametrize("before", ["Aug 15 08:50:20 ", "2026-08-15T08:50:20Z ", "2026-08-15 08:50:20 "])
def test_a_label_of_two_words_is_no_host_and_program(before):
    """`Target verify: ` stands where a host and a program may stand."""
    (frame,) = frames_of(before + "Target verify: 19.14 ms/cyc")
    assert frame.text == "Target verify: 19.14 ms/cyc"


@pytest.mark.parametrize(
    ("before", "writer"),
    [
        pytest.param("", None, id="nobody says"),
        pytest.param("(Engine pid=1, ip=192.0.2.1) ", "Engine pid=1, ip=192.0.2.1", id="Ray"),
        pytest.param("web  | (Engine pid=1) ", "web/Engine pid=1", id="Ray in compose"),
        pytest.param("[3] ", "3", id="mpirun"),
        pytest.param("a.log:12:", "a.log", id="grep"),
        pytest.param("a.log-12-", "a.log", id="grep, context"),
        pytest.param("12:", None, id="grep, number only"),
        pytest.param("Aug 15 08:50:20 node7 sglang[123]: ", "node7 sglang[123]", id="journald"),
        pytest.param("2026-09-27T00:15:24.123Z abcdefgh-12345 INFO ", "abcdefgh-12345", id="hosting service"),
        pytest.param("2026-08-15T08:50:20Z stdout F ", None, id="CRI"),
        pytest.param("2026-08-15T08:50:20Z a/b/c ", "a/b/c", id="a container service's stream of logs"),
        pytest.param('{pod="sglang-0"} ', 'pod="sglang-0"', id="Loki's labels"),
    ],
)
def test_the_writer_is_named_by_the_wrappings(before, writer):
    """Lines of several processes can be told apart where they interleave."""
    (frame,) = frames_of(before + PREFIX + MESSAGE)
    assert (frame.writer, frame.text) == (writer, MESSAGE)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        pytest.param("[2024-10-28 13:04:11 TP0] {}", "] {}", id="SGLang 0.3.6"),
        pytest.param("[03:51:54] {}", "] {}", id="SGLang 0.3.3"),
        pytest.param("2024-10-28T13:04:11.1Z stderr F [2024-10-28 13:04:11 TP0] {}", "] {}", id="in a container"),
        pytest.param("{}", "{}", id="without a prefix"),
        pytest.param("ERROR 10-11 12:27:29 engine.py:157] {}", "{}", id="another program's"),
        pytest.param("[2026-03-10 04:30:10] Scheduler hit an exception: {}", "Scheduler hit an exception: {}", id="later"),
    ],
)  # fmt: skip
def test_only_the_prefix_leaves_its_bracket_before_a_traceback(line, text):
    """The oldest servers said no more when they died, and any request's error says the same without the prefix."""
    line, text = (each.format("Traceback (most recent call last):") for each in (line, text))
    (frame,) = frames_of(line)
    assert (frame.text, frame.column) == (text, len(line) - len(text) + 1)


def test_tables_with_bars_are_not_docker_compose():
    """NCCL's tables hold bars, and a phase's label is not a service's name."""
    line = "node-a:5637:5670 [0] NCCL INFO Latency/AlgBw |    Tree/    LL |    Tree/ LL128 |"
    assert [frame.text for frame in frames_of(line)] == [line]


CUT = [
    pytest.param(
        [
            f"2026-08-15T08:50:20Z stdout {flag} {part}"
            for flag, part in [("P", "Dec"), ("P", "ode "), ("F", "batch")]
        ],
        [("Decode batch", "2026-08-15T08:50:20Z", None, True)],
        id="CRI parts",
    ),
    pytest.param(
        [
            "2026-08-15T08:50:20Z stdout P Dec",
            "2026-08-15T08:50:20Z stderr F other",
            "2026-08-15T08:50:21Z stdout F ode batch",
        ],
        [("other", "2026-08-15T08:50:20Z", None, True), ("Decode batch", "2026-08-15T08:50:20Z", None, True)],
        id="CRI parts of two streams",
    ),
    pytest.param(
        ["2026-08-15T08:50:20Z stdout P Decode", "2026-08-15T08:50:21Z stdout F " + PREFIX + "Prefill"],
        [("Decode", "2026-08-15T08:50:20Z", None, False), ("Prefill", TIME, "TP0", True)],
        id="CRI, end lost by a rotation",
    ),
    pytest.param(
        ["2026-08-15T08:50:20Z stdout P " + PREFIX + "Decode"],
        [("Decode", TIME, "TP0", False)],
        id="CRI, input ends",
    ),
    pytest.param(
        [
            json.dumps({"log": PREFIX + "x" * 16_384, "stream": "stderr"}),
            json.dumps({"log": "y\n", "stream": "stderr"}),
        ],
        [("x" * 16_384 + "y", TIME, "TP0", True)],
        id="Docker cut at 16 KiB",
    ),
    pytest.param(
        [json.dumps({"log": "a", "stream": "stderr"}), json.dumps({"log": "b", "stream": "stderr"})],
        [("a", None, None, True), ("b", None, None, True)],
        id="a collector that drops newlines",
    ),
]


@pytest.mark.parametrize(("texts", "expected"), CUT)
def test_parts_of_a_cut_message_are_joined(texts, expected):
    """Parts become one message, per stream, and one whose end was lost is flagged."""
    assert [(*short(frame), frame.complete) for frame in frames_of(*texts)] == expected


@pytest.mark.parametrize(("texts", "expected"), CUT)
def test_a_restored_framing_continues_exactly(texts, expected):
    """What is awaited survives a restart between any two lines."""
    adapter = TypeAdapter(FramingMemory)
    frames: list[Frame] = []
    framing = Framing()
    for line in lines_of(*texts):
        frames += framing.feed(line)
        stored = adapter.dump_json(framing.memory)
        framing = Framing()
        framing.memory = adapter.validate_json(stored)
    frames += framing.finish()
    assert [(*short(frame), frame.complete) for frame in frames] == expected


def test_parts_without_end_do_not_grow_without_bound():
    """A message whose last part never comes is given in pieces of a megabyte."""
    framing = Framing()
    part = "2026-08-15T08:50:20Z stdout P " + "x" * 16_384
    for line in lines_of(*[part] * 200):
        list(framing.feed(line))
        assert sum(part.length for part in framing.memory.parts.values()) <= 1 << 20


def test_the_streams_that_are_awaited_are_few():
    """A hostile log with thousands of stream names costs no memory."""
    framing = Framing()
    for number in range(1000):
        entry = json.dumps({"log": "x" * 16_384, "stream": f"s{number}"})
        list(framing.feed(Line(Place("x", -1, number), entry)))
    assert len(framing.memory.parts) <= 8


PIECES = [
    PREFIX,
    MESSAGE,
    "[20",
    "(",
    "pid=1) ",
    "{",
    '{"log":"',
    '\\n"}',
    "98%|██",
    " | ",
    "] ",
    "\x1b[3",
    "it/s]",
    "2026-08-15T08:50:20Z ",
    "stdout P ",
    "TP0",
    "INFO ",
    "'",
    "\ufffd",
    "1",
]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), max_size=6))
@example([f"2026-08-15T08:50:20Z stdout P {part}" for part in (PREFIX, MESSAGE + PREFIX)])
@settings(deadline=None)
def test_no_line_breaks_framing(texts):
    """Any line gives frames whose columns lie in the line, or in the lines that were joined; nothing is raised."""
    joined = any("stdout P " in text for text in texts)
    longest = (sum if joined else max)([0, *map(len, texts)])
    for frame in frames_of(*texts):
        assert 1 <= frame.column <= longest + 2
        assert frame.place.line in range(1, len(texts) + 1)


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(piece, id=repr(piece))
        for piece in [*PIECES, "a", " ", "\x1b[3m", "[0] ", "[1", '{"log":{']
    ],
)
def test_a_line_of_a_megabyte_takes_linear_time(piece):
    """A hostile line of ten times the length takes about ten times as long, never a hundred times."""

    def seconds(length: int) -> float:
        line = piece * (length // len(piece))
        begin = clock.process_time()
        frames_of(line)
        return clock.process_time() - begin

    small = max(min(seconds(50_000) for _ in range(2)), 0.002)
    assert seconds(500_000) < 40 * small
