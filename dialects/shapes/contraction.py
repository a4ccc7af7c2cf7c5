"""This file infers shapes of matrix products and Einsum."""

from __future__ import annotations

from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes.broadcasting import broadcast_dims, broadcast_shapes
from onnxc.dialects.shapes.registry import IllegalShape, ShapeContext, infers
from onnxc.dialects.types import Tensor


def matmul_shape(c: ShapeContext, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """numpy's matmul: vectors count as a row on the left, a column on the right, and vanish again."""
    if not a or not b:
        raise IllegalShape("a scalar has no axis to multiply over")
    c.same(a[-1], b[-2] if len(b) > 1 else b[0], "the axis that is summed over")
    rows = a[-2:-1]
    columns = b[-1:] if len(b) > 1 else ()
    return (*broadcast_shapes(c, a[:-2], b[:-2]), *rows, *columns)


@infers("MatMul")
def matmul(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.elem(0), matmul_shape(c, c.shape(0), c.shape(1)))]


@infers("MatMulInteger")
def matmul_integer(c: ShapeContext) -> list[Tensor]:
    return [Tensor("i32", matmul_shape(c, c.shape(0), c.shape(1)))]


@infers("microsoft.DynamicQuantizeMatMul", "microsoft.MatMulIntegerToFloat")
def matmul_to_float(c: ShapeContext) -> list[Tensor]:
    return [Tensor("f32", matmul_shape(c, c.shape(0), c.shape(1)))]


@infers("QLinearMatMul")
def qlinear_matmul(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.elem(7), matmul_shape(c, c.shape(0), c.shape(3)))]


@infers("microsoft.FusedMatMul")
def fused_matmul(c: ShapeContext) -> list[Tensor]:
    shapes = []
    for index, letter in enumerate("AB"):
        shape = list(c.shape(index))
        if c.attr(f"transBatch{letter}", 0):
            shape = [*shape[1:-1], shape[0], shape[-1]]
        if c.attr(f"trans{letter}", 0) and len(shape) > 1:
            shape[-2:] = shape[:-3:-1]
        shapes.append(tuple(shape))
    return [Tensor(c.elem(0), matmul_shape(c, *shapes))]


@infers("Gemm", "microsoft.FusedGemm")
def gemm(c: ShapeContext) -> list[Tensor]:
    a, b = c.ranked(0, 2), c.ranked(1, 2)
    rows, left = reversed(a) if c.attr("transA", 0) else a
    right, columns = reversed(b) if c.attr("transB", 0) else b
    c.same(left, right, "the axis that is summed over")
    result = (rows, columns)
    if c.has(2) and len(c.shape(2)) > 2:
        raise IllegalShape(f"operand C has rank {len(c.shape(2))}")
    if c.has(2):
        broadcast_shapes(c, result, c.shape(2))
    return [Tensor(c.elem(0), result)]


@infers("Einsum")
def einsum(c: ShapeContext) -> list[Tensor]:
    inputs, output = einsum_labels(c.attr("equation", ""), [len(c.shape(i)) for i in range(len(c.types))])
    sizes: dict[str, Dim] = {}
    for index, labels in enumerate(inputs):
        for label, size in zip(labels, c.shape(index), strict=True):
            sizes[label] = broadcast_dims(c, sizes[label], size) if label in sizes else size
    unknown = [label for label in output if label not in sizes]
    if unknown:
        raise IllegalShape(f"output label {unknown[0]!r} is in no operand")
    return [Tensor(c.elem(0), tuple(sizes[label] for label in output))]


def einsum_labels(equation: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """Labels of each operand's axes and of the result's. Axes under an ellipsis are `.0`, `.1` … from the last."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise IllegalShape(f"equation {equation!r} is for {len(terms)} operands, not {len(ranks)}")
    inputs = [_expand(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    hidden = max((sum(label[0] == "." for label in labels) for labels in inputs), default=0)
    ellipsis = [f".{i}" for i in reversed(range(hidden))]
    if arrow:
        before, dots, after = right.partition("...")
        return inputs, [*before, *(ellipsis if dots else []), *after]
    letters = left.replace("...", "").replace(",", "")
    return inputs, ellipsis + sorted(letter for letter in set(letters) if letters.count(letter) == 1)


def _expand(term: str, rank: int) -> list[str]:
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not dots):
        raise IllegalShape(f"{term!r} of the equation does not fit an operand of rank {rank}")
    return [*before, *(f".{i}" for i in reversed(range(hidden))), *after]
