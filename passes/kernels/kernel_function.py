"""An outlined kernel at level kernels: a private function over onnx ops, with its kind, schedule and symbols.

func.func private @k3(%x: tensor<?x64xf32, ["N", 64]>, …) -> … attributes {kernel.kind = "map", …} { onnx ops; return }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import func

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor

# Operators whose kernels check the data they meet; the message follows "node 'x' (Op): ".
FAILURES: dict[str, str] = {}


# What one core takes for it, in picoseconds: an element of a cheap chain (written, and read from cache), a multiply-add
# of a contraction, reading a weight from L3. `python -m tests.bench.estimates` measures how well that fits.
ELEMENT = 200
MULTIPLY_ADD = 16
READ = 130
LEAST_PICOSECONDS = 10_000_000  # work that threads may share: below, a kernel is called directly (pool.c: 2 · PART)


@dataclass(frozen=True)
class Launch:
    """How a kernel is called: its parallel extent, and about how long a unit takes; Dims over the kernel's symbols.

    The pool weighs by the time whether threads pay, and how small the pieces may be that they take. `round`: how many
    units are independent, the next as many having to wait for them (a divisor of the extent); None: all."""

    extent: dims.Dim
    picoseconds: dims.Dim = 0
    round: dims.Dim | None = None

    @property
    def independent(self) -> dims.Dim:
        """Units of a round."""
        return self.extent if self.round is None else self.round


def set_launch(function: func.FuncOp, launch: Launch) -> None:
    """The launch as attributes, which main is emitted from."""
    values = {"extent": launch.extent, "picoseconds": launch.picoseconds}
    if launch.round is not None:
        values["round"] = launch.round
    for name, value in values.items():
        function.attributes[f"kernel.{name}"] = ir.StringAttr.get(str(value))


def launch_of(function: func.FuncOp) -> Launch:
    """The launch that `set_launch` has written."""
    found = [
        dims.parse(ir.StringAttr(function.attributes[name]).value) if name in function.attributes else None
        for name in ("kernel.extent", "kernel.picoseconds", "kernel.round")
    ]
    return Launch(*found)


@dataclass
class KernelFunction:
    """A view of a kernel's function: its ops, the values that go in and out, the symbols that its dims hold."""

    func: func.FuncOp
    kind: str
    ops: list[OnnxOp]
    operands: list[ir.Value]
    results: list[ir.Value]
    symbols: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, function: func.FuncOp) -> KernelFunction:
        block = function.regions[0].blocks[0]
        ops = [OnnxOp(op.operation) for op in block.operations if op.operation.name != "func.return"]
        results = list(block.operations[len(block.operations) - 1].operands)
        kind = ir.StringAttr(function.attributes["kernel.kind"]).value
        kernel = cls(function, kind, ops, list(block.arguments), results)
        kernel.symbols = used_symbols(kernel)
        return kernel

    @property
    def symbol(self) -> str:
        """The function's name."""
        return ir.StringAttr(self.func.attributes["sym_name"]).value

    @property
    def root(self) -> OnnxOp:
        """The op that gives the kernel its kind: the first one that is named so."""
        wanted = ir.StringAttr(self.func.attributes["kernel.root"]).value
        return next(op for op in self.ops if op.op.name == wanted)

    @property
    def failures(self) -> list[tuple[int, str]]:
        """(position of the op in the group, message) for every check the kernel makes; status k+1 is entry k."""
        return [(i, FAILURES[op.name]) for i, op in enumerate(self.ops) if op.name in FAILURES]

    @property
    def constants(self) -> frozenset[int]:
        """Positions of the operands that are constant in every call."""
        attributes = self.func.attributes
        return (
            frozenset(ir.DenseI64ArrayAttr(attributes["kernel.constants"]))
            if "kernel.constants" in attributes
            else frozenset()
        )

    def row(self, v: ir.Value) -> dims.Dim:
        """How many elements lie between the rows of an operand or result in memory: its last dim, or more where it is
        a slice of a joined tensor (`kernel.rows`: one number an operand, then one a result; 0: dense)."""
        if "kernel.rows" in self.func.attributes:
            values = [*self.operands, *self.results]
            at = values.index(v, len(self.operands)) if v in self.results else values.index(v)
            row = ir.DenseI64ArrayAttr(self.func.attributes["kernel.rows"])[at]
            if row:
                return row
        shape = Tensor.of(v.type).dims
        return shape[-1] if shape else 1

    def strided(self, v: ir.Value) -> bool:
        """Whether there is something between its rows."""
        shape = Tensor.of(v.type).dims
        return bool(shape) and self.row(v) != shape[-1]

    @property
    def packed(self) -> bool:
        """Whether the operands that the schedule wants packed are so already."""
        return "kernel.packed" in self.func.attributes

    @property
    def streams_weights(self) -> bool:
        """Whether its constants come from memory in each run: those of the model do not stay in caches."""
        return "kernel.streams_weights" in self.func.attributes

    @property
    def schedule(self) -> dict[str, int | str]:
        return read_schedule(self.func, "kernel.schedule")


def kernels_of(module: ir.Module) -> dict[str, KernelFunction]:
    """The kernels of a module by their symbols, in order."""
    found = [KernelFunction.of(f) for f in module.body.operations if "kernel.kind" in f.attributes]
    return {kernel.symbol: kernel for kernel in found}


def read_schedule(op: func.FuncOp | ir.Operation, attribute: str) -> dict[str, int | str]:
    """The schedule in an attribute of that name; empty where there is none."""
    if attribute not in op.attributes:
        return {}
    return {
        e.name: ir.IntegerAttr(e.attr).value if isinstance(e.attr, ir.IntegerAttr) else ir.StringAttr(e.attr).value
        for e in ir.DictAttr(op.attributes[attribute])
    }


def schedule_attribute(schedule: Mapping[str, int | str]) -> ir.DictAttr:
    """The attribute that `read_schedule` reads."""
    i64 = ir.IntegerType.get_signless(64)
    entries = schedule.items()
    return ir.DictAttr.get(
        {k: ir.IntegerAttr.get(i64, v) if isinstance(v, int) else ir.StringAttr.get(v) for k, v in entries}
    )


def used_symbols(kernel: KernelFunction) -> list[str]:
    """Every symbol in the types and operand values of the kernel, sorted: the order of its i64 arguments."""
    found: set[str] = set()
    for v in [*kernel.operands, *(r for op in kernel.ops for r in op.results)]:
        tensor = Tensor.of(v.type) if v.type != ir.NoneType.get() else None
        for d in (tensor.shape or ()) if tensor else ():
            found |= set(dims.symbols(d))
    for op in kernel.ops:
        for values in operand_values(op).values():
            for d in values:
                found |= set(dims.symbols(d))
    return sorted(found)


def operand_values(op: OnnxOp) -> dict[int, list[dims.Dim]]:
    """The operands whose elements are known as dims: position → elements (see passes/infer_shapes.py)."""
    if "operand_values" not in op.op.attributes:
        return {}
    entries = ir.DictAttr(op.op.attributes["operand_values"])
    return {int(e.name): [_dim(a) for a in ir.ArrayAttr(e.attr)] for e in entries}


def _dim(attribute: ir.Attribute) -> dims.Dim:
    if isinstance(attribute, ir.IntegerAttr):
        return attribute.value
    return dims.parse(ir.StringAttr(attribute).value)
