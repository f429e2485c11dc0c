"""Level 1: what is wrong with a configuration, in the words and at the places of who wrote it (used by `config.py`)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from logwatch.errors import Problem


def toml_problem(path: Path, message: str) -> Problem:
    """What the TOML parser said, with its place in front."""
    found = re.search(r" \(at line ([0-9]+), column ([0-9]+)\)$", message)
    where = f"{path}:{found[1]}:{found[2]}" if found else str(path)
    what = message[: found.start()] if found else message
    return Problem(
        where, f"not valid TOML: {what[0].lower()}{what[1:]}", "see `logwatch check --help` for an example"
    )


def problems_of(error: ValidationError, model: type[BaseModel], name: str, text: str) -> Iterator[Problem]:
    """What pydantic found, in the words and at the places of who wrote the file.

    Args:
        error: Of validating `model`.
        model: The whole configuration's.
        name: Of the file, or of what else said it.
        text: The file's; empty where there is none.
    """
    for item in error.errors(include_url=False):
        loc = item["loc"]
        dotted = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")
        line = _line_of(text, loc)
        where = f"{name}:{line[0]}:{line[1]}" if line else name
        if item["type"] == "extra_forbidden":
            key = str(loc[-1])
            near = difflib.get_close_matches(key, _known_keys(model, loc[:-1]), n=1, cutoff=0.5)
            known = (
                f"did you mean `{near[0]}`?"
                if near
                else f"known here: {', '.join(_known_keys(model, loc[:-1]))}"
            )
            yield Problem(where, f"unknown option `{dotted}`", known)
        elif (wanted := _shape_wanted(item["type"], loc)) is not None:
            yield Problem(where, f"`{dotted}`: {wanted}")
        else:
            message = item["msg"].removeprefix("Value error, ")
            yield Problem(where, f"`{dotted}`: {message[0].lower()}{message[1:]}" if dotted else message)


def _shape_wanted(kind: str, loc: tuple[int | str, ...]) -> str | None:
    """What TOML calls what is expected; pydantic would name Python's types."""
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "model_type":
        return (
            f"a table is expected: write [[{loc[0]}]]"
            if len(loc) > 1
            else f"a table is expected: write [{loc[0]}]"
        )
    if kind == "tuple_type":
        return (
            f"tables are expected: write [[{loc[0]}]]"
            if len(loc) == 1
            else 'a list is expected, such as ["a", "b"]'
        )
    return None


def _known_keys(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """Keys that the table at `loc` may have."""
    for part in loc:
        if isinstance(part, str) and part in model.model_fields:
            model = next(models_in(model.model_fields[part].annotation), model)
    return list(model.model_fields)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a field's type names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from models_in(inner)


def _line_of(text: str, loc: tuple[int | str, ...]) -> tuple[int, int] | None:
    """Line and column of the key (or its table's header) that `loc` names, as far as the text tells."""
    section = str(loc[0]) if loc else ""
    index = next((part for part in loc if isinstance(part, int)), 0)
    key = next((part for part in reversed(loc[1:]) if isinstance(part, str)), None)
    seen, header = -1, None
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"\s*\[{1,2}\s*([\w.]+)\s*\]{1,2}", line):
            seen += found[1] == section
            if found[1] == section and seen == index:
                header = (number, line.index("[") + 1)
        elif (header or not section or key is None) and (
            found := re.match(rf"\s*(?:{re.escape(key or section)})\s*=", line)
        ):
            inside = header is not None and seen == index
            if inside or key is None:
                return number, len(line) - len(line.lstrip()) + 1
    return header
