"""The view of an operation, building one, and constants beside the IR."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from mlir import ir
from onnx import defs

from onnxc.dialects.errors import CompilerBug, OnnxcError
from onnxc.dialects.onnx import OnnxOp, build, inline_ints, is_onnx, new_context, node_name
from onnxc.dialects.signatures import known_operators, short_name, signature
from onnxc.dialects.weights import WeightStore, build_constant, constant_array, dense_array, tensor_attribute


@pytest.fixture
def at():
    """A location in a fresh module, and where to insert."""
    context = new_context()
    with context, ir.Location.unknown():
        module = ir.Module.create()
        yield ir.Location.name("node"), ir.InsertionPoint(module.body)


def some(at, text: str = "tensor<*xf32>") -> tuple[ir.Value, ir.Type]:
    type_ = ir.Type.parse(text)
    return build("Identity", [], [type_], loc=at[0], ip=at[1]).result, type_


def test_every_schema_has_a_signature() -> None:
    names = known_operators()
    assert len(names) == len(set(names)) > 240 and all(signature(name) for name in names)
    for schema in defs.get_all_schemas():
        if not schema.deprecated:
            assert signature(short_name(schema.domain, schema.name)).since == schema.since_version
    assert signature("ml.TreeEnsembleClassifier") and not signature("Upsample") and not signature("nowhere.Relu")


def test_operands_by_formal_name(at) -> None:
    x, type_ = some(at)
    op = OnnxOp(build("Clip", [x, None, x], [type_], loc=at[0], ip=at[1]))
    assert op.input == x and op.min is None and op.max == x and op.operand("max") == x
    assert op.operands == [x, None, x] and op.output == op.result == op.results[0]
    assert (op.name, op.op_type, op.domain, op.node, is_onnx(op.op)) == ("Clip", "Clip", "", "node", True)
    conv = OnnxOp(build("Conv", [x, x], [type_], loc=at[0], ip=at[1]))
    assert conv.x == conv.X == x and conv.b is None
    split = OnnxOp(build("Split", [x], [type_, type_], {"num_outputs": 2}, loc=at[0], ip=at[1]))
    assert split.outputs == split.results and len(split.outputs) == 2
    concat = OnnxOp(build("Concat", [x, x], [type_], {"axis": 0}, loc=at[0], ip=at[1]))
    assert concat.inputs == [x, x]
    with pytest.raises(AttributeError, match=r"onnx.Concat has no formal name 'nothing'"):
        _ = concat.nothing


def test_attributes_and_their_defaults(at) -> None:
    x, type_ = some(at)
    attrs = {"strides": [2, 2], "auto_pad": "VALID", "pads": []}
    conv = OnnxOp(build("Conv", [x, x], [type_], attrs, loc=at[0], ip=at[1]))
    assert conv.strides == [2, 2] and conv.auto_pad == "VALID" and conv.group == 1 and conv.pads == []
    assert conv.attr("dilations") is None and conv.attr("dilations", [1]) == [1] and not conv.has_attr("dilations")
    lrn = OnnxOp(build("LRN", [x], [type_], {"size": 3, "alpha": 1}, loc=at[0], ip=at[1]))
    assert lrn.alpha == 1.0 and isinstance(lrn.alpha, float) and lrn.beta == 0.75
    rnn = OnnxOp(build("RNN", [x, x, x], [type_], {"activations": ["Relu"]}, loc=at[0], ip=at[1]))
    assert rnn.activations == ["Relu"] and rnn.direction == "forward"


def test_values_of_operands(at) -> None:
    x, type_ = some(at)
    shape = build_constant(np.array([2, -1]), WeightStore(), loc=at[0], ip=at[1])
    op = OnnxOp(build("Reshape", [x, shape], [type_], loc=at[0], ip=at[1]))
    assert op.values(1) == [2, -1] == inline_ints(shape) and op.values(0) is None and op.values(5) is None
    recorded = ir.Attribute.parse('{"1" = ["N", 4]}')
    known = OnnxOp(build("Reshape", [x], [type_], {"operand_values": recorded}, loc=at[0], ip=at[1]))
    assert [str(d) for d in known.values(1)] == ["N", "4"]


def test_refusal_names_the_node(at) -> None:
    x, type_ = some(at)
    error = OnnxOp(build("Relu", [x], [type_], loc=at[0], ip=at[1])).refuse("no", why="so", hint="do")
    assert isinstance(error, OnnxcError) and "node 'node' (Relu on tensor<*xf32>): no: so (hint: do)" in str(error)


def test_an_operator_that_is_not_there(at) -> None:
    op = OnnxOp(ir.Operation.create("onnx.Rleu", loc=at[0], ip=at[1]))
    with pytest.raises(CompilerBug, match=r"no operator onnx.Rleu"):
        _ = op.x


def test_names_of_fused_locations(at) -> None:
    first, second = ir.Location.name("a"), ir.Location.name("b")
    assert node_name(ir.Location.fused([ir.Location.unknown(), first, second])) == "a"
    assert node_name(ir.Location.callsite(second, [first])) == "b"
    assert node_name(ir.Location.unknown()) == ""


DTYPES = [bool, *"bhilBHILefd", ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.float8_e4m3fn, np.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (1, 1), (2, 9), (8, 8), (65,), (0, 3)], ids=str)
def test_constants(at, dtype, shape: tuple[int, ...]) -> None:
    """Inline or stored, the same bits come back."""
    array = np.asarray(np.random.default_rng(0).standard_normal(shape) * 3).astype(dtype)
    weights = WeightStore()
    op = build_constant(array, weights, loc=at[0], ip=at[1]).owner
    again = constant_array(op, weights)
    assert again.dtype == array.dtype and again.shape == array.shape and again.tobytes() == array.tobytes()
    inline = array.size <= 64 and np.dtype(dtype).char in "?bhilqBHILQfd" and np.dtype(dtype).isbuiltin == 1
    assert ("value" in op.attributes) == inline and len(weights) == (0 if inline else 1)
    attribute = tensor_attribute(array, weights, "hint", at[0].context)
    kept = weights.get(attribute.value) if isinstance(attribute, ir.StringAttr) else dense_array(attribute)
    assert kept.dtype == array.dtype and kept.tobytes() == array.tobytes()


def test_constants_keep_special_floats(at) -> None:
    array = np.array([np.nan, -np.inf, -0.0, 1e-45], np.float32)
    op = build_constant(array, WeightStore(), loc=at[0], ip=at[1]).owner
    assert constant_array(op, WeightStore()).tobytes() == array.tobytes()
    again = ir.Operation.parse(str(op))
    assert constant_array(again, WeightStore()).tobytes() == array.tobytes()


def test_store_keeps_equal_content_once() -> None:
    weights, array = WeightStore(), np.arange(1000, dtype=np.float32)
    assert weights.add(array, "w") == "w" == weights.add(array.copy(), "other")
    changed = array.copy()
    changed[777] = -1
    assert weights.add(changed, "w") == "w.1" and weights.add(array.view(np.int32), "w") == "w.2"
    assert weights.add(array.reshape(10, 100), "w") == "w.3"
    assert list(weights) == ["w", "w.1", "w.2", "w.3"] and "w.1" in weights and "v" not in weights
    with pytest.raises(ValueError, match="read-only"):
        weights.get("w")[0] = 1
    weights.drop("w")
    assert "w" not in weights


def test_lazy_entries_are_made_when_asked_for() -> None:
    weights, made = WeightStore(), []

    def make() -> np.ndarray:
        made.append(1)
        return np.ones((2, 3), np.float16)

    weights.add_lazy("packed", (2, 3), np.dtype(np.float16), make)
    weights.add_lazy("packed", (2, 3), np.dtype(np.float16), make)
    assert not made and weights.nbytes("packed") == 12 and weights.shape("packed") == (2, 3) and len(weights) == 1
    first = weights.get("packed")
    assert weights.get("packed") is first and len(made) == 1
    del first
    assert weights.get("packed").sum() == 6 and len(made) == 2  # the store itself kept nothing
