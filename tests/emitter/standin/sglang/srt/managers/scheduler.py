"""Makes the worker that its arguments name, as late as the real one does."""

import importlib
from types import SimpleNamespace


class Scheduler:
    def __init__(self, server_args, tp_rank=0):
        self.server_args = server_args
        self.ps = SimpleNamespace(tp_rank=tp_rank)
        self.draft_worker = None
        if server_args.speculative_algorithm and server_args.worker:
            module = importlib.import_module(f"sglang.srt.speculative.{server_args.module}")
            self.draft_worker = getattr(module, server_args.worker)(server_args.device)
