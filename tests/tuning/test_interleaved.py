"""When a comparison ends, and how: verdicts from rounds that are given."""

from __future__ import annotations

import numpy as np
import pytest

from onnxc.runtime.interleaved import FEW, ROUNDS, SOME, compare, runs_a_block, verdict


def pairs(ratio: float, noise: float, count: int = ROUNDS) -> list[tuple[float, float]]:
    random = np.random.default_rng(0)
    drift = 1 + 0.3 * random.random(count)  # of the clock: both sides alike
    return [(ratio * d * (1 + noise * random.standard_normal()), d) for d in drift]


@pytest.mark.parametrize(
    ("ratio", "noise", "decided"),
    [(0.9, 0.01, "faster"), (0.96, 0.01, "faster"), (0.99, 0.001, "even"), (0.96, 0.2, "even"), (1.0, 0.02, "even"),
     (1.02, 0.01, "even"), (1.5, 0.05, "slower")],
)  # fmt: skip
def test_verdicts(ratio: float, noise: float, decided: str) -> None:
    rounds = pairs(ratio, noise)
    found = next(v for n in range(1, ROUNDS + 1) if (v := verdict(rounds[:n])) is not None)
    assert found == decided


def test_what_is_clear_ends_early() -> None:
    assert verdict(pairs(2.0, 0.01, FEW)) == "slower"
    assert verdict(pairs(0.5, 0.01, FEW)) is None
    assert verdict(pairs(0.5, 0.01, SOME)) == "faster"
    assert verdict(pairs(1.04, 0.001, SOME)) == "even"
    assert verdict(pairs(0.96, 0.001, SOME)) is None


def test_comparison_counts_its_rounds() -> None:
    called: list[str] = []

    def clock(name: str, ns: float):
        def run(runs: int) -> float:
            called.append(name)
            return ns

        return run

    outcome = compare(clock("ours", 2000.0), clock("theirs", 1000.0))
    assert (outcome.verdict, outcome.ratio, outcome.rounds) == ("slower", 2.0, FEW)
    assert called[-6:] == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert compare(clock("ours", 800.0), clock("theirs", 1000.0)).rounds == SOME


def test_blocks_are_short() -> None:
    assert runs_a_block(lambda runs: 1e9) == 1
    assert runs_a_block(lambda runs: 1e5) == 30
