"""Level 3: what is kept of positions, and read back: what is damaged is said, and forgotten."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter

from logwatch.intake.identity import Identity, Mark
from logwatch.intake.parts import Part
from logwatch.intake.rungs import Rung, Rungs
from logwatch.model import Level, Notice, Notify

OVERVIEW = ""
"""What is kept under this name is no stream's: which sources were seen before, and on which host."""


class _Strict:
    """Used whole; of all others a newer logwatch may have kept more, which is passed over."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  # the name by which pydantic knows it


@dataclass
class _Overview:
    sources: list[str] = field(default_factory=list)
    host: str = ""
    looked_ns: int = 0


@dataclass
class _Identity(_Strict):
    device: int
    inode: int
    born_ns: int


@dataclass
class _Mark(_Strict):
    offset: int
    head_bytes: int
    head: str
    window_bytes: int
    window: str


@dataclass
class _Part:
    path: str
    identity: _Identity
    mark: _Mark
    line: int
    size: int
    modified_ns: int
    since_ns: int
    shown: str
    packed: bool
    final: bool
    gone: bool
    rungs: list[tuple[int, int, int, str]] = field(default_factory=list)


@dataclass
class _Finished:
    path: str
    identity: _Identity
    mark: _Mark | None
    line: int
    modified_ns: int
    passed: bool


@dataclass
class _Lineage:
    path: str
    part: _Part | None
    finished: list[_Finished]
    absent_ns: int = 0
    queue: list[_Part] = field(default_factory=list)


@dataclass
class _Journal:
    cursor: str | None
    line: int
    offset: int


@dataclass
class _Pipe:
    pipe: str


_OVERVIEW = TypeAdapter(_Overview)
_POSITION: TypeAdapter[_Lineage | _Journal | _Pipe] = TypeAdapter(_Lineage | _Journal | _Pipe)


def written(part: Part, pending: int = 0) -> dict[str, Any]:
    """A part as JSON-able values, to be gone on with that many bytes before where it is."""
    mark, line = part.mark_before(pending)
    return {
        "path": part.path,
        "identity": asdict(part.identity),
        "mark": asdict(mark),
        "line": line,
        "size": part.size,
        "modified_ns": part.modified_ns,
        "since_ns": part.since_ns,
        "shown": part.shown,
        "packed": part.packed,
        "final": part.final,
        "gone": part.gone,
        "rungs": part.rungs.kept,
    }


def part_of(kept: Mapping[str, Any]) -> Part:
    """The part that `written` wrote."""
    mark = Mark(**kept["mark"])
    return Part(
        kept["path"],
        Identity(**kept["identity"]),
        mark.offset,
        kept["line"],
        kept["size"],
        kept["modified_ns"],
        kept["packed"],
        kept["final"],
        kept["gone"],
        mark=mark,
        since_ns=kept["since_ns"],
        shown=kept["shown"],
        rungs=Rungs(Rung(*each) for each in kept.get("rungs", ())),
    )


def read_back(saved: Mapping[str, str], notify: Notify) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The overview, and by stream the positions that can be used."""
    overview: dict[str, Any] = {}
    positions: dict[str, dict[str, Any]] = {}
    for stream, text in saved.items():
        try:
            found = json.loads(text)
            # A path may hold bytes that are not UTF-8; they matter to the file system only.
            clean = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
            (_OVERVIEW if stream == OVERVIEW else _POSITION).validate_json(clean, strict=True)
        except (ValueError, RecursionError):
            what = f"the position kept of {stream}" if stream else "what was kept of sources"
            notify(
                Notice(
                    "position_unusable",
                    f"{what} cannot be used and is forgotten: reading begins anew",
                    Level.ERROR,
                    stream=stream or None,
                )
            )
            continue
        if stream == OVERVIEW:
            overview = found
        else:
            positions[stream] = found
    return overview, positions
