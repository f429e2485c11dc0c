"""Level 3: the line with which the run began, looked up from behind in a file that is not read from its start."""

from __future__ import annotations

from logwatch.intake.identity import ReadAt

NEEDLE = b"server_args="
BEHIND_BYTES = 64 << 20
HEAD_BYTES = 4 << 20
_BLOCK_BYTES = 1 << 20
_LINE_BYTES = 1 << 17


def last_header(read_at: ReadAt, end: int) -> tuple[int, bytes] | None:
    """Offset and bytes of the last line before `end` that names the server's settings.

    Looks at the last `BEHIND_BYTES` and, because a server that ran for weeks wrote it long ago, at the first
    `HEAD_BYTES`; never at all of a file of many gigabytes.
    """
    stop = max(0, end - BEHIND_BYTES)
    upper = end
    while upper > stop:
        lower = max(stop, upper - _BLOCK_BYTES)
        block = read_at(lower, min(end, upper + len(NEEDLE)) - lower)
        if (found := block.rfind(NEEDLE)) >= 0:
            return _line(read_at, lower + found, end)
        upper = lower
    found = read_at(0, min(HEAD_BYTES, stop)).rfind(NEEDLE)
    return _line(read_at, found, end) if found >= 0 else None


def _line(read_at: ReadAt, at: int, end: int) -> tuple[int, bytes] | None:
    start = max(0, at - _LINE_BYTES)
    before = read_at(start, at - start)
    begin = start + before.rfind(b"\n") + 1
    line, newline, _ = read_at(begin, min(end, at + _LINE_BYTES) - begin).partition(b"\n")
    return (begin, line + newline) if newline else None
