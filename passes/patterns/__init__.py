"""The patterns of `recognise`: one file a kind (`registry.py` says what a pattern may do)."""

from onnxc.passes.patterns import activations, normalisations  # noqa: F401  (they register themselves)
