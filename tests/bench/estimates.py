"""How well kernels' estimates of their time (`Launch.picoseconds`, by which the pool weighs) meet their measured time.

    python -m tests.bench.estimates MODEL.onnx... [--seconds 2] [--rows 20]

Needs `perf` and Linux. One thread for this CPU. By kind of kernel: the geometric mean of measured by estimated time over
kernels of at least 1 µs, weighted by nothing, with the extremes; then the kernels that are furthest off.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from mlir import ir

import onnxc
from onnxc.dialects.onnx import new_context
from onnxc.passes.kernels.kernel_function import launch_of

from .profile_model import rows_of, sampled

LEAST_US = 1.0


@dataclass(frozen=True)
class Estimate:
    """One call of a kernel, microseconds."""

    model: str
    kind: str
    nodes: str
    types: str
    measured: float
    estimated: float

    @property
    def ratio(self) -> float:
        return self.measured / self.estimated


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rows", type=int, default=20)
    options = parser.parse_args(arguments)
    found = [e for model in options.models for e in estimates_of(model, options.seconds)]
    sys.stdout.write(table(found, options.rows))


def estimates_of(model: Path, seconds: float) -> Iterable[Estimate]:
    """A model's kernels whose estimates are numbers and which were sampled for at least LEAST_US a call."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        onnxc.compile(model, folder / "m.mlir", mcpu="native", threads=1, emit="kernels")
        onnxc.compile(model, folder / "m.so", mcpu="native", threads=1)
        text = (folder / "m.mlir").read_text()
        run_us, shares = sampled(folder, seconds)
    guesses = guesses_of(text)
    for row in rows_of(text):
        measured = run_us * shares.get(row.kernel, 0.0) / row.calls
        if row.kernel in guesses and measured >= LEAST_US:
            yield Estimate(model.stem, row.kind, row.nodes, row.types, measured, guesses[row.kernel])


def guesses_of(text: str) -> dict[str, float]:
    """Kernel → estimated microseconds of a call, of a module after plan_memory."""
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(text)  # whose operations live as long as it
        functions = [f for f in module.body.operations if "kernel.picoseconds" in f.attributes]
        launches = {ir.StringAttr(f.attributes["sym_name"]).value: launch_of(f) for f in functions}
    known = {name: (launch.extent, launch.picoseconds) for name, launch in launches.items()}
    return {name: a * b / 1e6 for name, (a, b) in known.items() if isinstance(a, int) and isinstance(b, int) and a * b}


def table(found: list[Estimate], rows: int) -> str:
    kinds: dict[str, list[float]] = {}
    for e in found:
        kinds.setdefault(e.kind, []).append(e.ratio)
    lines = ["kind                       kernels  measured/estimated   least   most"]
    for kind, ratios in sorted(kinds.items(), key=lambda item: geometric_mean(item[1])):
        lines.append(f"{kind:26} {len(ratios):7} {geometric_mean(ratios):19.2f} {min(ratios):7.2f} {max(ratios):6.2f}")
    lines.append("\n measured  estimated, µs  furthest off")
    for e in sorted(found, key=lambda e: max(e.ratio, 1 / e.ratio), reverse=True)[:rows]:
        lines.append(f"{e.measured:9.1f} {e.estimated:10.1f}     {e.model} {e.kind} {e.nodes[:50]} {e.types[:70]}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
