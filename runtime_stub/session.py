"""Runs compiled models from Python, by the interface of onnxruntime's InferenceSession."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxc.runtime import abi
from onnxc.runtime.caller import Caller
from onnxc.runtime.errors import InputError
from onnxc.runtime.library import Library, NodeArg
from onnxc.runtime.variants import Variant

if TYPE_CHECKING:
    from onnxc.runtime.shape_record import ShapeRecord

_process_pools: dict[tuple[int, int], Any] = {}
"""By ABI version the pool of the first threaded model: the models of a process share it (libraries stay loaded, so it
stays); those of other versions know another kind of pool."""


def _shape_record(path: str | os.PathLike[str], library: Library) -> ShapeRecord:
    from onnxc.runtime.shape_record import ShapeRecord  # where it is asked for: json takes a millisecond

    return ShapeRecord(path, library.inputs)


class ModelMetadata:
    """What the ONNX model said of itself; the compiler's own entries are under "onnxc." in `custom_metadata_map`."""

    def __init__(self, library: Library) -> None:
        entries = dict(library.metadata)
        self.producer_name = entries.pop("model.producer_name", "")
        self.graph_name = entries.pop("model.graph_name", library.name)
        self.graph_description = entries.pop("model.graph_description", "")
        self.description = entries.pop("model.description", "")
        self.domain = entries.pop("model.domain", "")
        self.version = int(entries.pop("model.version", "0"))
        self.custom_metadata_map = {key: text for key, text in entries.items() if not key.startswith("model.")}


class InferenceSession:
    """A compiled model, ready to run; may be used from several threads at once.

    threads        how many each run may use; None: the CPUs that this process may use
    isa_mask       CPU features that may be used, as bits in the order of `Library.feature_names`; None: all
    weights_path   the weights' file, where it is not beside the model
    symbol         which model, where the library has several
    record_shapes  a JSON file in which the shapes of runs are counted, for `onnxc advise`
    trace          called after each run with a line that tells which variant ran, and why no more specific one did

    Raises LoadError for a file that is no compiled model for this machine (CpuError: for this CPU).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        threads: int | None = None,
        *,
        isa_mask: int | None = None,
        weights_path: str | os.PathLike[str] | None = None,
        symbol: str | None = None,
        record_shapes: str | os.PathLike[str] | None = None,
        trace: Callable[[str], object] | None = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise InputError(f"threads={threads}: a run needs at least one thread")
        self._options = abi.onnxc_options(size=ctypes.sizeof(abi.onnxc_options), threads=threads or 0)
        if isa_mask is not None:
            self._options.hidden_features = ~isa_mask & 2**64 - 1
        if weights_path is not None:
            self._options.weights_path = os.fsencode(weights_path)
        self._library = Library(path, symbol)
        self._trace = trace
        self._record = None if record_shapes is None else _shape_record(record_shapes, self._library)
        self._names = {arg.name: i for i, arg in enumerate(self._library.outputs)}
        self._all = list(range(len(self._library.outputs)))
        self._last = self._new_caller()
        self._idle = [self._last]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: object = None,
        *,
        out: Mapping[str, np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """The named outputs (None: all) for these inputs, as arrays of their own.

        An input is an array, or anything that gives one without a copy (__dlpack__, buffers), a number or a list.
        `out` gives arrays to write outputs into: C-contiguous, of the output's type and shape; one whose shape only
        the run can tell may be larger, and the part that was written comes back. `run_options` is onnxruntime's and
        not used.
        """
        wanted = self._wanted(output_names) if output_names else self._all
        if out:
            self._wanted(out)
        try:
            caller = self._idle.pop()
        except IndexError:  # all are running in other threads
            caller = self._new_caller()
        try:
            if wanted is not self._all and len(set(wanted)) < len(wanted):  # a name given twice: one array
                distinct = list(dict.fromkeys(wanted))
                found = dict(zip(distinct, caller.run(input_feed, distinct, out), strict=True))
                results = [found[index] for index in wanted]
            else:
                results = caller.run(input_feed, wanted, out)
            if self._record is not None:
                self._record.note(input_feed)
            if self._trace is not None:
                self._trace(caller.explanation())
            return results
        finally:
            self._last = caller
            self._idle.append(caller)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs in order, with .name, .shape and .type ("tensor(float)")."""
        return list(self._library.inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs in order."""
        return list(self._library.outputs)

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself."""
        return ModelMetadata(self._library)

    @property
    def variant(self) -> Variant | None:
        """The variant that served the last run: its name, target, guards …; None before the first."""
        return self._last.variant

    @property
    def threads(self) -> int:
        """How many threads a run may use."""
        return self._library.api.threads(self._last.context)

    @property
    def library(self) -> Library:
        """The loaded model: variants, report, versions."""
        return self._library

    def _new_caller(self) -> Caller:
        version = self._library.abi_version
        if version in _process_pools:
            self._options.pool = _process_pools[version]
        caller = Caller(self._library, self._options)
        if version not in _process_pools and self._library.threaded:
            _process_pools[version] = self._library.api.pool(caller.context)
        return caller

    def _wanted(self, names: Sequence[str] | Mapping[str, Any]) -> list[int]:
        try:
            return [self._names[name] for name in names]
        except (KeyError, TypeError):
            known = list(self._names)  # which can be asked for what has no hash, too
            unknown = next(name for name in names if name not in known)
            listed = ", ".join(f"'{name}'" for name in self._names)
            raise InputError(f"no output is named {unknown!r}; the model's outputs: {listed}") from None
