"""Tells where a model's time goes, kernel by kernel, beside what the machine could do at best.

    python -m tests.bench.profile_model MODEL.onnx [--seconds 3] [--rows 30] [--dim n=128] [--json FILE]

Needs `perf` and Linux. The model is compiled for this CPU with one thread and run in a process that perf samples; a
kernel's share is that of its symbol. Kernels that are called several times (equal layers) are one row.
"best" is the roofline of a row: its multiply-adds at this core's measured peak, or its operands and results, once each,
at the measured copy rate of the cache that holds them, whichever takes longer. "lost" = time - best.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mlir import ir

import onnxc
from onnxc.dialects.onnx import new_context
from onnxc.dialects.types import Tensor
from onnxc.feeds import complete_feeds
from onnxc.passes.kernel_calls import calls_by_kernel, nodes_of
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.scalars import byte_width
from onnxc.runtime.session import InferenceSession
from onnxc.targets import target_for

from .limits import Limits

COPIED = {"L2": 512 << 10, "L3": 8 << 20, "DRAM": 64 << 20}  # bytes of the copies that measure the rates, both sides
OUTSIDE = "(outside of kernels)"


@dataclass
class Row:
    """All calls of one kernel: microseconds a run, multiply-adds and bytes of all of them."""

    kernel: str
    kind: str
    nodes: str
    types: str
    calls: int
    flops: int
    bytes: int
    us: float = 0.0
    best_us: float = 0.0

    @property
    def lost_us(self) -> float:
        return self.us - self.best_us


@dataclass(frozen=True)
class Machine:
    """GFLOP/s, and GB/s of copies by the level of memory that holds both sides."""

    peak: float
    rates: dict[str, float]
    l2_bytes: int

    def best_us(self, flops: int, bytes_: int) -> float:
        level = "L2" if bytes_ <= self.l2_bytes else "L3" if bytes_ <= 32 << 20 else "DRAM"
        return max(flops / self.peak, bytes_ / self.rates[level]) / 1e3


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    given = {name: int(size) for name, _, size in (d.partition("=") for d in options.dim)}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        onnxc.compile(options.model, folder / "m.mlir", mcpu="native", threads=1, dims=given, emit="kernels")
        onnxc.compile(options.model, folder / "m.so", mcpu="native", threads=1, dims=given)
        rows = rows_of((folder / "m.mlir").read_text())
        run_us, shares = sampled(folder, options.seconds)
    machine = measure_machine()
    for row in rows:
        row.us = run_us * shares.get(row.kernel, 0.0)
        row.best_us = row.calls * machine.best_us(row.flops // row.calls, row.bytes // row.calls)
    outside = run_us * (1 - sum(shares.get(row.kernel, 0.0) for row in rows))
    rows.append(Row(OUTSIDE, "", "", "", 1, 0, 0, outside))
    sys.stdout.write(table(rows, run_us, machine, options.rows))
    if options.json:
        report = {
            "model": options.model.name,
            "run_us": run_us,
            "machine": asdict(machine),
            "rows": [*map(asdict, rows)],
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def rows_of(text: str) -> list[Row]:
    """One row a kernel, from a module after plan_memory; sizes that are not known count as 64."""
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        functions = list(module.body.operations)
        main_function = next(f for f in functions if "kernel.kind" not in f.attributes)
        kernels = {ir.StringAttr(f.attributes["sym_name"]).value: KernelFunction.of(f)
                   for f in functions if f is not main_function}  # fmt: skip
        return [row_of(kernels[name], name, " ".join(nodes_of(calls[0])), len(calls))
                for name, calls in calls_by_kernel(module).items()]  # fmt: skip


def row_of(kernel: KernelFunction, name: str, nodes: str, calls: int) -> Row:
    tensors = [Tensor.of(v.type) for v in [*kernel.operands, *kernel.results] if not isinstance(v.type, ir.NoneType)]
    bytes_ = sum(known(t.shape) * byte_width(t.elem) for t in tensors)
    types = ", ".join("×".join(map(str, t.shape)) for t in tensors[: len(kernel.operands)])
    types += " → " + ", ".join("×".join(map(str, t.shape)) for t in tensors[len(kernel.operands) :])
    algorithm = str(kernel.schedule.get("algorithm", "")) if kernel.kind == "conv" else ""
    kind = f"{kernel.kind} {algorithm}".strip()
    return Row(name, kind, nodes, types, calls, calls * flops_of(kernel), calls * bytes_)


def flops_of(kernel: KernelFunction) -> int:
    """Twice the multiplications of a contraction, counted directly; 0 for other kinds."""
    if kernel.kind not in ("matmul", "conv", "winograd", "conv_planes", "depthwise_planes", "conv_transpose"):
        return 0
    op = kernel.root
    result = known(Tensor.of(op.results[0].type).shape)
    if kernel.kind == "winograd":
        return 2 * result * known(Tensor.of(op.operands[0].type).shape[-1:])
    weights = Tensor.of(op.operands[1].type)
    columns = known(Tensor.of(op.results[0].type).shape[-1:])
    if kernel.kind == "matmul":
        return 2 * result * known(Tensor.of(op.operands[0].type).shape[-1:])
    if kernel.kind in ("conv_planes", "depthwise_planes"):
        return 2 * result * known(weights.shape[1:])
    if kernel.kind == "conv_transpose":
        return 2 * known(Tensor.of(op.operands[0].type).shape) * known(weights.shape[:-2]) * columns
    if "kernel.window" in kernel.func.attributes:
        taps = known(list(ir.DenseI64ArrayAttr(kernel.func.attributes["kernel.window"])))
    else:
        taps = known(weights.shape[:-2])
    channels = known(Tensor.of(op.operands[0].type).shape[-1:]) // op.attr("group", 1)
    return 2 * result * taps * channels


def known(shape: Sequence) -> int:
    count = 1
    for d in shape:
        count *= d if isinstance(d, int) else 64
    return count


def sampled(folder: Path, seconds: float) -> tuple[float, dict[str, float]]:
    """(microseconds a run, symbol of a kernel → its share of them), by perf."""
    command = ["perf", "record", "-F", "4999", "-o", str(folder / "perf.data"), sys.executable, "-m",
               "tests.bench.profile_model", "--serve", str(folder / "m.so"), str(seconds)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    run_us = float(done.stdout.splitlines()[-1])
    report = [
        "perf",
        "report",
        "-i",
        str(folder / "perf.data"),
        "--stdio",
        "--sort",
        "sym",
        "--dsos",
        "m.so",
        "-t",
        ";",
    ]
    text = subprocess.run([*report, "-F", "sample,sym"], capture_output=True, text=True, check=True).stdout
    samples: Counter[str] = Counter()
    for line in text.splitlines():
        count, _, symbol = line.partition(";")
        if count.strip().isdigit():
            samples[symbol.split("]")[-1].strip().removesuffix("_body")] += int(count)
    total = sum(samples.values())
    return run_us, {symbol: count / total for symbol, count in samples.items()}


def serve(path: Path, seconds: float) -> None:
    """The process that is sampled: runs for so long, and writes the median of a run."""
    session = InferenceSession(path)
    feeds = complete_feeds(session.get_inputs(), {}, {}, 0)
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.thread_time_ns()
        session.run(None, feeds)
        times.append(time.thread_time_ns() - start)
    sys.stdout.write(f"{sorted(times)[len(times) // 2] / 1e3}\n")


def measure_machine() -> Machine:
    limits = Limits()
    rates = {level: max(limits.copying(size) for _ in range(5)) for level, size in COPIED.items()}
    return Machine(max(limits.multiply_adds() for _ in range(9)), rates, target_for("native").l2_bytes)


def table(rows: list[Row], run_us: float, machine: Machine, most: int) -> str:
    rates = ", ".join(f"{level} {rate:.0f}" for level, rate in machine.rates.items())
    lines = [f"run {run_us:.1f} us; peak {machine.peak:.0f} GFLOP/s; copies GB/s: {rates}",
             f"{'us':>8} {'best':>8} {'lost':>8} {'GFLOP/s':>8} {'GB/s':>6} calls kind"]  # fmt: skip
    for row in sorted(rows, key=lambda r: -r.lost_us)[:most]:
        us = max(row.us, 1e-3)
        lines.append(f"{row.us:8.1f} {row.best_us:8.1f} {row.lost_us:8.1f} {row.flops / us / 1e3:8.1f} "
                     f"{row.bytes / us / 1e3:6.1f} {row.calls:5} {row.kind or row.kernel}: {row.types}  {row.nodes[:60]}")  # fmt: skip
    by_kind: dict[str, list[float]] = {}
    for row in rows:
        sums = by_kind.setdefault(row.kind or row.kernel, [0.0, 0.0])
        sums[0], sums[1] = sums[0] + row.us, sums[1] + row.best_us
    lines += ["", "by kind: us, best"]
    lines += [f"{us:8.1f} {best:8.1f} {kind}" for kind, (us, best) in sorted(by_kind.items(), key=lambda e: -e[1][0])]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]), float(sys.argv[3]))
    else:
        main(sys.argv[1:])
