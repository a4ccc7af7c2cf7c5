"""Pointers into buffers: loads whose base differs from row to row, as a convolution's taps do."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, llvm, memref

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import Buffer, KernelBuilder

_DYNAMIC = -(2**31)  # GEPOp's mark of an index that is an operand


def pointer(memory: ir.Value) -> ir.Value:
    """The address of a memref's first element."""
    address = memref.extract_aligned_pointer_as_index(memory)
    return llvm.inttoptr(llvm_pointer(), arith.index_cast(ir.IntegerType.get_signless(64), address))


def llvm_pointer() -> ir.Type:
    return ir.Type.parse("!llvm.ptr")


def part(memory: ir.Value, start: im.Index, size: im.Index) -> ir.Value:
    """`size` elements of a memref from element `start`, as a memref of its own."""
    kind = ir.MemRefType(memory.type)
    dynamic = ir.ShapedType.get_dynamic_size()
    layout = ir.StridedLayoutAttr.get(ir.ShapedType.get_dynamic_stride_or_offset(), [1])
    type_ = ir.MemRefType.get([dynamic], kind.element_type, layout)
    return memref.reinterpret_cast(type_, memory, [im.value(start)], [im.value(size)], [], [dynamic], [dynamic], [1])


def advance(base: ir.Value, elements: im.Index, elem: str) -> ir.Value:
    """`base` moved by a number of elements."""
    if isinstance(elements, int) and abs(elements) < 2**28:  # constant indices have 29 bits, sign included
        return llvm.GEPOp(llvm_pointer(), base, [], [elements], scalars.storage_type(elem), 0).result
    count = arith.index_cast(ir.IntegerType.get_signless(64), im.value(elements))
    return llvm.GEPOp(llvm_pointer(), base, [count], [_DYNAMIC], scalars.storage_type(elem), 0).result


def load(base: ir.Value, elements: im.Index, elem: str) -> ir.Value:
    return scalars.from_storage(llvm.load(scalars.storage_type(elem), advance(base, elements, elem)), elem)


def zeros(b: KernelBuilder, like: Buffer, count: int) -> ir.Value:
    """The address of `count` zeros: what is read in the place of padding."""
    elem = scalars.storage_type(like.elem)
    type_ = ir.MemRefType.get([count], elem)
    tensor = ir.RankedTensorType.get([count], elem)
    zero = ir.FloatAttr.get(elem, 0.0) if isinstance(elem, ir.FloatType) else ir.IntegerAttr.get(elem, 0)
    name = f"{b.name}_zeros"
    with ir.InsertionPoint(b.module.body):
        memref.GlobalOp(
            name,
            type_,
            initial_value=ir.DenseElementsAttr.get_splat(tensor, zero),
            constant=True,
            sym_visibility="private",
        )
    return pointer(memref.get_global(type_, name))


def load_vector(base: ir.Value, width: int, elem: str, mask: ir.Value | None = None) -> ir.Value:
    """`width` consecutive elements; lanes off in `mask` are not read and give 0."""
    type_ = scalars.vector_of(scalars.storage_type(elem), width)
    align = scalars.byte_width(elem)
    if mask is None:
        v = llvm.load(type_, base, alignment=align)
    else:
        v = llvm.intr_masked_load(type_, base, mask, align, pass_thru=scalars.constant(0, type_))
    return scalars.from_storage(v, elem)
