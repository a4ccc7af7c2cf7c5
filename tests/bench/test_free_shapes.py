"""The program measures what it says, code for free dims and for exact ones that agree; nothing is said of times."""

from __future__ import annotations

import json

import pytest

from onnxc.runtime import InferenceSession

from .free_shapes import main


def test_one_family_is_measured(tmp_path, capsys):
    out, artefacts = tmp_path / "rows.json", tmp_path / "artefacts"
    main(["softmax", "--folder", str(artefacts), "--prepare"])
    assert capsys.readouterr().out == ""
    names = sorted(path.name for path in artefacts.iterdir())
    assert names == ["softmax_128.so", "softmax_128_N1.so", "softmax_128_N128.so", "softmax_128_N1536.so"]
    shapes = [InferenceSession(artefacts / name).get_inputs()[0].shape for name in names]
    assert shapes == [["N", 128], [1, 128], [128, 128], [1536, 128]]
    few = ["--placements", "1", "--rounds", "1", "--block-ms", "1"]
    main(["softmax", "--folder", str(artefacts), *few, "--json", str(out)])
    rows = json.loads(out.read_text())
    assert [row["dims"] for row in rows] == [{"N": 1}, {"N": 128}, {"N": 1536}]
    assert all(row["ratio"] == pytest.approx(row["generic"] / row["exact"]) for row in rows)
    assert "3 shapes" in capsys.readouterr().out
