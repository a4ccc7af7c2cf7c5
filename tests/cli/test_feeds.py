"""Inputs for run and bench: read from files, the rest random, seeded, of shapes that the model takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from onnxc.errors import OnnxcError
from onnxc.feeds import complete_feeds, read_feeds, save_outputs
from onnxc.runtime.element_types import NAMES, type_text


@dataclass
class Input:
    name: str
    type: str
    shape: list[int | str | None]

    @property
    def dtype(self) -> int:
        return next(number for number in NAMES if type_text(number) == self.type)


IMAGE = Input("image", "tensor(float)", ["batch", 3, None, None])
TOKENS = Input("tokens", "tensor(int64)", ["batch", "sequence"])
MASK = Input("attention_mask", "tensor(int64)", ["batch", "sequence"])


def test_free_dims_are_guessed_and_agree() -> None:
    feeds = complete_feeds([IMAGE, TOKENS, MASK], {}, {}, seed=0)
    assert {name: value.shape for name, value in feeds.items()} == {
        "image": (1, 3, 224, 224),
        "tokens": (1, 64),
        "attention_mask": (1, 64),
    }
    assert feeds["image"].dtype == np.float32
    assert feeds["attention_mask"].all()
    assert set(np.unique(feeds["tokens"])) == {0, 1}


def test_dims_are_set_by_name_place_and_given_arrays() -> None:
    given = {"tokens": np.zeros((5, 9), np.int64)}
    feeds = complete_feeds([IMAGE, TOKENS, MASK], given, {"image.2": 32, "image.3": 48}, seed=0)
    assert feeds["image"].shape == (5, 3, 32, 48)
    assert feeds["attention_mask"].shape == (5, 9)


def test_the_seed_decides() -> None:
    first, same, other = (complete_feeds([IMAGE], {}, {"image.2": 8}, seed)["image"] for seed in (1, 1, 2))
    assert (first == same).all()
    assert (first != other).any()


@pytest.mark.parametrize(
    "element", ["float16", "bfloat16", "bool", "uint8", "string", "int4", "float8e4m3fn", "double"]
)
def test_every_element_type_has_values(element: str) -> None:
    feeds = complete_feeds([Input("x", f"tensor({element})", [2, 3])], {}, {}, seed=0)
    assert feeds["x"].shape == (2, 3)


def test_unknown_inputs_are_named() -> None:
    with pytest.raises(OnnxcError, match="no input 'y'.*its inputs are image"):
        complete_feeds([IMAGE], {"y": np.zeros(1)}, {}, seed=0)


def test_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    np.savez(tmp_path / "all.npz", a=np.ones(2), b=np.zeros(1))
    feeds = read_feeds([("x", tmp_path / "x.npy"), (None, tmp_path / "all.npz")])
    assert sorted(feeds) == ["a", "b", "x"]


@pytest.mark.parametrize("content", [b"", b"not an array", b"\x93NUMPY\x01\x00"])
def test_unreadable_files_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(OnnxcError, match=r"x\.npy.*not an .npy or .npz file") as caught:
        read_feeds([("x", tmp_path / "x.npy")])
    assert caught.value.exit_code == 2
    with pytest.raises(OnnxcError, match=r"absent\.npy: cannot be read"):
        read_feeds([("x", tmp_path / "absent.npy")])


def test_outputs_of_any_name_and_type_are_saved(tmp_path: Path) -> None:
    outputs = {
        "file": np.ones((2, 3), np.float32),
        "a/b:0": np.array(["one", "two"], object),
        "sizes": [np.zeros(2), np.zeros(3)],
        "nothing": np.zeros((0, 4), np.int8),
    }
    save_outputs(tmp_path / "y", outputs)
    assert [file.name for file in tmp_path.iterdir()] == ["y"]
    feeds = read_feeds([(None, tmp_path / "y")])
    assert {name: array.shape for name, array in feeds.items()} == {
        "file": (2, 3),
        "a/b:0": (2,),
        "sizes.0": (2,),
        "sizes.1": (3,),
        "nothing": (0, 4),
    }
    assert feeds["a/b:0"].tolist() == ["one", "two"]


def test_a_size_by_place_holds_wherever_the_dim_is() -> None:
    inputs = [Input(n, "tensor(float)", [None, "m"]) for n in "xz"]
    for place in ("x.1", "z.1"):
        assert [v.shape for v in complete_feeds(inputs, {}, {place: 5}, 0).values()] == [(1, 5), (1, 5)]


@pytest.mark.parametrize("size", [1 << 40, 1 << 62, 10**17])
def test_inputs_that_no_memory_holds_are_named(size: int) -> None:
    with pytest.raises(OnnxcError, match=r"input 'x' of the shape \[\d+, 8\] does not fit into memory") as told:
        complete_feeds([Input("x", "tensor(float)", ["n", 8])], {}, {"n": size}, 0)
    assert told.value.exit_code == 1
