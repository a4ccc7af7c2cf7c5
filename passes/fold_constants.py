"""graph -> graph: what depends on constants alone is computed now.

Before:  %0 = "onnx.Add"(%c1, %c2)       %s = "onnx.Shape"(%x) : (tensor<2x3xf32>) -> tensor<2xi64>
After:   %0 = "onnx.Constant"() {…}      %s = "onnx.Constant"() {value = dense<[2, 3]>}
Also:    an If whose condition is constant becomes its branch; a Loop that makes no trip becomes its initial values.
Keeps:   types, apart from those it makes more exact; random draws; ops whose results would be much bigger than their
         operands (an Expand of a scalar), apart from weights; ops that no evaluator knows.
Results of a megabyte or more are lazy entries of the weight store: computed when read, and not held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

import numpy as np
from mlir import ir

from onnxc.dialects.errors import CompilerBug
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp, is_onnx, node_name
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import build_constant, constant_array, dtype_of, element_of
from onnxc.passes.contract import Program, transforms
from onnxc.passes.evaluators.registry import EVALUATORS, REFERENCE, Node, evaluate
from onnxc.passes.recorded_values import recorded_values
from onnxc.passes.rewriting import functions, match_signature

GROWTH = 4  # results may be four times their operands (int8 weights to f32), or this small:
ALWAYS = 1 << 18
LAZY = 1 << 20
REFERENCE_LIMIT = 1 << 18  # bytes: some of the ReferenceEvaluator's loops run in Python
WEIGHTED = frozenset(("onnx.Conv", "onnx.ConvTranspose", "onnx.Gemm", "onnx.MatMul"))
WORK_LIMIT = 1 << 28  # multiply-adds of a product

Source = Callable[[], np.ndarray]


@transforms(GRAPH, GRAPH)
def fold_constants(program: Program) -> None:
    for function in functions(program.module):
        folder = _Folder(program)
        folder.block(function.regions[0].blocks[0])
        folder.finish()
        match_signature(function)


class _Folder:
    """Walks in program order, operands before users; what other ops read becomes a constant at the end."""

    def __init__(self, program: Program) -> None:
        self.weights = program.weights
        self._constants: dict[ir.Value, ir.Operation] = {}  # ops "onnx.Constant", by result
        self._folded: dict[ir.Value, np.ndarray | str] = {}  # results of folded ops: arrays, or keys of lazy entries
        self._absent: set[ir.Value] = set()
        self._done: list[ir.Operation] = []
        self._read: set[ir.Value] = set()  # values of `_folded` that remaining ops read

    def block(self, block: ir.Block) -> None:
        self._run([view.operation for view in block.operations])

    def _run(self, ops: list[ir.Operation]) -> None:
        for op in ops:
            if op.name == "onnx.Constant":
                self._constants[op.results[0]] = op
            elif op.name == "onnx.None":
                self._absent.add(op.results[0])
            elif op.name in ("onnx.If", "onnx.Loop", "onnx.Scan"):
                self._control(op)
            elif not (is_onnx(op) and self._fold(op)):
                self._read.update(op.operands)

    def finish(self) -> None:
        for op in self._done:
            for result in op.results:
                if result in self._read:
                    result.replace_all_uses_with(self._materialise(self._folded[result], op))
        for op in reversed(self._done):
            op.erase()

    def _materialise(self, folded: np.ndarray | str, op: ir.Operation) -> ir.Value:
        ip = ir.InsertionPoint(op)
        if isinstance(folded, np.ndarray):
            return build_constant(np.asarray(folded, order="C"), self.weights, loc=op.location, ip=ip)
        type = Tensor(element_of(self.weights.dtype(folded)), self.weights.shape(folded)).type(op.context)
        key = {"weight": ir.StringAttr.get(folded, op.context)}
        return ir.Operation.create("onnx.Constant", results=[type], attributes=key, loc=op.location, ip=ip).results[0]

    # -- reading operands

    def _known(self, value: ir.Value) -> bool:
        return value in self._constants or value in self._folded

    def _array(self, value: ir.Value) -> np.ndarray:
        folded = self._folded.get(value)
        if folded is None:
            return constant_array(self._constants[value], self.weights)
        return self.weights.get(folded) if isinstance(folded, str) else folded

    def _source(self, value: ir.Value) -> tuple[str, Source]:
        """What identifies a constant's contents, and how to read it when this pass is long over."""
        op, folded = self._constants.get(value), self._folded.get(value)
        key = folded if isinstance(folded, str) else None
        if op is not None and "weight" in op.attributes:
            key = op.attributes["weight"].value
        if key is not None:
            return key, partial(self.weights.get, key)
        array = self._array(value)
        return f"{array.dtype}{array.shape}{hashlib.sha256(np.ascontiguousarray(array)).hexdigest()}", lambda: array

    # -- one op

    def _fold(self, op: ir.Operation) -> bool:
        """Computes the op if it is worth it; its results are in `_folded` then."""
        name = op.name[len("onnx.") :]
        if name in ("Shape", "Size"):
            return self._fold_shape(op)
        if name not in EVALUATORS and name not in REFERENCE:
            return False
        recorded = _recorded(op)
        if recorded is None or not all(self._known(v) or v in self._absent for v in op.operands):
            return False
        if not self._worth(op, name):
            return False
        node = Node.of(OnnxOp(op))
        if len(op.results) == 1 and _nbytes(op.results[0]) >= LAZY and name in EVALUATORS:
            return self._defer(op, node, recorded)
        arrays = [None if v in self._absent else self._array(v) for v in op.operands]
        for index, array in recorded.items():
            arrays[index] = array
        try:
            results = evaluate(node, arrays)
        except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError):
            return False  # nothing for this evaluator; where the op is wrong, its own check says so better
        return results is not None and self._accept(op, results)

    def _fold_shape(self, op: ir.Operation) -> bool:
        tensor = Tensor.of(op.operands[0].type)
        if tensor.shape is None:
            return False
        node = Node.of(OnnxOp(op))
        chosen = tensor.shape[node.attr("start", 0) : node.attr("end")] if node.name == "Shape" else tensor.shape
        if not all(isinstance(dim, int) for dim in chosen):
            return False
        sizes = np.array(chosen, np.int64)
        return self._accept(op, [sizes if node.name == "Shape" else np.array(sizes.prod(dtype=np.int64))])

    def _worth(self, op: ir.Operation, name: str) -> bool:
        read = sum(_nbytes(v) for v in op.operands if v not in self._absent)
        made = [_nbytes(result) for result in op.results]
        if any(size < 0 for size in made):  # data-dependent: only as many as there are operands
            return name in ("NonZero", "Compress", "Unique") and read <= ALWAYS
        if sum(made) > max(ALWAYS, GROWTH * read) and not _is_weight(op):
            return False
        if name in REFERENCE and read + sum(made) > REFERENCE_LIMIT:
            return False
        if name in ("MatMul", "Gemm"):
            inner = Tensor.of(op.operands[0].type).dims[0 if OnnxOp(op).attr("transA", 0) else -1]
            return inner * Tensor.of(op.results[0].type).numel <= WORK_LIMIT
        return True

    def _accept(self, op: ir.Operation, results: list[np.ndarray]) -> bool:
        for result, array in zip(op.results, results, strict=True):
            tensor = Tensor.of(result.type)
            if array.dtype != dtype_of(tensor.elem) or (tensor.is_static and array.shape != tensor.shape):
                return False
        self._folded.update(zip(op.results, results, strict=True))
        self._done.append(op)
        return True

    def _defer(self, op: ir.Operation, node: Node, recorded: dict[int, np.ndarray]) -> bool:
        """A lazy entry, named by what it is computed from."""
        sources = [("", None) if v in self._absent else self._source(v) for v in op.operands]
        for index, array in recorded.items():
            sources[index] = (str(array.tolist()), partial(np.array, array))
        text = f"{node} {[name for name, _ in sources]}"
        key = f"{node_name(op.location)}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        tensor, reads = node.results[0], [read for _, read in sources]
        self.weights.add_lazy(key, tensor.dims, dtype_of(tensor.elem), partial(_compute, node, reads))
        self._folded[op.results[0]] = key
        self._done.append(op)
        return True

    # -- control flow

    def _control(self, op: ir.Operation) -> None:
        if op.name == "onnx.If" and self._known(op.operands[0]):
            self._inline(op, op.regions[0 if self._array(op.operands[0]).item() else 1].blocks[0])
        elif op.name == "onnx.Loop" and self._never_runs(op) and self._empty_scans(op):
            return
        else:
            self._read.update(op.operands)
            for region in op.regions:
                self.block(region.blocks[0])

    def _inline(self, op: ir.Operation, block: ir.Block) -> None:
        """The branch's ops before the If, its yielded values for the If's results."""
        *inner, end = [view.operation for view in block.operations]
        for moved in inner:
            moved.move_before(op)
        for old, new in zip(op.results, end.operands, strict=True):
            old.replace_all_uses_with(new)
        op.erase()
        self._run(inner)

    def _never_runs(self, op: ir.Operation) -> bool:
        trips, go = op.operands[0], op.operands[1]
        if self._known(trips) and self._array(trips).item() <= 0:
            return True
        return self._known(go) and not self._array(go).item()

    def _empty_scans(self, op: ir.Operation) -> bool:
        """Replaces a Loop without a trip by its initial values, and by empty scan results if their types are static."""
        carried = list(op.operands)[2:]
        scans = [Tensor.of(result.type) for result in list(op.results)[len(carried) :]]
        if not all(t.shape is not None and all(isinstance(d, int) for d in t.shape[1:]) for t in scans):
            return False
        ip = ir.InsertionPoint(op)
        empty = [np.zeros((0, *t.dims[1:]), dtype_of(t.elem)) for t in scans]
        made = [build_constant(array, self.weights, loc=op.location, ip=ip) for array in empty]
        self._constants.update((value, value.owner) for value in made)
        for old, new in zip(op.results, [*carried, *made], strict=True):
            old.replace_all_uses_with(new)
        op.erase()
        return True


def _compute(node: Node, reads: list[Source | None]) -> np.ndarray:
    results = evaluate(node, [None if read is None else read() for read in reads])
    if results is None:
        raise CompilerBug("fold_constants", f"no evaluator for {node.name}")
    return results[0]


def _recorded(op: ir.Operation) -> dict[int, np.ndarray] | None:
    """The operands whose elements inference wrote on the op; None if some of them are not numbers."""
    found = recorded_values(op)
    if not all(isinstance(value, int) for values in found.values() for value in values):
        return None
    return {index: np.array(values, np.int64) for index, values in found.items()}


def _is_weight(op: ir.Operation) -> bool:
    """Whether a contraction reads the result as its weights, which are packed when the model is compiled."""
    uses = [(use.owner.operation.name, use.operand_number) for result in op.results for use in result.uses]
    return any(name in WEIGHTED and index > 0 for name, index in uses)


def _nbytes(value: ir.Value) -> int:
    """The bytes of a tensor of static shape and known elements; -1 for others."""
    tensor = Tensor.of(value.type)
    if tensor.elem == "!onnx.any":
        return -1
    return tensor.numel * dtype_of(tensor.elem).itemsize if tensor.is_static else -1
