"""What a pass gains: each model beside itself compiled without it, by ratio of times and workspaces.

    python -m tests.bench.without_pass PASS MODEL.onnx… [--threads 1] [--rounds 16] [--folder DIR] [--prepare]

The pass's name is that of compiler/pipeline.py; one whose work others rely on cannot be left out. Blocks of both
artefacts in turn (compiler/bench.py), for this CPU; a ratio below 1 is what the pass gains. `--prepare` only compiles,
into `--folder`, where a later call finds the artefacts: a folder belongs to one version of the compiler.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from onnxc import pipeline
from onnxc.api import InferenceSession
from onnxc.bench import Pair, Plan, measure_pair, quartiles
from onnxc.driver import compile_model
from onnxc.feeds import complete_feeds
from onnxc.options import Options

from .artefact_folder import add_arguments, artefact_folder


@contextmanager
def left_out(name: str) -> Iterator[None]:
    """The pipeline without that pass. ValueError where it has none of that name."""
    before = dict(pipeline.PIPELINE)
    kept = {level: tuple(p for p in passes if p.__name__ != name) for level, passes in before.items()}
    if kept == before:
        raise ValueError(f"there is no pass '{name}'")
    pipeline.PIPELINE.update(kept)
    try:
        yield
    finally:
        pipeline.PIPELINE.update(before)


def compiled(model: Path, name: str, folder: Path) -> tuple[Path, Path]:
    """The model with and without the pass, from `folder` where they are there."""
    whole, without = (folder / f"{model.stem}{suffix}.so" for suffix in ("", f"_without_{name}"))
    options = Options(mcpu="native")
    if not whole.exists():
        compile_model(model, whole, options)
    if not without.exists():
        with left_out(name):
            compile_model(model, without, options)
    return whole, without


def workspace(path: Path) -> float | None:
    """MB of the artefact's first variant; None where its size depends on the inputs."""
    (variant, *_) = InferenceSession(path).library.variants
    return None if variant.workspace_bytes is None else variant.workspace_bytes / 1e6


def measure(whole: Path, without: Path, plan: Plan) -> Pair:
    feeds = complete_feeds(InferenceSession(whole).get_inputs(), {}, {}, seed=0)
    return measure_pair(whole, without, feeds, plan, lambda done, rounds: None)


def line(model: Path, pair: Pair, sizes: Sequence[float | None]) -> str:
    low, high = quartiles(pair.ratios)
    room = " → ".join("free" if size is None else f"{size:.1f}" for size in sizes)
    return f"{model.stem:28} {1e3 * pair.theirs:9.3f} {1e3 * pair.ours:9.3f}   {low:.2f} to {high:.2f}   {room} MB"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="PASS")
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=16)
    add_arguments(parser)
    given = parser.parse_args(arguments)
    with artefact_folder(parser, given) as folder:
        artefacts = [compiled(model, given.name, folder) for model in given.models]
        if given.prepare:
            return
        print(f"{'ms':28} {'without':>9} {'with':>9}   ratio (quartiles)   workspace")
        for model, (whole, without) in zip(given.models, artefacts, strict=True):
            pair = measure(whole, without, Plan(given.threads, given.rounds))
            print(line(model, pair, [workspace(without), workspace(whole)]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
