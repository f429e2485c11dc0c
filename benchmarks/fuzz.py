"""Coverage-guided fuzzing of everything that reads what others wrote.

    python benchmarks/fuzz.py --seconds 60                 # each target for so long
    python benchmarks/fuzz.py --seconds 600 chunks http    # these only
    python benchmarks/fuzz.py --workers 2                  # two at once

Each target of `fuzz_targets.py` runs in a process of its own, under atheris (libFuzzer). What it learns
stays in `.work/fuzz/TARGET`, so that the next run goes on from there. An input that breaks a target is
written to `fixtures/fuzz/TARGET/`, where `tests/proof/test_fuzz.py` finds it from then on. Where atheris
does not install, this says so and does nothing: those tests fuzz by Hypothesis.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORDS = ROOT / ".work" / "fuzz" / "words"
LONGEST = {"state_file": 40_000, "chunks": 3_000, "replay": 3_000, "restart": 2_000, "scrape": 3_000}
HANGS_S = 120
"""An input that takes longer hangs; far above what the dearest takes on a busy machine."""
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import proof_kit as kit  # noqa: E402  # behind the path


def one(target: str, arguments: list[str]) -> None:
    """In the target's own process: never returns."""
    import atheris

    with atheris.instrument_imports(include=["logwatch"]):
        import fuzz_targets
    atheris.Setup([sys.argv[0], *arguments], fuzz_targets.TARGETS[target])
    atheris.Fuzz()


def dictionary(pieces: list[bytes]) -> None:
    """Write the words that mutations insert."""
    words = {piece.strip(b"\n") for piece in pieces} | {
        b"ms/cyc",
        b"{?",
        b"?}",
        b"{|",
        b":int}",
        b"HTTP/1.1\r\n",
    }
    lines = ['"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in sorted(words) if word]
    WORDS.parent.mkdir(parents=True, exist_ok=True)
    WORDS.write_text("\n".join(lines) + "\n")


def seeds(target: str, corpus: Path, log: bytes) -> None:
    """Write something to begin with."""
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


def fuzz(target: str, seconds: int) -> dict[str, object]:
    """Run one target: executions, what it covers, the processor time it had, and what was found."""
    import fuzz_targets

    corpus, found = ROOT / ".work" / "fuzz" / target, ROOT / "fixtures" / "fuzz" / target
    corpus.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    seeds(target, corpus, fuzz_targets.LOG)
    before = set(found.iterdir())
    command = [
        *(sys.executable, __file__, "--one", target),
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST.get(target, 4096)}",
        f"-timeout={HANGS_S}",
        f"-report_slow_units={HANGS_S}",
        "-rss_limit_mb=3000",
        "-print_final_stats=1",
        f"-artifact_prefix={found}/",
        f"-dict={WORDS}",
        str(corpus),
    ]
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    new = sorted(path.name for path in set(found.iterdir()) - before)
    if new or process.returncode:
        print(f"--- {target}: {new or 'no input kept'}\n{text[-6000:]}", file=sys.stderr)
    if not any(found.iterdir()):
        found.rmdir()
    executed = re.search(r"number_of_executed_units: (\d+)", text)
    covered = re.findall(r" cov: (\d+)", text)
    row: dict[str, object] = {
        "target": target,
        "executions": int(executed[1]) if executed else 0,
        "branches seen": int(covered[-1]) if covered else 0,
        "processor s": round(used.ru_utime + used.ru_stime),
        "found": len(new) or int(process.returncode != 0),
    }
    print(" ".join(f"{name}={value}" for name, value in row.items()), file=sys.stderr, flush=True)
    return row


def campaign(targets: list[str], seconds: int, workers: int) -> tuple[str, list[str]]:
    """Every target for so long: a table, and what failed."""
    from fuzz_targets import PIECES

    dictionary(PIECES)
    with ThreadPoolExecutor(workers) as pool:
        rows = list(pool.map(lambda target: fuzz(target, seconds), targets))
    cells = [[f"{value:,}" if isinstance(value, int) else value for value in row.values()] for row in rows]
    wrong = [f"{row['target']} broke: fixtures/fuzz/{row['target']}" for row in rows if row["found"]]
    return kit.table(f"Fuzzing, {seconds} s each, {workers} at once", cells, list(rows[0])), wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("### Fuzzing\n\natheris is not installed; `tests/proof/test_fuzz.py` fuzzes by Hypothesis.")
        return 0
    from fuzz_targets import TARGETS

    shown, wrong = campaign(arguments.targets or list(TARGETS), arguments.seconds, arguments.workers)
    print(shown)
    for each in wrong:
        print(f"FAILED: {each}")
    return int(bool(wrong))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], sys.argv[3:])
    sys.exit(main())
