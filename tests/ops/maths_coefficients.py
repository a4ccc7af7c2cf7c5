"""This file computes the polynomial coefficients of `passes/maths/coefficients.py`.

Weighted minimax fits by Remez exchange in 60-digit arithmetic; coefficients are rounded one at a time to the target
format, lowest power first, and the rest is fitted again. `python tests/ops/maths_coefficients.py [NAME…]` prints them.
Needs mpmath and scipy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import mpmath as mp
import numpy as np
from scipy.optimize import linprog

mp.mp.dps = 60
Real = Callable[[mp.mpf], mp.mpf]


def _exchange(grid: list, target: list, weight: list, powers: Sequence[int], rounds: int = 30) -> tuple[list, mp.mpf]:
    """Coefficients of `powers` that minimise the largest weight*|target - polynomial| on the grid, and that maximum."""
    n = len(powers)
    size = len(grid)
    # Powers p… have the common factor x^p: without its sign the error alternates once more at 0, where it vanishes.
    signed = [w if x > 0 or powers[0] % 2 == 0 else -w for w, x in zip(weight, grid, strict=True)]
    points = sorted({round((1 - np.cos(np.pi * (i + 0.5) / (n + 1))) / 2 * (size - 1)) for i in range(n + 1)})
    for _ in range(rounds):
        rows = mp.matrix(n + 1, n + 1)
        right = mp.matrix(n + 1, 1)
        for i, at in enumerate(points):
            for j, power in enumerate(powers):
                rows[i, j] = grid[at] ** power
            rows[i, n] = (-1) ** i / signed[at]
            right[i] = target[at]
        solution = mp.lu_solve(rows, right)
        coefficients = list(solution[:n])
        level = abs(solution[n])
        error = [
            (target[i] - mp.fsum(c * grid[i] ** p for c, p in zip(coefficients, powers, strict=True))) * signed[i]
            for i in range(size)
        ]
        points = _alternation(error, n + 1)
        worst = max(abs(e) for e in error)
        if worst <= level * mp.mpf("1.01"):
            break
    return coefficients, worst


def _alternation(error: list, count: int) -> list[int]:
    """Indices of `count` points of alternating sign where the error is largest."""
    peaks: list[int] = []
    for i, e in enumerate(error):
        if peaks and (error[peaks[-1]] > 0) == (e > 0):
            if abs(e) > abs(error[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > count:
        if len(peaks) == count + 1 or abs(error[peaks[0]]) < abs(error[peaks[-1]]):
            drop_first = abs(error[peaks[0]]) < abs(error[peaks[-1]])
            peaks.pop(0 if drop_first else -1)
        else:
            peaks.pop()
    if len(peaks) < count:
        raise ArithmeticError(f"the error alternates only {len(peaks)} times, {count} needed: fewer coefficients do")
    return peaks


def fit(function: Real, interval: tuple, powers: Sequence[int], weight: Real, bits: int | Sequence[int]) -> list[float]:
    """Rounded minimax coefficients; `bits` is 24 or 53, for all or each; 48 and 106: in two parts, high and low."""
    low, high = mp.mpf(interval[0]), mp.mpf(interval[1])
    size = 60 * (len(powers) + 1)
    grid = [low + (high - low) * (1 - mp.cos(mp.pi * (i + mp.mpf(1) / 2) / size)) / 2 for i in range(size)]
    target = [function(x) for x in grid]
    weights = [weight(x) for x in grid]
    widths = [bits] * len(powers) if isinstance(bits, int) else list(bits)
    exact, level = _exchange(grid, target, weights, powers)
    print(f"    # error 2^{float(mp.log(level, 2)):.1f}", end="", flush=True)
    columns = np.array([[float(x**p * w / level) for p in powers] for x, w in zip(grid, weights, strict=True)])
    error = [
        (t - mp.fsum(c * x**p for c, p in zip(exact, powers, strict=True))) * w / level
        for t, x, w in zip(target, grid, weights, strict=True)
    ]
    done = _round_one_by_one(exact, columns, np.array([float(e) for e in error]), widths)
    print(f", after rounding 2^{float(mp.log(level, 2)) + np.log2(done[1]):.1f}")
    return done[0]


def _round_one_by_one(exact: list, columns: np.ndarray, error: np.ndarray, widths: list[int]) -> tuple[list, float]:
    """Rounds each coefficient and lets the later ones make up for it (a linear program); also the largest error."""
    shift = np.zeros(len(exact))
    rounded = []
    for i, width in enumerate(widths):
        with mp.workprec(width):
            value = +(exact[i] + mp.mpf(shift[i]))
        with mp.workprec(24 if width in (24, 48) else 53):
            high = +value
        rounded += [float(high)] if width in (24, 53) else [float(high), float(value - high)]
        error = error - columns[:, i] * float(value - exact[i])
        rest = columns[:, i + 1 :]
        if rest.shape[1]:
            scale = np.abs(rest).max(axis=0)
            ones = np.ones((len(error), 1))
            bounds = np.block([[rest / scale, -ones], [-rest / scale, -ones]])
            cost = np.append(np.zeros(rest.shape[1]), 1.0)
            answer = linprog(cost, bounds, np.concatenate([error, -error]), bounds=(None, None), method="highs")
            if answer.x is not None:  # else the solver lost its footing: keep the last answer
                shift[i + 1 :] = answer.x[:-1] / scale
    return rounded, float(np.abs(error).max())


def _expm1(terms: int, bits: int) -> list[float]:
    """expm1(r) = r + r^2 Q(r), |r| <= ln2/2 and a little; relative to expm1."""
    half = mp.log(2) / 2 * mp.mpf("1.0005")
    return fit(lambda r: mp.expm1(r) - r, (-half, half), range(2, terms + 2), lambda r: 1 / abs(mp.expm1(r)), bits)


def _tanh(terms: int, bits: int, end: float) -> list[float]:
    """(e^2r - 1)/2 = r + r^2 P(r) for -end <= r <= ln2/4; relative."""
    return fit(
        lambda r: mp.expm1(2 * r) / 2 - r,
        (-end, mp.log(2) / 4 * mp.mpf("1.0005")),
        range(2, terms + 2),
        lambda r: 1 / abs(mp.expm1(2 * r)),
        bits,
    )


def _erf_exponent(terms: int, bits: int, end: float) -> list[float]:
    """-log(erfc(a)) = a c1 + a^2 c2 + …; the weight makes the error that of erf = -expm1(log erfc), relative."""
    return fit(
        lambda a: -mp.log(mp.erfc(a)),
        (mp.mpf(2) ** -20, end),
        range(1, terms + 1),
        lambda a: mp.erfc(a) / mp.erf(a),
        [2 * bits] + [bits] * (terms - 1),
    )


def _log1p(terms: int, bits: int) -> list[float]:
    """log(1+f) = f - f^2/2 + f^3 P(f) for 1+f in [sqrt(1/2), sqrt(2)]; relative to log."""
    return fit(
        lambda f: mp.log1p(f) - f + f * f / 2,
        (mp.sqrt(mp.mpf(1) / 2) - 1, mp.sqrt(2) - 1),
        range(3, terms + 3),
        lambda f: 1 / abs(mp.log1p(f)),
        bits,
    )


TABLES: dict[str, Callable[[], list[float]]] = {
    "EXPM1_32": lambda: _expm1(5, 24),
    "EXPM1_64": lambda: _expm1(10, 53),
    "TANH_32": lambda: _tanh(6, 24, 0.3),
    "TANH_64": lambda: _tanh(12, 53, 0.3),
    "LOG_32": lambda: _log1p(8, 24),
    "LOG_64": lambda: _log1p(20, 53),
    "ERF_64": lambda: _erf_exponent(25, 53, 5.93),
    "ERF_32": lambda: _erf_exponent(10, 24, 3.93),
}


def main(names: list[str]) -> None:
    for name in names or TABLES:
        print(f"{name} = (")
        for c in TABLES[name]():
            print(f"    {c!r},")
        print(")", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
