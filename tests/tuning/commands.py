"""Runs commands as a user does."""

from __future__ import annotations

import subprocess
import sys

ENOUGH = 6000.0  # seconds to tune for, which no machine needs: it ends since there is nothing left to try


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-m", "onnxc", *map(str, arguments)], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    return done
