"""Kernel kinds `nonzero_count` and `nonzero`: how many elements are not zero, and where, in row-major order."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch


def launch(kernel: KernelFunction) -> Launch:
    return Launch(1)


def emit(b: KernelBuilder) -> None:
    source = b.inputs[b.kernel.root.operands[0]]
    with b.loop(b.begin, b.end):
        if b.kernel.root.op.name == "kernel.nonzero_count":
            total = b.reduce(0, im.product(source.shape), 1, [im.value(0)], lambda i, n: [_next(source, i, n)])[0]
            b.outputs[0].store_flat(arith.index_cast(ir.IntegerType.get_signless(64), total), 0)
        else:
            _positions(b, source)


def _set(source: Buffer, i: ir.Value) -> ir.Value:
    v = source.load_flat(i)
    return v if source.elem == "i1" else scalars.compare(v, "!=", scalars.constant_like(0, v))


def _next(source: Buffer, i: ir.Value, count: ir.Value) -> ir.Value:
    return arith.addi(count, arith.select(_set(source, i), im.value(1), im.value(0)))


def _positions(b: KernelBuilder, source: Buffer) -> None:
    """out [rank, count]: column n holds the index of the n-th element that is set."""
    out, i64 = b.outputs[0], ir.IntegerType.get_signless(64)
    room = out.shape[1]

    def step(i: ir.Value, count: ir.Value) -> list[ir.Value]:
        fits = im.compare(count, "<", room)
        with b.when(im.both(_set(source, i), fits)):
            for axis, at in enumerate(im.unflattened(i, source.shape)):
                out.store(arith.index_cast(i64, im.value(at)), [axis, count])
        return [_next(source, i, count)]

    b.reduce(0, im.product(source.shape), 1, [im.value(0)], step)
