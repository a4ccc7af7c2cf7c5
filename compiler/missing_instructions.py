"""Writes out, in LLVM IR, what a CPU has no instruction for and LLVM would call a library function for.

Each operation is replaced by a call of an inlined function, so that loops are still vectorised.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from onnxc.targets import Target

Spell = Callable[[str], str]  # see `_lanes`
Body = Callable[[Spell], str]


def expand_missing(llvm_ir: str, target: Target) -> str:
    """The IR without fma (another last bit), rounding to integers by sums, and conversions from and to half as integer
    arithmetic (both exact) where the target needs it.
    """
    if not target.has_fma:
        llvm_ir = without_fma(llvm_ir)
    if target.arch == "x86_64" and "sse4.1" not in target.features:
        llvm_ir = _without_rounding(llvm_ir)
    if " half" in llvm_ir and "avx512fp16" not in target.features and target.arch != "aarch64":
        llvm_ir = _replace_conversions(llvm_ir, "fptrunc", "double", "half", _double_to_half)
        if "f16c" not in target.features:
            llvm_ir = _compare_as_float(llvm_ir)
            llvm_ir = _replace_conversions(llvm_ir, "fpext", "half", "float", _half_to_float)
            llvm_ir = _replace_conversions(llvm_ir, "fptrunc", "float", "half", _float_to_half)
    return llvm_ir


# a*b + c with the product's and the sum's rounding errors (Dekker's and Knuth's) added back; not where they overflow.
_EXACT_FMA = """
  %p = fmul {t} %a, %b
  %ta = fmul {t} %a, {split}
  %tb = fmul {t} %b, {split}
  %da = fsub {t} %ta, %a
  %db = fsub {t} %tb, %b
  %ah = fsub {t} %ta, %da
  %bh = fsub {t} %tb, %db
  %al = fsub {t} %a, %ah
  %bl = fsub {t} %b, %bh
  %hh = fmul {t} %ah, %bh
  %hl = fmul {t} %ah, %bl
  %lh = fmul {t} %al, %bh
  %ll = fmul {t} %al, %bl
  %e0 = fsub {t} %hh, %p
  %e1 = fadd {t} %e0, %hl
  %e2 = fadd {t} %e1, %lh
  %e3 = fadd {t} %e2, %ll
  %s = fadd {t} %p, %c
  %v = fsub {t} %s, %p
  %w = fsub {t} %s, %v
  %f0 = fsub {t} %p, %w
  %f1 = fsub {t} %c, %v
  %f2 = fadd {t} %f0, %f1
  %e = fadd {t} %e3, %f2
  %ok = fcmp ord {t} %e, {zero}
  %g = select {bit} %ok, {t} %e, {t} {zero}
  %r = fadd {t} %s, %g
  ret {t} %r
"""
_PLAIN_FMA = """
  %p = fmul {t} %a, %b
  %s = fadd {t} %p, %c
  ret {t} %s
"""
_TWO_TO_27_PLUS_1 = "double 0x41A0000002000000"


def without_fma(llvm_ir: str) -> str:
    """The IR without fused multiply-adds, for CPUs where they would be calls of libm's fma.

    f32 in two steps: its polynomials only lose a bit. f64 nearly exactly: double-double arithmetic and the reduction
    of sine arguments rest on it. The results differ in the last bit from those of other CPUs.
    """
    helpers = []
    for declared in re.findall(r"^declare .*@llvm\.fma\..*$", llvm_ir, re.MULTILINE):
        kind, name = re.findall(r"declare (.+?) @llvm\.fma\.([\w.]+)", declared)[0]
        lanes = re.match(r"<(\d+) x ", kind)
        body = (_EXACT_FMA if "double" in kind else _PLAIN_FMA).format(
            t=kind,
            split=f"splat ({_TWO_TO_27_PLUS_1})" if lanes else _TWO_TO_27_PLUS_1.split()[1],
            zero="zeroinitializer" if lanes else "0.0",
            bit=f"<{lanes[1]} x i1>" if lanes else "i1",
        )
        arguments = f"{kind} %a, {kind} %b, {kind} %c"
        helpers.append(f"define internal {kind} @onnxc.fma.{name}({arguments}) alwaysinline {{{body}}}\n")
        llvm_ir = llvm_ir.replace(declared, "").replace(f"@llvm.fma.{name}(", f"@onnxc.fma.{name}(")
    return llvm_ir + "\n" + "\n".join(helpers)


# |x| + 2^m - 2^m is |x| rounded to nearest even, where numbers of the size of 2^m have no fractions, as larger ones.
_ROUND = """
  %bits = bitcast {t} %x to {i}
  %sign = and {i} %bits, {signs}
  %size = xor {i} %bits, %sign
  %a = bitcast {i} %size to {t}
  %fractional = fcmp olt {t} %a, {whole}
  %sum = fadd {t} %a, {whole}
  %near = fsub {t} %sum, {whole}
  %nearbits = bitcast {t} %near to {i}
  %signedbits = or {i} %nearbits, %sign
  %signed = bitcast {i} %signedbits to {t}
  %wrong = fcmp {wrong}
  %next = {next}, {one}
  %right = select {bit} %wrong, {t} %next, {t} %signed
  %rightbits = bitcast {t} %right to {i}
  %rightsize = and {i} %rightbits, {sizes}
  %resultbits = or {i} %rightsize, %sign
  %result = bitcast {i} %resultbits to {t}
  %r = select {bit} %fractional, {t} %result, {t} %x
  ret {t} %r
"""
#: intrinsic → whether the nearest integer is the wrong one, and how the right one comes of it
_ROUNDINGS = {
    "floor": ("ogt {t} %signed, %x", "fsub {t} %signed"),
    "ceil": ("olt {t} %signed, %x", "fadd {t} %signed"),
    "trunc": ("ogt {t} %near, %a", "fsub {t} %near"),
    "roundeven": ("false {t} %x, %x", "fadd {t} %signed"),
    "rint": ("false {t} %x, %x", "fadd {t} %signed"),
    "nearbyint": ("false {t} %x, %x", "fadd {t} %signed"),
}


def _without_rounding(llvm_ir: str) -> str:
    """The IR without roundings to integers, whose instructions came with SSE4.1."""
    helpers = []
    pattern = rf"^declare (.+?) @llvm\.({'|'.join(_ROUNDINGS)})\.([\w.]+)\(.*$"
    for found in list(re.finditer(pattern, llvm_ir, re.MULTILINE)):
        kind, how, name = found.groups()
        lanes = re.match(r"<(\d+) x ", kind)
        spell = _lanes(lanes[1] if lanes else "1")
        bits, m = (64, 52) if "double" in kind else (32, 23)
        wrong, after = _ROUNDINGS[how]
        body = _ROUND.format(
            t=kind,
            i=spell(f"i{bits}"),
            bit=spell("i1"),
            signs=_value(spell, f"i{bits} {-(1 << (bits - 1))}"),
            sizes=_value(spell, f"i{bits} {(1 << (bits - 1)) - 1}"),
            whole=_value(spell, f"{'double' if bits == 64 else 'float'} {float(1 << m)!r}"),
            one=_value(spell, f"{'double' if bits == 64 else 'float'} 1.0"),
            wrong=wrong.format(t=kind),
            next=after.format(t=kind),
        )
        helpers.append(f"define internal {kind} @onnxc.{how}.{name}({kind} %x) alwaysinline {{{body}}}\n")
        llvm_ir = llvm_ir.replace(found.group(), "").replace(f"@llvm.{how}.{name}(", f"@onnxc.{how}.{name}(")
    return llvm_ir + "\n" + "\n".join(helpers)


_HALF_COMPARE = re.compile(
    r"^(?P<result>\s*%\S+) = fcmp (?P<how>[a-z ]+?) (?P<kind>half|<(?P<lanes>\d+) x half>) "
    r"(?P<a>%[^\s,]+|<[^>]*>|splat \([^)]*\)|[^\s,]+), (?P<b>.+)$",
    re.MULTILINE,
)


def _compare_as_float(llvm_ir: str) -> str:
    """Every comparison of halves becomes one of floats, which hold all of them."""
    count = itertools.count()

    def compare(found: re.Match[str]) -> str:
        kind = f"<{found['lanes']} x float>" if found["lanes"] else "float"
        a, b = (f"%onnxc.wide.{next(count)}" for _ in range(2))
        return (
            f"  {a} = fpext {found['kind']} {found['a']} to {kind}\n"
            f"  {b} = fpext {found['kind']} {found['b']} to {kind}\n"
            f"{found['result']} = fcmp {found['how']} {kind} {a}, {b}"
        )

    return _HALF_COMPARE.sub(compare, llvm_ir)


def _replace_conversions(llvm_ir: str, op: str, source: str, to: str, body: Body) -> str:
    """Every `op source … to to`, of scalars or vectors, becomes a call of a function with `body(lanes)`."""
    widths: set[str] = set()

    def call(found: re.Match[str]) -> str:
        result, lanes, value = found.group("result", "lanes", "value")
        widths.add(lanes or "1")
        kind = _lanes(lanes or "1")
        return f"{result} = call {kind(to)} @onnxc.{source}_to_{to}.{lanes or 1}({kind(source)} {value})"

    operand = rf"(?:<(?P<lanes>\d+) x {source}>|{source}) (?P<value>.+?)"
    llvm_ir = re.sub(rf"(?P<result>%\S+) = {op} {operand} to (?:<\d+ x {to}>|{to})$", call, llvm_ir, flags=re.MULTILINE)
    for lanes in sorted(widths, key=int):
        kind = _lanes(lanes)
        head = f"define internal {kind(to)} @onnxc.{source}_to_{to}.{lanes}({kind(source)} %x) alwaysinline {{"
        llvm_ir += f"\n{head}\n{body(kind)}}}\n"
    return llvm_ir


def _lanes(lanes: str) -> Spell:
    """Spells a type of so many lanes; of "i32 5", a constant, too."""

    def spell(element: str) -> str:
        kind, _, value = element.partition(" ")
        if lanes == "1":
            return element
        return f"<{lanes} x {kind}>" + (f" splat ({element})" if value else "")

    return spell


def _half_to_float(t: Spell) -> str:
    """Shifted into place, the exponent is 112 too small: a multiplication mends that, for denormals too."""
    return f"""\
  %b = bitcast {t("half")} %x to {t("i16")}
  %u = zext {t("i16")} %b to {t("i32")}
  %sign = and {t("i32 32768")}, %u
  %high = shl {t("i32")} %sign, {_value(t, "i32 16")}
  %size = and {t("i32 32767")}, %u
  %place = shl {t("i32")} %size, {_value(t, "i32 13")}
  %small = bitcast {t("i32")} %place to {t("float")}
  %scaled = fmul {t("float")} %small, {_value(t, "float 0x46F0000000000000")}
  %finite = bitcast {t("float")} %scaled to {t("i32")}
  %special = or {t("i32 2139095040")}, %place
  %isfinite = icmp ult {t("i32")} %size, {_value(t, "i32 31744")}
  %chosen = select {t("i1")} %isfinite, {t("i32")} %finite, {t("i32")} %special
  %signed = or {t("i32")} %chosen, %high
  %r = bitcast {t("i32")} %signed to {t("float")}
  ret {t("float")} %r
"""


def _float_to_half(t: Spell) -> str:
    """Rounds to nearest even: by integer addition, and for half's denormals by adding 0.5, whose last bit is theirs."""
    return f"""\
  %u = bitcast {t("float")} %x to {t("i32")}
  %sign = and {t("i32 -2147483648")}, %u
  %a = xor {t("i32")} %u, %sign
  %shifted = lshr {t("i32")} %a, {_value(t, "i32 13")}
  %odd = and {t("i32 1")}, %shifted
  %rebased = add {t("i32 -939520001")}, %a
  %rounded = add {t("i32")} %rebased, %odd
  %normal = lshr {t("i32")} %rounded, {_value(t, "i32 13")}
  %f = bitcast {t("i32")} %a to {t("float")}
  %half = fadd {t("float")} %f, {_value(t, "float 5.0e-1")}
  %halfbits = bitcast {t("float")} %half to {t("i32")}
  %denormal = sub {t("i32")} %halfbits, {_value(t, "i32 1056964608")}
  %payload = and {t("i32 1023")}, %shifted
  %nan = or {t("i32 32256")}, %payload
  %isnan = icmp ugt {t("i32")} %a, {_value(t, "i32 2139095040")}
  %special = select {t("i1")} %isnan, {t("i32")} %nan, {t("i32 31744")}
  %issmall = icmp ult {t("i32")} %a, {_value(t, "i32 947912704")}
  %finite = select {t("i1")} %issmall, {t("i32")} %denormal, {t("i32")} %normal
  %isbig = icmp uge {t("i32")} %a, {_value(t, "i32 1199570944")}
  %chosen = select {t("i1")} %isbig, {t("i32")} %special, {t("i32")} %finite
  %low = lshr {t("i32")} %sign, {_value(t, "i32 16")}
  %signed = or {t("i32")} %chosen, %low
  %bits = trunc {t("i32")} %signed to {t("i16")}
  %r = bitcast {t("i16")} %bits to {t("half")}
  ret {t("half")} %r
"""


def _double_to_half(t: Spell) -> str:
    """Through float, rounded to odd so that the second rounding sees what the first one dropped."""
    return f"""\
  %f = fptrunc {t("double")} %x to {t("float")}
  %back = fpext {t("float")} %f to {t("double")}
  %inexact = fcmp one {t("double")} %back, %x
  %u = bitcast {t("float")} %f to {t("i32")}
  %backbits = bitcast {t("double")} %back to {t("i64")}
  %bits = bitcast {t("double")} %x to {t("i64")}
  %isup = icmp ugt {t("i64")} %backbits, %bits
  %up = zext {t("i1")} %isup to {t("i32")}
  %down = sub {t("i32")} %u, %up
  %odd = or {t("i32 1")}, %down
  %chosen = select {t("i1")} %inexact, {t("i32")} %odd, {t("i32")} %u
  %r32 = bitcast {t("i32")} %chosen to {t("float")}
  %r = fptrunc {t("float")} %r32 to {t("half")}
  ret {t("half")} %r
"""


def _value(t: Callable[[str], str], constant: str) -> str:
    """A constant without its type, as a second operand."""
    return t(constant).removeprefix(t(constant.split(" ")[0])).strip()
