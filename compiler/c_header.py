"""manifest -> C: the header `<name>.h` of one model, for programs that embed it.

It adds names and sizes to `onnxc.h`; a model of fixed shapes also gets a typed function.
"""

from __future__ import annotations

import re

from onnxc.manifest import Manifest, Value

C_TYPES = {
    1: "float", 2: "uint8_t", 3: "int8_t", 4: "uint16_t", 5: "int16_t", 6: "int32_t", 7: "int64_t", 8: "onnxc_string",
    9: "uint8_t", 10: "uint16_t", 11: "double", 12: "uint32_t", 13: "uint64_t", 16: "uint16_t",
}  # fmt: skip
"""The C type of an element by ONNX's number; bool is a byte, halves are their bits. The rest are bytes."""


def write_header(manifest: Manifest) -> str:
    """The text of the header."""
    symbol = manifest.symbol
    macro = symbol.upper()
    lines = [
        f"/* {_comment(manifest.name)}: a model compiled by {_comment(manifest.producer)}. */",
        f"#ifndef ONNXC_MODEL_{macro}_H",
        f"#define ONNXC_MODEL_{macro}_H",
        "",
        '#include "onnxc.h"',
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"const onnxc_model *{symbol}_model(void);",
        "",
        *_places(macro, "INPUT", manifest.inputs),
        *_places(macro, "OUTPUT", manifest.outputs),
        *(_typed_entry(manifest) if _is_fixed(manifest) else []),
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _places(macro: str, kind: str, values: tuple[Value, ...]) -> list[str]:
    lines = [f"#define {macro}_{kind}S {len(values)}"]
    for i, value in enumerate(values):
        place = f"{macro}_{kind}_{i}"
        lines.append(f"/* '{_comment(value.name)}' {_comment(str(list(value.dims)))} */")
        lines.append(f"#define {place}_DTYPE {value.dtype}")
        lines.append(f"#define {place}_RANK {len(value.dims)}")
        size = _elements(value)
        if size is not None:
            lines.append(f"#define {place}_ELEMENTS {size}")
    return [*lines, ""]


def _typed_entry(manifest: Manifest) -> list[str]:
    symbol = manifest.symbol
    macro = symbol.upper()
    inputs = [f"input_{i}" for i in range(len(manifest.inputs))]
    outputs = [f"output_{i}" for i in range(len(manifest.outputs))]
    parameters = [f"const {_parameter(value, name)}" for value, name in zip(manifest.inputs, inputs, strict=True)]
    parameters += [_parameter(value, name) for value, name in zip(manifest.outputs, outputs, strict=True)]
    parameters.append("void *workspace")
    return [
        f"#define {macro}_WORKSPACE_BYTES {_workspace(manifest)}",
        "",
        "/* One run on this thread, without a context: an onnxc status. The workspace is 64-byte aligned; nothing is",
        "   checked. */",
        f"static inline int32_t {symbol}_run(" + ",\n    ".join(parameters) + ") {",
        f"    const onnxc_model *model = {symbol}_model();",
        f"    const void *const from[] = {{{', '.join([*inputs, 'NULL'])}}};",
        f"    void *const to[] = {{{', '.join([*outputs, 'NULL'])}}};",
        "    return model->api->call(model, from, to, workspace);",
        "}",
        "",
    ]


def _is_fixed(manifest: Manifest) -> bool:
    """All sizes are known and nothing is to be picked, so that the typed entry can be used."""
    values = [*manifest.inputs, *manifest.outputs]
    beside = manifest.weights is not None and manifest.weights.file is not None
    single = len(manifest.variants) == 1
    return single and _workspace(manifest) >= 0 and not beside and all(_elements(value) is not None for value in values)


def _workspace(manifest: Manifest) -> int:
    """Of the variant that the typed entry runs."""
    return manifest.variants[-1].workspace


def _parameter(value: Value, name: str) -> str:
    return f"{C_TYPES.get(value.dtype, 'uint8_t')} *{name} /* [{_elements(value)}] */"


def _elements(value: Value) -> int | None:
    count = 1
    for dim in value.dims:
        if not isinstance(dim, int):
            return None
        count *= dim
    return count


def _comment(text: str) -> str:
    """Text that cannot end a C comment, nor hold anything but printable ASCII."""
    return re.sub(r"[^ -~]", "?", text).replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")
