"""This file runs a function in a fork of this process, so that code that crashes or hangs costs only its own answer."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import selectors
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

STEP = 0.5  # seconds: time in which the whole machine is stopped counts as one step
_PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """The function gave no answer: the message says how it ended ("ended by SIGSEGV", "took more than 20 s")."""


class TooLong(Failed):
    """It took more time than it had."""


def isolated(function: Callable[[], Any], seconds: float) -> Any:
    """What `function` returns (anything that JSON can hold). Failed if its process dies, raises, or takes too long."""
    ours, theirs = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        _serve(function, theirs, parent)
    os.close(theirs)
    try:
        said = _read(ours, seconds)
    finally:
        os.close(ours)
        if not _ended(pid):
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if said is None:
        raise TooLong(f"took more than {seconds:.3g} s")
    if not said:
        raise Failed(f"ended by {signal.Signals(-status).name}" if status < 0 else f"left with status {status}")
    done, answer = json.loads(said)
    if not done:
        raise Failed(answer)
    return answer


def _serve(function: Callable[[], Any], pipe: int, parent: int) -> None:
    """The fork's whole life; never returns."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to answer
        faulthandler.disable()  # its report would go to the user's terminal
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            try:
                answer: Any = (True, function())
            except Exception as error:
                answer = (False, "".join(traceback.format_exception_only(error)).strip())
            with open(pipe, "wb") as file:
                file.write(json.dumps(answer).encode())
            status = 0
    finally:
        os._exit(status)


def _read(pipe: int, seconds: float) -> bytes | None:
    """All that comes until the other end closes; None if that takes longer."""
    data = bytearray()
    with selectors.PollSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while seconds > 0:
            if not selector.select(min(STEP, seconds)):
                seconds -= STEP
                continue
            piece = os.read(pipe, 1 << 16)
            if not piece:
                return bytes(data)
            data += piece
    return None


def _ended(pid: int) -> bool:
    """Whether the process ends by itself within a moment (it has said all it will)."""
    for _ in range(100):
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
        time.sleep(0.001)
    return False
