"""Whatever a log, a file's name or a setting says, every page and document can still be read."""

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st
from outlet_items import cycle, decode, incident, judgement, malformed, run_started
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from test_page import Elements

from logwatch.model import Cause, Change, Level, Moment, Notice
from logwatch.outlets.metrics import Metrics, build_registry
from logwatch.outlets.web.api import Query, Rings, incidents_json, samples_json, status_json
from logwatch.outlets.web.board import Board
from logwatch.outlets.web.page import page, update

texts = st.text(st.characters(), max_size=12) | st.sampled_from(
    ["<b>", '"', "\\", "\n", "\x00", "\u202e", "\udcff", "]]>"]
)
numbers = st.floats(allow_nan=True, allow_infinity=True)


def as_sent(text):
    """What a browser gets; raises where it cannot be encoded."""
    return text.encode("utf-8").decode()


@given(st.lists(texts, min_size=6, max_size=6), numbers, numbers)
@example([""] * 6, 0.0, 3.6e306)  # tokens a cycle that are finite, and tokens a second that are not
@settings(max_examples=60, deadline=None)
def test_any_text_can_be_shown(words, one, other):
    """Names, causes, times and settings of any characters, and numbers of any size, break nothing."""
    stream, rank, phase, time, word, cause = words
    metrics, board = Metrics(), Board()
    each = cycle(
        stream=stream,
        rank=rank,
        time=time,
        phases_s={phase: one, "target_verify": 0.019},
        tokens_per_cycle=other,
    )
    wrong = incident(
        stream=stream,
        rank=rank,
        phase=phase,
        kind=word,
        severity=word,
        key=word,
        before=one,
        after=other,
        ratio=one,
        onset=Moment(1, time),
        causes=(Cause(cause, word, 0.5),),
        detail=word,
    )
    resolved = incident(Change.RESOLVED, stream=stream, key=cause, resolved=Moment(2, time), ratio=other)
    for item in (
        run_started(stream=stream, tp_size=word, x=word),
        each,
        judgement(each),
        decode(path=f"/{stream}", rank=rank, running_requests=one),
        malformed(expected=word, found=cause),
        wrong,
        resolved,
    ):
        metrics.take(item)
        board.take(item)
    notice = Notice(word, cause, Level.ERROR, stream, stream)
    metrics.notice(notice)
    board.notice(notice)

    view = board.view()
    shown = as_sent(
        page(update(view, metrics.sources(), metrics.facts, 0.0, lambda alert: f"runbooks/{alert}.md"))
    )
    assert Elements(shown).stack == []
    families = text_string_to_metric_families(generate_latest(build_registry(metrics)).decode())
    assert [family.name for family in families]
    history = Rings(board)
    for document in (
        status_json(view, metrics.sources(), metrics.facts),
        samples_json(history.samples(Query()), 1000),
        incidents_json(history.incidents(Query()), 1000),
    ):
        assert json.loads(json.dumps(document, allow_nan=False).encode())
