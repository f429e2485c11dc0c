"""Real logs to their whole exposition: `pytest --update-golden` rewrites the files, `git diff` is the review."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from logwatch.config import Config
from logwatch.outlets.metrics import Metrics
from logwatch.pipeline import Pipeline, Settings

FIXTURES = Path(__file__).parents[2] / "fixtures"
OF_THE_HOST = ("logwatch_build_info", "logwatch_last_sample_timestamp_seconds")
"""Series that say something of the machine: its Python, its time zone."""

LOGS = [
    "field_verify_19ms.log",
    "field_verify_29ms.log",
    "sglang_h200/v0517_04_nospec_baseline.log",
    "sglang_h200/v0517_34_tp2_nccl_socket.log",
]


@pytest.mark.parametrize("name", LOGS)
def test_exposition_of_a_log(golden, name):
    """Every series that a log makes, with its value."""
    path = FIXTURES / "logs" / name
    metrics = Metrics(baseline_tokens_per_second=82.2, clock=lambda: 1_770_800_000.0)
    metrics.add_stream(path.name, str(path))
    pipeline = Pipeline(Settings.of_config(Config()), path.name, str(path), metrics.notice)
    for item in (*pipeline.feed_bytes(path.read_bytes()), *pipeline.finish()):
        metrics.take(item)
    registry = CollectorRegistry()
    registry.register(metrics)
    lines = generate_latest(registry).decode().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(OF_THE_HOST))
    golden(FIXTURES / "golden" / "exposition" / f"{path.stem}.prom", text)
