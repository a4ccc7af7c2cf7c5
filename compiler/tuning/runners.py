"""This file has bundles measured: here, in a process of its own, by the workers of a `concurrent.futures` executor, or
by a command (elsewhere.py).

There is no scheduler of our own: machines that measure are workers of whatever engine offers an executor, such as Dask.
"""

from __future__ import annotations

import contextlib
import io
import platform
import re
import zipfile
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor, Future
from pathlib import Path
from typing import Any, Protocol

from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.leftovers import ended_at_ctrl_c
from onnxc.runtime.errors import LoadError
from onnxc.runtime.measure import MeasuringFailed, measure_archive
from onnxc.runtime.watched import Watched
from onnxc.targets import Target
from onnxc.tuning.elsewhere import CommandRunner, ssh_command

Results = list[dict[str, Any]]
CONNECTION = 30  # seconds until a Dask scheduler has answered, which may be as busy as its machine
RUNNERS = "local, ssh:[USER@]HOST[:PORT], dask://HOST:PORT, a command with {bundle} in it, program or bundle"


class Runner(Protocol):
    """Measures bundles of a `form` (bundle.py); `width` of them at a time are worth while.

    `here`: whether what it measures holds for this machine, so that the whole model can be measured here as well.
    """

    width: int
    form: str
    here: bool

    def submit(self, folder: Path) -> Future[Results]:
        """The results of the bundle's tasks. The folder is not read any more once this returns."""
        ...


class LocalRunner:
    """Measures on this machine, in a process that loads neither the compiler nor the model."""

    width = 1
    form = "library"
    here = True

    def __init__(self) -> None:
        self._measuring = Watched()

    def submit(self, folder: Path) -> Future[Results]:
        future: Future[Results] = Future()
        try:
            future.set_result(self._measuring.measure(folder))
        except LoadError as error:
            raise OnnxcError(str(error)) from error
        return future

    def close(self) -> None:
        self._measuring.close()


class ExecutorRunner:
    """Measures on the workers of an executor; each needs numpy, ml_dtypes and onnxc's runtime."""

    form = "library"
    here = True

    def __init__(self, executor: Executor, width: int) -> None:
        self.executor, self.width = executor, width

    def submit(self, folder: Path) -> Future[Results]:
        """As any runner's; what goes wrong on a worker, or with the engine, is an OnnxcError."""
        told: Future[Results] = Future()

        def tell(done: Future[Results]) -> None:
            try:
                error = done.exception()
            except CancelledError as cancelled:
                error = cancelled
            if error is None:
                told.set_result(done.result())
            else:
                told.set_exception(WorkerFailed(error))

        try:
            self.executor.submit(measure_archive, archived(folder)).add_done_callback(tell)
        except Exception as error:  # engines raise errors of their own
            raise WorkerFailed(error) from error
        return told


class WorkerFailed(OnnxcError):
    """An executor's worker gave no results: `why` says what it, or the engine, said."""

    def __init__(self, error: BaseException) -> None:
        said = " ".join(str(error).split()) or "it says nothing more"
        super().__init__(
            "a worker of the executor cannot measure",
            why=(said if isinstance(error, MeasuringFailed) else f"{type(error).__name__}: {said}")[:500],
            hint="each worker needs numpy, ml_dtypes and the same onnxc (pip install --no-deps onnxc)",
            exit_code=UNREADABLE,
        )


def archived(folder: Path) -> bytes:
    """A bundle's folder as a zip, the same bytes for the same content."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(folder.iterdir()):
            archive.writestr(zipfile.ZipInfo(path.name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return data.getvalue()


@contextlib.contextmanager
def runner_for(name: str, target: Target) -> Iterator[Runner]:
    """The runner of that name, see RUNNERS. The target's code must run there."""
    if name == "local":
        if target.arch != platform.machine():
            raise OnnxcError(
                f"code for {target.arch} cannot be measured on this {platform.machine()}",
                hint="--runner ssh:HOST, or --runner program, which writes what is to be run on the device",
                exit_code=UNREADABLE,
            )
        runner = LocalRunner()
        with ended_at_ctrl_c(runner.close):
            try:
                yield runner
            finally:
                runner.close()
    elif name.startswith("dask://"):
        with _dask(f"tcp://{name.removeprefix('dask://')}") as runner:
            yield runner
    elif name.startswith("ssh:"):
        yield CommandRunner(ssh_command(name), name)
    elif re.search(r"[\s{}]", name):
        yield CommandRunner(name)
    else:
        raise OnnxcError(f"'{name}' is no runner", hint=RUNNERS, exit_code=UNREADABLE)


@contextlib.contextmanager
def _dask(address: str) -> Iterator[ExecutorRunner]:
    try:
        from dask.distributed import Client  # pyright: ignore[reportMissingImports]  # an extra
    except ModuleNotFoundError as error:
        raise OnnxcError(
            "dask.distributed is not installed", hint="pip install 'onnxc[dask]'", exit_code=UNREADABLE
        ) from error
    if not re.fullmatch(r"tcp://([^\s/:\[\]]+|\[[^\s/\[\]]+\]):[0-9]{1,5}", address):
        named = f"dask://{address.removeprefix('tcp://')}"
        raise OnnxcError(f"'{named}' names no scheduler", hint="dask://HOST:PORT", exit_code=UNREADABLE)
    try:
        client = Client(address, timeout=CONNECTION)
    except OSError as error:
        raise OnnxcError(f"no Dask scheduler answers at {address}", why=str(error), exit_code=UNREADABLE) from error
    with client:
        workers: Any = client.nthreads()  # a coroutine for asynchronous clients only
        yield ExecutorRunner(client.get_executor(pure=False), max(1, len(workers)))
