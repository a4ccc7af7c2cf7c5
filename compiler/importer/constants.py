"""This file gives the value of a Constant node in each of the forms that its attributes allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxc.dialects.errors import UNREADABLE, OnnxcError

_FORMS: dict[str, Callable[[Any], np.ndarray]] = {
    "value": lambda v: v,
    "sparse_value": lambda v: v,
    "value_float": lambda v: np.array(v, np.float32),
    "value_floats": lambda v: np.array(v, np.float32),
    "value_int": lambda v: np.array(v, np.int64),
    "value_ints": lambda v: np.array(v, np.int64),
    "value_string": lambda v: np.array(v, np.object_),
    "value_strings": lambda v: np.array(v, np.object_),
}


def constant_of(attributes: dict[str, Any], node: str) -> np.ndarray:
    """The one value that the attributes of a Constant node give."""
    given = [(key, value) for key, value in attributes.items() if key in _FORMS]
    if len(given) != 1:
        raise OnnxcError(
            f"a Constant has one value, this one has {len(given)}", node=node, op="Constant", exit_code=UNREADABLE
        )
    key, value = given[0]
    array = _FORMS[key](value)
    if not isinstance(array, np.ndarray):
        raise OnnxcError(f"attribute '{key}' is not a tensor", node=node, op="Constant", exit_code=UNREADABLE)
    return array
