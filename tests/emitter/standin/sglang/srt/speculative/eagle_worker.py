"""The older worker: verify tells what was accepted, and there is no extend when every request has ended."""

from types import SimpleNamespace

import torch


class EAGLEWorker:
    def __init__(self, device):
        self.device = device

    def forward_batch_generation(self, batch):
        self.draft(batch)
        result = self.verify(batch)
        if not batch.ends:
            self.forward_draft_extend_after_decode(batch)
        return result

    def draft(self, batch):
        torch.work("draft", batch)

    def verify(self, batch):
        torch.work("verify", batch)
        return "logits", SimpleNamespace(num_correct_drafts_per_req_cpu=batch.accepted), batch.graph

    def forward_draft_extend_after_decode(self, batch):
        torch.work("extend", batch)
