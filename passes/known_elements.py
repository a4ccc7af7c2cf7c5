"""Which tensors shape inference knows element by element: small ones, which exporters compute shapes and indices by."""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.shapes import reals
from onnxc.dialects.shapes.reals import Number
from onnxc.dialects.types import Tensor

Values = tuple[Number, ...]

MOST = 64  # elements; shapes and index lists of exporters are far smaller
_INTEGERS = ("i64", "i32", "i1", "i8", "i16", "ui8", "ui16", "ui32", "ui64")
_FLOATS = ("f32", "f64", "f16", "bf16")


def is_small(tensor: Tensor | None) -> bool:
    """Whether elements of such a tensor are kept."""
    if tensor is None or not tensor.is_static:
        return False
    wanted = tensor.elem in _INTEGERS or (tensor.elem in _FLOATS and tensor.rank is not None and tensor.rank <= 1)
    count = tensor.numel
    return wanted and isinstance(count, int) and count <= MOST


def constant_values(value: ir.Value) -> Values | None:
    """The elements of a constant that stands in the IR."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "onnx.Constant" or "value" not in owner.attributes:
        return None
    dense = owner.attributes["value"]
    if isinstance(dense, ir.DenseIntElementsAttr):
        return tuple(int(element) for element in _elements(dense))
    if not isinstance(dense, ir.DenseFPElementsAttr):
        return None
    numbers = [reals.from_float(element) for element in _elements(dense)]
    known = tuple(number for number in numbers if number is not None)
    return known if len(known) == len(numbers) else None


def _elements(dense) -> list:
    return [dense[0]] * len(dense) if len(dense) and dense.is_splat else list(dense)
