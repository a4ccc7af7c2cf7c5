"""This file holds the steps by which attributes became inputs, or were renamed, retyped or dropped."""

from __future__ import annotations

import numpy as np

from onnxc.dialects.signatures import OPSET
from onnxc.importer.nodes import Node
from onnxc.importer.upgrade import Surroundings, made, upgrades

_NUMBER_OF_TYPE = {
    "FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "STRING": 8, "BOOL": 9,
    "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13, "COMPLEX64": 14, "COMPLEX128": 15,
}  # fmt: skip


def _ints_become_input(node: Node, around: Surroundings, attribute: str, index: int) -> None:
    values = node.attrs.pop(attribute, None)
    if values is not None:
        node.put_input(index, around.constant(np.array(values, np.int64)))


@upgrades("Squeeze", since=11)
@upgrades(
    *(f"Reduce{r}" for r in ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare"]), since=13
)
@upgrades("ReduceSum", since=11)
def axes_become_input(node: Node, around: Surroundings) -> None:
    """Opset 13 and 18: `axes` is input 1. An empty list meant all axes, as it still does."""
    if node.attrs.get("axes") == []:
        del node.attrs["axes"]
    _ints_become_input(node, around, "axes", 1)


@upgrades("Unsqueeze", since=11)
def unsqueeze_axes_become_input(node: Node, around: Surroundings) -> None:
    """Opset 13: `axes` is input 1, and required."""
    node.attrs.setdefault("axes", [])
    _ints_become_input(node, around, "axes", 1)


@upgrades("Reshape", since=1)
def reshape_shape_becomes_input(node: Node, around: Surroundings) -> None:
    """Opset 5: `shape` is input 1."""
    node.attrs.pop("consumed_inputs", None)
    _ints_become_input(node, around, "shape", 1)


@upgrades("Slice", since=1)
def slice_bounds_become_inputs(node: Node, around: Surroundings) -> None:
    """Opset 10: starts, ends and axes are inputs."""
    for index, name in enumerate(("starts", "ends", "axes"), start=1):
        _ints_become_input(node, around, name, index)


@upgrades("Split", since=1)
def split_sizes_input_becomes_attribute(node: Node, around: Surroundings) -> None:
    """Opset 2: the sizes are an attribute only (opset 13 makes them an input again), axis defaults to 0."""
    if node.input(1):
        sizes = around.array(node.inputs[1])
        if sizes is None:
            raise node.refuse("Split of opset 1 with sizes that are not constant")
        node.attrs["split"] = [int(v) for v in sizes.reshape(-1)]
    del node.inputs[1:]


@upgrades("Split", since=11)
def split_sizes_become_input(node: Node, around: Surroundings) -> None:
    """Opset 13: `split` is input 1."""
    _ints_become_input(node, around, "split", 1)


@upgrades("Split", since=13)
def split_counts_outputs(node: Node, around: Surroundings) -> None:
    """Opset 18: without sizes, num_outputs must tell into how many equal parts."""
    if not node.input(1):
        node.attrs["num_outputs"] = len(node.outputs)


@upgrades("TopK", since=1)
def topk_k_becomes_input(node: Node, around: Surroundings) -> None:
    """Opset 10: k is input 1, a tensor of one element."""
    node.put_input(1, around.constant(np.array([node.attrs.pop("k")], np.int64)))


@upgrades("Pad", since=1)
def pad_paddings_becomes_pads(node: Node, around: Surroundings) -> None:
    """Opset 2: the attribute's name."""
    node.attrs["pads"] = node.attrs.pop("paddings")


@upgrades("Pad", since=2)
def pad_pads_become_input(node: Node, around: Surroundings) -> list[Node] | None:
    """Opset 11: pads and value are inputs; value has the data's type."""
    _ints_become_input(node, around, "pads", 1)
    value = node.attrs.pop("value", 0.0)
    if value == 0.0:
        return None
    node.version = 11
    return [*_number_input(node, around, 2, value), node]


@upgrades("Clip", since=1)
def clip_bounds_default(node: Node, around: Surroundings) -> None:
    """Opset 6: bounds have defaults."""
    node.attrs.pop("consumed_inputs", None)


@upgrades("Clip", since=6)
def clip_bounds_become_inputs(node: Node, around: Surroundings) -> list[Node]:
    """Opset 11: min and max are inputs of the data's type."""
    node.version = 11
    nodes = []
    for index, name in ((1, "min"), (2, "max")):
        value = node.attrs.pop(name, None)
        if value is not None and abs(value) < np.finfo(np.float32).max:
            nodes += _number_input(node, around, index, value)
    return [*nodes, node]


def _number_input(node: Node, around: Surroundings, index: int, value: float) -> list[Node]:
    """Make `value` input `index`, in the type of input 0; the nodes that this takes where the type is not known."""
    dtype = around.dtype(node.inputs[0])
    if dtype is not None:
        node.put_input(index, around.constant(np.array(value, dtype)))
        return []
    number, result = around.constant(np.array(value, np.float32)), around.fresh()
    node.put_input(index, result)
    return [made("CastLike", [number, node.inputs[0]], [result], like=node)]


@upgrades("Dropout", since=1)
@upgrades("Dropout", since=6)
def dropout_is_test(node: Node, around: Surroundings) -> None:
    """Opset 7: no `is_test`; inference is meant. (Before, 0 asked for training, which a compiled model never does.)"""
    node.attrs.pop("consumed_inputs", None)
    node.attrs.pop("is_test", None)


@upgrades("Dropout", since=10)
def dropout_ratio_becomes_input(node: Node, around: Surroundings) -> None:
    """Opset 12: ratio is an input; without training_mode it changes nothing, so it is left out."""
    node.attrs.pop("ratio", None)


@upgrades("Cast", since=1)
def cast_to_becomes_number(node: Node, around: Surroundings) -> None:
    """Opset 6: `to` is a number, not a type's name."""
    to = node.attrs["to"]
    if isinstance(to, str):
        node.attrs["to"] = _NUMBER_OF_TYPE[to.upper()]


@upgrades("Concat", since=1)
def concat_axis_required(node: Node, around: Surroundings) -> None:
    """Opset 4: no default axis (it was 1)."""
    node.attrs.setdefault("axis", 1)


@upgrades("Selu", since=1)
def selu_defaults(node: Node, around: Surroundings) -> None:
    """Opset 6: more digits in the defaults."""
    node.attrs.pop("consumed_inputs", None)
    node.attrs.setdefault("alpha", 1.673200011253357)
    node.attrs.setdefault("gamma", 1.0506999492645264)


@upgrades("GlobalLpPool", "LpPool", since=1)
def pool_p_becomes_int(node: Node, around: Surroundings) -> None:
    """Opset 2: p is an int."""
    p = node.attrs.get("p", 2.0)
    if p != int(p):
        raise node.refuse(f"{node.op_type} with p = {p}")
    node.attrs["p"] = int(p)


@upgrades("DFT", since=17)
def dft_axis_becomes_input(node: Node, around: Surroundings) -> None:
    """Opset 20: axis is input 2."""
    node.put_input(2, around.constant(np.array(node.attrs.pop("axis", 1), np.int64)))


@upgrades("GridSample", since=16)
def grid_sample_modes_renamed(node: Node, around: Surroundings) -> None:
    """Opset 20: bilinear is now linear, bicubic cubic."""
    mode = node.attrs.get("mode", "bilinear")
    node.attrs["mode"] = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)


@upgrades("RoiAlign", since=10)
def roi_align_keeps_its_corner(node: Node, around: Surroundings) -> None:
    """Opset 16: coordinates are shifted by half a pixel unless told otherwise; before, they never were."""
    node.attrs["coordinate_transformation_mode"] = "output_half_pixel"


@upgrades("Scatter", since=9)
def scatter_renamed(node: Node, around: Surroundings) -> list[Node]:
    """Opset 11: Scatter is called ScatterElements."""
    node.op_type, node.version = "ScatterElements", 11
    return [node]


@upgrades("GRU", since=1)
@upgrades("GRU", since=3)
@upgrades("LSTM", "RNN", since=1)
def recurrent_output_sequence(node: Node, around: Surroundings) -> None:
    """Opset 7: no `output_sequence`; Y is there when it is named. (Version 1 misspelt the default direction.)"""
    node.attrs.pop("output_sequence", None)
    if node.attrs.get("direction") == "foward":
        node.attrs["direction"] = "forward"


@upgrades("Tile", since=1)
def tile_repeats(node: Node, around: Surroundings) -> list[Node] | None:
    """Opset 6: repeats for every axis, instead of a number of tiles for one."""
    if len(node.inputs) != 3:
        return None
    axis, rank = around.array(node.inputs[2]), around.rank(node.inputs[0])
    if axis is None or rank is None:
        raise node.refuse("Tile of opset 1 along an axis that is not constant, or of a tensor of unknown rank")
    at = int(axis.reshape(-1)[0])
    number, flat, repeats = around.fresh(), around.fresh(), around.fresh()
    one = around.constant(np.array([1], np.int64))
    before, after = (around.constant(np.ones(n, np.int64)) for n in (at, rank - at - 1))
    nodes = [
        made("Cast", [node.inputs[1]], [number], {"to": 7}, like=node),
        made("Reshape", [number, one], [flat], like=node),
        made("Concat", [before, flat, after], [repeats], {"axis": 0}, like=node),
    ]
    node.inputs, node.version = [node.inputs[0], repeats], OPSET
    return [*nodes, node]


@upgrades(
    "Abs", "Add", "BatchNormalization", "Ceil", "Div", "Elu", "Exp", "Floor", "HardSigmoid", "InstanceNormalization",
    "LeakyRelu", "Log", "Max", "Mean", "Min", "Mul", "Neg", "PRelu", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sub",
    "Sum", "Tanh",
    since=1,
)  # fmt: skip
def consumed_inputs(node: Node, around: Surroundings) -> None:
    """Opset 6: no `consumed_inputs`, a hint for memory that changes nothing."""
    node.attrs.pop("consumed_inputs", None)


@upgrades("LabelEncoder", since=1, domain="ai.onnx.ml")
def label_encoder_keys(node: Node, around: Surroundings) -> None:
    """ai.onnx.ml 2: a map of keys to values, instead of a list of strings that maps both ways by the input's type."""
    names = node.attrs.pop("classes_strings", [])
    numbers = list(range(len(names)))
    dtype = around.dtype(node.inputs[0])
    if dtype is None:
        raise node.refuse("LabelEncoder of ai.onnx.ml 1 with an input of unknown type")
    if dtype == np.object_:
        node.attrs["keys_strings"], node.attrs["values_int64s"] = names, numbers
    else:
        node.attrs["keys_int64s"], node.attrs["values_strings"] = numbers, names
