"""One worker process of the compile pool, seen from the parent, and its loop."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import pickle
import signal
import socket
import struct
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

_PR_SET_PDEATHSIG = 1


class Worker:
    """A fork of this process that answers numbers with `run(number)`; results must be picklable."""

    def __init__(self, run: Callable[[int], Any]) -> None:
        self.number = -1  # what it is at work on
        self.served = 0
        self.socket, theirs = socket.socketpair()
        self._complaints = os.memfd_create("onnxc-worker")  # its stderr: what LLVM says before it aborts
        parent = os.getpid()
        with _signals_later(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads: the child touches none of them
            self.pid = os.fork()
            if self.pid == 0:
                _serve(theirs, parent, self._complaints, run)
        theirs.close()

    def give(self, number: int) -> None:
        """Starts it on `run(number)`; a dead worker is noticed by `result`."""
        self.number = number
        with contextlib.suppress(OSError):
            self.socket.sendall(struct.pack("<q", number))

    def result(self) -> Any:
        """What `run` gave; None if the process is dead."""
        head = self._receive(8)
        body = self._receive(struct.unpack("<Q", head)[0]) if head is not None else None
        if body is None:
            return None
        self.served += 1
        return pickle.loads(body)  # from our own child

    def how_it_died(self) -> str:
        """The signal or exit status of a dead process, and the last thing it said."""
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.pid = 0
        said = os.pread(self._complaints, 1 << 20, 0).decode(errors="replace")
        first = next((line for line in said.splitlines() if "rror" in line or "ssertion" in line), "")
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"left with status {code}"
        return how + (f" ({first.strip()[:300]})" if first else "")

    def kill(self) -> None:
        """Ends the process and frees what it held. Idempotent."""
        self.socket.close()
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        if self._complaints >= 0:
            os.close(self._complaints)
            self._complaints = -1

    def _receive(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionError:
                return None
            if not piece:
                return None
            data += piece
        return bytes(data)


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """Ctrl-C takes effect at the end.

    The child must not see it, and Python drops an exception that is raised in the functions it calls after a fork, as
    happens although the signal is blocked here: another thread takes it, such as one of numpy's.
    """
    came: list[object] = []
    handler = signal.getsignal(signal.SIGINT)  # None: not Python's
    ours = handler is not None and threading.current_thread() is threading.main_thread()  # which handles signals
    if ours:
        signal.signal(signal.SIGINT, lambda number, frame: came.append(frame))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if ours:
            signal.signal(signal.SIGINT, handler)
        if came and callable(handler):
            handler(signal.SIGINT, None)


def _serve(link: socket.socket, parent: int, complaints: int, run: Callable[[int], Any]) -> None:
    """The child's whole life: numbers in, results out, until the parent closes its end or dies. Never returns."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        faulthandler.disable()  # its report would go to the user's terminal
        gc.freeze()  # the parent's objects are not ours to finalise
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(complaints, 2)
        for number in map(int, os.listdir("/proc/self/fd")):  # pipes of others, who wait for their end
            if number > 2 and number != link.fileno():
                with contextlib.suppress(OSError):
                    os.close(number)
        while os.getppid() == parent and len(request := link.recv(8, socket.MSG_WAITALL)) == 8:
            body = pickle.dumps(run(*struct.unpack("<q", request)), pickle.HIGHEST_PROTOCOL)
            link.sendall(struct.pack("<Q", len(body)) + body)
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)  # neither the parent's exit handlers nor its buffered output are ours
