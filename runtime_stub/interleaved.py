"""This file compares two candidates by short blocks in turn, and says when that is enough.

Whatever else the machine does meets both alike, so the ratio is taken within each round; one that is clearly slower is
left after a few rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

ROUNDS = 15
FEW = 3  # rounds after which a candidate may be told to be slower
SOME = 7  # … to be no faster, or beyond doubt faster
BLOCK_NANOSECONDS = 3_000_000
MOST_RUNS = 10_000
BLOCKS_ALONE = 5
FASTER = 0.98  # the median of the ratios below which a candidate is kept
HOPELESS = 1.08
BEYOND_DOUBT = 0.93

Pairs = Sequence[tuple[float, float]]
Clock = Callable[[int], float]  # runs → nanoseconds a run


@dataclass(frozen=True)
class Outcome:
    """`verdict`: faster, even or slower; nanoseconds of both sides (medians), their ratio, its quartiles' distance."""

    verdict: str
    ns: float
    other_ns: float
    ratio: float
    spread: float
    rounds: int


def verdict(pairs: Pairs, rounds: int = ROUNDS) -> str | None:
    """What the rounds (ours, theirs) so far say of ours; None: more are needed.

    Faster means beyond noise: the median of the ratios below FASTER, and three quarters of the rounds won.
    """
    if len(pairs) < min(FEW, rounds):
        return None
    ratios = [ours / theirs for ours, theirs in pairs]
    middle, upper = median(ratios), float(np.percentile(ratios, 75))
    fastest = min(ours for ours, _ in pairs) / min(theirs for _, theirs in pairs)
    if min(middle, fastest) > HOPELESS:
        return "slower"
    if len(pairs) >= SOME and min(middle, fastest) > 1.0:
        return "even"
    if len(pairs) >= SOME and middle < BEYOND_DOUBT and max(ratios) < FASTER:
        return "faster"
    if len(pairs) < rounds:
        return None
    return "faster" if middle < FASTER and upper < 1.0 else "even"


def compare(ours: Clock, theirs: Clock, rounds: int = ROUNDS) -> Outcome:
    """Runs both in turn, in alternating order, until the verdict is clear."""
    runs = [runs_a_block(side) for side in (ours, theirs)]
    pairs: list[tuple[float, float]] = []
    decided = None
    while decided is None:
        if len(pairs) % 2:
            b = theirs(runs[1])
            pairs.append((ours(runs[0]), b))
        else:
            a = ours(runs[0])
            pairs.append((a, theirs(runs[1])))
        decided = verdict(pairs, rounds)
    return outcome(decided, pairs)


def outcome(decided: str, pairs: Pairs) -> Outcome:
    """The figures of the rounds."""
    ratios = [a / b for a, b in pairs]
    low, high = np.percentile(ratios, (25, 75))
    return Outcome(
        decided,
        median(a for a, _ in pairs),
        median(b for _, b in pairs),
        median(ratios),
        float(high - low),
        len(pairs),
    )


def runs_a_block(clock: Clock) -> int:
    """How many runs fill a block."""
    once = min(clock(1), clock(1))
    some = clock(max(1, min(50, int(BLOCK_NANOSECONDS / 4 / max(once, 1.0)))))
    return int(min(MOST_RUNS, max(1, BLOCK_NANOSECONDS / max(some, 1.0))))


def alone(clock: Clock) -> float:
    """Nanoseconds a run, the median of a few blocks."""
    runs = runs_a_block(clock)
    return median(clock(runs) for _ in range(BLOCKS_ALONE))
