"""This package turns an ONNX model into a `Program` at graph level: one opset, constants beside IR, symbols for dims.

Nothing in a model file is executed, and no file outside the model's folder is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError, EncodeError
from mlir import ir
from mlir.dialects import func
from onnx import ModelProto, ValueInfoProto

from onnxc.dialects.errors import UNREADABLE, OnnxcError, Refusals
from onnxc.dialects.onnx import new_context
from onnxc.dialects.signatures import OPSET, PREFIX_OF_DOMAIN
from onnxc.dialects.weights import WeightStore
from onnxc.importer import steps_attributes, steps_semantics  # noqa: F401 - importing them fills the table of steps
from onnxc.importer.functions import unfold_schema_functions
from onnxc.importer.graph import Builder
from onnxc.importer.inference import Inference
from onnxc.importer.metadata import metadata_of
from onnxc.importer.reading import Source, read_model
from onnxc.importer.signature_types import DimNames, value_type
from onnxc.importer.text import check_names
from onnxc.importer.upgrade import opset_versions
from onnxc.passes.contract import Options, Program


def import_model(
    model: str | os.PathLike[str] | bytes | ModelProto | Source,
    options: Any = None,
    *,
    has_lowering: Callable[[str], bool] | None = None,
    weights: WeightStore | None = None,
) -> Program:
    """Read a model (a path, a file's bytes, a ModelProto, or what `read_model` made) into a program at graph level.

    Its constants go into `weights`. `options.dims` binds symbolic dims. Operators for which `has_lowering` is false are
    replaced by the body that ONNX defines for them, where it defines one.
    Raises OnnxcError; Refusals names every node that cannot be taken.
    """
    source = model if isinstance(model, Source) else read_model(model)
    store = WeightStore() if weights is None else weights
    try:
        return _program(source, Options() if options is None else options, has_lowering, store)
    except OnnxcError as error:
        raise error.at(file=source.file) from error.__cause__
    except (DecodeError, EncodeError) as error:
        raise OnnxcError("this is not an ONNX model", file=source.file, why=str(error), exit_code=UNREADABLE) from error


def _program(source: Source, options: Any, has_lowering: Callable[[str], bool] | None, weights: WeightStore) -> Program:
    model = source.model
    check_names(model)
    opsets = _checked_opsets(model)
    if has_lowering is not None:
        model = unfold_schema_functions(model, has_lowering)
    context = new_context()
    builder = Builder(context, source.tensors, weights, model.functions, Inference(model))
    names = DimNames(options.dims)
    graph = model.graph
    constants = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    inputs = [i for i in graph.input if i.name not in constants]
    with context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get(_input_types(inputs, names, context), []))
        main.attributes["input_names"] = _strings([i.name for i in inputs])
        main.attributes["output_names"] = _strings([o.name for o in graph.output])
        if names.originals:
            symbols = {symbol: ir.StringAttr.get(name) for symbol, name in names.originals.items()}
            main.attributes["dim_names"] = ir.DictAttr.get(symbols)
        block = main.add_entry_block([ir.Location.name(i.name) for i in inputs])
        arguments = dict(zip((i.name for i in inputs), block.arguments, strict=True))
        with ir.InsertionPoint(block):
            results = builder.add_graph(graph, opsets, arguments)
            func.ReturnOp(results)
        if builder.refused:
            raise Refusals(builder.refused)
        types = [a.type for a in block.arguments], [r.type for r in results]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
    return Program(module, weights, options, file=source.file, notes={"metadata": metadata_of(model, opsets)})


def _checked_opsets(model: ModelProto) -> dict[str, int]:
    opsets = opset_versions(model.opset_import) or {"": 1}  # IR version 1 and 2 did not tell
    if opsets.get("", 1) > OPSET:
        raise OnnxcError(
            f"the model is of opset {opsets['']}", why=f"the newest that this compiler knows is {OPSET}",
            hint="export it with an older opset",
        )  # fmt: skip
    for domain, version in opsets.items():
        if domain in PREFIX_OF_DOMAIN and version < 1:
            raise OnnxcError(f"the model gives version {version} of domain '{domain}'", exit_code=UNREADABLE)
    return opsets


def _input_types(inputs: list[ValueInfoProto], names: DimNames, context: ir.Context) -> list[ir.Type]:
    labels = [i.name for i in inputs]
    twice = {label for label in labels if labels.count(label) > 1} if len(set(labels)) < len(labels) else set()
    if twice:
        raise OnnxcError(f"two inputs are called '{min(twice)}'", exit_code=UNREADABLE)
    shapes = [(i.name, i.type.tensor_type.shape) for i in inputs if i.type.WhichOneof("value") == "tensor_type"]
    names.bind_named(shapes)
    types = [value_type(i.name, i.type, names, context) for i in inputs]
    names.check_all_used(labels)
    return types


def _strings(values: list[str]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.StringAttr.get(v) for v in values])


__all__ = ["Source", "import_model", "read_model"]
