"""graph -> graph: convolutions and pools work channels last, and Transposes move to where they are unavoidable.

Before:  %0 = "onnx.Conv"(%x, %w, %b) {pads = [1, 1, 1, 1]} : (tensor<1x3x8x8xf32>, …) -> tensor<1x4x8x8xf32>
         %1 = "onnx.Relu"(%0)
After:   %t = "onnx.Transpose"(%x) {perm = [0, 2, 3, 1]} : … -> tensor<1x8x8x3xf32>
         %0 = "kernel.conv"(%t, %w_hwio, %b) {strides, dilations, pads, group}
         %1 = "onnx.Relu"(%0)       : … -> tensor<1x8x8x4xf32>
         %2 = "onnx.Transpose"(%1) {perm = [0, 3, 1, 2]}
Keeps:   values, the function's interface (NCHW), locations.
Leaves:  no onnx Conv, AveragePool, ConvTranspose or MaxPool, apart from a MaxPool whose indices are used and windows
         that depend on run-time sizes.

Internal ops, for one to three spatial axes (S: their sizes, K: the kernel's), attributes always present:
  kernel.conv(x [N, S, C], w [K, C/group, M], bias? [M]) {strides, dilations, pads, group} -> [N, S', M]
  kernel.conv_transpose(x, w [K, C, M/group], bias? [M]) {…, output_padding} -> [N, S', M]
  kernel.max_pool(x [N, S, C]) {kernel_shape, strides, dilations, pads, ceil_mode} -> [N, S', C]
  kernel.average_pool(x) {…, count_include_pad} -> [N, S', C]
  kernel.conv_planes(x [N, C, S], w [M, K, C/group], bias? [M]) {…, group} -> [N, M, S']  (see planes.py)
  kernel.depthwise_planes(x [N, C, S], w [C, 1, K], bias? [C]) {strides, dilations, pads} -> [N, C, S']
pads: all before, then all behind.

How: in program order; for each tensor `layouts/versions.py` keeps the orders of axes in which it exists. Convolutions
make channels-last results; ops that can work in any order follow their operands; a Transpose of such a tensor is only
another name for its axes; whatever else reads it (a MatMul, the function's result) gets a Transpose, made once.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp, is_onnx
from onnxc.passes.contract import Program, transforms
from onnxc.passes.layouts import versions
from onnxc.passes.layouts.versions import Layouts, native
from onnxc.passes.rewriting import functions, has_ranks


@transforms(GRAPH, GRAPH)
def to_nhwc(program: Program) -> None:
    for function in functions(program.module):
        layouts = Layouts(program.weights)
        _convert(function.regions[0].blocks[0], layouts)
        layouts.finish()


def _convert(block: ir.Block, layouts: Layouts) -> None:
    for view in list(block.operations):
        op = view.operation
        layouts.note(op)
        layouts.at(op)
        carrier = versions.CARRIERS.get(op.name[len("onnx.") :]) if is_onnx(op) and has_ranks(op) else None
        if carrier is not None and carrier(OnnxOp(op), layouts):
            layouts.convert(op)
            continue
        for index, value in enumerate(op.operands):
            order = layouts.order(value)
            if order is not None:
                op.operands[index] = layouts.want(value, native(len(order)))
        for region in op.regions:
            for inner in region.blocks:
                _convert(inner, layouts)
