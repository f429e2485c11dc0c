"""The overlap worker: returns before the device is done, and learns what was accepted a cycle later."""

from types import SimpleNamespace

import torch

from sglang.srt.speculative.base_spec_worker import BaseSpecWorker


class EagleDraftWorker:
    def __init__(self, device):
        self.device = device

    def draft(self, batch):
        torch.work("draft", batch)
        return "verify input"

    def _draft_extend_for_decode(self, batch, _batch_result):
        torch.work("extend", batch)


class EAGLEWorkerV2(BaseSpecWorker):
    def __init__(self, device):
        self.device = device
        self.draft_worker = EagleDraftWorker(device)

    def forward_batch_generation(self, batch):
        if batch.drafts:
            self.draft_worker.draft(batch)
        result = self.verify(batch, grammar_barrier=None)
        self.draft_worker._draft_extend_for_decode(batch, result)
        if batch.tail_draft:
            self.draft_worker.draft(batch)
        return result

    def verify(self, batch, grammar_barrier=None):
        torch.work("verify", batch)
        return SimpleNamespace(can_run_cuda_graph=batch.graph, accept_lens=torch.Tensor(len(batch.seq_lens)))

    def on_verify_complete_cpu(self, num_correct_drafts_per_req, batch_size=0):
        self.told = num_correct_drafts_per_req
