"""This file tunes a model: algorithms, schedules of the kernels that come of them, where these end, who takes turns.

Wherever it stops, the records written so far are good; in the end they must have made the model as a whole no slower.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from onnxc.bench import Plan
from onnxc.cache import user_cache
from onnxc.compile_pool import CompilePool
from onnxc.feeds import complete_feeds
from onnxc.link import copy_output, write_output
from onnxc.options import Options
from onnxc.progress import SILENT, Progress
from onnxc.runtime import InferenceSession
from onnxc.targets import target_for
from onnxc.tuning.bundle import BundleWriter, Portion
from onnxc.tuning.extraction import Lowered, lower, measured_dims
from onnxc.tuning.fusion import fusion_tasks
from onnxc.tuning.output_file import OutputFile
from onnxc.tuning.problems import Algorithms, kernel_tasks
from onnxc.tuning.program import PROGRAM
from onnxc.tuning.records import Record, Records
from onnxc.tuning.runners import Runner, archived
from onnxc.tuning.search import Search, State
from onnxc.tuning.tasks import Candidate, Task
from onnxc.tuning.time_limit import TimeIsUp, TimeLimit
from onnxc.tuning.turns import turn_tasks
from onnxc.tuning.whole_model import Comparison, compare, compile_both, seconds_a_run
from onnxc.tuning.whole_program import comparison_of, whole_task

NEAR = 1.25  # times as slow as the best: an algorithm that may be the best with tuned kernels
CLEAR = 1.05  # a gain that is beyond what cannot be seen in a kernel by itself
COLD_BYTES = 96 << 20  # of weights: reading more than that comes from memory on any CPU that we know
# Shares of the whole time, at most:
FOR_ALGORITHMS = 0.35
FOR_FUSION, FUSION = 0.1, 1.5  # where kernels end, and as much for who takes turns; but so many s a kernel or chain
FOR_RIVALS = 0.2  # of what is left after algorithms
FOR_COMPARISON, LONGEST_COMPARISON = 0.2, 30.0  # but so many seconds
# The comparison in the end, in seconds but for COMPILATIONS:
START = 1.0  # until two processes have loaded a model
COMPARISON = 8.0  # of running both
COMPILATIONS = 8  # times as long as taking the model to level kernels: compiling both but for their kernels
RUNS = 3  # a block, at least
FEW, MOST_ROUNDS = 4, 30  # rounds: where time is nearly out, and at most


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
    rejected: int = 0


class Tuner:
    """Tunes one model for one target and number of threads; `records`: what is known, before and after."""

    def __init__(
        self, model: Path, options: Options, records: Records, output: Path, *, threads: int = 1,
        progress: Progress = SILENT,
    ) -> None:  # fmt: skip
        self.model, self.options, self.output, self.threads = model, options, output, threads
        self.known, self.records, self.progress = records, records, progress
        self.file = OutputFile(output, records.newer)
        self.target = target_for(options.mcpu, options.target)
        self.pool = CompilePool(self.target, options.jobs, cache=user_cache(enabled=options.cache))
        self.start = time.monotonic()
        self.budget = self.lowering = 0.0  # `lowering`: seconds that it takes to have the model's `kernels`
        self.kernels = 0
        self.search: Search | None = None
        self.runner: Runner | None = None
        self.uncompared = "there was no time left"  # why the whole was not measured

    def run(self, runner: Runner, folder: Path, budget: float) -> Summary:
        """Tunes for about `budget` seconds; `folder` is for temporary files."""
        self.start, self.budget = time.monotonic(), budget
        self.progress.say(f"tuning {self.model.name} for {self.target}, about {budget:.0f} s")
        self.progress.stage("tuning", 0, int(budget))
        self.runner = runner
        with contextlib.suppress(TimeIsUp):
            self._search(runner, folder)
        summary = self._finish(folder)
        if summary.measured or not self.output.exists():
            self._write()
        return summary

    def _search(self, runner: Runner, folder: Path) -> None:
        """Algorithms, the kernels that come of them, and the algorithms that were close once more."""
        plain = self._lower(Records(), self.end)
        if not self.output.exists():
            self._write()  # so that whatever ends this from now on, there is a file
        self.lowering, self.kernels = time.monotonic() - self.start, len(plain.functions)
        self.search = search = Search(self.writer(plain, runner.form), runner, folder, self._found, self._told)
        algorithms = self._algorithms(Records(), self.end_of_search)
        until = min(self.end_of_search, self.start + FOR_ALGORITHMS * self.budget)
        search.explore(algorithms.tasks(), until, self._known)
        near = {s.task.signature: s.rivals(NEAR)[:1] for s in search.states}
        near = {signature: rivals for signature, rivals in near.items() if rivals}
        self._kernels(search, FOR_RIVALS if near else 0.0)
        if near:
            self._again(search, algorithms, near, self.end_of_search)

    def _kernels(self, search: Search, share: float) -> None:
        """The schedules of kernels as they are fused, where these kernels end, and who takes turns; `share` of the time
        is left to others."""
        lowered = self._lower(self._found_so_far("algorithm", "fusion"), self.end_of_search)
        tasks = search.timed(kernel_tasks(lowered), self.end_of_search)
        end = self.end_of_search - share * (self.end_of_search - time.monotonic())
        ends, chains = len(fusion_tasks(lowered)), len(turn_tasks(lowered))
        for_ends, for_turns = (min(FOR_FUSION * self.budget, count * FUSION) for count in (ends, chains))
        search.explore(tasks, end - for_ends - for_turns, self._known)
        if ends:
            self._ends(search, end - for_turns)
        if chains:
            lowered = self._lower(self._found_so_far("algorithm", "schedule", "fusion"), end)
            search.explore(turn_tasks(lowered), end, self._known)

    def _ends(self, search: Search, end: float) -> None:
        """Where kernels end, and the schedules of what then is called instead."""
        before = {record.key for record in self.records if record.choice.get("fusion")}
        search.explore(fusion_tasks(self._lower(self._found_so_far("algorithm", "schedule"), end)), end, self._known)
        if any(record.choice.get("fusion") and record.key not in before for record in self.records):
            tuned = {state.task.problem for state in search.states}
            parts = kernel_tasks(self._lower(self._found_so_far("algorithm", "fusion"), end))
            search.explore([task for task in parts if task.problem not in tuned], end, self._known)

    def _again(self, search: Search, algorithms: Algorithms, near: dict[str, list[str]], end: float) -> None:
        """Compares algorithms that were close once more, now with tuned kernels: the rivals' are tuned first."""
        tuned = {state.task.signature for state in search.states if state.task.what == "schedule"}
        states = {s.task.signature: s for s in search.states if s.task.signature in near}
        rivals = [(n, s.task) for s in states.values() for n in near[s.task.signature]]
        kernels: dict[str, Task] = {}
        for name in sorted({name for name, _ in rivals}):
            calls = [c for n, task in rivals for c in task.candidates if n == name == c.choice["algorithm"]]
            among = {call.text for candidate in calls for call in candidate.calls}
            kernels |= {t.signature: t for t in kernel_tasks(algorithms.variants[name], among)}
        fresh = [task for signature, task in kernels.items() if signature not in tuned]
        search.beside |= {task.signature for task in fresh}
        search.explore(fresh, end - (end - time.monotonic()) / 3, self._known)
        among = {signature: {*near[signature], states[signature].chosen} for signature in near}
        again = self._algorithms(self._found_so_far("schedule", "fusion"), end, among)
        known = {signature: state.chosen for signature, state in states.items()}

        def found_before(task: Task) -> Candidate | None:
            return next((c for c in task.candidates if c.choice["algorithm"] == known[task.signature]), None)

        search.explore([t for t in again.tasks() if t.signature in near], end, found_before)

    def _found_so_far(self, *what: str) -> Records:
        return Records(record for record in self.records if not set(what).isdisjoint(record.choice))

    def _algorithms(
        self, records: Records, until: float, among: Mapping[str, Collection[str]] | None = None
    ) -> Algorithms:
        return Algorithms(self.model, replace(self.options, tuning=records), TimeLimit(until), among)

    @property
    def end(self) -> float:
        return self.start + self.budget

    @property
    def end_of_search(self) -> float:
        """When both models are to be compiled, at the pace of the candidates so far, and compared."""
        pace = self.search.writer.pace if self.search is not None else 0.0
        needed = START + COMPARISON + COMPILATIONS * self.lowering + 2 * self.kernels * pace
        return self.end - min(LONGEST_COMPARISON, FOR_COMPARISON * self.budget, needed)

    def write_bundle(self, folder: Path, budget: float, form: str = "library") -> int:
        """Writes all problems, the convolutions and the kernels as records have it so far, as the output: a bundle, a
        zip or (`form`) a program.

        Each may take its share of `budget` seconds to be measured.
        """
        plain = self._lower(self.records)
        whole = self._lower(Records(r for r in self.records if "fusion" not in r.choice))
        tasks = [*self._algorithms(Records(), math.inf).tasks(), *fusion_tasks(whole)]
        tasks += [*kernel_tasks(plain), *turn_tasks(plain)]
        seconds = budget / max(1, len(tasks))
        portions = [Portion(task, range(len(task.candidates)), seconds) for task in tasks]
        self.writer(plain, form).write(folder, portions)
        if form == "program":
            copy_output(folder / PROGRAM, self.output)
        else:
            write_output(self.output, archived(folder))
        return len(tasks)

    @property
    def states(self) -> list[State]:
        return self.search.states if self.search is not None else []

    def _lower(self, records: Records, until: float = math.inf) -> Lowered:
        return lower(self.model, replace(self.options, tuning=records), progress=TimeLimit(until))

    def writer(self, lowered: Lowered, form: str = "library") -> BundleWriter:
        """Weights that together do not stay in the second cache are cold in each run of the model."""
        size = lowered.weight_bytes
        cold = min(size, COLD_BYTES) if size > self.target.l2_bytes else 0
        return BundleWriter(self.pool, self.threads, cold, form)

    def _known(self, task: Task) -> Candidate | None:
        """The candidate that an earlier record names."""
        key = (task.signature, self.target.key, self.threads, task.what)
        choice = next((record.choice for record in self.known if record.key == key), None)
        if choice is None or task.what != "schedule":
            return next((c for c in task.candidates if c.choice == choice), None)
        return task.scheduled(choice["schedule"])

    def _found(self, record: Record) -> None:
        self.records = Records([*(r for r in self.records if r.key != record.key), record])
        self._write()
        saved, elapsed = self.search.saved / 1e6 if self.search else 0.0, time.monotonic() - self.start
        self.progress.note(f"{elapsed:5.0f} s, {saved:.4g} ms saved: {record.gain:.3f} × {record.signature[:80]}")
        self._told("")

    def _write(self) -> None:
        self.file.write(self.records)

    def _told(self, line: str) -> None:
        if line:
            self.progress.note(line)
        saved, whole = (self.search.saved, self.search.weight) if self.search is not None else (0.0, 0.0)
        detail = f"{saved / 1e6:.3g} of {whole / 1e6:.3g} ms saved" if whole else f"{saved / 1e6:.3g} ms saved"
        self.progress.stage("tuning", int(time.monotonic() - self.start), int(self.budget), detail)

    def _finish(self, folder: Path) -> Summary:
        better = [state for state in self.states if state.better]
        comparison, dropped = None, ""
        if better:
            with contextlib.suppress(TimeIsUp):
                comparison = self._compare(folder)
                if comparison is not None and comparison.slower:
                    comparison, dropped = self._fall_back(folder, comparison)
        seconds, search = time.monotonic() - self.start, self.search
        measured, rejected = (search.measured, search.rejected) if search is not None else (0, 0)
        return Summary(self.records, len(self.states), measured, len(better), seconds, comparison, dropped, rejected)

    def _fall_back(self, folder: Path, comparison: Comparison) -> tuple[Comparison, str]:
        """The whole is slower: keeps what is clearly faster by itself if that helps, else nothing new.

        For the rest the heuristic's choice is the record. The comparison that this came of, and what was dropped."""
        known, found = {record.key: record for record in self.known}, self.records
        usual = {state.task.problem: state.task.candidates[0].choice for state in self.states}
        without = {r.key: known[r.key] if r.key in known else r.given_up_for(usual[r.problem]) for r in found}
        clear = Records(r if r.gain >= CLEAR or r.key in known else without[r.key] for r in found)
        if any(record.choice != without[record.key].choice for record in clear) and list(clear) != list(found):
            self.records = clear
            with contextlib.suppress(TimeIsUp):
                second = self._compare(folder)
                if second is not None and not second.slower:
                    return second, f"what gained less than {CLEAR - 1:.0%}"
        self.records = Records(without.values())
        return comparison, "all that was found"

    def _compare(self, folder: Path) -> Comparison | None:
        """The tuned model beside the untuned one where the runner measures; None where that is not possible."""
        if self.runner is not None and not self.runner.here:
            return self._compare_there(self.runner, folder / "whole")
        threads = 1 if self.threads == 1 else None
        options = replace(self.options, threads=threads)
        tuned, untuned = compile_both(self.model, folder, options, self.records, TimeLimit(self.end - START))
        session = InferenceSession(str(untuned), threads=1)
        inputs = session.get_inputs()
        feeds = complete_feeds(inputs, {}, measured_dims(inputs, self.options), 0)
        return compare(tuned, untuned, feeds, self._plan(seconds_a_run(session, feeds)), self.progress)

    def _plan(self, seconds: float) -> Plan:
        """Of comparing models that run for so many seconds: blocks in which what the other left in caches counts
        little, and as many rounds as there is time for."""
        block = max(Plan.block_seconds, RUNS * seconds)
        rounds = int((self.end - time.monotonic()) / (2 * (block + seconds)))
        return Plan(self.threads, max(FEW, min(MOST_ROUNDS, rounds)), block)

    def _compare_there(self, runner: Runner, folder: Path) -> Comparison | None:
        untuned = self._lower(Records(), self.end)
        task = whole_task(untuned, self._lower(self.records, self.end))
        if task is None:
            self.uncompared = "which kernels are called depends on values, or their sizes do"
            return None
        writer = self.writer(untuned, runner.form)
        seconds = max(START, self.end - time.monotonic())
        (taken,) = writer.write(folder, [Portion(task, range(2), seconds)], self.end)
        result = runner.submit(folder).result()[0] if len(taken) == 2 else {}
        told = [result.get("error"), *(candidate.get("why") for candidate in result.get("candidates", ()))]
        self.uncompared = next(filter(None, told), self.uncompared)
        return comparison_of(result)
