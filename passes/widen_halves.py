"""graph -> graph: what multiplies, sums or compares f16 and bf16, or takes their exponentials, works in f32.

Before:  %y = "onnx.MatMul"(%x, %w) : (tensor<4x8xf16>, tensor<8x9xf16>) -> tensor<4x9xf16>
         %z = "onnx.Add"(%y, %b) : (tensor<4x9xf16>, tensor<9xf16>) -> tensor<4x9xf16>
After:   %0 = "onnx.Cast"(%x) {to = 1}     %1 = "onnx.Cast"(%w) {to = 1}     %2 = "onnx.MatMul"(%0, %1)   : in f32
         %y = "onnx.Cast"(%2) {to = 10}    %3 = "onnx.Cast"(%y) {to = 1}     %5 = "onnx.Add"(%3, %4)      : in f32
         %z = "onnx.Cast"(%5) {to = 10}
What follows such an op stays wide, so that memory holds f32 from one product to the next, and no inner loop converts
what it multiplies; each op still rounds to halves, unless it gives halves anyway. Constant weights are narrowed again
where they are packed (pack_weights.py), which the note of this pass asks for. What comes before the first product, and
products with what a caller gives (a cache of keys and values), stay as they are.
Keeps:   types of all other values, locations.       Leaves: none of the operators of SUMS on halves.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.graph_builder import GraphBuilder
from onnxc.passes.lowering.registry import AS_STORED, ELEMENTWISE, HALVES
from onnxc.passes.rewriting import functions, operations, retyped

_NAMES = """
    ArgMax ArgMin Attention AveragePool GRU GlobalAveragePool GlobalMaxPool LRN LSTM LayerNormalization LogSoftmax
    LpPool MaxPool RMSNormalization RNN ReduceL1 ReduceL2 ReduceLogSum ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare Softmax TopK
"""
_MOVES = """
    Concat DepthToSpace Expand Flatten Gather Identity Pad Reshape Slice SpaceToDepth Split Squeeze Tile Transpose
    Unsqueeze
"""
_EXACT = """
    Abs ArgMax ArgMin Ceil Clip Floor GlobalMaxPool Max MaxPool Min Neg ReduceMax ReduceMin Relu Round Sign TopK Where
"""
PRODUCTS = {"onnx.Conv", "onnx.ConvTranspose", "onnx.Gemm", "onnx.MatMul", "onnx.microsoft.FusedMatMul"}
SUMS = frozenset(f"onnx.{name}" for name in _NAMES.split()) | {"kernel.cumulative"}
MOVES = frozenset(f"onnx.{name}" for name in _MOVES.split())
#: of halves they give halves: nothing to round
EXACT = MOVES | {f"onnx.{name}" for name in _EXACT.split()}
WIDENED = "widen_halves"  # the note
FEW_COLUMNS = 16  # of a product, that do not pay for widening what a caller gives
SMALL = 1 << 14  # elements of constants that are stored in f32


@transforms(GRAPH, GRAPH)
def widen_halves(program: Program) -> None:
    """See the file's docstring."""
    for function in functions(program.module):
        ops = list(operations(function.regions[0].blocks[0]))
        if not any(_is_half(r) for op in ops for r in op.results):
            continue
        widening = _Widening(GraphBuilder(program.weights), ops)
        for op in ops:
            if widening.wants(op):
                widening.apply(op)
        program.notes[WIDENED] = True


def _is_half(v: ir.Value) -> bool:
    return not isinstance(v.type, (ir.NoneType, ir.UnrankedTensorType)) and Tensor.of(v.type).elem in HALVES


class _Widening:
    """Widens ops in program order, and knows what is in f32 by now."""

    def __init__(self, g: GraphBuilder, ops: list[ir.Operation]) -> None:
        self.g = g
        self.wide: dict[ir.Value, ir.Value] = {}  # halves → the same numbers in f32
        self.computed: set[ir.Value] = set()  # halves that were rounded from f32
        for op in ops:
            g.note(op)

    def wants(self, op: ir.Operation) -> bool:
        halves = [v for v in op.operands if _is_half(v)]
        if not halves or len(op.regions):
            return False
        if op.name in PRODUCTS:
            return self._wants_product(op)
        if op.name in SUMS:
            return True
        if op.name == "onnx.Cast":
            return op.operands[0] in self.computed
        if op.name in MOVES:
            return op.operands[0] in self.computed and all(self._is_cheap(v, None) for v in halves)
        if op.name.removeprefix("onnx.") not in ELEMENTWISE or op.name in AS_STORED:
            return False
        shape = Tensor.of(op.results[0].type).shape
        return any(v in self.computed for v in halves) and all(self._is_cheap(v, shape) for v in halves)

    def _wants_product(self, op: ir.Operation) -> bool:
        """Convolutions read what they are given many times; a matrix product at least its left side."""
        left, right = op.operands[0], op.operands[1]
        if op.name in ("onnx.Conv", "onnx.ConvTranspose"):
            return True
        if not self.g.is_constant(right):
            return right in self.computed and (left in self.computed or self.g.is_constant(left))
        n = Tensor.of(op.results[0].type).dims[-1] if len(Tensor.of(right.type).dims) > 1 else 1
        few = isinstance(n, int) and n < FEW_COLUMNS
        return left in self.computed or not few

    def _is_cheap(self, v: ir.Value, shape) -> bool:
        """Whether v in f32 costs nothing: it is there, or a small constant, or widened by the kernel that reads it."""
        tensor = Tensor.of(v.type)
        if v in self.computed or tensor.numel == 1:
            return True
        if self.g.is_constant(v):
            return isinstance(tensor.numel, int) and tensor.numel <= SMALL
        return tensor.shape == shape

    def apply(self, op: ir.Operation) -> None:
        """The op with f32 for halves; its results are rounded behind it."""
        self.g.at(op)
        if op.name == "onnx.Cast" and Tensor.of(op.results[0].type).elem == "f32":
            op.results[0].replace_all_uses_with(self._in_f32(op.operands[0]))
            op.erase()
            return
        operands = [self._in_f32(v) if _is_half(v) else v for v in op.operands]
        cast = op.name == "onnx.Cast"
        types = [Tensor.of(r.type).of_elem("f32").type() if _is_half(r) and not cast else r.type for r in op.results]
        made = retyped(op, operands, types)
        self.g.note(made)
        for old, new in zip(op.results, made.results, strict=True):
            if not _is_half(old) or cast:
                old.replace_all_uses_with(new)
                continue
            rounded = self.g.cast(new, Tensor.of(old.type).elem)
            self.computed.add(rounded)
            if op.name in EXACT:
                self.wide[rounded] = new
            old.replace_all_uses_with(rounded)
        op.erase()

    def _in_f32(self, v: ir.Value) -> ir.Value:
        known = self.wide.get(v)
        if known is None:
            with self.g.behind(v):
                known = self.wide[v] = self.g.cast(v, "f32")
        return known
