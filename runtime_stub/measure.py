"""Measures a bundle of candidates that `onnxc tune` wrote, on the machine that they are for.

    python -m onnxc.runtime.measure BUNDLE -o results.json        (a folder, or a .zip of it)
    python -m onnxc.runtime.measure --serve                       (for watched.py: requests by line, answers likewise)
Needs numpy and onnxc's runtime, not the compiler. Each candidate is first checked against the first one, then timed in
turn with the best so far, all of that in a process of its own: one that crashes, hangs or computes something else is
told so and costs nothing but time. In the end the best is timed beside the first once more, since the best of many is
partly luck. What a bundle is: docs/tuning.md.
"""

from __future__ import annotations

import argparse
import errno
import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxc.runtime import interleaved
from onnxc.runtime.candidates import Task
from onnxc.runtime.errors import LoadError
from onnxc.runtime.isolated import Failed, TooLong, isolated

FORMAT = 2
ARCHITECTURES = ("x86_64", "aarch64", "riscv64")
LONGEST = 20.0  # seconds that one candidate may take: check, calibration and all rounds
SHORTEST = 1.0  # seconds that it has where time is nearly out

DAMAGE = (KeyError, IndexError, TypeError, ValueError, AttributeError, MemoryError)  # what a damaged bundle raises

Result = dict[str, Any]
Told = Callable[[int, Result], object]
At = Callable[[int], object]


def measure_bundle(path: Path, told: Told = lambda number, result: None) -> Result:
    """The results of all tasks of a bundle, a folder or a zip; `told(number, result)` is called after each.

    LoadError where it is no bundle, or a damaged one.
    """
    if path.is_file():
        with tempfile.TemporaryDirectory(prefix="onnxc-") as folder:
            try:
                with zipfile.ZipFile(path) as archive:
                    archive.extractall(folder)
            except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
                raise LoadError(f"'{path}' is no bundle of candidates: {error}") from error
            return _measured(Path(folder), path, told)
    return _measured(path, path, told)


def _measured(folder: Path, path: Path, told: Told) -> Result:
    """The results of a bundle's folder, which messages call `path`."""
    manifest = read_manifest(folder, path)
    results = []
    try:
        answer = {"format": FORMAT, **{name: manifest[name] for name in ("onnxc", "target", "threads")}}
        for number, facts in enumerate(manifest["tasks"]):
            results.append(measure_task(folder, facts, manifest["threads"]))
            told(number, results[-1])
    except DAMAGE as error:
        raise LoadError(f"'{path}' is a damaged bundle: {type(error).__name__}: {error}") from error
    return {**answer, "results": results}


class MeasuringFailed(RuntimeError):
    """A worker could not measure a bundle; the message is what it said."""


def measure_archive(data: bytes) -> list[Result]:
    """The results of a bundle that comes as a zip's bytes: what a worker of another machine calls.

    In a program of its own, since it forks, which a process with threads should not.
    """
    with tempfile.TemporaryDirectory(prefix="onnxc-") as folder:
        bundle, results = Path(folder, "bundle.zip"), Path(folder, "results.json")
        bundle.write_bytes(data)
        command = [sys.executable, "-m", "onnxc.runtime.measure", str(bundle), "-o", str(results)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MeasuringFailed(done.stderr.strip() or f"the process that measures ended with {done.returncode}")
        return json.loads(results.read_text("utf-8"))["results"]


def read_manifest(folder: Path, path: Path) -> dict[str, Any]:
    """The bundle's manifest; LoadError where it is none that this version reads, or for other machines."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise LoadError(f"'{path}' is no bundle of candidates: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise LoadError(f"'{path}' is a bundle of another version of onnxc (format {FORMAT} is read)")
    arch, here = str(manifest.get("target")).split("-")[0], platform.machine()
    if arch in ARCHITECTURES and arch != here:
        raise LoadError(f"'{path}' holds code for {arch}, which cannot be measured on this {here}")
    return manifest


def measure_task(
    folder: Path, facts: Mapping[str, Any], threads: int, failed: Mapping[int, str] | None = None,
    at: At = lambda number: None,
) -> Result:  # fmt: skip
    """Times one task's candidates: who won, its nanoseconds and the first one's, and what became of each.

    `failed`: candidates that are not to run again, and why; `at(number)` is called before each that runs.
    """
    until, failed = time.monotonic() + facts["seconds"], failed or {}
    result: Result = {"name": facts["name"], "winner": 0, "candidates": [{"verdict": "reference"}]}
    at(0)
    try:
        task = Task(folder, facts, threads)
        pin(threads)
        result["default_ns"] = result["ns"] = isolated(lambda: _profile(task), LONGEST)
    except MemoryError:
        return {**result, "error": "this machine has too little memory for its buffers"}
    except (Failed, OSError, AttributeError) as error:
        return {**result, "error": str(error)}
    best = 0
    for number in range(1, len(facts["candidates"])):
        told: Result = {"verdict": "not measured"}
        if number in failed:
            told = {"verdict": "failed", "why": failed[number]}
        elif time.monotonic() < until:
            at(number)
            told = _try(task, number, best, until)
        result["candidates"].append(told)
        if told["verdict"] == "faster":
            best = number
    if best:
        at(best)
        result |= _confirm(task, best)
    return {**result, "choice": facts["candidates"][result["winner"]]["choice"]}


def _profile(task: Task) -> float:
    task.outputs(0)
    return interleaved.alone(lambda runs: task.time(0, runs))


def _try(task: Task, number: int, best: int, until: float) -> Result:
    """Checks a candidate and times it beside the best; one that time (of time.monotonic) does not suffice for is not
    measured."""
    seconds = min(LONGEST, max(SHORTEST, until - time.monotonic()))

    def work() -> Result:
        difference = task.check(number)
        outcome = interleaved.compare(lambda runs: task.time(number, runs), lambda runs: task.time(best, runs))
        return {**vars(outcome), "beside": best, "difference": difference}

    try:
        return isolated(work, seconds)
    except TooLong as failed:
        return {"verdict": "not measured"} if seconds < LONGEST else {"verdict": "failed", "why": str(failed)}
    except Failed as failed:
        return {"verdict": "failed", "why": str(failed)}


def _confirm(task: Task, best: int) -> Result:
    """The best beside the reference in rounds that did not choose it."""

    def work() -> Result:
        return vars(interleaved.compare(lambda runs: task.time(best, runs), lambda runs: task.time(0, runs)))

    try:
        outcome = isolated(work, LONGEST)
    except Failed as failed:
        return {"error": str(failed)}
    if outcome["verdict"] != "faster":
        return {"ns": outcome["other_ns"], "default_ns": outcome["other_ns"]}
    return {"winner": best, "ns": outcome["ns"], "default_ns": outcome["other_ns"], "rounds": outcome["rounds"],
            "spread": outcome["spread"]}  # fmt: skip


def pin(threads: int) -> None:
    """This process, and those that it forks, on as many CPUs as there are threads: the last ones, which have less to
    do with interrupts."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def serve() -> None:
    """Measures what lines of standard input ask for: {"bundle": FOLDER, "first": the first task, "failed": {candidate
    of that task: why}}.

    Answers, a line each: {"at": [task, candidate]} before each candidate, {"result": …} after each task, and in the end
    {"done": true}, or {"error": why}.
    """
    for line in sys.stdin:
        request = json.loads(line)
        path, failed = Path(request["bundle"]), {int(n): why for n, why in request["failed"].items()}
        try:
            manifest = read_manifest(path, path)
            for number, facts in enumerate(manifest["tasks"][request["first"] :], request["first"]):
                own = failed if number == request["first"] else {}
                at = functools.partial(_answer_at, number)
                _answer({"result": measure_task(path, facts, manifest["threads"], own, at)})
            _answer({"done": True})
        except LoadError as error:
            _answer({"error": str(error)})
        except DAMAGE as error:
            _answer({"error": f"'{path}' is a damaged bundle: {type(error).__name__}: {error}"})


def _answer_at(task: int, candidate: int) -> None:
    _answer({"at": [task, candidate]})


def _answer(answer: Result) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m onnxc.runtime.measure", description="Measures a bundle.")
    parser.add_argument("bundle", type=Path, nargs="?", help="a folder or .zip that `onnxc tune --bundle` wrote")
    parser.add_argument("-o", "--output", type=Path, help="where the results go")
    parser.add_argument("--serve", action="store_true", help="requests by line on standard input")
    chosen = parser.parse_args(arguments)
    if chosen.serve:
        try:
            serve()
        except BrokenPipeError:  # whoever asked is gone, and there is nobody to tell
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if chosen.bundle is None or chosen.output is None:
        parser.error("a bundle and -o are needed")
    try:
        write_results(chosen.bundle, chosen.output)
    except LoadError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"error: {chosen.output}: cannot write the output: {error.strerror}\n")
        return LoadError.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return 130
    return 0


def write_results(bundle: Path, output: Path) -> None:
    """Measures, and writes the results as JSON; nothing appears until they are whole. OSError if they cannot be."""

    def tell(number: int, result: Result) -> None:
        why = f": {result['error']}" if "error" in result else ""
        sys.stderr.write(f"{number + 1}: {result['name'][:100]}{why}\n")

    if output.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    scratch = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with scratch.open("w", encoding="utf-8") as file:  # before there is anything to lose
            file.write(json.dumps(measure_bundle(bundle, tell), indent=1) + "\n")
        os.replace(scratch, output)
    finally:
        scratch.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
