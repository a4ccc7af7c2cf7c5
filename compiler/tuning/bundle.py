"""This file writes bundles: a folder with tasks as machine code, weights and a manifest, which measure.py runs.

    manifest.json      tasks, their buffers, their candidates as lists of calls
    candidates.so      every candidate's kernels, and the timing entry (timing.c); or, for devices without Python,
    measure            all of it as one program (program.py)
    HASH.bin           weights, packed as a candidate wants them
Self-contained: the machine that measures needs neither the model nor the compiler.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mlir import ir

from onnxc import __version__
from onnxc.build_kernel import build_object
from onnxc.compile_pool import CompilePool, Job
from onnxc.dialects import dims
from onnxc.dialects.onnx import new_context
from onnxc.errors import CompilerBug, OnnxcError
from onnxc.link import link_shared
from onnxc.passes import lowering  # noqa: F401  (fills the tables)
from onnxc.passes.kernels.kernel_function import KernelFunction, schedule_attribute, set_launch
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.kernels.packing import Packing, set_packed_types
from onnxc.runtime.measure import FORMAT
from onnxc.stub_object import compile_timing
from onnxc.tuning.program import write_program
from onnxc.tuning.tasks import Buffer, Call, Candidate, Task

LIBRARY = "candidates.so"
ENTRIES = ("onnxc_time_steps", "onnxc_run_pieces")


@dataclass
class Built:
    """A call as machine code wants it: the kernel's text under a name of its own, what is packed, the arguments."""

    call: Call
    job: Job
    packings: list[Packing]
    arguments: list[str | int]
    extent: int
    round: int
    picoseconds: int


@dataclass
class Step:
    """A call, or several that take turns by a plan."""

    calls: list[Built]
    words: Sequence[int] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """As a manifest tells it, but for the rooms of turns."""
        if not self.words:
            (call,) = self.calls
            counts = {"extent": call.extent, "round": call.round, "picoseconds": call.picoseconds}
            return {"symbol": call.job.name, "args": call.arguments, **counts}
        bands, _, _, _, picoseconds, *_ = self.words
        arguments = [a for call in self.calls for a in ({"function": call.job.name}, *call.arguments)]
        counts = {"extent": bands, "round": bands, "picoseconds": picoseconds}
        return {"args": arguments, **counts, "bands": list(self.words)}


@dataclass(frozen=True)
class Portion:
    """A task with those of its candidates that are to be measured now (numbers, 0 first), and seconds for it."""

    task: Task
    numbers: Sequence[int]
    seconds: float = 3600.0


class BundleWriter:
    """Writes bundles for one target: `threads` as in the model's runs, `cold_bytes` of weights between two uses.

    `form`: what the runner wants, "library" or "program".
    """

    def __init__(self, pool: CompilePool, threads: int, cold_bytes: int, form: str = "library") -> None:
        self.pool, self.threads, self.cold_bytes, self.form = pool, threads, cold_bytes, form
        self._seconds, self._built = 0.0, 0

    @property
    def pace(self) -> float:
        """Seconds that compiling one more kernel takes, by those so far that no cache had; 0: none yet."""
        return self._seconds / self._built if self._built else 0.0

    def estimate(self, task: Task) -> float:
        """Nanoseconds of a run of the model that go into a task, by the kernels' own estimates; 0: not to be built."""
        steps = self._build(task.candidates[0])
        return task.count * sum(b.extent * b.picoseconds for step in steps or () for b in step.calls) / 1e3

    def write(self, folder: Path, portions: Sequence[Portion], until: float = float("inf")) -> list[list[int]]:
        """Writes a bundle; returns, for each portion, the numbers of the candidates that are in it.

        Candidates that cannot be emitted or compiled, or not before `until` (of time.monotonic), are left out, and
        portions of whose first ones, or whose reference, that is so.
        """
        folder.mkdir(parents=True, exist_ok=True)
        built = [[self._build(p.task.candidates[n]) for n in p.numbers] for p in portions]
        objects = self._compile([job for row in built for steps in row for job in _jobs(steps)], until)
        tasks, taken, export = [], [], []
        for portion, row in zip(portions, built, strict=True):
            able = [steps is not None and all(job.name in objects for job in _jobs(steps)) for steps in row]
            needed = {0, portion.task.reference} & set(portion.numbers)
            if not all(fine for n, fine in zip(portion.numbers, able, strict=True) if n in needed):
                taken.append([])
                continue
            chosen = [(n, steps) for n, steps, fine in zip(portion.numbers, row, able, strict=True) if fine and steps]
            taken.append([n for n, _ in chosen])
            export += [job.name for _, steps in chosen for job in _jobs(steps)]
            tasks.append(_Writer(folder, portion, self.cold_bytes, self.threads).facts(chosen))
        export = list(dict.fromkeys(export))  # candidates share kernels
        code = [objects[name] for name in export]
        facts = {"format": FORMAT, "onnxc": __version__, "target": self.pool.target.key, "threads": self.threads}
        manifest = {**facts, "tasks": tasks}
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
        if self.form == "program":
            write_program(folder, manifest, code, self.pool.target, self.pool.cache)
            return taken
        timing = compile_timing(self.pool.target.triple, cache=self.pool.cache)
        link_shared([*code, timing], folder / LIBRARY, soname=LIBRARY, export=[*export, *ENTRIES])
        return taken

    def _build(self, candidate: Candidate) -> list[Step] | None:
        try:
            built = [build_call(call) for call in candidate.calls]
        except (OnnxcError, CompilerBug, TypeError, ValueError, KeyError, ir.MLIRError):
            return None  # a schedule that this kernel does not know or cannot have
        steps: list[Step] = []
        while built:
            words = candidate.turns.get(len(candidate.calls) - len(built), ())
            count = words[1] if words else 1
            steps.append(Step(built[:count], words))
            built = built[count:]
        return steps

    def _compile(self, jobs: Sequence[Job], until: float) -> dict[str, bytes]:
        """Objects by name; what cannot be compiled, or not in time, is left out."""
        done: dict[str, bytes] = {}
        start, before = time.monotonic(), self.pool.built
        try:
            self._stream(jobs, until, done)
        except CompilerBug:  # one of them is to blame: the others are kept
            for job in jobs:
                if job.name not in done:
                    with contextlib.suppress(OnnxcError, CompilerBug):
                        self._stream([job], until, done)
        if self.pool.built > before:
            self._seconds, self._built = (
                self._seconds + time.monotonic() - start,
                self._built + self.pool.built - before,
            )
        return done

    def _stream(self, jobs: Sequence[Job], until: float, done: dict[str, bytes]) -> None:
        with contextlib.closing(self.pool.stream(build_object, jobs)) as stream:  # its end ends the workers
            for job, code in stream:
                if isinstance(code, bytes):
                    done[job.name] = code
                if time.monotonic() > until:
                    return


def _jobs(steps: Sequence[Step] | None) -> list[Job]:
    return [call.job for step in steps or () for call in step.calls]


def build_call(call: Call) -> Built:
    """The kernel of a call with its schedule, launch and packing, named by what it is made of."""
    symbol = "k_" + hashlib.blake2b(f"{call.text}{call.schedule}".encode(), digest_size=8).hexdigest()
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(call.text)
        function = module.body.operations[0]
        function.attributes["sym_name"] = ir.StringAttr.get(symbol)
        if call.schedule is not None:
            function.attributes["kernel.schedule"] = schedule_attribute(call.schedule)
        kernel = KernelFunction.of(function)
        kind = KINDS[kernel.kind]
        launch = kind.launch(kernel)
        set_launch(function, launch)
        packings = getattr(kind, "packings", lambda _: [])(kernel)
        if packings:
            set_packed_types(kernel, packings)
        kernel = KernelFunction.of(function)
        arguments: list[str | int] = [*call.operands, *call.results]
        for packing in packings:
            arguments[packing.position] = packed_name(call.operands[packing.position], packing)
        arguments += ["status"] if kernel.failures else []
        arguments += [call.values[s] for s in kernel.symbols]
        counts = (launch.extent, launch.independent, launch.picoseconds)
        numbers = [dims.evaluate(d, call.values) for d in counts]
        return Built(call, Job(symbol, str(function.operation)), packings, arguments, *numbers)


def packed_name(name: str, packing: Packing) -> str:
    return f"{name}:{packing.layout}"


class _Writer:
    """Writes one task's weights and tells its facts."""

    def __init__(self, folder: Path, portion: Portion, cold_bytes: int, threads: int) -> None:
        self.folder, self.portion, self.task, self.cold_bytes = folder, portion, portion.task, cold_bytes
        self.threads = threads
        self.buffers: dict[str, dict[str, Any]] = {}

    def facts(self, chosen: Sequence[tuple[int, list[Step]]]) -> dict[str, Any]:
        candidates = []
        for number, built in chosen:
            candidate = self.task.candidates[number]
            steps = [self._step(step) for step in built]
            candidates.append({"choice": candidate.choice, "tolerance": candidate.tolerance, "steps": steps})
        return {
            "name": self.task.signature,
            "library": LIBRARY,
            "cold_bytes": self.cold_bytes,
            "seconds": self.portion.seconds,
            "buffers": self.buffers,
            "candidates": candidates,
            "reference": next(i for i, (n, _) in enumerate(chosen) if n == self.task.reference),
        }

    def _step(self, step: Step) -> dict[str, Any]:
        for built in step.calls:
            self._buffers_of(built)
        if not step.words:
            return step.facts
        _, _, _, room, *_ = step.words
        rooms = f"rooms of {room} bytes"
        self.buffers[rooms] = {"bytes": room * self.threads, "dtype": "uint8", "role": "scratch"}
        return {**step.facts, "rooms": rooms}

    def _buffers_of(self, built: Built) -> None:
        packings = {packing.position: packing for packing in built.packings}
        for i, name in enumerate([*built.call.operands, *built.call.results]):
            buffer = self.task.buffers[name]
            if buffer.role == "weight":
                self._weight(name, buffer, packings.get(i))
            else:
                self.buffers[name] = {"bytes": buffer.size, "dtype": buffer.dtype, "role": buffer.role}
        if "status" in built.arguments:
            self.buffers["status"] = {"bytes": 4, "dtype": "int32", "role": "status"}

    def _weight(self, name: str, buffer: Buffer, packing: Packing | None) -> None:
        known = name if packing is None else packed_name(name, packing)
        if known in self.buffers:
            return
        assert buffer.content is not None
        array = buffer.content()
        if packing is not None:
            array = packing.make(array)
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        file = f"{hashlib.blake2b(data.data, digest_size=10).hexdigest()}.bin"
        if not (self.folder / file).exists():
            (self.folder / file).write_bytes(data.data)  # numpy's tofile does not say why it cannot
        self.buffers[known] = {"bytes": data.nbytes, "dtype": str(array.dtype), "role": "weight", "file": file}
