import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judging_samples import cycle
from scipy import stats

from logwatch.errors import BandError
from logwatch.judging.compare import compare
from logwatch.judging.ranktests import (
    Stratum,
    _rank_sum_counts,
    correlation_time,
    difference,
    p_value,
    quantile_of_differences,
)
from logwatch.judging.runs import Run
from logwatch.judging.segments import noise, steps
from logwatch.judging.tuning import tune


def autocorrelated(rng, samples, phi=0.6):
    out = [rng.normal()]
    for e in rng.normal(size=samples - 1):
        out.append(phi * out[-1] + e * np.sqrt(1 - phi * phi))
    return np.array(out)


def run(values, name="a.log", **conditions):
    cycles = [cycle(v, n, tokens=1.9, **conditions) for n, v in enumerate(values, 1)]
    return Run(name, 1, cycles=cycles)


SAMPLES = st.lists(st.integers(-50, 50), min_size=2, max_size=15)


@given(a=SAMPLES, b=SAMPLES, share=st.sampled_from([0.1, 0.5, 0.9]))
@settings(max_examples=60, deadline=None)
def test_quantiles_of_differences_are_the_literal_ones(a, b, share):
    """Bisection gives what forming all differences gives."""
    differences = np.sort(np.subtract.outer(np.array(b, float), np.array(a, float)).ravel())
    found = quantile_of_differences(np.array(a, float), np.array(b, float), share)
    index = max(int(np.ceil(share * len(differences) - 1e-9)) - 1, 0)
    assert found == pytest.approx(differences[index], abs=1e-6)


@given(a=st.lists(st.integers(0, 10**6), min_size=3, max_size=7, unique=True), cut=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_one_stratum_is_the_exact_mann_whitney_test(a, cut):
    """Few samples of one stratum give scipy's exact p-value."""
    first, second = np.array(a[:cut], float), np.array(a[cut:], float)
    if not len(second):
        return
    expected = stats.mannwhitneyu(first, second, method="exact").pvalue
    assert p_value([Stratum(first, second)]) == pytest.approx(expected)


def test_strata_add_their_evidence():
    """Two strata of 4 + 4 and 2 + 2 that point the same way tell more than either: 2 / (70 * 6)."""
    one = Stratum(np.array([1.0, 2, 3, 4]), np.array([5.0, 6, 7, 8]))
    two = Stratum(np.array([1.0, 2]), np.array([3.0, 4]))
    assert p_value([one]) == pytest.approx(2 / 70)
    assert p_value([one, two]) == pytest.approx(2 / 420)
    assert sum(_rank_sum_counts(4, 4)) == 70


def test_equal_autocorrelated_logs_are_rarely_called_different():
    """At the 1 % level few of 200 equal AR(1) pairs are, where the plain test calls a fifth of them different."""
    rng = np.random.default_rng(3)
    ours = plain = 0
    for _ in range(200):
        a, b = autocorrelated(rng, 300), autocorrelated(rng, 300)
        ours += p_value([Stratum(a, b)]) < 0.01
        plain += stats.mannwhitneyu(a, b).pvalue < 0.01
    assert ours <= 6
    assert plain > 20


def test_the_shift_lies_in_its_interval():
    """The 95 % interval holds the true shift in about 95 of 100 pairs."""
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(100):
        found = difference(Stratum(autocorrelated(rng, 200), autocorrelated(rng, 200) + 0.5))
        held += found.low <= 0.5 <= found.high
    assert 88 <= held <= 100


def test_correlation_time():
    """White noise counts fully, AR(1) by (1 + phi) / (1 - phi)."""
    rng = np.random.default_rng(5)
    assert correlation_time(rng.normal(size=5000)) == pytest.approx(1.0, abs=0.2)
    assert correlation_time(autocorrelated(rng, 20_000)) == pytest.approx(4.0, rel=0.15)


@pytest.mark.parametrize(
    ("factor", "samples", "verdict"),
    [
        pytest.param(1.0, 60, "same", id="nothing changed"),
        pytest.param(1.05, 60, "changed", id="five percent"),
        pytest.param(1.01, 60, "same", id="one percent is below the floor"),
        pytest.param(1.05, 3, "cannot_tell", id="three samples"),
    ],
)
def test_verdicts(factor, samples, verdict):
    """Changed needs significance and size, same needs an interval within the floor, else it cannot be told."""
    rng = np.random.default_rng(6)
    good, bad = rng.normal(0.019, 1e-4, samples), rng.normal(0.019 * factor, 1e-4, samples)
    found = compare(run(good), run(bad, "b.log"))
    phase = next(each for each in found.phases if each.phase == "target_verify")
    assert phase.verdict == verdict
    assert (phase.needed is not None) == (verdict == "cannot_tell")
    assert found.verdict == verdict


def test_other_load_is_no_change():
    """The same server at other contexts is compared at a common one; at other batch sizes it is not at all."""
    rng = np.random.default_rng(7)
    line = [(c, 0.005 + 2e-6 * c + rng.normal(0, 1e-5)) for c in range(100, 2000, 40)]
    short = Run(
        "a.log", 1, cycles=[cycle(v, n, context_tokens=float(c)) for n, (c, v) in enumerate(line[:30], 1)]
    )
    long = Run(
        "b.log", 1, cycles=[cycle(v, n, context_tokens=float(c)) for n, (c, v) in enumerate(line[18:], 1)]
    )
    assert compare(short, long).verdict == "same"
    crowd = compare(run([0.019] * 20, batch_size=1.0), run([0.025] * 20, batch_size=8.0))
    assert crowd.verdict != "changed"
    assert "no common conditions" in crowd.notes[0]


@pytest.mark.parametrize("phi", [0.0, 0.6])
def test_segmentation_finds_a_step_and_nothing_else(phi):
    """A lasting step is found where it is; equal noise, autocorrelated or not, has none."""
    rng = np.random.default_rng(8)
    quiet = [autocorrelated(rng, 500, phi) for _ in range(10)]
    assert sum(len(steps(100 + x, 0.25)) for x in quiet) == 0
    moved = 100 + quiet[0] + 3.0 * (np.arange(500) >= 250)
    [found] = steps(moved, 0.25)
    assert abs(found.index - 250) <= 5
    assert noise(quiet[1])[1] == pytest.approx(phi, abs=0.15)


def test_tuned_bands_hold_what_they_were_learnt_from():
    """A band is centred on the level, no narrower than the floor, under the conditions of its bucket."""
    rng = np.random.default_rng(9)
    tuning = tune([run(rng.normal(0.019145, 5e-5, 600), batch_size=1.0, num_steps=2)])
    [tuned] = tuning.bands
    assert tuned.band.when == {"batch_size": "1", "num_steps": 2}
    assert tuned.band.low_s == pytest.approx(0.019145 * 0.98, rel=1e-3)
    assert tuned.band.high_s == pytest.approx(0.019145 * 1.02, rel=1e-3)
    assert {each.phase for each in tuning.baselines} == {"target_verify", "tokens_per_cycle"}


def test_a_smaller_budget_of_false_alarms_makes_wider_bands():
    """The knob moves the band's width, as noise allows."""
    rng = np.random.default_rng(10)
    good = run(rng.normal(0.019, 4e-4, 300))
    widths = [
        (band := tune([good], per_year).bands[0].band).high_s - band.low_s for per_year in (100.0, 1.0, 0.01)
    ]
    assert widths == sorted(widths)
    assert widths[0] < widths[2]


def test_tuning_needs_samples():
    """Too few samples at equal conditions are an error that says how many there are."""
    with pytest.raises(BandError, match="target_verify at any conditions: 5 samples are too few; 8 samples"):
        tune([run([0.019] * 5)])
    with pytest.raises(BandError, match="no samples at equal conditions"):
        tune([run([0.019] * 20, batch_size=1.5)])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param([0.019] * 5 + [0.029] * 5, "changes here from 19.0. ms to 29.0. ms", id="five and five"),
        pytest.param([0.019, 0.029] * 5, "its 10 samples scatter too widely", id="up and down"),
        pytest.param([0.019] * 4 + [0.029] * 4, "a.log:5: target_verify changes here", id="four and four"),
    ],
)
def test_a_few_samples_make_no_band_that_holds_everything(values, said):
    """What is too short or too wild to tell good from bad is refused: a band of 0 to 86 ms finds nothing."""
    noise_s = np.random.default_rng(11).normal(0, 2e-5, len(values))
    with pytest.raises(BandError, match=said):
        tune([run(np.array(values) + noise_s)])


@pytest.mark.parametrize("at", [0, 1, 5, 8, 11])
def test_one_spike_in_a_short_series_is_no_change_inside(at):
    """Wherever it lies, also at an end."""
    values = 0.019 + np.random.default_rng(12).normal(0, 2e-5, 12)
    values[at] += 0.02
    [tuned] = tune([run(values)]).bands
    assert (tuned.band.low_s, tuned.band.high_s) == pytest.approx((0.019 * 0.98, 0.019 * 1.02), rel=2e-3)


def test_a_server_without_speculation_has_no_bad_draft():
    """One token a step is what it gives; no draft is blamed, and nothing breaks even."""
    good = run([0.019] * 8, num_steps=2)
    plain = Run(
        "b.log", 1, cycles=[cycle(phases={"inferred_cycle": 0.01}, line=n, tokens=1.0) for n in range(1, 9)]
    )
    found = compare(good, plain, baseline_tokens_per_second=82.2)
    assert [cause.cause for cause in found.causes] == ["unknown"]
    assert "The second log is of a server without speculation: one token a step." in found.notes
    assert found.economics[1].breakeven_tokens_per_cycle is None


def test_constants_are_equal_to_themselves():
    """Samples without any spread, all ties, differ from nothing."""
    constant = Stratum(np.zeros(6), np.zeros(6))
    assert p_value([constant]) == pytest.approx(1.0)
    assert compare(run([0.019] * 6), run([0.019] * 6)).verdict == "same"
