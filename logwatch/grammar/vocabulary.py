"""Level 1: the kinds of records and their fields (contract, section 4.1), with what is sane for each field.

A grammar can give no other record and no other field: what nobody reads would be a spelling mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of a record.

    Attributes:
        gives: Type, as `kinds.Kind.gives`.
        most: The largest sane value of a number; a larger one is malformed.
    """

    gives: str
    most: float = 1e15


NUMBERS: Final = frozenset({"int", "real", "seconds", "share"})
"""Types of which a slot bounds the value."""

COUNT: Final = Slot("int", 1e15)
REQUESTS: Final = Slot("int", 1e7)
USAGE: Final = Slot("real", 10)
RATE: Final = Slot("share", 10)
PER_CYCLE: Final = Slot("real", 10_000)
THROUGHPUT: Final = Slot("real", 1e9)
SECONDS: Final = Slot("seconds", 3600)
TEXT: Final = Slot("text")
MAP: Final = Slot("map")
GRAPH: Final = Slot("bool")

EVENTS: Final = frozenset(
    {"ready", "graph_capture", "graph_lost", "retract", "watchdog", "crash", "abort", "exit"}
)

RECORDS: Final[Mapping[str, Mapping[str, Slot]]] = {
    "report": {
        "cycles": Slot("int", 1e9),
        "batch_size": Slot("real", 1e6),
        "graph_percent": Slot("real", 100),
    },
    "phase": {"phase": TEXT, "seconds": SECONDS, "share": Slot("share", 1)},
    "accept": {"accepted_drafts": PER_CYCLE},
    "spread": {"phase": TEXT, "min_seconds": SECONDS, "p99_seconds": SECONDS, "max_seconds": SECONDS},
    "launch": {"draft_seconds": SECONDS, "verify_seconds": SECONDS, "extend_seconds": SECONDS},
    "decode": {
        "iteration": COUNT,
        "running_requests": REQUESTS,
        "tokens": COUNT,
        "token_usage": USAGE,
        "tokens_per_cycle": PER_CYCLE,
        "accept_rate": RATE,
        "graph": GRAPH,
        "generation_tokens_per_second": THROUGHPUT,
        "queued_requests": REQUESTS,
        "retracted_requests": REQUESTS,
    },
    "prefill": {
        "new_sequences": REQUESTS,
        "new_tokens": COUNT,
        "cached_tokens": COUNT,
        "token_usage": USAGE,
        "running_requests": REQUESTS,
        "queued_requests": REQUESTS,
        "input_tokens_per_second": THROUGHPUT,
        "graph": GRAPH,
    },
    "server_args": {"settings": MAP},
    "nccl_setting": {"variable": TEXT, "value": TEXT, "pid": COUNT},
    "nccl_transport": {"transport": TEXT, "pid": COUNT},
    "environment": {"variables": MAP},
    "event": {"event": TEXT, "text": TEXT},
    "spec_metrics": {
        "tokens_per_cycle": PER_CYCLE,
        "accept_rate": RATE,
        "accepted_tokens_per_second": THROUGHPUT,
        "drafted_tokens_per_second": THROUGHPUT,
    },
}


NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "phase": ("phase", "seconds"),
    "accept": ("accepted_drafts",),
    "server_args": ("settings",),
    "nccl_setting": ("variable",),
    "nccl_transport": ("transport",),
    "environment": ("variables",),
    "event": ("event",),
}
"""Fields without which a record says nothing; other kinds do with any of theirs."""


def fits(gives: str, slot: Slot) -> bool:
    """Whether a value of one type may stand in a slot: a share may be written as a plain number, say."""
    return gives == slot.gives or (gives, slot.gives) in {
        ("real", "share"),
        ("int", "real"),
        ("share", "real"),
        ("time", "text"),
        ("seconds", "real"),
    }
