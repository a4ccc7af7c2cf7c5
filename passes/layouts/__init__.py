"""Which ops can run on permuted tensors, for `to_nhwc`: one file a kind of op (`versions.py` says how it is kept)."""

from onnxc.passes.layouts import axes, pointwise, reshapes, windows  # noqa: F401  (they register themselves)
