"""`run`: a model's calls in order. Control flow is in `control_flow.py`, what code is built from in `machine.py`."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, func, llvm

from onnxc.dialects import dims
from onnxc.dialects.onnx import node_name
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import constant_array
from onnxc.passes.contract import Program
from onnxc.passes.dim_names import PlainDims
from onnxc.passes.kernel_calls import callee_of, dims_of
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.kernel_function import LEAST_PICOSECONDS, KernelFunction, Launch, launch_of
from onnxc.passes.main import bands, control_flow, shims
from onnxc.passes.main.machine import OUT_OF_MEMORY, Machine
from onnxc.passes.main.prepare import bind_inputs
from onnxc.passes.main.requirements import emit_requirement


@dataclass
class Kernel:
    """What a call needs to know of its kernel."""

    symbols: list[str]
    launch: Launch
    failures: list[tuple[int, str]]
    op_names: list[str]


class RunEmitter:
    """Emits `@<name>_run`; `pointers` holds where each tensor of main lies."""

    def __init__(self, program: Program, main: ir.Operation, kernels: dict[str, ir.Operation]):
        self.program, self.main = program, main
        self.kernels = {name: _kernel(f) for name, f in kernels.items()}
        self.block = main.regions[0].blocks[0]
        self.pointers: dict[ir.Value, ir.Value] = {}
        self.dim_names = PlainDims(program)
        self.band_plans = 0  # so many constants there are

    def emit(self) -> None:
        ptr, i32 = ir.Type.parse("!llvm.ptr"), ir.IntegerType.get_signless(32)
        function = func.FuncOp(f"{self.program.name}_run", ([ptr] * 5, [i32]))
        self.m = m = Machine(function, self.program.parts.errors)
        self.env, inputs, in_dims, outputs, self.workspace = m.entry.arguments
        bind_inputs(m, self.main, in_dims)
        with m.at():
            self.weights_pointer = m.load(ptr, self.offset(self.env, shims.WEIGHTS))
            for i, argument in enumerate(self.block.arguments):
                self.pointers[argument] = m.load(ptr, inputs, i)
        self._outputs(outputs)
        self.emit_block(self.block)
        self._return()
        m.finish()

    def offset(self, base: ir.Value, bytes_: im.Index) -> ir.Value:
        return self.m.offset(base, bytes_)

    def _outputs(self, outputs: ir.Value) -> None:
        returned = list(self.block.operations[len(self.block.operations) - 1].operands)
        self.output_pointers: list[ir.Value | None] = []
        for i, v in enumerate(returned):
            static = all(self.m.is_bound(d) for d in Tensor.of(v.type).dims)
            with self.m.at():
                self.output_pointers.append(self.m.load(self.m.ptr, outputs, i) if static else None)

    def emit_block(self, block: ir.Block) -> None:
        """Code for every op of a block but its terminator."""
        emitters = {
            "onnx.Constant": self._constant,
            "onnx.None": lambda op: None,
            "onnx.If": lambda op: control_flow.emit_if(self, op),
            "onnx.Loop": lambda op: control_flow.emit_loop(self, op),
            "kernel.call": self._call,
            "kernel.bands": lambda op: bands.emit_bands(self, op),
            "kernel.view": self._view,
            "kernel.scratch": self._scratch,
            "kernel.join": self._scratch,
            "kernel.bind_dims": self._bind_dims,
            "kernel.require": lambda op: emit_requirement(self.m, op, self.dim_names),
        }
        ops = [view.operation for view in block.operations]
        for op in ops[:-1]:
            emitters[op.name](op)

    def _constant(self, op: ir.Operation) -> None:
        """Weights lie behind one another, each once, aligned for vectors."""
        stored = "weight" in op.attributes
        key = ir.StringAttr(op.attributes["weight"]).value if stored else f"value {op.attributes['value']}"
        entry = key if stored else constant_array(op, self.program.weights)
        size = self.program.weights.nbytes(key) if isinstance(entry, str) else entry.nbytes
        place = self.program.parts.place_weight(key, entry, size)
        with self.m.at():
            self.pointers[op.results[0]] = self.offset(self.weights_pointer, place)

    def _view(self, op: ir.Operation) -> None:
        source, result = (Tensor.of(v.type) for v in (op.operands[0], op.results[0]))
        if source.numel != result.numel:
            extents = [self.m.dim(d) for d in result.dims]
            for extent in extents:
                if not isinstance(extent, int):
                    with self.m.at():
                        fine = im.compare(extent, ">=", 0)
                    self.m.require(fine, f"{_where(op, 'Reshape')}: a dim of the result is negative ({result})")
            have = self.m.checked_bytes([self.m.dim(d) for d in source.dims], 1)
            want = self.m.checked_bytes(extents, 1)
            with self.m.at():
                same = im.compare(have, "==", want)
            self.m.require(same, f"{_where(op, 'Reshape')}: a tensor {source} cannot be reshaped to {result}")
        self.pointers[op.results[0]] = self.pointers[op.operands[0]]

    def _scratch(self, op: ir.Operation) -> None:
        """Memory that a kernel works in, or that parts have been written to: a place; nothing is written to it here."""
        self.pointers[op.results[0]] = self._place(op.results[0], ir.StringAttr(op.attributes["places"][0]).value)

    def _bind_dims(self, op: ir.Operation) -> None:
        tensor = Tensor.of(op.operands[0].type)
        with self.m.at():
            width = scalars.byte_width(tensor.elem)
            for i, name in enumerate(op.attributes["symbols"]):
                element = self.m.load(scalars.storage_type(tensor.elem), self.pointers[op.operands[0]], i, width)
                self.m.bind(ir.StringAttr(name).value, self._to_index(element, tensor.elem))

    def _to_index(self, element: ir.Value, elem: str) -> ir.Value:
        index = ir.IndexType.get()
        return arith.index_castui(index, element) if scalars.is_unsigned(elem) else arith.index_cast(index, element)

    def _call(self, op: ir.Operation) -> None:
        kernel = self.kernels[callee_of(op)]
        values = dims_of(op)
        self.place_results(op)
        symbols = [self.m.dim(values[s]) for s in kernel.symbols]
        counts = (kernel.launch.extent, kernel.launch.independent, kernel.launch.picoseconds)
        extent, turn, picoseconds = (self.m.dim(dims.substitute(d, values)) for d in counts)
        with self.m.at():
            pointers = [self.pointers[v] for v in [*op.operands, *op.results]]
            if kernel.failures:
                pointers.append(self.offset(self.env, shims.STATUS))
            self._launch(op, pointers, symbols, extent, turn, picoseconds)
        if kernel.failures:
            self._check_status(op, kernel)

    def place_results(self, op: ir.Operation) -> None:
        """Finds where the results of an op that has places lie."""
        for result, place in zip(op.results, op.attributes["places"], strict=True):
            self.pointers[result] = self._place(result, ir.StringAttr(place).value)

    def _launch(
        self, op: ir.Operation, pointers, symbols, extent: im.Index, turn: im.Index, picoseconds: im.Index
    ) -> None:
        m = self.m
        arguments = m.arguments(len(pointers) + len(symbols))
        for i, pointer in enumerate(pointers):
            m.store(pointer, arguments, i)
        for i, symbol in enumerate(symbols, len(pointers)):
            m.store(m.as_i64(symbol), arguments, i)
        name = callee_of(op)
        if self.program.options.threads == 1 or not _shared(turn, picoseconds):
            m.call(name, [], [arguments, arith.constant(m.i64, 0), m.as_i64(extent)])
            return
        type_ = ir.FunctionType.get([m.ptr, m.i64, m.i64], [])
        function = func.ConstantOp(type_, ir.FlatSymbolRefAttr.get(name)).result
        operands = [self.env, function, arguments, *(m.as_i64(n) for n in (extent, turn, picoseconds))]
        m.call("onnxc_shim_parallel", [], operands)

    def _check_status(self, op: ir.Operation, kernel: Kernel) -> None:
        m = self.m
        nodes = [ir.StringAttr(a).value for a in op.attributes["nodes"]]
        first = len(m.errors)
        m.errors += [f"node '{nodes[i]}' ({kernel.op_names[i]}): {message}" for i, message in kernel.failures]
        with m.at():
            status = m.load(m.i32, self.env, shims.STATUS, 1)
            zero = arith.constant(m.i32, 0)
            bad = arith.cmpi(1, status, zero)
            code = arith.addi(status, arith.constant(m.i32, first)) if first else status
        m.leave_if(bad, code)

    def _place(self, v: ir.Value, place: str) -> ir.Value:
        kind, _, where = place.partition(" ")
        if kind == "output":
            number, _, offset = where.partition(" ")
            with self.m.at():
                return self.offset(self.output_pointers[int(number)], int(offset or 0))
        if kind == "workspace":
            offset = self.m.dim(dims.parse(where))
            with self.m.at():
                return self.offset(self.workspace, offset)
        tensor = Tensor.of(v.type)
        return self.m.allocate(self.env, [self.m.dim(d) for d in tensor.dims], scalars.byte_width(tensor.elem))

    def _return(self) -> None:
        """Copies the outputs that were not written in place, and hands over those whose size was not known before."""
        m = self.m
        for i, v in enumerate(self.block.operations[len(self.block.operations) - 1].operands):
            tensor, source, target = Tensor.of(v.type), self.pointers[v], self.output_pointers[i]
            if source is target:
                continue
            extents = [m.dim(d) for d in tensor.dims]
            bytes_ = m.checked_bytes(extents, scalars.byte_width(tensor.elem))
            if target is None:
                target = self._ask_for_output(i, extents, bytes_)
            with m.at():
                m.copy(target, source, bytes_)

    def _ask_for_output(self, i: int, extents: list[im.Index], bytes_: im.Index) -> ir.Value:
        m = self.m
        with m.at():
            shape = m.arguments(max(1, len(extents)))
            for axis, extent in enumerate(extents):
                m.store(m.as_i64(extent), shape, axis)
            index = arith.constant(m.i32, i)
            target = m.call("onnxc_shim_output", [m.ptr], [self.env, index, shape, m.as_i64(bytes_)])
            bad = llvm.ICmpOp(ir.IntegerAttr.get(m.i64, 0), target, llvm.ZeroOp(m.ptr).result).result
        m.leave_if(bad, OUT_OF_MEMORY)
        return target


def _shared(units: im.Index, picoseconds: im.Index) -> bool:
    """Whether threads may share a round: there is more than one unit, and work enough; or only the run can tell."""
    if not isinstance(units, int) or not isinstance(picoseconds, int):
        return units not in (0, 1) and picoseconds != 0
    return units > 1 and units * picoseconds >= LEAST_PICOSECONDS


def _kernel(function: ir.Operation) -> Kernel:
    kernel = KernelFunction.of(function)
    return Kernel(kernel.symbols, launch_of(function), kernel.failures, [op.name for op in kernel.ops])


def _where(op: ir.Operation, operator: str) -> str:
    return f"node '{node_name(op.location)}' ({operator})"
