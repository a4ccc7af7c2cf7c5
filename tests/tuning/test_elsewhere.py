"""Measuring elsewhere: the program for devices judges as measure.py does, commands run it, and what fails is told."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from onnxc.errors import OnnxcError
from onnxc.link import link_shared
from onnxc.options import Options
from onnxc.runtime import measure
from onnxc.stub_object import compile_plan, compile_timing
from onnxc.targets import target_for
from onnxc.tuning import elsewhere, program, runners
from onnxc.tuning.bundle import ENTRIES, LIBRARY
from onnxc.tuning.elsewhere import CommandRunner, read_lines
from onnxc.tuning.program import write_program
from onnxc.tuning.records import Records
from onnxc.tuning.runners import ExecutorRunner, runner_for
from onnxc.tuning.tune import Tuner

from . import layers
from .commands import ENOUGH, run

HERE = target_for("native")
ARGUMENTS = "(const int64_t *a, int64_t begin, int64_t end)"
SHOWN = '__attribute__((visibility("default"))) '
LOOP = "const float *x = (const float *)a[0]; float *y = (float *)a[1]; for (int64_t i = begin; i < end; i++)"
#: candidate → its kernel, and what becomes of it
KERNELS = {
    "slow": (f"{LOOP} {{ volatile float s = 0; for (int k = 0; k < 300; k++) s += x[i]; y[i] = 2 * x[i]; }}", "ref"),
    "good": (f"{LOOP} y[i] = 2 * x[i];", "faster"),
    "near": (f"{LOOP} y[i] = 2.000001f * x[i];", "even|slower|faster"),
    "wrong": (f"{LOOP} y[i] = 2.01f * x[i];", "its results differ"),
    "nan": (f"{LOOP} y[i] = x[i] / 0.0f * 0.0f;", "its results differ"),
    "crash": ("*(volatile int64_t *)(a[0] & 8) = begin + end;", "ended by SIGSEGV"),
    "outside": (f"{LOOP} y[i] = 2 * x[i]; y[end + 8] = 1;", "it wrote outside of "),
    "split": (f"{LOOP} y[i] = 2 * x[i]; if (begin) y[begin] = 7;", "another split of its extent gives other bits"),
    "refuses": ("*(int32_t *)a[2] = (int32_t)(begin - end);", "a check inside the kernel failed"),
    "slower": (f"{LOOP} {{ volatile float s = 0; for (int k = 0; k < 900; k++) s += x[i]; y[i] = 2 * x[i]; }}", "slower"),
}  # fmt: skip
COUNT = 240


def bundle(folder: Path, kernels: dict[str, str], dtype: str = "float32", tolerance: float = 1e-4) -> dict:
    """A bundle of one task whose candidates are kernels in C: x[240] → y[240], in both forms; its manifest."""
    source = "".join(
        f"{SHOWN}void c_{name}{ARGUMENTS};\nvoid c_{name}{ARGUMENTS} {{ {text} }}\n" for name, text in kernels.items()
    )
    code = compile_plan(
        f'#include <stdint.h>\n#pragma GCC diagnostic ignored "-Wunused-parameter"\n{source}', HERE.triple
    )
    width = {"float64": 8, "int64": 8, "float32": 4, "int8": 1, "uint2": 1, "float4_e2m1fn": 1}.get(dtype, 2)
    buffers = {role[0]: {"bytes": COUNT * width, "dtype": dtype, "role": role} for role in ("input", "output")}
    buffers["status"] = {"bytes": 4, "dtype": "int32", "role": "status"}
    step = {"args": ["i", "o", "status"], "extent": COUNT, "round": COUNT, "picoseconds": 1000}
    candidates = [
        {"choice": {"schedule": {name: 1}}, "tolerance": tolerance, "steps": [{**step, "symbol": f"c_{name}"}]}
        for name in kernels
    ]
    task = {"name": 'a "name"', "library": LIBRARY, "cold_bytes": 0, "seconds": 99.0, "buffers": buffers,
            "candidates": candidates, "reference": 0}  # fmt: skip
    manifest = {"format": measure.FORMAT, "onnxc": "0", "target": HERE.key, "threads": 1, "tasks": [task]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    link_shared(
        [code, compile_timing(HERE.triple)],
        folder / LIBRARY,
        soname=LIBRARY,
        export=[*(f"c_{k}" for k in kernels), *ENTRIES],
    )
    write_program(folder, manifest, [code], HERE, None)
    return manifest


def by_program(folder: Path) -> dict:
    (result,) = CommandRunner("{bundle}").submit(folder).result()
    return result


def test_both_judge_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash, a wrong or an unsplittable result cost the candidate its place, and the rest is measured."""
    monkeypatch.setattr(measure, "LONGEST", ENOUGH)
    monkeypatch.setattr(program, "LONGEST", ENOUGH)
    bundle(tmp_path, {name: text for name, (text, _) in KERNELS.items()})
    (by_python,) = measure.measure_bundle(tmp_path)["results"]
    for result in (by_python, by_program(tmp_path)):
        for (name, (_, expected)), told in zip(KERNELS.items(), result["candidates"], strict=True):
            said = told["why"] if told["verdict"] == "failed" else told["verdict"]
            assert re.search(expected, said), (name, told)
        assert result["winner"] in (1, 2) and result["choice"] in ({"schedule": {"good": 1}}, {"schedule": {"near": 1}})
        assert 0 < result["ns"] < result["default_ns"] / 10
        near = result["candidates"][2]["difference"]
        assert 2e-7 < near < 2e-6


WAIT = '__asm__ volatile("syscall" : : "a"(34) : "rcx", "r11", "memory");' if platform.machine() == "x86_64" else ""
HANGING = {
    "good": f"{LOOP} y[i] = 2 * x[i];",
    "hang": f"for (volatile int64_t i = a[0] + begin; i != end; i += 0) {{ {WAIT} }}",
    "near": KERNELS["near"][0],
}


def test_a_hang_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs the candidate its place after the time that each has, here a short one; the next is measured."""
    usual, limits = measure.isolated, iter([ENOUGH, 0.5, ENOUGH, ENOUGH])
    monkeypatch.setattr(measure, "LONGEST", 0.5)
    monkeypatch.setattr(measure, "isolated", lambda work, seconds: usual(work, next(limits)))
    monkeypatch.setattr(program, "LONGEST", 10.0)  # for the others, too: 10 ms of work
    bundle(tmp_path, HANGING)
    (by_python,) = measure.measure_bundle(tmp_path)["results"]
    for result, why in (by_python, "took more than 0.5 s"), (by_program(tmp_path), "took too long"):
        _, hang, near = result["candidates"]
        assert (hang["verdict"], hang["why"]) == ("failed", why)
        assert near["verdict"] in ("slower", "even", "faster")


@pytest.mark.parametrize(
    ("dtype", "word", "digits"),
    [
        ("float16", "uint16_t", 10),
        ("bfloat16", "uint16_t", 7),
        ("float32", "uint32_t", 23),
        ("float64", "uint64_t", 52),
    ],
)
def test_differences_of_every_precision(tmp_path: Path, dtype: str, word: str, digits: int) -> None:
    """The last bit of each value is another one: as a share of the largest, one unit of its last place."""
    loop = f"const {word} *x = (const {word} *)a[0]; {word} *y = ({word} *)a[1]; for (int64_t i = begin; i < end; i++)"
    bundle(tmp_path, {"same": f"{loop} y[i] = x[i];", "other": f"{loop} y[i] = x[i] ^ 1;"}, dtype, 0.1)
    difference = by_program(tmp_path)["candidates"][1]["difference"]
    assert 2.0 ** (-digits - 1) <= difference <= 2.0**-digits


@pytest.mark.parametrize(
    ("dtype", "highest"),
    [("int8", 255), ("int64", 1), ("uint16", 1), ("bool", 1), ("uint2", 1), ("float4_e2m1fn", 1)],
)
def test_integers_have_to_be_the_same(tmp_path: Path, dtype: str, highest: int) -> None:
    """Wider integers, those of a few bits and booleans are 0 and 1, which the first kernel checks; another bit is
    another result."""
    word = {"int64": "uint64_t", "uint16": "uint16_t"}.get(dtype, "uint8_t")
    loop = f"const {word} *x = (const {word} *)a[0]; {word} *y = ({word} *)a[1]; for (int64_t i = begin; i < end; i++)"
    same = (
        f"{word} most = 0; {loop} {{ y[i] = x[i]; if (x[i] > most) most = x[i]; }} "
        f"if (end - begin == {COUNT} && (most > {highest} || most < {highest * 3 // 4 or 1})) *(int32_t *)a[2] = 1;"
    )
    bundle(tmp_path, {"same": same, "other": f"{loop} y[i] = x[i] ^ 1;"}, dtype)
    result = by_program(tmp_path)
    assert "error" not in result and result["candidates"][1]["verdict"] == "failed"


def test_what_cannot_run_at_all_is_told(tmp_path: Path) -> None:
    bundle(tmp_path, {"trap": "__builtin_trap();" if platform.machine() == "x86_64" else '__asm__(".inst 0");'})
    with pytest.raises(OnnxcError, match=r"ran code that its CPU does not have \(SIGILL\) \(hint: --mcpu"):
        by_program(tmp_path)
    whole = (tmp_path / program.PROGRAM).read_bytes()
    (tmp_path / program.PROGRAM).write_bytes(whole[:-3])
    with pytest.raises(OnnxcError, match="exit code 2: error: the end of this program's file is missing"):
        by_program(tmp_path)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("carrier-pigeon {bundle}", "exit code 127: .*carrier-pigeon.* \\(hint: there is no such program"),
        ("/dev/null {bundle}", "exit code 126: .*\\(hint: it cannot be executed there"),
        ("echo no route >&2; false {bundle}", "the command ended with exit code 1: no route$"),
        ("kill -9 $$ {bundle}", "the command ended by SIGKILL"),
        ("true {bundle}", r"printed no results \(it has no head\): it printed: nothing \(hint: on the device run"),
        ("echo welcome, {bundle}", "printed no results .* it printed: welcome, "),
        ("printf '{\"format\": 1' # {bundle}", "a line is cut off, or no JSON"),
        ("printf '{\"format\": 99}' # {bundle}", "they are of format 99, 2 is read"),
        ("{bundle} | head -n 1", "printed 0 of 1 results.* was it ended early"),
        ("{bundle} | sed 's/\"winner\": 0/\"winner\": 9/'", "printed a result that cannot be"),
        ("{bundle} | sed 's/\"ns\": [0-9]*/\"ns\": -3/'", "printed a result that cannot be"),
        ("yes # {bundle}", "printed more than 1 MB"),
        ("sleep 60 # {bundle}", "took more than . s \\(hint: is the device reachable"),
    ],
)  # fmt: skip
def test_what_comes_of_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, told: str) -> None:
    monkeypatch.setattr(elsewhere, "MOST_OUTPUT", 1 << 20)
    monkeypatch.setattr(elsewhere, "LONGEST", 0.5)
    bundle(tmp_path, {"only": f"{LOOP} y[i] = x[i];"})
    with pytest.raises(OnnxcError, match=told) as caught:
        CommandRunner(command, patience=0.5 if "sleep" in command else 60.0).submit(tmp_path)
    assert caught.value.exit_code == 2 and "--runner " in str(caught.value)


def test_greetings_are_no_results(tmp_path: Path) -> None:
    bundle(tmp_path, {"only": f"{LOOP} y[i] = x[i];"})
    greeting = """echo Welcome; echo '{to the board}'; echo '{"a": 1}'; echo"""
    (result,) = CommandRunner(f"{greeting}; {{bundle}}; echo Bye").submit(tmp_path).result()
    assert result["name"] == 'a "name"' and result["ns"] >= result["min_ns"] > 0 and result["warm_ns"] > 0


def tuned(folder: Path, runner_name: str, options: Options) -> Records:
    tuner = Tuner(layers.matmuls(folder / "m.onnx"), options, Records(), folder / "r.jsonl")
    with runner_for(runner_name, tuner.target) as runner:
        summary = tuner.run(runner, folder / "bundles", ENOUGH)
    assert summary.problems == 2 and (summary.comparison is not None) == bool(summary.better)
    assert len(summary.records) == 2
    return summary.records


def test_emulated(tmp_path: Path, few: None) -> None:
    """Another machine's program, with two threads, all the way to records of that machine."""
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None:
        pytest.skip("there is no qemu-aarch64")
    records = tuned(tmp_path, f"{emulator} {{bundle}}", Options(target="aarch64-linux-gnu"))
    assert all(record.target.startswith("aarch64-") for record in records)


def test_on_the_command_line(tmp_path: Path) -> None:
    """What a program prints is merged; what fails on the way is no fault of onnxc."""
    model = layers.matmuls(tmp_path / "m.onnx")
    done = run("tune", model, "-o", tmp_path / "there", "--runner", "program", "--mcpu", "native", "--budget", "3s")
    assert done.returncode == 0 and f"on the device: {tmp_path}/there > results.json" in done.stdout
    results = subprocess.run([tmp_path / "there"], capture_output=True, text=True, check=True).stdout
    (tmp_path / "results.json").write_text(results)
    assert len(read_lines(results)["results"]) == 2
    done = run("tune", "--merge", tmp_path / "results.json", "-o", tmp_path / "r.jsonl")
    assert done.returncode == 0 and len(Records.read(tmp_path / "r.jsonl")[0]) == 2
    done = run("tune", model, "-o", tmp_path / "other.jsonl", "--runner", "false {bundle}")
    assert done.returncode == 2 and "error: --runner false {bundle}: the command ended with" in done.stderr
    for runner, told in (("ssh:", "names no host"), ("scp x", "has no {bundle}"), ("here", "is no runner")):
        done = run("tune", model, "-o", tmp_path / "other.jsonl", "--runner", runner)
        assert done.returncode == 2 and told in done.stderr


class Broken(Executor):
    def submit(self, function, /, *arguments, **named):
        raise ConnectionResetError("the scheduler has gone")


def test_workers_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an executor raises, now or later, is told with its own words, and as no fault of onnxc."""
    (tmp_path / "manifest.json").write_text("{}")
    told = "a worker of the executor cannot measure: "
    with pytest.raises(OnnxcError, match=f"{told}ConnectionResetError: the scheduler has gone"):
        ExecutorRunner(Broken(), 1).submit(tmp_path)
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(OnnxcError, match=f"{told}error: .*bundle of another version") as caught,
    ):
        ExecutorRunner(executor, 1).submit(tmp_path).result()
    assert caught.value.exit_code == 2 and "numpy" in str(caught.value.hint)
    for end in (sys.exit, die):
        monkeypatch.setattr(runners, "measure_archive", end)
        with ProcessPoolExecutor(1) as executor, pytest.raises(OnnxcError, match=told):
            ExecutorRunner(executor, 1).submit(tmp_path).result(ENOUGH)


def die(archive: bytes) -> None:
    os._exit(9)
