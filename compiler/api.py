"""This file is the Python interface: `compile`, `check` and an InferenceSession that also takes .onnx files.

It must load nothing of the compiler until something is to be compiled: running an artefact needs numpy only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from onnxc import runtime

if TYPE_CHECKING:
    import os

    import onnx

    from onnxc.compilation import Report
    from onnxc.errors import OnnxcError
    from onnxc.progress import Progress

    Model = str | os.PathLike[str] | onnx.ModelProto


def compile(model: Model, output: str | os.PathLike[str], **options: Any) -> Report:
    """Compiles a model (a path or a ModelProto) to `output`, whose suffix decides what is written.

    Options are the fields of onnxc.Options. Raises OnnxcError, Refusals when nodes cannot be compiled, and leaves no
    partial output.
    """
    from onnxc.options import Options

    chosen, target = Options.of(**options), Path(output)
    chosen.kind(target)
    return _driver().compile_model(_as_model(model), target, chosen)


def check(model: Model, **options: Any) -> list[OnnxcError]:
    """Every node of the model that cannot be compiled, with the reason; empty when all can. Compiles nothing."""
    from onnxc.options import Options

    return _driver().check_model(_as_model(model), Options.of(**options))


class InferenceSession(runtime.InferenceSession):
    """Runs a compiled model, or an ONNX model that it compiles for this CPU first (the object cache makes that quick).

    compile_options   for an ONNX model: fields of onnxc.Options; `mcpu` is "native" unless given
    Everything else is onnxc.runtime.InferenceSession's.
    """

    def __init__(
        self,
        model: Model,
        threads: int | None = None,
        *,
        compile_options: Mapping[str, Any] | None = None,
        **session: Any,
    ) -> None:
        if not needs_compiling(model):
            super().__init__(model, threads=threads, **session)  # type: ignore[arg-type]
            return
        # a weights file beside the artefact is opened anew by each context: the folder lives as long as the session
        self._folder = tempfile.TemporaryDirectory(prefix="onnxc-")
        artefact = compile_for_here(model, Path(self._folder.name), compile_options)
        super().__init__(artefact, threads=threads, **session)


def needs_compiling(model: object) -> bool:
    """Whether this is an ONNX model rather than an artefact."""
    return hasattr(model, "SerializeToString") or str(model).endswith((".onnx", ".onnx.json", ".pb"))


def compile_for_here(
    model: Model, folder: Path, options: Mapping[str, Any] | None = None, progress: Progress | None = None
) -> Path:
    """Compiles `model` into `folder` for this CPU unless the options say otherwise; the artefact's path."""
    from onnxc.options import Options
    from onnxc.progress import SILENT

    name = "model" if hasattr(model, "SerializeToString") else Path(str(model)).name.split(".")[0]
    artefact = folder / f"{name or 'model'}.so"
    chosen = Options.of(**{"mcpu": "native", **(options or {})})
    _driver().compile_model(_as_model(model), artefact, chosen, progress=progress or SILENT)
    return artefact


def _driver() -> ModuleType:
    """The compiler, loaded when something is to be compiled; OnnxcError where only the runtime's packages are there."""
    try:
        from onnxc import driver
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("onnxc"):
            raise
        from onnxc.errors import UNREADABLE, OnnxcError

        missing = f"compiling needs the package '{error.name}', which is not installed"
        raise OnnxcError(missing, hint="pip install onnxc, without --no-deps", exit_code=UNREADABLE) from error
    return driver


def _as_model(model: Model) -> Path | onnx.ModelProto:
    return model if hasattr(model, "SerializeToString") else Path(model)  # type: ignore[arg-type, return-value]
