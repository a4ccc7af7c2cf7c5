"""The pool: every index runs exactly once, whatever the threads, other callers, forks and unloading do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxc.runtime import InferenceSession, InputError

HERE = Path(__file__).parent


LONG = 100_000_000  # ps: a unit that is worth a thread; any number will do, since nothing but the pool looks at it


def count(session: InferenceSession, extent: int, cost: int, rounds: int) -> None:
    (y,) = session.run(None, {"x": np.array([extent, cost, rounds])})
    assert y.shape == (extent,) and (y == rounds).all()


@given(
    extent=st.integers(0, 300), cost=st.sampled_from([0, 1, 20_000, 3_000_000, LONG, 2**62]), threads=st.integers(1, 9)
)
@settings(max_examples=150)
def test_every_index_once(regions: Path, extent: int, cost: int, threads: int) -> None:
    count(InferenceSession(regions, threads=threads), extent, cost, 3)


def test_many_regions_in_a_row(regions: Path) -> None:
    for threads in (2, 3, 8):
        count(InferenceSession(regions, threads=threads), 64, 1, 20000)


def test_contexts_run_at_the_same_time(regions: Path, add: Path) -> None:
    shared = InferenceSession(regions, threads=3)
    other = InferenceSession(add, threads=2)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        x = np.full((seed * 100 + 1, 4), seed, np.float32)
        try:
            for _ in range(200):
                count(shared, 40 + seed, LONG, 20)
                np.testing.assert_array_equal(other.run(None, {"x": x})[0], x + 1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_gil_is_released(meeting: Path) -> None:
    """A run that ends only where Python goes on meanwhile."""
    code = f"""
import threading, time
session, x, found = InferenceSession({str(meeting)!r}, threads=1), np.zeros(2, np.int64), []
running = threading.Thread(target=lambda: found.extend(session.run(None, {{"x": x}})))
running.start()
while not x[1]:
    time.sleep(0.001)
assert not found
x[0] = 3
running.join()
print(*found[0])
"""
    assert run_alone(code).split() == ["3"]


def test_fork(regions: Path) -> None:
    session = InferenceSession(regions, threads=4)
    count(session, 100, LONG, 50)
    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            status = 1
            try:
                count(session, 100, LONG, 50)
                count(InferenceSession(regions, threads=3), 77, LONG, 50)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    count(session, 100, LONG, 50)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]


def thread_count() -> int:
    return len(os.listdir("/proc/self/task"))


def run_alone(code: str, **options: object) -> str:
    """Runs code in a Python of its own, since pools and libraries stay."""
    top = HERE.parent.parent
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(top), *sys.path])}
    head = "import sys, os, ctypes, numpy as np\nfrom pathlib import Path\nfrom onnxc.runtime import InferenceSession\n"
    head += "from tests.runtime.test_threads import LONG, count, thread_count\n"
    done = subprocess.run(
        [sys.executable, "-c", head + code], env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_workers_may_use_the_cpus_that_others_let_them(regions: Path) -> None:
    """Who wakes a worker bars its own CPU to it for a moment: what the worker may use is the same afterwards."""
    run_alone(f"""
import threading, time
def masks():
    return [os.sched_getaffinity(int(t)) for t in os.listdir('/proc/self/task') if int(t) != threading.get_native_id()]
def settled(want):
    end = time.monotonic() + 600
    while masks() != want and time.monotonic() < end:
        time.sleep(0.001)
    assert masks() == want, (masks(), want)
session = InferenceSession({str(regions)!r}, threads=3)
before = os.sched_getaffinity(0)
for cpus in (before, {{min(before)}}):
    count(session, 100, LONG, 50)
    settled([before] * len(masks()))  # until then a worker may be about to lift a bar, and go back to what it had
    for t in os.listdir('/proc/self/task'):
        if int(t) != threading.get_native_id():
            os.sched_setaffinity(int(t), cpus)
    want = masks()
    for _ in range(50):
        time.sleep(0.003)
        count(session, 100, LONG, 5)
    settled(want)
    before = cpus
""")


def test_one_pool_for_the_process(regions: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    shutil.copy(regions, other)
    code = f"""
before = thread_count()
a = InferenceSession({str(regions)!r}, threads=3)
b = InferenceSession({str(other)!r}, threads=2)
assert thread_count() == before  # none before they are needed
count(b, 100, LONG, 5)
count(a, 100, LONG, 5)
count(InferenceSession({str(other)!r}, threads=3), 100, LONG, 5)
print(thread_count() - before)
"""
    assert run_alone(code).split() == ["2"]


def test_unloading_joins_the_workers(regions: Path) -> None:
    code = f"""
import gc, time
session = InferenceSession({str(regions)!r}, threads=4)
before = thread_count()
count(session, 100, LONG, 100)
assert thread_count() == before + 3
handle = ctypes.CDLL({str(regions)!r})._handle
session.__dict__.clear()
gc.collect()
close = ctypes.CDLL(None).dlclose
close.argtypes = [ctypes.c_void_p]
assert close(handle) == 0 and close(handle) == 0
while thread_count() > before:  # what is joined has ended, and is there a moment longer
    time.sleep(0.001)
print(thread_count() - before, {regions.name!r} in Path("/proc/self/maps").read_text())
"""
    assert run_alone(code).split() == ["0", "False"]


def test_exit_during_a_run(regions: Path) -> None:
    code = f"""
import threading, time
session = InferenceSession({str(regions)!r}, threads=2)
threading.Thread(target=count, args=(session, 1000, 1, 10**7), daemon=True).start()
time.sleep(0.2)
print("ended")
"""
    assert run_alone(code).split() == ["ended"]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU only")
def test_threads_default_to_the_affinity(add: Path) -> None:
    code = f"""
os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
print(InferenceSession({str(add)!r}).threads, InferenceSession({str(add)!r}, threads=5).threads)
"""
    assert run_alone(code).split() == ["1", "5"]
    assert 1 <= InferenceSession(add).threads <= len(os.sched_getaffinity(0))


def test_threads_below_one(add: Path) -> None:
    for threads in (0, -1):
        with pytest.raises(InputError, match="at least one thread"):
            InferenceSession(add, threads=threads)


def test_signals_stay_with_the_program(regions: Path) -> None:
    code = f"""
import signal
session = InferenceSession({str(regions)!r}, threads=3)
count(session, 100, LONG, 10)
blocked = [line.split()[1] for task in os.listdir("/proc/self/task") if task != str(os.getpid())
           for line in open(f"/proc/self/task/{{task}}/status") if line.startswith("SigBlk")]
print(sum(int(mask, 16) >> (signal.SIGINT - 1) & 1 for mask in blocked) >= 2)
"""
    assert run_alone(code).split() == ["True"]


def test_cost_of_a_run(add: Path) -> None:
    """What Python does for a small run, counted in calls: 3 of its own functions around 1 of C. Each costs 0.1 to 0.5 µs;
    `python -m tests.bench.small_calls` has the time."""
    session = InferenceSession(add, threads=1)
    feeds = {"x": np.zeros((1, 4), np.float32)}
    session.run(None, feeds)
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        session.run(None, feeds)
    finally:
        sys.setprofile(None)
    assert [name for name in called if name != "_found_address"] == ["run", "run", "_fresh"]
    assert called.count("_found_address") <= len(session.get_inputs()) + len(session.get_outputs())


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc, whose thread sanitizer this needs")
def test_under_the_thread_sanitizer(tmp_path: Path) -> None:
    stub = HERE.parent.parent / "runtime_stub"
    flags = ["-O1", "-fsanitize=thread", "-pthread", f"-I{stub}"]
    built = subprocess.run(["gcc", *flags, HERE / "pool_stress.c", "-o", tmp_path / "stress"], check=False)
    if built.returncode:
        pytest.skip("this gcc has no thread sanitizer")
    fixed = ["setarch", "-R"]  # it cannot deal with all places where systems put a program at random
    if shutil.which("setarch") is None or subprocess.run([*fixed, "true"], check=False).returncode:
        fixed = []
    done = subprocess.run([*fixed, tmp_path / "stress"], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["0"]), done.stderr
