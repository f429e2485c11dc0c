"""`server.py`: what is read off SGLang's objects, wherever a version keeps it. Nothing here waits."""

import importlib.metadata
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from logwatch.emitter.targets import Target, Version, parse_version


def rank_of(scheduler: object) -> int | None:
    """This process's tensor-parallel rank, wherever this version keeps it; None where it is not found."""
    rank = getattr(scheduler, "tp_rank", None)
    if rank is None:
        rank = getattr(getattr(scheduler, "ps", None), "tp_rank", None)
    if rank is None and (context := sys.modules.get("sglang.srt.runtime_context")) is not None:
        rank = getattr(context.get_parallel(), "tp_rank", None)
    return rank if isinstance(rank, int) else None


def version() -> Version | None:
    """The version of the SGLang that runs; None where it cannot be told."""
    text = getattr(sys.modules.get("sglang"), "__version__", None)
    if not isinstance(text, str):
        try:
            text = importlib.metadata.version("sglang")
        except importlib.metadata.PackageNotFoundError:
            return None
    return parse_version(text)


def registry() -> tuple[Any, Any]:
    """SGLang's `HookRegistry` and `HookType`."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    return HookRegistry, HookType


def method(target: Target) -> object | None:
    """The function behind a target; None where its module is not loaded or has none. Imports nothing."""
    owner = getattr(sys.modules.get(target.module), target.owner, None)
    return getattr(owner, target.method, None)


def argument(args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first argument after `self`, by position or by one of the names it has had."""
    if len(args) > 1:
        return args[1]
    return next((kwargs[name] for name in names if name in kwargs), None)


def batch_size(batch: Any) -> int:
    """Requests in a batch, 0 when idle: the length of a tensor is known on the CPU."""
    return len(batch.seq_lens)


def graph(result: Any) -> bool | None:
    """Whether verify replayed a graph: a field of the overlap worker's result, the older one's last value."""
    if isinstance(result, tuple):
        return result[-1] if isinstance(result[-1], bool) else None
    replayed = getattr(result, "can_run_cuda_graph", None)
    return None if replayed is None else bool(replayed)


def counts_of_verify(result: Any) -> Sequence[int]:
    """Accepted drafts per request, where verify itself tells them: in the older worker's second result."""
    return counts(result[1]) if isinstance(result, tuple) and len(result) > 1 else ()


def counts(value: Any) -> Sequence[int]:
    """Accepted drafts per request, from a list or what holds one; never from a tensor: that may wait."""
    for name in ("num_correct_drafts_per_req_cpu", "num_accepted_drafts_per_req_cpu"):
        value = getattr(value, name, value)
    return value if isinstance(value, (list, tuple)) else ()
