"""Lines that differ from a known one in digits only: what is learnt of a line, and what is taken then.

That all of it is what the streaming stages say is held, over any bytes, by `tests/test_watch_equals_replay.py`.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logwatch.config import Config
from logwatch.grammar.load import load_grammars
from logwatch.intake import bulk_layouts
from logwatch.intake.bulk import Bulk
from logwatch.intake.bulk_layouts import Layout, Layouts, Mask
from logwatch.intake.bulk_learning import Learner
from logwatch.model import Malformed, Record
from logwatch.pipeline import Pipeline, Settings

GRAMMARS = load_grammars()
SETTINGS = Settings.of_config(Config())
AT = "[2026-02-11 08:15:02 TP0] "
PHASE = "  Target verify:     19.14 ms/cyc  ( 95.0%)"
DECODE = AT + (
    "Decode batch, #running-req: 1, #token: 77, token usage: 0.00, accept len: 1.93, accept rate: 0.46, "
    "cuda graph: True, gen throughput (token/s): 340.35, #queue-req: 0"
)
PREFILL = AT + "Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 0, #pending-token: 3"
HEADER = "[2026-02-11 08:15:02.123 DP1 TP0] [EAGLE3 profile] 100 cycles"
EVENT = AT + "SIGTERM received. signum=None frame=None. Draining requests and shutting down..."
PLAIN = [PHASE, DECODE, PREFILL, HEADER, EVENT, "  Accept len:         0.92", "  Total cycle: 20.15 ms/cyc"]


def learnt(*lines):
    layouts = Layouts()
    learner = Learner(GRAMMARS, layouts)
    return layouts, [learner.learn(line.encode()) for line in lines]


def take(layouts, *lines):
    """Indices of the lines that the layouts take of a chunk of these lines; more lines follow."""
    data = ("\n".join(lines) + "\n" + "x" * 2000 + "\n").encode("utf-8", "surrogateescape")
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1
    starts = np.concatenate([[0], ends[:-1]])
    taken, _ = layouts.take(np.frombuffer(data, np.uint8), starts, ends)
    return sorted(int(row) for each in taken for row in each.rows)


@pytest.mark.parametrize("line", PLAIN)
def test_a_line_is_learnt_once_whatever_its_digits(line):
    """The same with other figures is nothing new, and is taken."""
    other = line.replace("77", "12").replace("19.14", "28.96").replace("08:15", "23:59").replace("64", "99")
    layouts, new = learnt(line, line, other)
    assert new == [True, False, False]
    assert take(layouts, line, "other", other) == [0, 2]


@pytest.mark.parametrize(
    ("known", "line"),
    [
        pytest.param(PHASE, PHASE.replace("9.1", "9.x"), id="a letter for a digit"),
        pytest.param(PHASE, PHASE.replace("19.14", "19:14"), id="another sign"),
        pytest.param(PHASE, PHASE.replace("19.14", "19./4"), id="the sign before 0"),
        pytest.param(PHASE, PHASE.replace("19.14", "19.:4"), id="the sign behind 9"),
        pytest.param(PHASE, PHASE + " ", id="longer"),
        pytest.param(PHASE, PHASE[:-1], id="shorter"),
        pytest.param(PHASE, PHASE.replace("95.0", "95\udcff0"), id="a byte beyond ASCII"),
        pytest.param(PHASE, PHASE.replace("95.0", "\udcff5.0"), id="a carry into the next byte"),
        pytest.param(PHASE, PHASE[:-1] + "\r", id="a carriage return"),
        pytest.param(PHASE, PHASE.replace("( 95", "(195"), id="not sane: a share above 1"),
        pytest.param(HEADER, HEADER.replace("EAGLE3", "EAGLE2"), id="a digit of the grammar's own"),
        pytest.param(DECODE, DECODE.replace("TP0", "TP1"), id="another rank"),
        pytest.param(DECODE, DECODE.replace("2026-", "20x6-"), id="no date"),
        pytest.param(PHASE, AT + PHASE, id="a prefix before what had none"),
        pytest.param(AT + PHASE, PHASE, id="no prefix before what had one"),
    ],
)
def test_only_digits_may_differ(known, line):
    """Everything else is another line."""
    layouts, _ = learnt(known)
    assert take(layouts, known) == [0]
    assert take(layouts, line) == []


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(AT + "loading weights 12", id="no record"),
        pytest.param(AT + "server_args=ServerArgs(tp_size=2)", id="a map"),
        pytest.param(PHASE.replace("19.14", "nan"), id="malformed"),
        pytest.param(PHASE.replace("19.14", "0." + "1" * 20), id="more digits than a float holds"),
        pytest.param(DECODE.replace("0.46", "4.6e-1"), id="a power of ten"),
        pytest.param(AT + "Decode batch [20], #running-req: 1, #token: 7", id="what may be a bracketed date"),
        pytest.param(AT + "50%|###  | 1/2 [00:01<00:01, 1.0s/it]" + DECODE, id="a progress bar"),
        pytest.param(PHASE.replace("Target", "Tärget"), id="letters of other languages"),
        pytest.param("\x1b[36m" + PHASE, id="a colour"),
        pytest.param(PHASE + "\r" + PHASE, id="a carriage return"),
        pytest.param("(RayWorker pid=12) " + DECODE, id="a wrapping"),
        pytest.param(AT + DECODE, id="two prefixes"),
        pytest.param(AT + "Traceback (most recent call last):", id="what keeps its prefix's bracket"),
        pytest.param(DECODE + " " * 2000, id="a very long line"),
    ],
)
def test_what_is_not_plain_is_not_learnt(line):
    """The streaming stages know how to read it."""
    layouts, new = learnt(line)
    assert new == [False]
    assert take(layouts, line) == []


NUMBER = st.one_of(
    st.integers(0, 10**12).map(str), st.decimals(0, 5000, places=2).map(str), st.just("007"), st.just("0.10")
)


@given(st.lists(st.tuples(st.sampled_from(PLAIN), NUMBER, NUMBER), min_size=1, max_size=20))
@settings(deadline=None)
def test_figures_are_those_of_the_streaming_reader(lines):
    """To the last digit and of the same type, whole or with a fraction, in any unit."""
    texts = [line.replace("19.14", one).replace("77", two).replace("0.92", one) for line, one, two in lines]
    data = ("\n".join(texts) + "\n").encode() * 3
    items = Pipeline(SETTINGS, "s", "p").feed_bytes(b"\n" + data)
    expected = [told(item) for item in items if isinstance(item, Record | Malformed)]
    bulk = Bulk(GRAMMARS)
    for _ in range(2):
        assert [told(record) for record in bulk.read(data, "p", 2, 1).records()] == expected


def told(record):
    """All that a record says; 1 and 1.0 are told apart."""
    if isinstance(record, Malformed):
        return record
    return record, {name: repr(value) for name, value in record.fields.items()}


def test_forgets_what_is_rare(monkeypatch):
    """However many layouts a log has, memory is bounded, and the common ones stay."""
    monkeypatch.setattr(bulk_layouts, "MOST_LAYOUTS", 8)
    layouts, _ = learnt(PHASE)
    assert take(layouts, PHASE, PHASE) == [0, 1]
    for size in range(1, 30):
        layouts.add(Layout(b" " * size, (), "phase", {}, ()), bare=True)
    assert take(layouts, PHASE, "  ", PHASE) in ([0, 2], [0, 1, 2])
    assert len(layouts._known) <= 8


@given(st.binary(min_size=5, max_size=5), st.binary(min_size=5, max_size=5), st.sets(st.integers(0, 4)))
def test_a_mask_is_the_text_with_any_digits(sample, other, free):
    """Said of each byte, whatever its neighbours are."""
    mask = Mask(sample, sorted(free))
    row = np.frombuffer(other + b"\xff\x00\x3a", np.uint8).view("<u8").reshape(1, 1)
    expected = all(
        chr(byte).isdigit() and byte < 128 if at in free else byte == sample[at]
        for at, byte in enumerate(other)
    )
    assert mask.fits(row).tolist() == [expected]
