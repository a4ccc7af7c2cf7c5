"""This file makes onnxc an ONNX backend (`onnx.backend.base`): prepare, run_model, run_node, supports_device.

Inputs and outputs are numpy arrays; numpy scalars become arrays of rank 0, and sequences (lists), maps and absent
optionals (None) pass through as the session takes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep

from onnxc.api import InferenceSession, check
from onnxc.errors import UNREADABLE, OnnxcError


class OnnxcRep(BackendRep):
    """A compiled model, ready to run."""

    def __init__(self, session: InferenceSession) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs in the model's order. `inputs`: a sequence in the model's order, a dict by name, or a sole array."""
        feeds = _by_name(inputs, [value.name for value in self.session.get_inputs()], "model")
        return tuple(self.session.run(None, {name: _as_array(value) for name, value in feeds.items()}))


class OnnxcBackend(Backend):
    """The backend; `device` is "CPU", the only kind there is."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every node of the model can be compiled."""
        return cls.supports_device(device) and not check(model)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> OnnxcRep:
        """Compiles the model for this CPU. `threads` and `compile_options` are InferenceSession's."""
        if not cls.supports_device(device):
            raise OnnxcError(f"no device is named '{device}'", hint="the device is CPU", exit_code=UNREADABLE)
        return OnnxcRep(InferenceSession(model, kwargs.get("threads"), compile_options=kwargs.get("compile_options")))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Compiles and runs the model once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Compiles and runs a model of this one node, whose `inputs` are given as a model's. `opset_version` chooses
        the version of ONNX's own operators (default: the latest)."""
        feeds = _by_name(inputs, [name for name in node.input if name], "node")
        arrays = {name: np.asarray(value) for name, value in feeds.items()}
        model = model_of_node(node, arrays, outputs_info, kwargs.pop("opset_version", None))
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for CPU, with or without a number."""
        return device.split(":")[0] == "CPU"


def model_of_node(
    node: onnx.NodeProto,
    inputs: Mapping[str, np.ndarray],
    outputs_info: Sequence[tuple[np.dtype, Sequence[int]]] | None = None,
    opset_version: int | None = None,
) -> onnx.ModelProto:
    """A model with just this node, its inputs typed by the arrays and its outputs by `outputs_info` or by inference."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    if outputs_info is not None:
        results = [
            helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
            for value, (dtype, shape) in zip(results, outputs_info, strict=True)
        ]
    domains = {"": opset_version or onnx.defs.onnx_opset_version()}
    if node.domain:
        versions = [schema.since_version for schema in onnx.defs.get_all_schemas() if schema.domain == node.domain]
        domains[node.domain] = max(versions, default=1)
    model = helper.make_model(
        helper.make_graph([node], node.name or node.op_type, infos, results),
        opset_imports=[helper.make_opsetid(domain, number) for domain, number in domains.items()],
    )
    return model if outputs_info is not None else onnx.shape_inference.infer_shapes(model, data_prop=True)


def _by_name(inputs: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    """What is given as a dict by name, as a sequence in the order of `names`, where a name may come twice, or as a
    sole array."""
    if isinstance(inputs, Mapping):
        return dict(inputs)
    values = inputs if isinstance(inputs, Sequence) and not isinstance(inputs, str | bytes) else [inputs]
    if len(values) > len(names):
        raise OnnxcError(f"{len(values)} inputs are given, but the {what} has {len(names)}")
    return dict(zip(names, values, strict=False))


def _as_array(value: Any) -> Any:
    """Arrays for numbers and numpy scalars; anything else as it is."""
    return np.asarray(value) if isinstance(value, np.generic | int | float | bool) else value


is_compatible = OnnxcBackend.is_compatible
prepare = OnnxcBackend.prepare
run_model = OnnxcBackend.run_model
run_node = OnnxcBackend.run_node
supports_device = OnnxcBackend.supports_device
