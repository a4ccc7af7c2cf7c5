"""Kernels are compiled in other processes: results, cache, errors, crashes, Ctrl-C."""

import builtins
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlir import ir

from onnxc.cache import ObjectCache
from onnxc.compile_pool import CompilePool, Job
from onnxc.emit_object import emit, lower_to_llvm
from onnxc.errors import CompilerBug, OnnxcError, Refusals
from onnxc.targets import target_for

from .kernels import SCALE

TARGET = target_for()
JOBS = [Job(f"k{i}", f"text {i}") for i in range(20)]


def shout(job, target):
    return job.text.upper().encode()


def shout_with_process(job, target):
    return f"{os.getpid()} {job.text}".encode()


def compile_text(job, target):
    with ir.Context() as context:
        context.enable_multithreading(False)
        return emit(lower_to_llvm(ir.Module.parse(job.text)), target)


def refuse_odd(job, target):
    if int(job.text.split()[1]) % 2:
        raise OnnxcError(f"cannot do {job.text}", node=job.name)
    return b""


def stumble(job, target):
    return b"" if job.name != "k3" else 1 // 0


def abort(job, target):
    if job.name == "k3":
        os.write(2, b"Assertion `x > 0' failed\n")
        os.abort()
    return b""


def perish(job, target):
    os.kill(os.getpid(), signal.SIGKILL)


def open_files(job, target):
    return " ".join(os.listdir("/proc/self/fd")).encode()


def living_children():
    me = os.getpid()
    return {*Path(f"/proc/self/task/{me}/children").read_text().split()}


@pytest.fixture
def left():
    """The children that a test has left so far; other tests' may live longer (a Dask cluster's, say)."""
    before = living_children()
    return lambda: living_children() - before


def test_results_come_in_the_order_of_the_jobs(left):
    told = []
    results = CompilePool(TARGET, 3).map(shout, JOBS, lambda done, total: told.append((done, total)))
    assert results == [f"TEXT {i}".encode() for i in range(20)]
    assert told == [(i + 1, 20) for i in range(20)]
    assert not left()


def test_equal_texts_are_built_once():
    jobs = [Job("a", "same"), Job("b", "other"), Job("c", "same")]
    results = CompilePool(TARGET, 1).map(shout, jobs)
    assert results == [b"SAME", b"OTHER", b"SAME"]


def test_workers_are_recycled(monkeypatch, left):
    monkeypatch.setattr("onnxc.compile_pool.JOBS_PER_WORKER", 5)
    results = CompilePool(TARGET, 1).map(shout_with_process, JOBS)
    assert len({result.split()[0] for result in results}) == 4
    assert not left()


def test_cache_serves_the_second_time(tmp_path):
    pool = CompilePool(TARGET, 1, cache=ObjectCache(tmp_path))
    first = pool.map(shout_with_process, JOBS)
    assert pool.map(shout_with_process, JOBS) == first
    other = CompilePool(target_for("x86-64-v2"), 1, cache=ObjectCache(tmp_path))
    assert other.map(shout_with_process, JOBS) != first


def test_all_refusals_are_told_at_once():
    with pytest.raises(Refusals) as caught:
        CompilePool(TARGET, 2).map(refuse_odd, JOBS)
    assert sorted(error.node for error in caught.value.errors) == sorted(f"k{i}" for i in range(1, 20, 2))


def test_other_exceptions_are_bugs_that_name_the_kernel(left):
    with pytest.raises(CompilerBug, match=r"k3.*ZeroDivisionError"):
        CompilePool(TARGET, 2).map(stumble, JOBS)
    assert not left()


def test_an_abort_is_charged_to_its_kernel(left):
    with pytest.raises(CompilerBug, match=r"'k3' was ended by SIGABRT \(Assertion") as caught:
        CompilePool(TARGET, 2).map(abort, JOBS)
    reproducer = Path(re.search(r"\S+\.mlir", str(caught.value))[0])
    assert reproducer.read_text() == "text 3"
    reproducer.unlink()
    assert not left()


def test_a_killed_worker_is_no_bug(left):
    with pytest.raises(OnnxcError, match="out of memory"):
        CompilePool(TARGET, 2).map(perish, JOBS)
    assert not left()


def test_workers_hold_nobody_elses_files(tmp_path):
    with (tmp_path / "open").open("w"):
        (found,) = CompilePool(TARGET, 1).map(open_files, JOBS[:1])
    assert len(found.split()) == 5  # 0, 1, 2, the socket, and the listing itself


def test_an_abort_inside_mlir_does_not_end_this_process():
    text = "func.func @f(%a: memref<4xi1>, %v: i1, %i: index) { memref.store %v, %a[%i] : memref<4xi1> return }"
    with pytest.raises(CompilerBug, match="SIGABRT") as caught:
        CompilePool(TARGET).map(compile_text, [Job("narrow", text)])
    Path(re.search(r"\S+\.mlir", str(caught.value))[0]).unlink()


def test_a_worker_begins_with_what_is_there(monkeypatch):
    """It is a fork, which imports nothing anew and takes no breaks: a small kernel is there after 0.03 s."""
    monkeypatch.setattr(time, "sleep", None)
    monkeypatch.setattr(builtins, "__import__", importing_only(builtins.__import__, set(sys.modules)))
    (result,) = CompilePool(TARGET).map(compile_text, [Job("scale", SCALE)])
    assert result.startswith(b"\x7fELF")


def importing_only(find, known):
    def import_(name, *others):
        module = find(name, *others)
        assert {*sys.modules} <= known, f"{name} is imported"
        return module

    return import_


ENDLESS = """
import sys, time
from onnxc.compile_pool import CompilePool, Job
from onnxc.targets import target_for
def sleep(job, target):
    print("at work", flush=True)
    time.sleep(600)
CompilePool(target_for(), 2).map(sleep, [Job("a", "a"), Job("b", "b")])
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_the_compiler_is_ended(how):
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    for _ in range(2):
        process.stdout.readline()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2
    os.killpg(process.pid, how) if how == signal.SIGINT else process.send_signal(how)  # a terminal's Ctrl-C: the group
    assert process.wait(120) != 0
    deadline = time.monotonic() + 120
    while any(map(lives, children)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(lives, children))
    process.stdout.close()


def lives(process):
    """A process; a zombie that nobody has collected yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_with_threads_can_compile():
    import threading

    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        assert CompilePool(TARGET, 2).map(shout, JOBS)[3] == b"TEXT 3"
        result = []
        inside = threading.Thread(target=lambda: result.extend(CompilePool(TARGET, 2).map(shout, JOBS)))
        inside.start()
        inside.join(120)
        assert len(result) == 20
    finally:
        stop.set()
