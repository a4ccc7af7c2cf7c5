"""Kernel kind `scatter`: ScatterElements and ScatterND: the data is copied, then the updates are written in order.

One unit of work: updates may meet in one element, and their order decides the result.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator
from onnxc.passes.kernels.kernel_function import FAILURES, KernelFunction, Launch
from onnxc.passes.lowering.movement import checked_index

FAILURES["ScatterElements"] = "index out of range"
FAILURES["ScatterND"] = "index out of range"


def launch(kernel: KernelFunction) -> Launch:
    return Launch(1)


def emit(b: KernelBuilder) -> None:
    root, ev, out = b.kernel.root, Evaluator(b), b.outputs[0]
    data = b.inputs[root.operands[0]]
    with b.loop(b.begin, b.end):
        with b.loop(0, im.product(data.shape)) as i:
            out.store_flat(data.load_flat(i), i)
        if root.name == "ScatterElements":
            _elements(b, ev)
        else:
            _slices(b, ev)


def _elements(b: KernelBuilder, ev: Evaluator) -> None:
    root, out = b.kernel.root, b.outputs[0]
    indices, updates = (b.inputs[v] for v in root.operands[1:3])
    axis = root.attr("axis", 0) % len(out.shape)
    with b.loop(0, im.product(indices.shape)) as i, ev.scope():
        point = im.unflattened(i, indices.shape)
        at, inside = checked_index(ev, root, indices.load_flat(i), indices.elem, out.shape[axis])
        with b.when(inside):
            _update(b, out.offset([*point[:axis], at, *point[axis + 1 :]]), updates.load(point))


def _slices(b: KernelBuilder, ev: Evaluator) -> None:
    """indices [..., depth] name slices of the data; updates hold one for each."""
    root, out = b.kernel.root, b.outputs[0]
    indices, updates = (b.inputs[v] for v in root.operands[1:3])
    depth = Tensor.of(root.operands[1].type).dims[-1]
    run = im.product(out.shape[depth:])
    with b.loop(0, im.product(indices.shape[:-1])) as i, ev.scope():
        base: im.Index = 0
        inside: bool | ir.Value = True
        for k in range(depth):
            element = indices.load_flat(im.add(im.mul(i, depth), k))
            at, fits = checked_index(ev, root, element, indices.elem, out.shape[k])
            base, inside = im.add(base, im.mul(at, out.strides[k])), im.both(inside, fits)
        with b.when(inside), b.loop(0, run) as j:
            _update(b, im.add(base, j), updates.load_flat(im.add(im.mul(i, run), j)))


def _update(b: KernelBuilder, at: im.Index, new: ir.Value) -> None:
    out, how = b.outputs[0], b.kernel.root.attr("reduction", "none")
    if how != "none":
        unsigned = scalars.is_unsigned(out.elem)
        old = out.load_flat(at)
        new = {
            "add": lambda: scalars.add(old, new),
            "mul": lambda: scalars.mul(old, new),
            "max": lambda: scalars.maximum(old, new, unsigned),
            "min": lambda: scalars.minimum(old, new, unsigned),
        }[how]()
    out.store_flat(new, at)
