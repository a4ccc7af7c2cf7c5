"""This file is `onnxc-opt FILE.mlir PASS…`: it applies passes by name to a module and prints the result, for tests.

A pass is the function of that name in the module `onnxc.passes.NAME`. Each one's level is checked after it ran. Passes
that ask for a target get the portable one; weights that the text only names are zeros.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
import numpy as np

from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.faults import explain
from onnxc.leftovers import leave_at_ctrl_c
from onnxc.terminal import report_error

if TYPE_CHECKING:
    from mlir import ir

    from onnxc.dialects.weights import WeightStore


PART = "// -----"


def apply_passes(text: str, names: Sequence[str], file: str = "<text>") -> str:
    """The modules in `text`, parted by lines `// -----`, after the passes, as text.

    Raises OnnxcError where text or a name is wrong.
    """
    return "".join(_apply(part, names, file) for part in text.split(f"\n{PART}\n"))


def _apply(text: str, names: Sequence[str], file: str) -> str:
    from mlir import ir

    from onnxc.dialects.onnx import new_context
    from onnxc.passes.contract import Options, Program
    from onnxc.targets import target_for

    with new_context(), ir.Location.unknown():
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            raise OnnxcError("is not MLIR", file=file, why=str(error), exit_code=UNREADABLE) from error
        program = Program(module, _absent_weights(module), Options(target=target_for()))
        for name in names:
            if not name.isidentifier() or find_spec(f"onnxc.passes.{name}") is None:
                raise OnnxcError(f"no pass is named '{name}'", exit_code=UNREADABLE)
            getattr(import_module(f"onnxc.passes.{name}"), name)(program)
        return str(program.module)


def _absent_weights(module: ir.Module) -> WeightStore:
    """Zeros for the weights that the text names: they do not stand in it."""
    from onnxc.dialects.types import Tensor
    from onnxc.dialects.weights import WeightStore, dtype_of
    from onnxc.passes.rewriting import functions, operations

    weights = WeightStore()
    for function in functions(module):
        for op in operations(function.regions[0].blocks[0]):
            if "weight" in op.attributes:
                tensor = Tensor.of(op.results[0].type)
                shape: Any = tensor.dims  # weights are static
                dtype = dtype_of(tensor.elem)
                weights.add_lazy(op.attributes["weight"].value, shape, dtype, partial(np.zeros, shape, dtype))
    return weights


@click.command()
@click.argument("file", type=click.File())
@click.argument("passes", nargs=-1, metavar="[PASS]...")
def command(file: TextIO, passes: tuple[str, ...]) -> None:
    """Apply PASSes to the module in FILE (-: standard input) and print the result."""
    click.echo(apply_passes(file.read(), passes, str(Path(file.name))), nl=False)


def main() -> None:
    """Runs the command and exits with the codes of `onnxc`."""
    leave_at_ctrl_c()
    try:
        sys.exit(command.main(standalone_mode=False) or 0)
    except click.ClickException as wrong:
        wrong.show()
        sys.exit(UNREADABLE)
    except Exception as error:
        message, code = explain(error, sys.argv[1:])
        report_error(message)
        sys.exit(code)


if __name__ == "__main__":
    main()
