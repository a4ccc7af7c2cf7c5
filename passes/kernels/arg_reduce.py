"""Kernel kind `arg_reduce`: ArgMax and ArgMin; the first of equal elements, or the last with select_last_index."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.reduce import highest, lowest


def _axis(kernel: KernelFunction) -> int:
    return kernel.root.attr("axis", 0) % max(1, len(Tensor.of(kernel.root.operands[0].type).dims))


def launch(kernel: KernelFunction) -> Launch:
    shape, axis = Tensor.of(kernel.root.operands[0].type).dims, _axis(kernel)
    length = shape[axis] if shape else 1
    return Launch(dims.product([d for i, d in enumerate(shape) if i != axis]), 4 * ELEMENT * length)


def emit(b: KernelBuilder) -> None:
    root, ev, axis = b.kernel.root, Evaluator(b), _axis(b.kernel)
    source = b.shape(root.operands[0])
    elem = Tensor.of(root.operands[0].type).elem
    kept = [n for i, n in enumerate(source) if i != axis]
    least = root.name == "ArgMin"
    start = scalars.constant(highest(elem) if least else lowest(elem), scalars.element_type(elem))
    better = ("<=" if least else ">=") if root.attr("select_last_index", 0) else ("<" if least else ">")
    i64 = ir.IntegerType.get_signless(64)
    with b.loop(b.begin, b.end) as row, ev.scope():
        point = im.unflattened(row, kept)

        def step(i: ir.Value, best: ir.Value, where: ir.Value) -> list[ir.Value]:
            with ev.scope():
                x = ev.at(root.operands[0], [*point[:axis], i, *point[axis:]] if source else ())
            wins = scalars.compare(x, better, best, scalars.is_unsigned(elem))
            return [scalars.select(wins, x, best), arith.select(wins, arith.index_cast(i64, i), where)]

        where = b.reduce(0, source[axis] if source else 1, 1, [start, arith.constant(i64, 0)], step)[1]
        at = [*point[:axis], 0, *point[axis:]] if root.attr("keepdims", 1) else point
        b.outputs[0].store(where, at if source else ())
