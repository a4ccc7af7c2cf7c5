"""Products whose left operand is constant: its rows lie apart in memory where they would all begin with a line."""

import numpy as np
import pytest

from .harness import compile_kernel, run
from .test_matmul import close, kernel, matmul64, numbers, spell


@pytest.mark.parametrize("mcpu", ["native", "x86-64-v3"])
@pytest.mark.parametrize(
    "elem, terms", [("f32", 64), ("f32", 65), ("f32", 1040), ("f16", 96), ("f64", 40), ("i32", 48)]
)
@pytest.mark.parametrize("batch, rows, columns", [((), 30, 200), ((3,), 64, 53), ((), 5, 40)])
def test_rows_of_a_constant_have_the_same_bits_as_those_of_an_input(mcpu, elem, terms, batch, rows, columns):
    rng = np.random.default_rng(terms + rows)
    x, w = numbers(rng, (rows, terms), elem), numbers(rng, (*batch, terms, columns), elem)
    text = kernel("MatMul", [spell(x.shape, elem), spell(w.shape, elem)], spell((*batch, rows, columns), elem))
    (expected,) = run(text, x, w, mcpu=mcpu)
    (result,) = run(text, x, w, mcpu=mcpu, constants=(0,))
    close(result, matmul64(x, w), elem, k=terms)
    assert result.tobytes() == expected.tobytes()


def test_scaled_and_turned():
    rng = np.random.default_rng(3)
    x, w, c = numbers(rng, (40, 64)), numbers(rng, (90, 64)), numbers(rng, (40, 1))
    for turned, attributes in ((0, "transB = 1 : i64, alpha = 0.5 : f32"), (1, "transA = 1 : i64, transB = 1 : i64")):
        a = np.ascontiguousarray(x.T) if turned else x
        text = kernel("Gemm", [spell(a.shape), spell(w.shape), spell(c.shape)], spell((40, 90)), attributes)
        (result,) = run(text, a, w, c, constants=(0,))
        close(result, matmul64(x, w.T) * (1 if turned else 0.5) + c, k=64)


@pytest.mark.parametrize("terms", [128, "K"])
def test_columns_and_terms_that_only_a_run_tells(terms):
    """The constant knows how many terms there are, even where the input does not say so."""
    rng = np.random.default_rng(4)
    x, w = numbers(rng, (48, 128)), numbers(rng, (128, 300))
    free = compile_kernel(kernel("MatMul", [spell(x.shape), spell((terms, "N"))], spell((48, "N"))), constants=(0,))
    for n in (1, 16, 33, 300):
        (result,) = free(x, np.ascontiguousarray(w[:, :n]))
        close(result, matmul64(x, w[:, :n]), k=128)
