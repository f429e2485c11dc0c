import numpy as np
import pytest

from benchmarks.detection_fleet import Fleet, baselines
from benchmarks.detection_series import Source
from logwatch.judging.baseline import Learning, baseline_of, learn
from logwatch.judging.charts import Chart
from logwatch.model import Change


@pytest.mark.parametrize("family", ["g02", "mix", "ar9", "round"])
def test_the_fleet_learns_what_the_charts_learn(family):
    """The scoring's baselines are those of the product."""
    x = Source(family, 2, np.random.default_rng(5)).draw(3000)
    for row, fast in zip(x, baselines(x), strict=True):
        memory = Learning()
        for value in row.tolist():
            learn(memory, value, None)
        slow = baseline_of(memory)
        for name in (
            "level",
            "scale",
            "phi",
            "samples",
            "bin_scale",
            "bin_shift",
            "hits_low",
            "hits_high",
            "memory",
        ):
            assert getattr(fast, name) == pytest.approx(getattr(slow, name), rel=1e-6, abs=1e-9), name
        assert fast.bins == slow.bins


@pytest.mark.parametrize(("family", "change"), [("mix", "s1"), ("g02", "var2"), ("spike", "bimod10")])
def test_the_fleet_tells_what_the_charts_tell(family, change):
    """On the same samples, the scoring's first alarm is the product's, at the same sample with the same onset."""
    learnt = Source(family, 3, np.random.default_rng(11)).draw(6000)
    for index in range(3):
        fleet = Fleet(learnt[index : index + 1], 1e6)
        chart = Chart(1e6)
        chart.adopt(fleet.bases[0])
        x = Source(family, 1, np.random.default_rng(index)).draw(1500, change, 400)[0]
        fast = next(
            ((n, told[0][1].finding) for n, v in enumerate(x, 1) if (told := fleet.step(np.array([v])))), None
        )
        slow = next(((n, told) for n, v in enumerate(x.tolist(), 1) if (told := chart.update(v, n))), None)
        assert fast is not None
        assert slow is not None
        assert slow[1].change is Change.OPENED
        assert (fast[0], fast[1].kind, fast[1].onset.line) == (slow[0], slow[1].kind, slow[1].onset.line)
        assert fast[1].after == pytest.approx(slow[1].after)
