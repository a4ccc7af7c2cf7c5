"""What composite operators are made of, one file a family; the pass is passes/decompose.py."""

from onnxc.passes.compositions import einsum, normalization, quantization, reduction  # noqa: F401  (they register themselves)
