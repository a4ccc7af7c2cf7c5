"""This file is one task of a bundle in memory: its buffers, and its candidates as lists of kernel calls.

A candidate is a list of steps, each a kernel of the task's library with its arguments: buffers by name, or numbers; or
kernels that take turns by rows, with a plan (`bands`), room for each thread and all their arguments, functions among
them. The weights of a large model come from memory in each of its runs; here each lies in as many copies as make
`cold_bytes`, and runs go from copy to copy.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (numpy learns bfloat16)
import numpy as np

FENCE = 256  # bytes around each buffer that nobody may write
MARK = 0xA5
MOST_COPIES = 4096
_COUNTS = ("extent", "round", "picoseconds")
# onnxc_step of timing.c
_STEP = np.dtype([("kernel", "u8"), ("args", "u8"), *((n, "i8") for n in _COUNTS), ("bands", "u8"), ("rooms", "u8")])


class Task:
    """The candidates of one task, ready to run; one of them is the reference of the others' results."""

    def __init__(self, folder: Path, facts: Mapping[str, Any], threads: int) -> None:
        self.facts, self.threads = facts, threads
        self.library = ctypes.CDLL(str((folder / facts["library"]).absolute()))
        self.library.onnxc_time_steps.restype = ctypes.c_int64
        self.buffers: dict[str, np.ndarray] = {}
        self._whole: dict[str, np.ndarray] = {}
        self.copies: dict[str, int] = {}
        counts = [self._copies(candidate["steps"]) for candidate in facts["candidates"]]
        for candidate, count in zip(facts["candidates"], counts, strict=True):
            for name in weights_of(facts, candidate["steps"]):
                self.copies[name] = max(count, self.copies.get(name, 1))
        for name, buffer in facts["buffers"].items():
            self._provide(folder, name, buffer)
        self._arguments: list[np.ndarray] = []
        self.steps = [self._steps(c["steps"], count) for c, count in zip(facts["candidates"], counts, strict=True)]
        self._next = [0] * len(self.steps)

    def time(self, number: int, runs: int) -> float:
        """Nanoseconds a run of a candidate."""
        steps = self.steps[number]
        copies, count = steps.shape
        first = ctypes.c_int32(self._next[number])
        self._next[number] = (self._next[number] + runs) % copies
        taken = self.library.onnxc_time_steps(
            ctypes.c_void_p(steps.ctypes.data), count, copies, first, runs, self.threads
        )
        return taken / runs

    def outputs(self, number: int, pieces: int = 1) -> list[np.ndarray]:
        """Copies of the outputs after one run, each kernel's extent cut into pieces. ValueError: what went wrong."""
        names = self.names("output")
        for name in names:
            self.buffers[name].view(np.uint8)[...] = MARK
        if "status" in self.buffers:
            self.buffers["status"][...] = 0
        steps = self.steps[number]
        self.library.onnxc_run_pieces(ctypes.c_void_p(steps.ctypes.data), steps.shape[1], pieces)
        if "status" in self.buffers and self.buffers["status"].any():
            raise ValueError("a check inside the kernel failed")
        for name in [*names, *self.names("scratch")]:
            whole = self._whole[name]
            if (whole[:FENCE] != MARK).any() or (whole[-FENCE:] != MARK).any():
                raise ValueError(f"it wrote outside of buffer '{name}'")
        return [self.buffers[name].copy() for name in names]

    def check(self, number: int) -> float:
        """How far a candidate's results are from the reference's, as a share of their scale; 0: the same bits.

        ValueError where that is more than the candidate may, or where another split of its extents gives other bits.
        """
        want, got = self.outputs(self.facts["reference"]), self.outputs(number)
        for a, b in zip(got, self.outputs(number, 3), strict=True):
            if a.tobytes() != b.tobytes():
                raise ValueError("another split of its extent gives other bits")
        difference = max((distance(a, b) for a, b in zip(got, want, strict=True)), default=0.0)
        allowed = self.facts["candidates"][number].get("tolerance", 0.0)
        if difference > allowed:
            raise ValueError(f"its results differ by {difference:.2g} of their scale, allowed {allowed:.2g}")
        return difference

    def names(self, role: str) -> list[str]:
        return [name for name, buffer in self.facts["buffers"].items() if buffer["role"] == role]

    def _provide(self, folder: Path, name: str, buffer: Mapping[str, Any]) -> None:
        size, copies = buffer["bytes"], self.copies.get(name, 1)
        dtype = np.dtype(buffer.get("dtype", "uint8"))
        stride = -(-size // 64) * 64
        # places differ in their low bits, so that buffers do not fall into the same cache sets
        shift = 64 * (7 * len(self.buffers) % 60)
        memory = np.empty(stride * copies + 2 * FENCE + shift + 64, np.uint8)
        start = -(memory.ctypes.data + FENCE) % 64 + shift
        whole = memory[start : start + FENCE + (stride * (copies - 1) + size) + FENCE]
        whole[...] = MARK
        inside = whole[FENCE:-FENCE]
        if buffer["role"] == "weight":
            content = np.fromfile(folder / buffer["file"], np.uint8)
            for i in range(copies):
                inside[i * stride : i * stride + size] = content
        elif buffer["role"] == "input":
            inside[...] = np.frombuffer(random_bytes(name, size, dtype), np.uint8)
        else:
            inside[...] = 0
        self._whole[name] = whole
        self.buffers[name] = inside[:size].view(dtype)

    def _copies(self, steps: Sequence[Mapping[str, Any]]) -> int:
        """How many copies of a candidate's weights make up `cold_bytes`."""
        size = sum(self.facts["buffers"][name]["bytes"] for name in weights_of(self.facts, steps))
        return min(MOST_COPIES, max(1, -(-self.facts["cold_bytes"] // size))) if size else 1

    def _steps(self, steps: Sequence[Mapping[str, Any]], copies: int) -> np.ndarray:
        """[copies, steps] of onnxc_step."""
        made = np.zeros((copies, len(steps)), _STEP)
        for k, step in enumerate(steps):
            arguments = np.zeros((copies, max(1, len(step["args"]))), np.int64)
            for i, argument in enumerate(step["args"]):
                arguments[:, i] = self._addresses(argument, copies)
            self._arguments.append(arguments)
            made["args"][:, k] = arguments.ctypes.data + arguments.strides[0] * np.arange(copies)
            for name in _COUNTS:
                made[name][:, k] = step[name]
            if "bands" in step:
                plan = np.array(step["bands"], np.int64)
                self._arguments.append(plan)
                made["bands"][:, k], made["rooms"][:, k] = plan.ctypes.data, self.buffers[step["rooms"]].ctypes.data
            else:
                made["kernel"][:, k] = self._function(step["symbol"])
        return made

    def _function(self, symbol: str) -> int:
        return ctypes.cast(getattr(self.library, symbol), ctypes.c_void_p).value or 0

    def _addresses(self, argument: Any, copies: int) -> Any:
        """What an argument is for each copy of the weights."""
        if isinstance(argument, int):
            return argument
        if isinstance(argument, Mapping):
            return self._function(argument["function"])
        buffer = self.buffers[argument]
        stride = -(-buffer.nbytes // 64) * 64 if argument in self.copies else 0
        return buffer.ctypes.data + stride * np.arange(copies)


def weights_of(facts: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """The weights that some steps read."""
    used = {a for step in steps for a in step["args"] if isinstance(a, str)}
    return sorted(name for name in used if facts["buffers"][name]["role"] == "weight")


def random_bytes(name: str, size: int, dtype: np.dtype) -> bytes:
    """An input's content, the same for the same name: normal floats, bytes of all values, wider integers 0 or 1."""
    random, count = np.random.default_rng(zlib.crc32(name.encode())), size // dtype.itemsize
    if dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize > 1):
        return random.integers(0, 2, count).astype(dtype).tobytes()
    if dtype.kind in "iu":
        return random.integers(0, 256, count, dtype=np.uint8).tobytes()
    return random.standard_normal(count, dtype=np.float32).astype(dtype).tobytes()


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference as a share of the largest value; 0 for the same bits, infinite where one is not finite."""
    if got.tobytes() == want.tobytes():
        return 0.0
    if want.dtype.kind in "biu":
        return float("inf")
    a, b = got.astype(np.float64), want.astype(np.float64)
    odd = ~np.isfinite(b)
    if not np.array_equal(a[odd], b[odd], equal_nan=True) or not np.isfinite(a[~odd]).all():
        return float("inf")
    scale = float(np.abs(b[~odd]).max(initial=0.0)) or 1.0
    return max(float(np.abs(a[~odd] - b[~odd]).max(initial=0.0)) / scale, 5e-324)
