"""The table of targets against the sources in SGLang's published wheels: read with `ast`, nothing is imported.

The wheels (7 to 40 MB each) are fetched once by pip into `.work/wheels`; set `LOGWATCH_WHEELS` for another folder.
"""

import ast
import os
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest

from logwatch.emitter.targets import (
    ACCEPT,
    DRAFT,
    EXTEND,
    NEWEST,
    OLDEST,
    START,
    VERIFY,
    parse_version,
    targets_of,
)

VERSIONS = ["0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.17", "0.5.20", "0.5.23"]
WHEELS = Path(os.environ.get("LOGWATCH_WHEELS") or Path(__file__).parents[2] / ".work" / "wheels")
REGISTRY = "sglang.srt.plugins.hook_registry"
RESULT = "sglang.srt.managers.utils"

ROWS = [(version, target) for version in VERSIONS for target in targets_of(parse_version(version))]
IDS = [f"{version} {target.short}" for version, target in ROWS]


@cache
def wheel(version):
    """The wheel of a version, fetched unless it lies there already."""
    WHEELS.mkdir(parents=True, exist_ok=True)
    if not (found := sorted(WHEELS.glob(f"sglang-{version}-*.whl"))):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--disable-pip-version-check", "--dest", str(WHEELS), f"sglang=={version}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found = sorted(WHEELS.glob(f"sglang-{version}-*.whl"))
    return zipfile.ZipFile(found[0])


@cache
def tree(version, module):
    """A module's syntax tree, or None where this version has no such module."""
    path = module.replace(".", "/")
    names = set(wheel(version).namelist())
    name = next((n for n in (f"{path}.py", f"{path}/__init__.py") if n in names), None)
    return None if name is None else ast.parse(wheel(version).read(name))


def classes(version, module):
    parsed = tree(version, module)
    return {node.name: node for node in parsed.body if isinstance(node, ast.ClassDef)} if parsed else {}


def methods(owner):
    return {node.name: node for node in owner.body if isinstance(node, ast.FunctionDef)}


def parameters(function):
    return [argument.arg for argument in function.args.posonlyargs + function.args.args]


def calls(node):
    """Names of methods called anywhere in a function."""
    return {
        n.func.attr for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
    }


def test_the_versions_read_are_the_ones_that_the_table_claims():
    """The first and the last of them stand in the table and in its messages."""
    assert (parse_version(VERSIONS[0]), parse_version(VERSIONS[-1])) == (OLDEST, NEWEST)


@pytest.mark.parametrize(("version", "target"), ROWS, ids=IDS)
def test_a_target_is_there_with_the_parameter_that_we_read(version, target):
    """Module, class and method exist, the class defines the method itself, and its first parameter is known."""
    function = methods(classes(version, target.module)[target.owner])[target.method]
    assert parameters(function)[0] == "self"
    assert parameters(function)[1] in target.parameters
    assert not function.decorator_list


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_has_draft_verify_extend_and_accepted_drafts(version):
    """No version without one of them."""
    assert {target.phase for target in targets_of(parse_version(version))} == {DRAFT, VERIFY, EXTEND, ACCEPT}


@pytest.mark.parametrize("version", VERSIONS)
def test_no_worker_with_the_same_parts_is_forgotten(version):
    """Each class in a worker's module that defines one of these methods is in the table."""
    listed = {(t.module, t.owner, t.method) for t in targets_of(parse_version(version)) if t.phase != ACCEPT}
    names = {method for _, _, method in listed}
    modules = [
        name.removesuffix(".py").replace("/", ".")
        for name in wheel(version).namelist()
        if name.startswith("sglang/srt/speculative/") and "worker" in name and name.endswith(".py")
    ]
    there = {
        (module, owner.name, method)
        for module in modules
        for owner in classes(version, module).values()
        if not any(isinstance(base, ast.Name) and base.id == "ABC" for base in owner.bases)
        for method in methods(owner)
        if method in names
    }
    assert there == listed


@pytest.mark.parametrize(("version", "target"), ROWS, ids=IDS)
def test_a_target_is_called_in_a_decode_cycle(version, target):
    """The workers' forward pass, or the scheduler's result processing, calls it by this name."""
    module = target.module
    if target.phase == ACCEPT:
        folder = "sglang/srt/managers/"
        sources = [n for n in wheel(version).namelist() if n.startswith(folder) and n.endswith(".py")]
        assert any(f".{target.method}(".encode() in wheel(version).read(name) for name in sources)
    else:
        passes = [
            methods(owner)["forward_batch_generation"]
            for owner in classes(version, module).values()
            if "forward_batch_generation" in methods(owner)
        ]
        assert passes
        assert any(target.method in calls(function) for function in passes)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_scheduler_can_be_hooked_where_it_starts(version):
    """`START` names a method that the class defines, and the scheduler's process loads plugins before it."""
    module, owner, method = START.rsplit(".", 2)
    scheduler = classes(version, module)[owner]
    assert method in methods(scheduler)
    (process,) = [
        n
        for n in tree(version, module).body
        if isinstance(n, ast.FunctionDef) and n.name == "run_scheduler_process"
    ]
    lines = {
        name: min(
            n.lineno for n in ast.walk(process) if isinstance(n, ast.Call) and ast.unparse(n.func) == name
        )
        for name in ("load_plugins", "Scheduler")
    }
    assert lines["load_plugins"] < lines["Scheduler"]


@pytest.mark.parametrize("version", VERSIONS)
def test_plugins_are_loaded_as_we_are_declared(version):
    """The group of the entry point, and a callable without arguments."""
    plugins = tree(version, "sglang.srt.plugins")
    (group,) = [
        node.value.value
        for node in plugins.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "GENERAL_PLUGINS_GROUP"
    ]
    assert group == "sglang.srt.plugins"
    assert "func()" in {ast.unparse(node) for node in ast.walk(plugins) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_registry_has_the_interface_that_the_stand_in_imitates(version):
    """`register(target, hook, hook_type)`, `apply_hooks()`, AFTER with the result first, AROUND with the original."""
    registry = methods(classes(version, REGISTRY)["HookRegistry"])
    assert parameters(registry["register"]) == ["cls", "target", "hook", "hook_type"]
    assert parameters(registry["apply_hooks"]) == ["cls"]
    kinds = {
        ast.unparse(node.targets[0])
        for node in classes(version, REGISTRY)["HookType"].body
        if isinstance(node, ast.Assign)
    }
    assert {"AFTER", "AROUND"} <= kinds
    (wrap,) = [
        n for n in tree(version, REGISTRY).body if isinstance(n, ast.FunctionDef) and n.name == "_wrap_fn"
    ]
    made = {ast.unparse(node) for node in ast.walk(wrap) if isinstance(node, ast.Call)}
    assert {"hook(original_fn, *args, **kwargs)", "hook(result, *args, **kwargs)"} <= made


@pytest.mark.parametrize("version", VERSIONS)
def test_results_have_the_fields_that_we_read(version):
    """The graph and the accepted drafts, under one of the names that are looked for."""
    fields = {
        ast.unparse(n.target)
        for n in classes(version, RESULT)["GenerationBatchResult"].body
        if isinstance(n, ast.AnnAssign)
    }
    assert "can_run_cuda_graph" in fields
    assert fields & {"num_correct_drafts_per_req_cpu", "num_accepted_drafts_per_req_cpu"}


@pytest.mark.parametrize("version", ["0.5.11", "0.5.12"])
def test_the_older_workers_verify_returns_what_we_read(version):
    """A tuple whose second value holds the accepted drafts and whose last one is the graph."""
    verify = methods(classes(version, "sglang.srt.speculative.eagle_worker")["EAGLEWorker"])["verify"]
    (returned,) = [node.value for node in ast.walk(verify) if isinstance(node, ast.Return)]
    names = [ast.unparse(element) for element in returned.elts]
    assert (names[1], names[-1]) == ("res", "can_run_cuda_graph")
    output = classes(version, "sglang.srt.speculative.eagle_info")["EagleVerifyOutput"]
    fields = {ast.unparse(node.target) for node in output.body if isinstance(node, ast.AnnAssign)}
    assert fields & {"num_correct_drafts_per_req_cpu", "num_accepted_drafts_per_req_cpu"}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_rank_is_kept_where_we_look(version):
    """On the scheduler, in its parallel state, or in the process's runtime context."""
    module, owner, method = START.rsplit(".", 2)
    made = {ast.unparse(node) for node in ast.walk(methods(classes(version, module)[owner])[method])}
    context = tree(version, "sglang.srt.runtime_context")
    assert (
        "self.tp_rank = tp_rank" in made
        or any(line.startswith("self.ps = ParallelState(") and "tp_rank=tp_rank" in line for line in made)
        or (
            context is not None
            and {"get_parallel", "ParallelContext"} <= {getattr(n, "name", "") for n in context.body}
        )
    )
