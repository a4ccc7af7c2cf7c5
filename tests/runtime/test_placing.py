"""The CPU that a sleeping worker's waker bars to it, with threads of Python as workers."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest

from tests.runtime.handmade import Workshop

CPUS = os.sched_getaffinity(0)
pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="one CPU only")

SOURCE = """
#include <stdint.h>
#include <string.h>
#include "placing.c"
static place p;
void bar(int32_t thread) { p.thread = thread; bar_own_cpu(&p); }
void lift(void) { lift_bar(&p); }
int barred(void) { return p.bytes != 0; }
"""


@pytest.fixture(scope="module")
def placing(workshop: Workshop) -> ctypes.CDLL:
    return workshop.part("placing", SOURCE)


class Worker(threading.Thread):
    """Runs what it is handed, one after the other."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.tasks: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self.done: SimpleQueue[None] = SimpleQueue()
        self.start()
        self.run_there(lambda: None)

    def run(self) -> None:
        while task := self.tasks.get():
            task()
            self.done.put(None)

    def run_there(self, task: Callable[[], object]) -> None:
        self.tasks.put(task)
        self.done.get()

    @property
    def cpus(self) -> set[int]:
        assert self.native_id
        return os.sched_getaffinity(self.native_id)

    @cpus.setter
    def cpus(self, cpus: set[int]) -> None:
        assert self.native_id
        os.sched_setaffinity(self.native_id, cpus)


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.tasks.put(None)
    worker.join()


@pytest.fixture
def waker_cpu() -> Iterator[int]:
    """The only CPU of this thread, so that the one barred is known."""
    cpu = min(CPUS)
    os.sched_setaffinity(0, {cpu})
    yield cpu
    os.sched_setaffinity(0, CPUS)


def test_bar_and_lift(placing: ctypes.CDLL, worker: Worker, waker_cpu: int) -> None:
    for _ in range(2):
        placing.bar(worker.native_id)
        assert worker.cpus == CPUS - {waker_cpu} and placing.barred()
        worker.run_there(placing.lift)
        assert worker.cpus == CPUS and not placing.barred()


@pytest.mark.parametrize("others", [False, True])
def test_nothing_to_bar(placing: ctypes.CDLL, worker: Worker, waker_cpu: int, others: bool) -> None:
    """A worker that may use the waker's CPU alone, or all but that one."""
    worker.cpus = cpus = CPUS - {waker_cpu} if others else {waker_cpu}
    placing.bar(worker.native_id)
    assert worker.cpus == cpus and not placing.barred()
    worker.run_there(placing.lift)
    assert worker.cpus == cpus


@pytest.mark.parametrize("all_cpus", [False, True])
def test_what_was_set_in_between_stands(placing: ctypes.CDLL, worker: Worker, waker_cpu: int, all_cpus: bool) -> None:
    """Another thread sets the worker's CPUs after it was barred from one, and before it is awake."""
    placing.bar(worker.native_id)
    worker.cpus = cpus = CPUS if all_cpus else {waker_cpu}
    worker.run_there(placing.lift)
    assert worker.cpus == cpus and not placing.barred()
