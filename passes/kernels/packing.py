"""Packed operands: what a kernel asks to have done to its constant operands at compile time.

A kind whose schedule wants a constant operand in a layout of its own has `packings(kernel) -> list[Packing]`;
passes/pack_weights.py makes the entries in the weight store and gives the kernel's argument the packed type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from mlir import ir

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels.kernel_function import KernelFunction


@dataclass(frozen=True)
class Packing:
    """Operand `position` of the kernel becomes `make(array)`, of shape `shape` and the same element type.

    `layout` names the transformation with all its parameters: equal layouts of equal arrays are one entry.
    """

    position: int
    shape: tuple[int, ...]
    layout: str
    make: Callable[[np.ndarray], np.ndarray]


def set_packed_types(kernel: KernelFunction, packings: list[Packing]) -> None:
    """Gives the kernel's arguments the packed types, and the kernel the mark that they are."""
    kernel.func.attributes["kernel.packed"] = ir.UnitAttr.get()
    types = [v.type for v in kernel.operands]
    for packing in packings:
        argument = kernel.operands[packing.position]
        packed = Tensor(Tensor.of(argument.type).elem, packing.shape).type()
        argument.set_type(packed)
        types[packing.position] = packed
    results = [v.type for v in kernel.results]
    kernel.func.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, results))
