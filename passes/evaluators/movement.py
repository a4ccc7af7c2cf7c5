"""This file computes operators that move elements, tell of shapes, or make tensors out of a few numbers."""

from __future__ import annotations

import numpy as np

from onnxc.passes.evaluators.registry import Node, evaluates


@evaluates("Identity")
def _identity(op: Node, x: np.ndarray) -> np.ndarray:
    return x


@evaluates("Reshape")
def _reshape(op: Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    sizes = [int(n) for n in shape]
    if not op.attr("allowzero", 0):
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return x.reshape(sizes)


@evaluates("Flatten")
def _flatten(op: Node, x: np.ndarray) -> np.ndarray:
    axis = op.attr("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:axis])), -1 if x.size else int(np.prod(x.shape[axis:])))


@evaluates("Transpose")
def _transpose(op: Node, x: np.ndarray) -> np.ndarray:
    return x.transpose(op.attr("perm"))


@evaluates("Unsqueeze")
def _unsqueeze(op: Node, x: np.ndarray, axes: np.ndarray) -> np.ndarray:
    return np.expand_dims(x, tuple(int(a) for a in axes.reshape(-1)))


@evaluates("Squeeze")
def _squeeze(op: Node, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    return x.squeeze(None if axes is None else tuple(int(a) for a in axes))


@evaluates("Concat")
def _concat(op: Node, *arrays: np.ndarray) -> np.ndarray:
    return np.concatenate(arrays, op.attr("axis"))


@evaluates("Split")
def _split(op: Node, x: np.ndarray, sizes: np.ndarray | None = None) -> list[np.ndarray]:
    axis = op.attr("axis", 0)
    if sizes is None:
        share = -(-x.shape[axis] // len(op.results))
        ends = [share * i for i in range(1, len(op.results))]
    else:
        ends = [int(n) for n in np.cumsum(sizes)[:-1]]
    return np.split(x, ends, axis)


@evaluates("Slice")
def _slice(op: Node, x: np.ndarray, starts: np.ndarray, ends: np.ndarray, axes=None, steps=None) -> np.ndarray:
    axes = range(len(starts)) if axes is None else axes
    steps = np.ones(len(starts), np.int64) if steps is None else steps
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), list(axes), steps.tolist(), strict=True):
        size = x.shape[axis]
        if step < 0:  # Python's -1 means "last", ONNX's end clamps to "before the first"
            end = None if end < -size else end
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


@evaluates("Gather")
def _gather(op: Node, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return np.take(x, indices, axis=op.attr("axis", 0))


@evaluates("Shape")
def _shape(op: Node, x: np.ndarray) -> np.ndarray:
    return np.array(x.shape, np.int64)[op.attr("start", 0) : op.attr("end", None)]


@evaluates("Size")
def _size(op: Node, x: np.ndarray) -> np.ndarray:
    return np.array(x.size, np.int64)


@evaluates("ConstantOfShape")
def _constant_of_shape(op: Node, shape: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.reshape(op.attr("value", np.float32(0)), ()), tuple(int(n) for n in shape))


@evaluates("Expand")
def _expand(op: Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(n) for n in shape)))


@evaluates("Tile")
def _tile(op: Node, x: np.ndarray, repeats: np.ndarray) -> np.ndarray:
    return np.tile(x, tuple(int(n) for n in repeats))


@evaluates("Range")
def _range(op: Node, start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray:
    count = max(int(np.ceil((limit - start) / delta)), 0)
    return (start + np.arange(count).astype(start.dtype) * delta).astype(start.dtype)


@evaluates("Pad")
def _pad(op: Node, x: np.ndarray, pads: np.ndarray, value=None, axes=None) -> np.ndarray:
    if op.attr("mode", "constant") != "constant" or (pads < 0).any():
        raise NotImplementedError
    widths = [(0, 0)] * x.ndim
    axes = range(x.ndim) if axes is None else [int(a) for a in axes]
    for i, axis in enumerate(axes):
        widths[axis] = (int(pads[i]), int(pads[i + len(axes)]))
    return np.pad(x, widths, constant_values=0 if value is None else value.reshape(()))
