"""This file finds the problems of a model: its distinct kernels, and its convolutions with all that is fused to them.

The model goes through the compiler's own passes up to the choice of schedules; what main calls there is what a task
measures. A convolution may become several kernels, differently for each algorithm: for each algorithm the model goes
through the passes once more, and the convolution's calls are those whose nodes are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from mlir import ir

from onnxc.compilation import Compilation
from onnxc.dialects import dims
from onnxc.dialects.onnx import is_constant
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import constant_array, dtype_of
from onnxc.feeds import Value, resolve_shape
from onnxc.importer import read_model
from onnxc.options import Options
from onnxc.passes.apply_choices import apply_choices
from onnxc.passes.choose_schedules import choose_schedules
from onnxc.passes.contract import PassFunction, Program
from onnxc.passes.kernel_calls import callee_of, dims_of
from onnxc.passes.rewriting import main_function, operations
from onnxc.pipeline import PIPELINE
from onnxc.progress import SILENT, Progress
from onnxc.realisations import realisations
from onnxc.refusals import complete_refusals
from onnxc.runtime.element_types import numpy_type
from onnxc.signature import input_values
from onnxc.tuning.tasks import Buffer, Call
from onnxc.variants import read_spec

USUAL = 64  # where a variant calls a named dim by INPUT.AXIS
Hook = Callable[[Program], None]


@dataclass
class Lowered:
    """A model at level kernels with schedules, and the sizes that its symbolic dims are taken for."""

    program: Program
    sizes: dict[str, int]
    functions: dict[str, ir.Operation] = field(default_factory=dict)
    calls: list[ir.Operation] = field(default_factory=list)

    @property
    def weight_bytes(self) -> int:
        return sum(self.program.weights.nbytes(key) for key in self.program.weights)


def lower(model: Path, options: Options, hook: Hook | None = None, progress: Progress = SILENT) -> Lowered:
    """Takes a model, or the one variant of it where the options leave the generic one out, to level kernels. `hook`
    sees the graph right before algorithms are chosen."""
    run = Compilation(options, progress)
    source = read_model(model)
    program = run.import_model(source, "model")
    if not options.generic:
        _, variants = run.variants(program)
        (one,) = realisations(variants, generic=False, targets=run.targets)
        program = run.import_model(source, "model", one)
    with complete_refusals(program):
        for function in _passes():
            if function is apply_choices and hook is not None:
                with program.context:
                    hook(program)
            progress.stage(function.__name__)
            function(program)
    with program.context:
        lowered = Lowered(program, _sizes(program, options))
        for op in program.module.body.operations:
            if "kernel.kind" in op.attributes:
                if "kernel.rows" in op.attributes:  # a part of a joined tensor is measured as a tensor of its own
                    del op.attributes["kernel.rows"]
                lowered.functions[ir.StringAttr(op.attributes["sym_name"]).value] = op
            else:
                block = op.regions[0].blocks[0]
                lowered.calls += [o for o in operations(block) if o.name in ("kernel.call", "kernel.scratch")]
    return lowered


def _passes() -> Iterator[PassFunction]:
    for passes in PIPELINE.values():
        for function in passes:
            yield function
            if function is choose_schedules:
                return


def _sizes(program: Program, options: Options) -> dict[str, int]:
    """What main's symbols stand for: the dims that the options set, and usual sizes for others, as `run` has them."""
    values = [_Input(v.name, numpy_type(v.dtype).name, v.dtype, v.dims) for v in input_values(program)]
    known = measured_dims(values, options)
    main = main_function(program.module)
    sizes: dict[str, int] = {}
    for value, argument in zip(values, main.regions[0].blocks[0].arguments, strict=True):
        for d, size in zip(Tensor.of(argument.type).dims, resolve_shape(value, known), strict=True):
            for name in dims.symbols(d):  # one, times what is known to divide it (dialects/dims/facts.py)
                sizes.setdefault(name, size // dims.divisor(d))
    return sizes


def measured_dims(inputs: Sequence[Value], options: Options) -> dict[str, int]:
    """The dims that the options set, and the usual sizes of those of which their variant says something, as close as it
    allows."""
    usual = dict(options.dims)
    for value in inputs:
        resolve_shape(value, usual)
    bounds = {dim: b for spec in map(read_spec, options.variants) for dim, b in spec.bounds.items()}
    return {**options.dims, **{dim: b.near(usual.get(dim, USUAL)) for dim, b in bounds.items()}}


@dataclass(frozen=True)
class _Input:
    """An input as feeds.py wants it."""

    name: str
    type: str
    dtype: int
    shape: tuple[int | str | None, ...]


class Chain:
    """Calls of main that belong together, as calls of a task: values become names of buffers.

    None of it holds on to the IR but the weights, which are read when they are asked for.
    """

    def __init__(self, lowered: Lowered, ops: Iterable[ir.Operation], prefix: str = "") -> None:
        self.lowered, self.prefix, self.ops = lowered, prefix, list(ops)
        self.buffers: dict[str, Buffer] = {}
        self._names: dict[ir.Value, str] = {}
        self._made = {r for op in self.ops for r in op.results}
        self._counts = dict.fromkeys(("input", "output", "scratch"), 0)
        self.calls = tuple(call for op in self.ops if (call := self._call(op)) is not None)

    def _call(self, op: ir.Operation) -> Call | None:
        values = self._values(op)
        operands = tuple(self._name(v) for v in op.operands)
        results = tuple(self._name(r) for r in op.results)
        if op.name == "kernel.scratch":
            return None
        return Call(str(self.lowered.functions[callee_of(op)]), operands, results, values)

    def _values(self, op: ir.Operation) -> dict[str, int]:
        if op.name == "kernel.scratch":
            return {}
        return {name: _evaluate(d, self.lowered.sizes) for name, d in dims_of(op).items()}

    def _name(self, v: ir.Value) -> str:
        v = _behind_views(v)
        if v not in self._names:
            self._names[v] = self._define(v)
        return self._names[v]

    def _define(self, v: ir.Value) -> str:
        tensor = Tensor.of(v.type)
        dtype = dtype_of(tensor.elem)
        size = _evaluate(tensor.numel, self.lowered.sizes) * dtype.itemsize
        owner = v.owner
        if is_constant(v):
            return self._weight(owner, size, dtype)
        role = "input"
        if v in self._made:
            role = "scratch" if owner.name == "kernel.scratch" or self._stays(v) else "output"
        name = f"{self.prefix if role == 'scratch' else ''}{role}{self._counts[role]}"
        self._counts[role] += 1
        self.buffers[name] = Buffer(size, dtype.name, role)
        return name

    def _stays(self, v: ir.Value) -> bool:
        """Whether only calls of this chain read it."""
        users = [use.owner.operation for use in v.uses]
        return all(self._stays(u.results[0]) if u.name == "kernel.view" else u in self.ops for u in users)

    def _weight(self, constant: ir.Operation, size: int, dtype: np.dtype) -> str:
        store = self.lowered.program.weights
        kind = "weight" if "weight" in constant.attributes else "value"  # before it: no other buffer has such a name
        entry = constant.attributes[kind]
        name = f"{kind} {ir.StringAttr(entry).value if kind == 'weight' else entry}"

        def content() -> np.ndarray:
            with self.lowered.program.context:
                array = constant_array(constant, store)
            assert array is not None
            return array

        self.buffers[name] = Buffer(size, dtype.name, "weight", content)
        return name


def _behind_views(v: ir.Value) -> ir.Value:
    while not isinstance(v.owner, ir.Block) and v.owner.name == "kernel.view":
        v = v.owner.operands[0]
    return v


class UnknownSize(Exception):
    """A size that only a run tells."""


def _evaluate(d: dims.Dim, sizes: Mapping[str, int]) -> int:
    if isinstance(d, int):
        return d
    if not set(dims.symbols(d)) <= set(sizes):
        raise UnknownSize(str(d))
    return dims.evaluate(d, sizes)
