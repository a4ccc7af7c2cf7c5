"""Runs commands as a user does."""

from __future__ import annotations

import subprocess

from tests.command_line import forked

ENOUGH = 6000.0  # seconds to tune for, which no machine needs: it ends since there is nothing left to try

#: a program that is the command, but tries only three candidates of a problem
FEW = """if True:
    from onnxc.__main__ import main
    from onnxc.tuning import tune
    kernel_tasks = tune.kernel_tasks
    def few(lowered):
        tasks = kernel_tasks(lowered)
        for task in tasks:
            del task.candidates[3:]
        return tasks
    tune.kernel_tasks = few
    {more}
    main()
"""


def run(*arguments: object, how=forked) -> subprocess.CompletedProcess[str]:
    done = how([*map(str, arguments)])
    assert "Traceback" not in done.stderr
    return done
