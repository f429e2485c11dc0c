"""`logwatch doctor` on real processes with real environments."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from logwatch.commands.diagnosis import Finding, diagnose
from logwatch.commands.doctor import command
from logwatch.commands.processes import OVERWRITTEN, Process, sglang_processes
from logwatch.judging.facts import Facts, Sighting

SERVER = """
import json, os, subprocess, sys
# A launcher: starts its ranks with titles as SGLang's, each with changes to the environment that it inherits.
ranks = json.loads(sys.argv[1])
children = []
for title, changes in ranks.items():
    environment = {k: v for k, v in (os.environ | changes).items() if v is not None}
    code = "import sys; sys.stdout.write('up\\\\n'); sys.stdout.flush(); sys.stdin.read()"
    child = subprocess.Popen([title, "-c", code], executable=sys.executable, env=environment,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    children.append(child)
print(json.dumps({title: child.pid for title, child in zip(ranks, children)}), file=sys.stderr, flush=True)
sys.stdin.read()
for child in children:
    child.stdin.close()
    child.wait()
"""


@dataclass
class Server:
    """A pretended server: its launcher and the process ids of its ranks by title."""

    launcher: int
    ranks: dict


@pytest.fixture
def serve(tmp_path):
    """Start a launcher `python -m sglang.launch_server` with ranks; its standard output is a log."""
    package = tmp_path / "sglang"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text(SERVER)
    started = []

    def start(ranks, environment=None, arguments=(), log=None):
        with Path(log or os.devnull).open("a") as out:
            launcher = subprocess.Popen(
                [sys.executable, "-m", "sglang.launch_server", json.dumps(ranks), *arguments],
                cwd=tmp_path,
                env={"PATH": os.environ["PATH"], **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
            )
        started.append(launcher)
        return Server(launcher.pid, json.loads(launcher.stderr.readline()))

    yield start
    for launcher in started:
        launcher.stdin.close()
        launcher.wait()
        launcher.stderr.close()


def doctor(*arguments):
    result = CliRunner().invoke(command, ["--format", "json", *map(str, arguments)])
    assert result.exit_code in {0, 1}, result.output
    return result.exit_code, json.loads(result.output)


def findings(document, level):
    return [each["what"] for each in document["findings"] if each["level"] == level]


HEALTHY = {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring", "EAGLE3_PROFILE": "1"}


def test_ranks_that_are_as_they_should_be(serve):
    """All variables reached all ranks, the profile is on: status 0."""
    server = serve({"sglang::scheduler_TP0": {}, "sglang::scheduler_TP1": {}}, HEALTHY)
    status, document = doctor()
    assert findings(document, "problem") == []
    assert "2 ranks have the variables of their parent, all alike" in findings(document, "ok")
    assert status == 0
    shown = {process["pid"]: process for process in document["processes"]}
    assert shown[server.launcher]["role"] == "launcher"
    for title, pid in server.ranks.items():
        assert shown[pid]["rank"] == title[-3:]
        assert shown[pid]["parent"] == server.launcher
        assert shown[pid]["environment"] == HEALTHY


def test_a_variable_that_never_reached_the_ranks(serve):
    """The launcher has it, the spawned ranks do not: both sides and the processes are named."""
    server = serve(
        {"sglang::scheduler_TP0": {"NCCL_PROTO": None}, "sglang::scheduler_TP1": {"NCCL_PROTO": None}},
        HEALTHY,
    )
    status, document = doctor()
    ranks = ", ".join(f"{title[-3:]} (pid {pid})" for title, pid in server.ranks.items())
    assert findings(document, "problem") == [
        f"NCCL_PROTO=LL in the parent (pid {server.launcher}) is missing in {ranks}"
    ]
    assert status == 1


def test_ranks_that_differ(serve):
    """One rank has another value: it differs from the parent and from the other rank."""
    server = serve(
        {"sglang::scheduler_DP0_TP0": {}, "sglang::scheduler_DP1_TP0": {"NCCL_ALGO": "Tree"}}, HEALTHY
    )
    first, second = server.ranks.values()
    _, document = doctor()
    assert findings(document, "problem") == [
        f"NCCL_ALGO=Ring in the parent (pid {server.launcher}) is Tree in DP1 TP0 (pid {second})",
        f"NCCL_ALGO differs between ranks: Ring in DP0 TP0 (pid {first}); Tree in DP1 TP0 (pid {second})",
    ]


def test_what_ranks_have_of_their_own_is_no_difference(serve):
    """Each rank may see another GPU."""
    serve(
        {
            "sglang::scheduler_TP0": {"CUDA_VISIBLE_DEVICES": "0"},
            "sglang::scheduler_TP1": {"CUDA_VISIBLE_DEVICES": "1"},
        },
        HEALTHY,
    )
    assert doctor()[0] == 0


def test_no_profile_and_no_graphs(serve):
    """Both are seen without a log: from the environment and the command line."""
    server = serve({"sglang::scheduler_TP0": {}}, {}, ["--disable-cuda-graph"])
    (rank,) = server.ranks.values()
    _, document = doctor()
    assert findings(document, "problem") == [
        f"the profile is off: EAGLE3_PROFILE is not set in TP0 (pid {rank})",
        f"launcher (pid {server.launcher}) was started with --disable-cuda-graph",
    ]


def write_log(path, *, graph=True):
    path.write_text(
        "[2026-02-11 08:15:00] server_args=ServerArgs(model_path='m', tp_size=1)\n"
        "[2026-02-11 08:15:01 TP0] EAGLE3_PROFILE environment NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_NTHREADS=512\n"
        "[2026-02-11 08:15:02 TP0] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n"
        "  Target verify:     19.14 ms/cyc  ( 95.0%)\n"
        "  Total cycle:       20.15 ms/cyc\n"
        "  Accept len:         0.92\n"
        "[2026-02-11 08:15:03 TP0] Decode batch, #running-req: 1, #token: 99, token usage: 0.02, accept len: 1.92,"
        f" accept rate: 0.46, cuda graph: {graph}, gen throughput (token/s): 94.00, #queue-req: 0\n"
        "[2026-02-11 08:15:04 TP0] EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n"
    )


def test_the_log_knows_better(serve, tmp_path):
    """The log is found by the server's standard output; a variable set after the start is taken from there."""
    log = tmp_path / "server.log"
    write_log(log)
    server = serve({"sglang::scheduler_TP0": {}}, HEALTHY, log=log)
    (rank,) = server.ranks.values()
    status, document = doctor()
    assert document["log"] == str(log)
    assert findings(document, "note") == [
        f"TP0 (pid {rank}) has NCCL_NTHREADS=512 by its log: set inside the program after its start"
    ]
    assert status == 0
    assert "CUDA graphs are used: 100% of the log's decode lines say so" in findings(document, "ok")


def test_graphs_lost_by_the_log(serve, tmp_path):
    """The newest decode line decides."""
    log = tmp_path / "server.log"
    write_log(log, graph=False)
    serve({"sglang::scheduler_TP0": {}}, HEALTHY)
    _, document = doctor("--log", log)
    assert findings(document, "problem") == [
        "no CUDA graph is used: line 7 of the log says `cuda graph: False`"
    ]


def test_against_the_tuned_run(serve, tmp_path):
    """Variables of the tuned run, kept by `tune` in the configuration, that are not there any more."""
    config = tmp_path / "logwatch.toml"
    config.write_text(
        '[tuned.environment]\nNCCL_PROTO = "LL"\nNCCL_NVLS_ENABLE = "0"\nHOME = "/x"\n'
        'NCCL_DEBUG = "INFO"\nCUDA_VISIBLE_DEVICES = "4,5"\n'
    )
    server = serve({"sglang::scheduler_TP0": {}}, HEALTHY)
    (rank,) = server.ranks.values()
    _, document = doctor("--config", config)
    assert findings(document, "problem") == [
        f"NCCL_NVLS_ENABLE=0 in the tuned run is missing in TP0 (pid {rank})"
    ]


def test_against_the_log_of_a_good_run(serve, tmp_path):
    """The same with `--tuned LOG`."""
    log = tmp_path / "good.log"
    write_log(log)
    server = serve({"sglang::scheduler_TP0": {}}, HEALTHY | {"NCCL_ALGO": "Tree"})
    (rank,) = server.ranks.values()
    _, document = doctor("--tuned", log)
    assert f"NCCL_ALGO=Ring in the tuned run is Tree in TP0 (pid {rank})" in findings(document, "problem")


def test_logs_that_cannot_be_read(serve, tmp_path):
    """Every followed file is tried."""
    config = tmp_path / "logwatch.toml"
    (tmp_path / "a.log").touch()
    config.write_text(f'[[source]]\npath = "{tmp_path}/*.log"\n')
    serve({"sglang::scheduler_TP0": {}}, HEALTHY)
    _, document = doctor("--config", config)
    assert f"{tmp_path}/a.log is readable" in findings(document, "ok")


def test_a_path_that_is_wrong_is_not_called_unreadable(serve, tmp_path):
    """A log that is not there is a problem of its own, and a source that matches nothing is worth a word."""
    serve({"sglang::scheduler_TP0": {}}, HEALTHY)
    config = tmp_path / "logwatch.toml"
    config.write_text('[[source]]\npath = "logs/*.log"\n')
    status, document = doctor("--config", config, "--log", tmp_path / "absent.log")
    assert status == 1
    assert findings(document, "problem") == [f"{tmp_path}/absent.log does not exist"]
    assert f"no file matches the source {tmp_path}/logs/*.log" in findings(document, "note")


def test_no_server(tmp_path):
    """Nothing to look at is trouble, and says what to think of."""
    (tmp_path / "1").mkdir()
    result = CliRunner().invoke(command, ["--proc", str(tmp_path)])
    assert result.exit_code == 1
    assert "no SGLang rank (sglang::scheduler...) is running" in str(result.exception)


def test_an_environment_that_a_title_has_overwritten(tmp_path):
    """What setproctitle leaves of an environment is not taken for the truth."""
    folder = tmp_path / "77"
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"sglang::scheduler_TP0\0" + b" " * 20 + b"\0")
    (folder / "status").write_text("Name:\tsglang::schedul\nPPid:\t1\n")
    (folder / "environ").write_bytes(b"scheduler_TP0\0\0\0\0")
    (process,) = sglang_processes(tmp_path)
    assert process.environment is None
    assert process.trouble == OVERWRITTEN
    (finding,) = [each for each in diagnose([process]) if each.level == "note"]
    assert "SPT_NOENV=1" in finding.hint


def test_the_table_is_for_people(serve):
    """Ranks with their variables, then findings with what to do."""
    serve({"sglang::scheduler_TP0": {"NCCL_PROTO": None}}, HEALTHY)
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 1
    assert "NCCL_ALGO=Ring" in result.output
    assert "problem NCCL_PROTO=LL in the parent" in result.output
    assert "export it where the workers are started" in result.output


def test_one_rank_is_alike_to_none():
    """Of a single rank no more is said than is known."""
    launcher = Process(1, 0, "launcher", "launcher", environment=HEALTHY)
    rank = Process(713, 1, "sglang::scheduler_TP0", "scheduler", "TP0", environment=HEALTHY)
    assert Finding("ok", "the rank has the variables of its parent") in diagnose([launcher, rank])


def test_lines_of_nccl_speak_for_a_process():
    """NCCL's own lines carry process ids: they say what a rank without a plugin has."""
    rank = Process(713, 1, "sglang::scheduler_TP0", "scheduler", "TP0", environment={"EAGLE3_PROFILE": "1"})
    facts = Facts(variables={"pid 713": {"NCCL_PROTO": "LL"}}, reports=3, graph_on=Sighting(4, 1, 9))
    assert diagnose([rank], facts, {"NCCL_PROTO": "LL"}) == [
        Finding(
            "note",
            "TP0 (pid 713) has NCCL_PROTO=LL by its log: set inside the program after its start",
            "the log is right; /proc shows only what a process was started with",
        ),
        Finding("ok", "the profile is on: the log holds 3 samples of this run"),
        Finding("ok", "CUDA graphs are used: 100% of the log's decode lines say so"),
    ]
