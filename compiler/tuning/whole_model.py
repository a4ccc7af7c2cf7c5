"""This file measures a tuned model beside the untuned one, as a whole: what counts in the end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from onnxc import bench
from onnxc.driver import compile_model
from onnxc.options import Options
from onnxc.progress import Progress
from onnxc.runtime import InferenceSession
from onnxc.tuning.records import Records

STAGE = "tuned beside untuned"


@dataclass(frozen=True)
class Comparison:
    """Seconds of a run, tuned and untuned (medians), and the rounds' ratios: their quartiles and median."""

    tuned: float
    untuned: float
    low: float
    ratio: float
    high: float

    @property
    def slower(self) -> bool:
        """Whether tuning has made the model slower, beyond noise: three quarters of the rounds say so."""
        return self.low > 1.0


def compile_both(
    model: Path, folder: Path, options: Options, records: Records, progress: Progress
) -> tuple[Path, Path]:
    """The tuned and the untuned artefact."""
    made = folder / "tuned.so", folder / "untuned.so"
    for path, tuning in zip(made, (records, None), strict=True):
        compile_model(model, path, replace(options, tuning=tuning, name="model"), progress)
    return made


def seconds_a_run(session: InferenceSession, feeds: Mapping[str, Any]) -> float:
    """Of this process's time; the second run's, which finds its memory."""
    session.run(None, feeds)
    start = time.process_time()
    session.run(None, feeds)
    return time.process_time() - start


def compare(tuned: Path, untuned: Path, feeds: Mapping[str, Any], plan: bench.Plan, progress: Progress) -> Comparison:
    """Both in turn, a process each."""
    pair = bench.measure_pair(tuned, untuned, feeds, plan, lambda done, rounds: progress.stage(STAGE, done, rounds))
    low, high = bench.quartiles(pair.ratios)
    return Comparison(pair.ours, pair.theirs, low, median(pair.ratios), high)
