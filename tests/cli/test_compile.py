"""`onnxc compile` and `onnxc check`: every kind of output, every level, and what happens with bad models."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.command_line import alone


def model_of(*nodes: onnx.NodeProto, opsets: tuple[tuple[str, int], ...] = (("", 21),)) -> onnx.ModelProto:
    """A model from x [N, 4] to y, of unknown shape, with the given nodes."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(list(nodes), "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*opset) for opset in opsets])


@pytest.mark.parametrize("suffix", [".so", ".o", ".a", ".ll", ".s"])
def test_suffix_decides_what_is_written(onnxc_command, digits: Path, tmp_path: Path, suffix: str) -> None:
    done = onnxc_command("compile", digits, "-o", f"m{suffix}")
    assert done.returncode == 0, done.stderr
    assert not done.stdout
    written = (tmp_path / f"m{suffix}").read_bytes()
    starts = {".so": b"\x7fELF", ".o": b"\x7fELF", ".a": b"!<arch>"}
    if suffix in starts:
        assert written.startswith(starts[suffix])
    else:
        written.decode()
    assert "x86-64-v3" in done.stderr or "armv8-a" in done.stderr
    beside = {f"m{suffix}"} | ({"m.h"} if suffix in (".o", ".a") else set())
    assert {file.name for file in tmp_path.iterdir()} == beside


@pytest.mark.parametrize(
    ("level", "holds"),
    [
        ("graph", "kernel.conv"),
        ("tensor", "kernel."),
        ("kernels", "kernel.schedule"),
        ("loops", "scf.for"),
        ("llvm", "llvm.func"),
    ],
)
def test_every_level_can_be_seen(onnxc_command, digits: Path, tmp_path: Path, level: str, holds: str) -> None:
    done = onnxc_command("compile", digits, "-o", "m.mlir", "--emit", level)
    assert done.returncode == 0, done.stderr
    assert holds in (tmp_path / "m.mlir").read_text()


def test_stages_are_saved_in_order(onnxc_command, digits: Path, tmp_path: Path) -> None:
    done = onnxc_command("compile", digits, "-o", "m.so", "--save-stages", "stages", "--verify", "-v")
    assert done.returncode == 0, done.stderr
    names = sorted(file.name for file in (tmp_path / "stages").iterdir())
    assert names[0] == "00-graph-import.mlir"
    levels = [name.removesuffix(".mlir").split("-")[1] for name in names]
    assert list(dict.fromkeys(levels)) == ["graph", "tensor", "kernels", "loops", "llvm"]
    for name in names[:-2]:  # every pass that left a module is told with its time
        assert name.removesuffix(".mlir").split("-")[2] in done.stderr
    assert " ms" in done.stderr


def test_a_folder_for_stages_that_is_a_file(onnxc_command, digits: Path, tmp_path: Path) -> None:
    done = onnxc_command("compile", digits, "-o", "m.so", "--save-stages", digits)
    assert done.returncode == 2 and "cannot make the folder for the stages: there is a file" in done.stderr
    assert not (tmp_path / "m.so").exists()


def test_the_same_options_give_the_same_bytes(
    onnxc_command, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever order sets are gone through."""
    for folder, seed in (("a", "1"), ("b", "2")):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        assert onnxc_command("compile", digits, "-o", f"{folder}/m.so", "--no-cache", how=alone).returncode == 0
    assert (tmp_path / "a" / "m.so").read_bytes() == (tmp_path / "b" / "m.so").read_bytes()


def test_dims_are_fixed_by_name_and_by_place(onnxc_command, digits: Path) -> None:
    for dim in ("batch=3", "image.0=3"):
        assert onnxc_command("compile", digits, "-o", "m.so", "--dim", dim).returncode == 0
        assert "image: tensor(float) [3, 1, 8, 8]" in onnxc_command("inspect", "m.so").stdout


def test_a_dim_that_is_not_there_is_named(onnxc_command, digits: Path) -> None:
    done = onnxc_command("compile", digits, "-o", "m.so", "--dim", "bach=1")
    assert done.returncode == 2
    assert "bach" in done.stderr


@pytest.mark.parametrize("content", [b"", b"\x00" * 64, b"this is text, not a model", b"PK\x03\x04 a zip"])
@pytest.mark.parametrize("command", ["compile", "check"])
def test_files_that_are_no_model(onnxc_command, tmp_path: Path, content: bytes, command: str) -> None:
    (tmp_path / "bad.onnx").write_bytes(content)
    done = onnxc_command(command, "bad.onnx", *(("-o", "m.so") if command == "compile" else ()))
    assert done.returncode == 2
    assert "bad.onnx" in done.stderr
    assert {file.name for file in tmp_path.iterdir()} == {"bad.onnx"}


def test_truncated_models(onnxc_command, digits: Path, tmp_path: Path) -> None:
    whole = digits.read_bytes()
    for share in (1, 10, 50, 99):
        (tmp_path / "cut.onnx").write_bytes(whole[: len(whole) * share // 100])
        done = onnxc_command("compile", "cut.onnx", "-o", "m.so")
        assert done.returncode == 2
        assert "cut.onnx" in done.stderr
        assert not (tmp_path / "m.so").exists()


def test_a_model_that_is_absent(onnxc_command) -> None:
    done = onnxc_command("compile", "absent.onnx", "-o", "m.so")
    assert done.returncode == 2
    assert "absent.onnx" in done.stderr


def test_an_output_that_cannot_be_written(onnxc_command, digits: Path) -> None:
    done = onnxc_command("compile", digits, "-o", "no/such/folder/m.so")
    assert done.returncode == 2
    assert "no/such/folder" in done.stderr


@pytest.mark.parametrize("location", ["absent.bin", "../secret.bin", "/etc/passwd", "link.bin"])
def test_external_data_stays_in_the_folder_of_the_model(onnxc_command, tmp_path: Path, location: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(4096))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    weight = numpy_helper.from_array(np.zeros((4, 64), np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    model = model_of(helper.make_node("MatMul", ["x", "w"], ["y"], name="m"))
    model.graph.initializer.append(weight)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    done = onnxc_command("compile", "models/m.onnx", "-o", "m.so")
    assert done.returncode == 2
    assert location in done.stderr
    assert not (tmp_path / "m.so").exists()


def test_all_refused_nodes_are_told_at_once(onnxc_command, tmp_path: Path) -> None:
    model = model_of(
        helper.make_node("Sharpen", ["x"], ["a"], name="first", domain="com.example"),
        helper.make_node("Relu", ["a"], ["b"], name="fine"),
        helper.make_node("Blur", ["b"], ["y"], name="second", domain="com.example"),
        opsets=(("", 21), ("com.example", 1)),
    )
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    compiled = onnxc_command("compile", "m.onnx", "-o", "m.so")
    assert compiled.returncode == 1
    checked = onnxc_command("check", "m.onnx")
    assert checked.returncode == 1
    for told in (compiled.stderr, checked.stdout):
        assert "m.onnx" in told
        for name in ("first", "Sharpen", "second", "Blur"):
            assert name in told
        assert "'fine'" not in told


def test_check_passes_what_compiles(onnxc_command, digits: Path) -> None:
    done = onnxc_command("check", digits)
    assert done.returncode == 0
    assert "every node can be compiled" in done.stdout


TOLD = """if True:
    import sys
    from onnxc.__main__ import main
    from onnxc.terminal import Terminal
    stage, begun = Terminal.stage, set()
    def told(terminal, name, done=0, total=0, detail=""):
        if (name, done) not in begun:
            begun.add((name, done))
            print(name, done, file=sys.stderr, flush=True)
        stage(terminal, name, done, total, detail)
    Terminal.stage = told
    main()
"""


@pytest.mark.parametrize("stage", ["import 0", "choose_schedules 0", "kernels 1", "kernels 6", "link 0"])
def test_ctrl_c_leaves_nothing(digits: Path, tmp_path: Path, stage: str) -> None:
    """Wherever it comes once that stage has begun, or too late."""
    process = subprocess.Popen(
        [sys.executable, "-c", TOLD, "compile", str(digits), "-o", "m.so", "--no-cache", "-j", "2"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    assert process.stdout is not None and process.stderr is not None
    assert f"{stage}\n" in iter(process.stderr.readline, "")
    process.send_signal(signal.SIGINT)
    told, made, _ = process.stderr.read(), process.stdout.read(), process.wait(600)
    if "m.so: " not in made + told:  # else it was quicker than we are
        assert process.returncode == 130 and told.endswith("error: interrupted\n")
        assert not list(tmp_path.iterdir())
    assert "Traceback" not in told
    deadline = time.monotonic() + 600  # killed ones take a moment to go
    while processes_of_session(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not processes_of_session(process.pid)


def test_ctrl_c_while_python_starts(tmp_path: Path) -> None:
    """It ends, by whoever answers Ctrl-C by then."""
    command = [sys.executable, "-m", "onnxc", "check", "none.onnx"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=600)
    assert process.returncode != 0 and not list(tmp_path.iterdir())


def processes_of_session(session: int) -> list[int]:
    """The processes that still live in a session (zombies that nobody has collected yet do not)."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(its_session) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


def test_a_dim_is_set_once_and_to_a_size(onnxc_command, digits: Path) -> None:
    for dims in (
        ["batch=1", "batch=2"],
        ["batch=-1"],
        ["batch=1.5"],
        ["batch"],
        [f"batch={1 << 62}"],
        [f"batch={1 << 99}"],
    ):
        done = onnxc_command("compile", digits, "-o", "m.so", *(word for dim in dims for word in ("--dim", dim)))
        assert done.returncode == 2
        assert "batch" in done.stderr


def test_outputs_are_checked_before_any_work(onnxc_command, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.so").mkdir()
    (tmp_path / "file").touch()
    model = tmp_path / "model.so"
    model.write_bytes(digits.read_bytes())
    for wrong, told in (("folder.so", "folder"), ("file/m.so", "not a folder"), ("model.so", "the model itself")):
        done = onnxc_command("compile", model, "-o", wrong)
        assert done.returncode == 2
        assert told in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert model.read_bytes() == digits.read_bytes()


def test_an_object_appears_with_its_header_or_not_at_all(onnxc_command, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "m.h").mkdir()
    done = onnxc_command("compile", digits, "-o", "m.o")
    assert done.returncode == 2
    assert "m.h" in done.stderr
    assert {file.name for file in tmp_path.iterdir()} == {"m.h"}


def test_strict_leaves_winograd_out(onnxc_command, tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64, 56, 56]) for name in "xy")
    weights = numpy_helper.from_array(np.ones((64, 64, 3, 3), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], "g", [x], [y], [weights]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), tmp_path / "conv.onnx")
    for options, there in ([], True), (["--strict"], False):
        done = onnxc_command("compile", "conv.onnx", "-o", "m.mlir", "--emit", "tensor", *options)
        assert done.returncode == 0, done.stderr
        assert ("kernel.winograd" in (tmp_path / "m.mlir").read_text()) == there
