"""Coverage-guided fuzzing of everything that reads what others wrote.

    python benchmarks/fuzz.py --seconds 60                 # each target for so long
    python benchmarks/fuzz.py --seconds 600 chunks http    # these only

Each target of `fuzz_targets.py` runs in a process of its own, under atheris (libFuzzer). What it learns
stays in `.work/fuzz/TARGET`, so that the next run goes on from there. An input that breaks a target is
written to `fixtures/fuzz/TARGET/`, where `tests/proof/test_fuzz.py` finds it from then on. Needs
`pip install atheris`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST = {"state_file": 40_000, "chunks": 3_000, "restart": 2_000, "scrape": 3_000}
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]


def one(target: str, arguments: list[str]) -> None:
    """In the target's own process: never returns."""
    import atheris

    with atheris.instrument_imports(include=["logwatch"]):
        import fuzz_targets
    seeds(target, fuzz_targets.PIECES, fuzz_targets.LOG)
    atheris.Setup([sys.argv[0], *arguments], fuzz_targets.TARGETS[target])
    atheris.Fuzz()


def seeds(target: str, pieces: list[bytes], log: bytes) -> None:
    """Something to begin with, and the dictionary."""
    corpus = ROOT / ".work" / "fuzz" / target
    words = {piece.strip(b"\n") for piece in pieces} | {
        b"ms/cyc",
        b"{?",
        b"?}",
        b"{|",
        b":int}",
        b"HTTP/1.1\r\n",
    }
    lines = ['"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in sorted(words) if word]
    (ROOT / ".work" / "fuzz" / "words").write_text("\n".join(lines) + "\n")
    begin: list[bytes] = {
        "pattern": [b"abc {cycles:int}{? x {tokens:int}?}\nabc 5 x 7", b"{|abc|abd|}: {phase:label}\nabc: d"],
        "grammar": [
            path.read_bytes() for path in (ROOT / "grammars").glob("*.toml") if path.stat().st_size < 3000
        ],
        "configuration": [path.read_bytes() for path in (ROOT / "fixtures" / "configs").glob("*.toml")],
        "state_file": [_state()],
        "memories": [bytes([which]) + b"\n" + text for which, text in enumerate(_memories())],
        "positions": [_position()],
        "http": [
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n",
            b"POST /-/reload HTTP/1.0\r\n\r\n",
        ],
        "query": [
            b"since=1h&until=2026-02-11T08:15:02&phase=target_verify&limit=3\napplication/openmetrics-text"
        ],
    }.get(target, [bytes([3, 40, 90, 200]) + log * 4])
    for number, seed in enumerate(begin):
        (corpus / f"seed-{number}").write_bytes(seed)


def _state() -> bytes:
    import tempfile

    from logwatch.outlets.state import State

    with tempfile.TemporaryDirectory() as folder:
        state = State(Path(folder), lambda _notice: None)
        state.commit({"s": "{}"}, {"m": "{}"})
        state.close()
        return (Path(folder) / "state.sqlite").read_bytes()


def _memories() -> list[bytes]:
    import fuzz_targets
    from pydantic import TypeAdapter

    from logwatch.outlets.metrics import Metrics
    from logwatch.outlets.web.board import Board
    from logwatch.pipeline import Pipeline

    pipeline, metrics, board = Pipeline(fuzz_targets._settings(), "s", "p"), Metrics(), Board()  # noqa: SLF001  # one family
    for item in pipeline.feed_bytes(fuzz_targets.LOG * 6):
        metrics.take(item)
        board.take(item)
    return [
        TypeAdapter(type(each)).dump_json(each) for each in (pipeline.memory, metrics.memory, board.memory)
    ]


def _position() -> bytes:
    import tempfile

    from logwatch.intake.tail import Source, Tail

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "a.log"
        log.write_text("a\nb\n")
        tail = Tail([Source(str(log), "s", "beginning")], {}, lambda _notice: None)
        list(tail.read())
        saved = tail.positions(lambda _stream: 0)
        tail.close()
    return "\n".join(f"{name}\t{text}" for name, text in saved.items() if text).encode()


def campaign(targets: list[str], seconds: int) -> list[dict[str, object]]:
    """Run each target; one row a target: executions, what it covers, and what was found."""
    rows = []
    for target in targets:
        corpus, found = ROOT / ".work" / "fuzz" / target, ROOT / "fixtures" / "fuzz" / target
        corpus.mkdir(parents=True, exist_ok=True)
        found.mkdir(parents=True, exist_ok=True)
        before = set(found.iterdir())
        limits = [
            f"-max_total_time={seconds}",
            f"-max_len={LONGEST.get(target, 4096)}",
            "-timeout=30",
            "-rss_limit_mb=3000",
        ]
        command = [sys.executable, __file__, "--one", target, *limits, "-print_final_stats=1"]
        command += [f"-artifact_prefix={found}/", f"-dict={ROOT}/.work/fuzz/words", str(corpus)]
        (ROOT / ".work" / "fuzz" / "words").touch()
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        new = sorted(path.name for path in set(found.iterdir()) - before)
        if new or run.returncode:
            print(
                f"--- {target}: {new or 'no input kept'}\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}",
                file=sys.stderr,
            )
        if not any(found.iterdir()):
            found.rmdir()
        executed = re.search(r"number_of_executed_units: (\d+)", run.stderr)
        covered = re.findall(r" cov: (\d+)", run.stderr)
        rows.append(
            {
                "target": target,
                "executions": int(executed[1]) if executed else 0,
                "branches seen": int(covered[-1]) if covered else 0,
                "found": len(new) + (run.returncode != 0 and not new),
            }
        )
        print(" ".join(f"{name}={value}" for name, value in rows[-1].items()), flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=60)
    arguments = parser.parse_args()
    from fuzz_targets import TARGETS

    return int(any(row["found"] for row in campaign(arguments.targets or list(TARGETS), arguments.seconds)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], sys.argv[3:])
    sys.exit(main())
