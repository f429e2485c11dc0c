"""Every case and every real server log gives the records that were checked by eye."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from logwatch.commands.grammar import command

ROOT = Path(__file__).parents[2]
LOGS = sorted([*ROOT.glob("fixtures/logs/cases/*.log"), *ROOT.glob("fixtures/logs/sglang_h200/*.log")])


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_records_of_a_log(path, golden, monkeypatch):
    """`grammar test --format jsonl` prints what the golden file holds (`--update-golden` rewrites it)."""
    monkeypatch.chdir(ROOT)
    name = path.relative_to(ROOT)
    result = CliRunner().invoke(command, ["test", str(name), "--format", "jsonl"], catch_exceptions=False)
    assert result.exit_code == 0
    golden(ROOT / "fixtures/golden" / path.parent.name / f"{path.stem}.jsonl", result.output)


def test_every_shipped_grammar_has_a_golden():
    """A grammar without a log that it reads does not ship."""
    seen = set()
    for path in (ROOT / "fixtures/golden").glob("*/*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            seen.add(json.loads(line).get("record"))
    assert {"report", "phase", "accept", "decode", "prefill", "server_args", "event"} <= seen
    assert {"nccl_setting", "nccl_transport", "spec_metrics"} <= seen
