"""Arithmetic on elements: one function for scalars and fixed vectors, floats and integers alike.

Element types are signless here; where the sign matters the caller says so. Every function is total: division, shifts
and casts are guarded, since the models' data decides their operands.
"""

from __future__ import annotations

import re

from mlir import ir
from mlir.dialects import arith, vector

# bool is a byte in memory; halves move as integers, since LLVM takes masked moves of them apart where the target has no
# arithmetic for them (and calls a function that nobody supplies)
STORAGE = {"i1": "i8", "f16": "i16", "bf16": "i16"}
# The element types that kernels compute with.
ELEMENTS = frozenset(["i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "bf16", "f32", "f64"])
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def element_type(elem: str) -> ir.Type:
    """The signless type that computes with `elem` ("ui8" → i8, "i1" → i1)."""
    return ir.Type.parse("i" + elem[2:] if elem.startswith("ui") else elem)


def storage_type(elem: str) -> ir.Type:
    """The type that holds `elem` in memory."""
    return element_type(STORAGE.get(elem, elem))


def bit_width(elem: str) -> int:
    """Bits of one element in memory ("ui8" → 8, "bf16" → 16, "f8E4M3FN" → 8, "i1" → 8)."""
    return int(re.match(r"[a-z]+(\d+)", STORAGE.get(elem, elem)).group(1))


def from_storage(v: ir.Value, elem: str) -> ir.Value:
    """What was loaded, as a value to compute with."""
    if elem == "i1":
        return arith.cmpi(1, v, constant_like(0, v))
    return arith.bitcast(like(v, element_type(elem)), v) if elem in STORAGE else v


def to_storage(v: ir.Value, elem: str) -> ir.Value:
    """A computed value, as it is stored."""
    if elem == "i1":
        return arith.extui(like(v, storage_type(elem)), v)
    return arith.bitcast(like(v, storage_type(elem)), v) if elem in STORAGE else v


def byte_width(elem: str) -> int:
    """Bytes of one element in memory."""
    return max(1, bit_width(elem) // 8)


def is_float(elem: str) -> bool:
    return elem in _BITS or elem.startswith("f8")


def is_unsigned(elem: str) -> bool:
    return elem.startswith("ui") or elem == "i1"


def vector_of(type_: ir.Type, width: int) -> ir.Type:
    return ir.VectorType.get([width], type_) if width > 1 else type_


def scalar_type(v: ir.Value) -> ir.Type:
    return ir.VectorType(v.type).element_type if isinstance(v.type, ir.VectorType) else v.type


def like(v: ir.Value, scalar: ir.Type) -> ir.Type:
    """`scalar`, as a vector of v's width if v is a vector."""
    return ir.VectorType.get(ir.VectorType(v.type).shape, scalar) if isinstance(v.type, ir.VectorType) else scalar


def constant(number: float | int | bool, type_: ir.Type) -> ir.Value:
    """A constant of a scalar type, or the splat of it for a vector type."""
    if isinstance(type_, ir.VectorType):
        scalar = ir.VectorType(type_).element_type
        return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, _attribute(number, scalar)))
    return arith.constant(type_, _attribute(number, type_))


def _attribute(number, scalar: ir.Type) -> ir.Attribute:
    if isinstance(scalar, ir.FloatType):
        return ir.FloatAttr.get(scalar, float(number))
    if isinstance(scalar, ir.IndexType):
        return ir.IntegerAttr.get(scalar, int(number))
    width = ir.IntegerType(scalar).width
    number = int(number) & ((1 << width) - 1)
    return ir.IntegerAttr.get(scalar, number - (1 << width) if number >> (width - 1) and width > 1 else number)


def constant_like(number, v: ir.Value) -> ir.Value:
    return constant(number, v.type)


def splat(v: ir.Value, width: int) -> ir.Value:
    """A scalar repeated in `width` lanes; unchanged for width 1 or a vector."""
    if width == 1 or isinstance(v.type, ir.VectorType):
        return v
    return vector.broadcast(vector_of(v.type, width), v)


def floats(v: ir.Value) -> bool:
    return isinstance(scalar_type(v), ir.FloatType)


def add(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.addf(a, b) if floats(a) else arith.addi(a, b)


def sub(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.subf(a, b) if floats(a) else arith.subi(a, b)


def mul(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.mulf(a, b) if floats(a) else arith.muli(a, b)


def neg(a: ir.Value) -> ir.Value:
    return arith.negf(a) if floats(a) else arith.subi(constant_like(0, a), a)


def div(a: ir.Value, b: ir.Value, unsigned: bool = False) -> ir.Value:
    """Quotient, integers truncated toward zero; x/0 is 0 and INT_MIN/-1 is INT_MIN (both undefined in ONNX)."""
    if floats(a):
        return arith.divf(a, b)
    zero = constant_like(0, b)
    by_zero = arith.cmpi(0, b, zero)
    if unsigned:
        return arith.select(by_zero, zero, arith.divui(a, arith.select(by_zero, constant_like(1, b), b)))
    minus_one = arith.cmpi(0, b, constant_like(-1, b))
    safe = arith.select(arith.ori(by_zero, minus_one), constant_like(1, b), b)
    return arith.select(by_zero, zero, arith.select(minus_one, neg(a), arith.divsi(a, safe)))


def rem(a: ir.Value, b: ir.Value, unsigned: bool = False) -> ir.Value:
    """Remainder of integers with the sign of `a`; x%0 is 0."""
    bad = arith.cmpi(0, b, constant_like(0, b))
    if not unsigned:
        bad = arith.ori(bad, arith.cmpi(0, b, constant_like(-1, b)))
    safe = arith.select(bad, constant_like(1, b), b)
    rest = arith.remui(a, safe) if unsigned else arith.remsi(a, safe)
    return arith.select(bad, constant_like(0, a), rest)


_CMPF = {"==": 1, ">": 2, ">=": 3, "<": 4, "<=": 5, "!=": 13}  # ordered, except != (unordered or unequal)
_CMPI = {"==": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
_CMPU = {"==": 0, "!=": 1, "<": 6, "<=": 7, ">": 8, ">=": 9}


def compare(a: ir.Value, predicate: str, b: ir.Value, unsigned: bool = False) -> ir.Value:
    """i1 per lane; with a NaN every predicate is false but !=."""
    if floats(a):
        return arith.cmpf(_CMPF[predicate], a, b)
    return arith.cmpi((_CMPU if unsigned else _CMPI)[predicate], a, b)


def is_nan(a: ir.Value) -> ir.Value:
    return arith.cmpf(14, a, a)  # unordered


def select(condition: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    if floats(a) and scalar_type(a).width == 16:  # as integers: a choice of halves may become a library call
        bits = like(a, element_type("i16"))
        chosen = arith.select(condition, arith.bitcast(bits, a), arith.bitcast(bits, b))
        return arith.bitcast(a.type, chosen)
    return arith.select(condition, a, b)


def maximum(a: ir.Value, b: ir.Value, unsigned: bool = False) -> ir.Value:
    """The larger; NaN if `a` or `b` is NaN."""
    if floats(a):
        larger = select(compare(a, ">", b), a, b)  # b where unordered
        return select(is_nan(a), a, larger)
    return arith.maxui(a, b) if unsigned else arith.maxsi(a, b)


def minimum(a: ir.Value, b: ir.Value, unsigned: bool = False) -> ir.Value:
    """The smaller; NaN if `a` or `b` is NaN."""
    if floats(a):
        smaller = select(compare(a, "<", b), a, b)
        return select(is_nan(a), a, smaller)
    return arith.minui(a, b) if unsigned else arith.minsi(a, b)


def logical_not(a: ir.Value) -> ir.Value:
    return arith.xori(a, constant_like(1 if scalar_type(a).width == 1 else -1, a))


def cast(v: ir.Value, source: str, target: str) -> ir.Value:
    """ONNX Cast between element types; float → integer truncates, out of range and NaN give the most negative value."""
    if source == target:
        return v
    to = like(v, element_type(target))
    if target == "i1":
        return arith.cmpf(13, v, constant_like(0, v)) if is_float(source) else arith.cmpi(1, v, constant_like(0, v))
    if is_float(source):
        return _float_cast(v, source, target, to) if is_float(target) else _float_to_integer(v, source, target)
    if is_float(target):
        if target in ("f16", "bf16"):
            return cast(cast(v, source, "f32"), "f32", target)
        return (arith.uitofp if is_unsigned(source) else arith.sitofp)(to, v)
    have, want = scalar_type(v).width, ir.IntegerType(element_type(target)).width
    if have == want:
        return v
    if have > want:
        return arith.trunci(to, v)
    return (arith.extui if is_unsigned(source) else arith.extsi)(to, v)


def _float_cast(v: ir.Value, source: str, target: str, to: ir.Type) -> ir.Value:
    """Halves are one step from f32 only: other steps are library calls, and onnxruntime goes through f32, too."""
    if {source, target} & {"f16", "bf16"} and "f32" not in (source, target):
        return cast(cast(v, source, "f32"), "f32", target)
    if source == "bf16":  # the upper half of an f32
        bits = arith.extui(like(v, element_type("i32")), arith.bitcast(like(v, element_type("i16")), v))
        return arith.bitcast(to, arith.shli(bits, constant_like(16, bits)))
    if target == "bf16":
        return _rounded_to_bf16(v, to)
    return arith.extf(to, v) if _BITS[source] < _BITS[target] else arith.truncf(to, v)


def _rounded_to_bf16(v: ir.Value, to: ir.Type) -> ir.Value:
    """To nearest, ties to even, in integers: few targets have an instruction for it."""
    bits = arith.bitcast(like(v, element_type("i32")), v)
    upper = arith.shrui(bits, constant_like(16, bits))
    odd = arith.andi(upper, constant_like(1, bits))
    rounded = arith.shrui(arith.addi(bits, arith.addi(odd, constant_like(0x7FFF, bits))), constant_like(16, bits))
    quiet = arith.ori(upper, constant_like(0x40, bits))
    half = arith.trunci(like(v, element_type("i16")), arith.select(is_nan(v), quiet, rounded))
    return arith.bitcast(to, half)


def _float_to_integer(v: ir.Value, source: str, target: str) -> ir.Value:
    if _BITS[source] < 32:
        v, source = _float_cast(v, source, "f32", like(v, element_type("f32"))), "f32"
    bits = int(target.lstrip("ui"))
    through = 64 if bits == 64 or target == "ui32" else 32  # narrower ones wrap, as x86 and onnxruntime do
    limit = float(2 ** (through - 1))
    within = arith.andi(compare(v, ">=", constant_like(-limit, v)), compare(v, "<", constant_like(limit, v)))
    wide = like(v, element_type(f"i{through}"))
    safe = arith.fptosi(wide, arith.select(within, v, constant_like(0, v)))
    whole = arith.select(within, safe, constant_like(-(2 ** (through - 1)), safe))
    if target == "ui64":  # the upper half of the range
        high = arith.andi(compare(v, ">=", constant_like(limit, v)), compare(v, "<", constant_like(2 * limit, v)))
        shifted = arith.fptosi(wide, arith.select(high, arith.subf(v, constant_like(limit, v)), constant_like(0, v)))
        return arith.select(high, arith.xori(shifted, constant_like(-(2**63), shifted)), whole)
    return cast(whole, f"i{through}", target)
