"""`--override`: what is asked of single nodes is done or refused by file, line and node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxc.compilation import Compilation
from onnxc.driver import compile_model
from onnxc.errors import OnnxcError
from onnxc.inspection import inspect_artefact
from onnxc.options import Options
from onnxc.override_file import read_overrides
from onnxc.runtime import InferenceSession
from tests.variants.models import image

from .models import Told, convnet

FEED = {"x": np.random.default_rng(3).standard_normal((1, 32, 12, 12)).astype(np.float32)}


def kernels(path: Path, text: str) -> tuple[dict[str, dict], list[str]]:
    """What the report says of each node's kernel, and the warnings."""
    path.write_text(text)
    told = Told()
    run = Compilation(Options(mcpu="x86-64-v3", override=path), told)
    program = run.import_model(convnet(), "model")
    run.run_passes(program, "loops")
    run.tell(program)
    described = [kernel for kernel in program.notes["report"]["kernels"] if "source" in kernel]
    return {node: kernel for kernel in described for nodes in kernel["calls"] for node in nodes}, told.warnings


def refused(path: Path, text: str) -> OnnxcError:
    with pytest.raises(OnnxcError) as error:
        kernels(path, text)
    assert error.value.exit_code == 2
    return error.value


def test_what_is_asked_is_done(tmp_path: Path) -> None:
    found, warnings = kernels(
        tmp_path / "o.toml",
        """
["conv*"]
algorithm = "direct"

["conv2"]
algorithm = "winograd2"

["fc"]
schedule = { vectors = 1, prefetch = 4 }
""",
    )
    assert not warnings
    assert found["conv1"]["algorithm"] == "direct" and found["conv2"]["algorithm"] == "winograd2"
    assert found["conv2"]["algorithm_source"] == "override" and found["conv2"]["source"] == "heuristic"
    assert found["fc"]["source"] == "override"
    assert (found["fc"]["schedule"]["vectors"], found["fc"]["schedule"]["prefetch"]) == (1, 4)


def test_strict_and_precision(tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_text('["conv?"]\nstrict = true\n["fc"]\nprecision = "f64"\n')
    compile_model(convnet(), tmp_path / "m.so", Options(mcpu="x86-64-v3", override=tmp_path / "o.toml", threads=1))
    report = inspect_artefact(tmp_path / "m.so")["report"]
    assert not report["weights"]["copies"] or "fc" in str(report["weights"]["copies"])
    (y,) = InferenceSession(tmp_path / "m.so").run(None, FEED)
    compile_model(convnet(), tmp_path / "strict.so", Options(mcpu="x86-64-v3", strict=True, threads=1))
    (strict,) = InferenceSession(tmp_path / "strict.so").run(None, FEED)
    np.testing.assert_allclose(y, strict, rtol=1e-5, atol=1e-5)
    assert y.tobytes() != strict.tobytes()  # the last product's sums are rounded once


def test_a_pattern_that_no_node_has(tmp_path: Path) -> None:
    _, (warning,) = kernels(tmp_path / "o.toml", '\n["conv9"]\nalgorithm = "direct"\n')
    assert warning == f"warning: {tmp_path / 'o.toml'}:2: no node is named 'conv9' (close: conv2, conv1)"


def test_no_node_has_an_empty_name(tmp_path: Path) -> None:
    """Operators that passes add have none, and are not meant."""
    _, (warning,) = kernels(tmp_path / "o.toml", '\n[""]\nalgorithm = "direct"\n')
    assert warning == f"warning: {tmp_path / 'o.toml'}:2: no node is named ''"


@pytest.mark.parametrize(
    ("text", "node", "why"),
    [
        ('["conv1"]\nalgorithm = "fft3"', "conv1", "this convolution can be done by direct"),
        ('["fc"]\nalgorithm = "direct"', "fc", "only convolutions"),
        ('["fc"]\nschedule = { rows = 99 }', "fc", "rows = 99|does not fit into 16 registers"),
        ('["fc"]\nschedule = { tiles = 2 }', "fc", "no entry 'tiles'"),
        ('["relu1"]\nschedule = { rows = 2 }', "relu1", "it is computed by no kernel that has one"),
        ('["flat"]\nprecision = "f64"\n["conv1"]\nprecision = "f16"', None, "or in a wider one (hint: one of f64, f32, highest)"),
        ('["conv1"]\nprecision = "float32"', None, '(hint: precision = "f32")'),
        ('["conv1"]\nprecison = "f32"', None, "'precison' cannot be overridden (hint: precision?)"),
        ('["conv1"]\nstrict = false', None, "strict = false cannot be honoured"),
        ('["conv1"]\ntiles = 3', None, "'tiles' cannot be overridden"),
        ('["conv1"]\nalgorithm = 3', None, "algorithm = 3 is not possible"),
        ('["conv1"]\nschedule = { rows = 1.5 }', None, "rows = 1.5 is neither"),
        ('["conv1"]\nschedule = { rows = 99999999999999999999 }', None, "rows is too large a number"),
        (f'["conv1"]\nschedule = {{ rows = 0x{"f" * 9000} }}', None, "rows is too large a number"),
        (f'["conv1"]\nalgorithm = 0x{"f" * 9000}', None, "algorithm = a number of that size is not possible"),
        ('["conv1"]\nalgorithm = ""', None, "algorithm = '' is not possible"),
        (f'["conv1"]\nschedule = {{ rows = {"9" * 9000} }}', None, "this is no TOML"),
        (f'x = {"[" * 3000}', None, "this is no TOML"),
        ("[a.b]\nstrict = true", None, "there is a table 'b' inside"),
        ('algorithm = "direct"', None, "this is an entry, not a table"),
        ("[conv1", None, "this is no TOML"),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, text: str, node: str | None, why: str) -> None:
    error = refused(tmp_path / "o.toml", text)
    assert error.node == node and any(part in str(error) for part in why.split("|")), str(error)
    line = 3 if "f16" in text else 1
    assert error.file == (str(tmp_path / "o.toml") if "TOML" in why else f"{tmp_path / 'o.toml'}:{line}")


def test_convolutions_of_planes_are_direct(tmp_path: Path) -> None:
    """Nothing else can do them, so to ask for it is no error, and to ask for others is one."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[1, 8, 16, 16] x, float[8, 1, 3, 3] w) => (float[1, 8, 14, 14] y) '
        "{ [depthwise] y = Conv<group = 8>(x, w) }"
    )
    (tmp_path / "o.toml").write_text('["depthwise"]\nalgorithm = "direct"\n')
    options = Options(mcpu="x86-64-v3", override=tmp_path / "o.toml")
    compile_model(model, tmp_path / "m.so", options)
    (kernel,) = inspect_artefact(tmp_path / "m.so")["report"]["variants"][0]["kernels"]
    assert kernel["kind"] == "depthwise_planes"
    (tmp_path / "o.toml").write_text('["depthwise"]\nalgorithm = "winograd2"\n')
    with pytest.raises(OnnxcError, match="'winograd2' is not possible"):
        compile_model(model, tmp_path / "m.so", options)


def test_without_the_generic_variant_only_variants_have_to_do_it(tmp_path: Path) -> None:
    """The weights are constant where the batch is known; Winograd's filtering wants them so."""
    (tmp_path / "o.toml").write_text('["conv"]\nalgorithm = "winograd2"\n')
    weights = numpy_helper.from_array(np.ones((32, 32, 3, 3), np.float32), "w")
    nodes = [
        helper.make_node("Shape", ["x"], ["batch"], start=0, end=1),
        helper.make_node("Cast", ["batch"], ["scale"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["w", "scale"], ["k"]),
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "k"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"], "relu2"),
        helper.make_node("Conv", ["d", "w"], ["y"], "last", pads=[1, 1, 1, 1]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 32, 12, 12]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = Options(mcpu="x86-64-v3", override=tmp_path / "o.toml", variants=("n=2",), generic=False)
    compile_model(model, tmp_path / "m.so", options)
    (variant,) = inspect_artefact(tmp_path / "m.so")["report"]["variants"]
    assert [k["algorithm"] for k in variant["kernels"] if k.get("algorithm_source") == "override"] == ["winograd2"]
    (out,) = InferenceSession(tmp_path / "m.so").run(None, {"x": np.ones((2, 32, 12, 12), np.float32)})
    np.testing.assert_allclose(out[:, :, 3:-3, 3:-3], 2 * (9 * 32) ** 3, rtol=1e-5)
    with pytest.raises(OnnxcError, match="'winograd2' is not possible"):
        compile_model(model, tmp_path / "m.so", replace(options, generic=True))


def test_variants_warn_once(tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_text('["conv9"]\nstrict = true\n')
    told = Told()
    options = Options(override=tmp_path / "o.toml", variants=("batch=1", "batch=2"))
    compile_model(image(), tmp_path / "m.so", options, progress=told)
    assert len(told.warnings) == 1


def test_a_file_as_some_editors_write_it(tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_bytes(b'\xef\xbb\xbf["conv1"]\r\nstrict = true\r\n')
    assert [(o.pattern, o.strict) for o in read_overrides(tmp_path / "o.toml")] == [("conv1", True)]


def test_operators_without_f64(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[2, 3] x) => (float[2, 3] z) '
        "{ [drawn] y = RandomNormalLike(x) [cast] i = Cast<to = 7>(x) [back] f = Cast<to = 1>(i) z = Add(f, x) }"
    )
    (tmp_path / "o.toml").write_text('["cast"]\nprecision = "f64"\n')
    run = Compilation(Options(mcpu="x86-64-v3", override=tmp_path / "o.toml"), Told())
    program = run.import_model(model, "model")
    with pytest.raises(OnnxcError, match="f64 is not possible") as error:
        run.run_passes(program, "loops")
    assert error.value.node == "cast" and error.value.why == "it has no results of floating point"


def run(model: str, path: Path, overrides: str, feed: np.ndarray) -> np.ndarray:
    path.with_suffix(".toml").write_text(overrides)
    made = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> {model}')
    compile_model(made, path, Options(mcpu="x86-64-v3", threads=1, override=path.with_suffix(".toml")))
    return InferenceSession(path).run(None, {"x": feed})[0]


def test_halves_stay_wide_between_nodes(tmp_path: Path) -> None:
    """300² is beyond f16; only where all three nodes compute in f32 (or f64) is the root of the mean 300 again."""
    model = """g (float16[2, 64] x) => (float16[2, 1] y) {
        [norm_square] s = Mul(x, x) a = Constant<value_ints = [-1]>() [norm_mean] m = ReduceMean(s, a)
        [norm_root] y = Sqrt(m) }"""
    x = np.full((2, 64), 300, np.float16)
    for precision in ("f32", "highest", "f64"):
        table = f'["norm_*"]\nprecision = "{precision}"\n'
        assert (run(model, tmp_path / f"{precision}.so", table, x) == 300).all()
        last = table + '["norm_square"]\nstrict = true\n["norm_mean"]\nprecision = "f64"\n'
        assert (run(model, tmp_path / f"{precision}_mixed.so", last, x) == 300).all()
    # what is read by a node of the tensors' own precision is rounded before
    assert np.isinf(run(model, tmp_path / "one.so", '["norm_root"]\nprecision = "f32"\n', x)).all()


def test_highest_keeps_a_nodes_own_weights(tmp_path: Path) -> None:
    """The factor after the product is not folded into its weights: the bits are those of one after the other."""
    weights = " ".join(f"{v:.7f}," for v in np.random.default_rng(1).standard_normal(64 * 8)).rstrip(",")
    model = f"""g (float[4, 64] x) => (float[4, 8] y) <float[64, 8] w = {{{weights}}}, float[8] f =
        {{0.1, 0.2, 0.3, 0.7, 1.1, 1.3, 1.7, 1.9}}> {{ [fc] p = MatMul(x, w) [factor] y = Mul(p, f) }}"""
    alone = model.replace("[factor] y = Mul(p, f)", "y = Identity(p)")
    x = np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32)
    product = run(alone, tmp_path / "alone.so", "", x)
    want = product * np.array([0.1, 0.2, 0.3, 0.7, 1.1, 1.3, 1.7, 1.9], np.float32)
    assert run(model, tmp_path / "kept.so", '["fc"]\nprecision = "highest"\n', x).tobytes() == want.tobytes()
    assert run(model, tmp_path / "folded.so", "", x).tobytes() != want.tobytes()


def test_highest_takes_attention_step_by_step(tmp_path: Path) -> None:
    model = """g (float[1, 2, 8, 16] x) => (float[1, 2, 8, 16] y) {
        t = Transpose<perm = [0, 1, 3, 2]>(x) [scores] s = MatMul(x, t) [softmax] p = Softmax<axis = -1>(s)
        [mix] y = MatMul(p, x) }"""
    x = np.random.default_rng(2).standard_normal((1, 2, 8, 16)).astype(np.float32)
    kinds, results = {}, {}
    for name, table in {"fused": "", "steps": '["softmax"]\nprecision = "highest"\n'}.items():
        results[name] = run(model, tmp_path / f"{name}.so", table, x)
        described = inspect_artefact(tmp_path / f"{name}.so")["report"]["variants"][0]["kernels"]
        kinds[name] = {kernel["kind"] for kernel in described}
    assert "attention" in kinds["fused"] and "attention" not in kinds["steps"]
    np.testing.assert_allclose(*results.values(), rtol=1e-5, atol=1e-6)


def test_a_patterns_other_nodes_are_passed_over(tmp_path: Path) -> None:
    """Shapes and conversions have no precision; a pattern is refused only if none of its nodes has one."""
    model = """g (float[2, 3] x) => (float[6] y) {
        [all_shape] s = Size(x) [all_cast] c = Cast<to = 11>(x) [all_back] b = Cast<to = 1>(c)
        o = Constant<value_ints = [1]>() [all_dims] d = Reshape(s, o) [all_exp] e = Exp(b) [all_flat] y = Reshape(e, d) }"""
    x = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)
    y = run(model, tmp_path / "m.so", '["all_*"]\nprecision = "f64"\n', x)
    assert y.tobytes() == np.exp(x.astype(np.float64)).astype(np.float32).tobytes()
    with pytest.raises(OnnxcError, match="it converts or makes tensors of a type of its own"):
        run(model, tmp_path / "m.so", '["all_back"]\nprecision = "f64"\n', x)
    with pytest.raises(OnnxcError, match="it computes in f64, and nothing is made less exact"):
        run(model, tmp_path / "m.so", '["all_cast"]\nprecision = "f32"\n', x)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OnnxcError, match="overrides cannot be read"):
        read_overrides(tmp_path / "none.toml")
