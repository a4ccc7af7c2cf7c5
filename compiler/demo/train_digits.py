"""This file trains the demo's convnet on scikit-learn's digits with numpy, and writes digits.onnx and digits.npz.

    python -m onnxc.demo.train_digits [DIR]

Needs scikit-learn (for its data) and onnx. One image in five is held out; the script fails under 97 % of those right.
digits.npz holds, for each digit, the first held-out scan of it and its label: chosen by class, not by the net's answer.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

SEED = 7
EPOCHS = 40
BATCH = 50
RATE = 2e-3
WANTED = 0.97

Params = dict[str, np.ndarray]


def windows(x: np.ndarray) -> np.ndarray:
    """[n, c, h, w] -> [n, h, w, c * 9]: the 3x3 neighbourhood of each pixel, zeros beyond the border."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.ascontiguousarray(view.transpose(0, 2, 3, 1, 4, 5)).reshape(*x.shape[:1], *x.shape[2:], -1)


def conv(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A 3x3 convolution with a border of one, and the windows that its gradient needs."""
    seen = windows(x)
    return (seen @ weight.reshape(len(weight), -1).T + bias).transpose(0, 3, 1, 2), seen


def conv_gradient(grad: np.ndarray, seen: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
    """Gradients of the input, the weight and the bias; the input's is a convolution with the turned-round kernel."""
    flat = grad.transpose(0, 2, 3, 1)
    for_weight = np.tensordot(flat, seen, axes=((0, 1, 2), (0, 1, 2))).reshape(weight.shape)
    turned = weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    for_input, _ = conv(grad, np.ascontiguousarray(turned), np.zeros(len(turned), np.float32))
    return for_input, for_weight, flat.sum(axis=(0, 1, 2))


def pool(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The maximum of each 2x2 block, and where it was."""
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
    best = blocks.max(axis=(3, 5), keepdims=True)
    return best[:, :, :, 0, :, 0], blocks == best


def pool_gradient(grad: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Spreads the gradient over the places of the maximum."""
    share = where / where.sum(axis=(3, 5), keepdims=True)
    n, c, h, _, w, _ = where.shape
    return (grad[:, :, :, None, :, None] * share).reshape(n, c, 2 * h, 2 * w).astype(np.float32)


def forward(p: Params, x: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The logits of images with pixels 0 to 16, and what the backward pass needs."""
    a1, seen1 = conv(x / np.float32(16), p["conv1.weight"], p["conv1.bias"])
    r1 = np.maximum(a1, 0)
    a2, seen2 = conv(r1, p["conv2.weight"], p["conv2.bias"])
    m2, where2 = pool(np.maximum(a2, 0))
    a3, seen3 = conv(m2, p["conv3.weight"], p["conv3.bias"])
    m3, where3 = pool(np.maximum(a3, 0))
    flat = m3.reshape(len(x), -1)
    return flat @ p["fc.weight"].T + p["fc.bias"], [a1, seen1, a2, seen2, where2, a3, seen3, where3, flat]


def gradients(p: Params, x: np.ndarray, labels: np.ndarray) -> Params:
    """Gradients of the mean cross entropy."""
    logits, (a1, seen1, a2, seen2, where2, a3, seen3, where3, flat) = forward(p, x)
    probability = np.exp(logits - logits.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    probability[np.arange(len(x)), labels] -= 1
    grad = (probability / len(x)).astype(np.float32)
    g: Params = {"fc.weight": grad.T @ flat, "fc.bias": grad.sum(axis=0)}
    grad = (grad @ p["fc.weight"]).reshape(len(x), -1, 2, 2)
    grad, g["conv3.weight"], g["conv3.bias"] = conv_gradient(
        pool_gradient(grad, where3) * (a3 > 0), seen3, p["conv3.weight"]
    )
    grad, g["conv2.weight"], g["conv2.bias"] = conv_gradient(
        pool_gradient(grad, where2) * (a2 > 0), seen2, p["conv2.weight"]
    )
    _, g["conv1.weight"], g["conv1.bias"] = conv_gradient(grad * (a1 > 0), seen1, p["conv1.weight"])
    return g


def train(images: np.ndarray, labels: np.ndarray) -> Params:
    """The parameters after EPOCHS of Adam on images that are shifted by up to one pixel."""
    rng = np.random.default_rng(SEED)
    shapes = {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "conv3": (32, 32, 3, 3), "fc": (10, 128)}
    p: Params = {}
    for name, shape in shapes.items():
        scale = np.sqrt(2 / np.prod(shape[1:]))
        p[f"{name}.weight"] = (rng.standard_normal(shape) * scale).astype(np.float32)
        p[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    mean = {name: np.zeros_like(value) for name, value in p.items()}
    square = {name: np.zeros_like(value) for name, value in p.items()}
    step = 0
    for epoch in range(EPOCHS):
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        order = rng.permutation(len(images))
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            step += 1
            for name, grad in gradients(p, shifted(images[chosen], rng), labels[chosen]).items():
                mean[name] = 0.9 * mean[name] + 0.1 * grad
                square[name] = 0.999 * square[name] + 0.001 * grad * grad
                unbiased = mean[name] / (1 - 0.9**step)
                spread = np.sqrt(square[name] / (1 - 0.999**step)) + 1e-8
                p[name] = (p[name] - rate * unbiased / spread).astype(np.float32)
    return p


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The images, all moved by the same -1, 0 or 1 pixels each way, zeros moving in."""
    dy, dx = rng.integers(0, 3, 2)
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return padded[:, :, dy : dy + images.shape[2], dx : dx + images.shape[3]]


def _nodes() -> list[Any]:
    """Three convolutions, two pools, one product; scores as probabilities."""
    from onnx import helper

    def node(op: str, inputs: list[str], output: str, name: str, **attributes: Any) -> Any:
        return helper.make_node(op, inputs, [output], name=name, **attributes)

    def block(x: str, index: int, y: str) -> list[Any]:
        conv_inputs = [x, f"conv{index}.weight", f"conv{index}.bias"]
        edge = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        return [
            node("Conv", conv_inputs, f"{y}.linear", f"conv{index}", **edge),
            node("Relu", [f"{y}.linear"], y, f"relu{index}"),
        ]

    def pooled(x: str, index: int) -> Any:
        return node("MaxPool", [x], f"{x}.pooled", f"pool{index}", kernel_shape=[2, 2], strides=[2, 2])

    return [
        node("Div", ["image", "sixteen"], "scaled", "scale"),
        *block("scaled", 1, "y1"),
        *block("y1", 2, "y2"),
        pooled("y2", 2),
        *block("y2.pooled", 3, "y3"),
        pooled("y3", 3),
        node("Flatten", ["y3.pooled"], "flat", "flatten", axis=1),
        node("Gemm", ["flat", "fc.weight", "fc.bias"], "logits", "fc", transB=1),
        node("Softmax", ["logits"], "probability", "softmax", axis=1),
    ]


def export(p: Params, path: Path) -> None:
    """Writes the net as ONNX: pixels 0 to 16 in, probabilities of the ten digits out, any batch."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    constants = [numpy_helper.from_array(value, name) for name, value in sorted(p.items())]
    constants.append(numpy_helper.from_array(np.array(16, np.float32), "sixteen"))
    graph = helper.make_graph(
        _nodes(),
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 10])],
        constants,
    )
    opset = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, producer_name="train_digits", opset_imports=opset, ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def main(folder: Path) -> int:
    """Trains, reports the share of held-out images that are right, and writes both files into `folder`."""
    from sklearn.datasets import load_digits

    data: Any = load_digits()
    images, labels = data.images.astype(np.float32)[:, None], data.target
    order = np.random.default_rng(SEED).permutation(len(images))
    held, seen = order[: len(order) // 5], order[len(order) // 5 :]
    parameters = train(images[seen], labels[seen])
    logits, _ = forward(parameters, images[held])
    right = float((logits.argmax(axis=1) == labels[held]).mean())
    sys.stdout.write(f"{len(held)} held-out images, {100 * right:.2f} % right\n")
    if right < WANTED:
        return 1
    export(parameters, folder / "digits.onnx")
    shown = [held[labels[held] == digit][0] for digit in range(10)]
    np.savez_compressed(folder / "digits.npz", images=images[shown], labels=labels[shown].astype(np.int64))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent))
