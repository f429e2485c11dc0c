"""The whole reading, from bytes to cycles: chunks, restarts and hostile bytes change nothing."""

import json
import time
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from reading_kit import cycles_of, milliseconds, read_bytes, reader

from logwatch.model import Cycle, RunStarted
from logwatch.reading.cycles import Cycles, CyclesMemory
from logwatch.reading.framing import Framing, FramingMemory
from logwatch.reading.lines import Lines, LinesMemory
from logwatch.reading.records import Records, RecordsMemory

FIXTURES = Path(__file__).parents[2] / "fixtures" / "logs"
H200 = FIXTURES / "sglang_h200"
SERVER = (H200 / "v0517_34_tp2_nccl_socket.log").read_bytes()
STOCK = (H200 / "v0517_04_nospec_baseline.log").read_bytes()
WRAPPED = "".join(
    json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-29T16:37:29.1Z"}) + "\n"
    for line in SERVER.decode().splitlines()[215:260]
).encode()
LOGS = {"server": SERVER[-9000:], "stock": STOCK[-6000:], "docker": WRAPPED}
FRAGMENTS = [line + b"\n" for line in SERVER.splitlines()[215:245]]
FRAGMENTS += [
    b"\r",
    b"\n",
    b"\0\0",
    b"\xff\xc3",
    b"\x1b[36m",
    b"98%|\xe2\x96\x88",
    b"[2026-11-29 16:38:00 TP0] ",
    b"nan",
    b"-1",
]
FRAGMENTS += [
    b"  Target verify:  nan ms/cyc\n",
    b"Accept len: 1e308\n",
    b"server_args=ServerArgs(a='b')\n",
    b"ms/cyc",
    b"Accept len",
]


@pytest.mark.parametrize("name", LOGS)
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_cycles_do_not_depend_on_chunks(name, data):
    """The same bytes give the same records, runs and cycles however they were cut."""
    log = LOGS[name]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=40)))
    chunks = [log[a:b] for a, b in zip([0, *cuts], [*cuts, len(log)], strict=True)]
    assert list(read_bytes(chunks)) == list(read_bytes([log]))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 63, 64, 4095, 4096, 4097])
def test_cycles_do_not_depend_on_the_chunks_size(size):
    """Byte by byte, or in any size that reads come in."""
    log = LOGS["server"]
    chunks = [log[start : start + size] for start in range(0, len(log), size)]
    assert cycles_of(read_bytes(chunks)) == cycles_of(read_bytes([log]))


@pytest.mark.parametrize("name", LOGS)
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_restored_reading_continues_exactly(name, data):
    """All stages, written to JSON and read back after any byte, give what an undisturbed reading gives."""
    log = LOGS[name]
    cut = data.draw(st.integers(0, len(log)))
    adapters = [TypeAdapter(kind) for kind in (LinesMemory, FramingMemory, RecordsMemory, CyclesMemory)]
    stages = [Lines("x"), Framing(), Records(reader()), Cycles("s")]

    def through(chunk: bytes, *, end: bool) -> list[object]:
        lines, framing, records, cycles = stages
        every = chain(lines.feed(chunk), lines.finish() if end else ())
        found = chain.from_iterable(map(framing.feed, every))
        frames = chain(found, framing.finish()) if end else found
        out = [
            item for record in chain.from_iterable(map(records.feed, frames)) for item in cycles.feed(record)
        ]
        return [*out, *cycles.finish()] if end else out

    first = through(log[:cut], end=False)
    stored = [adapter.dump_json(stage.memory) for adapter, stage in zip(adapters, stages, strict=True)]
    memories = [adapter.validate_json(text) for adapter, text in zip(adapters, stored, strict=True)]
    stages = [Lines("x", memories[0].line, memories[0].offset), Framing(), Records(reader()), Cycles("s")]
    for stage, memory in zip(stages, memories, strict=True):
        stage.memory = memory
    second = through(log[memories[0].offset :], end=True)
    assert first + second == list(read_bytes([log]))


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(b"".join))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_read_without_harm(log):
    """Torn, repeated and hostile lines raise nothing, and no cycle holds a number that is none."""
    for cycle in cycles_of(read_bytes([log])):
        assert all(0 <= seconds < float("inf") for seconds in cycle.phases_s.values())
        assert cycle.tokens_per_cycle is None or 1 <= cycle.tokens_per_cycle < float("inf")


REPORTS = {
    "v0517_01_eagle3_graph_prof": (23, 6.70, 1.86),
    "v0517_02_eagle3_nograph_prof": (23, 17.95, 1.95),
    "v0517_21_eagle3_tp2_graph_prof": (16, 6.40, 1.91),
    "v0517_31_tp2_nccl_default": (16, 5.65, 1.94),
    "v0517_34_tp2_nccl_socket": (16, 11.05, 1.91),
}


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_of_a_real_server_is_a_cycle(name):
    """All headers of a real log become cycles; rank TP0's (or the only one's) second report, read by eye."""
    found = list(read_bytes([(H200 / f"{name}.log").read_bytes()]))
    count, total, tokens = REPORTS[name]
    (run,) = [item for item in found if isinstance(item, RunStarted)]
    cycles = cycles_of(found)
    assert run.settings["speculative_algorithm"] == "EAGLE3"
    assert (len(cycles), all(cycle.complete for cycle in cycles)) == (count, True)
    second = [cycle for cycle in cycles if cycle.rank in {None, "TP0"}][1]
    assert (milliseconds(second)["total_cycle"], second.tokens_per_cycle) == (total, tokens)
    assert {cycle.conditions.num_steps for cycle in cycles} == {2}


def test_what_is_inferred_agrees_with_what_was_measured():
    """Without its report lines, the same log gives nearly the cycle times that the reports had."""
    log = (H200 / "v0517_31_tp2_nccl_default.log").read_bytes()
    measured = [cycle for cycle in cycles_of(read_bytes([log])) if cycle.rank == "TP0" and not cycle.warm_up]
    stock = b"".join(
        line
        for line in log.splitlines(keepends=True)
        if b"/cyc" not in line and b"EAGLE3 profile" not in line
    )
    inferred = [cycle for cycle in cycles_of(read_bytes([stock])) if not cycle.warm_up]

    def mean(cycles: list[Cycle], phase: str) -> float:
        chosen = [
            cycle.phases_s[phase]
            for cycle in cycles
            if cycle.conditions.batch_size == 1 and phase in cycle.phases_s
        ]
        return sum(chosen) / len(chosen)

    assert mean(inferred, "inferred_cycle") == pytest.approx(mean(measured, "total_cycle"), rel=0.1)


def test_reading_takes_linear_time():
    """Four times the log takes about four times as long."""

    def seconds(log: bytes) -> float:
        begin = time.process_time()
        for _ in read_bytes([log]):
            pass
        return time.process_time() - begin

    small = min(seconds(SERVER) for _ in range(2))
    assert seconds(SERVER * 4) < 12 * small


def docker(line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-29T16:37:29.123456789Z"})


def journal(line: str) -> str:
    return json.dumps({"__REALTIME_TIMESTAMP": "1796000000000000", "MESSAGE": line, "_PID": "1"})


WRAPPINGS = {
    "Ray": lambda line: f"(SGLangEngine pid=41850, ip=192.0.2.1) {line}",
    "Ray in colour": lambda line: f"\x1b[36m(SGLangEngine pid=41850)\x1b[0m {line}",
    "docker compose": lambda line: f"sglang-1  | {line}",
    "docker json-file": docker,
    "docker json-file in compose": lambda line: "sglang-1  | " + docker(line),
    "CRI": lambda line: f"2026-11-29T16:37:29.123456789Z stderr F {line}",
    "CRI in parts": lambda line: "\n".join(
        f"2026-11-29T16:37:29.123456789Z stderr {flag} {part}"
        for flag, part in zip("PPF", [line[:9], line[9:40], line[40:]], strict=True)
    ),
    "kubectl --timestamps": lambda line: f"2026-11-29T16:37:29.123456789Z {line}",
    "journalctl": lambda line: f"Nov 29 16:37:29 node7 sglang[123]: {line}",
    "journalctl -o short-iso": lambda line: f"2026-11-29T16:37:29+0000 node7 sglang[123]: {line}",
    "journalctl -o json": journal,
    "mpirun": lambda line: f"[0] {line}",
    "grep -n": lambda line: f"server.log:17:{line}",
    "CRLF": lambda line: f"{line}\r",
    "colour": lambda line: f"\x1b[32m{line}\x1b[0m",
    "progress bar before it": lambda line: f"\rLoading:  37%|███   | 3/8 [00:01<00:02,  1.73it/s]\r{line}",
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("name", ["v0517_34_tp2_nccl_socket", "v0517_04_nospec_baseline"])
def test_a_wrapped_log_gives_the_same_cycles(wrapping, name):
    """Whatever a log was wrapped in: runs, ranks, cycles, phases and conditions are those of the bare log."""
    log = (H200 / f"{name}.log").read_text()
    wrapped = "\n".join(WRAPPINGS[wrapping](line) for line in log.splitlines())

    def essence(log: str) -> list[tuple[object, ...]]:
        return [
            (item.run, item.settings)
            if isinstance(item, RunStarted)
            else (
                item.rank,
                item.cycles,
                item.tokens_per_cycle,
                item.phases_s,
                item.conditions,
                item.warm_up,
                item.time,
            )
            for item in read_bytes([log.encode()])
            if isinstance(item, (Cycle, RunStarted))
        ]

    assert essence(wrapped) == essence(log)
