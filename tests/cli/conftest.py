"""Runs the command line as a user does: a process of its own, of which the tests read output and exit code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def onnxc_command(tmp_path: Path) -> Command:
    """`onnxc_command("compile", …)`, run in an empty folder; whatever happens, no traceback is shown."""

    def run(*arguments: object, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "onnxc", *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=timeout)
        assert "Traceback" not in done.stdout + done.stderr
        return done

    return run
