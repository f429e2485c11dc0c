"""Drives the plugin on a stand-in for SGLang and torch (`standin/`)."""

import importlib
import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from logwatch.emitter import plugin
from logwatch.emitter.targets import Version

STANDIN = Path(__file__).parent / "standin"


class Server:
    """One server process of the stand-in, with the plugin loaded as SGLang would load it."""

    def __init__(self, monkeypatch, caplog):
        self._monkeypatch = monkeypatch
        self._caplog = caplog
        self.torch = importlib.import_module("torch")
        self.worker = None

    def start(
        self,
        module="eagle_worker_v2",
        worker="EAGLEWorkerV2",
        *,
        algorithm="EAGLE3",
        device="cuda",
        rank=0,
        every=4,
        **environ,
    ):
        """Starts a process of this rank; further keywords are environment variables."""
        environ = {"EAGLE3_PROFILE": "1", "EAGLE3_PROFILE_EVERY": str(every), **environ}
        for name, value in environ.items():
            self._monkeypatch.setenv(name, value)
        scheduler_module = importlib.import_module("sglang.srt.managers.scheduler")
        plugin.register()
        self.registry.apply_hooks()
        arguments = SimpleNamespace(
            speculative_algorithm=algorithm, module=module, worker=worker, device=device
        )
        scheduler = scheduler_module.Scheduler(arguments, rank)
        self.worker = scheduler.draft_worker
        return self

    @property
    def registry(self):
        return importlib.import_module("sglang.srt.plugins.hook_registry").HookRegistry

    def cycle(self, times=1, **changes):
        """Runs so many cycles of one batch; the next draft closes the last one."""
        for _ in range(times):
            result = self.worker.forward_batch_generation(batch(**changes))
        return result

    @property
    def said(self):
        """Every message, environment lines left out."""
        return [m for m in self._caplog.messages if not m.startswith("EAGLE3_PROFILE environment")]

    @property
    def reports(self):
        return [
            message
            for message in self._caplog.messages
            if message.startswith("EAGLE3_PROFILE ") and " cycles" in message
        ]

    @property
    def environments(self):
        return [m for m in self._caplog.messages if m.startswith("EAGLE3_PROFILE environment")]


def batch(size=1, graph=True, drafts=True, ends=False, tail_draft=False, errors=None, accepted=(1,)):
    tensor = importlib.import_module("torch").Tensor
    return SimpleNamespace(
        seq_lens=tensor(size),
        graph=graph,
        drafts=drafts,
        ends=ends,
        tail_draft=tail_draft,
        errors=errors or {},
        accepted=list(accepted),
    )


@pytest.fixture
def server(monkeypatch, caplog):
    """A server process that is not started yet, without any variable that the plugin looks at."""
    for name in list(__import__("os").environ):
        if name.startswith(("EAGLE3_PROFILE", "NCCL_", "CUDA_", "SGLANG_", "TORCH_NCCL_")):
            monkeypatch.delenv(name)
    monkeypatch.syspath_prepend(str(STANDIN))
    caplog.set_level(logging.INFO, "sglang")
    yield Server(monkeypatch, caplog)
    for name in [name for name in sys.modules if name.split(".")[0] in {"sglang", "torch"}]:
        del sys.modules[name]


def version_text(version: Version) -> str:
    return ".".join(map(str, version))
