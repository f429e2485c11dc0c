"""Scores change detection: false alarms, delays, transients, onset and size, offline, peers. One run, seeded.

    python -m benchmarks.detection --seed 1 --out detection.md
    python -m benchmarks.detection --quick            # a minute, for a look

Peers that need packages of their own: --river FOLDER (`pip install --target FOLDER river`), --otava PYTHON
(the interpreter of an environment with apache-otava, which pins its numpy). Without them their rows are left
out.
"""

from __future__ import annotations

import argparse
import math
import platform
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks import detection_optimum as optimum
from benchmarks import detection_peers as peers
from benchmarks.detection_fleet import Fleet, enough
from benchmarks.detection_series import BASE, CHANGES, FAMILIES, SD, SHIFTS, TRANSIENTS, UNSEEN, Source
from logwatch.judging.charts import MOST, Chart
from logwatch.judging.ranktests import Stratum, difference, p_value, spread_over_grid
from logwatch.judging.segments import steps
from logwatch.model import Change

RUN_LENGTH = 1e6
YEAR = 3.15e7
LEAST = 0.0025
K = 20


class Sizes:
    """How much is run."""

    def __init__(self, *, quick: bool) -> None:
        self.series = 100 if quick else 300
        self.quiet = 2_000 if quick else 40_000
        self.replicates = 50 if quick else 200
        self.trials = 2 if quick else 20
        self.pairs = 20 if quick else 2_000
        self.offline = 6 if quick else 24
        self.peer_series = 10 if quick else 30
        self.peer_quiet = 3_000 if quick else 10_000
        self.river_series = 1 if quick else 3


def fleet_of(
    family: str, series: int, rng: np.random.Generator, run_length: float = RUN_LENGTH
) -> tuple[Source, Fleet, np.ndarray]:
    """A source, and a fleet that has learnt from it until its baselines froze."""
    source = Source(family, series, rng)
    learnt = source.draw(MOST)
    learnt = learnt[:, : enough(learnt, run_length, LEAST)]
    return source, Fleet(learnt, run_length, LEAST, K), learnt


def false_alarms(sizes: Sizes, seed: int) -> Iterator[str]:
    """Alarms of quiet series, per million samples."""
    yield "| family | learnt from | quiet samples | alarms | per million | 95 % | of them |"
    yield "|---|---:|---:|---:|---:|---|---|"
    every = 0
    for family in (*FAMILIES, *UNSEEN):
        source, fleet, learnt = fleet_of(family, sizes.series, np.random.default_rng([seed, 1]))
        kinds: Counter[str] = Counter()
        for _ in range(sizes.quiet // 1000):
            x = source.draw(1000)
            for j in range(1000):
                kinds.update(firing.kind for _, firing in fleet.step(x[:, j]))
        samples, count = sizes.series * sizes.quiet, sum(kinds.values())
        low, high = _poisson(count)
        every += count if family in FAMILIES else 0
        of = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common())
        mark = " (besides)" if family in UNSEEN else ""
        yield (
            f"| {family}{mark} | {learnt.shape[1]:,} | {samples:.2g} | {count} | {count / samples * 1e6:.2f} | "
            f"{low / samples * 1e6:.2f} - {high / samples * 1e6:.2f} | {of or '-'} |"
        )
    samples = sizes.series * sizes.quiet * len(FAMILIES)
    low, high = (bound / samples * 1e6 for bound in _poisson(every))
    rate = every / samples * 1e6
    yield f"| the seven together | | {samples:.2g} | {every} | {rate:.2f} | {low:.2f} - {high:.2f} | |"


def rare_alarms(sizes: Sizes, seed: int) -> Iterator[str]:
    """The same for one false alarm in a year of one sample a second."""
    yield "| family | quiet samples | alarms | expected | 95 % of the rate, times nominal |"
    yield "|---|---:|---:|---:|---|"
    for family in ("g1", "ar"):
        source, fleet, _ = fleet_of(family, 2 * sizes.series, np.random.default_rng([seed, 12]), YEAR)
        count = 0
        for _ in range(4 * sizes.quiet // 1000):
            x = source.draw(1000)
            count += sum(len(fleet.step(x[:, j])) for j in range(1000))
        samples = 2 * sizes.series * 4 * sizes.quiet
        low, high = (bound * YEAR / samples for bound in _poisson(count))
        yield f"| {family} | {samples:.2g} | {count} | {samples / YEAR:.1f} | {low:.1f} - {high:.1f} |"


def first_alarms(
    fleet: Fleet, source: Source, change: str, limit: int, kinds: Counter[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Delay of each series' first alarm after a change (-1: none), and how wrong its onset is."""
    for column in source.draw(300).T:
        fleet.step(column)
    began = fleet.seen
    delay, onset = np.full(fleet.series, -1), np.zeros(fleet.series)
    done = 0
    while done < limit and (delay < 0).any():
        x = source.draw(limit, change, 0) if done == 0 else source.draw(1000)
        for column in x.T:
            done += 1
            for i, firing in fleet.step(column):
                if delay[i] < 0:
                    delay[i] = done
                    onset[i] = firing.finding.onset.line - began - 1
                    kinds[firing.kind] += 1
            if (delay >= 0).all():
                break
    return delay, onset


def detection_delays(sizes: Sizes, seed: int) -> Iterator[str]:
    """Delays after a change, against the matched optimum."""
    yield (
        "| family | change | median | p95 | missed | optimum median | optimum p95 | ratio | ratio p95 | "
        "log(ARL)/KL | onset error, median | told as |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"
    for family in FAMILIES:
        source, fleet, _ = fleet_of(family, sizes.replicates, np.random.default_rng([seed, 2]))
        for change in CHANGES:
            fleet.restart(np.arange(fleet.series), first=True)
            kinds: Counter[str] = Counter()
            delay, onset = first_alarms(fleet, source, change, 8000, kinds)
            found = delay[delay >= 0]
            median, p95 = (np.percentile(found, q) if len(found) else math.nan for q in (50, 95))
            best, best95 = _optimum(family, change, seed)
            long = best > K
            ratios = "- | -"
            if best95:
                ratios = f"{median / best:.2f} | {p95 / best95:.2f}" if long else "k | k"
            elif change == "ramp2" and long:
                ratios = f"{median / best:.2f} | -"
            told = ", ".join(f"{kind} {n / len(delay):.0%}" for kind, n in kinds.most_common(2))
            yield (
                f"| {family} | {change} | {median:.0f} | {p95:.0f} | {(delay < 0).mean():.1%} | {_count(best)} | "
                f"{_count(best95)} | {ratios} | {_bound(family, change)} | "
                f"{np.median(onset[delay >= 0]) if len(found) else math.nan:+.0f} | {told} |"
            )


def transients(sizes: Sizes, seed: int) -> Iterator[str]:
    """Alarms within 60 samples of something that went away again."""
    yield "| family | " + " | ".join(TRANSIENTS) + " |"
    yield "|---|" + "---:|" * len(TRANSIENTS)
    for family in ("g005", "g02", "g1", "spike", "ar", "mix"):
        cells = []
        source, fleet, _ = fleet_of(family, sizes.series, np.random.default_rng([seed, 3]))
        for change in TRANSIENTS:
            fleet.restart(np.arange(fleet.series), first=True)
            alarms = 0
            for _ in range(sizes.trials):
                x = source.draw(200, change, 100)
                for j in range(200):
                    told = fleet.step(x[:, j])
                    alarms += len(told) if 100 <= j < 160 else 0
            cells.append(f"{alarms} of {sizes.series * sizes.trials:,}")
        yield f"| {family} | " + " | ".join(cells) + " |"


def the_field(sizes: Sizes, seed: int) -> Iterator[str]:
    """19.145 to 28.95 ms, rounded to 0.01 ms as the field's logs are."""
    source, fleet, _ = fleet_of("round", sizes.series, np.random.default_rng([seed, 4]))
    quiet = 0
    for _ in range(sizes.quiet // 1000):
        x = source.draw(1000)
        quiet += sum(len(fleet.step(x[:, j])) for j in range(1000))
    delay = np.full(fleet.series, -1)
    onset = np.zeros(fleet.series)
    began = fleet.seen
    x = np.round(28.95 + np.random.default_rng([seed, 5]).normal(0, 0.005, (fleet.series, 40)), 2)
    for j in range(40):
        for i, firing in fleet.step(x[:, j]):
            if delay[i] < 0:
                delay[i], onset[i] = j + 1, firing.finding.onset.line - began - 1
    when, off = sorted(set(delay.tolist())), sorted(set(onset.astype(int).tolist()))
    yield (
        f"{fleet.series} series: alarm at changed sample {when} (k = {K}), onset off by {off}; {quiet} alarms in "
        f"{fleet.series * sizes.quiet:.2g} good samples. The band beside it speaks at the third."
    )


def onset_and_size(sizes: Sizes, seed: int) -> Iterator[str]:
    """How often the told ranges hold the truth."""
    yield "| family | change | onset's 90 % range holds | size's 95 % interval (200 samples on) holds | its bias |"
    yield "|---|---|---:|---:|---:|"
    for family in ("g02", "g1", "spike", "ar", "round", "mix"):
        for change in ("s1", "s2"):
            rng = np.random.default_rng([seed, 6])
            source, fleet, _ = fleet_of(family, sizes.replicates, rng)
            quiet, changed = source.draw(300), source.draw(3000, change, 0)
            hits: list[bool] = []
            sizes_hit: list[bool] = []
            bias: list[float] = []
            truth = SHIFTS[change]
            for i in range(fleet.series):
                chart = Chart(RUN_LENGTH, LEAST, K)
                chart.adopt(fleet.bases[i])
                for number, value in enumerate(quiet[i].tolist(), 1 - quiet.shape[1]):
                    chart.update(value, number)
                for number, value in enumerate(changed[i].tolist(), 1):
                    told = chart.update(value, number)
                    if told is None:
                        continue
                    if told.kind != "level_shift":
                        break
                    if told.change is Change.OPENED:
                        width = int(told.detail.rpartition(" samples")[0].rpartition(" ")[2])
                        hits.append(abs(told.onset.line - 1) <= width)
                    elif told.change is Change.EXPLAINED:
                        low, high = _interval(told.detail)
                        sizes_hit.append(low - 5e-5 <= truth <= high + 5e-5)
                        bias.append(told.after / told.before - 1 - truth)
                        break
            yield (
                f"| {family} | {change} | {np.mean(hits):.1%} | {np.mean(sizes_hit):.1%} | "
                f"{np.mean(bias):+.3%} |"
            )


def comparing(sizes: Sizes, seed: int) -> Iterator[str]:
    """Equal logs called different, and shifts held by their interval."""
    yield "| family | samples | called different at 1 % (ours) | Mann-Whitney | t | 99 % interval holds +1 % |"
    yield "|---|---:|---:|---:|---:|---:|"
    for family in (*FAMILIES, "ar9"):
        for samples in (200, 2000):
            rng = np.random.default_rng([seed, 7])
            step = 0.01 if family in {"round", "mix"} else 0.0
            ours = plain = t = held = 0
            for pair in range(sizes.pairs):
                source = Source(family, 2, rng)
                x = source.draw(samples)
                stratum = Stratum(spread_over_grid(x[0], step, pair), spread_over_grid(x[1], step, pair + 1))
                ours += p_value([stratum]) < 0.01
                plain += stats.mannwhitneyu(x[0], x[1]).pvalue < 0.01
                t += stats.ttest_ind(x[0], x[1]).pvalue < 0.01
                y = source.draw(samples, "s1", 0)[1]
                moved = Stratum(stratum.a, spread_over_grid(y, step, pair + 2))
                found = difference(moved, 0.99)
                held += found.low <= BASE * 0.01 <= found.high
            n = sizes.pairs
            yield f"| {family} | {samples} | {ours / n:.1%} | {plain / n:.1%} | {t / n:.1%} | {held / n:.1%} |"


def offline(sizes: Sizes, seed: int, otava: str | None) -> Iterator[str]:
    """Change points in 2,000 quiet samples, and shifts found (within 100 samples) in 2,000 with one."""
    yield "| family | method | false change points per quiet series | found +0.5 % | found +1 % |"
    yield "|---|---|---:|---:|---:|"
    for family in FAMILIES:
        rng = np.random.default_rng([seed, 8])
        rows = {c: Source(family, sizes.offline, rng).draw(2000, c, 1000) for c in ("none", "s0.5", "s1")}
        methods = {
            "logwatch": lambda s: [each.index for each in steps(s, LEAST * BASE)],
            "least squares, textbook": peers.pelt_l2,
        }
        for name, method in methods.items():
            points = {c: [method(row) for row in x] for c, x in rows.items()}
            yield _offline_row(family, name, points)
        few = {c: [row[500:1500] for row in x[: max(sizes.offline // 8, 2)]] for c, x in rows.items()}
        found = {c: peers.e_divisive(otava, x) for c, x in few.items()}
        if all(each is not None for each in found.values()):
            moved = {c: [[p + 500 for p in one] for one in each or []] for c, each in found.items()}
            yield _offline_row(family, "E-divisive (Otava), 1,000 samples", moved)


def against_peers(sizes: Sizes, seed: int, river: str | None) -> Iterator[str]:
    """False alarms per million and the median delay of +1 % for the online peers."""
    rules = {**peers.ONLINE, **peers.river_rules(river)}
    families = ("g02", "g1", "spike", "ar", "round", "mix")
    yield "| rule | " + " | ".join(f"{f}: false / +0.5 % / +1 %" for f in families) + " |"
    yield "|---|" + "---|" * len(families)
    drawn = {}
    for family in families:
        source = Source(family, sizes.peer_series, np.random.default_rng([seed, 9]))
        drawn[family] = (
            source.draw(8000),
            source.draw(sizes.peer_quiet),
            source.draw(3000, "s0.5", 0),
            source.draw(3000, "s1", 0),
        )
    for name, rule in rules.items():
        few = sizes.river_series if name.startswith("river") else sizes.peer_series
        cells = []
        for family in families:
            learnt, quiet, half, one = (block[:few] for block in drawn[family])
            rate = peers.events(rule(learnt, quiet)) / quiet.size * 1e6
            cells.append(f"{rate:.0f} / {_first(rule(learnt, half))} / {_first(rule(learnt, one))}")
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield "| an alarm every million samples | " + " | ".join(["1 / 693,000 / 693,000"] * len(families)) + " |"
    yield "| never an alarm | " + " | ".join(["0 / never / never"] * len(families)) + " |"


def speed(seed: int) -> str:
    """Microseconds a sample of one chart that watches."""
    source, fleet, _ = fleet_of("g02", 1, np.random.default_rng([seed, 10]))
    chart = Chart(RUN_LENGTH, LEAST, K)
    chart.adopt(fleet.bases[0])
    values = source.draw(50_000)[0].tolist()
    best = math.inf
    for _ in range(3):
        began = time.process_time()
        for value in values:
            chart.update(value, 1)
        best = min(best, (time.process_time() - began) / len(values))
    return (
        f"{best * 1e6:.1f} microseconds a sample in pure Python ({len(chart.memory.bank.kinds)} statistics)."
    )


def _optimum(family: str, change: str, seed: int) -> tuple[float, float]:
    if family == "round" or (change == "bimod10" and family != "spike"):
        return math.nan, 0.0
    if change == "ramp2":
        return optimum.ramp_bound(family, RUN_LENGTH), 0.0
    found = optimum.delays(family, change, RUN_LENGTH, np.random.default_rng([seed, 11]))
    return float(np.median(found)), float(np.percentile(found, 95))


def _count(value: float) -> str:
    return f"{value:.0f}" if value > 0 else "-"


def _bound(family: str, change: str) -> str:
    """log(ARL) over the Kullback-Leibler divergence, where it is simple."""
    if change in SHIFTS and family in {"g005", "g02", "g1", "ar"}:
        phi = 0.6 if family == "ar" else 0.0
        shift = BASE * SHIFTS[change] / (SD[family] * math.sqrt((1 + phi) / (1 - phi)))
        return f"{math.log(RUN_LENGTH) / (shift**2 / 2):.0f}"
    return f"{math.log(RUN_LENGTH) / ((1 - math.log(2)) / 2):.0f}" if change == "var2" else "-"


def _offline_row(family: str, name: str, points: dict[str, list[list[int]]]) -> str:
    false = np.mean([len(one) for one in points["none"]])
    hit = {c: np.mean([any(abs(p - 1000) <= 100 for p in one) for one in points[c]]) for c in ("s0.5", "s1")}
    return f"| {family} | {name} ({len(points['none'])} series) | {false:.2f} | {hit['s0.5']:.0%} | {hit['s1']:.0%} |"


def _first(alarms: np.ndarray) -> str:
    """Median delay of the first alarm; `missed` where half of the series have none."""
    hit = alarms.any(axis=1)
    if hit.mean() <= 0.5:
        return "missed"
    return f"{np.median(np.where(hit, alarms.argmax(axis=1) + 1, alarms.shape[1])):.0f}"


def _interval(detail: str) -> tuple[float, float]:
    inner = detail.partition("interval ")[2].partition(")")[0]
    low, _, high = inner.partition(" to ")
    return float(low.rstrip("%")) / 100, float(high.rstrip("%")) / 100


def _poisson(count: int) -> tuple[float, float]:
    low = stats.chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    return float(low), float(stats.chi2.ppf(0.975, 2 * count + 2) / 2)


def main() -> None:
    """Run every table and write it as Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--river", help="folder with river")
    parser.add_argument("--otava", help="Python of an environment with apache-otava")
    asked = parser.parse_args()
    sizes, seed = Sizes(quick=asked.quick), asked.seed
    began = time.perf_counter()
    asked_for = f"python -m benchmarks.detection --seed {seed}{' --quick' if asked.quick else ''}"
    lines = [
        "# Detection, scored",
        "",
        f"`{asked_for}`; Python {platform.python_version()}, numpy {np.__version__}.",
        f"One false alarm in {RUN_LENGTH:.0e} samples, smallest shift {LEAST:.2%}, k = {K} samples throughout.",
        "Series and changes: `detection_series.py`.",
        "",
        "- The optimum (`detection_optimum.py`) is a one-sided CUSUM on the true likelihood ratio for the same false",
        "  alarms: it knows family, change and size. For `mix` it is that of `ar`, without spikes and rounding; for",
        "  the ramp it is the time until the cumulated information is log(ARL). `k`: it needs at most k samples, which",
        "  no alarm of ours may.",
        "- `Fleet` (numpy, many series) is held equal to the charts by `tests/judging/test_fleet.py`.",
        "- An alarm every million samples would score 1 false alarm and a delay of 693,000; none at all 0 and never.",
        "- Four families stand besides the seven. They were looked at while the charts were made (how outliers are",
        "  treated comes from them); the constants of thresholds were set on the seven, with other seeds. Bursts of",
        "  spikes and AR(1) at 0.9 do not keep the promise.",
        "- Onsets are counted with errors of both signs; `compare` draws 2,000 pairs.",
        "- The ramp at g005 and round is told when it reaches the smallest shift that is told at all, 0.25 %.",
        "",
    ]
    sections = (
        ("False alarms (nominal: 1 per million)", lambda: false_alarms(sizes, seed)),
        ("False alarms, nominal 1 in 3.15e7", lambda: rare_alarms(sizes, seed)),
        ("Delays in samples (k: the optimum needs fewer than k samples, an alarm none)",
         lambda: detection_delays(sizes, seed)),
        ("Transients: alarms within 60 samples", lambda: transients(sizes, seed)),
        ("The field's case", lambda: the_field(sizes, seed)),
        ("Onset and size", lambda: onset_and_size(sizes, seed)),
        ("Peers online: false alarms per million / median delay", lambda: against_peers(sizes, seed, asked.river)),
        ("`compare`", lambda: comparing(sizes, seed)),
        ("Offline: 2,000 samples", lambda: offline(sizes, seed, asked.otava)),
        ("Speed", lambda: iter([speed(seed)])),
    )  # fmt: skip
    for title, section in sections:
        lines += [f"## {title}", "", *section(), ""]
        print("\n".join(lines[-min(len(lines), 80) :]) if asked.out is None else f"{title}: done", flush=True)
    lines.append(f"Took {time.perf_counter() - began:.0f} s.")
    if asked.out is not None:
        asked.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
