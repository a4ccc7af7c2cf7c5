"""This file measures errors in ulp of the f32 functions of `passes/maths` against f64, over every n-th bit pattern.

`python -m tests.ops.maths_oracle NAME… [--stride N]` prints the largest error and where; stride 1 is the full sweep.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
from scipy import special

from onnxc.passes import maths
from onnxc.passes.maths.coefficients import EXP_RANGE

from .jit import Loop, loop_text


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in ulps of got's type; `want` has a wider one. inf: a wrong NaN, infinity or 0."""
    bits, smallest = (24, -149) if got.dtype == np.float32 else (53, -1074)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = want.astype(got.dtype)
        exponent = np.frexp(np.abs(want))[1]
        error = np.ldexp(np.abs(got - want), -np.maximum(exponent - bits, smallest))
    same = (got == rounded) & (np.signbit(got) == np.signbit(rounded)) | (np.isnan(got) & np.isnan(want))
    special_value = ~np.isfinite(got) | ~np.isfinite(rounded)
    error = np.where(special_value, np.where(same, 0.0, np.inf), error)
    # A zero of the wrong sign is wrong too.
    return np.where((got == 0) & (want == 0) & ~same, np.inf, error)


def softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


# f64 and longdouble alike; mish's own tanh(softplus) keeps its relative error.
REFERENCE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp_flushed": lambda x: np.where(x < EXP_RANGE[32 if x.dtype == np.float64 else 64].normal, 0, np.exp(x)),
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sigmoid": lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x))),
    "tanh": np.tanh,
    "softplus": softplus,
    "mish": lambda x: np.where(x < -1e4, -0.0, x * np.tanh(softplus(x))),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": lambda x: special.erf(x.astype(np.float64)),
}
SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e-45, -1e-45, 1e-38, 3e38, -3e38)


def patterns(stride: int, chunk: int = 1 << 20) -> Iterator[np.ndarray]:
    """The special values, then f32 arrays of the bit patterns 0, stride, 2*stride …"""
    yield np.array(SPECIALS, np.float32)
    for start in range(0, 1 << 32, chunk * stride):
        bits = start + stride * np.arange(chunk, dtype=np.uint64)
        yield np.minimum(bits, (1 << 32) - 1).astype(np.uint32).view(np.float32)


def worst(name: str, stride: int, loop: Loop | None = None) -> tuple[float, float]:
    """(largest error in ulp, the argument where) over `patterns`."""
    loop = loop or Loop(loop_text(getattr(maths, name), "f32", 16))
    found = (0.0, 0.0)
    for x in patterns(stride):
        with np.errstate(all="ignore"):
            error = ulps(loop(x), REFERENCE[name](x.astype(np.float64)))
        at = int(np.argmax(error))
        found = max(found, (float(error[at]), float(x[at])))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--stride", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.names or REFERENCE:
        error, at = worst(name, arguments.stride)
        print(f"{name:12} {error:.3f} ulp at {at!r}", flush=True)


if __name__ == "__main__":
    main()
