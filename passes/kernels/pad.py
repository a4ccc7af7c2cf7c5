"""Kernel kind `pad`: onnx.Pad in all its modes; negative pads crop.

Constant mode has no test in the innermost loop: a row of the result is border, input and border again, or border only.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch


def launch(kernel: KernelFunction) -> Launch:
    shape = Tensor.of(kernel.root.results[0].type).dims
    return Launch(dims.product(shape[:-1]), ELEMENT * (shape[-1] if shape else 1))


def emit(b: KernelBuilder) -> None:
    root = b.kernel.root
    ev = Evaluator(b)
    shape, source = b.shape(root.results[0]), b.shape(root.operands[0])
    begins = _begins(ev, len(shape))
    if not shape:
        b.outputs[0].store(ev.at(root.operands[0], ()), ())
        return
    with b.loop(b.begin, b.end) as row:
        outer = im.unflattened(row, shape[:-1])
        if root.attr("mode", "constant") == "constant":
            _constant_row(b, ev, outer, shape, source, begins)
        else:
            with b.loop(0, shape[-1]) as column, ev.scope():
                point = [*outer, column]
                read = [
                    _mapped(root.attr("mode"), im.sub(i, p), n) for i, p, n in zip(point, begins, source, strict=True)
                ]
                b.outputs[0].store(ev.at(root.operands[0], read), point)


def _begins(ev: Evaluator, rank: int) -> list[im.Index]:
    """The pad before each axis."""
    root = ev.builder.kernel.root
    pads = ev.values(root, 1)
    axes = [int(a) % rank for a in root.values(3)] if root.values(3) is not None else list(range(rank))
    begins: list[im.Index] = [0] * rank
    for axis, pad in zip(axes, pads[: len(axes)], strict=True):
        begins[axis] = pad
    return begins


def _constant_row(b: KernelBuilder, ev: Evaluator, outer, shape, source, begins) -> None:
    root, out = b.kernel.root, b.outputs[0]
    type_ = scalars.element_type(Tensor.of(root.results[0].type).elem)
    value = (
        ev.at(root.operands[2], [0] * len(b.shape(root.operands[2])))
        if len(root.operands) > 2 and root.operands[2] is not None
        else scalars.constant(0, type_)
    )
    inside: bool | ir.Value = True
    read: list[im.Index] = []
    have, want = Tensor.of(root.operands[0].type).dims, Tensor.of(root.results[0].type).dims
    for axis, (i, pad, n) in enumerate(zip(outer, begins, source, strict=False)):
        at = im.sub(i, pad)
        if not (isinstance(pad, int) and pad == 0 and have[axis] == want[axis]):
            inside = im.both(inside, im.both(im.compare(at, ">=", 0), im.compare(at, "<", n)))
        read.append(at)
    width, pad, n = shape[-1], begins[-1], source[-1]
    low = im.minimum(im.maximum(pad, 0), width)
    high = im.maximum(im.minimum(im.add(n, pad), width), low)
    low = im.select(inside, low, width) if not isinstance(inside, bool) else low
    high = im.select(inside, high, width) if not isinstance(inside, bool) else high
    for start, stop in ((0, low), (high, width)):
        with b.loop(start, stop) as column:
            out.store(value, [*outer, column])
    with b.loop(low, high) as column, ev.scope():
        out.store(ev.at(root.operands[0], [*read, im.sub(column, pad)]), [*outer, column])


def _mapped(mode: str, i: im.Index, n: im.Index) -> im.Index:
    """Where position `i` outside [0, n) is read: the nearest element (edge), mirrored (reflect) or around (wrap)."""
    if mode == "edge":
        return im.minimum(im.maximum(i, 0), im.sub(n, 1))
    if mode == "wrap":
        return _floored_mod(i, n)
    period = im.maximum(im.mul(im.sub(n, 1), 2), 1)
    folded = _floored_mod(i, period)
    return im.minimum(folded, im.sub(period, folded)) if not (isinstance(n, int) and n == 1) else 0


def _floored_mod(i: im.Index, n: im.Index) -> im.Index:
    if isinstance(i, int) and isinstance(n, int):
        return i % max(n, 1)
    rest = ir.Operation.create(
        "arith.remsi", results=[ir.IndexType.get()], operands=[im.value(i), im.value(im.maximum(n, 1))]
    ).result
    return im.select(im.compare(rest, "<", 0), im.add(rest, n), rest)
