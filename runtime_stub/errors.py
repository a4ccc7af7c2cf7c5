"""The errors of loading and running. Each is one paragraph, and also the built-in error that fits it."""

from __future__ import annotations


class SessionError(Exception):
    """What all errors of this package are. `exit_code` is the command line's: 2 for what cannot be read, else 1."""

    exit_code = 1


class LoadError(SessionError, OSError):
    """The file is missing, no compiled model, of another machine or ABI, or its weights are not there."""

    exit_code = 2


class CpuError(LoadError):
    """This CPU lacks features that every variant of the model needs."""


class InputError(SessionError, ValueError):
    """An argument has the wrong name, rank, dim or size, or no variant takes its shape."""


class InputTypeError(SessionError, TypeError):
    """An argument is of the wrong type."""


class ModelError(SessionError, RuntimeError):
    """The data made a node of the model fail, such as an index out of range."""


class OutOfMemoryError(SessionError, MemoryError):
    """No memory for the workspace, an output or the arena."""
