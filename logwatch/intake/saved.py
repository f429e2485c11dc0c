"""Level 3: what was kept of positions, read back: what is damaged is said, and forgotten."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from logwatch.intake.identity import Identity, Mark
from logwatch.model import Level, Notice, Notify

OVERVIEW = ""
"""What is kept under this name is no stream's: which sources were seen before, and on which host."""


@dataclass
class _Overview:
    sources: list[str] = field(default_factory=list)
    host: str = ""


@dataclass
class _Part:
    path: str
    identity: Identity
    mark: Mark
    line: int
    size: int
    modified_ns: int
    since_ns: int
    shown: str
    packed: bool
    final: bool
    gone: bool


@dataclass
class _Finished:
    path: str
    identity: Identity
    mark: Mark | None
    line: int
    modified_ns: int
    passed: bool


@dataclass
class _Lineage:
    path: str
    part: _Part | None
    finished: list[_Finished]


@dataclass
class _Journal:
    cursor: str | None
    line: int
    offset: int


@dataclass
class _Pipe:
    pipe: str


_STRICT = ConfigDict(extra="forbid")
_OVERVIEW = TypeAdapter(_Overview, config=_STRICT)
_POSITION: TypeAdapter[_Lineage | _Journal | _Pipe] = TypeAdapter(_Lineage | _Journal | _Pipe, config=_STRICT)


def read_back(saved: Mapping[str, str], notify: Notify) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The overview, and by stream the positions that can be used."""
    overview: dict[str, Any] = {}
    positions: dict[str, dict[str, Any]] = {}
    for stream, text in saved.items():
        try:
            (_OVERVIEW if stream == OVERVIEW else _POSITION).validate_json(text, strict=True)
        except ValueError:
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
            overview = json.loads(text)
        else:
            positions[stream] = json.loads(text)
    return overview, positions
