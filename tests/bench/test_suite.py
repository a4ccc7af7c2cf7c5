"""The suite's runner on the demo's model: it reports, and does not judge times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import onnxc

pytest.importorskip("onnxruntime")


def test_suite_measures_a_folder(tmp_path):
    out = tmp_path / "rows.json"
    demo = Path(onnxc.__file__).parent / "demo"
    command = [sys.executable, "-m", "tests.bench.suite", str(demo), "--against", "onnxruntime", "--rounds", "2"]
    done = subprocess.run([*command, "--json", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(out.read_text())
    assert row["model"] == "digits"
    assert row["result"]["ratios"]["onnxruntime"] > 0
    assert "geometric mean" in done.stdout
