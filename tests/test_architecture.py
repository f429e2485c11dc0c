"""The house rules, read off the imports: who may know whom, and what stays out of the pure rooms."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "logwatch"

# Room to level; the longest name that fits decides. Imports go to a strictly lower level, or stay in the folder.
LEVELS = {
    "__init__": 0,
    "model": 0,
    "errors": 0,
    "units": 0,
    "resources": 0,
    "columns": 1,
    "grammar": 1,
    "judging": 2,
    "judging.charts": 1,
    "judging.bands": 1,
    "reading": 2,
    "intake": 3,
    "outlets": 3,
    "config_problems": 1,
    "config": 3,
    "pipeline": 4,
    "wiring": 4,
    "observing": 4,
    "backlog": 5,
    "serving": 5,
    "daemon": 6,
    "commands": 7,
    "cli": 8,
    "__main__": 9,
}
FOLDERS = {"grammar", "judging", "reading", "intake", "outlets", "commands"}
PURE = {"model", "errors", "units", "grammar", "reading", "judging"}
IMPURE_MODULES = {
    "time",
    "threading",
    "logging",
    "socket",
    "subprocess",
    "asyncio",
    "multiprocessing",
    "sqlite3",
}
# Grammar files are read by this one module of a pure room.
FILE_READERS = {"grammar.load"}
HEAVY = {
    "polars",
    "pyparsing",
    "pydantic",
    "rich",
    "starlette",
    "uvicorn",
    "numpy",
    "scipy",
    "prometheus_client",
    "watchdog",
}

MODULES = sorted(PACKAGE.rglob("*.py"))


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _level(name: str) -> int:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if (level := LEVELS.get(".".join(parts[:length]))) is not None:
            return level
    raise AssertionError(
        f"{name} has no room in the house: give it one in LEVELS and in the README's picture"
    )


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _ours(imported: str) -> str | None:
    """Name of our module that an import names (`logwatch.model.Record` gives `model`), or None."""
    if imported != "logwatch" and not imported.startswith("logwatch."):
        return None
    parts = imported.split(".")[1:]
    while parts:
        path = PACKAGE.joinpath(*parts)
        if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
            return ".".join(parts)
        parts.pop()
    return "__init__"


def _ids(path: Path) -> str:
    return _name(path)


@pytest.mark.parametrize("path", MODULES, ids=_ids)
def test_imports_go_down_or_stay_in_the_folder(path):
    """A module imports from strictly lower levels, or from its own folder."""
    name = _name(path)
    folder = name.split(".")[0]
    if folder == "emitter":
        return  # the stranger in the house has its own rule below
    for imported in _imports(path):
        ours = _ours(imported)
        if ours is None or ours == name:
            continue
        same_folder = folder in FOLDERS and ours.split(".")[0] == folder
        assert same_folder or _level(ours) < _level(name), f"{name} must not import {ours}"


@pytest.mark.parametrize("path", [p for p in MODULES if _name(p).startswith("emitter")], ids=_ids)
def test_the_emitter_knows_nobody(path):
    """The plugin imports the standard library and itself; sglang and torch only inside functions."""
    tree = ast.parse(path.read_text())
    top = {node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)}
    for imported in _imports(path):
        ours = _ours(imported)
        assert ours is None or ours.split(".")[0] == "emitter", f"{_name(path)} must not import {ours}"
    for node in top:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        assert all(n.split(".")[0] in sys.stdlib_module_names | {"logwatch"} for n in names), names


@pytest.mark.parametrize("path", [p for p in MODULES if not _name(p).startswith("emitter")], ids=_ids)
def test_nobody_knows_the_emitter(path):
    """The plugin's only contract with the house is the log it writes."""
    assert not any((_ours(i) or "").startswith("emitter") for i in _imports(path))


@pytest.mark.parametrize("path", [p for p in MODULES if _name(p).split(".")[0] in PURE], ids=_ids)
def test_pure_rooms_have_no_clock_files_threads_or_logging(path):
    """Levels 0 to 2 judge a replay of last month as last month did: nothing from outside comes in."""
    name = _name(path)
    roots = {imported.split(".")[0] for imported in _imports(path)}
    assert not roots & IMPURE_MODULES
    if name not in FILE_READERS:
        calls = {
            n.func.id
            for n in ast.walk(ast.parse(path.read_text()))
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        assert "open" not in calls


def _loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_logwatch_loads_nothing_heavy():
    """`import logwatch`, which every SGLang process does with the plugin, costs next to nothing."""
    assert not _loaded_by("import logwatch, logwatch.emitter.plugin") & (HEAVY | {"click"})


def test_the_watch_path_never_loads_polars_or_numpy():
    """The sidecar stays small: whole-file tools load only in the commands that need them."""
    loaded = _loaded_by("import logwatch.commands.watch, logwatch.daemon, logwatch.pipeline")
    assert not loaded & {"polars", "numpy", "scipy", "altair", "ruptures"}
