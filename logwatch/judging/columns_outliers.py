"""Level 2: which of many samples are outliers, as charts and their learning tell it one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logwatch.judging.baseline import CLIP

if TYPE_CHECKING:
    from logwatch.columns import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Innovations:
    """What samples say beyond what the ones before them said.

    Attributes:
        clipped: The samples in scales, at most `CLIP` from 0.
        before: What each is predicted from; 0 behind an outlier.
        e: Their innovations.
        sides: 1 or -1 where a sample is an outlier.
        behind: Whether the one before was an outlier: then nothing is predicted.
    """

    clipped: Floats
    before: Floats
    e: Floats
    sides: Ints
    behind: Bools


def innovations(z: Floats, previous: float, outside: int, phi: float, root: float) -> Innovations:
    """Of these samples in scales.

    Args:
        z: The samples, at least one.
        previous: The one before, clipped; 0 if that was an outlier.
        outside: On which side that was one.
        phi: Lag-1 autocorrelation.
        root: Deviation of innovations.
    """
    clipped = np.clip(z, -CLIP, CLIP)
    before = np.concatenate([[previous], clipped[:-1]])
    e = (clipped - phi * before) / root
    far = np.abs(z) >= CLIP
    out = far | (np.abs(e) > CLIP)
    was = outside != 0
    for at in np.flatnonzero(out & ~far).tolist():  # an innovation's outlier; behind one there is none
        out[at] = not (out[at - 1] if at else was)
    behind = np.concatenate([[was], out[:-1]])
    e = np.where(behind, clipped, e)
    sides = np.where((z >= CLIP) | (e > CLIP), 1, -1) * out
    return Innovations(clipped, np.where(behind, 0.0, before), e, sides, behind)


def began(sides: Ints, before: int) -> Bools:
    """Where a stretch on either side begins; `before` is the side of the sample before."""
    found: Bools = (sides != 0) & (sides != np.concatenate([[before], sides[:-1]]))
    return found


def far_sides(z: Floats, far: float) -> Ints:
    """`baseline.far_side` of each."""
    sides: Ints = (z >= far).astype(np.int64) - (z <= -far)
    return sides
