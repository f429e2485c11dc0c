"""Level 1: equal conditions. What legitimately moves a phase's time is compared within, never across.

The discrete conditions make a bucket: batch size (exact up to 8, then ranges of about a sixth) and the
draft's steps and tokens. Whether a graph is used, and the version, are no load but what may be wrong: they
never excuse a time. Context is not discrete: a robust line inside the bucket takes it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from logwatch.judging.bands import Wanted
    from logwatch.model import Conditions, Cycle

EXACT = 8
LONGEST = 300
MIXTURE = 0.2
"""A mean batch size this far from a whole number is a mixture of batches, equal to nothing else."""

TOKENS = "tokens_per_cycle"
UNTIMED = {TOKENS: "tokens a cycle", "speculation": "tok/s", "cuda_graph": "", "samples": ""}
"""What an incident may be about besides phases, and its unit: no seconds."""

WHOLE = ("total_cycle", "inferred_cycle")
_PARTS_OF_WHOLE = ("target_verify",)
_DRAFT = ("num_steps", "topk", "draft_tokens")

NOISE = frozenset({
    "random_seed", "port", "nccl_port", "host", "dist_init_addr", "api_key", "admin_api_key",
    "served_model_name", "log_level", "log_level_http", "crash_dump_folder", "file_storage_path",
    "tokenizer_worker_num", "enable_metrics", "show_time_cost", "node_rank", "gc_threshold",
    "watchdog_timeout", "fastapi_root_path", "log_requests", "log_requests_level", "log_requests_format",
    "log_requests_target", "grpc_port",
})  # fmt: skip
"""Settings that differ between two starts of the same server and say nothing of its speed."""


def batch_range(batch_size: float | None) -> tuple[int, int] | None:
    """The batch sizes that count as equal to this one, both ends included; None for a mixture.

    >>> batch_range(1.02), batch_range(9.4), batch_range(3.5)
    ((1, 1), (9, 10), None)
    """
    if batch_size is None:
        return None
    if batch_size < EXACT + 0.5:
        whole = round(batch_size)
        return None if abs(batch_size - whole) > MIXTURE else (whole, whole)
    low = EXACT + 1
    while True:
        high = low + max(1, low // 6)
        if batch_size < high + 0.5:
            return low, high
        low = high + 1


def bucket_of(phase: str, conditions: Conditions) -> dict[str, Wanted] | None:
    """The bucket of a sample, as a band's `when` would ask for it; None where it is equal to nothing else."""
    found: dict[str, Wanted] = {}
    if phase != TOKENS and conditions.batch_size is not None:
        ends = batch_range(conditions.batch_size)
        if ends is None:
            return None
        found["batch_size"] = str(ends[0]) if ends[0] == ends[1] else f"{ends[0]}..{ends[1]}"
    for name in _DRAFT:
        value = getattr(conditions, name)
        if value is not None:
            found[name] = value
    return found


def bucket_text(bucket: Mapping[str, Wanted]) -> str:
    """A bucket in one word, for keys and for people: `batch_size=1,num_steps=2`."""
    return ",".join(f"{name}={value}" for name, value in bucket.items())


def samples_of(cycle: Cycle) -> dict[str, float]:
    """What of a cycle is worth a chart: its phases (a sum only where its parts are missing), its tokens."""
    parts = any(name in cycle.phases_s for name in _PARTS_OF_WHOLE)
    found = {name: value for name, value in cycle.phases_s.items() if not (parts and name in WHOLE)}
    if cycle.tokens_per_cycle is not None:
        found[TOKENS] = cycle.tokens_per_cycle
    return found


def group_of(rank: str | None) -> str:
    """The data-parallel part of a rank: ranks of one group step together."""
    return next((tag for tag in (rank or "").split() if tag.startswith("DP")), "")


def telling(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that can make a difference, long values cut."""
    return {name: value[:LONGEST] for name, value in settings.items() if name not in NOISE}
