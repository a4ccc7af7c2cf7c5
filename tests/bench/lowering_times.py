"""Times kernels on their way from text to LLVM IR: our direct emission against upstream's linalg and bufferization.

    python -m tests.bench.lowering_times

Both start from the text of one function of dynamic size and end with the text of its LLVM IR. Upstream's softmax is the
shorter one: its exp stays a call into libm, ours is written out. The medians of 30 runs in one process, in ms.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from mlir import ir, passmanager
from mlir.dialects import llvm

from onnxc.build_kernel import kernel_llvm_ir
from onnxc.dialects.onnx import new_context
from onnxc.opt import apply_passes
from onnxc.targets import target_for

RUNS = 30
X, ROWS = 'tensor<?x1024xf32, ["N", 1024]>', 'tensor<?x1xf32, ["N", 1]>'
OURS = {
    "chain": f"""func.func @main(%x: {X}, %b: tensor<1024xf32>, %s: {ROWS}) -> {X} {{
        %0 = "onnx.Add"(%x, %b) : ({X}, tensor<1024xf32>) -> {X}
        %1 = "onnx.Relu"(%0) : ({X}) -> {X}
        %2 = "onnx.Mul"(%1, %s) : ({X}, {ROWS}) -> {X}
        return %2 : {X} }}""",
    "softmax": f"""func.func @main(%x: {X}) -> {X} {{
        %0 = "onnx.Softmax"(%x) {{axis = -1 : i64}} : ({X}) -> {X}
        return %0 : {X} }}""",
    "sum": f"""func.func @main(%x: {X}) -> {ROWS} {{
        %n = "onnx.None"() : () -> none
        %0 = "onnx.ReduceSum"(%x, %n) {{operand_values = {{"1" = [1]}}}} : ({X}, none) -> {ROWS}
        return %0 : {ROWS} }}""",
}
MAPS = """#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>
#column = affine_map<(i, j) -> (i, 0)>
#kept = affine_map<(i, j) -> (i)>
"""
EMPTY = """%c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x1024xf32>
  %e = tensor.empty(%n) : tensor<?x1024xf32>
  %r = tensor.empty(%n) : tensor<?xf32>
"""
PARALLEL, REDUCTION = '["parallel", "parallel"]', '["parallel", "reduction"]'


def generic(result: str, maps: str, kinds: str, reads: str, types: str, out: str, type_: str, body: str) -> str:
    arguments = ", ".join(f"%a{i}: f32" for i in range(maps.count(",") + 1))
    return f"""{result} = linalg.generic {{indexing_maps = [{maps}], iterator_types = {kinds}}}
      ins({reads} : {types}) outs({out} : {type_}) {{
    ^bb0({arguments}):
      {body}
      linalg.yield %v : f32
    }} -> {type_}
"""


FULL = "tensor<?x1024xf32>"
LINALG = {
    "chain": f"""func.func @main(%x: {FULL}, %b: tensor<1024xf32>, %s: tensor<?x1xf32>) -> {FULL} {{
  {EMPTY} %zero = arith.constant 0.0 : f32
  """
    + generic("%0", "#full, #row, #full", PARALLEL, "%x, %b", f"{FULL}, tensor<1024xf32>", "%e", FULL,
              "%v = arith.addf %a0, %a1 : f32")
    + generic("%1", "#full, #full", PARALLEL, "%0", FULL, "%e", FULL, "%v = arith.maximumf %a0, %zero : f32")
    + generic("%2", "#full, #column, #full", PARALLEL, "%1, %s", f"{FULL}, tensor<?x1xf32>", "%e", FULL,
              "%v = arith.mulf %a0, %a1 : f32")
    + f"return %2 : {FULL} }}",
    "softmax": f"""func.func @main(%x: {FULL}) -> {FULL} {{
  {EMPTY} %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %lows = linalg.fill ins(%low : f32) outs(%r : tensor<?xf32>) -> tensor<?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%r : tensor<?xf32>) -> tensor<?xf32>
  """
    + generic("%0", "#full, #kept", REDUCTION, "%x", FULL, "%lows", "tensor<?xf32>", "%v = arith.maximumf %a0, %a1 : f32")
    + generic("%1", "#full, #kept, #full", PARALLEL, "%x, %0", f"{FULL}, tensor<?xf32>", "%e", FULL,
              "%d = arith.subf %a0, %a1 : f32\n %v = math.exp %d : f32")
    + generic("%2", "#full, #kept", REDUCTION, "%1", FULL, "%zeros", "tensor<?xf32>", "%v = arith.addf %a0, %a1 : f32")
    + generic("%3", "#full, #kept, #full", PARALLEL, "%1, %2", f"{FULL}, tensor<?xf32>", "%e", FULL,
              "%v = arith.divf %a0, %a1 : f32")
    + f"return %3 : {FULL} }}",
    "sum": f"""func.func @main(%x: {FULL}) -> tensor<?xf32> {{
  {EMPTY} %zero = arith.constant 0.0 : f32
  %zeros = linalg.fill ins(%zero : f32) outs(%r : tensor<?xf32>) -> tensor<?xf32>
  """
    + generic("%0", "#full, #kept", REDUCTION, "%x", FULL, "%zeros", "tensor<?xf32>", "%v = arith.addf %a0, %a1 : f32")
    + "return %0 : tensor<?xf32> }",
}  # fmt: skip
UPSTREAM = (
    "func.func(linalg-fuse-elementwise-ops)", "canonicalize", "cse", "eliminate-empty-tensors",
    "one-shot-bufferize{bufferize-function-boundaries=1 allow-return-allocs-from-loops=1 "
    "function-boundary-type-conversion=identity-layout-map}", "canonicalize", "cse",
    "convert-linalg-to-loops", "convert-vector-to-scf", "lower-affine", "convert-scf-to-cf", "expand-strided-metadata",
    "lower-affine", "convert-vector-to-llvm", "convert-math-to-llvm", "finalize-memref-to-llvm", "convert-arith-to-llvm",
    "convert-index-to-llvm", "convert-func-to-llvm", "convert-cf-to-llvm", "convert-ub-to-llvm",
    "reconcile-unrealized-casts",
)  # fmt: skip


def upstream(text: str) -> str:
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse(f"builtin.module({','.join(UPSTREAM)})").run(module.operation)
        return llvm.translate_module_to_llvmir(module.operation)


def kernel_text(text: str) -> str:
    """The kernel of a main of one kernel, as a worker gets it."""
    lowered = apply_passes(text, ["group_operators", "outline_kernels", "choose_schedules"])
    with new_context():
        functions = ir.Module.parse(lowered).body.operations
        return next(str(f) for f in functions if "kernel.kind" in f.attributes)


def milliseconds(run: Callable[[], str]) -> tuple[float, int]:
    """(median time, lines of the result) of a run, after a first one that is not counted."""
    lines, times = run().count("\n"), []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times), lines


def main() -> None:
    """Prints a line for each kernel."""
    target = target_for()
    for name, text in OURS.items():
        kernel = kernel_text(text)
        ours, our_lines = milliseconds(lambda kernel=kernel: kernel_llvm_ir(kernel, target))
        theirs, their_lines = milliseconds(lambda name=name: upstream(MAPS + LINALG[name]))
        print(f"{name:8} ours {ours:5.1f} ms, {our_lines} lines   linalg {theirs:5.1f} ms, {their_lines} lines")


if __name__ == "__main__":
    main()
