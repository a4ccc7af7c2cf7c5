"""Kernel kind `compress`: onnx.Compress, the slices along an axis (or the elements) whose condition holds."""

from __future__ import annotations

from mlir import ir

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch


def launch(kernel: KernelFunction) -> Launch:
    return Launch(1)


def emit(b: KernelBuilder) -> None:
    root, out = b.kernel.root, b.outputs[0]
    source, condition = (b.inputs[v] for v in root.operands)
    shape = source.shape
    axis = root.attr("axis", None)
    axis = None if axis is None else axis % len(shape)
    outer, extent, run = (
        (1, im.product(shape), 1)
        if axis is None
        else (im.product(shape[:axis]), shape[axis], im.product(shape[axis + 1 :]))
    )
    room = out.shape[0 if axis is None else axis]

    def step(i: ir.Value, count: ir.Value) -> list[ir.Value]:
        kept = im.both(condition.load_flat(i), im.compare(count, "<", room))
        with b.when(kept), b.loop(0, outer) as o, b.loop(0, run) as j:
            x = source.load_flat(im.add(im.mul(im.add(im.mul(o, extent), i), run), j))
            out.store_flat(x, im.add(im.mul(im.add(im.mul(o, room), count), run), j))
        return [im.add(count, im.select(kept, 1, 0))]

    with b.loop(b.begin, b.end):
        b.reduce(0, im.minimum(im.product(condition.shape), extent), 1, [im.value(0)], step)
