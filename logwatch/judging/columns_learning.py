"""Level 2: many samples learnt at once, to the last digit as `baseline.learn` learns them one by one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from logwatch.columns import summed
from logwatch.judging.baseline import BIN, BINS, BLOCKS, CLIP, FAR, close_block, close_segment
from logwatch.judging.columns_outliers import began, far_sides, innovations

if TYPE_CHECKING:
    from logwatch.columns import Floats
    from logwatch.judging.baseline import Block, Learning


def learn_many(memory: Learning, values: Floats, contexts: Floats) -> None:
    """Take these samples into the sums.

    Args:
        memory: Its provisional figures are known.
        values: The samples.
        contexts: NaN where unknown.
    """
    if not len(values):
        return
    contexts = np.nan_to_num(contexts)
    offsets = contexts - memory.context if memory.per_token else np.zeros(len(values))
    r = (values - memory.level - memory.per_token * offsets) / memory.scale
    _hits(memory, r)
    found = innovations(r, memory.previous, memory.outside, memory.phi, math.sqrt(1 - memory.phi**2))
    r, before = found.clipped, found.before
    memory.samples += len(r)
    memory.sum_r = _sum(memory.sum_r, r)
    memory.sum_rr = _sum(memory.sum_rr, r * r)
    memory.sum_lag = _sum(memory.sum_lag, r * before)
    memory.sum_pp = _sum(memory.sum_pp, before * before)
    if memory.per_token:
        memory.sum_c = _sum(memory.sum_c, offsets)
        memory.sum_cc = _sum(memory.sum_cc, offsets * offsets)
        memory.sum_rc = _sum(memory.sum_rc, r * offsets)
        memory.low_context = min(memory.low_context, contexts.min().item())
        memory.high_context = max(memory.high_context, contexts.max().item())
    places = np.clip(np.rint((np.clip(found.e, -CLIP, CLIP) + CLIP) / BIN).astype(np.int64), 1, BINS - 2)
    places = np.where(found.sides > 0, BINS - 1, np.where(found.sides < 0, 0, places))
    counts = np.bincount(places, minlength=BINS)
    memory.bins = [old + more for old, more in zip(memory.bins, counts.tolist(), strict=True)]
    memory.outside = found.sides[-1].item()
    memory.previous = 0.0 if memory.outside else r[-1].item()
    _segments(memory, r)
    for block, length in zip(memory.blocks, BLOCKS, strict=True):
        _blocks(block, length, r)


def _hits(memory: Learning, r: Floats) -> None:
    """Count where stretches of values begin that lie where a second mode would."""
    sides = far_sides(r, max(CLIP, FAR * abs(memory.level) / memory.scale))
    new = sides[began(sides, memory.beyond)]
    memory.hits_high += int((new > 0).sum())
    memory.hits_low += int((new < 0).sum())
    memory.beyond = sides[-1].item()


def _sum(start: float, values: Floats) -> float:
    return float(summed(start, values)[-1])


def _segments(memory: Learning, r: Floats) -> None:
    at = 0
    while at < len(r):
        end = at + memory.segment - memory.segment_filled
        part = r[at:end]
        memory.segment_total = _sum(memory.segment_total, part)
        memory.segment_filled += len(part)
        at += len(part)
        if memory.segment_filled < memory.segment:
            return
        close_segment(memory)


def _blocks(block: Block, length: int, r: Floats) -> None:
    at = 0
    while at < len(r):
        part = r[at : at + length - block.filled]
        block.total = _sum(block.total, part)
        block.filled += len(part)
        at += len(part)
        if block.filled == length:
            close_block(block)
