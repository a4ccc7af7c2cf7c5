"""What goes to other machines and comes back: bundles, their results, workers, and records that are joined."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import onnxc
from onnxc.options import Options
from onnxc.runtime import measure
from onnxc.tuning.records import Record, Records
from onnxc.tuning.runners import ExecutorRunner, LocalRunner
from onnxc.tuning.tune import Tuner
from tests.command_line import alone

from .commands import ENOUGH, FEW, run

OPTIONS = Options(mcpu="native")


def test_merging(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl"))
    record = Record("matmul()", "here", {"schedule": {"rows": 1}}, 10.0, 20.0, rounds=15)
    Records([record]).write(one)
    Records([replace(record, ns=5.0), replace(record, signature="conv()")]).write(two)
    two.write_text(two.read_text() + "{broken\n")
    done = run("tune", "--merge", one, two, "-o", three)
    assert done.returncode == 0
    assert f"warning: {two}:3:" in done.stderr
    assert [(r.signature, r.ns) for r in Records.read(three)[0]] == [("conv()", 10.0), ("matmul()", 5.0)]


def test_bundle_for_another_machine(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundle is measured by numpy and the runtime alone; its results become records by --merge.

    It is the same in whatever order sets are gone through."""
    bundle, results, records = tmp_path / "b.zip", tmp_path / "results.json", tmp_path / "r.jsonl"
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    assert run("tune", model, "-o", bundle, "--runner", "bundle", "--budget", "3s", how=alone).returncode == 0
    program = f"""if True:
        import sys
        for name in ("mlir", "llvmlite", "onnx", "click", "rich", "platformdirs", "ziglang"):
            sys.modules[name] = None
        from onnxc.runtime.measure import main
        sys.exit(main([{str(bundle)!r}, "-o", {str(results)!r}]))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert run("tune", "--merge", results, "-o", records).returncode == 0
    found, warnings = Records.read(records)
    assert len(found) == 2 and not warnings
    again = tmp_path / "again.zip"
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    assert run("tune", model, "-o", again, "--runner", "bundle", "--budget", "3s", how=alone).returncode == 0
    assert again.read_bytes() == bundle.read_bytes()


def test_executor(model: Path, tmp_path: Path, few: None, uncompared: None) -> None:
    """Any executor of concurrent.futures will do."""
    tuner = Tuner(model, OPTIONS, Records(), tmp_path / "r.jsonl")
    with ThreadPoolExecutor(2) as executor:
        summary = tuner.run(ExecutorRunner(executor, 2), tmp_path / "bundles", ENOUGH)
    assert summary.problems == len(summary.records) == 2


def test_dask(model: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    one = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "protocol": "tcp", "dashboard_address": None}
    with distributed.LocalCluster(**one) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        options = ["-o", str(tmp_path / "r.jsonl"), "--budget", f"{ENOUGH}s", "--runner", f"dask://{address}"]
        command = [sys.executable, "-c", FEW.format(more=""), "tune", str(model), *options]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(Records.read(tmp_path / "r.jsonl")[0]) == 2


def test_damaged_bundles_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    for content in ("{", "[]", json.dumps({"format": 99})):
        (folder / "manifest.json").write_text(content)
        assert measure.main([str(folder), "-o", str(tmp_path / "r.json")]) == 2
        assert "bundle" in capsys.readouterr().err
    (folder / "manifest.json").unlink()
    assert measure.main([str(folder), "-o", str(tmp_path / "r.json")]) == 2
    manifest = {"format": measure.FORMAT, "onnxc": "0.1.0", "target": "here", "threads": 1}
    for damage in ({}, {"tasks": [{}]}, {"tasks": [{"name": "k", "seconds": 1.0}]}, {"tasks": 3}):
        (folder / "manifest.json").write_text(json.dumps({**manifest, **damage}))
        assert measure.main([str(folder), "-o", str(tmp_path / "r.json")]) == 2
        assert "is a damaged bundle" in capsys.readouterr().err
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    (folder / "manifest.json").write_text(json.dumps({**manifest, "target": f"{other}-unknown-linux-gnu;"}))
    assert measure.main([str(folder), "-o", str(tmp_path / "r.json")]) == 2
    assert f"holds code for {other}" in capsys.readouterr().err
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04 and no more")
    assert measure.main([str(tmp_path / "b.zip"), "-o", str(tmp_path / "r.json")]) == 2
    assert "is no bundle" in capsys.readouterr().err
    assert measure.main([str(tmp_path / "b.zip"), "-o", str(folder)]) == 2
    assert "cannot write the output" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.zip", "bundle"]


def test_merge_keeps_what_it_was_not_given(tmp_path: Path) -> None:
    """An output that is none of the files is not replaced unasked, whether it has records or anything else."""
    good = {"name": "matmul()", "choice": {"schedule": {"rows": 1}}, "ns": 1.0, "default_ns": 2.0}
    for name in ("one", "two"):
        results = {"format": measure.FORMAT, "onnxc": "0.1.0", "target": name, "threads": 1, "results": [good]}
        (tmp_path / f"{name}.json").write_text(json.dumps(results))
    one, output, other = tmp_path / "one.json", tmp_path / "r.jsonl", tmp_path / "notes.txt"
    assert run("tune", "--merge", one, "-o", output).returncode == 0
    other.write_text("precious")
    for there, told in ((output, "has 1 records already"), (other, "no file of records")):
        before = there.read_bytes()
        done = run("tune", "--merge", tmp_path / "two.json", "-o", there)
        assert done.returncode == 2 and told in done.stderr and there.read_bytes() == before
    assert run("tune", "--merge", tmp_path / "two.json", output, "-o", output).returncode == 0
    assert len(Records.read(output)[0]) == 2
    assert run("tune", "--merge", one, "-o", output, "--force").returncode == 0
    assert len(Records.read(output)[0]) == 1


def test_edited_results(tmp_path: Path) -> None:
    """What no measurement can give is left out, with a warning; what is no list of results is refused."""
    path, output = tmp_path / "results.json", tmp_path / "r.jsonl"
    good = {"name": "matmul()", "choice": {"schedule": {"rows": 1}}, "ns": 1.0, "default_ns": 2.0}
    wrong = ({"ns": 0.0}, {"ns": float("nan")}, {"ns": 10**400}, {"choice": "fast"}, {"ns": 3.0}, {"name": 3})
    results = {"format": measure.FORMAT, "onnxc": "0.1.0", "target": "here", "threads": 1}
    path.write_text(json.dumps({**results, "results": [good, *({**good, **change} for change in wrong)]}))
    done = run("tune", "--merge", path, "-o", output)
    assert done.returncode == 0
    assert done.stderr.count(f"warning: {path}: result ") == len(wrong)
    assert [r.signature for r in Records.read(output)[0]] == ["matmul()"]
    for text in ("[]", "[" * 100000, '{"results": 3}', '{"results": [3]}', "\xff"):
        path.write_text(text)
        assert run("tune", "--merge", path, "-o", output).returncode == 2


def test_a_measuring_process_that_ends_is_told(tmp_path: Path) -> None:
    runner = LocalRunner()
    runner._measuring._process = subprocess.Popen(["false"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    runner._measuring._process.wait()
    with pytest.raises(onnxc.OnnxcError, match="is no bundle"):  # another one is started, and answers
        runner.submit(tmp_path)
    runner.close()
