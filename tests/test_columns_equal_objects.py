"""Bulk replay folds ordinary reports as columns; what it says and remembers is what objects, and `watch`, give."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from logwatch.commands.replay_reading import Cutter, Feeder, Takers
from logwatch.config import Config
from logwatch.grammar.load import load_grammars
from logwatch.intake.bulk import Bulk
from logwatch.judging.bands import Band, Rules
from logwatch.model import Incident
from logwatch.outlets.report.summary import Collector
from logwatch.pipeline import Pipeline, Settings

SETTINGS = Settings.of_config(Config())
BANDS = (
    Band("target_verify", 0.0185, 0.0195),
    Band("target_verify", 0.02, 0.03, when={"batch_size": "4..8"}),
    Band("draft_forward", 0.0001, 0.00055, open_after=1, resolve_after=2),
)
OTHERS = {
    "defaults": SETTINGS,
    "own bands": replace(SETTINGS, bands=BANDS),
    "a baseline": replace(SETTINGS, rules=Rules(baseline_tokens_per_second=95.5)),
    "bands by context": replace(
        SETTINGS,
        bands=(
            Band("target_verify", 0.01885, 0.01915, per_context_token_s=1.9e-9),
            Band("target_verify", 0.0187, 0.0194, when={"batch_size": 2}, per_context_token_s=1e-9),
            Band("target_verify", 0.0187, 0.0194, open_after=2, when={"batch_size": 4, "graph": True}),
            Band("draft_extend", 0.00058, 0.00062, when={"batch_size": "1..4"}, per_context_token_s=1e-10),
        ),
    ),
}
BULK = Bulk(load_grammars())
START = (
    "server_args=ServerArgs(model_path='/m', tp_size=1, speculative_algorithm='EAGLE3', speculative_num_steps=2, "
    "speculative_eagle_topk=1, speculative_num_draft_tokens={drafts})"
)
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""A log of a thousand reports takes minutes to shrink, and its seed says as much."""

WORST = (
    "spikes", "slow", "worse", "restart", "other settings", "crash", "short report", "batch", "graph off", "idle drafts",
    "requests", "rank", "malformed", "total first", "drift", "warm", "draft slow", "zero",
    "phase gone",
)  # fmt: skip


class Server:
    """Writes a log: reports of a steady server, and what happens to it from time to time."""

    def __init__(self, seed, mishaps, rank=" TP0", header="EAGLE3_PROFILE 100 cycles", decodes=2):
        self.random = random.Random(seed)
        self.mishaps, self.rank, self.header, self.decodes = mishaps, rank, header, decodes
        self.lines, self.second, self.batch, self.tokens = [], 0, 1, 500
        self.slow = self.draft_slow = 1.0
        self.graph, self.drafted, self.verify = True, 0.93, 0.019

    def stamp(self, rank=None):
        """SGLang's prefix."""
        second = self.second
        return f"[2026-02-11 {second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}{self.rank if rank is None else rank}] "

    def decode(self):
        """A decode line."""
        self.tokens = (self.tokens + self.random.randrange(400)) % 60_000
        self.lines.append(
            f"{self.stamp()}Decode batch, #running-req: {self.batch}, #token: {self.tokens}, token usage: "
            f"{self.tokens / 1e5:.2f}, accept len: {1 + self.drafted:.2f}, accept rate: 0.46, cuda graph: {self.graph}, "
            f"gen throughput (token/s): {self.random.uniform(90, 110):.2f}, #queue-req: 0"
        )

    def report(self, left_out="", rank=None, first=""):
        """A report."""
        verify = self.verify * self.slow * self.random.gauss(1, 0.003) * (1 + self.tokens * 1e-7)
        draft = 0.0005 * self.draft_slow * self.random.gauss(1, 0.01)
        extend = 0.0006 * self.random.gauss(1, 0.01)
        total = verify + draft + extend
        phases = {
            "Draft forward": f"{draft * 1e3:.2f} ms/cyc  ({draft / total:6.1%})",
            "Target verify": f"{verify * 1e3:.2f} ms/cyc  ({verify / total:6.1%})",
            "Draft extend": f"{extend * 1e3:.2f} ms/cyc",
            "Total cycle": f"{total * 1e3:.2f} ms/cyc",
            "Accept len": f"{self.drafted + (self.random.gauss(0, 0.02) if self.drafted else 0):.2f}",
        }
        order = sorted(phases, key=lambda name: name != first)
        self.lines.append(f"{self.stamp(rank)}{self.header}")
        self.lines += [f"  {name}:   {phases[name]}" for name in order if name != left_out]

    def start(self, drafts=3):
        """A server start."""
        self.lines.append(f"{self.stamp('')}{START.format(drafts=drafts)}")
        self.lines.append(f"{self.stamp()}The server is fired up and ready to roll!")

    def mishap(self, what):  # noqa: C901, PLR0912 - a list of what may happen
        """Something that happens; some of it goes on until it happens again."""
        draw = self.random
        match what:
            case "spikes":
                self.slow = draw.choice([1.3, 1.07, 0.6])
                for _ in range(draw.randrange(1, 4)):
                    self.report()
                self.slow = 1.0
            case "slow":
                self.slow = 1.0 if self.slow != 1.0 else draw.choice([1.004, 1.03, 1.5])
            case "worse":
                self.slow *= 1.25
            case "drift":
                self.verify *= 1.002
            case "draft slow":
                self.draft_slow = 1.0 if self.draft_slow != 1.0 else 10.0
            case "restart" | "other settings":
                self.lines.append(
                    f"{self.stamp()}Subprocess scheduler_0 (pid=969) crashed with exit code -15."
                )
                self.start(3 if what == "restart" else draw.choice([3, 4]))
            case "crash":
                self.lines.append(
                    f"{self.stamp()}SIGTERM received. signum=None frame=None. Draining requests and shutting down..."
                )
            case "short report":
                self.report(left_out=draw.choice(["Draft extend", "Total cycle", "Accept len"]))
            case "batch":
                self.batch = draw.choice([1, 2, 4, 8, 11])
                self.lines.append(
                    f"{self.stamp()}Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 0"
                )
                self.decode()
            case "warm":
                self.header = draw.choice(
                    [
                        f"EAGLE3_PROFILE 100 cycles, batch {self.batch}.3, graph 100.0%",
                        "[EAGLE3 profile] 100 cycles",
                    ]
                )
            case "graph off":
                self.graph = not self.graph
            case "idle drafts":
                self.drafted = 0.0 if self.drafted else 0.93
            case "requests":
                self.lines += [
                    f'{self.stamp("")}INFO:     127.0.0.1:43856 - "POST /generate HTTP/1.1" 200 OK'
                ] * draw.choice([3, 60])
            case "rank":
                self.report(rank=" TP1")
            case "malformed":
                self.lines.append("  Target verify:     nan ms/cyc")
            case "total first":
                self.report(first="Total cycle")
            case "phase gone":
                self.slow, self.draft_slow = 1.5, 10.0
                for _ in range(8):
                    self.report()
                gone = draw.choice(["Target verify", "Draft forward"])
                for _ in range(draw.choice([10, 49, 60])):
                    self.report(left_out=gone)
                self.slow, self.draft_slow = draw.choice([1.0, 1.5]), draw.choice([1.0, 10.0])
            case "zero":
                self.lines += [f"{self.stamp()}{self.header}", "  Draft forward: 0.00 ms/cyc", "  Target verify: 0.00 ms/cyc",
                               "  Draft extend: 0.00 ms/cyc", "  Total cycle: 0.00 ms/cyc", "  Accept len: 0.93"]  # fmt: skip

    def log(self, reports, rate):
        """The whole log."""
        self.start()
        for _ in range(reports):
            self.second += 1
            for _ in range(self.random.randrange(self.decodes + 1)):
                self.decode()
            if self.mishaps and self.random.random() < rate:
                self.mishap(self.random.choice(self.mishaps))
            self.report()
        return ("\n".join(self.lines) + "\n").encode()


def replayed(data, size, chosen, *, columns):
    """Incidents, summary, records by kind and memory; and how many cycles came as columns."""
    pipeline, collector = Pipeline(chosen, "s", "p"), Collector(chosen.rules.baseline_tokens_per_second)
    many = []

    def take(cycles):
        many.append(len(cycles))
        collector.take_many(cycles)

    cutter, feeder = Cutter("p"), Feeder(pipeline, "p", Takers(take) if columns else None)
    incidents = []

    def keep(items):
        for item in items:
            collector.take(item)
            if isinstance(item, Incident):
                incidents.append(item)

    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    for piece in pieces:
        for unit in cutter.cut(piece, BULK):
            keep(feeder.take(unit))
    for unit in cutter.finish():
        keep(feeder.take(unit))
    keep(pipeline.finish_file())
    memory = pipeline.memory
    keep(pipeline.finish())
    for kind, count in feeder.unseen.items():
        collector.seen(kind, count)
    return incidents, collector.summary(), memory, sum(many)


def watched(data, chosen):
    """Incidents and summary of the daemon's way."""
    pipeline, collector = Pipeline(chosen, "s", "p"), Collector(chosen.rules.baseline_tokens_per_second)
    items = [*pipeline.feed_bytes(data), *pipeline.finish()]
    for item in items:
        collector.take(item)
    return [item for item in items if isinstance(item, Incident)], collector.summary()


def check(data, size, chosen):
    """All three ways agree; how many cycles came as columns."""
    told, summary, memory, none = replayed(data, size, chosen, columns=False)
    found, sums, remembered, many = replayed(data, size, chosen, columns=True)
    assert not none
    assert found == told
    assert remembered == memory
    assert list(remembered.judgements.series) == list(memory.judgements.series)
    assert sums == summary
    incidents, total = watched(data, chosen)
    assert found == incidents
    assert replace(sums, seen=Counter(sums.seen)) == replace(total, seen=Counter(total.seen))
    return many


@pytest.mark.parametrize("chosen", [pytest.param(each, id=name) for name, each in OTHERS.items()])
@given(
    st.integers(0, 1_000_000),
    st.lists(st.sampled_from(WORST), max_size=5, unique=True),
    st.sampled_from([0.001, 0.01, 0.05]),
    st.integers(20_000, 400_000),
)
@settings(max_examples=5, deadline=None, phases=PHASES, suppress_health_check=[HealthCheck.too_slow])
def test_columns_give_what_objects_give(chosen, seed, mishaps, rate, size):
    """Whatever happens to a server, and however its log is cut: incidents, summary and memory are equal."""
    check(Server(seed, mishaps).log(1200, rate), size, chosen)


@pytest.mark.parametrize("size", [50_000, 700_000])
def test_all_logs_in_one_stream_give_the_same(size):
    """Real servers' logs and every collected case, one after the other and each twice."""
    logs = Path(__file__).parents[1] / "fixtures" / "logs"
    files = sorted(path for path in logs.rglob("*") if path.is_file() and path.suffix in {".log", ".txt"})
    check(b"\n".join(path.read_bytes() * 2 for path in files), size, SETTINGS)


@pytest.mark.parametrize("what", WORST)
def test_each_mishap_gives_the_same(what):
    """Each of what may happen, often and by itself."""
    check(Server(7, [what]).log(900, 0.03), 60_000, OTHERS["own bands"])


@pytest.mark.parametrize(
    ("rank", "header", "decodes", "chosen"),
    [
        pytest.param("", "[EAGLE3 profile] 100 cycles", 3, "defaults", id="no rank"),
        pytest.param(
            " TP0",
            "EAGLE3_PROFILE 100 cycles, batch 1.0, graph 100.0%",
            0,
            "defaults",
            id="batch in the header",
        ),
        pytest.param(" DP1 TP0", "EAGLE3_PROFILE 50 cycles, graph 100.0%", 1, "defaults", id="data-parallel"),
        pytest.param(" TP0", "EAGLE3_PROFILE 100 cycles", 2, "bands by context", id="bands by context"),
    ],
)
def test_a_steady_log_is_nearly_all_columns(rank, header, decodes, chosen):
    """Where nothing happens, objects are few."""
    many = check(Server(1, [], rank, header, decodes).log(1500, 0.0), 300_000, OTHERS[chosen])
    assert many > 1300
