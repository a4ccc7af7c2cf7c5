"""Packed operands: what a kernel asks to have done to its constant operands at compile time.

A kind whose schedule wants a constant operand in a layout of its own has `packings(kernel) -> list[Packing]`;
passes/pack_weights.py makes the entries in the weight store and gives the kernel's argument the packed type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from mlir import ir

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.kernel_function import KernelFunction

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


#: What entries of schedules mean that do not stand there, as in records of a version before they existed
UNSAID: dict[str, int | str] = {"panel": 0, "unroll": 1, "order": "rows", "apart": 0, "keys": 0}


@dataclass(frozen=True)
class Packing:
    """Operand `position` of the kernel becomes `make(array)`, of shape `shape` and the same element type.

    `layout` names the transformation with all its parameters: equal layouts of equal arrays are one entry. Where
    `panel` is the width of panels, the name ends in it. `widens`: the kernel widens what it loads, so halves may lie
    there; `elem`: they do, of this type.
    """

    position: int
    shape: tuple[int, ...]
    layout: str
    make: Callable[[np.ndarray], np.ndarray]
    panel: int = 0
    widens: bool = False
    elem: str | None = None

    @property
    def family(self) -> str:
        """The layout but for the panels' width."""
        return self.layout.removesuffix(str(self.panel)) if self.panel else self.layout


def place_in_panel(tile: im.Index, panel: int, width: int) -> tuple[im.Index, im.Index]:
    """(panel, first column in it) of a tile of `width` columns, a whole number of which make a panel."""
    tiles = panel // width
    return im.floordiv(tile, tiles), im.mul(im.mod(tile, tiles), width)


def entries(schedule: DataclassInstance) -> dict[str, int | str]:
    """The schedule as an attribute holds it: without entries that say what is so without them (UNSAID)."""
    return {name: value for name, value in asdict(schedule).items() if UNSAID.get(name) != value}


def set_packed_types(kernel: KernelFunction, packings: list[Packing]) -> None:
    """Gives the kernel's arguments the packed types, and the kernel the mark that they are."""
    kernel.func.attributes["kernel.packed"] = ir.UnitAttr.get()
    types = [v.type for v in kernel.operands]
    for packing in packings:
        argument = kernel.operands[packing.position]
        packed = Tensor(packing.elem or Tensor.of(argument.type).elem, packing.shape).type()
        argument.set_type(packed)
        types[packing.position] = packed
    results = [v.type for v in kernel.results]
    kernel.func.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, results))
