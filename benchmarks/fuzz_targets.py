"""What the fuzzers call: each target takes any bytes and asserts what must hold for all of them.

`fuzz.py` drives them by coverage (atheris), `tests/proof/test_fuzz.py` by Hypothesis and by the inputs that
were found before (`fixtures/fuzz/TARGET/`). A target returns None for every input, or raises: that is a bug.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from pydantic import TypeAdapter, ValidationError

from logwatch.commands.replay_reading import Cutter, Feeder
from logwatch.config import Config, load_config
from logwatch.errors import ConfigError, GrammarError, LogwatchError
from logwatch.grammar.load import load_grammars, parse_grammar
from logwatch.grammar.streaming import Reader
from logwatch.intake.bulk import Bulk
from logwatch.intake.tail import Source, Tail
from logwatch.model import Item, Notice, Read, Record
from logwatch.outlets.metrics import Metrics, build_registry
from logwatch.outlets.metrics_memory import MetricsMemory
from logwatch.outlets.state import State
from logwatch.outlets.web.app import build_app
from logwatch.outlets.web.board import Board, BoardMemory
from logwatch.outlets.web.page import page, update
from logwatch.outlets.web.server import Server, bind
from logwatch.outlets.web.site import Site
from logwatch.pipeline import Pipeline, PipelineMemory, Settings

LOG = (
    b"server_args=ServerArgs(model_path='/m', tp_size=8, speculative_num_steps=2)\n"
    b"[2026-02-11 08:15:02 TP0] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n"
    b"  Target verify:     28.96 ms/cyc  ( 97.0%)\n  Total cycle:       29.85 ms/cyc\n"
    b"  Accept len:         0.92\n"
    b"[2026-02-11 08:15:03 TP0] Decode batch, #running-req: 1, #token: 77, token usage: 0.00, "
    b"accept len: 1.93, accept rate: 0.46, cuda graph: True, "
    b"gen throughput (token/s): 340.35, #queue-req: 0\n"
)
"""A little of everything, for targets that need a log."""

PIECES = [
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
    b'{"MESSAGE":"',
    b"\x1b[36m",
    b"\x1b]0;",
    b"\r",
    b"\n",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n",
    b"EAGLE3_PROFILE environment NCCL_PROTO=LL NCCL_ALGO=Ring\n",
    b"[EAGLE3 profile] 100 cycles\n",
    b"  Draft forward:      0.53 ms/cyc  (  2.6%)\n",
    b"  Target verify:     19.14 ms/cyc  ( 95.0%)\n",
    b"  Target verify:     28.96 ms/cyc  ( 97.0%)\n",
    b"  Target verify:     1e308 ms/cyc\n",
    b"  Total cycle:       20.15 ms/cyc\n",
    b"  Accept len:         0.92\n",
    b"Verify min/p99/max: 19.02 / 19.33 / 19.80 ms\n",
    (
        b"Decode batch, #running-req: 1, #token: 77, token usage: 0.00, accept len: 1.93, accept rate: 0.46, "
        b"cuda graph: True, gen throughput (token/s): 340.35, #queue-req: 0\n"
    ),
    b"Decode batch. #running-req: 1, #token: 154, token usage: 0.0",
    b"Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 0, token usage: 0.00, #running-req: 0\n",
    b"server_args=ServerArgs(model_path='/m', tp_size=8, speculative_num_steps=2)\n",
    b"h:1:2 [0] NCCL INFO NCCL_PROTO set by environment to LL\n",
    b"SpecDecoding metrics: Mean acceptance length: 2.10, Accepted throughput: 8.1 tokens/s\n",
    b"The server is fired up and ready to roll!\n",
    b'INFO:     127.0.0.1:43856 - "POST /generate HTTP/1.1" 200 OK\n',
    b"Capturing batches (bs=1 avail_mem=1 GB):  50%|###  | 1/2 [00:01<00:01,  1.0s/it]",
    b"Receive: obj=GenerateReqInput(text='Decode batch, #running-req: 9')\n",
]
"""What logs are made of; also the coverage fuzzer's dictionary."""


@cache
def _settings() -> Settings:
    return Settings.of_config(Config())


@cache
def _scratch() -> Path:
    """A folder in memory where there is one: state files are made by the thousand."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="logwatch-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _split(items: Iterable[Item]) -> tuple[list[Item], Counter[str]]:
    """What was found, and how much was read; how often `Read` reports it is the chunks' affair."""
    found, read = [], Counter[str]()
    for item in items:
        if isinstance(item, Read):
            read.update(
                lines=item.lines, matched=item.matched, ignored=item.ignored, malformed=item.malformed
            )
        else:
            found.append(item)
    return found, +read


def _cut(data: bytes) -> tuple[list[bytes], bytes]:
    """The first bytes say where the rest is cut: (pieces, all of it)."""
    count = data[0] % 16 if data else 0
    cuts, rest = data[1 : count + 1], data[count + 1 :]
    pieces, begin = [], 0
    for size in cuts:
        pieces.append(rest[begin : begin + size])
        begin += size
    return [*pieces, rest[begin:]], rest


def chunks(data: bytes) -> None:
    """Bytes to incidents: what comes out does not depend on how the bytes were cut."""
    pieces, whole = _cut(data)
    one, many = (Pipeline(_settings(), "s", "p") for _ in range(2))
    expected = _split([*one.feed_bytes(whole), *one.finish()])
    got = _split([*(item for piece in pieces for item in many.feed_bytes(piece)), *many.finish()])
    assert got == expected


def _told(items: Iterable[Item], unseen: Counter[str]) -> tuple[list[Item], Counter[str], Counter[str]]:
    """What was found, how many records of each kind, and how much was read."""
    found, read = _split(items)
    kinds = Counter(item.kind for item in found if isinstance(item, Record))
    del read["ignored"]  # a line that bulk never looks at is none
    return [item for item in found if not isinstance(item, Record)], kinds + unseen, read


@cache
def _bulk() -> Bulk:
    return Bulk(load_grammars())


def replay(data: bytes) -> None:
    """Whatever a log holds and however it is cut: `replay`, which reads in bulk, finds what `watch` finds."""
    pieces, whole = _cut(data)
    steady, pipeline = (Pipeline(_settings(), "s", "p") for _ in range(2))
    expected = _told([*steady.feed_bytes(whole), *steady.finish()], Counter())
    cutter, feeder = Cutter("p"), Feeder(pipeline, "p")
    units = [unit for piece in pieces if piece for unit in cutter.cut(piece, _bulk())]
    items = [item for unit in (*units, *cutter.finish()) for item in feeder.take(unit)]
    assert _told([*items, *pipeline.finish()], feeder.unseen) == expected


@cache
def _memory() -> TypeAdapter[PipelineMemory]:
    return TypeAdapter(PipelineMemory)


def restart(data: bytes) -> None:
    """A pipeline that is written down and read back after each piece goes on as if nothing had happened."""
    pieces, whole = _cut(data)
    steady = Pipeline(_settings(), "s", "p")
    expected = _split([*steady.feed_bytes(whole), *steady.finish()])
    pipeline, items, offset = Pipeline(_settings(), "s", "p"), [], 0
    for piece in pieces:
        items += pipeline.feed_bytes(whole[offset : offset + len(piece) + pipeline.pending_bytes])
        offset += len(piece)
        begun = Pipeline(_settings(), "s", "p")
        begun.memory = _memory().validate_json(_memory().dump_json(pipeline.memory))
        offset -= pipeline.pending_bytes
        begun.start_file("p", pipeline.line, offset)
        pipeline = begun
    items += [*pipeline.feed_bytes(whole[offset:]), *pipeline.finish()]
    assert _split(items) == expected


def scrape(data: bytes) -> None:
    """Whatever a log holds: both forms of `/metrics` parse, and the status page is well formed."""
    _, log = _cut(data)
    metrics, board = Metrics(), Board()
    pipeline = Pipeline(_settings(), "s", "p", metrics.notice)
    metrics.add_stream("s", "p")
    for item in (*pipeline.feed_bytes(log), *pipeline.finish()):
        metrics.take(item)
        board.take(item)
    _exposition(metrics)
    document = page(update(board.view(), metrics.sources(), metrics.facts, 1.8e9, lambda _name: None))
    assert document.count("<script") == document.count("</script") == 1


def _exposition(metrics: Metrics) -> None:
    from prometheus_client import exposition, openmetrics

    registry = build_registry(metrics)
    openmetrics_text = openmetrics.exposition.generate_latest(registry).decode()
    for parse, text in (
        (parse_text, exposition.generate_latest(registry).decode()),
        (parse_openmetrics, openmetrics_text),
    ):
        for family in parse(text):
            assert not any(sample.value != sample.value for sample in family.samples), family.name


def pattern(data: bytes) -> None:
    """A pattern that somebody wrote is refused with its place, or reads any line."""
    text, _, line = data.decode("utf-8", "replace").partition("\n")
    quoted = json.dumps(text.replace("\x7f", ""), ensure_ascii=False)
    _grammar(f'[record.decode]\nanchor = "abc"\npattern = {quoted}\n', line)


def grammar(data: bytes) -> None:
    """A whole grammar file is refused with its problems, or reads any line."""
    text, _, line = data.decode("utf-8", "replace").partition("\0")
    _grammar(text, line)


def _check(error: LogwatchError) -> None:
    assert error.problems
    assert all(problem.where and problem.what for problem in error.problems)


def _grammar(text: str, line: str) -> None:
    try:
        found = parse_grammar(text, "fuzz.toml")
    except GrammarError as error:
        _check(error)
        return
    reader = Reader((found,))
    for each in (line, f"abc{line}", f"abc {line} abc", *(rule.anchor + line for rule in found.rules)):
        reader.read(each)


def configuration(data: bytes) -> None:
    """A configuration is refused with its problems, or is one that can be asked for everything."""
    path = _scratch() / "logwatch.toml"
    path.write_bytes(data)
    first, _, second = data[:80].decode("utf-8", "replace").replace("\0", "").partition("=")
    for environment in ({}, {f"LOGWATCH_{first}": second}):
        try:
            config = load_config(path, environment)
        except ConfigError as error:
            _check(error)
        else:
            config.model_dump_json()


def state_file(data: bytes) -> None:
    """Any bytes in place of the state file: the state opens, commits and is read back."""
    folder = _scratch() / "state"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "state.sqlite").write_bytes(data)
    said: list[Notice] = []
    state = State(folder, said.append)
    state.load()
    for letter_receiver in state.receivers():
        state.letters(letter_receiver)
    assert state.commit({"s": '{"part": 1}'}, {"m": "1"}) or said
    kept = not state.failing
    state.close()
    if kept:
        again = State(folder, said.append)
        assert again.load().positions.get("s") == '{"part": 1}', said
        again.close()


def memories(data: bytes) -> None:
    """What was remembered, damaged: it is refused as invalid, or everything goes on with it."""
    kind, _, text = data.partition(b"\n")
    kinds: tuple[type[Any], ...] = (PipelineMemory, MetricsMemory, BoardMemory)
    which = kinds[kind[0] % 3] if kind else PipelineMemory
    try:
        memory = TypeAdapter(which).validate_json(text)
    except ValidationError:
        return
    pipeline, metrics, board = Pipeline(_settings(), "s", "p"), Metrics(), Board()
    for owner in (pipeline, metrics, board):
        if isinstance(owner.memory, which):
            owner.memory = memory
    for item in (*pipeline.feed_bytes(LOG * 6), *pipeline.finish()):
        metrics.take(item)
        board.take(item)
    _exposition(metrics)
    TypeAdapter(PipelineMemory).dump_json(pipeline.memory)


def positions(data: bytes) -> None:
    """What was kept of positions, damaged: following begins anew, and reads what is there."""
    folder = _scratch() / "positions"
    folder.mkdir(exist_ok=True)
    log = folder / "a.log"
    log.write_bytes(LOG)
    saved = {}
    for line in data.decode("utf-8", "replace").split("\n")[:4]:
        name, _, position = line.partition("\t")
        saved[name] = position
    tail = Tail([Source(str(log), "s", "beginning")], saved, lambda _notice: None)
    try:
        list(tail.read())
        tail.positions(lambda _stream: 0)
        tail.lag()
    finally:
        tail.close()


@dataclass
class _Http:
    server: Server
    errors: list[str]


@cache
def _http() -> _Http:
    metrics, board = Metrics(), Board()
    pipeline = Pipeline(_settings(), "s", "p")
    for item in (*pipeline.feed_bytes(LOG * 6), *pipeline.finish()):
        metrics.take(item)
        board.take(item)
    http = _Http(Server(build_app(Site(metrics=metrics, board=board)), bind("127.0.0.1:0")), [])
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: http.errors.append(logging.Formatter().format(record))
    logging.getLogger("uvicorn.error").addHandler(handler)
    http.server.start()
    atexit.register(http.server.stop)
    return http


def http(data: bytes) -> None:
    """Any bytes as a request: an answer below 500 or none, and the next client is served."""
    running = _http()
    host, port = running.server.address.partition("://")[2].split(":")
    answer = b""
    with (
        socket.create_connection((host, int(port)), timeout=20) as client,
        contextlib.suppress(ConnectionError),
    ):
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        if b"/events" not in data:
            while got := client.recv(65536):
                answer += got
    assert not answer.startswith(b"HTTP/1.1 5"), answer[:300]
    assert not running.errors, running.errors.pop()


def query(data: bytes) -> None:
    """Any text as a query or a header of a well-formed request: the answer is 200, 400, 404 or 431."""
    path, _, header = data.partition(b"\n")
    path = b"/api/v1/samples?" + path.translate(None, bytes(range(33)) + b"\x7f")[:2000]
    header = header.translate(None, b"\r\n\0")[:2000]
    http(b"GET " + path + b" HTTP/1.1\r\nHost: a\r\nAccept: " + header + b"\r\nConnection: close\r\n\r\n")


TARGETS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (
        chunks,
        replay,
        restart,
        scrape,
        pattern,
        grammar,
        configuration,
        state_file,
        memories,
        positions,
        http,
        query,
    )
}
