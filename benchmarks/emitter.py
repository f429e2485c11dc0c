"""What the SGLang plugin costs: time a cycle with and without it, in alternating rounds.

Start servers that differ in nothing but the plugin (not installed; installed, `EAGLE3_PROFILE` unset;
set), and name them. One request runs at a time; within a round each server answers the same prompt, and
the order turns from round to round, so that drift of clocks and temperatures falls on all alike:

    python benchmarks/emitter.py --server without=http://127.0.0.1:30000 \\
        --server unset=http://127.0.0.1:31000 --server set=http://127.0.0.1:32000 --rounds 10 --tokens 800

The time of a cycle is a request's wall time over its number of verify passes (`spec_verify_ct`), since
the number of passes is chance. With `--toggle NAME=PID` the hooks of that server's scheduler process are
switched by SIGUSR1 between requests instead (it must run `emitter_toggle.py` as a plugin too): one
process, one memory layout, so that the difference is the plugin's alone. Prints a Markdown table; `--json
FILE` keeps every single figure.
"""

import argparse
import json
import os
import random
import signal
import statistics
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

Run = dict[str, float]
Figures = dict[str, list[Run]]


def generate(url: str, tokens: int, seed: int) -> Run:
    """One request of so many tokens; ms a cycle, tokens a second, cycles."""
    rng = random.Random(seed)
    body = {
        "input_ids": [rng.randrange(1000, 30000) for _ in range(64)],
        "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True},
    }
    request = urllib.request.Request(
        f"{url}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=300) as answer:
        meta = json.loads(answer.read())["meta_info"]
    took_s = time.perf_counter() - began
    cycles = meta["spec_verify_ct"]
    return {"cycle_ms": took_s / cycles * 1e3, "tok_s": meta["completion_tokens"] / took_s, "cycles": cycles}


def rounds_of(names: list[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Each name once a round, starting with another one each time."""
    for number in range(rounds):
        for place in range(len(names)):
            yield number, names[(number + place) % len(names)]


def compare_servers(servers: dict[str, str], rounds: int, tokens: int, until: float) -> Figures:
    """Alternates between servers; the first request of each warms it up and does not count."""
    figures: Figures = {name: [] for name in servers}
    for url in servers.values():
        generate(url, tokens // 4, 0)
    for number, name in rounds_of(list(servers), rounds):
        if time.monotonic() > until:
            break
        figures[name].append(generate(servers[name], tokens, 1 + number))
    return figures


def compare_toggled(url: str, pid: int, rounds: int, tokens: int, until: float) -> Figures:
    """Alternates between hooks on (as the server starts) and off in one process."""
    figures: Figures = {"hooks off": [], "hooks on": []}
    names, now = list(figures), "hooks on"
    generate(url, tokens // 4, 0)
    for number, name in rounds_of(names, rounds):
        if time.monotonic() > until:
            break
        if name != now:
            os.kill(pid, signal.SIGUSR1)
            time.sleep(0.2)  # the handler runs between two bytecodes of an idle scheduler
            now = name
        figures[name].append(generate(url, tokens, 1 + number))
    if now != "hooks on":
        os.kill(pid, signal.SIGUSR1)
    return figures


def table(figures: Figures) -> str:
    """Medians with their spread, and differences to the first name, paired by round.

    A difference is the mean over as many rounds in a row as there are names: each has then come first,
    second, ... once, so that what a place in the order costs (warmth, clocks) cancels out.
    """
    base, *_ = figures
    rows = [
        f"| | rounds | ms a cycle: median (min-max) | tok/s: median | to *{base}*: median | mean ± s.e. |",
        "|---|---|---|---|---|---|",
    ]
    for name, runs in figures.items():
        cycle_ms = [run["cycle_ms"] for run in runs]
        base_ms = [run["cycle_ms"] for run in figures[base]]
        shares = blocks(
            [(mine / theirs - 1) * 100 for mine, theirs in zip(cycle_ms, base_ms, strict=False)], len(figures)
        )
        micros = blocks(
            [(mine - theirs) * 1e3 for mine, theirs in zip(cycle_ms, base_ms, strict=False)], len(figures)
        )
        middle = mean = ""
        if name != base and len(shares) > 1:
            error = statistics.stdev(shares) / len(shares) ** 0.5
            middle = f"{statistics.median(shares):+.2f} % ({statistics.median(micros):+.0f} µs)"
            mean = f"{statistics.mean(shares):+.2f} % ± {error:.2f} %"
        spread = f"{statistics.median(cycle_ms):.3f} ({min(cycle_ms):.3f}-{max(cycle_ms):.3f})"
        rate = statistics.median(run["tok_s"] for run in runs)
        rows.append(f"| {name} | {len(runs)} | {spread} | {rate:.1f} | {middle} | {mean} |")
    return "\n".join(rows)


def blocks(values: list[float], size: int) -> list[float]:
    """Means of so many values in a row; what is left over at the end does not count.

    >>> blocks([1.0, 3.0, 5.0, 5.0, 9.0], 2)
    [2.0, 5.0]
    """
    return [statistics.mean(values[at : at + size]) for at in range(0, len(values) - size + 1, size)]


def main() -> None:
    """Reads the options, measures, prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", action="append", required=True, metavar="NAME=URL")
    parser.add_argument(
        "--toggle", metavar="NAME=PID", help="switch this server's hooks instead of comparing"
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=800)
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop after so long")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    servers = dict(text.split("=", 1) for text in options.server)
    until = time.monotonic() + options.seconds
    if options.toggle:
        name, pid = options.toggle.split("=", 1)
        figures = compare_toggled(servers[name], int(pid), options.rounds, options.tokens, until)
    else:
        figures = compare_servers(servers, options.rounds, options.tokens, until)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1))
    print(table(figures))


if __name__ == "__main__":
    main()
