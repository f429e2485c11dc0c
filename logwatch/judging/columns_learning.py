"""Level 2: many ordinary samples learnt at once, to the last digit as `baseline.learn` learns them one by one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from logwatch.columns import first_true, summed
from logwatch.judging.baseline import BIN, BINS, BLOCKS, CLIP, close_block, close_segment

if TYPE_CHECKING:
    from logwatch.columns import Floats
    from logwatch.judging.baseline import Block, Learning


def residuals(memory: Learning, values: Floats, contexts: Floats) -> Floats:
    """Residuals in scales of the samples at the beginning that are no outliers; changes nothing.

    Args:
        memory: Its provisional figures are known.
        values: The samples.
        contexts: NaN where unknown.
    """
    if memory.outside or memory.beyond:
        return values[:0]
    offsets = np.nan_to_num(contexts) - memory.context if memory.per_token else np.zeros(len(values))
    r = (values - memory.level - memory.per_token * offsets) / memory.scale
    return r[: first_true(~((np.abs(r) < CLIP) & (np.abs(_innovations(memory, r)) <= CLIP)))]


def learn_many(memory: Learning, r: Floats, contexts: Floats) -> None:
    """Take these samples, of which `r` are the `residuals`, into the sums."""
    if not len(r):
        return
    before = _before(memory, r)
    memory.samples += len(r)
    memory.sum_r = _sum(memory.sum_r, r)
    memory.sum_rr = _sum(memory.sum_rr, r * r)
    memory.sum_lag = _sum(memory.sum_lag, r * before)
    memory.sum_pp = _sum(memory.sum_pp, before * before)
    if memory.per_token:
        contexts = np.nan_to_num(contexts)
        offsets = contexts - memory.context
        memory.sum_c = _sum(memory.sum_c, offsets)
        memory.sum_cc = _sum(memory.sum_cc, offsets * offsets)
        memory.sum_rc = _sum(memory.sum_rc, r * offsets)
        memory.low_context = min(memory.low_context, contexts.min().item())
        memory.high_context = max(memory.high_context, contexts.max().item())
    places = np.rint((_innovations(memory, r) + CLIP) / BIN).astype(np.int64)
    counts = np.bincount(np.clip(places, 1, BINS - 2), minlength=BINS)
    memory.bins = [old + more for old, more in zip(memory.bins, counts.tolist(), strict=True)]
    memory.previous = r[-1].item()
    _segments(memory, r)
    for block, length in zip(memory.blocks, BLOCKS, strict=True):
        _blocks(block, length, r)


def _before(memory: Learning, r: Floats) -> Floats:
    return np.concatenate([[memory.previous], r[:-1]])


def _innovations(memory: Learning, r: Floats) -> Floats:
    return (r - memory.phi * _before(memory, r)) / math.sqrt(1 - memory.phi**2)


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
