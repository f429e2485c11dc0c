"""Level 3: what stages and outlets remember, to JSON text for the state file and back."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter

from logwatch.model import Level, Notice, Notify

T = TypeVar("T")

_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}
"""By class; building one is slow."""


def written(memory: object) -> str:
    """A memory (a dataclass of plain values) as JSON."""
    return _adapter(type(memory)).dump_json(memory).decode()


def read_back(kind: type[T], name: str, text: str | None, notify: Notify) -> T | None:
    """The memory that `written` wrote; None, and a notice, where it cannot be used (another version wrote it)."""
    if text is None:
        return None
    try:
        return _adapter(kind).validate_json(text)
    except ValueError as error:
        what = f"what was remembered of {name} cannot be used and is begun anew: {error}"
        notify(Notice("memory_unusable", what, Level.WARNING))
        return None


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]
