"""Hostile lines: long ones made of what grammars and wrappings look for, timed at two lengths.

    python benchmarks/fuzz_lines.py --seconds 60

A way of reading is linear if eight times the length takes about eight times as long; backtracking or a
search that begins anew at each place takes 64 times as long or more. Processor time of this thread is what
is measured, the best of several runs, and what looks superlinear is measured again before it counts.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "tests" / "grammar")]

import proof_kit as kit  # noqa: E402  # behind the path

from logwatch.config import Config  # noqa: E402  # behind the path
from logwatch.grammar.ast import Grammar  # noqa: E402  # behind the path
from logwatch.grammar.load import load_grammars  # noqa: E402  # behind the path
from logwatch.grammar.streaming import Reader  # noqa: E402  # behind the path
from logwatch.pipeline import Pipeline, Settings  # noqa: E402  # behind the path

FACTOR = 8
LIMIT = 24.0
"""Times longer for `FACTOR` times the length: linear is 8, quadratic 64."""
SHORT, LONG = 4_000, 60_000
WORTH_S = 0.002
"""Shorter times are not told apart from noise, and do no harm at this length."""

SIGNS = [
    *"a0 \t\"'\\()[]{}<>:,.=|%/#-_",
    "1.",
    "é",
    "\ufffd",
    " " * 40,
    " " * 400,
    "#" * 400,
    "9" * 20,
    "a" * 80,
    "\r",
]
WRAPPINGS = [
    "[2026-02-11 08:15:02 TP0] ",
    "[2026-02-11 08:15:02",
    "2026-02-11T08:15:02.123456789Z stdout F ",
    "(RayWorker pid=12, ip=10.0.0.1) ",
    "(a (b) pid=",
    "pid=1",
    "server  | ",
    "Feb 11 08:15:02 host sglang[77]: ",
    '{"log":"',
    '{"log":"x"} ',
    '"msg"',
    '{"MESSAGE":"a\\n"}',
    "\x1b[36m",
    "\x1b]0;",
    "  98%|###  | 3/8 [00:05<00:00, 1.59it/s]",
    "1%|",
    "it/s]",
    "[0]<stdout>:",
    "x.log:12:",
    "I0211 08:15:02.123456 123 f.cc:1] ",
    '- "GET ',
    "EAGLE3_PROFILE environment ",
    "A=B ",
    "key: value, ",
    "x: 0.1, ",
]


def atoms(grammars: Sequence[Grammar]) -> list[str]:
    """What lines are made of: signs, wrappings, and the grammars' own anchors and literals."""
    texts = {rule.anchor for grammar in grammars for rule in grammar.rules}
    for grammar in grammars:
        for rule in grammar.rules:
            texts.update(re.findall(r"[^{}?|]{2,}", rule.sources["pattern"].text))
    return [*SIGNS, *WRAPPINGS, *sorted(texts)]


@dataclass(frozen=True)
class Line:
    """A line of any length: a beginning, a piece that is repeated, an end."""

    begin: str
    piece: str
    end: str

    def of(self, length: int) -> str:
        """About so many bytes: all that is timed stays below 1 MiB, where another way of reading begins."""
        return self.begin + self.piece * max(1, length // len(self.piece.encode())) + self.end


def lines(pieces: Sequence[str], seed: int) -> Iterator[Line]:
    """Each piece alone, then endless combinations."""
    chance = random.Random(seed)
    for piece in pieces:
        yield Line("", piece, "")
        yield Line("", piece, "!")

    def some(least: int, most: int) -> str:
        return "".join(chance.choice(pieces) for _ in range(chance.randint(least, most)))

    while True:
        yield Line(some(0, 3), some(1, 3), some(0, 2))


def taken(read: Callable[[str], object], line: Line, length: int, times: int) -> float:
    """Processor seconds for a line of about this length."""
    text, best = line.of(length), float("inf")
    for _ in range(times):
        begun = time.thread_time()
        read(text)
        best = min(best, time.thread_time() - begun)
    return best


def growth(read: Callable[[str], object], line: Line) -> float:
    """Times longer for eight times the length; 0 where it is too quick to tell."""
    for length in (SHORT, LONG):
        long = taken(read, line, FACTOR * length, 1)
        if long < WORTH_S:
            continue
        ratio = long / max(taken(read, line, length, 2), 1e-5)
        if ratio > LIMIT:
            ratio = min(
                ratio, taken(read, line, FACTOR * length, 3) / max(taken(read, line, length, 5), 1e-5)
            )
            if ratio > LIMIT:
                return ratio
    return ratio if long >= WORTH_S else 0.0


def by_pipeline(grammars: Sequence[Grammar]) -> Callable[[str], object]:
    """The whole way from bytes to incidents."""
    del grammars
    settings = Settings.of_config(Config())

    def read(text: str) -> int:
        pipeline = Pipeline(settings, "s", "p")
        return sum(1 for _ in (*pipeline.feed_bytes(text.encode() + b"\n"), *pipeline.finish()))

    return read


def by_grammars(grammars: Sequence[Grammar]) -> Callable[[str], object]:
    """The grammars alone."""
    return Reader(grammars).read


def search(seconds: float, seed: int) -> tuple[int, list[tuple[float, Line]]]:
    """Look for lines that take longer than linear time: how many were tried, and what was found."""
    grammars, found = load_grammars(), []
    until = time.monotonic() + seconds
    read = by_pipeline(grammars)
    for tried, line in enumerate(lines(atoms(grammars), seed)):
        if time.monotonic() > until:
            return tried, found
        if (ratio := growth(read, line)) > LIMIT:
            found.append((ratio, line))
            print(f"{ratio:.0f} x for {FACTOR} x the length: {line}", file=sys.stderr, flush=True)
    raise AssertionError


def dearest(seconds: float, seed: int) -> tuple[float, Line | None]:
    """The most expensive lines, as seconds for a line of 1 MiB: the price of a hostile writer."""
    grammars = load_grammars()
    worst, which, read = 0.0, None, by_pipeline(grammars)
    until = time.monotonic() + seconds
    for line in lines(atoms(grammars), seed):
        if time.monotonic() > until:
            return worst, which
        cost = taken(read, line, LONG, 1) / LONG * 2**20
        if cost > worst:
            worst, which = cost, line
    raise AssertionError


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the clock's, if none is given")
    arguments = parser.parse_args()
    tried, found = search(arguments.seconds * 2 / 3, arguments.seed)
    worst, which = dearest(arguments.seconds / 3, arguments.seed)
    cell = str(which).replace("|", "\\|")
    rows = [
        (f"lines tried, seed {arguments.seed}", f"{tried:,}", ""),
        ("took longer than linear time", f"{len(found)}", "0"),
        ("the dearest, of 1 MiB (the longest that is read)", f"{worst:.1f} s of one core: `{cell}`", ""),
    ]
    print(kit.table("Hostile lines", rows))
    for _, line in found:
        print(f"FAILED: superlinear: {line}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
