"""The plugin in a server process: what it does, and what it never does."""

import importlib
import itertools
import logging
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from logwatch.emitter import plugin
from logwatch.emitter import server as readings
from logwatch.emitter.plugin import Settings
from logwatch.emitter.timer import EventTimer

ROOT = Path(__file__).parents[2]
STANDIN = Path(__file__).parent / "standin"
V1 = ("eagle_worker", "EAGLEWorker")


def test_the_overlap_worker_is_reported(server):
    """Draft, verify and extend of the device, batch, graphs and what was accepted, every so many cycles."""
    server.start(every=4)
    for accepted in (2, 0, 1, 1, 0):
        server.cycle()
        server.worker.on_verify_complete_cpu([accepted], batch_size=1)
    text = (
        "EAGLE3_PROFILE 4 cycles, batch 1.0, graph 100.0%\n"
        "  Draft forward:      1.00 ms/cyc  (  7.7%)\n"
        "  Target verify:     10.00 ms/cyc  ( 76.9%)\n"
        "  Draft extend:       2.00 ms/cyc  ( 15.4%)\n"
        "  Total cycle:       13.00 ms/cyc\n"
        "  Accept len:         1.00\n"
        "  Verify min/p99/max: 10.00 / 10.00 / 10.00 ms\n"
        "  Launch: draft 0.00 ms, verify 0.00 ms, extend 0.00 ms"
    )
    assert server.reports == [text]


def test_the_older_worker_is_reported(server):
    """Its verify tells graph and accepted drafts in a tuple; its extend may be missing."""
    importlib.import_module("sglang").__version__ = "0.5.12.post1"
    server.start(*V1, every=4)
    server.cycle(3, graph=False, size=2, accepted=(1, 2))
    server.cycle(2, graph=True, size=2, accepted=(1, 2), ends=True)
    (report,) = server.reports
    assert report.splitlines()[:6] == [
        "EAGLE3_PROFILE 4 cycles, batch 2.0, graph 25.0%",
        "  Draft forward:      1.00 ms/cyc  (  8.0%)",
        "  Target verify:     10.00 ms/cyc  ( 80.0%)",
        "  Draft extend:       1.50 ms/cyc  ( 12.0%)",
        "  Total cycle:       12.50 ms/cyc",
        "  Accept len:         1.50",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"drafts": False, "tail_draft": True}, id="pipeline parallelism drafts at the tail"),
        pytest.param({}, id="drafting at the head"),
    ],
)
def test_the_order_of_a_pass_does_not_matter(server, changes):
    """Shares are the same wherever in the pass the draft runs."""
    server.start(every=4)
    server.cycle(1, tail_draft=changes.get("tail_draft", False))
    server.cycle(4, **changes)
    assert "  Draft forward:      1.00 ms/cyc  (  7.7%)" in server.reports[0]


@pytest.mark.parametrize("value", [None, "", "0", "false", "No", " off "])
def test_without_the_variable_nothing_happens(server, monkeypatch, value):
    """No hook, no line, no import."""
    if value is not None:
        monkeypatch.setenv("EAGLE3_PROFILE", value)
    __import__("sglang.srt.managers.scheduler")
    plugin.register()
    assert "sglang.srt.plugins.hook_registry" not in sys.modules
    assert server.said == []


def test_a_process_without_a_scheduler_is_left_alone(server, monkeypatch):
    """The tokenizer's and the detokenizer's process import nothing on our account."""
    monkeypatch.setenv("EAGLE3_PROFILE", "1")
    before = set(sys.modules)
    plugin.register()
    assert set(sys.modules) == before


def test_an_original_is_called_once_and_its_results_pass_through(server):
    """What SGLang's methods return is what its callers get."""
    server.start(every=1)
    result = server.cycle(3, graph=False)
    assert server.torch.calls == ["draft", "verify", "extend"] * 3
    assert result.can_run_cuda_graph is False


@pytest.mark.parametrize("phase", ["draft", "verify", "extend"])
@pytest.mark.parametrize(
    "error", [ValueError("bad batch"), KeyboardInterrupt(), SystemExit(3)], ids=lambda e: type(e).__name__
)
def test_an_error_of_the_original_is_raised_as_it_is(server, phase, error):
    """The very error, after one call; measuring goes on."""
    server.start(every=1)
    with pytest.raises(type(error)) as raised:
        server.cycle(errors={phase: error})
    assert raised.value is error
    assert server.torch.calls.count(phase) == 1
    server.cycle(2)
    assert len(server.reports) == 1
    assert server.said == server.reports


@pytest.mark.parametrize("broken", ["record", "query"])
def test_an_error_of_our_own_is_said_once_and_ends_measuring(server, broken):
    """The server goes on as if the plugin were not there."""
    server.start(every=1)
    server.torch.broken = broken
    server.cycle(5)
    assert server.torch.calls == ["draft", "verify", "extend"] * 5
    (message,) = server.said
    assert message.startswith(
        "sglang-logwatch: switched itself off, the server is not affected: RuntimeError: the driver is gone at "
    )


@pytest.mark.parametrize("attribute", ["mark", "seconds", "release", "capturing"])
@pytest.mark.parametrize("after", [0, 1, 2, 3, 4, 5, 7, 11, 13])
def test_whatever_breaks_whenever_the_server_sees_nothing_of_it(server, monkeypatch, attribute, after):
    """Each call of the timer may be the one that fails: originals run once each, and one line is said."""
    healthy, calls = getattr(EventTimer, attribute), itertools.count()

    def breaks(self, *args):
        if next(calls) >= after:
            raise OSError("gone\nfor good")
        return healthy(self, *args)

    monkeypatch.setattr(EventTimer, attribute, breaks)
    server.start(every=1000)
    result = server.cycle(12)
    assert result.can_run_cuda_graph
    assert server.torch.calls == ["draft", "verify", "extend"] * 12
    (message,) = server.said
    assert (
        "switched itself off, the server is not affected: OSError: gone for good at test_plugin.py" in message
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param(object(), "AttributeError", id="a batch without its lengths"),
        pytest.param(None, "AttributeError", id="no batch at all"),
    ],
)
def test_arguments_that_we_do_not_know_are_our_problem(server, value, words):
    """The original gets what it was given, whatever we make of it."""
    server.start(every=1)
    seen = []
    server.torch.work = lambda phase, batch: seen.append((phase, batch))
    server.worker.draft_worker.draft(value)
    assert seen == [("draft", value)]
    assert words in server.said[0]


def test_an_error_at_start_does_not_stop_the_server(server, monkeypatch):
    """A broken start is said, and the scheduler is made."""
    monkeypatch.setattr(readings, "rank_of", lambda _scheduler: 1 / 0)
    server.start()
    server.cycle(2)
    assert [message.split(" at ")[0] for message in server.said] == [
        "sglang-logwatch: switched itself off, the server is not affected: ZeroDivisionError: division by zero"
    ]


def test_a_registry_that_is_not_there_does_not_stop_the_server(server, monkeypatch):
    """An SGLang whose hooks have moved is told in one line."""
    monkeypatch.setenv("EAGLE3_PROFILE", "1")
    __import__("sglang.srt.managers.scheduler")
    monkeypatch.setitem(sys.modules, "sglang.srt.plugins.hook_registry", None)
    plugin.register()
    assert len(server.said) == 1
    assert "switched itself off" in server.said[0]


def test_a_device_that_lags_is_never_waited_for(server):
    """Reports come late, complete and without a wait (the stand-in raises on any)."""
    server.start(every=2)
    server.torch.reached_s = -1.0
    server.cycle(5)
    assert server.reports == []
    server.torch.reached_s = float("inf")
    server.cycle(1)
    assert len(server.reports) == 2
    assert all("Target verify:     10.00" in report for report in server.reports)
    assert server.said == server.reports


def test_a_device_that_never_answers_costs_a_bounded_number_of_events(server):
    """The pool is the limit."""
    server.start(every=2)
    server.torch.reached_s = -1.0
    server.cycle(500)
    assert len(server.torch.made) <= 128
    assert server.torch.calls.count("verify") == 500


def test_a_tensor_of_accepted_drafts_is_not_read(server):
    """Only numbers that are on the CPU already count: anything else might wait for the device."""
    server.start(every=1)
    server.worker.on_verify_complete_cpu(server.torch.Tensor(1))
    server.cycle(2)
    assert "Accept len" not in server.reports[0]
    assert server.said == server.reports


@pytest.mark.parametrize(
    ("rank", "ranks", "reports", "environments"),
    [
        pytest.param(0, "", 1, 1, id="rank 0 reports"),
        pytest.param(1, "", 0, 1, id="another rank only says its environment"),
        pytest.param(1, "all", 1, 1, id="all ranks report when asked to"),
    ],
)
def test_ranks(server, rank, ranks, reports, environments):
    """Each rank says once what it runs with; the report is rank 0's."""
    server.start(rank=rank, every=2, EAGLE3_PROFILE_RANKS=ranks, NCCL_PROTO="LL", SGLANG_TOP_SECRET="hush")
    server.cycle(3)
    assert len(server.reports) == reports
    assert (
        server.environments
        == ["EAGLE3_PROFILE environment NCCL_PROTO=LL SGLANG_TOP_SECRET=(set)"] * environments
    )


def test_a_rank_that_does_not_report_is_not_hooked(server):
    """Not a microsecond for ranks that nobody asked."""
    server.start(rank=3)
    assert not hasattr(type(server.worker).verify, "__wrapped__")


@pytest.mark.parametrize(
    ("environ", "settings"),
    [
        pytest.param({}, Settings(), id="off"),
        pytest.param({"EAGLE3_PROFILE": "1"}, Settings(True), id="on"),
        pytest.param(
            {"EAGLE3_PROFILE": "1", "EAGLE3_PROFILE_EVERY": " 25 "}, Settings(True, 25), id="every 25 cycles"
        ),
        pytest.param(
            {"EAGLE3_PROFILE": "1", "EAGLE3_PROFILE_RANKS": "ALL"},
            Settings(True, all_ranks=True),
            id="all ranks",
        ),
        pytest.param(
            {"EAGLE3_PROFILE": "1", "EAGLE3_PROFILE_EVERY": "0"},
            Settings(
                True, complaint="EAGLE3_PROFILE_EVERY must be a whole number above 0, not '0'; using 100"
            ),
            id="no number of cycles",
        ),
    ],
)
def test_settings(environ, settings):
    """What the variables mean."""
    assert Settings.read(environ) == settings


def test_a_number_that_is_none_is_said_once_and_the_default_taken(server):
    """A typing error in a variable is no reason to say nothing."""
    server.start(every="often")
    server.cycle(101)
    assert (
        server.said[0]
        == "sglang-logwatch: EAGLE3_PROFILE_EVERY must be a whole number above 0, not 'often'; using 100"
    )
    assert server.reports[0].startswith("EAGLE3_PROFILE 100 cycles,")


def test_a_log_level_that_hides_reports_is_said(server, caplog):
    """Otherwise the plugin would seem dead."""
    caplog.set_level(logging.WARNING, "sglang")
    server.start()
    assert server.said == [
        "sglang-logwatch: reports are logged at level INFO, which this server hides; start it with --log-level info"
    ]


@pytest.mark.parametrize(
    ("start", "message"),
    [
        pytest.param(
            {"algorithm": None},
            "nothing to measure: this server runs without speculative decoding",
            id="no speculation",
        ),
        pytest.param(
            {"worker": None},
            "nothing to measure: no speculative worker in this process (EAGLE3 runs in another stage)",
            id="a pipeline stage before the last",
        ),
        pytest.param(
            {"module": "dflash_worker_v2", "worker": "DFlashWorkerV2", "algorithm": "DFLASH"},
            "nothing to measure: SGLang 0.5.17 runs DFlashWorkerV2 (DFLASH) without any part that is timed",
            id="a worker with other parts",
        ),
    ],
)
def test_nothing_to_measure_is_said_once(server, start, message):
    """One line says why no report will come."""
    server.start(**start)
    assert server.said == [f"sglang-logwatch: {message}"]


@pytest.mark.parametrize(
    ("version", "known"),
    [
        pytest.param("0.5.17", "SGLang 0.5.17", id="a version that was read"),
        pytest.param("0.9.1rc1", "SGLang 0.9.1 (this plugin knows 0.5.11 to 0.5.23)", id="a later one"),
        pytest.param(
            "0.0.0.dev0", "SGLang of unknown version (this plugin knows 0.5.11 to 0.5.23)", id="a checkout"
        ),
    ],
)
def test_a_target_that_is_missing_is_said_in_one_line_and_left_out(server, version, known):
    """The rest is measured; there is no zero in the place of what is not known."""
    workers = __import__("sglang.srt.speculative.eagle_worker_v2", fromlist=["x"])
    sys.modules["sglang"].__version__ = version
    workers.EagleDraftWorker.renamed = workers.EagleDraftWorker._draft_extend_for_decode
    workers.EAGLEWorkerV2.forward_batch_generation = lambda self, batch: (
        self.draft_worker.draft(batch),
        self.verify(batch),
        self.draft_worker.renamed(batch, None),
    )
    del workers.EagleDraftWorker._draft_extend_for_decode
    server.start(every=2)
    server.cycle(3)
    message, report = server.said
    assert (
        message
        == f"sglang-logwatch: {known} offers no EagleDraftWorker._draft_extend_for_decode: extend left out"
    )
    assert [line.split(":")[0].strip() for line in report.splitlines()[1:]] == [
        "Draft forward",
        "Target verify",
        "Verify min/p99/max",
        "Launch",
    ]


def test_a_hook_that_the_registry_does_not_take_is_said(server):
    """SGLang skips what it cannot hook, and goes on; so do we, but not in silence."""
    server.registry.patched.add("sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2.verify")
    server.start(every=2)
    server.cycle(3)
    message, report = server.said
    assert message == "sglang-logwatch: SGLang 0.5.17 offers no EAGLEWorkerV2.verify: verify left out"
    assert report.startswith(
        "EAGLE3_PROFILE 2 cycles, batch 1.0\n  Draft forward:      1.00 ms/cyc\n  Draft extend:"
    )


def test_a_report_is_one_write(server):
    """Lines of ranks do not tear: the block reaches the stream in one piece, with SGLang's prefix."""
    writes = []
    stream = type(
        "Stream", (), {"write": lambda _self, text: writes.append(text), "flush": lambda _self: None}
    )()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("[2026-02-11 08:15:02 TP0] %(message)s"))
    logger = logging.getLogger("sglang")
    logger.addHandler(handler)
    try:
        server.start(every=1)
        server.cycle(2)
    finally:
        logger.removeHandler(handler)
    (report,) = [text for text in writes if " cycles" in text]
    assert report.startswith(
        "[2026-02-11 08:15:02 TP0] EAGLE3_PROFILE 1 cycles, batch 1.0, graph 100.0%\n  Draft forward:"
    )
    assert report.count("\n") == len(server.reports[0].splitlines())


def test_the_plugin_works_alone(tmp_path):
    """Found by its entry point, beside SGLang, with nothing of logwatch but itself and nothing but Python."""
    package = tmp_path / "site" / "logwatch"
    shutil.copytree(
        ROOT / "logwatch" / "emitter", package / "emitter", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "logwatch" / "__init__.py", package / "__init__.py")
    info = tmp_path / "site" / "sglang_logwatch-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang-logwatch\nVersion: 1\n")
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in entries.items())
            for group, entries in entry_points.items()
        )
    )
    program = """
import logging, sys
from types import SimpleNamespace as N
logging.basicConfig(level=logging.INFO, format="[now TP0] %(message)s")
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.plugins import load_plugins
import torch
load_plugins()
worker = Scheduler(N(speculative_algorithm="EAGLE3", module="eagle_worker_v2", worker="EAGLEWorkerV2", device="cuda")).draft_worker
for _ in range(3):
    worker.forward_batch_generation(N(seq_lens=torch.Tensor(1), graph=True, drafts=True, tail_draft=False, errors={}))
print(*sorted({n.split(".")[0] for n in sys.modules} - sys.stdlib_module_names - {"__main__"}))
print(*sorted(n for n in sys.modules if n.startswith("logwatch") and "emitter" not in n))
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={
            "PATH": os.defpath,
            "PYTHONPATH": f"{tmp_path / 'site'}:{STANDIN}",
            "EAGLE3_PROFILE": "1",
            "EAGLE3_PROFILE_EVERY": "2",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert "[now TP0] EAGLE3_PROFILE 2 cycles, batch 1.0, graph 100.0%\n" in done.stderr
    assert done.stdout.splitlines() == ["logwatch sglang torch", "logwatch"]
