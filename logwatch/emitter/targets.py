"""`targets.py`: phase to dotted name, by SGLang version.

Read from the sources of the published wheels; `tests/emitter/test_wheels.py` reads them again. A method is
listed under the class that defines it: a subclass which only inherits it (`StandaloneWorkerV2`, the verify of
`FrozenKVMTPWorkerV2`) is covered by its parent's row.
"""

import re
from dataclasses import dataclass
from typing import Final

Version = tuple[int, int, int]

DRAFT: Final = "draft"
VERIFY: Final = "verify"
EXTEND: Final = "extend"
ACCEPT: Final = "accept"

START: Final = "sglang.srt.managers.scheduler.Scheduler.__init__"
"""Hooked first: once it has returned, logging is set up and the modules of the workers in use are loaded."""

OLDEST: Final[Version] = (0, 5, 11)
NEWEST: Final[Version] = (0, 5, 23)
"""The versions whose sources were read."""


@dataclass(frozen=True, slots=True)
class Target:
    """One method of SGLang that a phase is measured around.

    Args:
        phase: `DRAFT`, `VERIFY`, `EXTEND` or `ACCEPT` (not timed: it hands out accepted drafts on the CPU).
        path: Module, class and method, as the hook registry wants it.
        parameters: The names that the one parameter we read, the first after `self`, has had.
        since: First version that has it.
        until: First version without it, or None.
    """

    phase: str
    path: str
    parameters: tuple[str, ...]
    since: Version
    until: Version | None = None

    @property
    def module(self) -> str:
        """The dotted name of the module."""
        return self.path.rsplit(".", 2)[0]

    @property
    def owner(self) -> str:
        """The name of the class."""
        return self.path.rsplit(".", 2)[1]

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.path.rsplit(".", 1)[1]

    @property
    def short(self) -> str:
        """Class and method, as messages name it."""
        return f"{self.owner}.{self.method}"


_BATCH: Final = ("batch", "model_worker_batch")
_SPECULATIVE: Final = "sglang.srt.speculative"

TARGETS: Final[tuple[Target, ...]] = (
    # The overlap ("V2") worker: EAGLE, EAGLE-3 and, by inheritance, STANDALONE.
    Target(DRAFT, f"{_SPECULATIVE}.eagle_worker_v2.EagleDraftWorker.draft", _BATCH, (0, 5, 11)),
    Target(VERIFY, f"{_SPECULATIVE}.eagle_worker_v2.EAGLEWorkerV2.verify", _BATCH, (0, 5, 11)),
    Target(
        EXTEND,
        f"{_SPECULATIVE}.eagle_worker_v2.EagleDraftWorker._draft_extend_for_decode",
        _BATCH,
        (0, 5, 11),
    ),
    # The same for several draft layers (MTP).
    Target(
        DRAFT,
        f"{_SPECULATIVE}.multi_layer_eagle_worker_v2.MultiLayerEagleDraftWorker.draft",
        _BATCH,
        (0, 5, 11),
    ),
    Target(
        VERIFY,
        f"{_SPECULATIVE}.multi_layer_eagle_worker_v2.MultiLayerEagleWorkerV2.verify",
        _BATCH,
        (0, 5, 11),
    ),
    Target(
        EXTEND,
        f"{_SPECULATIVE}.multi_layer_eagle_worker_v2.MultiLayerEagleDraftWorker._draft_extend_for_decode",
        _BATCH,
        (0, 5, 11),
    ),
    # Frozen-KV MTP; its worker inherits `EAGLEWorkerV2.verify`.
    Target(DRAFT, f"{_SPECULATIVE}.frozen_kv_mtp_worker_v2.FrozenKVMTPDraftWorker.draft", _BATCH, (0, 5, 14)),
    Target(
        EXTEND,
        f"{_SPECULATIVE}.frozen_kv_mtp_worker_v2.FrozenKVMTPDraftWorker._draft_extend_for_decode",
        _BATCH,
        (0, 5, 14),
    ),
    # The older workers without overlap ("V1").
    Target(DRAFT, f"{_SPECULATIVE}.eagle_worker.EAGLEWorker.draft", _BATCH, (0, 5, 11), (0, 5, 13)),
    Target(VERIFY, f"{_SPECULATIVE}.eagle_worker.EAGLEWorker.verify", _BATCH, (0, 5, 11), (0, 5, 13)),
    Target(
        EXTEND,
        f"{_SPECULATIVE}.eagle_worker.EAGLEWorker.forward_draft_extend_after_decode",
        _BATCH,
        (0, 5, 11),
        (0, 5, 13),
    ),
    # Neither 0.5.11 nor 0.5.12 can import this one as published (an annotation names what is not imported).
    Target(
        DRAFT,
        f"{_SPECULATIVE}.multi_layer_eagle_worker.MultiLayerEagleWorker.draft",
        _BATCH,
        (0, 5, 11),
        (0, 5, 13),
    ),
    Target(
        VERIFY,
        f"{_SPECULATIVE}.multi_layer_eagle_worker.MultiLayerEagleWorker.verify",
        _BATCH,
        (0, 5, 11),
        (0, 5, 13),
    ),
    Target(
        EXTEND,
        f"{_SPECULATIVE}.multi_layer_eagle_worker.MultiLayerEagleWorker.forward_draft_extend_after_decode",
        _BATCH,
        (0, 5, 11),
        (0, 5, 13),
    ),
    Target(
        DRAFT, f"{_SPECULATIVE}.frozen_kv_mtp_worker.FrozenKVMTPWorker.draft", _BATCH, (0, 5, 12), (0, 5, 14)
    ),
    Target(
        VERIFY,
        f"{_SPECULATIVE}.frozen_kv_mtp_worker.FrozenKVMTPWorker.verify",
        _BATCH,
        (0, 5, 12),
        (0, 5, 14),
    ),
    Target(
        EXTEND,
        f"{_SPECULATIVE}.frozen_kv_mtp_worker.FrozenKVMTPWorker.forward_draft_extend_after_decode",
        _BATCH,
        (0, 5, 12),
        (0, 5, 14),
    ),
    # Accepted drafts as numbers on the CPU, a cycle late. The V1 workers return them from `verify`.
    Target(
        ACCEPT,
        f"{_SPECULATIVE}.eagle_worker_v2.EAGLEWorkerV2.on_verify_complete_cpu",
        ("num_correct_drafts_per_req",),
        (0, 5, 12),
    ),
    Target(
        ACCEPT,
        f"{_SPECULATIVE}.base_spec_worker.BaseSpecWorker.on_verify_complete_cpu",
        ("num_correct_drafts_per_req",),
        (0, 5, 12),
    ),
    Target(
        ACCEPT,
        "sglang.srt.managers.scheduler_output_processor_mixin.SchedulerOutputProcessorMixin"
        "._resolve_spec_overlap_token_ids",
        ("result",),
        (0, 5, 11),
        (0, 5, 12),
    ),
)


def parse_version(text: str) -> Version | None:
    """The first three numbers of a version; None for what has none, or only says 0.0.0 (a checkout).

    >>> parse_version("0.5.12.post1"), parse_version("0.6rc1"), parse_version("0.0.0.dev0")
    ((0, 5, 12), (0, 6, 0), None)
    """
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if found is None:
        return None
    version = (int(found[1]), int(found[2]), int(found[3] or 0))
    return version if any(version) else None


def targets_of(version: Version | None) -> tuple[Target, ...]:
    """The rows that hold for a version; for an unknown one (None), those of the newest version read."""
    version = version or NEWEST
    return tuple(
        target
        for target in TARGETS
        if target.since <= version and (target.until is None or version < target.until)
    )
