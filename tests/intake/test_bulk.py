"""Chunks as columns: what is read so, what is refused, and where things are said to be.

That the records are those of the streaming stages is proved in `tests/test_watch_equals_replay.py`.
"""

import pytest

from logwatch.grammar.load import load_grammars
from logwatch.intake.bulk import Bulk
from logwatch.model import Malformed, Record
from logwatch.reading.whole import Piece

BULK = Bulk(load_grammars())
HEADER = b"[2026-02-11 08:15:02 TP0] [EAGLE3 profile] 100 cycles\n"
LINES = b"  Target verify:     19.14 ms/cyc  ( 95.0%)\n  Total cycle:       20.15 ms/cyc\n  Accept len:         0.92\n"


def read(data, line=1, offset=0):
    return BULK.read(data, "server.log", line, offset)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"a\0b\n", id="NUL"),
        pytest.param(b"2026-02-11T08:15:02Z stdout P half\n", id="part of a container's message"),
        pytest.param(b"2026-02-11T08:15:02Z stderr P half\n", id="part on standard error"),
        pytest.param(b"x" * (600 << 10) + b"\n", id="a line of megabytes"),
        pytest.param(b'{"log":"' + b"x" * 16_384 + b'"}\n', id="a message that Docker may have cut"),
    ],
)
def test_chunks_whose_lines_depend_on_each_other_are_refused(data):
    """The caller feeds them to the streaming stages."""
    assert read(HEADER + LINES + data) is None


def test_a_chunk_without_records_costs_no_objects():
    """Lines are counted, nothing else."""
    chunk = read(b'[2026-02-11 08:15:02] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK\n' * 1000)
    assert (chunk.lines, chunk.matched, chunk.malformed, list(chunk.records())) == (1000, 0, 0, [])


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n\n", id="empty lines"),
        pytest.param("Capturing ██ 50%\n".encode(), id="other letters"),
        pytest.param(b"\xff\xfe\n", id="no UTF-8"),
        pytest.param(b"one\r\ntwo\r\n", id="CRLF"),
    ],
)
def test_places_are_those_of_the_file(before):
    """Line numbers and offsets count bytes, whatever stands before."""
    (record,) = read(before + b"  Target verify: 19.14 ms/cyc\n", line=41, offset=1000).records()
    assert (record.place.path, record.place.line) == ("server.log", 41 + before.count(b"\n"))
    assert record.place.offset == 1000 + len(before)


def test_records_come_in_the_order_of_the_log():
    """However many kinds and shapes there are."""
    decode = b"[2026-02-11 08:15:02 DP1 TP0] Decode batch. #running-req: %d, #token: 7\n"
    data = b"".join(
        decode % n + HEADER + LINES + (b"  Target verify: nan ms/cyc\n" if n % 3 else b"") for n in range(40)
    )
    chunk = read(data)
    records = list(chunk.records())
    assert [record.place.line for record in records] == sorted(record.place.line for record in records)
    assert chunk.matched == sum(isinstance(record, Record) for record in records) == 200
    assert chunk.malformed == sum(isinstance(record, Malformed) for record in records) == 26
    assert {record.rank for record in records if record.kind == "decode"} == {"DP1 TP0"}


def test_a_report_in_one_piece_is_one_entry():
    """With all that its lines say, and a way to its records."""
    (entry,) = read(HEADER + LINES).entries(lambda *_: False)
    piece, records = entry
    assert isinstance(piece, Piece)
    assert (piece.time, piece.rank, piece.cycles) == ("2026-02-11T08:15:02", "TP0", 100)
    assert piece.labels == ["target_verify", "total_cycle", "accept"]
    assert piece.phases_s == {"target_verify": 0.01914, "total_cycle": 0.02015}
    assert (piece.shares, piece.accepted_drafts) == ({"target_verify": 0.95}, 0.92)
    assert [record.kind for record in records()] == ["report", "phase", "phase", "accept"]


@pytest.mark.parametrize(
    ("data", "pieces"),
    [
        pytest.param(HEADER + b"noise\n" + LINES, 0, id="a line between"),
        pytest.param(LINES, 0, id="no header"),
        pytest.param(HEADER * 2 + LINES, 1, id="a header alone before it"),
        pytest.param(
            HEADER + b"[2026-02-11 08:15:02 TP1] Target verify: 19.14 ms/cyc\n", 0, id="a line with a rank"
        ),
    ],
)
def test_what_is_not_in_one_piece_comes_record_by_record(data, pieces):
    """The general way decides about it."""
    entries = list(read(data).entries(lambda *_: False))
    assert sum(isinstance(entry, tuple) for entry in entries) == pieces


def test_records_may_be_passed_over():
    """Only prefill lines, and only where the caller says so at that moment."""
    prefill = b"[2026-02-11 08:15:02 TP0] Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 0\n"
    asked = []

    def passed_over(kind, count):
        asked.append((kind, count))
        return len(asked) > 1

    entries = list(read(prefill * 3 + LINES).entries(passed_over))
    assert asked == [("prefill", 3), ("prefill", 2)]
    assert [entry.kind for entry in entries] == ["prefill", "phase", "phase", "accept"]
