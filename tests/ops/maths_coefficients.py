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
    """(e^2r - 1)/2 = r + r^2 P(r) for -ln2/4 <= r <= end; relative."""
    return fit(
        lambda r: mp.expm1(2 * r) / 2 - r,
        (-mp.log(2) / 4 * mp.mpf("1.0005"), end),
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


# pi/4 and what the reduction of `quadrants.py` may leave more.
REDUCED = {24: mp.mpf("0.8"), 53: mp.pi / 4 * mp.mpf("1.0001")}


def _sin(terms: int, bits: int) -> list[float]:
    """sin(r) = r + r^3 P(r^2), |r| <= REDUCED; relative. z = r^2."""
    return fit(
        lambda z: mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1,
        (mp.mpf(2) ** -40, REDUCED[bits] ** 2),
        range(1, terms + 1),
        lambda z: mp.sqrt(z) / mp.sin(mp.sqrt(z)),
        bits,
    )


def _cos(terms: int, bits: int) -> list[float]:
    """cos(r) = 1 - r^2/2 + r^4 P(r^2), |r| <= REDUCED. z = r^2."""
    return fit(
        lambda z: mp.cos(mp.sqrt(z)) - 1 + z / 2,
        (mp.mpf(2) ** -40, REDUCED[bits] ** 2),
        range(2, terms + 2),
        lambda z: 1 / mp.cos(mp.sqrt(z)),
        bits,
    )


def _atan(terms: int, bits: int) -> list[float]:
    """atan(t) = t + t^3 P(t^2), |t| <= tan(pi/8); relative. z = t^2."""
    return fit(
        lambda z: mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1,
        (mp.mpf(2) ** -40, mp.tan(mp.pi / 8) ** 2 * mp.mpf("1.0001")),
        range(1, terms + 1),
        lambda z: mp.sqrt(z) / mp.atan(mp.sqrt(z)),
        bits,
    )


def _asin(terms: int, bits: int) -> list[float]:
    """asin(t) = t + t^3 P(t^2), |t| <= 1/2; relative. z = t^2."""
    return fit(
        lambda z: mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1,
        (mp.mpf(2) ** -40, mp.mpf(1) / 4),
        range(1, terms + 1),
        lambda z: mp.sqrt(z) / mp.asin(mp.sqrt(z)),
        bits,
    )


def _log2(terms: int) -> list[float]:
    """log2(1+f) = f P(f), for 1+f in [sqrt(1/2), sqrt(2)]; relative."""
    return fit(
        lambda f: mp.log1p(f) / mp.log(2),
        (mp.sqrt(mp.mpf(1) / 2) - 1, mp.sqrt(2) - 1),
        range(1, terms + 1),
        lambda f: mp.log(2) / abs(mp.log1p(f)),
        53,
    )


def _exp2(terms: int) -> list[float]:
    """2^r = 1 + r P(r), |r| <= 1/2."""
    half = mp.mpf("0.50001")
    return fit(lambda r: mp.power(2, r) - 1, (-half, half), range(1, terms + 1), lambda r: mp.power(2, -r), 53)


def _atanh(terms: int) -> list[float]:
    """atanh(s) = s + s^3/3 + s^5 P(s^2), |s| <= 3 - 2 sqrt(2); relative. z = s^2."""
    return fit(
        lambda z: mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1 - z / 3,
        (mp.mpf(2) ** -40, (3 - 2 * mp.sqrt(2)) ** 2 * mp.mpf("1.0001")),
        range(2, terms + 2),
        lambda z: mp.mpf(1),
        53,
    )


TABLES: dict[str, Callable[[], list[float]]] = {
    "EXPM1_32": lambda: _expm1(5, 24),
    "EXPM1_64": lambda: _expm1(10, 53),
    "TANH_32": lambda: _tanh(6, 24, 0.3),
    "TANH_64": lambda: _tanh(12, 53, 0.3),
    "LOG_32": lambda: _log1p(8, 24),
    "LOG_64": lambda: _log1p(20, 53),
    "SIN_32": lambda: _sin(3, 24),
    "SIN_64": lambda: _sin(6, 53),
    "COS_32": lambda: _cos(3, 24),
    "COS_64": lambda: _cos(6, 53),
    "ATAN_64": lambda: _atan(11, 53),
    "ASIN_64": lambda: _asin(13, 53),
    "LOG2_FOR_POW_32": lambda: _log2(14),
    "EXP2_FOR_POW_32": lambda: _exp2(7),
    "ATANH_64": lambda: _atanh(9),
    "ERF_64": lambda: _erf_exponent(25, 53, 5.93),
    "ERF_32": lambda: _erf_exponent(9, 24, 3.93),
}


def main(names: list[str]) -> None:
    for name in names or TABLES:
        print(f"{name} = (")
        for c in TABLES[name]():
            print(f"    {c!r},")
        print(")", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
