"""The rules of `simplify`: one file a kind of op, one small function a rule (`registry.py` says what a rule may do)."""

from onnxc.passes.simplifications import arithmetic, movement, views, windows  # noqa: F401  (they register themselves)
