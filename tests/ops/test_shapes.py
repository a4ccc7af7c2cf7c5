"""This file tests the shape function of every operator family against onnxruntime."""

import numpy as np
import onnx
import pytest
from onnx import helper

from .shape_cases import K, check, f, i, model, node

UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax
    Identity LeakyRelu Log LogSoftmax Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus
    Softsign Sqrt Tan Tanh ThresholdedRelu IsNaN IsInf
"""
BINARY = "Add Div Mul Pow Sub PRelu Equal Greater GreaterOrEqual Less LessOrEqual"
REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"


@pytest.mark.parametrize("op", UNARY.split())
def test_unary(op):
    check(node(op, [f(2, 3, 5)]))


@pytest.mark.parametrize("op", BINARY.split())
@pytest.mark.parametrize(("a", "b"), [((2, 3), (2, 3)), ((4, 1, 3), (1, 3)), ((2, 1, 3), (5, 1)), ((3,), ())])
def test_binary(op, a, b):
    if op == "PRelu" and a == (2, 1, 3):
        pytest.skip("the slope broadcasts one way only")
    check(node(op, [np.abs(f(*a)), np.abs(f(*b))]))


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_logic(op):
    check(node(op, [f(2, 1) > 0, f(1, 3) > 0]))


@pytest.mark.parametrize("op", ["Max", "Min", "Mean", "Sum"])
def test_variadic(op):
    check(node(op, [f(2, 1), f(3), f(1, 2, 1)]))


ONE_NODE = [
    node("Not", [f(2, 3) > 0]),
    node("Mod", [i(5, 6), K(i(3, 3))]),
    node("BitShift", [i(1, 2).astype(np.uint8), i(1, 1).astype(np.uint8)], direction="LEFT"),
    node("Where", [f(2, 1) > 0, f(1, 3), f(2, 3)]),
    node("Clip", [f(2, 3), K(np.float32(0)), K(np.float32(1))]),
    node("Cast", [f(2, 3)], to=6),
    node("CastLike", [f(2, 3), K(i(1))]),
    node("Dropout", [f(2, 3)], results=2),
    node("MatMul", [f(2, 3), f(3, 4)]),
    node("MatMul", [f(5, 2, 3), f(3, 4)]),
    node("MatMul", [f(5, 1, 2, 3), f(6, 3, 4)]),
    node("MatMul", [f(3), f(2, 3, 4)]),
    node("MatMul", [f(2, 4, 3), f(3)]),
    node("MatMul", [f(3), f(3)]),
    node("Gemm", [f(3, 2), f(4, 3), f(4)], transA=1, transB=1),
    node("Gemm", [f(2, 3), f(3, 4)]),
    node("Einsum", [f(2, 3, 4), f(4, 5)], equation="...k,kn->...n"),
    node("Einsum", [f(2, 3), f(3, 4)], equation="ij,jk"),
    node("Einsum", [f(2, 3, 3)], equation="bii->bi"),
    node("MatMulInteger", [np.ones((2, 3), np.uint8), np.ones((3, 4), np.uint8)]),
    node("ConvInteger", [np.ones((1, 2, 5, 5), np.uint8), np.ones((3, 2, 3, 3), np.uint8)]),
    node("Conv", [f(2, 4, 9, 7), K(f(6, 2, 3, 2)), K(f(6))], group=2,
         strides=[2, 1], pads=[1, 0, 0, 1], dilations=[1, 2]),
    node("Conv", [f(2, 4, 9), K(f(6, 4, 3))], auto_pad="SAME_UPPER", strides=[2]),
    node("Conv", [f(2, 4, 9), K(f(6, 4, 3))], auto_pad="SAME_LOWER"),
    node("Conv", [f(1, 1, 5, 5, 5), K(f(2, 1, 2, 2, 2))], auto_pad="VALID"),
    node("ConvTranspose", [f(1, 4, 5, 3), K(f(4, 3, 3, 3))], group=2,
         strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 2]),
    node("ConvTranspose", [f(1, 4, 5), K(f(4, 3, 3))], auto_pad="SAME_UPPER", strides=[2]),
    node("ConvTranspose", [f(1, 4, 5), K(f(4, 3, 3))], output_shape=[12], strides=[2]),
    node("MaxPool", [f(1, 2, 9, 8)], kernel_shape=[3, 2], strides=[2, 2], results=2),
    node("MaxPool", [f(1, 2, 9, 8)], kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 1, 1], ceil_mode=1),
    node("MaxPool", [f(1, 2, 9)], kernel_shape=[2], dilations=[3], strides=[2]),
    node("MaxPool", [f(1, 2, 9)], kernel_shape=[2], auto_pad="SAME_UPPER", strides=[2]),
    node("AveragePool", [f(1, 2, 7)], kernel_shape=[3], strides=[3], pads=[1, 1], ceil_mode=1, count_include_pad=1),
    node("LpPool", [f(1, 2, 7, 7)], kernel_shape=[3, 3], strides=[2, 2]),
    node("GlobalAveragePool", [f(1, 2, 7, 5)]),
    node("GlobalMaxPool", [f(1, 2, 7)]),
    node("BatchNormalization", [f(2, 3, 4), K(f(3)), K(f(3)), K(f(3)), K(np.abs(f(3)))]),
    node("LayerNormalization", [f(2, 3, 4), K(f(3, 4)), K(f(3, 4))], axis=1, results=3),
    node("InstanceNormalization", [f(2, 3, 4), K(f(3)), K(f(3))]),
    node("LRN", [f(2, 3, 4, 4)], size=3),
    node("LpNormalization", [f(2, 3)]),
    node("MeanVarianceNormalization", [f(2, 3, 4, 4)]),
    node("ArgMax", [f(2, 3, 4)], axis=1),
    node("ArgMin", [f(2, 3, 4)], axis=-1, keepdims=0),
    node("CumSum", [f(2, 3), K(np.int64(1))]),
    node("TopK", [f(2, 7), K(i(3))], results=2),
    node("TopK", [f(5, 2), K(i(2))], axis=0, results=2),
    node("Transpose", [f(2, 3, 4)]),
    node("Transpose", [f(2, 3, 4)], perm=[1, 2, 0]),
    node("Squeeze", [f(2, 1, 3, 1), K(i(1, -1))]),
    node("Unsqueeze", [f(2, 3), K(i(0, -1))]),
    node("Flatten", [f(2, 3, 4)], axis=2),
    node("Flatten", [f(2, 3, 4)], axis=0),
    node("Flatten", [f(2, 3, 4)], axis=-1),
    node("Expand", [f(2, 1, 3), K(i(4, 1, 5, 1))]),
    node("Tile", [f(2, 3), K(i(2, 3))]),
    node("Concat", [f(2, 3), f(2, 1), f(2, 4)], axis=-1),
    node("Split", [f(2, 7)], axis=1, num_outputs=3, results=3),
    node("Split", [f(2, 7), K(i(3, 4))], axis=1, results=2),
    node("Split", [f(6, 2)], num_outputs=2, results=2),
    node("Pad", [f(2, 3), K(i(1, 0, 2, 3))]),
    node("Pad", [f(2, 5), K(i(-1, 2)), None, K(i(1))]),
    node("DepthToSpace", [f(1, 8, 2, 3)], blocksize=2),
    node("SpaceToDepth", [f(1, 2, 4, 6)], blocksize=2),
    node("Trilu", [f(3, 4)]),
    node("ReverseSequence", [f(4, 3), K(i(1, 2, 4))], batch_axis=1, time_axis=0),
    node("Reshape", [f(2, 3, 4), K(i(0, -1))]),
    node("Reshape", [f(2, 3, 4), K(i(4, 0, 2))]),
    node("Reshape", [f(2, 3, 4), K(i(-1))]),
    node("Reshape", [f(0, 3), K(i(3, 0))], allowzero=1),
    node("Slice", [f(7, 5), K(i(1, -3)), K(i(6, 2**62)), K(i(0, 1)), K(i(2, 1))]),
    node("Slice", [f(7, 5), K(i(-1)), K(i(-(2**62))), K(i(0)), K(i(-2))]),
    node("Slice", [f(7, 5), K(i(5, 1)), K(i(2, 0)), K(i(0, 1)), K(i(-1, -1))]),
    node("Slice", [f(7, 5), K(i(2)), K(i(100))]),
    node("Gather", [f(4, 3), K(i(0, -1, 2))], axis=1),
    node("Gather", [f(4, 3), K(np.int64(1))]),
    node("GatherElements", [f(4, 3), np.zeros((2, 3), np.int64)]),
    node("GatherND", [f(4, 3, 2), K(np.zeros((5, 2), np.int64))]),
    node("GatherND", [f(4, 3, 2), K(np.zeros((4, 1), np.int64))], batch_dims=1),
    node("ScatterElements", [f(4, 3), K(np.zeros((1, 3), np.int64)), K(f(1, 3))]),
    node("ScatterND", [f(4, 3), K(np.zeros((2, 1), np.int64)), K(f(2, 3))]),
    node("OneHot", [i(0, 2), K(i(4)), K(np.array([0, 1], np.float32))], axis=0),
    node("Shape", [f(2, 3, 4)], start=1, end=-1),
    node("Shape", [f(2, 3, 4)], start=-1),
    node("Size", [f(2, 3)]),
    node("ConstantOfShape", [K(i(2, 3))], value=helper.make_tensor("v", 7, [1], [5])),
    node("ConstantOfShape", [K(i(2, 3))]),
    node("Range", [K(np.int64(2)), K(np.int64(11)), K(np.int64(3))]),
    node("Range", [K(np.float32(2)), K(np.float32(-1)), K(np.float32(-0.4))]),
    node("EyeLike", [f(2, 3)], k=1, dtype=7),
    node("RNN", [f(4, 2, 3), K(f(1, 5, 3)), K(f(1, 5, 5))], hidden_size=5, results=2),
    node("GRU", [f(4, 2, 3), K(f(2, 15, 3)), K(f(2, 15, 5))], hidden_size=5, direction="bidirectional", results=2),
    node("LSTM", [f(4, 2, 3), K(f(1, 20, 3)), K(f(1, 20, 5))], hidden_size=5, results=3),
    node("QuantizeLinear", [f(2, 3), K(np.float32(0.1)), K(np.int8(0))]),
    node("DequantizeLinear", [np.ones((2, 3), np.int8), K(np.float32(0.1))]),
    node("DynamicQuantizeLinear", [f(2, 3)], results=3),
    node("GridSample", [f(1, 2, 4, 5), K(f(1, 3, 6, 2))]),
    node("RoiAlign", [f(1, 2, 8, 8), K(np.array([[0, 0, 4, 4]] * 3, np.float32)), K(i(0, 0, 0))],
         output_height=2, output_width=3),
    node("NonZero", [np.array([[1, 0, 1], [0, 0, 1]], np.float32)]),
    node("Compress", [f(3, 4), K(np.array([True, False, True]))], axis=0),
    node("Compress", [f(3, 2), f(5) > 0]),
    node("Resize", [f(1, 2, 5, 4), None, K(np.array([1, 1, 2, 3], np.float32))]),
    node("Resize", [f(1, 2, 5, 4), None, K(np.array([1, 1, 0.6, 0.7], np.float32))]),
    node("Resize", [f(1, 2, 5, 4), None, K(np.array([0.5, 1.25], np.float32))], axes=[2, 3]),
    node("Resize", [f(1, 2, 5, 4), None, None, K(i(1, 2, 9, 3))]),
    node("Det", [f(2, 3, 3)]),
    node("BlackmanWindow", [K(np.int64(6))]),
    node("STFT", [f(1, 32, 1), K(np.int64(8)), K(f(16))], onesided=1),
    node("DFT", [f(1, 9, 1), None, K(np.int64(1))], onesided=1),
]  # fmt: skip


@pytest.mark.parametrize("proto", ONE_NODE, ids=lambda proto: proto.graph.node[0].op_type)
def test_one_node(proto):
    check(proto)


@pytest.mark.parametrize("kind", REDUCTIONS.split())
@pytest.mark.parametrize(
    ("axes", "attrs"), [([1], {}), ([-1, 0], {"keepdims": 0}), (None, {}), (None, {"noop_with_empty_axes": 1})]
)
def test_reductions(kind, axes, attrs):
    x = np.abs(f(2, 3, 4)) + 1
    check(node(f"Reduce{kind}", [x] if axes is None else [x, K(i(*axes))], **attrs))


def test_non_max_suppression():
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 1.1], [5, 5, 6, 6]]], np.float32)
    scores = np.array([[[0.9, 0.8, 0.7]]], np.float32)
    limit, threshold = K(i(2)), K(np.array([0.5], np.float32))
    check(node("NonMaxSuppression", [boxes, scores, limit, threshold]), {"i0": boxes, "i1": scores})


RUN_TIME = [
    (node("Reshape", [f(2, 3, 4), i(4, -1)]), {"i1": i(4, -1)}),
    (node("Reshape", [f(2, 3, 4), i(0, -1, 2)]), {"i1": i(0, -1, 2)}),
    (node("Expand", [f(2, 1), i(3, 1, 5)]), {"i1": i(3, 1, 5)}),
    (node("Tile", [f(2, 3), i(2, 1)]), {"i1": i(2, 1)}),
    (node("ConstantOfShape", [i(2, 3)]), {"i0": i(2, 3)}),
    (node("Range", [np.int64(2), np.int64(11), np.int64(3)]),
     {"i0": np.array(2), "i1": np.array(11), "i2": np.array(3)}),
    (node("Range", [np.float32(2), np.float32(4), np.float32(0.3)]),
     {"i0": np.float32(2), "i1": np.float32(4), "i2": np.float32(0.3)}),
    (node("TopK", [f(2, 7), i(3)], results=2), {"i1": i(3)}),
    (node("OneHot", [i(0, 2), i(4), K(np.array([0, 1], np.float32))]), {"i0": i(0, 2), "i1": i(4)}),
    (node("Pad", [f(2, 3), i(1, 0, 2, 3)]), {"i1": i(1, 0, 2, 3)}),
    (node("Split", [f(2, 7), i(3, 4)], axis=1, results=2), {"i1": i(3, 4)}),
    (node("Slice", [f(7, 5), i(-3), i(100), K(i(0))]), {"i1": i(-3), "i2": i(100)}),
    (node("Slice", [f(7, 5), i(1), i(-1), K(i(0)), K(i(2))]), {"i1": i(1), "i2": i(-1)}),
    (node("Slice", [f(7, 5), i(-2), i(-9), K(i(0)), K(i(-1))]), {"i1": i(-2), "i2": i(-9)}),
    (node("Resize", [f(1, 2, 5, 4), None, np.ones(4, np.float32)]), {"i2": np.array([1, 1, 2.5, 0.7], np.float32)}),
    (node("Resize", [f(1, 2, 5, 4), None, None, i(1, 2, 9, 3)]), {"i3": i(1, 2, 9, 3)}),
]  # fmt: skip


@pytest.mark.parametrize(("proto", "feeds"), RUN_TIME)
def test_sizes_known_at_run_time(proto, feeds):
    check(proto, {name: np.asarray(value) for name, value in feeds.items()})


def chain(*lines: str, inputs, outputs=("y",), **constants) -> onnx.ModelProto:
    """A model of lines like `s = Shape(x)`, `y = Concat(a, b) axis=0`."""
    nodes = []
    for line in lines:
        results, _, call = line.partition(" = ")
        op, _, rest = call.partition("(")
        operands, _, attrs = rest.partition(")")
        names = [name.strip() for name in operands.split(",")]
        pairs = [pair.split("=") for pair in attrs.split()]
        values = {key: int(value) if value.lstrip("-").isdigit() else value for key, value in pairs}
        made = [result.strip() for result in results.split(",")]
        nodes.append(helper.make_node(op, names, made, name=f"{op}_{len(nodes)}", **values))
    return model(nodes, inputs, list(outputs), {name: np.asarray(value) for name, value in constants.items()})


CHAINS = [
    chain("s = Shape(x)", "b = Gather(s, zero)", "u = Unsqueeze(b, z)", "t = Concat(u, m) axis=0", "y = Reshape(x, t)",
          inputs={"x": f(2, 3, 4)}, zero=np.int64(0), z=i(0), m=i(-1)),
    chain("s = Shape(x)", "h = Slice(s, two, four)", "d = Mul(h, two)", "n = Slice(s, z, two)",
          "t = Concat(n, d) axis=0", "y = Resize(x,,, t)", inputs={"x": f(1, 2, 3, 5)}, two=i(2), four=i(4), z=i(0)),
    chain("s = Shape(x)", "c = Cast(s) to=1", "m = Mul(c, scale)", "g = Floor(m)", "t = Cast(g) to=7",
          "y = Resize(x,,, t)",
          inputs={"x": f(1, 2, 3, 5)}, scale=np.array([1, 1, 2, 0.5], np.float32)),
    chain("s = Shape(x)", "h = Slice(s, one, two)", "q = Div(h, two)", "r = Sub(h, q)", "t = Concat(q, r) axis=0",
          "a,y = Split(x, t) axis=1", inputs={"x": f(2, 7)}, one=i(1), two=i(2)),
    chain("s = Shape(x)", "n = Gather(s, zero)", "r = Range(zero, n, one)", "y = Cast(r) to=1", inputs={"x": f(5, 3)},
          zero=np.int64(0), one=np.int64(1)),
    chain("s = Shape(x)", "e = Equal(s, m)", "w = Where(e, o, s)", "y = Expand(k, w)", inputs={"x": f(2, 3)},
          m=i(-1), o=i(1), k=np.float32(1)),
    chain("s = Shape(x)", "p = ReduceProd(s) keepdims=1", "t = Concat(p, o) axis=0", "y = Reshape(x, t)",
          inputs={"x": f(2, 3)}, o=i(1)),
    chain("s = Shape(x)", "z = ConstantOfShape(s)", "y = Add(x, z)", inputs={"x": f(2, 3)}),
    chain("n = NonZero(x)", "t = Transpose(n)", "g = GatherND(x, t)", "y = Mul(g, g)", inputs={"x": f(3, 4)}),
]  # fmt: skip


@pytest.mark.parametrize("proto", CHAINS, ids=lambda proto: "-".join(n.op_type for n in proto.graph.node))
def test_computed_sizes(proto):
    check(proto)
