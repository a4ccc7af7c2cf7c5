"""What operators are on numpy arrays, for fold_constants: one small function an operator."""

from onnxc.passes.evaluators import arithmetic, movement  # noqa: F401  (they register themselves)
