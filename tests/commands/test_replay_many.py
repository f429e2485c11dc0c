"""Many files: over processes and over a Ray cluster, the answer is the one of a single process."""

from __future__ import annotations

import gzip
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from logwatch.commands.replay import command, configured
from logwatch.commands.replaying import Outputs, Request, replay
from logwatch.config import Config
from logwatch.errors import SourceError
from logwatch.outlets.report.as_json import as_json

LOGS = Path(__file__).parents[2] / "fixtures" / "logs" / "sglang_h200"
NAMES = ("v0517_31_tp2_nccl_default", "v0517_34_tp2_nccl_socket", "v0517_01_eagle3_graph_prof")


@pytest.fixture
def fleet(tmp_path):
    """Logs of several servers, one of them packed and cut."""
    for number, name in enumerate(NAMES):
        node = tmp_path / "logs" / f"node{number}"
        node.mkdir(parents=True)
        (node / "server.log").write_bytes((LOGS / f"{name}.log").read_bytes() * 3)
    cut = gzip.compress((LOGS / f"{NAMES[0]}.log").read_bytes())[:-100]
    (tmp_path / "logs" / "node2" / "other.log.gz").write_bytes(cut)
    return tmp_path / "logs"


def outcome(fleet, tmp_path, name, engine="local"):
    """Summary as JSON, samples, and OpenMetrics text of one replay."""
    table, metrics, page = (tmp_path / f"{name}.{end}" for end in ("parquet", "om", "html"))
    config = configured(Config(), ["target_verify=4.5ms..6.5ms"], 200)
    summary = replay(Request([str(fleet)], config, outputs=Outputs(page, table, metrics), engine=engine))
    return as_json(summary), pl.read_parquet(table), metrics.read_text(), page.read_text()


def test_processes_answer_as_one_process_does(fleet, tmp_path, monkeypatch):
    """Summary, samples, OpenMetrics and page do not depend on how many processes worked."""
    alone = outcome(fleet, tmp_path, "alone")
    monkeypatch.setattr("logwatch.commands.replaying.SEVERAL", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    together = outcome(fleet, tmp_path, "together")
    assert together[0] == alone[0]
    assert together[1].equals(alone[1])
    assert together[2:] == alone[2:]
    assert '"damage": "cut short' in alone[0]


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_ray_cluster_answers_as_one_process_does(fleet, tmp_path, monkeypatch):
    """Two workers of a local Ray: judged there, samples back as Arrow, the same answer."""
    import ray

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else it writes a token to the home directory
    alone = outcome(fleet, tmp_path, "alone")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    try:
        spread = outcome(fleet, tmp_path, "ray", engine="ray")
    finally:
        ray.shutdown()
    assert spread[0] == alone[0]
    assert spread[1].equals(alone[1])
    assert spread[2:] == alone[2:]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("address", [None, "127.0.0.1:1"], ids=["none named", "nobody at the one named"])
def test_no_cluster_is_said_in_one_line(fleet, monkeypatch, address):
    """Nothing is started behind the user's back, and nobody waits for minutes."""
    if address:
        monkeypatch.setenv("RAY_ADDRESS", address)
    else:
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(SourceError, match="no Ray cluster answers; start one"):
        replay(Request([str(fleet)], Config(), engine="ray"))


def test_a_file_that_may_not_be_read_is_damage_among_many(fleet):
    """The others are judged, it is named, and the status says that not all was seen."""
    secret = fleet / "node0" / "server.log"
    secret.chmod(0)
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        if os.access(fleet, os.X_OK, effective_ids=True):
            done = CliRunner().invoke(command, [str(fleet), "--band", "target_verify=1ms..50ms"])
            assert done.exit_code == 2
            assert f"{secret}: no permission to read it" in done.stderr
    finally:
        os.seteuid(user)


def test_a_terminal_gets_a_bar_and_a_pipe_none(tmp_path):
    """Bytes, rate and time left, on standard error only where that is a terminal."""
    log = tmp_path / "big.log"
    log.write_bytes((LOGS / f"{NAMES[0]}.log").read_bytes() * 170)
    command_line = [sys.executable, "-m", "logwatch", "replay", str(log), "--format", "json"]
    ours, theirs = pty.openpty()
    seen = bytearray()

    def look():
        try:
            while data := os.read(ours, 4096):
                seen.extend(data)
        except OSError:
            pass

    watcher = threading.Thread(target=look)
    watcher.start()
    shown = subprocess.run(command_line, stdout=subprocess.PIPE, stderr=theirs, check=False, timeout=60)
    os.close(theirs)
    watcher.join()
    os.close(ours)
    piped = subprocess.run(command_line, capture_output=True, check=False, timeout=60)
    assert b"replay" in seen
    assert b"MB" in seen
    assert piped.stderr == b""
    assert piped.stdout == shown.stdout
    assert b"\x1b" not in piped.stdout
