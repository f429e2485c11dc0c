"""Messages become records or malformed lines, and all are counted."""

from logwatch.grammar.outcomes import Failed, Parsed
from logwatch.model import Frame, Malformed, Place, Record
from logwatch.reading.records import Records, RecordsMemory

PLACE = Place("x", 40, 3)


class Answers:
    """A reader that gives what it was told to give."""

    def __init__(self, *answers: Parsed | Failed | None) -> None:
        self._answers = iter(answers)

    def read(self, text: str) -> Parsed | Failed | None:
        return next(self._answers)


def test_a_message_keeps_its_place_time_and_rank():
    """What framing found out travels with the record."""
    records = Records(Answers(Parsed("accept", {"accepted_drafts": 0.92})))
    frame = Frame(PLACE, "Accept len: 0.92", 5, "2026-02-11T08:15:02", "TP0")
    assert list(records.feed(frame)) == [
        Record(PLACE, "accept", {"accepted_drafts": 0.92}, "2026-02-11T08:15:02", "TP0")
    ]


def test_a_malformed_column_is_that_of_the_physical_line():
    """The grammar counts columns in the message, people count them in the line."""
    records = Records(Answers(Failed("decode", 13, "a number", "usaccept")))
    frame = Frame(PLACE, "Decode batch usaccept", 27, None, "TP0")
    assert list(records.feed(frame)) == [Malformed(PLACE, "decode", 39, "a number", "usaccept", None, "TP0")]


def test_every_message_is_counted_once():
    """Matched, malformed and ignored add up to what was read."""
    records = Records(Answers(None, Parsed("accept", {}), None, Failed("accept", 1, "a", "b")))
    for _ in range(4):
        list(records.feed(Frame(PLACE, "text")))
    assert records.memory == RecordsMemory(matched=1, malformed=1, ignored=2)
    assert list(records.finish()) == []
