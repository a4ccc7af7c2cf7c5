"""This file gives the errors of onnxc their public names; they are defined where passes can raise them."""

from __future__ import annotations

from onnxc.dialects.errors import BUG, REFUSED, UNREADABLE, CompilerBug, OnnxcError, Refusals

__all__ = ["BUG", "REFUSED", "UNREADABLE", "CompilerBug", "OnnxcError", "Refusals"]
