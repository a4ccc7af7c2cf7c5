"""kernels -> kernels: constant operands lie in memory the way their kernels read them.

Before:  %w = "onnx.Constant"() {weight = "fc1.w"} : tensor<64x100xf32>      %y = "kernel.call"(%x, %w) {callee = @k}
After:   %p = "onnx.Constant"() {weight = "fc1.w:panels48"} : tensor<3x64x48xf32>    "kernel.call"(%x, %p) {callee = @k}
Each kind says which operands it wants packed, and how (`packings`, see kernels/packing.py); the new entries are lazy,
one per content and layout. Weights that came as halves, and were widened for a product, lie there as halves again:
"fc1.w:panels48:f16". Keeps: everything else.      Leaves: no constant without a use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from mlir import ir

from onnxc.dialects.levels import KERNELS
from onnxc.dialects.weights import dtype_of, weight_key
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernel_calls import callee_of, calls_by_kernel, kernel_calls
from onnxc.passes.kernels.kernel_function import kernels_of
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.kernels.packing import Packing, set_packed_types
from onnxc.passes.transformed_constant import transformed_constant
from onnxc.passes.widen_halves import HALVES, WIDENED

CHUNK = 1 << 20  # elements that are compared at once


@transforms(KERNELS, KERNELS)
def pack_weights(program: Program) -> None:
    """See the file's docstring."""
    calls = calls_by_kernel(program.module)
    wanted: dict[str, list[Packing]] = {}
    for symbol, kernel in kernels_of(program.module).items():
        packings = getattr(KINDS[kernel.kind], "packings", lambda _: [])(kernel)
        if packings:
            wanted[symbol] = [_narrowed(program, calls.get(symbol, []), packing) for packing in packings]
            set_packed_types(kernel, wanted[symbol])
    for call in list(kernel_calls(program.module)):
        for packing in wanted.get(callee_of(call), ()):
            _pack_operand(program, call, packing)


def _narrowed(program: Program, calls: Sequence[ir.Operation], packing: Packing) -> Packing:
    """The packing in halves, where a type of them holds all that the calls' constants hold, and widening is cheap."""
    if not packing.widens or WIDENED not in program.notes:
        return packing
    keys = [weight_key(call.operands[packing.position].owner) for call in calls]
    for elem in sorted(HALVES) if program.options.target.converts_halves else ("bf16",):
        dtype = dtype_of(elem)
        if all(key is not None and _fits(program.weights.get(key), dtype) for key in keys):
            return replace(packing, elem=elem)
    return packing


def _fits(array: np.ndarray, dtype: np.dtype) -> bool:
    """Whether the array is f32 and each element one of the narrower type."""
    if array.dtype != np.float32:
        return False
    flat = array.reshape(-1)
    parts = (flat[i : i + CHUNK] for i in range(0, flat.size, CHUNK))
    with np.errstate(over="ignore"):
        return all(np.array_equal(part.astype(dtype).astype(np.float32), part, equal_nan=True) for part in parts)


def _pack_operand(program: Program, call: ir.Operation, packing: Packing) -> None:
    constant = call.operands[packing.position].owner
    key = weight_key(constant)
    if key is not None:
        program.parts.note_packing(key, packing)
    name = packing.layout if packing.elem is None else f"{packing.layout}:{packing.elem}"
    call.operands[packing.position] = transformed_constant(
        program, constant, name, packing.shape, packing.make, ir.InsertionPoint(call), packing.elem
    )
    if not any(True for _ in constant.results[0].uses):
        constant.erase()
