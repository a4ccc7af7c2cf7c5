"""Lowerings: what each onnx op computes, one file an operator family.

`elementwise` ops are functions of elements; `moves` ops say where an element of the result comes from. Both are
evaluated inside any kernel (`kernels/evaluate.py`), on scalars and vectors alike; ops that need loops of their own are
kernel kinds (`kernels/<kind>.py`).
"""

from onnxc.passes.lowering import comparison, elementwise, movement  # noqa: F401  (they register themselves)
