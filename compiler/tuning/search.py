"""This file searches: problems by weight, candidates in the cost models' order, a few at a time, until time is out.

Every problem gets its first candidates before any gets its next ones, so that most of what can be gained is gained
early. When a problem's candidates are through, what else was close is combined with the best. The records are written
after each change, so whatever ends the search, what was found is there.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnxc.errors import OnnxcError
from onnxc.passes.kernels.schedule_space import crossed
from onnxc.tuning.bundle import BundleWriter, Portion
from onnxc.tuning.records import Record
from onnxc.tuning.runners import Results, Runner, WorkerFailed
from onnxc.tuning.tasks import Candidate, Task

PROFILED = 8  # problems that are timed at a time, so that time is looked at in between
PORTION = 7  # candidates of a problem that are measured before the next problem's turn
CLOSE = 1.02  # times as slow as the best: worth combining with it
MOST_CROSSED = 6
TILE = {"rows", "vectors", "lanes", "algorithm", "pixels"}  # entries that belong together


@dataclass
class State:
    """How far a problem has come: the candidates to be measured, the best, and the last result's figures."""

    task: Task
    waiting: list[int]
    best: int = 0
    figures: dict[str, Any] = field(default_factory=dict)
    close: list[int] = field(default_factory=list)
    ratios: dict[int, float] = field(default_factory=dict)
    measured: int = 0
    done: bool = False

    @property
    def better(self) -> bool:
        """Whether something else than the heuristic's choice was measured to be the best."""
        return bool(self.best and self.figures)

    @property
    def chosen(self) -> str:
        """The best algorithm."""
        return self.task.candidates[self.best].choice["algorithm"]

    def rivals(self, within: float) -> list[str]:
        """Algorithms less than `within` times as slow as the best, the closest first."""
        own = sorted((ratio, n) for n, ratio in self.ratios.items() if n != self.best and ratio < within)
        return [self.task.candidates[n].choice["algorithm"] for _, n in own]

    @property
    def times(self) -> dict[str, float]:
        """Nanoseconds of each algorithm that was measured."""
        known = sorted(self.ratios.items())
        return {self.task.candidates[n].choice["algorithm"]: round(self.figures["ns"] * r, 1) for n, r in known}

    @property
    def saved(self) -> float:
        """Nanoseconds of a run of the model that the best saves."""
        figures = self.figures
        return self.task.count * (figures["default_ns"] - figures["ns"]) if figures else 0.0


class Search:
    """Measures the candidates of problems through a runner; `found(record)` hears of each choice.

    `folder`: for bundles, each of which is gone when it has been measured.
    """

    def __init__(
        self, writer: BundleWriter, runner: Runner, folder: Path, found: Callable[[Record], None],
        told: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.writer, self.runner, self.folder = writer, runner, folder
        self.found, self.told = found, told
        self.states: list[State] = []
        self.beside: set[str] = set()  # signatures of the kernels of rival algorithms, which the model does not have
        self.measured = self.rejected = 0
        self._bundles = 0

    @property
    def saved(self) -> float:
        """Nanoseconds of a run of the model that what was found saves."""
        return sum(state.saved for state in self._of_the_model())

    @property
    def weight(self) -> float:
        """Nanoseconds of a run of the model that go into kernels that were tuned."""
        return sum(state.task.weight for state in self._of_the_model() if state.task.what == "schedule")

    def _of_the_model(self) -> list[State]:
        return [state for state in self.states if state.task.signature not in self.beside]

    def explore(self, tasks: Sequence[Task], until: float, known: Callable[[Task], Candidate | None]) -> None:
        """Measures until all candidates are through or the time (of time.monotonic) is `until`.

        `known`: an earlier record's choice, with which a problem begins; those come after problems without.
        """
        if not tasks:
            return
        states = [_begin(task, known(task)) for task in sorted(self.timed(tasks, until), key=lambda t: -t.weight)]
        before = {state.task.problem: state for state in self.states}
        for state in states:  # of a problem that comes again what it has gained so far counts
            if (earlier := before.pop(state.task.problem, None)) is not None:
                state.figures = earlier.figures
        self.states = [*before.values(), *states]
        queue = sorted(states, key=lambda state: state.best != 0)
        flying: dict[Future[Results], tuple[State, list[int]]] = {}
        while queue or flying:
            while queue and len(flying) < self.runner.width and time.monotonic() < until:
                state = queue.pop(0)
                if (sent := self._send(state, until)) is not None:
                    flying[sent[0]] = state, sent[1]
            if not flying:
                break
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                state, numbers = flying.pop(future)
                self._take(state, numbers, _first(future))
                if not state.done:
                    queue.append(state)

    def timed(self, tasks: Sequence[Task], until: float) -> list[Task]:
        """Times problems with the heuristic's choice, those that are estimated to take the most time first.

        What cannot be run, or not before `until`, has no time, and is left out.
        """
        order = sorted((task for task in tasks if not task.ns), key=self.writer.estimate, reverse=True)
        if order:
            self.told("timing what there is")
        while order and time.monotonic() < until:
            some, order = order[:PROFILED], order[PROFILED:]
            portions = [Portion(task, sorted({0, task.reference})) for task in some]
            folder = self._next_folder()
            taken = self.writer.write(folder, portions, until)
            late = time.monotonic() > until  # then nobody knows whether they could be built
            results = iter(self.runner.submit(folder).result() if any(taken) else ())
            shutil.rmtree(folder)
            for task, numbers in zip(some, taken, strict=True):
                result = next(results) if numbers else {"error": "it cannot be built"}
                if "error" not in result:
                    task.ns = result["default_ns"]
                elif numbers or not late:
                    self.told(f"left out: {task.signature}: {result['error']}")
        return [task for task in tasks if task.ns]

    def _send(self, state: State, until: float) -> tuple[Future[Results], list[int]] | None:
        """Starts measuring the next candidates of a problem; None: there was no time to compile the first ones."""
        fresh, state.waiting = state.waiting[:PORTION], state.waiting[PORTION:]
        numbers = list(dict.fromkeys([0, state.best, state.task.reference, *fresh]))
        folder = self._next_folder()
        portion = Portion(state.task, numbers, max(1.0, until - time.monotonic()))
        (taken,) = self.writer.write(folder, [portion], until)
        flight = None
        if taken and not (time.monotonic() > until and set(taken).isdisjoint(fresh)):
            state.measured += len(set(taken) & set(fresh))
            self.measured += len(set(taken) & set(fresh))
            state.waiting += [n for n in fresh if n not in taken and time.monotonic() > until]
            flight = self.runner.submit(folder), taken
        shutil.rmtree(folder)
        return flight

    def _take(self, state: State, numbers: list[int], result: dict[str, Any]) -> None:
        if "error" in result:
            state.done = True
            self.told(f"left out: {state.task.signature}: {result['error']}")
            return
        state.figures = result
        state.best = numbers[result["winner"]]
        state.ratios[0] = result["default_ns"] / result["ns"]
        for number, told in zip(numbers, result["candidates"], strict=True):
            if "ns" in told:
                state.ratios[number] = told["ns"] / result["ns"]
            if told["verdict"] == "not measured":
                state.waiting.append(number)
            elif told["verdict"] == "failed":
                self.rejected += 1
                self.told(f"rejected: {dict(state.task.candidates[number].choice)}: {told['why']}")
            elif told.get("ratio", 2.0) < CLOSE and number != state.best:
                state.close.append(number)
        if not state.waiting and state.best and state.close:
            self._cross(state)
        state.done = not state.waiting
        if state.best or state.done:
            self.found(self._record(state))

    def _cross(self, state: State) -> None:
        """The best with what else was close, as further candidates."""
        candidates = state.task.candidates
        first, best = candidates[0].choice, candidates[state.best].choice
        close, state.close = state.close, []
        if "schedule" not in best:
            return
        for number in close[:MOST_CROSSED]:
            schedule = crossed(first["schedule"], best["schedule"], candidates[number].choice["schedule"])
            changed = {key for key, value in schedule.items() if best["schedule"].get(key) != value}
            if changed and not changed & TILE and all(schedule != c.choice["schedule"] for c in candidates):
                state.waiting.append(len(candidates))
                candidates.append(state.task.scheduled(schedule))

    def _record(self, state: State) -> Record:
        figures = state.figures
        return Record(
            signature=state.task.signature,
            target=self.writer.pool.target.key,
            choice=state.task.candidates[state.best].choice,
            ns=round(figures["ns"], 1),
            default_ns=round(figures["default_ns"], 1),
            threads=self.writer.threads,
            rounds=figures.get("rounds", 0),
            spread=round(figures.get("spread", 0.0), 4),
            times=state.times if state.task.what == "algorithm" else {},
        )

    def _next_folder(self) -> Path:
        self._bundles += 1
        return self.folder / str(self._bundles)


def _first(future: Future[Results]) -> dict[str, Any]:
    """The result of a bundle of one problem; whatever a worker elsewhere comes to is that problem's error."""
    try:
        return future.result()[0]
    except WorkerFailed as failed:
        return {"error": failed.why}
    except OnnxcError:
        raise
    except Exception as error:  # an engine's own: a worker was killed, the connection broke
        return {"error": " ".join(str(error).split()) or type(error).__name__}


def _begin(task: Task, known: Candidate | None) -> State:
    """A problem's state; a known choice is the first to be tried, among the candidates or beside them."""
    number = 0
    if known is not None:
        choices = [candidate.choice for candidate in task.candidates]
        if known.choice not in choices:
            task.candidates.append(known)
        number = [candidate.choice for candidate in task.candidates].index(known.choice)
    waiting = [n for n in range(1, len(task.candidates)) if n != number]
    return State(task, waiting, number)
