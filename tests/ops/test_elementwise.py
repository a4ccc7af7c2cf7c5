"""Element-wise operators against onnxruntime: element types, broadcasting, symbolic and empty shapes, NaN and Inf."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.oracle import Batch, Const, Sym, f32, ints, special

UNARY = [
    "Abs",
    "Neg",
    "Sign",
    "Relu",
    "Exp",
    "Log",
    "Sqrt",
    "Tanh",
    "Sigmoid",
    "Erf",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Floor",
    "Ceil",
    "Round",
    "Reciprocal",
    "Softplus",
    "Softsign",
    "HardSwish",
    "Mish",
    "Identity",
    "LeakyRelu",
    "Elu",
    "Selu",
    "Celu",
    "HardSigmoid",
    "ThresholdedRelu",
]


def test_unary_special_values():
    batch = Batch(tolerance=4e-6)
    for op in UNARY:
        batch.add(op, [special(61) if op not in ("Mish", "Softplus") else f32(61) * 30])
    batch.add("Gelu", [f32(40) * 4])
    batch.add("Gelu", [f32(40) * 4], approximate="tanh")
    batch.check()


def test_unary_attributes():
    batch = Batch(tolerance=4e-6)
    batch.add("LeakyRelu", [special(40)], alpha=0.3)
    batch.add("LeakyRelu", [special(40)], alpha=-2.0)
    batch.add("Elu", [special(40)], alpha=0.3)
    batch.add("Celu", [special(40)], alpha=0.3)
    batch.add("Selu", [special(40)], alpha=1.1, gamma=-0.7)
    batch.add("HardSigmoid", [special(40)], alpha=0.6, beta=0.1)
    batch.add("ThresholdedRelu", [special(40)], alpha=-0.5)
    batch.add("Shrink", [special(40)], lambd=0.3, bias=0.1)
    batch.add("PRelu", [special(3, 20), f32(20)])
    batch.add("PRelu", [special(3, 20), f32(3, 1)])
    batch.check()


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64, np.int8, np.uint8])
def test_element_types(dtype):
    batch = Batch(tolerance=1e-12 if dtype == np.float64 else 0)
    low = 0 if dtype == np.uint8 else -9
    a, b = (ints(5, 7, low=low, dtype=dtype) for _ in range(2))
    b = np.where(b == 0, 3, b).astype(dtype)
    wide = dtype in (np.float64, np.int32, np.int64)
    for op in ["Add", "Sub", "Mul", "Div"]:
        batch.add(op, [a, b])
    for op in ["Max", "Min"]:
        batch.add(op, [a, b]) if wide else None
    batch.add("Abs", [a])
    batch.add("Sign", [a])
    if dtype != np.uint8:
        batch.add("Neg", [a])
    if dtype == np.float64:
        x = f32(40).astype(np.float64)
        for op in [
            "Exp",
            "Sqrt",
            "Log",
            "Floor",
            "Ceil",
            "Reciprocal",
            "Relu",
            "Sigmoid",
            "Tanh",
            "Sin",
            "Cos",
            "Round",
        ]:
            batch.add(op, [x])
    if dtype == np.int32:
        batch.add("Relu", [a])
    batch.add("Clip", [a, np.array(2, dtype), np.array(5, dtype)])
    batch.add("Mod", [a, b], fmod=1 if dtype == np.float64 else 0)
    if np.dtype(dtype).kind in "iu":
        batch.add("Mod", [a, b], fmod=1)
    batch.check()


def test_binary_special_values():
    batch = Batch()
    a, b = special(18, 1), special(1, 18)
    for op in ["Add", "Sub", "Mul", "Div", "Max", "Min"]:
        batch.add(op, [a, b])
    batch.add("Mod", [f32(40) * 9, f32(40)], fmod=1)
    batch.add("Pow", [np.abs(f32(40)), f32(40)])
    batch.add("Pow", [f32(40), ints(40, low=-3, high=4)], label="Pow f32 i64")
    batch.add("Pow", [ints(40, low=1, dtype=np.int32), ints(40, low=0, high=5, dtype=np.int32)], label="Pow i32")
    batch.add("Pow", [ints(40), ints(40, low=0, high=5)], label="Pow i64")
    batch.add("Pow", [special(18), Const(np.float32(2))], label="Pow 2")
    batch.add("Pow", [special(18), Const(np.float32(0.5))], label="Pow 0.5")
    batch.add("Pow", [special(18), Const(np.float32(3))], label="Pow 3")
    batch.check()


def test_broadcasting():
    batch = Batch()
    shapes = [
        ((3, 4, 5), (5,)),
        ((3, 4, 5), (4, 1)),
        ((3, 4, 5), (3, 1, 1)),
        ((1,), (3, 4)),
        ((), (3, 4)),
        ((), ()),
        ((3, 4), ()),
        ((3, 1, 5), (1, 4, 1)),
        ((2, 1, 3, 1, 5), (4, 1, 2, 1)),
        ((0, 4), (1, 4)),
        ((3, 1), (3, 0)),
        ((1, 1), (1, 1, 1)),
        ((70, 33), (70, 33)),
        ((2, 3, 1, 1), (2, 3, 4, 4)),
        ((1, 1, 1, 64), (2, 5, 5, 64)),
    ]
    for left, right in shapes:
        batch.add("Add", [f32(*left), f32(*right)], label=f"Add {left} {right}")
        batch.add("Sub", [f32(*right), f32(*left)], label=f"Sub {right} {left}")
    batch.add("Sum", [f32(3, 1), f32(4), f32(2, 1, 1)])
    batch.add("Max", [f32(3, 1), f32(4), f32(2, 1, 1)])
    batch.add("Mean", [f32(3, 1), f32(4), f32(2, 1, 1)])
    batch.add("Sum", [f32(3)])
    batch.add("Where", [ints(3, 1, low=0, high=2, dtype=bool), f32(4), f32(2, 1, 1)])
    batch.check()


def test_symbolic_broadcasting():
    """The same dim may or may not be 1 when it is a symbol; unequal symbols broadcast at run time."""
    batch = Batch()
    sizes = [(3, 5), (1, 5), (3, 1), (1, 1), (0, 4), (40, 70)]
    grid = [f32(n, m) for n, m in sizes]
    batch.add("Add", [Sym(("N", "M"), grid), Sym(("N", "M"), [f32(n, m) for n, m in sizes])])
    batch.add("Mul", [Sym(("N", "M"), grid), Sym(("M",), [f32(m) for _, m in sizes])])
    batch.add("Sub", [Sym(("N", "M"), grid), Sym(("N", 1), [f32(n, 1) for n, _ in sizes])])
    batch.add("Div", [Sym(("N", "M"), grid), Sym((1, 1), [f32(1, 1)])])
    batch.add("Relu", [Sym(("N", 3, "M"), [f32(n, 3, m) for n, m in sizes])])
    batch.add(
        "Add",
        [
            Sym(("A", "B"), grid),
            Sym(("C", "D"), [f32(n, m) for n, m in [(3, 1), (6, 5), (1, 8), (4, 1), (1, 4), (1, 70)]]),
        ],
        label="unequal symbols",
    )
    batch.add(
        "Add",
        [Sym(("A", 4), [f32(3, 4), f32(1, 4), f32(0, 4)] * 2), Sym(("E", 4), [f32(3, 4), f32(7, 4), f32(1, 4)] * 2)],
        label="unequal rows",
    )
    batch.add("Where", [Sym(("N", "M"), [x > 0 for x in grid]), Sym(("N", "M"), grid), Const(np.float32(-1))])
    batch.check()


def test_casts():
    batch = Batch()
    numbers = np.array([-129.7, -1.5, -1, -0.5, -0.0, 0, 0.49, 1, 1.5, 100.9, 127, 3e6], np.float32)
    kinds = {np.float64: 11, np.int32: 6, np.int64: 7, bool: 9, np.float16: 10}
    for kind, to in kinds.items():
        batch.add("Cast", [np.clip(numbers, -6e4, 6e4)], to=to, label=f"Cast f32 to {kind.__name__}")
        source = np.clip(numbers, -100, 100).astype(kind)
        for other, code in kinds.items():
            batch.add("Cast", [source], to=code, label=f"Cast {kind.__name__} to {other.__name__}")
        batch.add("Cast", [source], to=1, label=f"Cast {kind.__name__} to f32")
    small = np.array([-128, -1, 0, 1, 100, 127], np.int8)
    batch.add("Cast", [small], to=1, label="i8 to f32")
    batch.add("Cast", [small.view(np.uint8)], to=1, label="u8 to f32")
    batch.add("Cast", [small.view(np.uint8)], to=7, label="u8 to i64")
    batch.add("Cast", [small], to=2, label="i8 to u8")
    batch.add("Cast", [np.abs(numbers[1:11])], to=2, label="f32 to u8")
    batch.add("Cast", [np.array([np.nan, np.inf, -np.inf, 1e-40, -0.0], np.float32)], to=9, label="special to bool")
    batch.add("Cast", [np.array([300, -1, 2**40 + 5], np.int64)], to=2, label="i64 to u8")
    batch.add("CastLike", [numbers, np.zeros(1, np.int64)])
    batch.check()


def test_clip():
    batch = Batch()
    batch.add("Clip", [special(30), np.float32(-0.5), np.float32(0.75)])
    batch.add("Clip", [special(30), None, np.float32(0.75)])
    batch.add("Clip", [special(30), np.float32(-0.5)])
    batch.add("Clip", [special(30), Const(np.float32(0)), Const(np.float32(6))])
    batch.check()


def test_bits():
    batch = Batch()
    a, b = ints(30, low=-1000, high=1000, dtype=np.int32), ints(30, low=-1000, high=1000, dtype=np.int32)
    for op in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]:
        batch.add(op, [a, b])
    batch.add("BitwiseNot", [a])
    for dtype in (np.uint8, np.uint32, np.uint64):
        x, by = ints(30, low=0, high=200, dtype=dtype), ints(30, low=0, high=7, dtype=dtype)
        batch.add("BitShift", [x, by], direction="LEFT")
        batch.add("BitShift", [x, by], direction="RIGHT")
    batch.check()
