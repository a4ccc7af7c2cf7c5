"""This file measures which variants pay: each beside the generic code on the same shapes, and what it costs.

Candidates are every shape of the list by itself, and one variant that takes them all. A variant pays where it gains
more than `LEAST_GAIN` and than the noise of its own measurement; an exact one, beside one that takes all, where it
gains more than that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from onnxc import bench
from onnxc.api import InferenceSession
from onnxc.driver import compile_model
from onnxc.errors import OnnxcError
from onnxc.feeds import complete_feeds
from onnxc.options import Options
from onnxc.progress import SILENT, Progress
from onnxc.shape_list import Dims, covering_spec, read_shapes, spec_of

LEAST_GAIN = 0.02


@dataclass
class Measured:
    """A variant beside the generic one on one shape: seconds a run, the median of the rounds' ratios, their spread."""

    dims: Dims
    weight: float
    generic: float
    variant: float
    ratio: float
    noise: float

    @property
    def gain(self) -> float:
        """The share of the generic code's time that the variant saves."""
        return 1 - self.ratio

    @property
    def pays(self) -> bool:
        return self.gain > max(LEAST_GAIN, self.noise)


@dataclass
class Candidate:
    """A variant, what it adds to the artefact (bytes) and to the compilation (seconds), and how it did."""

    spec: str
    size: int
    seconds: float
    measured: list[Measured] = field(default_factory=list)
    advised: bool = False

    @property
    def gain(self) -> float:
        """Over all its shapes, each as often as it comes."""
        generic = sum(m.weight * m.generic for m in self.measured)
        return sum(m.weight * m.generic * m.gain for m in self.measured) / generic if generic else 0.0

    @property
    def noise(self) -> float:
        return max((m.noise for m in self.measured), default=0.0)

    @property
    def pays(self) -> bool:
        return self.gain > max(LEAST_GAIN, self.noise)


def advise(
    model: Path, shapes_file: Path, options: Mapping[str, Any], plan: bench.Plan, folder: Path,
    progress: Progress = SILENT,
) -> list[Candidate]:  # fmt: skip
    """Compiles and measures the candidates in `folder`, and marks those to be used."""
    chosen = {"mcpu": "native", **options}
    generic = folder / "generic.so"
    base = compile_model(model, generic, Options.of(**chosen), progress)
    if chosen.get("cache", True):  # what a variant is compared with takes its kernels from the cache as well
        base = compile_model(model, generic, Options.of(**chosen), SILENT)
    inputs = InferenceSession(generic).get_inputs()
    shapes = read_shapes(shapes_file, inputs)
    candidates = []
    for number, (spec, covered) in enumerate(_candidates(shapes)):
        artefact = folder / f"variant{number}.so"
        report = compile_model(model, artefact, Options.of(**chosen, variants=[spec]), progress)
        found = Candidate(spec, report.size - base.size, max(0.0, report.seconds - base.seconds))
        for dims, weight in covered:
            progress.stage(f"measuring {spec}")
            with _naming(model, dims):
                feeds = complete_feeds(inputs, {}, dims, seed=0)
                found.measured.append(_measure(generic, artefact, feeds, dims, weight, plan))
        artefact.unlink()
        candidates.append(found)
    choose(candidates)
    return candidates


def _candidates(shapes: Sequence[tuple[Dims, float]]) -> list[tuple[str, list[tuple[Dims, float]]]]:
    """The variants to try, with the shapes that each takes."""
    if not shapes[0][0]:
        raise OnnxcError("the model has no free dim", why="there is one variant only", exit_code=2)
    found = [(spec_of(dims), [(dims, weight)]) for dims, weight in shapes]
    covering = covering_spec([dims for dims, _ in shapes]) if len(shapes) > 1 else None
    return [*found, *([(covering, list(shapes))] if covering else [])]


@contextmanager
def _naming(model: Path, dims: Dims) -> Iterator[None]:
    """What cannot run is told by the model and the shape, not by artefacts that are gone then."""
    try:
        yield
    except OnnxcError as error:
        error.file, error.message = str(model), f"with {spec_of(dims)}: {error.message}"
        raise


def _measure(
    generic: Path, artefact: Path, feeds: bench.Feeds, dims: Dims, weight: float, plan: bench.Plan
) -> Measured:
    pair = bench.measure_pair(artefact, generic, feeds, plan, lambda done, rounds: None)
    low, high = bench.quartiles(pair.ratios)
    # the median's own uncertainty: half the quartiles' distance by the root of the rounds
    noise = (high - low) / 2 / len(pair.ratios) ** 0.5
    return Measured(dims, weight, pair.theirs, pair.ours, median(pair.ratios), noise)


def choose(candidates: Sequence[Candidate]) -> None:
    """Marks what to compile: the variant that takes all if it pays, and exact ones that gain beyond it."""
    covering = next((c for c in candidates if len(c.measured) > 1), None)
    reached: dict[str, float] = {}
    if covering is not None and covering.pays:
        covering.advised = True
        reached = {spec_of(m.dims): m.gain for m in covering.measured}
    for candidate in candidates:
        if candidate is covering:
            continue
        (measured,) = candidate.measured
        beyond = measured.gain - max(0.0, reached.get(candidate.spec, 0.0))
        candidate.advised = measured.pays and beyond > max(LEAST_GAIN, measured.noise)


def arguments_of(candidates: Sequence[Candidate]) -> list[str]:
    """What to give to `onnxc compile`."""
    return [argument for c in candidates if c.advised for argument in ("--variant", c.spec)]


def as_table(candidates: Sequence[Candidate], quote: Callable[[str], str], duration: Callable[[float], str]) -> str:
    """For people: a line a variant and shape, then the arguments."""
    width = max(7, *(len(c.spec) for c in candidates))
    lines = [
        f"{'variant':{width}}  {'generic':>10} {'variant':>10} {'gain':>8} {'noise':>7} {'adds':>10} {'compile':>9}"
    ]
    for c in candidates:
        generic, variant = (_mean(c, [getattr(m, side) for m in c.measured]) for side in ("generic", "variant"))
        lines.append(
            f"{c.spec:{width}}  {duration(generic):>10} {duration(variant):>10} {c.gain:>+8.1%} {c.noise:>7.1%} "
            f"{c.size / 1e3:>7.1f} kB {c.seconds:>7.2f} s{'  pays' if c.advised else ''}"
        )
    advised = " ".join(
        argument if argument == "--variant" else quote(argument) for argument in arguments_of(candidates)
    )
    return "\n".join([*lines, advised or "no variant pays: the generic code is as fast"]) + "\n"


def _mean(candidate: Candidate, values: Sequence[float]) -> float:
    return float(np.average(values, weights=[m.weight for m in candidate.measured]))


def as_json(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """The same for programs; times in seconds, sizes in bytes."""
    return {
        "variants": [
            {**{k: v for k, v in vars(c).items() if k != "measured"}, "gain": c.gain, "noise": c.noise,
             "shapes": [{**vars(m), "gain": m.gain} for m in c.measured]}
            for c in candidates
        ],
        "arguments": arguments_of(candidates),
    }  # fmt: skip
