"""This file holds the steps where an operator's meaning changed: broadcasting, softmax, batch norm, resize, others."""

from __future__ import annotations

import numpy as np

from onnxc.dialects.signatures import OPSET
from onnxc.importer.nodes import Node
from onnxc.importer.upgrade import Surroundings, made, rank_of, upgrades


@upgrades("Add", "Sub", "Mul", "Div", since=6)
@upgrades("And", "Or", "Xor", "Equal", "Greater", "Less", "Pow", since=1)
def broadcast_by_axis(node: Node, around: Surroundings) -> list[Node] | None:
    """Opset 7: numpy's broadcasting. Before, `broadcast=1` laid B over A from dim `axis` on (default: at the end)."""
    broadcast, axis = node.attrs.pop("broadcast", 0), node.attrs.pop("axis", None)
    if not broadcast or axis is None:
        return None
    rank, rank_b = (rank_of(node, name, around) for name in node.inputs)
    axis += rank if axis < 0 else 0
    missing = rank - axis - rank_b
    node.version = 7
    if missing <= 0 or rank_b == 0:
        return [node]
    aligned = around.fresh()
    axes = around.constant(np.arange(rank_b, rank_b + missing, dtype=np.int64))
    expand = made("Unsqueeze", [node.inputs[1], axes], [aligned], like=node)
    node.inputs[1] = aligned
    return [expand, node]


@upgrades("PRelu", since=6)
def prelu_slope_by_channel(node: Node, around: Surroundings) -> list[Node] | None:
    """Opset 7: numpy's broadcasting. Before, a slope of one dim ran along the channels, dim 1."""
    slope_rank = around.rank(node.inputs[1])
    rank = around.rank(node.inputs[0])
    if slope_rank != 1 or rank is None or rank <= 2:
        return None
    slope = around.array(node.inputs[1])
    if slope is not None and slope.size == 1:
        return None
    aligned = around.fresh()
    axes = around.constant(np.arange(1, rank - 1, dtype=np.int64))
    expand = made("Unsqueeze", [node.inputs[1], axes], [aligned], like=node)
    node.inputs[1], node.version = aligned, 7
    return [expand, node]


@upgrades("Gemm", since=1)
@upgrades("Gemm", since=6)
def gemm_broadcast(node: Node, around: Surroundings) -> None:
    """Opset 7: C always broadcasts."""
    node.attrs.pop("broadcast", None)


@upgrades("Softmax", "LogSoftmax", "Hardmax", since=11)
def softmax_of_matrix(node: Node, around: Surroundings) -> list[Node] | None:
    """Opset 13: along one axis (default -1). Before, over a matrix whose rows and columns `axis` (default 1) parts."""
    axis = node.attrs.get("axis", 1)
    rank = around.rank(node.inputs[0])
    if axis == -1 or (rank is not None and axis == rank - 1):
        node.attrs["axis"] = -1
        return None
    data, result = node.inputs[0], node.outputs[0]
    matrix, soft, shape = around.fresh(), around.fresh(), around.fresh()
    node.attrs["axis"], node.version = -1, OPSET
    node.inputs, node.outputs = [matrix], [soft]
    return [
        made("Shape", [data], [shape], like=node),
        made("Flatten", [data], [matrix], {"axis": axis}, like=node),
        node,
        made("Reshape", [soft, shape], [result], {"allowzero": 1}, like=node),
    ]


@upgrades("BatchNormalization", since=6)
def batch_norm_is_test(node: Node, around: Surroundings) -> None:
    """Opset 7: whether to train was told by the number of outputs, not by `is_test`."""
    node.attrs.pop("is_test", None)
    del node.outputs[1:]


@upgrades("BatchNormalization", since=7)
def batch_norm_spatial(node: Node, around: Surroundings) -> list[Node] | None:
    """Opset 9: `spatial=0` (statistics for every element of a sample) is gone; it is plain arithmetic."""
    if node.attrs.pop("spatial", 1):
        return None
    x, scale, bias, mean, variance = node.inputs
    centred, shifted, root, scaled = (around.fresh() for _ in range(4))
    normal = around.fresh()
    small, epsilon = around.fresh(), around.constant(np.array(node.attrs.get("epsilon", 1e-5), np.float32))
    return [
        made("Sub", [x, mean], [centred], like=node),
        made("CastLike", [epsilon, x], [small], like=node),
        made("Add", [variance, small], [shifted], like=node),
        made("Sqrt", [shifted], [root], like=node),
        made("Div", [centred, root], [normal], like=node),
        made("Mul", [normal, scale], [scaled], like=node),
        made("Add", [scaled, bias], [node.outputs[0]], like=node),
    ]


@upgrades("BatchNormalization", since=9)
def batch_norm_training_mode(node: Node, around: Surroundings) -> None:
    """Opset 14: `training_mode` instead of further outputs; old models name them but are run for inference."""
    del node.outputs[1:]


@upgrades("Upsample", since=1)
def upsample_scales(node: Node, around: Surroundings) -> None:
    """Opset 7: scales for every axis, instead of a height and a width scale of a picture."""
    height, width = node.attrs.pop("height_scale"), node.attrs.pop("width_scale")
    node.attrs["scales"] = [1.0, 1.0, height, width]


@upgrades("Upsample", since=7)
def upsample_scales_become_input(node: Node, around: Surroundings) -> None:
    """Opset 9: scales are input 1."""
    node.put_input(1, around.constant(np.array(node.attrs.pop("scales"), np.float32)))


@upgrades("Upsample", since=9)
def upsample_becomes_resize(node: Node, around: Surroundings) -> list[Node]:
    """Opset 10: Upsample is called Resize."""
    node.op_type, node.version = "Resize", 10
    return [node]


@upgrades("Resize", since=10)
def resize_coordinates(node: Node, around: Surroundings) -> None:
    """Opset 11: a choice of coordinates (before: asymmetric, nearest rounding down), roi is input 1."""
    scales = around.array(node.inputs[1])
    shrinks = scales is not None and bool((scales <= 1).all()) and bool((scales < 1).any())
    node.attrs["coordinate_transformation_mode"] = "asymmetric"
    node.attrs["nearest_mode"] = "ceil" if shrinks else "floor"  # as onnxruntime has it
    node.inputs[1:] = ["", node.inputs[1]]


@upgrades("Resize", since=11)
def resize_empty_inputs(node: Node, around: Surroundings) -> None:
    """Opset 13: an unused roi, scales or sizes is absent; before, an empty tensor could stand for it."""
    for index in range(1, len(node.inputs)):
        value = around.array(node.inputs[index]) if node.inputs[index] else None
        if value is not None and value.size == 0:
            node.inputs[index] = ""
    if node.attrs.get("coordinate_transformation_mode") != "tf_crop_and_resize" and len(node.inputs) > 1:
        node.inputs[1] = ""
    if node.input(3):
        node.inputs[2] = ""  # sizes win where a model gives both


@upgrades("GroupNormalization", since=18)
def group_norm_by_channel(node: Node, around: Surroundings) -> list[Node]:
    """Opset 21: scale and bias for every channel; before, for every group: each is repeated for its channels."""
    x, groups = node.inputs[0], int(node.attrs["num_groups"])
    channels, each, repeats = around.fresh(), around.fresh(), around.fresh()
    count = around.constant(np.array([groups], np.int64))
    one = around.constant(np.array([1], np.int64))
    flat, column = around.constant(np.array([-1], np.int64)), around.constant(np.array([-1, 1], np.int64))
    nodes = [
        made("Shape", [x], [channels], {"start": 1, "end": 2}, like=node),
        made("Div", [channels, count], [each], like=node),
        made("Concat", [one, each], [repeats], {"axis": 0}, like=node),
    ]
    for index in (1, 2):
        stood, wide, spread = around.fresh(), around.fresh(), around.fresh()
        nodes += [
            made("Reshape", [node.inputs[index], column], [stood], like=node),
            made("Expand", [stood, repeats], [wide], like=node),
            made("Reshape", [wide, flat], [spread], like=node),
        ]
        node.inputs[index] = spread
    node.version = 21
    return [*nodes, node]


@upgrades("Scan", since=8)
def scan_of_batches(node: Node, around: Surroundings) -> list[Node]:
    """Opset 9: no batch dim and no sequence lengths."""
    raise node.refuse("Scan of opset 8 (over a batch of sequences)", hint="convert the model to opset 9 or newer")
