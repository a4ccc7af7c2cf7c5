"""The process that measures ends or hangs: one candidate fails with the reason, and the others are measured."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onnxc.compile_pool import CompilePool
from onnxc.options import Options
from onnxc.runtime import watched as watching
from onnxc.runtime.errors import LoadError
from onnxc.runtime.watched import COMMAND, Watched
from onnxc.targets import target_for
from onnxc.tuning.bundle import BundleWriter, Portion
from onnxc.tuning.extraction import lower
from onnxc.tuning.problems import kernel_tasks
from onnxc.tuning.search import Search

from . import layers

BAD = """if True:
    import json, os, signal, time
    from onnxc.runtime import measure
    measure.interleaved.runs_a_block = lambda clock: 1
    say = measure._answer
    def answer(what):
        say(what)
        if what.get("at") in {bad}:
            {deed}
    measure._answer = answer
    measure.serve()
"""
ENOUGH = 300.0  # seconds, of any machine
KILLED, STOPPED = "os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGSTOP)"


@pytest.fixture(scope="module")
def bundle(once) -> Path:
    """Two tasks of four candidates each."""
    return once("watched bundle", write_bundle)


def write_bundle(folder: Path) -> None:
    tasks = kernel_tasks(lower(layers.matmuls(folder / "m.onnx"), Options(mcpu="native")))
    BundleWriter(CompilePool(target_for("native"), 2), 1, 0).write(
        folder, [Portion(t, range(4), ENOUGH) for t in tasks]
    )


def watched(bad: list[list[int]], deed: str) -> Watched:
    return Watched((sys.executable, "-c", BAD.format(bad=bad, deed=deed)), ENOUGH)


@pytest.mark.parametrize(
    ("deed", "why"), [(KILLED, "ended by SIGKILL"), ("os._exit(3)", "left with status 3"), (STOPPED, "said nothing")]
)
def test_it_costs_the_candidate(bundle: Path, deed: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    measuring = watched([[0, 2], [1, 1], [1, 3]], deed)

    class Selector(selectors.PollSelector):
        """Time passes only while the process is stopped."""

        def select(self, timeout: float | None = None) -> list:
            found = []
            while not found and not stopped(measuring):
                found = super().select(0.01)
            return found

    monkeypatch.setattr(watching.selectors, "PollSelector", Selector)
    first, second = measuring.measure(bundle)
    measuring.close()
    failed = [[n for n, c in enumerate(r["candidates"]) if c["verdict"] == "failed"] for r in (first, second)]
    assert failed == [[2], [1, 3]]
    assert f"the process that measures {why}" in first["candidates"][2]["why"]
    assert {c["verdict"] for c in (*first["candidates"], second["candidates"][2])} <= {
        "reference", "faster", "even", "slower", "failed",
    }  # fmt: skip


def stopped(measuring: Watched) -> bool:
    assert measuring._process is not None
    return Path(f"/proc/{measuring._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_the_first_candidate_costs_the_task(bundle: Path) -> None:
    measuring = watched([[0, 0]], KILLED)
    first, second = measuring.measure(bundle)
    assert first == {"error": "the process that measures ended by SIGKILL"}
    assert len(second["candidates"]) == 4 and second["ns"] > 0
    measuring.close()


def test_killed_while_idle_or_at_work(bundle: Path) -> None:
    """By its id, from outside, as the system does where memory is short."""
    measuring = watched([], KILLED)
    measuring.measure(bundle)
    assert measuring._process is not None
    os.kill(measuring._process.pid, signal.SIGKILL)
    assert len(measuring.measure(bundle)) == 2
    measuring.close()


def test_more_memory_than_there_is(bundle: Path, tmp_path: Path) -> None:
    """It costs the task, not the others."""
    shutil.copytree(bundle, tmp_path / "large")
    manifest = json.loads((bundle / "manifest.json").read_text())
    next(iter(manifest["tasks"][0]["buffers"].values()))["bytes"] = 1 << 60
    (tmp_path / "large" / "manifest.json").write_text(json.dumps(manifest))
    measuring = Watched()
    first, second = measuring.measure(tmp_path / "large")
    measuring.close()
    assert "too little memory" in first["error"]
    assert "error" not in second


def test_nobody_reads_the_answers_any_more(bundle: Path) -> None:
    """As when the process that asked was killed: no traceback."""
    pipe = subprocess.PIPE
    with subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.write(json.dumps({"bundle": str(bundle), "first": 0, "failed": {}}).encode() + b"\n")
        process.stdin.flush()
        assert (process.wait(ENOUGH), process.stderr.read()) == (0, b"")


@pytest.mark.parametrize("program", ["import sys; sys.exit(7)", "import signal; signal.sigwait([])"])
def test_a_process_that_never_answers_is_an_error(bundle: Path, program: str) -> None:
    measuring = Watched((sys.executable, "-c", program), 1.0)
    with pytest.raises(LoadError, match=r"the process that measures (left with status 7|said nothing for 1 s)"):
        measuring.measure(bundle)


def test_damage_is_told(bundle: Path, tmp_path: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    measuring = Watched(COMMAND)
    for change, why in (({"format": 9}, "another version"), ({"tasks": [{}]}, "damaged"), ({"tasks": 3}, "damaged")):
        (tmp_path / "manifest.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(LoadError, match=why):
            measuring.measure(tmp_path)
    measuring.close()


def test_tuning_goes_on(tmp_path: Path) -> None:
    """What a search asks of a runner after a death: the records are of all problems."""
    from onnxc.tuning.runners import LocalRunner

    runner, found, told = LocalRunner(), [], []
    runner._measuring = watched([[0, 2]], KILLED)
    tasks = kernel_tasks(lower(layers.matmuls(tmp_path / "m.onnx"), Options(mcpu="native")))
    for task in tasks:
        del task.candidates[3:]
    search = Search(
        BundleWriter(CompilePool(target_for("native"), 2), 1, 0), runner, tmp_path, found.append, told.append
    )
    search.explore(tasks, float("inf"), lambda task: None)
    runner.close()
    assert {record.signature for record in found} == {task.signature for task in tasks}
    assert [line for line in told if "ended by SIGKILL" in line]
