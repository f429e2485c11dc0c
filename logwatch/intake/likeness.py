"""Level 3: whether one file beside a log is another one, moved, copied or packed: by name, time and content."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from logwatch.intake.identity import WINDOW_BYTES, Facts, Mark, mark_of
from logwatch.intake.names import unpacked_name
from logwatch.intake.opened import PackedFile, PlainFile, open_log
from logwatch.intake.parts import Part

T = TypeVar("T")

_DATE = 100_000
COARSE_NS = 1_000_000_000
"""Packers keep a file's time, some of them in whole seconds."""
FINE_NS = 1000
"""Who sets a file's time from a floating-point number misses it by a little."""
_NUMBER = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T_-][0-9]{2}(?:[:-]?[0-9]{2}){0,2})?|[0-9]{1,18}")


def age(path: str, modified_ns: int) -> tuple[int, list[float]]:
    """Sort key: the oldest content first; of files written in the same instant as their names say."""
    return modified_ns, name_age(path)


def name_age(path: str) -> list[float]:
    """Sort key by name: a higher number is older, a later date younger, and no number youngest."""
    name = os.path.basename(unpacked_name(path))
    digits = (re.sub(r"[^0-9]", "", number) for number in _NUMBER.findall(name))
    return [*(n if n >= _DATE else -n for n in map(float, digits)), math.inf]


def same_time(one_ns: int, other_ns: int) -> bool:
    """Whether two files were last written at the same time, one of them perhaps kept in whole seconds."""
    if abs(one_ns - other_ns) <= FINE_NS:
        return True
    coarse = one_ns % COARSE_NS == 0 or other_ns % COARSE_NS == 0
    return coarse and one_ns // COARSE_NS == other_ns // COARSE_NS


def is_backup(part: Part, now: Facts, path: str, copy: Facts) -> bool:
    """Whether a file that repeats the live one can be its copy, made before a truncation that is still to come."""
    if part.final or part.nameless:
        return False
    if part.since_ns < copy.modified_ns and now.modified_ns <= copy.modified_ns:
        return True
    # Written to since: one that was truncated and filled again, of lines that are all the same, looks like that too.
    return now.size > copy.size and bool(asks(path, partial(lines_differ, copy.size)))


def lines_differ(size: int, file: PlainFile | PackedFile) -> bool:
    """Whether the lines at a file's end differ from each other, so that no other just happens to hold them."""
    lines = file.read_at(max(0, size - WINDOW_BYTES), WINDOW_BYTES).split(b"\n")[1:-1]
    return len(set(lines)) * 2 > len(lines)


def may_become(old: str, new: str) -> bool:
    """Whether a file of one name may have been packed, moved or copied to the other: names do not get younger."""
    was, now = name_age(old), name_age(new)
    return now < was or (
        now == was and os.path.basename(new).startswith(os.path.basename(unpacked_name(old)))
    )


def asks(path: str, question: Callable[[PlainFile | PackedFile], T]) -> T | None:
    """The answer to a question about a file's content; None where it cannot be read."""
    try:
        file = open_log(path)
    except OSError:
        return None
    try:
        return question(file)
    except OSError:
        return None
    finally:
        file.close()


def holds(path: str, mark: Mark) -> bool:
    """Whether a file has this head and this end before an offset."""
    return bool(asks(path, lambda file: mark.fits(file.read_at)))


def mark_at_end(file: PlainFile, size: int) -> Mark | None:
    """The mark of a whole file of this size; None where it cannot be read."""
    try:
        return mark_of(file.read_at, size)
    except OSError:
        return None


def repeats(size: int, original: PlainFile, copy: PlainFile | PackedFile) -> bool:
    """Whether a file is, as far as its head and its last bytes tell, another one packed, or the beginning of it."""
    if copy.packed:
        whole = original.facts().size
        end = mark_of(original.read_at, whole)
        return whole > 0 and end.fits(copy.read_at) and not copy.read_at(whole, 1)
    tail = max(0, size - WINDOW_BYTES)
    head = min(size, WINDOW_BYTES)
    return (
        size > 0
        and copy.read_at(0, head) == original.read_at(0, head)
        and copy.read_at(tail, WINDOW_BYTES) == original.read_at(tail, size - tail)
    )
