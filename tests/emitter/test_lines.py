"""What the plugin writes, to the letter."""

import doctest
import random

import pytest

from logwatch.emitter import lines, targets
from logwatch.emitter.lines import HIDDEN, Report, environment_text, percentile, report_text

PHASES = {"draft": 0.00053, "verify": 0.01914, "extend": 0.00048}
LAUNCHES = {"draft": 0.0001, "verify": 0.0003, "extend": 0.0001}


@pytest.mark.parametrize(
    ("report", "text"),
    [
        pytest.param(
            Report(100, 1.0, 1.0, PHASES, LAUNCHES, [0.01902, 0.0198, 0.01933], 0.92),
            "EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%\n"
            "  Draft forward:      0.53 ms/cyc  (  2.6%)\n"
            "  Target verify:     19.14 ms/cyc  ( 95.0%)\n"
            "  Draft extend:       0.48 ms/cyc  (  2.4%)\n"
            "  Total cycle:       20.15 ms/cyc\n"
            "  Accept len:         0.92\n"
            "  Verify min/p99/max: 19.02 / 19.80 / 19.80 ms\n"
            "  Launch: draft 0.10 ms, verify 0.30 ms, extend 0.10 ms",
            id="everything is known",
        ),
        pytest.param(
            Report(7, 7.5, None, {"verify": 1.23456}, {"verify": 0.001}, [1.2, 1.3], None, whole=False),
            "EAGLE3_PROFILE 7 cycles, batch 7.5\n"
            "  Target verify:   1234.56 ms/cyc\n"
            "  Verify min/p99/max: 1200.00 / 1300.00 / 1300.00 ms\n"
            "  Launch: verify 1.00 ms",
            id="a phase that cannot be measured takes total and shares with it",
        ),
        pytest.param(
            Report(1, 0.0, 0.0, {"draft": 0.0, "verify": 0.0, "extend": 0.0}, {}, (), 0.0),
            "EAGLE3_PROFILE 1 cycles, batch 0.0, graph 0.0%\n"
            "  Draft forward:      0.00 ms/cyc\n"
            "  Target verify:      0.00 ms/cyc\n"
            "  Draft extend:       0.00 ms/cyc\n"
            "  Total cycle:        0.00 ms/cyc\n"
            "  Accept len:         0.00",
            id="no time at all has no shares",
        ),
    ],
)
def test_a_report_reads_as_the_contract_has_it(report, text):
    """One report is one text, its lines in a fixed order, absent ones left out."""
    assert report_text(report) == text


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        pytest.param({}, None, id="nothing set, nothing said"),
        pytest.param({"HOME": "/root", "XNCCL_ALGO": "Ring"}, None, id="other names are nobody's business"),
        pytest.param(
            {"NCCL_PROTO": "LL", "CUDA_VISIBLE_DEVICES": "0,1", "TORCH_NCCL_BLOCKING_WAIT": ""},
            "EAGLE3_PROFILE environment CUDA_VISIBLE_DEVICES=0,1 NCCL_PROTO=LL TORCH_NCCL_BLOCKING_WAIT=",
            id="sorted by name",
        ),
        pytest.param(
            {
                "SGLANG_API_KEY": "s3cret",
                "NCCL_SECRET": "s3cret",
                "CUDA_TOKEN": "s3cret",
                "TORCH_NCCL_X": "s3cret",
            },
            f"EAGLE3_PROFILE environment CUDA_TOKEN={HIDDEN} NCCL_SECRET={HIDDEN} SGLANG_API_KEY={HIDDEN} TORCH_NCCL_X={HIDDEN}",
            id="values that are not on the allow-list stay secret",
        ),
        pytest.param(
            {"NCCL_ALGO": "a b\n100%\tü\udc80"},
            "EAGLE3_PROFILE environment NCCL_ALGO=a%20b%0A100%25%09%C3%BC%3F",
            id="a value is one word, whatever it holds",
        ),
        pytest.param(
            {"NCCL_ALGO": "x" * 999},
            f"EAGLE3_PROFILE environment NCCL_ALGO={'x' * 200}",
            id="a value has an end",
        ),
        pytest.param({"NCCL_A B": "1", "NCCL_Ü": "1"}, None, id="a name is a plain word"),
    ],
)
def test_an_environment_line_has_no_secrets_and_one_word_a_value(environ, text):
    """Names by prefix, values by allow-list."""
    assert environment_text(environ) == text


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101, 1000])
def test_a_percentile_is_the_smallest_value_that_enough_values_do_not_exceed(count):
    """Against the definition, counted out."""
    rng = random.Random(count)
    ordered = sorted(rng.random() for _ in range(count))
    literal = next(x for x in ordered if sum(y <= x for y in ordered) >= 0.99 * count)
    assert percentile(ordered, 0.99) == literal


@pytest.mark.parametrize("module", [lines, targets], ids=lambda module: module.__name__)
def test_the_examples_in_docstrings_are_true(module):
    """What a docstring shows is what comes out."""
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)
