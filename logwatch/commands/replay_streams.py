"""Level 6: which inputs of a replay are one stream, and what the stream is called."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logwatch.intake.archive import STANDARD_INPUT, natural
from logwatch.intake.names import is_rotated_name, readable, unpacked_name

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Stream:
    """Files that are one stream: one file, or a rotated set with the oldest first."""

    name: str
    paths: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes on disk, as far as they can be known beforehand."""
        return sum(os.path.getsize(path) for path in self.paths if os.path.isfile(path))  # noqa: PTH113, PTH202 - may be an address


def streams_of(paths: Sequence[str]) -> list[Stream]:
    """One stream a file; rotated copies join the file that they are copies of, where that is given too.

    Names are the files' own, without a compression's ending; where two would be equal, with as many folders
    before them as tell them apart.

    >>> for stream in streams_of(["a.log", "a.log.1", "a.log.2.gz", "b.log.zst"]):
    ...     print(stream.name, *stream.paths)
    a.log a.log.2.gz a.log.1 a.log
    b.log b.log.zst
    """
    sets: dict[str, list[str]] = {}
    bases = _bases(paths)
    for path in paths:
        sets.setdefault(bases.get(path, path), []).append(path)
    ordered = [(base, sorted(members, key=lambda path: _age(path, base))) for base, members in sets.items()]
    names = stream_names([base for base, _ in ordered])
    return [Stream(readable(name), tuple(members)) for name, (_, members) in zip(names, ordered, strict=True)]


def stream_names(paths: Sequence[str]) -> list[str]:
    """A name for each path, see `streams_of`.

    >>> stream_names(["-", "pod1/0.log", "pod2/0.log", "x/server.log.gz"])
    ['stdin', 'pod1/0.log', 'pod2/0.log', 'server.log']
    """
    parts = [["stdin"] if path == STANDARD_INPUT else unpacked_name(path).split("/") for path in paths]
    names = [part[-1] for part in parts]
    depth = 1
    while len(set(names)) < len(names) and depth < max(map(len, parts)):
        depth += 1
        twice = {name for name, count in Counter(names).items() if count > 1}
        names = [
            "/".join(part[-depth:]) if name in twice else name
            for name, part in zip(names, parts, strict=True)
        ]
    return names


def _bases(paths: Sequence[str]) -> dict[str, str]:
    """By rotated copy the file that it is a copy of."""
    known: dict[str, str] = {}  # what a copy's path begins with
    for path in paths:
        known[path] = known[path.rpartition(".")[0]] = path
    found: dict[str, str] = {}
    for path in paths:
        if path == STANDARD_INPUT:
            continue
        folder, name = os.path.split(path)
        for end in range(len(path) - 1, len(folder), -1):
            base = known.get(path[:end])
            if base is not None and is_rotated_name(name, base[len(path) - len(name) :]):
                found[path] = base
                break
    return found


def _age(path: str, base: str) -> tuple[bool, bool, list[tuple[int, str]]]:
    """Sort key, oldest first: dates rise, rotation numbers fall, the live file is last."""
    added = unpacked_name(path)[len(unpacked_name(base)) :]
    number = re.fullmatch(r"\.(\d{1,4})", added)
    key = [(-int(number[1]), "")] if number else natural(unpacked_name(path))
    return path == base, number is not None, key
