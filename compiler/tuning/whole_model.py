"""This file measures a tuned model beside the untuned one, as a whole: what counts in the end."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from onnxc.bench import Plan, Worker
from onnxc.driver import compile_model
from onnxc.leftovers import ended_at_ctrl_c
from onnxc.options import Options
from onnxc.progress import Progress
from onnxc.tuning.records import Records

NOISE = 1.01  # a ratio that is worse than no gain


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
        """Whether tuning has made the model slower, beyond noise."""
        return self.ratio > NOISE and self.low > 1.0


def compile_both(
    model: Path, folder: Path, options: Options, records: Records, progress: Progress
) -> tuple[Path, Path]:
    """The tuned and the untuned artefact."""
    made = folder / "tuned.so", folder / "untuned.so"
    for path, tuning in zip(made, (records, None), strict=True):
        compile_model(model, path, replace(options, tuning=tuning, name="model"), progress)
    return made


def compare(tuned: Path, untuned: Path, feeds: Mapping[str, Any], plan: Plan, progress: Progress) -> Comparison:
    """Both in turn, a process each, in alternating order."""
    with contextlib.ExitStack() as exits:
        workers = []
        for path in (tuned, untuned):
            worker = Worker("onnxc", path, plan)
            exits.callback(worker.close)
            exits.enter_context(ended_at_ctrl_c(worker.process.kill))
            worker.ask("load", feeds)
            workers.append(worker)
        counts = [worker.calibrate(plan.block_seconds) for worker in workers]
        blocks: list[list[float]] = [[], []]
        for step in range(plan.rounds):
            for side in (step % 2, 1 - step % 2):
                blocks[side].append(workers[side].block(counts[side]))
            progress.stage("tuned beside untuned", step + 1, plan.rounds)
    ratios = [a / b for a, b in zip(*blocks, strict=True)]
    low, high = np.percentile(ratios, (25, 75))
    return Comparison(median(blocks[0]), median(blocks[1]), float(low), median(ratios), float(high))
