"""Level 3: what was kept of positions, read back: what is damaged is said, and forgotten."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from logwatch.model import Level, Notice, Notify

OVERVIEW = ""
"""What is kept under this name is no stream's: which sources were seen before, and on which host."""


class _Strict:
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  # the name by which pydantic knows it


@dataclass
class _Overview(_Strict):
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
class _Part(_Strict):
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
class _Finished(_Strict):
    path: str
    identity: _Identity
    mark: _Mark | None
    line: int
    modified_ns: int
    passed: bool


@dataclass
class _Lineage(_Strict):
    path: str
    part: _Part | None
    finished: list[_Finished]
    absent_ns: int = 0


@dataclass
class _Journal(_Strict):
    cursor: str | None
    line: int
    offset: int


@dataclass
class _Pipe(_Strict):
    pipe: str


_OVERVIEW = TypeAdapter(_Overview)
_POSITION: TypeAdapter[_Lineage | _Journal | _Pipe] = TypeAdapter(_Lineage | _Journal | _Pipe)


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
