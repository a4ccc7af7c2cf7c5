"""The order of the search and what it keeps, with times that are given instead of measured."""

from __future__ import annotations

import itertools
import math
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest

from onnxc.tuning import search as search_module
from onnxc.tuning.records import Record
from onnxc.tuning.search import PORTION, Search
from onnxc.tuning.tasks import Call, Candidate, Task

FIRST = {"rows": 6, "vectors": 2, "group": 4, "prefetch": 1}


def task(name: str, schedules: list[dict], count: int = 1) -> Task:
    call = Call(name, (), (), {})
    return Task(name, count, {}, [Candidate({"schedule": s}, (call.with_schedule(s),)) for s in schedules])


class Machine:
    """Writer and runner in one: `ns(name, schedule)` is what a candidate takes; None: it is wrong."""

    width, threads, pool = 1, 1, SimpleNamespace(target=SimpleNamespace(key="here"))

    def __init__(self, ns) -> None:
        self.ns = ns
        self.asked: list[tuple[str, list[int]]] = []

    def estimate(self, task: Task) -> float:
        return 0.0

    def write(self, folder: Path, portions, until: float) -> list[list[int]]:
        folder.mkdir(parents=True)
        self.portions = portions
        return [list(p.numbers) for p in portions]

    def submit(self, folder: Path) -> Future:
        future: Future = Future()
        future.set_result([self._result(p) for p in self.portions])
        return future

    def _result(self, portion) -> dict:
        self.asked.append((portion.task.signature, list(portion.numbers)))
        times = [
            self.ns(portion.task.signature, portion.task.candidates[n].choice["schedule"]) for n in portion.numbers
        ]
        if times[0] is None:
            return {"error": "ended by SIGSEGV"}
        best, told = 0, [{"verdict": "reference"}]
        for i, ns in enumerate(times[1:], 1):
            if ns is None:
                told.append({"verdict": "failed", "why": "wrong"})
                continue
            told.append({"verdict": "even", "ratio": ns / times[best]})
            if ns < 0.98 * times[best]:
                best = i
        return {"winner": best, "ns": times[best], "default_ns": times[0], "rounds": 15, "candidates": told}


def explored(machine: Machine, tasks: list[Task], folder: Path, seconds: float = math.inf, known=lambda t: None):
    found: list[Record] = []
    search = Search(machine, machine, folder / "bundles", found.append, lambda line: None)
    search.explore(tasks, time.monotonic() + seconds, known)
    return search, found


def tiles(count: int) -> list[dict]:
    return [FIRST, *({**FIRST, "rows": n} for n in range(7, 6 + count))]


def test_heavy_problems_first_and_each_in_turn(tmp_path: Path) -> None:
    machine = Machine(lambda name, s: {"light": 1.0, "heavy": 5.0, "often": 3.0}[name])
    tasks = [task("light", tiles(12)), task("heavy", tiles(12)), task("often", tiles(12), count=4)]
    search, found = explored(machine, tasks, tmp_path)
    rounds = machine.asked[3:]  # after all have been timed
    assert [name for name, _ in rounds] == ["often", "heavy", "light"] * 2
    assert [numbers for _, numbers in rounds[::3]] == [list(range(PORTION + 1)), [0, *range(PORTION + 1, 12)]]
    assert [record.choice for record in found] == [{"schedule": FIRST}] * 3  # the heuristic is known to be the best
    assert search.measured == 33


def test_the_best_is_kept_and_combined(tmp_path: Path) -> None:
    """A better tile and a better distance that both help give a candidate with both."""

    def ns(name: str, s: dict) -> float:
        return 100.0 * (0.9 if s["rows"] == 8 else 1.0) * (0.97 if s["prefetch"] == 16 else 1.0)

    schedules = [FIRST, {**FIRST, "prefetch": 16}, {**FIRST, "rows": 8}]
    search, found = explored(Machine(ns), [task("matmul", schedules, count=3)], tmp_path)
    assert found[-1].choice == {"schedule": {**FIRST, "rows": 8, "prefetch": 16}}
    assert (found[-1].ns, found[-1].default_ns) == (pytest.approx(87.3), 100.0)
    assert search.saved == pytest.approx(3 * 12.7)


def test_wrong_ones_are_never_kept(tmp_path: Path) -> None:
    machine = Machine(lambda name, s: None if s["rows"] == 8 else 100.0 - s["rows"])
    _, found = explored(machine, [task("matmul", [FIRST, {**FIRST, "rows": 8}, {**FIRST, "rows": 12}])], tmp_path)
    assert found[-1].choice["schedule"]["rows"] == 12


def test_what_cannot_run_is_left_out(tmp_path: Path) -> None:
    machine = Machine(lambda name, s: None if name == "broken" else 1.0)
    search, found = explored(machine, [task("broken", tiles(3)), task("whole", tiles(3))], tmp_path)
    assert [state.task.signature for state in search.states] == ["whole"] == [r.signature for r in found]


def test_no_time_no_candidates(tmp_path: Path) -> None:
    machine = Machine(lambda name, s: 1.0)
    search, found = explored(machine, [task("matmul", tiles(5))], tmp_path, seconds=-1.0)
    assert (search.measured, found, machine.asked) == (0, [], [])


def test_a_problem_that_comes_again_keeps_its_gain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is no time for it; a choice that is known and was not measured counts as none."""
    machine = Machine(lambda name, s: 20.0 - s["rows"])
    first, again = task("matmul", tiles(4)), task("matmul", tiles(4))
    search, _ = explored(machine, [first], tmp_path)
    assert search.saved == 3.0
    clock = itertools.count()  # it takes a second to time a problem, and there are two
    monkeypatch.setattr(search_module, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    machine.ns = lambda name, s: 1.0
    search.explore([again], 2.0, lambda t: t.candidates[2])
    assert (search.saved, len(search.states), search.states[0].task is again) == (3.0, 1, True)
    new = task("new", tiles(4))
    clock = itertools.count()
    search.explore([new], 2.0, lambda t: t.candidates[2])
    assert [state.better for state in search.states] == [True, False]


def test_what_time_did_not_suffice_for_comes_again(tmp_path: Path) -> None:
    """Candidates that were sent and not measured are next when there is time."""
    machine = Machine(lambda name, s: 100.0 - s["rows"])
    result = machine._result

    def cut(portion) -> dict:
        answer = result(portion)
        if len(machine.asked) == 2:
            answer["candidates"][2:] = [{"verdict": "not measured"}] * len(answer["candidates"][2:])
        return answer

    machine._result = cut
    _, found = explored(machine, [task("matmul", tiles(5))], tmp_path)
    assert [numbers for _, numbers in machine.asked[1:]] == [[0, 1, 2, 3, 4], [0, 4, 2, 3]]
    assert found[-1].choice["schedule"]["rows"] == 10


def test_a_worker_that_is_lost_costs_its_problem(tmp_path: Path) -> None:
    machine = Machine(lambda name, s: 1.0)
    submit = machine.submit

    def lost(folder: Path) -> Future:
        future = submit(folder)
        if len(machine.asked) == 3:
            future = Future()
            future.set_exception(RuntimeError("the worker is gone"))
        return future

    machine.submit = lost
    _, found = explored(machine, [task("one", tiles(3)), task("two", tiles(3))], tmp_path)
    assert [record.signature for record in found] == ["two"]


def test_known_choices_come_later_but_first_of_their_problem(tmp_path: Path) -> None:
    machine = Machine(lambda name, s: 20.0 - s["rows"] if name == "known" else 1.0)
    tasks = [task("known", tiles(4)), task("new", tiles(4))]
    other = Candidate({"schedule": {**FIRST, "rows": 2}}, tasks[0].candidates[0].calls)
    _, found = explored(machine, tasks, tmp_path, known=lambda t: other if t.signature == "known" else None)
    assert [name for name, _ in machine.asked[2:]] == ["new", "known"]
    assert machine.asked[-1] == ("known", [0, 4, 1, 2, 3])
    assert found[-1].choice["schedule"]["rows"] == 9
