"""A model's inputs and outputs as the artefact tells them: names, ONNX dtypes and dims with their own names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlir import ir
from onnx import TensorProto

from onnxc.dialects.errors import OnnxcError
from onnxc.dialects.types import Tensor
from onnxc.manifest import Dim, Value
from onnxc.passes.contract import Program
from onnxc.passes.dim_names import own_names
from onnxc.passes.rewriting import main_function

DTYPES = {
    "f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16,
    "i1": TensorProto.BOOL, "i8": TensorProto.INT8, "i16": TensorProto.INT16, "i32": TensorProto.INT32,
    "i64": TensorProto.INT64, "ui8": TensorProto.UINT8, "ui16": TensorProto.UINT16, "ui32": TensorProto.UINT32,
    "ui64": TensorProto.UINT64, "!onnx.string": TensorProto.STRING, "i4": TensorProto.INT4, "ui4": TensorProto.UINT4,
    "f8E4M3FN": TensorProto.FLOAT8E4M3FN, "f8E4M3FNUZ": TensorProto.FLOAT8E4M3FNUZ, "f8E5M2": TensorProto.FLOAT8E5M2,
    "f8E5M2FNUZ": TensorProto.FLOAT8E5M2FNUZ, "f8E8M0FNU": TensorProto.FLOAT8E8M0, "f4E2M1FN": TensorProto.FLOAT4E2M1,
}  # fmt: skip


def input_values(program: Program) -> tuple[Value, ...]:
    """The inputs; a free dim has the name that the model gives it, or None: equal names must have equal sizes."""
    names = own_names(program)
    arguments = main_function(program.module).regions[0].blocks[0].arguments
    return _values(program, "input_names", [a.type for a in arguments], lambda d: names.get(str(d), str(d)))


def input_symbols(program: Program) -> Iterator[str]:
    """The dims of all inputs, one after another, as the program spells them."""
    for argument in main_function(program.module).regions[0].blocks[0].arguments:
        yield from map(str, Tensor.of(argument.type).dims)


def output_values(program: Program) -> tuple[Value, ...]:
    """The outputs after shape inference; a dim that no input names is shown as the expression it is."""
    names = own_names(program)
    block = main_function(program.module).regions[0].blocks[0]
    returned = block.operations[len(block.operations) - 1].operands

    def named(d) -> str | None:
        text = str(program.facts.restore(d))
        return names.get(text, text)

    found = _values(program, "output_names", [v.type for v in returned], named)
    for value in found:
        if value.dtype == TensorProto.STRING:
            raise OnnxcError(f"output '{value.name}' is of strings, which cannot be returned yet", file=program.file)
    return found


def _values(program: Program, attribute: str, types: Sequence[ir.Type], named) -> tuple[Value, ...]:
    names = [ir.StringAttr(a).value for a in ir.ArrayAttr(main_function(program.module).attributes[attribute])]
    found = []
    for name, type_ in zip(names, types, strict=True):
        tensor = Tensor.of(type_) if isinstance(type_, ir.RankedTensorType) else None
        if tensor is None or tensor.shape is None or tensor.elem not in DTYPES:
            unknown_rank = "tensor<*" in str(type_)
            raise OnnxcError(
                f"'{name}' of type {type_} cannot be an input or output",
                file=program.file,
                why="its rank is not known" if unknown_rank else None,
                hint="declare its shape in the model; dims may stay symbolic" if unknown_rank else None,
            )
        shape: tuple[Dim, ...] = tuple(d if isinstance(d, int) else named(d) for d in tensor.dims)
        found.append(Value(name, DTYPES[tensor.elem], shape))
    return tuple(found)
