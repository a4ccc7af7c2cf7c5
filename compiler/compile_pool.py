"""Compiles kernels in processes of their own: in parallel, and so that an abort inside LLVM or MLIR costs one kernel.

A worker is a fork of this process: it is at work after 4 ms with everything imported, where a fresh Python with the
same imports takes 300 ms, and it needs no guard around the user's main program (docs/decisions/0005). Workers hear
about jobs by number only, since they have the list; results come back over a socket. They ignore Ctrl-C, which the
parent answers by killing them, and they die with the parent however it ends.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import tempfile
import traceback
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxc.cache import ObjectCache, cache_key
from onnxc.compile_worker import Worker
from onnxc.errors import CompilerBug, OnnxcError, Refusals
from onnxc.targets import Target

# LLVM's pass builder keeps about 100 kB of every compilation: a worker that has done this many makes room for another.
JOBS_PER_WORKER = 400


@dataclass(frozen=True)
class Job:
    """A kernel to compile. `text` and the target say all that decides the result; `name` is for people.

    `target`: None is the pool's.
    """

    name: str
    text: str
    target: Target | None = None


Build = Callable[[Job, Target], bytes]
Told = Callable[[int, int], None]


class CompilePool:
    """Compiles jobs in up to `processes` processes (None: the CPUs this process may use).

    They are for `target` unless they say otherwise.
    """

    def __init__(self, target: Target, processes: int | None = None, *, cache: ObjectCache | None = None) -> None:
        self.target = target
        self.processes = processes or len(os.sched_getaffinity(0))
        self.cache = cache
        self.built = 0  # jobs that no cache had

    def map(self, build: Build, jobs: Sequence[Job], told: Told | None = None) -> list[bytes]:
        """`build(job, target)` of every job, in their order, from the cache where it was made before.

        `build` is a module-level function. Equal texts are built once. `told(done, total)` follows. A job's OnnxcErrors
        are raised when all jobs are through: one as it is, several as Refusals; a CompilerBug, or the death of a
        worker, which is charged to its job and leaves the job's text in a file, is raised at once.
        """
        results: dict[tuple[str, str], bytes] = {}
        refused: list[OnnxcError] = []
        total = len({self._what(job) for job in jobs})
        for done, (job, result) in enumerate(self.stream(build, jobs), 1):
            if isinstance(result, OnnxcError):
                refused.append(result)
            else:
                results[self._what(job)] = result
            if told is not None:
                told(done, total)
        if refused:
            raise refused[0] if len(refused) == 1 else Refusals(refused)
        return [results[self._what(job)] for job in jobs]

    def stream(self, build: Build, jobs: Sequence[Job]) -> Generator[tuple[Job, bytes | OnnxcError]]:
        """The distinct jobs with their results, in the order in which they become ready."""
        distinct = list({self._what(job): job for job in reversed(jobs)}.values())[::-1]
        keys: dict[Job, str] = {}
        missing = []
        for job in distinct:
            if self.cache is not None and self.cache.enabled:
                target = job.target or self.target
                keys[job] = cache_key(f"{build.__module__}.{build.__qualname__}", target.key, job.text)
                if (found := self.cache.get(keys[job])) is not None:
                    yield job, found
                    continue
            missing.append(job)
        missing.sort(key=lambda job: -len(job.text))  # the longest first, so that none is left alone at the end
        for job, result in self._build(build, missing):
            self.built += 1
            if self.cache is not None and isinstance(result, bytes):
                self.cache.put(keys.get(job, ""), result)
            yield job, result
        if self.cache is not None:
            self.cache.trim()

    def _what(self, job: Job) -> tuple[str, str]:
        """All that decides the result."""
        return job.text, (job.target or self.target).key

    def _build(self, build: Build, jobs: Sequence[Job]) -> Generator[tuple[Job, bytes | OnnxcError]]:
        waiting = iter(range(len(jobs)))
        workers: list[Worker] = []

        def run(number: int) -> bytes | OnnxcError | CompilerBug:
            return _guarded(build, jobs[number], jobs[number].target or self.target)

        try:
            with selectors.DefaultSelector() as ready:

                def employ(worker: Worker) -> None:
                    if (number := next(waiting, None)) is None:
                        worker.kill()
                        return
                    worker.give(number)
                    ready.register(worker.socket, selectors.EVENT_READ, worker)

                for _ in range(min(self.processes, len(jobs))):
                    workers.append(Worker(run))
                    employ(workers[-1])
                while ready.get_map():
                    for key, _ in ready.select():
                        worker = key.data
                        job = jobs[worker.number]
                        ready.unregister(worker.socket)
                        result = worker.result()
                        if result is None:
                            raise _died(job, worker)
                        if worker.served >= JOBS_PER_WORKER:
                            worker.kill()
                            workers.append(worker := Worker(run))
                        employ(worker)
                        if isinstance(result, CompilerBug):
                            raise result
                        yield job, result
        finally:
            for worker in workers:
                worker.kill()


def _guarded(build: Build, job: Job, target: Target) -> bytes | OnnxcError | CompilerBug:
    """Runs in a worker: whatever goes wrong becomes a value that can be sent."""
    try:
        return build(job, target)
    except (OnnxcError, CompilerBug) as error:
        if isinstance(error, CompilerBug) and job.name not in str(error):
            error.message = f"{error.message} (in kernel {job.name!r})"
        return error
    except Exception as error:
        trace = "".join(traceback.format_exception(error)[-4:])
        return CompilerBug("compile_pool", f"kernel {job.name!r}: {type(error).__name__}: {error}\n{trace}")


def _died(job: Job, worker: Worker) -> OnnxcError | CompilerBug:
    how = worker.how_it_died()
    if "SIGKILL" in how:
        return OnnxcError(
            f"the process that compiled kernel {job.name!r} was killed from outside",
            why="most likely the system ran out of memory",
            hint="use fewer processes: --jobs 1",
        )
    file = ""
    with contextlib.suppress(OSError):
        handle, file = tempfile.mkstemp(prefix="onnxc-kernel-", suffix=".mlir")
        os.close(handle)
        Path(file).write_text(job.text, encoding="utf-8")
    return CompilerBug("compile_pool", f"the process that compiled kernel {job.name!r} {how}; its text is in {file}")
