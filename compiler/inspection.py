"""This file reads what a compiled model tells about itself, for `onnxc inspect`; none of its kernels runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.manifest import Weights
from onnxc.report import readable_size, report_lines
from onnxc.runtime import Library, NodeArg, Variant
from onnxc.weights_file import check_weights_file

#: how much of a text in the metadata is shown to people
LONGEST_TEXT = 100


def inspect_artefact(path: Path) -> dict[str, Any]:
    """The facts in the artefact's descriptor, as values that JSON has. LoadError where it is none for this machine."""
    library = Library(path)
    descriptor = library.model.contents
    report = None if library.report is None else json.loads(library.report)
    side_file = descriptor.weights_file
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "model": library.name,
        "producer": library.producer,
        "abi": f"{descriptor.abi_major}.{descriptor.abi_minor}",
        "threads": "set at run time" if library.threaded else "one",
        "inputs": [_value(argument) for argument in library.inputs],
        "outputs": [_value(argument) for argument in library.outputs],
        "dims": _dim_names(library),
        "weights": {"bytes": descriptor.weights_bytes, "file": side_file and side_file.decode()},
        "variants": [_variant(variant) for variant in library.variants],
        "metadata": library.metadata,
        **({} if report is None else {"report": report}),
    }


def check_weights(path: Path, facts: dict[str, Any], given: Path | None) -> None:
    """Compares the weights' file (None: the one beside the artefact) with the artefact's digest of its content, and
    notes in the facts which file that was. OnnxcError (exit code 2) where it is another one or damaged."""
    weights, descriptor = facts["weights"], Library(path).model.contents
    if weights["file"] is None:
        raise OnnxcError(
            "the weights are no file of their own", file=path, why="the artefact holds them, without a checksum",
            exit_code=UNREADABLE,
        )  # fmt: skip
    file = path.resolve().with_name(weights["file"]) if given is None else given
    check_weights_file(file, Weights(weights["bytes"], file=weights["file"], digest=descriptor.weights_id.decode()))
    weights["checked"] = str(file)


def as_text(facts: dict[str, Any]) -> str:
    """The facts for people."""
    weights = facts["weights"]
    place = f" in {weights['file']}" if weights["file"] else ""
    lines = [
        f"{facts['file']}: model '{facts['model']}', {readable_size(facts['bytes'])}",
        f"versions  {_versions(facts)}",
        f"threads   {facts['threads']}",
        f"weights   {readable_size(weights['bytes'])}{place}{', content checked' if 'checked' in weights else ''}",
    ]
    for kind in ("inputs", "outputs"):
        for position, value in enumerate(facts[kind]):
            label = kind if position == 0 else ""
            lines.append(f"{label:9} {value['name']}: {value['type']} [{', '.join(map(_dim, value['shape']))}]")
    lines.append(f"dims      {', '.join(facts['dims']) or 'all fixed'}")
    for variant in facts["variants"]:
        kernels = "" if variant["kernels"] is None else f"{variant['kernels']} kernels, "
        lines.append(f"variant   {variant['name']}: {variant['target']}, {kernels}workspace {_workspace(variant)}")
        if variant["guards"]:
            lines.append(f"          where {' and '.join(variant['guards'])}")
        lines.append(f"          needs {', '.join(variant['features']) or 'no CPU feature'}")
    lines += [f"metadata  {key}: {_one_line(text)}" for key, text in facts["metadata"].items()]
    lines += report_lines(facts["report"]) if "report" in facts else []
    return "\n".join(lines)


def _versions(facts: dict[str, Any]) -> str:
    """Of the compiler, of LLVM, of the artefact's interface, of the model's operators."""
    metadata = facts["metadata"]
    found = [facts["producer"], f"ABI {facts['abi']}"]
    found += [f"LLVM {metadata['onnxc.llvm']}"] if "onnxc.llvm" in metadata else []
    found += [f"opset {metadata['model.opsets']}"] if "model.opsets" in metadata else []
    return ", ".join(found)


def _dim_names(library: Library) -> list[str]:
    """The free dims of the inputs, by name; unnamed ones are INPUT.AXIS."""
    free = [
        dim if isinstance(dim, str) else f"{value.name}.{axis}"
        for value in library.inputs
        for axis, dim in enumerate(value.shape)
        if not isinstance(dim, int)
    ]
    return list(dict.fromkeys(free))


def _one_line(text: str) -> str:
    """Its beginning, where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TEXT else f"{line[:LONGEST_TEXT]}…"


def _value(argument: NodeArg) -> dict[str, Any]:
    return {"name": argument.name, "type": argument.type, "shape": argument.shape}


def _variant(variant: Variant) -> dict[str, Any]:
    return {**variant._asdict(), "features": list(variant.features), "guards": list(variant.guards)}


def _dim(dim: int | str | None) -> str:
    return "?" if dim is None else str(dim)


def _workspace(variant: dict[str, Any]) -> str:
    size = variant["workspace_bytes"]
    return "by the input shapes" if size is None else readable_size(size)
