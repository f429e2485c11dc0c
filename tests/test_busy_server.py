"""A busy server's batch never stands still: what its stock log tells all the same, of how many drafts are accepted."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest

from logwatch.config import Config
from logwatch.model import Cycle, Incident
from logwatch.pipeline import Pipeline, Settings

LINES = 1000


def log(tokens_after: float) -> bytes:
    """Decode lines of a server under changing load, with prefills between; acceptance changes at six tenths."""
    chance = random.Random(7)
    now, requests = datetime(2026, 6, 1, 8), 4  # noqa: DTZ001 - as logs write it
    lines = [
        "server_args=ServerArgs(model_path='m', speculative_algorithm='EAGLE', speculative_num_steps=3)",
        "The server is fired up and ready to roll!",
    ]
    for number in range(LINES):
        requests = max(1, min(16, requests + chance.choice([-2, -1, 0, 1, 2])))
        tokens = (3.0 if number < 0.6 * LINES else tokens_after) + chance.gauss(0, 0.08)
        cycle_s = 0.03 * (1 + 0.02 * requests)
        now += timedelta(seconds=40 * cycle_s)
        prefix = f"[{now:%Y-%m-%d %H:%M:%S} TP0] "
        if chance.random() < 0.5:
            lines.append(prefix + "Prefill batch, #new-seq: 1, #new-token: 800, #queue-req: 0")
        lines.append(
            f"{prefix}Decode batch, #running-req: {requests}, #token: {requests * 3000}, token usage: 0.36, "
            f"accept len: {tokens:.2f}, cuda graph: True, "
            f"gen throughput (token/s): {requests * tokens / cycle_s:.2f}, #queue-req: 0"
        )
    return ("\n".join(lines) + "\n").encode()


@pytest.mark.parametrize(
    ("tokens_after", "kinds"),
    [
        pytest.param(2.4, ["acceptance_dropped"], id="fewer accepted"),
        pytest.param(3.0, [], id="as before"),
    ],
)
def test_acceptance_of_a_busy_server(tokens_after, kinds):
    """Few of its windows are steady enough for a cycle time; how many drafts are accepted, each of them says."""
    pipeline = Pipeline(Settings.of_config(Config()), "s", "p")
    items = [*pipeline.feed_bytes(log(tokens_after)), *pipeline.finish()]
    timed = [item for item in items if isinstance(item, Cycle) and item.phases_s]
    assert len(timed) < 0.2 * LINES
    told = [item for item in items if isinstance(item, Incident)]
    assert list(dict.fromkeys(incident.kind for incident in told)) == kinds
    assert all(incident.onset.time >= "2026-06-01T08:13" for incident in told)
