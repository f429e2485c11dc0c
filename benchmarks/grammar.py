"""How many lines a second the grammars read: streaming, bulk, and the element form that explains failures.

    python benchmarks/grammar.py [--lines 200000]

Ratios within one run count, not the figures: all forms read the same lines on the same machine.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyparsing

from logwatch.grammar.elements import expectation
from logwatch.grammar.load import load_grammars
from logwatch.grammar.rust import BulkReader
from logwatch.grammar.streaming import Reader

LINES = {
    "decode": "Decode batch, #running-req: {}, #token: 66160, token usage: 0.02, accept len: 3.55, "
    "accept rate: 0.51, cuda graph: True, gen throughput (token/s): 3.{}, #queue-req: 0",
    "phase": "  Target verify:     {}.{} ms/cyc  ( 97.0%)",
    "access": 'INFO:     192.0.2.171:4{}8{} - "POST /v1/chat/completions HTTP/1.1" 200 OK',
}
ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200_000)
    count = parser.parse_args().lines
    grammars = load_grammars()
    print(f"Python {platform.python_version()}, pyparsing {pyparsing.__version__}, polars {pl.__version__}")
    print(f"{'lines':8} {'streaming':>12} {'bulk':>12}   (lines per second of one core)")
    texts = {name: [form.format(n % 9, n % 97) for n in range(count)] for name, form in LINES.items()}
    server = (ROOT / "fixtures/logs/sglang_h200/v0517_31_tp2_nccl_default.log").read_text(errors="replace")
    messages = [line.partition("] ")[2] or line for line in server.splitlines()]
    texts["a server"] = (messages * (count // len(messages) + 1))[:count]
    for name, lines in texts.items():
        reader, bulk = Reader(grammars), BulkReader(grammars)
        column = pl.Series(lines)
        bulk.read(column[:100])
        streaming = _per_second(
            count, lambda reader=reader, lines=lines: [reader.read(line) for line in lines]
        )
        columns = _per_second(count, lambda bulk=bulk, column=column: bulk.read(column))
        print(f"{name:8} {streaming:12,.0f} {columns:12,.0f}")
    rule = next(rule for grammar in grammars for rule in grammar.rules if rule.name == "phase")
    few = texts["phase"][: count // 100]
    slow = _per_second(len(few), lambda: [expectation(rule.pattern, line) for line in few])
    print(f"element form, phase lines: {slow:,.0f}")


def _per_second(count: int, work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return count / (time.process_time() - started)


if __name__ == "__main__":
    main()
