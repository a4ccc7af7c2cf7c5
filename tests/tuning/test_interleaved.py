"""When a comparison ends, and how: verdicts from rounds that are given."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from onnxc import runtime
from onnxc.runtime.interleaved import FEW, ROUNDS, SOME, compare, runs_a_block, verdict
from onnxc.tuning.program import plan_source
from onnxc.zig import zig_binary


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


JUDGED = """
#include "rounds.c"
int32_t judged(const double *ours, const double *theirs, int32_t count) { return verdict_of(ours, theirs, count); }
int32_t runs(double (*clock)(void *, int32_t)) { return runs_a_block(clock, 0); }
double quantile_of(const double *values, int32_t count, double share) { return quantile(values, count, share); }
"""


@pytest.fixture(scope="module")
def rounds_c(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """rounds.c with the rules that a plan gives it, as a library."""
    folder = tmp_path_factory.mktemp("rounds")
    (folder / "rounds_test.c").write_text(plan_source({"tasks": [], "threads": 1}, {}) + JUDGED)
    flags = ["-shared", "-fPIC", "-O1", "-w", f"-I{Path(runtime.__file__).parent}"]
    command = [zig_binary(), "cc", *flags, str(folder / "rounds_test.c"), "-o", str(folder / "rounds.so")]
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(folder / "zig"), "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}
    subprocess.run(command, check=True, env={**os.environ, **caches})
    library = ctypes.CDLL(str(folder / "rounds.so"))
    library.quantile_of.restype = ctypes.c_double
    return library


def doubles(values) -> ctypes.Array:
    return (ctypes.c_double * len(values))(*values)


def test_devices_without_python_judge_by_the_same_rules(rounds_c: ctypes.CDLL) -> None:
    names = {0: None, 1: "faster", 2: "even", 3: "slower"}  # of rounds.c, from MOST_ROUNDS + 1 on
    random, seen = np.random.default_rng(0), set()
    for _ in range(300):
        rounds = [(float(a), 1.0) for a in random.uniform(0.88, 1.12) * (1 + random.uniform(0, 0.06) * random.standard_normal(ROUNDS))]  # fmt: skip
        for count in range(1, ROUNDS + 1):
            ours, theirs = zip(*rounds[:count], strict=True)
            said = rounds_c.judged(doubles(ours), doubles(theirs), count)
            found = names[said - 64 if said else 0]
            assert found == verdict(rounds[:count]), rounds[:count]
            seen.add((found, count))
    assert {("slower", FEW), ("faster", SOME), ("even", SOME), ("faster", ROUNDS), ("even", ROUNDS), (None, 1)} <= seen


def test_devices_without_python_fill_blocks_alike(rounds_c: ctypes.CDLL) -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_int32)
    for ns in (0.3, 1.0, 17.0, 1e3, 1e5, 2.9e6, 1e9):
        assert rounds_c.runs(kind(lambda _, runs, ns=ns: ns)) == runs_a_block(lambda runs, ns=ns: ns)
    values = np.random.default_rng(0).random(15)
    for count, share in ((1, 0.5), (4, 0.5), (14, 0.75), (15, 0.25)):
        found = rounds_c.quantile_of(doubles(values[:count]), count, ctypes.c_double(share))
        assert found == pytest.approx(np.percentile(values[:count], 100 * share))
