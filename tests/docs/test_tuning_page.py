"""The commands in docs/tuning.md run as they stand there, one after another, on the demo's model."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tuning.md"


def test_commands(digits: Path, tmp_path: Path) -> None:
    shutil.copy(digits, tmp_path / "digits.onnx")
    (tmp_path / "others.jsonl").write_text("")
    scripts = tmp_path / "bin"
    scripts.mkdir()
    for name, program in (("onnxc", "-m onnxc"), ("python", "")):
        (scripts / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {program} "$@"\n')
        (scripts / name).chmod(0o755)
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines() if "digits.onnx" in line or "merge" in line
                or "measure" in line]  # fmt: skip
    assert len(commands) >= 8
    environment = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}"}
    for command in commands:
        shorter = re.sub(r"\b5s\b", "2s", command)
        done = subprocess.run(
            ["sh", "-c", shorter], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    made = {path.name for path in tmp_path.iterdir()}
    assert {"records.jsonl", "all.jsonl", "digits.so", "bundle.zip", "results.json", "device.jsonl"} <= made
