"""graph -> graph: what is known of the inputs' free sizes (`program.facts`) goes into the types.

Before:  func.func @main(%x: tensor<?x3x?x?xf32, ["N", 3, "h", "w"]>)          facts: h % 32 == 0, N in 1 … 8
After:   func.func @main(%x: tensor<?x3x?x?xf32, ["N:1..8", 3, "32*'h/32'", "w"]>)
Shape inference, proofs and kernels then fold what follows from it: see dialects/dims/facts.py.
Keeps:   everything else; without facts, all.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.dims import Facts
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.rewriting import functions, match_signature


@transforms(GRAPH, GRAPH)
def apply_facts(program: Program) -> None:
    """See the file's docstring."""
    if not program.facts.names:
        return
    for function in functions(program.module):
        _apply(program.facts, function.regions[0].blocks[0])
        match_signature(function)


def _apply(facts: Facts, block: ir.Block) -> None:
    for argument in block.arguments:
        _retype(facts, argument)
    for op in block.operations:
        for result in op.operation.results:
            _retype(facts, result)
        for region in op.operation.regions:
            for inner in region.blocks:
                _apply(facts, inner)


def _retype(facts: Facts, value: ir.Value) -> None:
    if not isinstance(value.type, ir.RankedTensorType):
        return
    tensor = Tensor.of(value.type)
    known = tensor.of_shape([facts.apply(dim) for dim in tensor.dims])
    if known != tensor:
        value.set_type(known.type(value.type.context))
