"""Times single kernels beside onnxruntime's and beside the multiply-adds that the core can do.

    python -m tests.bench [matmul] [conv] [depthwise] [--json FILE]      (from the repository's top, on a quiet machine)
    python -m tests.bench rows [--mcpu CPU] [--json FILE]                (single operators as models: rows.py)
One thread, its CPU time, all sides interleaved in every round, medians. "cold": a kernel's constants rotate through copies
of 24 MB in all, as they would in a network. onnxruntime gets channels-first tensors, ours channels last.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from onnxc.dialects import dims

from ..kernels.harness import compile_kernel
from ..kernels.test_conv import text_of
from ..kernels.test_matmul import kernel, spell
from . import rows
from .limits import Limits

ROUNDS = 11
BLOCK_NANOSECONDS = 3_000_000
COLD_BYTES = 24_000_000
MATMULS = [(128, 768, 768), (128, 768, 3072), (128, 3072, 768), (49, 2048, 512), (196, 256, 1024), (3136, 64, 256),
           (784, 32, 192), (1024, 1024, 1024), (1, 4096, 4096)]  # fmt: skip
# (pixels a side, channels, filters, window, stride)
CONVS = [(56, 64, 64, 3, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1), (56, 128, 128, 3, 2),
         (56, 64, 256, 1, 1), (56, 256, 64, 1, 1), (14, 256, 1024, 1, 1), (224, 3, 64, 7, 2), (224, 3, 32, 3, 2)]  # fmt: skip
DEPTHWISE = [(112, 96, 96, 3, 1), (56, 144, 144, 3, 1), (112, 96, 96, 3, 2), (28, 192, 192, 3, 1), (14, 576, 576, 3, 1)]

rng = np.random.default_rng(0)


def main(arguments: Sequence[str]) -> None:
    if "rows" in arguments:
        write(arguments, rows.run(*arguments[arguments.index("--mcpu") + 1 :][:1] if "--mcpu" in arguments else ()))
        return
    chosen = [a for a in arguments if a in ("matmul", "conv", "depthwise")] or ["matmul", "conv", "depthwise"]
    cases = [lambda c=c: matmul(*c) for c in MATMULS] if "matmul" in chosen else []
    cases += [lambda c=c: conv(*c) for c in CONVS] if "conv" in chosen else []
    cases += [lambda c=c: conv(*c, group=c[1]) for c in DEPTHWISE] if "depthwise" in chosen else []
    found = []
    for case in cases:
        found.append(case())
        sys.stdout.write("{name:32s} {warm_ms:9.4f} ms {gflops:6.1f} GFLOP/s {of_peak:4.0%} of peak   "
                         "cold {cold_ms:9.4f} ms   onnxruntime {peer_ms:9.4f} ms   {ratio:.2f}\n".format(**found[-1]))  # fmt: skip
        sys.stdout.flush()
    write(arguments, found)


def write(arguments: Sequence[str], found: list[dict]) -> None:
    if "--json" in arguments:
        Path(arguments[list(arguments).index("--json") + 1]).write_text(json.dumps(found, indent=1))


def matmul(m: int, k: int, n: int) -> dict:
    a, b = (rng.standard_normal(s, dtype=np.float32) for s in ((m, k), (k, n)))
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    text = kernel("MatMul", [spell(a.shape), spell(b.shape)], spell((m, n)))
    return measure(f"matmul {m}×{k}×{n}", text, [a, b], (1,), 2 * m * k * n, session(node, a, [b], (m, n)), a)


def conv(side: int, c: int, m: int, window: int, stride: int, group: int = 1) -> dict:
    pad = window // 2
    x = rng.standard_normal((1, side, side, c), dtype=np.float32)
    w = rng.standard_normal((window, window, c // group, m), dtype=np.float32)
    bias = rng.standard_normal(m, dtype=np.float32)
    out = (side + 2 * pad - window) // stride + 1
    text = text_of(x, w, (1, out, out, m), [stride] * 2, [1, 1], [pad] * 4, group, True)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[pad] * 4, strides=[stride] * 2, group=group)
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    peer = session(node, first, [np.ascontiguousarray(w.transpose(3, 2, 0, 1)), bias], (1, m, out, out))
    name = f"conv {side}² {c}→{m} {window}×{window}/{stride}" + (" depthwise" if group > 1 else "")
    return measure(name, text, [x, w, bias], (1, 2), 2 * out * out * m * (c // group) * window**2, peer, first)


def session(node, x: np.ndarray, constants: Sequence[np.ndarray], shape: Sequence[int]) -> onnxruntime.InferenceSession:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    weights = [helper.make_tensor(n, TensorProto.FLOAT, a.shape, a.tobytes(), raw=True)
               for n, a in zip("wb", constants, strict=False)]  # fmt: skip
    model = helper.make_model(helper.make_graph([node], "g", inputs, outputs, weights), ir_version=9,
                              opset_imports=[helper.make_opsetid("", 17)])  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def measure(name: str, text: str, inputs: list[np.ndarray], constants: tuple[int, ...], work: int,
            peer: onnxruntime.InferenceSession, x: np.ndarray) -> dict:  # fmt: skip
    compiled = compile_kernel(text, constants=constants)
    bound = compiled.bind(inputs)
    arrays = [aligned(a) for a in compiled.pack(inputs)]
    result = aligned(np.zeros([dims.evaluate(d, bound) for d in compiled.results[0].shape], np.float32))
    extent = dims.evaluate(compiled.extent, bound)
    size = sum(arrays[i].nbytes for i in constants)
    copies = [
        [aligned(a) if i in constants else a for i, a in enumerate(arrays)]
        for _ in range(min(400, COLD_BYTES // size + 1))
    ]
    slots = [(ctypes.c_int64 * (len(c) + 1))(*(a.ctypes.data for a in [*c, result])) for c in copies]
    rotating = itertools.cycle(slots)
    binding = peer.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    sides: dict[str, Callable[[], object]] = {
        "warm": lambda: compiled.function(slots[0], 0, extent),
        "cold": lambda: compiled.function(next(rotating), 0, extent),
        "peer": lambda: peer.run_with_iobinding(binding),
    }
    limits = Limits()
    times: dict[str, list[float]] = {side: [] for side in (*sides, "peak")}
    for _ in range(ROUNDS):
        times["peak"].append(limits.multiply_adds())
        for side, call in sides.items():
            times[side].append(per_call(call, max(1, round(BLOCK_NANOSECONDS * 100 / work))))
    warm, cold, other = (median(times[side]) for side in ("warm", "cold", "peer"))
    best = median(times["peak"])
    return {"name": name, "schedule": compiled.schedule, "warm_ms": warm / 1e6, "cold_ms": cold / 1e6,
            "peer_ms": other / 1e6, "gflops": work / warm, "peak_gflops": best, "of_peak": work / warm / best,
            "ratio": median(a / b for a, b in zip(times["warm"], times["peer"], strict=True))}  # fmt: skip


def per_call(call: Callable[[], object], count: int) -> float:
    start = time.thread_time_ns()
    for _ in range(count):
        call()
    return (time.thread_time_ns() - start) / count


def aligned(a: np.ndarray) -> np.ndarray:
    memory = np.zeros(a.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    copy[...] = a
    return copy


if __name__ == "__main__":
    main(sys.argv[1:])
