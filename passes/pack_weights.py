"""kernels -> kernels: constant operands lie in memory the way their kernels read them.

Before:  %w = "onnx.Constant"() {weight = "fc1.w"} : tensor<64x100xf32>      %y = "kernel.call"(%x, %w) {callee = @k}
After:   %p = "onnx.Constant"() {weight = "fc1.w:panels48"} : tensor<3x64x48xf32>    "kernel.call"(%x, %p) {callee = @k}
Each kind says which operands it wants packed, and how (`packings`, see kernels/packing.py); the new entries are lazy,
one per content and layout. Keeps: everything else.      Leaves: no constant without a use.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import KERNELS
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernel_calls import callee_of, kernel_calls
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.kernels.packing import Packing, set_packed_types
from onnxc.passes.transformed_constant import transformed_constant


@transforms(KERNELS, KERNELS)
def pack_weights(program: Program) -> None:
    """See the file's docstring."""
    wanted: dict[str, list[Packing]] = {}
    for function in program.module.body.operations:
        if "kernel.kind" in function.attributes:
            kernel = KernelFunction.of(function)
            packings = getattr(KINDS[kernel.kind], "packings", lambda _: [])(kernel)
            if packings:
                set_packed_types(kernel, packings)
                wanted[ir.StringAttr(function.attributes["sym_name"]).value] = packings
    for call in list(kernel_calls(program.module)):
        for packing in wanted.get(callee_of(call), ()):
            _pack_operand(program, call, packing)


def _pack_operand(program: Program, call: ir.Operation, packing: Packing) -> None:
    constant = call.operands[packing.position].owner
    if "weight" in constant.attributes:
        program.parts.note_packing(ir.StringAttr(constant.attributes["weight"]).value, packing)
    call.operands[packing.position] = transformed_constant(
        program, constant, packing.layout, packing.shape, packing.make, ir.InsertionPoint(call)
    )
    if not any(True for _ in constant.results[0].uses):
        constant.erase()
