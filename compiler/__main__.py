"""This file is where `onnxc` and `python -m onnxc` start; it keeps the promise that no command ends in a traceback."""

from __future__ import annotations

import signal
import sys
from importlib.util import find_spec


def main() -> None:
    """Runs the command line and exits: 0, 1 (refused), 2 (unreadable file or wrong usage), 101 (a fault of onnxc)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback from imports; nothing has begun that needs an end
    if find_spec("click") is None:  # a device that only runs models has the loader without the compiler's packages
        sys.stderr.write("error: the command line needs the package 'click' (hint: pip install onnxc)\n")
        sys.exit(2)
    from onnxc.leftovers import leave_at_ctrl_c

    leave_at_ctrl_c()
    from onnxc.cli import run_command_line

    sys.exit(run_command_line(sys.argv[1:]))


if __name__ == "__main__":
    main()
