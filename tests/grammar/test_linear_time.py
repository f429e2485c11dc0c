"""No line can hang the reader: time grows as the line does, whatever stands in it.

CPU time of one line of 30,000 characters; an expression that went back quadratically would need minutes.
"""

from __future__ import annotations

import time

import pytest
from grammar_kit import fitting, grammars, lines_for, list_grammars
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from logwatch.grammar.load import load_grammars
from logwatch.grammar.streaming import Reader

SHIPPED = load_grammars()
LONG = 30_000
ENOUGH_S = 1.0
PUMPS = [
    " ",
    "\t",
    "1",
    "1.",
    ".",
    ",",
    ", ",
    "a",
    "a ",
    "[",
    "]",
    "[1, 2]",
    "(",
    ":",
    "a: ",
    "a: 1, ",
    "=",
    "'",
    "é",
    "|",
    "-",
    "Decode batch",
    "%",
]
SEEDS = [
    "Decode batch, #running-req: 1, accept len: 1.9, est: 1 [1, 2], #queue-req: 0",
    "Prefill batch [7], #new-seq: 1, #new-token: 5",
    "  Target verify:     28.96 ms/cyc  ( 97.0%)",
    "server.log:123:  Target verify: 28.96 ms/cyc",
    "EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%",
    "EAGLE3_PROFILE environment NCCL_PROTO=LL NCCL_ALGO=Ring",
    "Verify min/p99/max: 19.02 / 19.33 / 19.80 ms",
    "Launch: draft 0.10 ms, verify 0.30 ms, extend 0.10 ms",
    "server_args=ServerArgs(a='x', b=[1, 2], c=Foo(x=1), d=None)",
    "server_args={'a': 'x', 'b': 5}",
    "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0 and more",
    "n:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring.",
    "Capture target verify CUDA graph begin. x",
    "Draft worker kept eager (reason=x)",
    "Subprocess scheduler_0 (pid=969) crashed with exit code -15. x",
    "a.sh: line 28:     7 Killed  x",
    "Abort queued request. req.rid=5",
    "RuntimeError: CUDA error: an illegal memory access",
    "SpecDecoding metrics: Mean acceptance length: 2.37, Per-position acceptance rate: 0.600, 0.385",
    "draft acceptance rate = 0.23026 (   70 accepted /   304 generated)",
]


def seconds_to_read(reader, text):
    started = time.process_time()
    reader.read(text)
    return time.process_time() - started


@pytest.mark.parametrize("seed", SEEDS)
def test_shipped_grammars(seed):
    """Each record, pumped up at each word with each kind of character, with and without a wrong end."""
    reader = Reader(SHIPPED)
    cuts = [0, len(seed), *(at for at in range(1, len(seed)) if seed[at - 1 : at + 1].count(" ") == 1)][:24]
    for at in cuts:
        for pump in PUMPS:
            text = seed[:at] + pump * (LONG // len(pump)) + seed[at:]
            spent = seconds_to_read(reader, text + "\x01")
            assert spent < ENOUGH_S, (at, pump, spent)


@settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_any_grammar_that_the_checker_accepts(data):
    """Patterns from configuration: random grammars, lines that fit them pumped up at a random place."""
    grammar = data.draw(st.one_of(grammars(), list_grammars()))
    assume(grammar is not None)
    (rule,) = grammar.rules
    text = data.draw(fitting(rule.pattern))
    at = data.draw(st.integers(0, len(text)))
    pump = data.draw(st.sampled_from(PUMPS) | st.text(alphabet="a1 .,:[", min_size=1, max_size=3))
    reader = Reader((grammar,))
    for line in data.draw(lines_for(grammar))[:1]:
        reader.read(line)
    spent = seconds_to_read(reader, text[:at] + pump * (LONG // len(pump)) + text[at:] + "\x01")
    assert spent < ENOUGH_S


def test_lines_of_a_megabyte_without_an_anchor():
    """A million characters that hold no anchor cost a few literal searches."""
    assert seconds_to_read(Reader(SHIPPED), "x " * 500_000) < ENOUGH_S
