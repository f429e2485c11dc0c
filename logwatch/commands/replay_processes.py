"""Level 6: streams of a replay over the processors of this machine, one process each."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from logwatch.commands.replay_worker import Job, Part, work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOOK_S = 0.2
_counter: Any = None  # in a worker: bytes read by all workers


def work_in_processes(jobs: Sequence[Job], workers: int, progress: Callable[[int], None]) -> list[Part]:
    """Replay streams side by side, the largest first; parts come back in the jobs' order.

    Raises:
        LogwatchError: What `work` raises.
    """
    # A fork would copy the locks of polars' threads.
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", 0)
    with ProcessPoolExecutor(workers, context, _begin, (counter,)) as pool:
        largest_first = sorted(range(len(jobs)), key=lambda at: -jobs[at].stream.size)
        futures = {at: pool.submit(_work, jobs[at]) for at in largest_first}
        told, left = 0, set(futures.values())
        try:
            while left:
                done, left = wait(left, timeout=LOOK_S, return_when="FIRST_EXCEPTION")
                seen = counter.value
                progress(seen - told)
                told = seen
                for future in done:
                    future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [futures[at].result() for at in range(len(jobs))]


def _begin(counter: Any) -> None:
    global _counter  # noqa: PLW0603 - a pool hands shared memory over when a worker begins, and only then
    _counter = counter


def _work(job: Job) -> Part:
    return work(job, _tell)


def _tell(more: int) -> None:
    with _counter.get_lock():
        _counter.value += more
