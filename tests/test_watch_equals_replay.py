"""The theorem of the house: for any bytes, cut into any chunks, `watch` and `replay` give the same."""

from __future__ import annotations

import gzip
import lzma
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from logwatch.commands.replay_reading import Cutter, Feeder
from logwatch.commands.replay_streams import Stream
from logwatch.commands.replay_worker import Job, work
from logwatch.config import Config
from logwatch.grammar.load import load_grammars
from logwatch.intake.bulk import Bulk
from logwatch.model import Change, Incident, Malformed, Read, Record
from logwatch.pipeline import Pipeline, Settings

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"
FILES = sorted(path for path in LOGS.rglob("*") if path.is_file() and path.suffix in {".log", ".txt"})
SETTINGS = Settings.of_config(Config())
BULK = Bulk(load_grammars())

PIECES = [
    b"[2024-10-28 13:04:11 TP0] Traceback (most recent call last):\n",
    b"Traceback (most recent call last):\n",
    b"[2026-02-11 08:15:02 TP0] ",
    b"[2026-02-11 08:15:03.123 DP1 TP0] ",
    b"[08:15:04] ",
    b"(RayWorker pid=12, ip=10.0.0.1) ",
    b"2026-02-11T08:15:02.123456789Z stdout F ",
    b"2026-02-11T08:15:02.123456789Z stdout P ",
    b"server  | ",
    b"Feb 11 08:15:02 host sglang[77]: ",
    b'{"log":"',
    b'\\n","stream":"stdout","time":"2026-02-11T08:15:02Z"}',
    b'{"MESSAGE":"  Target verify: 19.14 ms\\/cyc"}',
    b"\x1b[36m",
    b"\x1b[0m",
    b"\r",
    b"\r\n",
    b"\n",
    b"\0",
    b"\0" * 40,
    b"\xff",
    b"\xc3",
    "é\u2028█".encode(),
    b"EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%",
    b"[EAGLE3 profile] 100 cycles",
    b"  Draft forward:      0.53 ms/cyc  (  2.6%)\n",
    b"  Target verify:     19.14 ms/cyc  ( 95.0%)\n",
    b"  Target verify:     28.96 ms/cyc  ( 97.0%)\n",
    b"  Target verify:     nan ms/cyc\n",
    b"  Total cycle:       20.15 ms/cyc\n",
    b"  Accept len:         0.92\n",
    (
        b"Decode batch, #running-req: 1, #token: 77, token usage: 0.00, accept len: 1.93, accept rate: 0.46, "
        b"cuda graph: True, gen throughput (token/s): 340.35, #queue-req: 0"
    ),
    b"Decode batch. #running-req: 1, #token: 154, token usage: 0.0",
    b"Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 0, token usage: 0.00, #running-req: 0",
    b"server_args=ServerArgs(model_path='/m', tp_size=8, speculative_num_steps=2)\n",
    b"NCCL_PROTO set by environment to LL",
    b"The server is fired up and ready to roll!\n",
    b'INFO:     127.0.0.1:43856 - "POST /generate HTTP/1.1" 200 OK\n',
    b"Capturing batches (bs=1 avail_mem=1 GB):  50%|###  | 1/2 [00:01<00:01,  1.0s/it]",
    b"Receive: obj=GenerateReqInput(text='Decode batch, #running-req: 9')\n",
    b"x" * 300,
]
LINES = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)), max_size=40).map(b"".join)
CUTS = st.lists(st.integers(1, 400), max_size=12)


def chunks_of(data, cuts):
    """Pieces of the given sizes, the last one as long as it must be."""
    begin = 0
    for size in cuts:
        yield data[begin : begin + size]
        begin += size
    yield data[begin:]


def watched(data, cuts=()):
    """Items as the daemon gets them: bytes through the streaming stages."""
    pipeline = Pipeline(SETTINGS, "s", "p")
    items = [item for chunk in chunks_of(data, cuts) if chunk for item in pipeline.feed_bytes(chunk)]
    return [*items, *pipeline.finish()]


def replayed(data, cuts=(), bulk=BULK):
    """Items as `replay` gets them, in bulk where it can; and the records that it does not give one by one."""
    pipeline = Pipeline(SETTINGS, "s", "p")
    feeder = Feeder(pipeline, "p")
    items = [item for unit in units_of(data, cuts, bulk) for item in feeder.take(unit)]
    return [*items, *pipeline.finish()], feeder.unseen


def units_of(data, cuts, bulk=BULK):
    """The units of a file that comes in these pieces."""
    cutter = Cutter("p")
    yield from (unit for chunk in chunks_of(data, cuts) if chunk for unit in cutter.cut(chunk, bulk))
    yield from cutter.finish()


def told(items, unseen=None):
    """What was found out, in order; how many records of each kind; what was read."""
    reads = [item for item in items if isinstance(item, Read)]
    sizes = {
        name: sum(getattr(read, name) for read in reads)
        for name in ("bytes", "lines", "matched", "malformed")
    }
    kinds = Counter(item.kind for item in items if isinstance(item, Record))
    return (
        [item for item in items if not isinstance(item, Read | Record)],
        kinds + (unseen or Counter()),
        sizes,
    )


def records_of(data):
    """Records of the whole bytes, streaming and in bulk; None where bulk refuses."""
    head = data.find(b"\n") + 1
    end = data.rfind(b"\n") + 1
    chunk = BULK.read(data[head:end], "p", 2, head) if head < end else None
    if chunk is None:
        return None, None
    pipeline = Pipeline(SETTINGS, "s", "p")
    items = [*pipeline.feed_bytes(data[:head])]
    if pipeline.memory.framing.parts:
        return None, None  # the first line is a part of a message: then `Feeder` does not ask either
    items += [*pipeline.feed_bytes(data[head:end]), *pipeline.finish()]
    expected = [item for item in items if isinstance(item, Record | Malformed) and item.place.offset >= head]
    return expected, list(chunk.records())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LOGS)))
def test_every_log_at_hand_replays_as_it_was_watched(path):
    """Real server logs and every collected case: same records, cycles, judgements and incidents."""
    data = path.read_bytes()
    expected = told(watched(data, [1000] * (len(data) // 1000)))
    assert told(*replayed(data)) == expected
    assert told(*replayed(data, [777] * (len(data) // 777))) == expected


def test_all_logs_in_one_stream_replay_as_they_were_watched():
    """Restarts, other versions, other wrappings, one after the other, in chunks that cut lines."""
    data = b"\n".join(path.read_bytes() for path in FILES)
    expected = told(watched(data, [65536] * (len(data) // 65536)))
    assert told(*replayed(data, [40_000] * (len(data) // 40_000))) == expected


@given(LINES, CUTS, CUTS)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(b"\xef\xbb\xbf  Target verify:     19.14 ms/cyc\n" * 2, [1, 1], [2])
@example(b"\n\n  Target verify: 19.14 ms/cyc\n", [1], [1])
@example(
    b"x\n[2026-02-11 08:15:02 TP0] [EAGLE3 profile] 100 cycles 50%| 1/2 [00:01<00:01, 1.0s/it]\n", [], []
)
@example(b"x\n  Target verify: 19.14 ms/cyc\r  Target verify: 19.15 ms/cyc\r\n", [], [])
def test_any_bytes_in_any_chunks_replay_as_they_were_watched(data, cuts, other_cuts):
    """Whatever a log holds, and however it is cut, both entrances agree."""
    assert told(*replayed(data, other_cuts)) == told(watched(data, cuts))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LOGS)))
def test_every_record_of_every_log_is_the_same_in_bulk(path):
    """Field by field, with place, time and rank."""
    expected, found = records_of(path.read_bytes())
    assert found == expected


@given(LINES)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_record_of_any_bytes_is_the_same_in_bulk(data):
    """What bulk does not refuse, it reads as the streaming stages do."""
    expected, found = records_of(data)
    assert found == expected


DECODE = (
    b"Decode batch, #running-req: 1, #token: 77, token usage: 0.00, accept len: 1.93, accept rate: 0.46, "
    b"cuda graph: True, gen throughput (token/s): 340.35, #queue-req: 0"
)
AT = b"[2026-02-11 08:15:02 TP0] "


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"  Target verify: 19.14 ms/\x1b[0mcyc\n", id="a colour inside an anchor"),
        pytest.param(AT + b"loading " + AT + DECODE + b"\n", id="two writers on one line"),
        pytest.param(AT + DECODE + AT + DECODE + b"\n", id="a record torn by another"),
        pytest.param(AT + b"[EAGLE3 profile] 100 cycles" + AT + DECODE + b"\n", id="a header torn by a record"),
        pytest.param(AT + b" 50%|###  | 1/2 [00:01<00:01, 1.0s/it]" + DECODE + b"\n", id="behind a bar"),
        pytest.param(b"  3it [00:01, 3.7it/s] Target verify: 19.14 ms/cyc\n", id="a bar without percent"),
        pytest.param(b"  x TP0] Target verify: 19.14 ms/cyc\n", id="a prefix without its beginning"),
        pytest.param(b"  (Worker pid=12) Target verify: 19.14 ms/cyc\n", id="Ray behind blanks"),
        pytest.param(b" \t2026-02-11T08:15:02Z   Target verify: 19.14 ms/cyc\n", id="a container's line behind blanks"),
        pytest.param(b"  Target verify: 19.14 ms/cyc\r\n", id="CRLF"),
        pytest.param(b"  Target verify: 19.14 ms/cyc\rnoise\n", id="a carriage return"),
        pytest.param(b"  Target verify\xff: 19.14 ms/cyc\n" + AT + DECODE + b"\n", id="no UTF-8"),
        pytest.param("  Cible vérifiée: 19.14 µs/cyc\n".encode(), id="letters of other languages"),
        pytest.param("  Target\u2028verify: 19.14 ms/cyc\x85\x1c\n".encode(), id="line ends that are none"),
        pytest.param(b'{"log":"  Target verify: 19.14 ms\\/cyc\\n","stream":"stdout"}\n', id="JSON's escapes"),
        pytest.param(b'{"MESSAGE":"\\u0044ecode batch, #running-req: 1, #token: 7"}\n', id="JSON's letters"),
        pytest.param(b"2026-02-11T08:15:02Z stdout P   Target verify: 19.\n"
                     b"2026-02-11T08:15:02Z stdout F 14 ms/cyc\n", id="a container's parts"),
        pytest.param(b"2026-02-11T08:15:02Z stdout F   Target verify: 19.14 ms/cyc\n", id="a container's line"),
        pytest.param(b"(RayWorker pid=12) " + AT + DECODE + b" [repeated 3x across cluster]\n", id="Ray"),
        pytest.param(b"  Target \0verify: 19.14 ms/cyc\n", id="a hole"),
        pytest.param(b"[2026-02-11 08:15:02 TP0 x] " + DECODE + b"\n", id="a rank that is none"),
        pytest.param(b"[2026-02-11 08:15:02,123 TP0] " + DECODE + b"\n", id="another clock"),
        pytest.param(b"[2026-02-11 08:15:02 TP0]  \t" + DECODE + b"  \n", id="blanks at both ends"),
        pytest.param(AT + DECODE.replace(b"0.46", b"nan") + b"\n", id="a value that is none"),
        pytest.param(AT + DECODE.replace(b"77", b"9" * 30) + b"\n", id="a number too long"),
        pytest.param(AT + b"Receive: obj=Req(text='" + DECODE + b"')\n", id="a user's text"),
        pytest.param(b"\n" * 5 + AT + DECODE + b"\n\n" + AT + DECODE + b"\n", id="empty lines"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("times", [1, 110], ids=["alone", "many"])
def test_tricky_lines_are_the_same_in_bulk(data, times):
    """Each of them once was, or could be, what a column form gets wrong; few lines are not read as columns."""
    data = b"first\n" + data * times + AT + DECODE + b"\n" + data
    assert told(*replayed(data)) == told(watched(data))
    expected, found = records_of(data)
    assert found == expected


PHASES = [
    b"  Draft forward:      0.53 ms/cyc  (  2.6%)\n",
    b"  Target verify:     19.14 ms/cyc  ( 95.0%)\n",
    b"  Draft extend:       0.48 ms/cyc  (  2.4%)\n",
    b"  Total cycle:       20.15 ms/cyc\n",
    b"  Accept len:         0.92\n",
]
HEADERS = [
    b"[2026-02-11 08:15:02 TP0] [EAGLE3 profile] 100 cycles\n",
    b"[2026-02-11 08:15:03 TP1] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n",
    b"[EAGLE3 profile] 100 cycles\n",
    b"",
]
WHOLE = HEADERS[0] + b"".join(PHASES)
READY = AT + b"The server is fired up and ready to roll!\n"
CRASH = AT + b"Received sigquit from a child process. It usually means the child failed.\n"
LOOSE = [
    *PHASES,
    *HEADERS,
    b"  Target verify:     28.95 ms/cyc\n",
    b"  Verify min/p99/max: 19.02 / 19.33 / 19.80 ms\n",
    AT + DECODE + b"\n",
    AT + b"Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 0\n",
    AT + b"server_args=ServerArgs(tp_size=2)\n",
    READY,
    CRASH,
    AT + b'INFO:     127.0.0.1:43856 - "POST /generate HTTP/1.1" 200 OK\n',
    b"  Sampling:           0.10 ms/cyc\n",
]
USUAL = st.builds(
    lambda header, slow: header + b"".join([*PHASES[:1], PHASES[1].replace(b"19.14", slow), *PHASES[2:]]),
    st.sampled_from(HEADERS[:3]),
    st.sampled_from([b"19.14", b"19.14", b"19.15", b"28.95"]),
)
UNUSUAL = st.builds(
    lambda header, lines: header + b"".join(lines),
    st.sampled_from(HEADERS),
    st.lists(st.sampled_from(PHASES), max_size=6),
)
REPORTS = st.lists(st.one_of(USUAL, USUAL, USUAL, UNUSUAL, st.sampled_from(LOOSE)), max_size=40).map(b"".join)


@given(REPORTS, st.one_of(st.just([]), st.just([900]), CUTS))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(
    b"x\n" + HEADERS[0] + b"".join(PHASES[:3]) + (HEADERS[0] + PHASES[0] + PHASES[1] + PHASES[3]) * 2, []
)
@example(b"x\n" + WHOLE * 2 + HEADERS[1] + WHOLE + AT + DECODE + b"\n" + b"".join(PHASES), [])
@example(
    b"x\n" + (WHOLE + HEADERS[1] + WHOLE[len(HEADERS[0]) :]) * 2 + WHOLE + DECODE + b"\n" + LOOSE[-1], []
)
@example(b"x\n" + WHOLE * 2 + CRASH + WHOLE + READY + WHOLE, [])
@example(b"x\n" + WHOLE * 3 + AT + DECODE + b"\n  Sampling:  0.10 ms/cyc\n" + WHOLE, [])
def test_reports_in_one_piece_or_in_any_order_are_the_same(data, cuts):
    """Whole reports have a quick way; interleaved, cut, late and repeated lines do not, and both agree."""
    assert told(*replayed(data, cuts)) == told(watched(data))


ANSWER = 'INFO:     127.0.0.1:43856 - "POST /generate HTTP/1.1" 200 OK'
FORMS = [
    "[{}] " + ANSWER,
    ANSWER,
    "{}Z stdout F " + ANSWER,
    '[{}] \x1b[32mINFO\x1b[0m:     127.0.0.1:1 - "\x1b[1mPOST /v1/completions HTTP/1.1\x1b[0m" 200 OK',
    '{{"log":"' + ANSWER.replace('"', '\\"').replace("POST", "\\u0050OST") + '\\n","time":"{}Z"}}',
    "[{}] " + ANSWER.replace("200 OK", "503 Service Unavailable"),
    "[{}] " + ANSWER.replace("POST /generate", "GET /health"),
    "[{}] " + ANSWER + "\r[{}] " + ANSWER,
]


def answers(count, every_s, form, begin):
    """So many access lines of one form."""
    for n in range(count):
        seconds = begin + int(n * every_s)
        day = "2026-02-11 " if form.startswith("[") else "2026-02-11T"
        at = f"{day}{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        yield form.replace("{{", "{").replace("}}", "}").replace("{}", at).encode() + b"\n"


STRETCHES = st.builds(
    lambda count, every_s, form, begin: b"".join(answers(count, every_s, form, begin)),
    st.sampled_from([1, 30, 49, 50, 60, 99, 100, 101, 149, 150, 400, 2000, 2100]),
    st.sampled_from([0.01, 0.3, 0.6, 1.0, 1.3]),
    st.sampled_from(FORMS),
    st.sampled_from([0, 30, 3600]),
)
QUIET = st.lists(st.one_of(STRETCHES, STRETCHES, USUAL, st.sampled_from(LOOSE)), max_size=12).map(b"".join)


@given(QUIET, st.one_of(st.just([]), st.just([5000] * 100), CUTS))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(b"x\n" + AT + DECODE + b"\n" + b"".join(answers(150, 1.0, FORMS[0], 0)), [6000] * 3)
@example(b"x\n" + AT + DECODE + b"\n" + b"".join(answers(150, 1.0, FORMS[4], 0)) + AT + DECODE + b"\n", [])
@example(b"x\n" + AT + DECODE + b"\n" + b"".join(answers(2100, 0.01, FORMS[1], 0)) + WHOLE, [40_000] * 9)
def test_silence_is_the_same_however_it_was_read(data, cuts):
    """Answers between lines of work are counted alike, within a chunk and over its ends."""
    watch, replay = Pipeline(SETTINGS, "s", "p"), Pipeline(SETTINGS, "s", "p")
    items = [*watch.feed_bytes(data)]
    feeder = Feeder(replay, "p")
    found = [item for unit in units_of(data, cuts) for item in feeder.take(unit)]
    assert told(found)[0] == told(items)[0]
    assert replay.memory.requests == watch.memory.requests


def test_a_silent_stretch_is_an_incident_in_both_entrances():
    """Its onset is the first answer, its end the next decode line; and bulk has read what is around it."""
    usual = AT + DECODE + b"\n"
    quiet = b"".join(answers(200, 1.0, FORMS[0], 29_702))
    data = usual * 400 + quiet + usual * 400
    bulk = BULK.read(data, "p", 1, 0)
    assert bulk is not None
    [opened, resolved] = [item for item in replayed(data)[0] if isinstance(item, Incident)]
    assert (opened.kind, opened.onset.line, opened.noticed.line) == ("silence", 401, 500)
    assert (resolved.change, resolved.resolved.line) == (Change.RESOLVED, 601)
    assert told(*replayed(data, [9000] * 20)) == told(watched(data))


@given(LINES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_was_learnt_from_other_logs_makes_no_difference(data):
    """A bulk reader that has seen much and a new one read the same."""
    assert replayed(data, bulk=Bulk(load_grammars())) == replayed(data)


def test_a_line_of_megabytes_is_read_as_when_watched():
    """Its two ends count in both, in bounded memory."""
    report = b"  Target verify:     28.96 ms/cyc  ( 97.0%)\n"
    data = report * 3 + b"x" * (6 << 20) + report * 3 + b"y" * (1 << 20) + b"\n" + report
    assert told(*replayed(data, [1 << 20] * 8)) == told(watched(data, [70_000] * 120))


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        pytest.param("a.log", bytes, id="plain"),
        pytest.param("a.log.gz", gzip.compress, id="gz"),
        pytest.param("a.log.xz", lzma.compress, id="xz"),
    ],
)
def test_an_archive_sums_up_as_the_file_did(name, pack, tmp_path):
    """Packed or not, large enough for the columns: the same summary."""
    data = b"".join(path.read_bytes() for path in FILES if "sglang_h200" in str(path)) * 4
    path = tmp_path / name
    path.write_bytes(pack(data))
    part = work(Job(Stream("a.log", (str(path),)), Config()))
    summary = part.collector.summary()
    pipeline = Pipeline(SETTINGS, "a.log", str(path))
    from logwatch.outlets.report.summary import Collector

    collector = Collector()
    for item in [*pipeline.feed_bytes(data), *pipeline.finish()]:
        collector.take(item)
    assert summary == collector.summary()
