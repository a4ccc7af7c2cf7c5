"""The matmul kernel against numpy: every shape, transposition, broadcast, element type and schedule."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .harness import compile_kernel, run

DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i32": np.int32,
    "i64": np.int64,
}
RTOL = {"f32": 1e-5, "f64": 1e-13, "f16": 2e-3, "bf16": 1e-2, "i32": 0, "i64": 0}


def kernel(op, operands, result, attributes="", more=()):
    """A kernel of one root; `more`: (op, operand type) applied to the result in turn, the operand's type None if unary."""
    types = [f"tensor<{t}>" for t in operands]
    extra = [f"tensor<{t}>" for _, t in more if t is not None]
    out = f"tensor<{result}>"
    args = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types + extra))
    names = ", ".join(f"%a{i}" for i in range(len(types)))
    lines = [f'%r0 = "onnx.{op}"({names}) {{{attributes}}} : ({", ".join(types)}) -> {out}']
    position = len(types)
    for i, (name, t) in enumerate(more):
        if t is None:
            lines.append(f'%r{i + 1} = "onnx.{name}"(%r{i}) : ({out}) -> {out}')
        else:
            lines.append(f'%r{i + 1} = "onnx.{name}"(%r{i}, %a{position}) : ({out}, tensor<{t}>) -> {out}')
            position += 1
    body = "\n  ".join([*lines, f"return %r{len(more)} : {out}"])
    return f"""func.func private @k({args}) -> {out}
    attributes {{kernel.kind = "matmul", kernel.root = "onnx.{op}"}} {{\n  {body}\n}}"""


def spell(shape, elem="f32"):
    """`?x4xf32, ["N", 4]` from ("N", 4)."""
    dims = "".join("?x" if isinstance(d, str) else f"{d}x" for d in shape)
    names = ", ".join(f'"{d}"' if isinstance(d, str) else str(d) for d in shape)
    return f"{dims}{elem}, [{names}]" if any(isinstance(d, str) for d in shape) else f"{dims}{elem}"


def numbers(rng, shape, elem="f32"):
    if elem[0] == "i":
        return rng.integers(-9, 9, shape).astype(DTYPES[elem])
    return rng.standard_normal(shape).astype(DTYPES[elem])


def close(result, expected, elem="f32", k=1):
    scale = np.sqrt(max(k, 1))
    np.testing.assert_allclose(
        result.astype(np.float64), expected.astype(np.float64), rtol=RTOL[elem], atol=RTOL[elem] * scale
    )


def matmul64(a, b):
    wide = np.int64 if a.dtype.kind == "i" else np.float64
    return np.matmul(a.astype(wide), b.astype(wide))


SHAPES = [
    ((5, 7), (7, 9)),
    ((1, 64), (64, 100)),
    ((33, 513), (513, 49)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 6)),
    ((7,), (7, 3)),
    ((3, 7), (7,)),
    ((7,), (7,)),
    ((2, 3, 7), (7,)),
    ((7,), (2, 7, 3)),
    ((0, 4), (4, 3)),
    ((3, 0), (0, 4)),
    ((3, 4), (4, 0)),
    ((2, 0, 3), (3, 4)),
    ((1, 3, 4), (2, 4, 5)),
    ((128, 40), (40, 33)),
]


@pytest.mark.parametrize("a, b", SHAPES)
@pytest.mark.parametrize("constant", [(), (1,)])
def test_shapes(a, b, constant):
    rng = np.random.default_rng(1)
    x, w = numbers(rng, a), numbers(rng, b)
    expected = matmul64(x, w)
    (result,) = run(kernel("MatMul", [spell(a), spell(b)], spell(expected.shape)), x, w, constants=constant)
    close(result, expected, k=a[-1])


@pytest.mark.parametrize("a, b, out", [
    (("M", 8), (8, 20), ("M", 20)), (("M", "K"), ("K", "N"), ("M", "N")), (("B", "M", "K"), ("B", "K", "N"), ("B", "M", "N")),
    (("B", "M", 16), (16, 24), ("B", "M", 24)), (("B", 3, "K"), ("K", 4), ("B", 3, 4)),
])  # fmt: skip
def test_dynamic(a, b, out):
    rng = np.random.default_rng(2)
    text = kernel("MatMul", [spell(a), spell(b)], spell(out))
    for sizes in (
        {"M": 1, "K": 1, "N": 1, "B": 1},
        {"M": 29, "K": 1025, "N": 50, "B": 2},
        {"M": 14, "K": 64, "N": 64, "B": 3},
        {"M": 33, "K": 600, "N": 33, "B": 2},
        {"M": 26, "K": 7, "N": 40, "B": 1},
        {"M": 0, "K": 5, "N": 3, "B": 2},
        {"M": 3, "K": 0, "N": 3, "B": 1},
    ):
        x = numbers(rng, [sizes.get(d, d) for d in a])
        w = numbers(rng, [sizes.get(d, d) for d in b])
        for constant in [(), (1,)] if not any(isinstance(d, str) for d in b) else [()]:
            (result,) = run(text, x, w, constants=constant)
            close(result, matmul64(x, w), k=x.shape[-1])


@pytest.mark.parametrize("elem", DTYPES)
@pytest.mark.parametrize("constant", [(), (1,)])
def test_element_types(elem, constant):
    rng = np.random.default_rng(3)
    x, w = numbers(rng, (9, 20), elem), numbers(rng, (20, 37), elem)
    (result,) = run(
        kernel("MatMul", [spell((9, 20), elem), spell((20, 37), elem)], spell((9, 37), elem)), x, w, constants=constant
    )
    close(result, matmul64(x, w), elem, 20)


@pytest.mark.parametrize("trans_a, trans_b, constant", list(itertools.product((0, 1), (0, 1), ((), (1,)))))
@pytest.mark.parametrize("c", [None, (), (1,), (21,), (10, 1), (10, 21), (1, 21)])
def test_gemm(trans_a, trans_b, constant, c):
    rng = np.random.default_rng(4)
    a = numbers(rng, (6, 10) if trans_a else (10, 6))
    b = numbers(rng, (21, 6) if trans_b else (6, 21))
    operands = [a, b] if c is None else [a, b, numbers(rng, c)]
    attributes = f"transA = {trans_a} : i64, transB = {trans_b} : i64, alpha = 0.5 : f32, beta = 2.0 : f32"
    (result,) = run(
        kernel("Gemm", [spell(o.shape) for o in operands], spell((10, 21)), attributes), *operands, constants=constant
    )
    expected = 0.5 * matmul64(a.T if trans_a else a, b.T if trans_b else b) + (0 if c is None else 2.0 * operands[2])
    close(result, expected, k=6)


@pytest.mark.parametrize("trans_a, trans_b, batch_a, batch_b", list(itertools.product((0, 1), repeat=4)))
def test_fused_matmul(trans_a, trans_b, batch_a, batch_b):
    rng = np.random.default_rng(5)
    x, w = numbers(rng, (2, 3, 6, 10)), numbers(rng, (2, 3, 10, 7))
    stored = []
    for array, trans, batch in ((x, trans_a, batch_a), (w, trans_b, batch_b)):
        array = np.swapaxes(array, -1, -2) if trans else array
        stored.append(np.ascontiguousarray(np.moveaxis(array, -2, 0) if batch else array))
    attributes = f"transA = {trans_a} : i64, transB = {trans_b} : i64, transBatchA = {batch_a} : i64, transBatchB = {batch_b} : i64, alpha = 0.25 : f32"
    text = kernel("microsoft.FusedMatMul", [spell(s.shape) for s in stored], spell((2, 3, 6, 7)), attributes)
    (result,) = run(text, *stored)
    close(result, 0.25 * matmul64(x, w), k=10)


def test_epilogue():
    rng = np.random.default_rng(6)
    x, w, bias, residual = (
        numbers(rng, (2, 20, 30)),
        numbers(rng, (30, 41)),
        numbers(rng, (41,)),
        numbers(rng, (2, 20, 41)),
    )
    text = kernel(
        "MatMul",
        [spell(x.shape), spell(w.shape)],
        spell((2, 20, 41)),
        more=[("Add", spell((41,))), ("Relu", None), ("Add", spell((2, 20, 41)))],
    )
    (result,) = run(text, x, w, bias, residual, constants=(1, 2))
    close(result, np.maximum(matmul64(x, w) + bias, 0) + residual, k=30)


def test_epilogue_of_one_column():
    rng = np.random.default_rng(6)
    x, w, bias = numbers(rng, (20, 30)), numbers(rng, (30, 1)), numbers(rng, (1,))
    text = kernel(
        "MatMul", [spell(x.shape), spell(w.shape)], spell((20, 1)), more=[("Add", spell((1,))), ("Relu", None)]
    )
    (result,) = run(text, x, w, bias, constants=(1, 2))
    close(result, np.maximum(matmul64(x, w) + bias, 0), k=30)


@pytest.mark.parametrize("shape", [(3, 7, 30), (1, 7, 1), (3, 1, 30), (7, 1), (30,), (1, 1, 1), (3, 1, 1)])
def test_epilogue_broadcasts(shape):
    rng = np.random.default_rng(6)
    x, w, other = numbers(rng, (3, 7, 30)), numbers(rng, (30, 30)), numbers(rng, shape)
    text = kernel("MatMul", [spell(x.shape), spell(w.shape)], spell((3, 7, 30)), more=[("Add", spell(shape))])
    (result,) = run(text, x, w, other, constants=(1,))
    close(result, matmul64(x, w) + other, k=30)


def test_epilogue_reads_the_operand_too():
    rng = np.random.default_rng(6)
    x, w = numbers(rng, (3, 7, 1)), numbers(rng, (1, 30))
    text = kernel("MatMul", [spell(x.shape), spell(w.shape)], spell((3, 7, 30)), more=[("Add", spell((3, 7, 1)))])
    text = text.replace(", %a2: tensor<3x7x1xf32>", "").replace("%a2", "%a0")
    (result,) = run(text, x, w, constants=(1,))
    close(result, matmul64(x, w) + x, k=1)


def test_every_schedule_gives_the_same_bits():
    rng = np.random.default_rng(7)
    x, w = numbers(rng, (37, 1100)), numbers(rng, (1100, 70))
    text = kernel("MatMul", [spell(x.shape), spell(w.shape)], spell((37, 70)))
    (first,) = run(text, x, w)
    for rows, vectors, group, constant in [
        (1, 1, 1, ()),
        (9, 3, 2, (1,)),
        (14, 2, 1, (1,)),
        (6, 4, 3, ()),
        (3, 8, 9, (1,)),
    ]:
        (result,) = run(text, x, w, constants=constant, schedule={"rows": rows, "vectors": vectors, "group": group})
        assert result.tobytes() == first.tobytes()
    for rows, group, chunk in [(8, 2, 512), (6, 4, 1024), (13, 1, 512)]:
        (result,) = run(
            text, x, w, constants=(1,), schedule={"rows": rows, "vectors": 2, "group": group, "chunk": chunk}
        )
        assert result.tobytes() == first.tobytes()
    for rows, group, chunk in [(13, 1, 512), (6, 2, 512), (9, 3, 512), (14, 3, 512), (12, 4, 0)]:  # B is copied
        copied = {"rows": rows, "vectors": 2, "group": group, "chunk": chunk, "copied": 1}
        (result,) = run(text, x, w, schedule=copied)
        assert result.tobytes() == first.tobytes()
    (narrow,) = run(text, x, w, constants=(1,), mcpu="x86-64-v3")
    assert narrow.tobytes() == first.tobytes()
    (dynamic,) = run(kernel("MatMul", [spell(("M", "K")), spell(("K", "N"))], spell(("M", "N"))), x, w)
    assert dynamic.tobytes() == first.tobytes()


FEW = [(("M", 70), (70, 100)), (("M", 600), (600, 256)), (("B", "M", 1100), ("B", 1100, "N")), ((3, "M", 40), (3, 40, 8)),
       (("M", 64), (2, 64, 320)), (("B", "M", 16), (16, 33))]  # fmt: skip


@pytest.mark.parametrize("mcpu", ["native", "x86-64-v3"])
@pytest.mark.parametrize("a, b", FEW)
def test_few_rows_have_the_bits_of_many(a, b, mcpu):
    """Rows of which only a run tells that they are few go through other tiles, of more columns, than many do."""
    rng, most = np.random.default_rng(9), {"M": 30, "N": 150, "B": 2}
    lead, more = max(a[:-2], b[:-2], key=len), [("Sigmoid", None)]
    free = compile_kernel(kernel("MatMul", [spell(a), spell(b)], spell((*lead, "M", b[-1])), more=more), mcpu=mcpu)
    x, w = (numbers(rng, [most.get(d, d) for d in shape]) for shape in (a, b))
    shape = np.matmul(x, w).shape
    (all_,) = run(kernel("MatMul", [spell(x.shape), spell(w.shape)], spell(shape), more=more), x, w, mcpu=mcpu)
    for m, n in [(0, 5), (1, 1), (3, 33), (4, 64), (8, 150), (9, 17), (23, 100), (24, 100), (30, 40)]:
        some = w[..., :n] if b[-1] == "N" else w
        (result,) = free(np.ascontiguousarray(x[..., :m, :]), np.ascontiguousarray(some))
        assert result.tobytes() == all_[..., :m, : some.shape[-1]].tobytes()


@pytest.mark.parametrize("mcpu", ["native", "x86-64-v3"])
@pytest.mark.parametrize("terms, elem", [(8, "f32"), (600, "f32"), (70, "f16"), (33, "f64"), (21, "i32")])
def test_b_turned_has_the_bits_of_b_as_it_is(terms, elem, mcpu):
    """Its squares are turned in registers."""
    rng = np.random.default_rng(10)
    x, w = numbers(rng, (30, terms), elem), numbers(rng, (terms, 53), elem)
    (expected,) = run(
        kernel("MatMul", [spell(x.shape, elem), spell(w.shape, elem)], spell((30, 53), elem)), x, w, mcpu=mcpu
    )
    free, known = (
        compile_kernel(
            kernel("Gemm", [spell((m, terms), elem), spell((n, terms), elem)], spell((m, n), elem), "transB = 1 : i64"),
            mcpu=mcpu,
        )
        for m, n in [("M", "N"), (5, 53)]
    )
    for m, n in [(1, 1), (5, 53), (9, 17), (30, 40)]:
        (result,) = free(np.ascontiguousarray(x[:m]), np.ascontiguousarray(w.T[:n]))
        assert result.tobytes() == expected[:m, :n].tobytes()
    (result,) = known(np.ascontiguousarray(x[:5]), np.ascontiguousarray(w.T))
    assert result.tobytes() == expected[:5].tobytes()


def test_baseline_target():
    rng = np.random.default_rng(8)
    x, w = numbers(rng, (10, 30)), numbers(rng, (30, 19))
    (result,) = run(
        kernel("MatMul", [spell(x.shape), spell(w.shape)], spell((10, 19))), x, w, mcpu="x86-64", constants=(1,)
    )
    close(result, matmul64(x, w), k=30)


@settings(max_examples=40)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 70), st.integers(1, 3), st.booleans(), st.booleans())
def test_any_size(m, k, n, batch, constant, batched):
    rng = np.random.default_rng(m * 1000 + k * 10 + n)
    x, w = numbers(rng, (batch, m, k)), numbers(rng, (batch, k, n) if batched else (k, n))
    text = kernel("MatMul", [spell(x.shape), spell(w.shape)], spell((batch, m, n)))
    (result,) = run(text, x, w, constants=(1,) if constant else ())
    close(result, matmul64(x, w), k=k)
