"""What one core of this machine can do, measured by loops that the compiler emits: multiply-adds, reading, copying.

With the instructions of `mcpu`, which may be fewer than the machine has."""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mlir import ir

from onnxc.dialects import onnx
from onnxc.emit_object import emit, lower_to_llvm
from onnxc.link import link_shared
from onnxc.targets import target_for

ACCUMULATORS = 12  # enough for the latency of two units; more do not fit 16 registers
STREAMS = 8  # vectors a step, in a sum of their own
ANY = "memref<268435456xf32>"


class Limits:
    """`multiply_adds()` in GFLOP/s, `reading(size)` and `copying(size)` in GB/s, of one short run each."""

    def __init__(self, mcpu: str = "native") -> None:
        self.lanes = target_for(mcpu).vector_bits // 32
        self._library = _built([self._peak(), self._read(), self._copy()], ["peak", "read", "copy"], mcpu)
        self._memory = np.empty(17 << 20, np.float32)
        self._memory.fill(0)  # pages of their own: those of np.zeros are one until they are written

    def multiply_adds(self, steps: int = 200_000) -> float:
        """After a first time that is not counted: wide units that have not been used for a while run at half the pace."""
        run = lambda: self._library.peak(_address(self._memory), ctypes.c_int64(steps))  # noqa: E731
        run()
        seconds = _seconds(run)
        return steps * ACCUMULATORS * 2 * self.lanes / seconds / 1e9

    def reading(self, size: int) -> float:
        """Over `size` bytes again and again, after a first time that is not counted."""
        return self._bandwidth(self._library.read, size, _address(self._memory))

    def copying(self, size: int) -> float:
        """From one half of `size` bytes to the other; both count."""
        half = _address(self._memory, size // 2)
        return self._bandwidth(self._library.copy, size, _address(self._memory), half, share=2)

    def _bandwidth(self, function: Callable, size: int, *addresses: ctypes.c_void_p, share: int = 1) -> float:
        step = self.lanes * STREAMS
        count = ctypes.c_int64(size // 4 // share // step * step)
        function(*addresses, count)
        times = max(1, int(2e7 / size))
        seconds = _seconds(lambda: [function(*addresses, count) for _ in range(times)])
        return 4 * count.value * share * times / seconds / 1e9

    def _peak(self) -> str:
        v = f"vector<{self.lanes}xf32>"
        names = [f"%a{i}" for i in range(ACCUMULATORS)]
        steps = "\n".join(f"  %n{i} = math.fma %x, %x, {a} : {v}" for i, a in enumerate(names))
        return f"""func.func @peak(%out: {ANY}, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = vector.load %out[%c0] : {ANY}, {v}
{_loop(v, names, "%x", steps, "%c1")}
  vector.store %s{ACCUMULATORS}, %out[%c0] : {ANY}, {v}
  return }}"""

    def _read(self) -> str:
        v = f"vector<{self.lanes}xf32>"
        names = [f"%a{i}" for i in range(STREAMS)]
        steps = "\n".join(
            f"  %o{i} = arith.constant {i * self.lanes} : index\n  %p{i} = arith.addi %i, %o{i} : index\n"
            f"  %x{i} = vector.load %in[%p{i}] : {ANY}, {v}\n  %n{i} = arith.addf {a}, %x{i} : {v}"
            for i, a in enumerate(names)
        )
        return f"""func.func @read(%in: {ANY}, %n: index) {{
  %c0 = arith.constant 0 : index
  %step = arith.constant {STREAMS * self.lanes} : index
  %zero = arith.constant dense<0.0> : {v}
{_loop(v, names, "%zero", steps, "%step")}
  vector.store %s{STREAMS}, %in[%c0] : {ANY}, {v}
  return }}"""

    def _copy(self) -> str:
        v = f"vector<{self.lanes}xf32>"
        return f"""func.func @copy(%in: {ANY}, %out: {ANY}, %n: index) {{
  %c0 = arith.constant 0 : index
  %step = arith.constant {self.lanes} : index
  scf.for %i = %c0 to %n step %step {{
    %x = vector.load %in[%i] : {ANY}, {v}
    vector.store %x, %out[%i] : {ANY}, {v} }}
  return }}"""


def _loop(v: str, names: list[str], start: str, steps: str, step: str) -> str:
    """A loop to %n that carries a vector a name; their sum is %s<number of names>."""
    count = len(names)
    types = ", ".join([v] * count)
    sums = "\n".join(f"  %s{i + 1} = arith.addf %s{i}, %r#{i} : {v}" for i in range(count))
    return f"""  %r:{count} = scf.for %i = %c0 to %n step {step} iter_args({", ".join(f"{a} = {start}" for a in names)}) -> ({types}) {{
{steps}
  scf.yield {", ".join(f"%n{i}" for i in range(count))} : {types} }}
  %s0 = arith.constant dense<0.0> : {v}
{sums}"""


def _built(texts: list[str], names: list[str], mcpu: str) -> ctypes.CDLL:
    with onnx.new_context():
        code = emit(lower_to_llvm(ir.Module.parse("\n".join(texts))), target_for(mcpu))
    with tempfile.TemporaryDirectory() as folder:
        link_shared([code], Path(folder) / "limits.so", soname="limits.so", export=names)
        return ctypes.CDLL(f"{folder}/limits.so")


def _address(memory: np.ndarray, offset: int = 0) -> ctypes.c_void_p:
    start = memory.ctypes.data + -memory.ctypes.data % 64
    return ctypes.c_void_p(start + offset)


def _seconds(call: Callable[[], object]) -> float:
    start = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - start) / 1e9
