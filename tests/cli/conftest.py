"""Runs the command line as a user does: a process of its own, of which the tests read output and exit code."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command_line import forked

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def onnxc_command(tmp_path: Path) -> Command:
    """`onnxc_command("compile", …)`, run in an empty folder; whatever happens, no traceback is shown."""

    def run(*arguments: object, how=forked) -> subprocess.CompletedProcess[str]:
        done = how([*map(str, arguments)], tmp_path)
        assert "Traceback" not in done.stdout + done.stderr
        return done

    return run
