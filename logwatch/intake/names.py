"""Level 3: which paths a pattern means, and which names are rotated copies of which file.

Rotators differ (`a.log.1`, `a.log-20260211`, `a-2026-02-11.log`, `a.log.1.gz`, `a.log.2026-02-11T10`), so a name counts
as a rotated copy of `a.log` when it adds only digits, dates, compression and words such as `old` to it, at its end or
before its extension.
"""

from __future__ import annotations

import glob
import os
import re
import time
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

PACKED = (".gz", ".zst", ".xz", ".bz2", ".tgz", ".Z", ".lz4")
_WORD = r"(?:[0-9]+|T|Z|old|bak|backup|orig|prev|save)"
_ADDED = re.compile(rf"(?:[._\-:+@~]*{_WORD})+[._\-:+@~]*")
_SEPARATORS = "._-:+@~"
_DATE_DIGITS = 6
_TICK_NS = 20_000_000
_MOST_LISTINGS = 256
_WILD = re.compile(r"[*?\[]")
_DEEP = re.compile(r"(?:^|/)(\*\*)(?:/|$)")


def is_pattern(path: str) -> bool:
    """Whether a path is a glob rather than one name."""
    return _WILD.search(path) is not None and not os.path.lexists(path)


def expand(pattern: str) -> Iterator[str]:
    """Paths that exist now for a path, a glob (`**` works) or a directory (all in it that is not hidden), sorted."""
    if not is_pattern(pattern):
        if os.path.isdir(pattern):
            yield from sorted(glob.iglob(os.path.join(glob.escape(pattern), "*")))
        elif os.path.lexists(pattern):
            yield pattern
        return
    if (deep := _DEEP.search(pattern)) is None:
        yield from sorted(glob.iglob(pattern))
        return
    hidden = os.path.basename(pattern).startswith(".")
    yield from sorted(
        path
        for directory, names in _walked(pattern[: deep.start(1)])
        for name in names
        if (hidden or not name.startswith(".")) and covers(pattern, path := os.path.join(directory, name))
    )


def _walked(bases: str) -> Iterator[tuple[str, list[str]]]:
    """Directories below those that a pattern means, and the names in them; hidden ones are passed over.

    Each once: `glob` goes through a link that leads upwards forty times over, and through two of them for ever.
    """
    seen: set[tuple[int, int]] = set()
    for base in glob.iglob(bases or "./"):
        for directory, below, names in os.walk(base.rstrip("/") or "/", followlinks=True):
            try:
                status = os.stat(directory)
            except OSError:
                status = None
            if status is None or (status.st_dev, status.st_ino) in seen:
                below.clear()
                continue
            seen.add((status.st_dev, status.st_ino))
            below[:] = sorted(name for name in below if not name.startswith("."))
            yield directory if bases else directory.removeprefix(".").removeprefix("/"), names


def covers(pattern: str, path: str) -> bool:
    """Whether a path, existing or not, is meant by a path, glob or directory."""
    pattern, path = os.path.abspath(pattern), os.path.abspath(path)
    if pattern == path or os.path.dirname(path) == pattern:
        return True
    return bool(_WILD.search(pattern)) and _expression(pattern).fullmatch(path) is not None


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str]:
    expression = ""
    for part in re.split(r"(/\*\*(?=/|$)|\*|\?|\[!?[^]/]+\])", pattern):
        if part == "/**":
            expression += "(?:/[^/]+)*"
        elif part == "*":
            expression += "[^/]*"
        elif part == "?":
            expression += "[^/]"
        elif part.startswith("[") and part.endswith("]"):
            expression += part.replace("[!", "[^", 1)
        else:
            expression += re.escape(part)
    return re.compile(expression)


def directories_of(pattern: str) -> list[str]:
    """Directories whose changes could change what a pattern means: its fixed part and every wild level that exists.

    For what does not exist the nearest existing parent stands in.
    """
    directory = os.path.dirname(os.path.abspath(pattern))
    if os.path.isdir(pattern):
        return [os.path.abspath(pattern)]
    if (deep := _DEEP.search(os.path.abspath(pattern))) is not None:
        head = os.path.abspath(pattern)[: deep.start(1)]
        return sorted({_existing(os.path.dirname(head)), *(found for found, _ in _walked(head))})
    if not _WILD.search(directory):
        return [_existing(directory)]
    parts = Path(directory).parts
    wild = next(index for index, part in enumerate(parts) if _WILD.search(part))
    found = {_existing(str(Path(*parts[:wild])))}
    for depth in range(wild + 1, len(parts) + 1):
        found.update(path for path in glob.iglob(str(Path(*parts[:depth]))) if os.path.isdir(path))
    return sorted(found)


def _existing(directory: str) -> str:
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return directory


def is_rotated_name(name: str, base: str) -> bool:
    """Whether a file `name` looks like a rotated copy of the file `base` in the same directory.

    >>> [is_rotated_name(n, "a.log") for n in ("a.log.1", "a.log.2.gz", "a-2026-02-11.log.zst", "a.log-20260211")]
    [True, True, True, True]
    >>> [is_rotated_name(n, "a.log") for n in ("a.log", "b.log.1", "a.log.err", "a-1.log", "a.log.swp")]
    [False, False, False, False, False]
    """
    stem, extension = os.path.splitext(base)
    if not name.startswith(stem) or name == base:
        return False
    bare = unpacked_name(name)
    if bare == base:
        return True
    if bare.startswith(base):
        return _is_added(bare[len(base) :], date=not extension and bare[len(base)] != ".")
    # `a-1.log` beside `a.log` may well be another rank's live log: only a date is taken for a rotation there.
    added = bare[len(stem) : len(bare) - len(extension)]
    return bool(extension) and bare.endswith(extension) and _is_added(added, date=True)


def _is_added(added: str, *, date: bool) -> bool:
    if added[:1] not in _SEPARATORS or not _ADDED.fullmatch(added):
        return False
    return not date or sum(character.isdigit() for character in added) >= _DATE_DIGITS


def bases_of(name: str) -> Iterator[str]:
    """Names of which `name` looks like a rotated copy, existing or not."""
    bare = unpacked_name(name)
    if bare != name:
        yield bare
    stem, extension = os.path.splitext(bare)
    for whole, ending in ((bare, ""), (stem, extension)):
        for cut in range(len(whole) - 1, 0, -1):
            if whole[cut] not in _SEPARATORS:
                continue
            if not _ADDED.fullmatch(whole[cut:]):
                break
            base = whole[:cut] + ending
            if is_rotated_name(name, base):
                yield base


def readable(path: str) -> str:
    """A path as it is shown and kept: what in it is not UTF-8 becomes U+FFFD, for neither JSON nor SQLite takes it."""
    return os.fsencode(path).decode("utf-8", "replace")


def unpacked_name(name: str) -> str:
    """The name without a compression's ending."""
    for ending in PACKED:
        if name.endswith(ending):
            return name[: -len(ending)]
    return name


def is_packed_name(name: str) -> bool:
    """Whether a name ends as compressed files do."""
    return name.endswith(PACKED)


class Listings:
    """Names in directories, read again when a directory has changed.

    A listing taken within a clock tick of the directory's last change may have missed one, so it is not kept.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, list[str]]] = {}

    def names(self, directory: str) -> list[str]:
        """Names in a directory, sorted; none where it cannot be read."""
        directory = directory or "."
        try:
            changed_ns = os.stat(directory).st_mtime_ns
            if (kept := self._kept.get(directory)) is not None and kept[0] == changed_ns:
                return kept[1]
            names = sorted(os.listdir(directory))
        except OSError:
            return []
        if time.time_ns() - changed_ns > _TICK_NS:
            if len(self._kept) >= _MOST_LISTINGS:
                self._kept.clear()
            self._kept[directory] = (changed_ns, names)
        return names

    def siblings(self, path: str) -> Iterator[str]:
        """Existing files beside `path` whose names look like rotated copies of it."""
        directory, base = os.path.split(path)
        stem = os.path.splitext(base)[0]
        names = self.names(directory)
        for index in range(bisect_left(names, stem), len(names)):
            if not names[index].startswith(stem):
                break
            if is_rotated_name(names[index], base):
                yield os.path.join(directory, names[index])


def mount_points() -> frozenset[str]:
    """Absolute paths on which something is mounted; none where the kernel does not say."""
    try:
        text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return frozenset()
    points = (line.split(" ")[4] for line in text.splitlines())
    return frozenset(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), point) for point in points)
