"""A server's log, written by another process on command.

    python log_writer.py LOG

Standard input: `start` (or `start eager`, without graphs), `good N`, `bad N`: reports of a server with two ranks.
Each is answered with the time at which its last byte was written, and the number of reports so far.
"""

import os
import sys
import time

RANKS = ("TP0", "TP1")


def stamp():
    return time.strftime("%Y-%m-%d %H:%M:%S")


def started(graph):
    return (
        f"[{stamp()}] server_args=ServerArgs(model_path='model', tp_size=2, disable_cuda_graph={not graph},"
        " speculative_algorithm='EAGLE3', speculative_num_steps=2, speculative_eagle_topk=1,"
        " speculative_num_draft_tokens=3)\n"
    )


def report(verify_ms, graph):
    total = verify_ms + 1.01
    for rank in RANKS:
        yield (
            f"[{stamp()} {rank}] EAGLE3_PROFILE 100 cycles, batch 1.0, graph {100.0 if graph else 0.0:.1f}%\n"
            f"  Draft forward:      0.53 ms/cyc  (  2.6%)\n"
            f"  Target verify:     {verify_ms:.2f} ms/cyc  ({100 * verify_ms / total:5.1f}%)\n"
            f"  Draft extend:       0.48 ms/cyc  (  2.4%)\n"
            f"  Total cycle:       {total:.2f} ms/cyc\n"
            f"  Accept len:         0.92\n"
            f"[{stamp()} {rank}] Decode batch, #running-req: 1, #token: 2048, token usage: 0.02, accept len: 1.92,"
            f" accept rate: 0.46, cuda graph: {graph}, gen throughput (token/s): {1920 / total:.2f}, #queue-req: 0\n"
        )


def main(path):
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    reports = 0
    for command in sys.stdin:
        what, _, count = command.strip().partition(" ")
        if what == "start":
            os.write(log, started(count != "eager").encode())
        for number in range(int(count) if what in {"good", "bad"} else 0):
            good = what == "good"
            for text in report((19.15 if good else 28.95) + (number % 3 - 1) / 100, good):
                os.write(log, text.encode())
                reports += 1
        sys.stdout.write(f"{time.time()} {reports}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
