"""This file tunes a model: convolutions' algorithms first, then the schedules of the kernels that come of them.

Wherever it stops, the records written so far are good; in the end they must have made the model as a whole no slower.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onnxc.bench import Plan
from onnxc.cache import user_cache
from onnxc.compile_pool import CompilePool
from onnxc.feeds import complete_feeds
from onnxc.link import write_output
from onnxc.options import Options
from onnxc.progress import SILENT, Progress
from onnxc.runtime import InferenceSession
from onnxc.targets import target_for
from onnxc.tuning.bundle import BundleWriter, Portion
from onnxc.tuning.extraction import Lowered, lower
from onnxc.tuning.problems import Convolutions, kernel_tasks
from onnxc.tuning.records import FORMAT as RECORDS
from onnxc.tuning.records import Record, Records, Unusable, parse_record
from onnxc.tuning.runners import Runner, archived
from onnxc.tuning.search import Search, State
from onnxc.tuning.tasks import Candidate, Task
from onnxc.tuning.whole_model import Comparison, compare, compile_both

COLD_BYTES = 96 << 20  # of weights: reading more than that comes from memory on any CPU that we know
FOR_ALGORITHMS = 0.35  # of the time, at most
FOR_COMPARISON = 0.15  # of the time, and not more than …
LONGEST_COMPARISON = 20.0  # seconds
CLEAR = 1.05  # a gain that is beyond what cannot be seen in a kernel by itself


@dataclass(frozen=True)
class Summary:
    """What tuning did. `comparison`: the tuned model beside the untuned one; None where nothing was to be compared.
    `dropped`: what was left out since the model as a whole was slower with it."""

    records: Records
    problems: int
    measured: int
    better: int
    seconds: float
    comparison: Comparison | None = None
    dropped: str = ""


class Tuner:
    """Tunes one model for one target and number of threads; `records`: what is known, before and after."""

    def __init__(
        self, model: Path, options: Options, records: Records, output: Path, *, threads: int = 1,
        progress: Progress = SILENT,
    ) -> None:  # fmt: skip
        self.model, self.options, self.output, self.threads = model, options, output, threads
        self.known, self.records, self.progress = records, records, progress
        self.target = target_for(options.mcpu, options.target)
        self.pool = CompilePool(self.target, options.jobs, cache=user_cache(enabled=options.cache))
        self.start = time.monotonic()
        self.budget = 0.0
        self.search: Search | None = None

    def run(self, runner: Runner, folder: Path, budget: float) -> Summary:
        """Tunes for about `budget` seconds; `folder` is for temporary files."""
        self.start, self.budget = time.monotonic(), budget
        end = self.start + budget - min(LONGEST_COMPARISON, FOR_COMPARISON * budget)
        plain = self._lower(Records())
        self._write()
        self.progress.say(f"tuning {self.model.name} for {self.target}, about {budget:.0f} s")
        writer = self.writer(plain)
        self.search = search = Search(writer, runner, folder, self._found, self._told)
        self.progress.stage("tuning", 0, int(budget))
        convolutions = Convolutions(self.model, replace(self.options, tuning=None)).tasks()
        search.explore(convolutions, min(end, self.start + FOR_ALGORITHMS * budget), self._known)
        algorithms = Records(r for r in self.records if "algorithm" in r.choice)
        kernels = kernel_tasks(self._lower(algorithms))
        search.explore(kernels, end, self._known)
        return self._finish(search, folder)

    def write_bundle(self, folder: Path, budget: float) -> int:
        """Writes all problems, the convolutions and the kernels as records have it so far, as the output: a bundle.

        Each may take its share of `budget` seconds to be measured.
        """
        plain = self._lower(self.records)
        tasks = [*Convolutions(self.model, replace(self.options, tuning=None)).tasks(), *kernel_tasks(plain)]
        seconds = budget / max(1, len(tasks))
        self.writer(plain).write(folder, [Portion(task, range(len(task.candidates)), seconds) for task in tasks])
        write_output(self.output, archived(folder))
        return len(tasks)

    @property
    def states(self) -> list[State]:
        return self.search.states if self.search is not None else []

    def _lower(self, records: Records) -> Lowered:
        return lower(self.model, replace(self.options, tuning=records))

    def writer(self, lowered: Lowered) -> BundleWriter:
        """Weights that together do not stay in the second cache are cold in each run of the model."""
        size = lowered.weight_bytes
        cold = min(size, COLD_BYTES) if size > self.target.l2_bytes else 0
        return BundleWriter(self.pool, self.threads, cold)

    def _known(self, task: Task) -> Candidate | None:
        """The candidate that an earlier record names."""
        key = (task.signature, self.target.key, self.threads, task.what)
        choice = next((record.choice for record in self.known if record.key == key), None)
        if choice is None or task.what == "algorithm":
            return next((c for c in task.candidates if c.choice == choice), None)
        (call,) = task.candidates[0].calls
        return Candidate(choice, (call.with_schedule(choice["schedule"]),))

    def _found(self, record: Record) -> None:
        self.records = Records([*(r for r in self.records if r.key != record.key), record])
        self._write()
        saved, elapsed = self.search.saved / 1e6 if self.search else 0.0, time.monotonic() - self.start
        self.progress.note(f"{elapsed:5.0f} s, {saved:.4g} ms saved: {record.gain:.3f} × {record.signature[:80]}")
        self._told("")

    def _write(self) -> None:
        self.records.write(self.output)

    def _told(self, line: str) -> None:
        if line:
            self.progress.note(line)
        saved = self.search.saved if self.search is not None else 0.0
        whole = sum(state.task.weight for state in self.states if state.task.what == "schedule")
        detail = f"{saved / 1e6:.3g} of {whole / 1e6:.3g} ms saved" if whole else f"{saved / 1e6:.3g} ms saved"
        self.progress.stage("tuning", int(time.monotonic() - self.start), int(self.budget), detail)

    def _finish(self, search: Search, folder: Path) -> Summary:
        better = [state for state in search.states if state.best]
        comparison = self._compare(folder) if better else None
        dropped = ""
        if comparison is not None and comparison.slower:
            comparison, dropped = self._fall_back(folder, comparison)
        seconds = time.monotonic() - self.start
        return Summary(self.records, len(search.states), search.measured, len(better), seconds, comparison, dropped)

    def _fall_back(self, folder: Path, comparison: Comparison) -> tuple[Comparison, str]:
        """The whole is slower: keeps what is clearly faster by itself if that helps, else nothing new.

        The comparison that this came of, and what was dropped."""
        known, found = ({record.key: record for record in records} for records in (self.known, self.records))
        clear = {key: record for key, record in found.items() if record.gain >= CLEAR or key in known}
        dropped = "all that was found"
        if len(known) < len(clear) < len(found):
            self.records = Records(clear.values())
            second = self._compare(folder)
            if not second.slower:
                comparison, dropped = second, f"what gained less than {CLEAR - 1:.0%}"
        if dropped.startswith("all"):
            self.records = self.known
        self._write()
        return comparison, dropped

    def _compare(self, folder: Path) -> Comparison:
        threads = 1 if self.threads == 1 else None
        options = replace(self.options, threads=threads)
        tuned, untuned = compile_both(self.model, folder, options, self.records, SILENT)
        session = InferenceSession(str(untuned), threads=1)
        feeds = complete_feeds(session.get_inputs(), {}, self.options.dims, 0)
        return compare(tuned, untuned, feeds, Plan(self.threads), self.progress)


def merge(parts: Sequence[tuple[Records, list[str]]], output: Path) -> tuple[Records, list[str]]:
    """Writes the better record of each key of several sets; returns them with all warnings."""
    merged, warnings = Records(), []
    for records, told in parts:
        merged, warnings = merged.merge(records), [*warnings, *told]
    merged.write(output)
    return merged, warnings


def read_results(results: dict[str, Any], path: Path) -> tuple[Records, list[str]]:
    """The records that a bundle's results come to, and a warning for each that cannot be used.

    KeyError, TypeError or ValueError where they are no results at all.
    """
    records, warnings = Records(), []
    shared = {"format": RECORDS, **{name: results[name] for name in ("onnxc", "target", "threads")}}
    for number, result in enumerate(results["results"], 1):
        if "error" in result:
            continue
        entries = {name: result[name] for name in ("choice", "ns", "default_ns", "rounds", "spread") if name in result}
        try:
            records.add(parse_record(json.dumps({**shared, "signature": result["name"], **entries}).encode()))
        except Unusable as why:
            warnings.append(f"{path}: result {number}: {why}")
    return records, warnings
