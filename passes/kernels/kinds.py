"""The kernel kinds: which operator is the root of which kind, and the module that emits it.

A kind's module has `launch(kernel) -> Launch`, `emit(builder) -> None` and, if there is a choice, `choose(kernel,
target) -> dict` (the schedule attribute), `candidates(kernel, target) -> list[dict]` (schedules worth trying, that of
`choose` first) and `packings(kernel) -> list[Packing]` (see packing.py). Kinds that go through their result row by row
have `order(kernel) -> RowOrder | None` (see row_order.py), and `finer(kernel, target)`, a schedule of shorter units, if
there may be one.
"""

from __future__ import annotations

from types import ModuleType

from onnxc.passes.kernels import (
    arg_reduce,
    attention,
    compress,
    concat,
    conv,
    conv_planes,
    conv_transpose,
    cumulative,
    depthwise_planes,
    fft,
    fft_input,
    fft_output,
    im2col,
    local_response,
    matmul,
    nms,
    nonzero,
    normalization,
    pad,
    pool,
    pool_planes,
    recurrent,
    reduce,
    resize,
    scatter,
    softmax,
    top_k,
    winograd,
    winograd_input,
    winograd_output,
)
from onnxc.passes.kernels import map as map_kernel

KINDS: dict[str, ModuleType] = {
    "map": map_kernel,
    "concat": concat,
    "attention": attention,
    "conv": conv,
    "conv_planes": conv_planes,
    "conv_transpose": conv_transpose,
    "depthwise_planes": depthwise_planes,
    "fft": fft,
    "fft_input": fft_input,
    "fft_output": fft_output,
    "im2col": im2col,
    "winograd": winograd,
    "winograd_input": winograd_input,
    "winograd_output": winograd_output,
    "matmul": matmul,
    "pad": pad,
    "reduce": reduce,
    "pool": pool,
    "pool_planes": pool_planes,
    "recurrent": recurrent,
    "arg_reduce": arg_reduce,
    "local_response": local_response,
    "compress": compress,
    "cumulative": cumulative,
    "top_k": top_k,
    "nms": nms,
    "nonzero": nonzero,
    "resize": resize,
    "scatter": scatter,
    "softmax": softmax,
    "normalization": normalization,
}

# Full operation name → kind. Ops that are neither roots nor element-wise nor moves have no lowering.
ROOTS: dict[str, str] = {
    "onnx.Concat": "concat",
    "kernel.attention": "attention",
    "kernel.conv": "conv",
    "kernel.conv_planes": "conv_planes",
    "kernel.conv_transpose": "conv_transpose",
    "kernel.depthwise_planes": "depthwise_planes",
    "kernel.fft": "fft",
    "kernel.fft_input": "fft_input",
    "kernel.fft_output": "fft_output",
    "kernel.im2col": "im2col",
    "kernel.winograd": "winograd",
    "kernel.winograd_input": "winograd_input",
    "kernel.winograd_output": "winograd_output",
    "onnx.MatMul": "matmul",
    "onnx.Gemm": "matmul",
    "onnx.microsoft.FusedMatMul": "matmul",
    "onnx.Pad": "pad",
    "kernel.max_pool": "pool",
    "onnx.AveragePool": "pool_planes",
    "onnx.LpPool": "pool_planes",
    "onnx.MaxPool": "pool_planes",
    "kernel.recurrent": "recurrent",
    "kernel.resize": "resize",
    "kernel.nms": "nms",
    "kernel.cumulative": "cumulative",
    "onnx.Compress": "compress",
    "onnx.TopK": "top_k",
    "kernel.nonzero_count": "nonzero",
    "onnx.NonZero": "nonzero",
    "onnx.ScatterElements": "scatter",
    "onnx.ScatterND": "scatter",
    "onnx.ArgMax": "arg_reduce",
    "onnx.ArgMin": "arg_reduce",
    "onnx.LRN": "local_response",
    "kernel.average_pool": "pool",
    "onnx.Softmax": "softmax",
    "onnx.LogSoftmax": "softmax",
    "onnx.LayerNormalization": "normalization",
    "onnx.RMSNormalization": "normalization",
    **{f"onnx.{name}": "reduce" for name in reduce.REDUCTIONS},
}

# Roots whose kernels read each element of an operand once, so that element-wise producers may be computed on the way.
READS_ONCE: set[str] = {
    "onnx.Concat",
    "onnx.Pad",
    "onnx.Softmax",
    "onnx.LogSoftmax",
    "onnx.LayerNormalization",
    "onnx.RMSNormalization",
    "onnx.ArgMax",
    "onnx.ArgMin",
    *(f"onnx.{name}" for name in reduce.REDUCTIONS),
}

# Kinds that evaluate element-wise consumers on their result before they store it.
EPILOGUES: set[str] = {
    "conv",
    "conv_planes",
    "conv_transpose",
    "depthwise_planes",
    "fft",
    "fft_output",
    "im2col",
    "winograd",
    "winograd_output",
    "matmul",
    "reduce",
    "pool",
    "resize",
    "softmax",
    "normalization",
}

# Kinds that keep intermediate values in the result's buffer: all they fuse has the root's element type.
IN_RESULT: set[str] = {"softmax", "normalization"}
