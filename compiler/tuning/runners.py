"""This file has bundles measured: here, in a process of its own, or by the workers of a `concurrent.futures` executor.

There is no scheduler of our own: machines that measure are workers of whatever engine offers an executor, such as Dask.
"""

from __future__ import annotations

import contextlib
import io
import platform
import zipfile
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, Protocol

from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.leftovers import ended_at_ctrl_c
from onnxc.runtime.errors import LoadError
from onnxc.runtime.measure import measure_archive
from onnxc.runtime.watched import Watched
from onnxc.targets import Target

Results = list[dict[str, Any]]


class Runner(Protocol):
    """Measures bundles; `width` of them at a time are worth while."""

    width: int

    def submit(self, folder: Path) -> Future[Results]:
        """The results of the bundle's tasks. The folder is not read any more once this returns."""
        ...


class LocalRunner:
    """Measures on this machine, in a process that loads neither the compiler nor the model."""

    width = 1

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

    def __init__(self, executor: Executor, width: int) -> None:
        self.executor, self.width = executor, width

    def submit(self, folder: Path) -> Future[Results]:
        return self.executor.submit(measure_archive, archived(folder))


def archived(folder: Path) -> bytes:
    """A bundle's folder as a zip, the same bytes for the same content."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(folder.iterdir()):
            archive.writestr(zipfile.ZipInfo(path.name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return data.getvalue()


@contextlib.contextmanager
def runner_for(name: str, target: Target) -> Iterator[Runner]:
    """`local`, or `dask://HOST:PORT`: the workers of that Dask scheduler. The target's code must run there."""
    if name == "local":
        if target.arch != platform.machine():
            raise OnnxcError(
                f"code for {target.arch} cannot be measured on this {platform.machine()}",
                hint="--runner bundle, and python -m onnxc.runtime.measure on the device",
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
    else:
        raise OnnxcError(f"'{name}' is no runner", hint="local, dask://HOST:PORT or bundle", exit_code=UNREADABLE)


@contextlib.contextmanager
def _dask(address: str) -> Iterator[ExecutorRunner]:
    try:
        from dask.distributed import Client  # pyright: ignore[reportMissingImports]  # an extra
    except ModuleNotFoundError as error:
        raise OnnxcError(
            "dask.distributed is not installed", hint="pip install 'onnxc[dask]'", exit_code=UNREADABLE
        ) from error
    try:
        client = Client(address, timeout="5s")
    except OSError as error:
        raise OnnxcError(f"no Dask scheduler answers at {address}", why=str(error), exit_code=UNREADABLE) from error
    with client:
        workers: Any = client.nthreads()  # a coroutine for asynchronous clients only
        yield ExecutorRunner(client.get_executor(pure=False), max(1, len(workers)))
