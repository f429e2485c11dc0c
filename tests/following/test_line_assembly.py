"""Scenarios 33 to 49: line assembly, from the file's bytes to records."""

from __future__ import annotations

import os
import resource

import pytest

from logwatch.model import Record
from tests.following.watching import Watching

VERIFY = "  Target verify:     {:.2f} ms/cyc  ( 95.0%)\n"


def report(verify_ms, rank="TP0", second=2):
    return (
        f"[2026-02-11 08:15:{second:02d} {rank}] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n"
        f"  Draft forward:      0.53 ms/cyc  (  2.6%)\n{VERIFY.format(verify_ms)}"
        f"  Total cycle:       20.15 ms/cyc\n  Accept len:         0.92\n"
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "server.log"


def write(path, data, mode="ab"):
    with path.open(mode) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def everything(path, **options):
    watching = Watching(path, **options)
    watching.finish()
    return watching


def test_33_any_chunk_size_gives_the_same_records(path):
    """Records do not depend on how many bytes are read at once."""
    text = "".join(report(19 + number / 100, second=number) for number in range(30)).encode()
    text += "é█ [2026-02-11 08:15:02 TP0] Decode batch. #running-req: 1, #token: 154, token usage: 0.0\r\n".encode()
    write(path, text)
    expected = everything(path)
    assert len(expected.phases_ms) == 30
    for size in [*range(1, 65, 3), 2, 64, 4095, 4096, 4097, 8191, 8192, 8193]:
        watching = Watching(path)
        watching.read(size)
        watching.finish()
        assert watching.of(Record) == expected.of(Record), size


def test_34_half_a_line_waits_for_its_rest(path):
    """`19.1` now and `4 ms/cyc` three seconds later are 19.14, never 19.1."""
    write(path, "  Target verify:     19.1")
    watching = Watching(path)
    watching.read()
    watching.read()
    assert watching.phases_ms == []
    write(path, "4 ms/cyc  ( 95.0%)\n")
    watching.finish()
    assert watching.phases_ms == [19.14]


def test_35_half_a_line_survives_a_kill(path):
    """A line that was half read when the process died is read once and whole."""
    write(path, report(19.14) + "  Target verify:     28.9")
    watching = Watching(path)
    watching.read()
    watching.commit()
    watching.kill()
    watching.read()
    write(path, "6 ms/cyc  ( 97.0%)\n")
    watching.kill()
    watching.finish()
    assert watching.phases_ms == [19.14, 28.96]


@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
def test_36_crlf_in_different_reads(path, size):
    """`\\r` and `\\n` may come apart."""
    write(path, report(19.14).replace("\n", "\r\n"))
    watching = Watching(path)
    watching.read(size)
    watching.finish()
    assert watching.phases_ms == [19.14]
    assert watching.lines == 5


def test_37_progress_bar_before_the_report(path):
    """Thousands of rewritten progress bars on one line hide no report."""
    bars = "".join(f"\rLoading… {n * 100 // 5000:3d}%|{'█' * (n // 500)}" for n in range(5000))
    write(path, bars + "\r" + VERIFY.format(19.14))
    watching = everything(path)
    assert watching.phases_ms == [19.14]


def test_38_line_of_300_megabytes(path):
    """An endless line is bounded in memory and counted, and the next line is read."""
    piece = b"x" * (1 << 20)
    with path.open("wb") as file:
        for _ in range(300):
            file.write(piece)
        file.write(b"\n" + VERIFY.format(19.14).encode())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watching = everything(path)
    assert watching.phases_ms == [19.14]
    assert [notice.kind for notice in watching.notices] == ["line_too_long"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB


def test_39_record_after_a_megabyte_of_rubbish(path):
    """A record at the end of a long line is found."""
    write(path, "\r".join(["x" * 1000] * 1000) + "\r" + VERIFY.format(19.14))
    assert everything(path).phases_ms == [19.14]


@pytest.mark.parametrize(
    "rubbish",
    [b"\xc3", b"\xff", b"\xc0\xaf", "█".encode()[:2], b"\xed\xa0\x80"],
    ids=["lone lead byte", "0xFF", "overlong", "cut emoji", "surrogate"],
)
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_40_invalid_utf8(path, rubbish, size):
    """Bytes that are no UTF-8 spoil neither their line's record nor the next."""
    line = b"[2026-02-11 08:15:02 TP0] " + rubbish + b"\n" + VERIFY.format(19.14).encode()
    write(path, line + rubbish + b"\n" + VERIFY.format(19.15).encode())
    watching = Watching(path)
    watching.read(size)
    watching.finish()
    assert watching.phases_ms == [19.14, 19.15]


def test_41_utf16_is_named(path):
    """A UTF-16 file is not silently passed over."""
    write(path, b"\xff\xfe" + report(19.14).encode("utf-16-le"))
    assert [notice.kind for notice in everything(path).notices] == ["unsupported_encoding"]


def test_42_utf8_byte_order_mark(path):
    """A byte order mark before the first line is no part of it."""
    write(path, b"\xef\xbb\xbf" + report(19.14).encode())
    watching = everything(path)
    assert next(each.kind for each in watching.of(Record)) == "report"
    assert watching.phases_ms == [19.14]


def test_43_empty_lines(path):
    """Empty lines, leading, trailing or all there is, are lines without records."""
    write(path, "\n\n\n")
    assert everything(path).lines == 3
    write(path, f"\n{report(19.14)}\n\n")
    watching = everything(path)
    assert watching.lines == 11
    assert watching.phases_ms == [19.14]


def test_44_colours_inside_the_numbers(path):
    """ANSI colours around and inside a line are taken off."""
    write(path, "\x1b[36m  Target verify:\x1b[0m     \x1b[1;31m28.96\x1b[0m ms/cyc  ( 97.0%)\x1b[K\n")
    assert everything(path).phases_ms == [28.96]


def test_45_cri_part_lost_by_rotation(path):
    """CRI parts are joined, also over a rotation; a part whose end never comes spoils nothing."""
    clock = "2026-02-11T08:15:02.123456789Z stdout "
    write(path, f"{clock}P   Target verify: \n")
    watching = Watching(path)
    watching.read()
    watching.commit()
    watching.kill()
    path.rename(f"{path}.1")
    write(path, f"{clock}F     19.14 ms/cyc  ( 95.0%)\n{clock}P   Target ver\n")
    watching.read()
    path.rename(f"{path}.2")
    write(path, f"{clock}F {VERIFY.format(19.15)}")
    watching.finish()
    assert watching.phases_ms[0] == 19.14
    assert 19.15 in watching.phases_ms or watching.malformed


def test_46_docker_line_cut_at_16_kib(path):
    """Docker cuts messages at 16 KiB; the parts are one line."""
    long = "x" * 16384
    rest = "  Target verify:     19.14 ms/cyc  ( 95.0%)\\n"
    write(
        path,
        f'{{"log":"{long}","stream":"stdout","time":"2026-02-11T08:15:02Z"}}\n'
        f'{{"log":"yyy\\n","stream":"stdout","time":"2026-02-11T08:15:02Z"}}\n'
        f'{{"log":"{rest}","stream":"stdout","time":"2026-02-11T08:15:03Z"}}\n',
    )
    watching = everything(path)
    assert watching.phases_ms == [19.14]
    assert not watching.malformed


def test_47_interleaved_ranks(path):
    """Reports of two ranks, line by line in turn, are two reports."""
    header = "[2026-02-11 08:15:02 {}] EAGLE3_PROFILE 100 cycles"
    rows = ["Draft forward: {} ms/cyc", "Target verify: {} ms/cyc", "Total cycle: {} ms/cyc"]
    lines = [header.format(rank) for rank in ("TP0", "TP1")]
    for row in rows:
        for rank, value in (("TP0", 1), ("TP1", 2)):
            lines.append(f"[2026-02-11 08:15:02 {rank}]   {row.format(value)}")
    write(path, "\n".join(lines) + "\n")
    cycles = everything(path).cycles
    assert [(each.rank, set(each.phases_s.values())) for each in cycles] == [
        ("TP0", {0.001}),
        ("TP1", {0.002}),
    ]


@pytest.mark.parametrize("killed", [False, True])
def test_48_report_cut_by_rotation(path, killed):
    """Header in the old file, phases in the new one: one report."""
    head, middle, tail = report(19.14).partition("  Target")
    write(path, head)
    watching = Watching(path)
    watching.read()
    watching.commit()
    path.rename(f"{path}.1")
    write(path, middle + tail + report(19.15, second=4))
    if killed:
        watching.kill()
    watching.finish()
    assert [each.phases_s["target_verify"] for each in watching.cycles] == [0.01914, 0.01915]
    assert set(watching.cycles[0].phases_s) == {"draft_forward", "target_verify", "total_cycle"}
    assert watching.cycles[0].cycles == 100


def test_49_report_cut_by_a_crash(path):
    """A report that a crash cut is closed as incomplete, and the next run's report is its own."""
    header, draft, *_ = report(19.14).splitlines(keepends=True)
    start = (
        "[2026-02-11 08:20:00] server_args=ServerArgs(model_path='m', tp_size=8, speculative_num_steps=2)\n"
    )
    write(path, header + draft + start + report(28.96, second=9))
    cycles = everything(path).cycles
    assert [(set(each.phases_s), each.complete) for each in cycles] == [
        ({"draft_forward"}, False),
        ({"draft_forward", "target_verify", "total_cycle"}, True),
    ]
    assert cycles[0].run != cycles[1].run


def test_directory_of_rubbish_is_survived(tmp_path):
    """Random bytes give no exception and no sample."""
    for number in range(5):
        write(tmp_path / f"{number}.log", os.urandom(20_000))
    watching = Watching(tmp_path / "*.log")
    watching.finish()
    assert watching.phases_ms == []
