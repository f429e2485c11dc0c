"""Lines that hold one of many texts, by looking for few and short parts first."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwatch.intake.bulk_sieve import AT_ONCE, Sieve, parts

WORDS = st.text(st.sampled_from("ab\x1bé% "), min_size=1, max_size=6)


@given(st.lists(WORDS, min_size=1, max_size=40), st.lists(st.text(st.sampled_from("ab\x1bé% "), max_size=30)))
def test_wanted_lines_are_those_that_hold_a_text(texts, lines):
    """Whatever the texts are, and whatever was seen before."""
    sieve = Sieve(texts)
    frame = pl.DataFrame({"line": lines}, schema={"line": pl.String})
    expected = [line for line in lines if any(text in line for text in texts)]
    for _ in range(2):
        likely = sieve.likely(frame, "\n".join(lines).encode())
        assert sieve.certain(likely)["line"].to_list() == expected


@given(
    st.lists(st.text(st.sampled_from("abc"), min_size=3, max_size=9)),
    st.text(st.sampled_from("abc")),
    st.sampled_from([2, 3]),
    st.sampled_from([1, 3]),
)
def test_each_text_holds_a_part(texts, sample, size, sharing):
    """So that no line with a text is missed."""
    chosen = parts(texts, sample, size, sharing)
    assert all(any(part in text for part in chosen) for text in texts)


@pytest.mark.parametrize("rare", ["Decode", "batch"])
def test_parts_are_rare_in_the_sample(rare):
    """What the log is full of costs a second look at each line."""
    common = {"Decode": "batch", "batch": "Decode"}[rare]
    (part,) = parts([f"{common}-{rare}"], f"{common}-" * 20, 3)
    assert part in rare


def test_many_texts_are_looked_for_in_few_goes():
    """Texts share parts."""
    assert len(parts([f"{n} requests" for n in range(100)], "", 3)) == 1 < AT_ONCE
