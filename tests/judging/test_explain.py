import random

from judging_samples import cycle

from logwatch.judging.bands import DEFAULT_BAND
from logwatch.judging.explain import explain
from logwatch.judging.runs import Run


def told(values):
    run = Run("a.log", 1, cycles=[cycle(v, n, batch_size=1.0) for n, v in enumerate(values, 1)])
    return explain([run], [DEFAULT_BAND])


def test_every_candidate_says_what_kept_or_dropped_it():
    """A row outside the band that is too short, a shift that charts and segmentation keep."""
    rng = random.Random(1)
    values = [rng.gauss(0.019, 4e-5) for _ in range(2000)]
    values[1000:1002] = [0.03, 0.03]
    values[1500:] = [v + 3e-4 for v in values[1500:]]
    found = told(values)
    bands = [each for each in found if each.test == "band"]
    assert [(each.onset.line, each.kept, each.rule) for each in bands] == [
        (1001, False, "2 in a row outside, open_after = 3")
    ]
    kept = {each.test for each in found if each.kept}
    assert kept == {"chart", "segmentation"}
    chart = next(each for each in found if each.kept and each.test == "chart")
    assert chart.onset.line == 1501
    assert "passed every gate" in str(chart)


def test_a_short_log_says_why_no_chart_judged_it():
    """Fewer samples than a chart needs to learn is an answer, too."""
    [found] = [each for each in told([0.019] * 6) if each.test == "chart"]
    assert found.rule == "6 samples are too few to learn what is normal, 512 are needed"
