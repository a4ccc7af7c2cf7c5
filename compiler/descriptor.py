"""manifest -> C: the descriptor of a compiled model.

It refers to the stub, which is compiled apart, once for all models, and defines one function, `<symbol>_model`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from onnxc import runtime
from onnxc.manifest import WEIGHTS_MAGIC, Manifest, Value, Variant, Weights, weights_trailer

STUB = Path(runtime.__file__).parent


def write_stub(threads: bool, weights_file: bool) -> str:
    """The C source of the stub, for models that can use threads, or whose weights lie in a file."""
    settings = {"ONNXC_THREADS": threads, "ONNXC_WEIGHTS_FILE": weights_file}
    return "\n".join([*(f"#define {name} {int(value)}" for name, value in settings.items()), '#include "stub.c"', ""])


def write_descriptor(manifest: Manifest, triple: str, threads: bool) -> str:
    """The C source of the model's descriptor."""
    features = feature_bits(triple)
    weights = manifest.weights or Weights(0)
    parts = [
        '#include "entry.h"',
        *_values("input", manifest.inputs),
        *_values("output", manifest.outputs),
        *_variants(manifest.ordered_variants, features),
        _array("const char *", "errors", [quote(e) for e in manifest.errors]),
        _array("onnxc_pair", "metadata", [f"{{{quote(k)}, {quote(v)}}}" for k, v in manifest.metadata.items()]),
    ]
    if weights.symbol:
        parts.append(f'extern __attribute__((visibility("hidden"))) const char {weights.symbol}[];')
    return "\n".join([*parts, _model(manifest, weights, threads), ""])


def _model(manifest: Manifest, weights: Weights, threads: bool) -> str:
    fields = {
        "abi_major": "ONNXC_ABI_MAJOR",
        "abi_minor": "ONNXC_ABI_MINOR",
        "threaded": str(int(threads)),
        "api": "&onnxc_stub",
        "name": quote(manifest.name),
        "producer": quote(manifest.producer),
        "inputs": "inputs",
        "outputs": "outputs",
        "variants": "variants",
        "errors": "errors",
        "metadata": "metadata",
        "feature_names": "onnxc_feature_names",
        "report": "NULL" if manifest.report is None else quote(manifest.report),
        "weights": weights.symbol or "NULL",
        "weights_file": "NULL" if weights.file is None else quote(weights.file),
        "weights_id": quote(weights_trailer(weights.digest)[len(WEIGHTS_MAGIC) :].decode()),
        "weights_bytes": str(weights.size),
        "input_count": str(len(manifest.inputs)),
        "output_count": str(len(manifest.outputs)),
        "variant_count": str(len(manifest.variants)),
        "error_count": str(len(manifest.errors)),
        "metadata_count": str(len(manifest.metadata)),
        "in_dim_count": str(sum(len(v.dims) for v in manifest.inputs)),
        "out_dim_count": str(sum(len(v.dims) for v in manifest.outputs)),
    }
    body = "\n".join(f"    .{key} = {value}," for key, value in fields.items())
    function = f"{manifest.symbol}_model"
    return (
        f"static const onnxc_model model = {{\n{body}\n}};\n"
        f'__attribute__((visibility("default"))) const onnxc_model *{function}(void);\n'
        f"const onnxc_model *{function}(void) {{ return &model; }}"
    )


def _values(kind: str, values: Sequence[Value]) -> list[str]:
    lines = []
    for i, value in enumerate(values):
        dims = [f"{{{_c_int(d)}, NULL}}" if isinstance(d, int) else f"{{-1, {quote(d)}}}" for d in value.dims]
        lines.append(_array("onnxc_dim", f"{kind}_{i}_dims", dims))
        fields = f"{quote(value.name)}, {kind}_{i}_dims, {len(value.dims)}, {value.dtype}"
        lines.append(f"static const onnxc_value {kind}_{i} = {{{fields}}};")
    return [*lines, _array("const onnxc_value *", f"{kind}s", [f"&{kind}_{i}" for i in range(len(values))])]


def _variants(variants: Sequence[Variant], features: Mapping[str, int]) -> list[str]:
    hidden = '__attribute__((visibility("hidden")))'
    lines = []
    for i, v in enumerate(variants):
        guards = [f"{{{_c_int(g.low)}, {_c_int(g.high)}, {g.multiple}, {g.dim}, 0}}" for g in v.guards]
        mask = sum(1 << features[name] for name in set(v.features) if name in features)
        lines += [
            f"extern {hidden} int32_t {v.prepare}(const int64_t *, int64_t *, int64_t *);",
            f"extern {hidden} int32_t {v.run}(",
            "    onnxc_env *, const void *const *, const int64_t *, void *const *, void *);",
            _array("onnxc_guard", f"variant_{i}_guards", guards),
            f"static const onnxc_variant variant_{i} = {{{quote(v.name)}, {quote(v.target)}, UINT64_C({mask:#x}), "
            f"{_c_int(v.workspace)}, variant_{i}_guards, {v.prepare}, {v.run}, {len(guards)}, {v.kernels}}};",
        ]
    return [*lines, _array("const onnxc_variant *", "variants", [f"&variant_{i}" for i in range(len(variants))])]


def _array(element: str, name: str, items: Sequence[str]) -> str:
    """A constant array, closed by a zero element: C has no empty arrays."""
    zero = "NULL" if element.endswith("*") else "{0}"
    return f"static {element} const {name}[] = {{\n    " + ",\n    ".join([*items, zero]) + "\n};"


def _c_int(value: int) -> str:
    return f"INT64_C({value})" if value >= 0 else f"-INT64_C({-value})"


def quote(text: str | None) -> str:
    """A C string literal of the text's UTF-8 bytes, whatever they are; NULL for None."""
    if text is None:
        return "NULL"
    data = text.encode("utf-8", "surrogateescape")
    if 0 in data:
        raise ValueError(f"a name with a zero byte cannot be part of a C interface: {text!r}")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in data) + '"'


@cache
def feature_bits(triple: str) -> Mapping[str, int]:
    """LLVM's name of each CPU feature that the stub can detect → its bit, read from the stub's own table."""
    table = {"x86_64": "X86", "aarch64": "ARM64", "arm64": "ARM64", "riscv64": "RISCV"}.get(triple.split("-")[0])
    text = (STUB / "cpu_features.h").read_text("utf-8")
    rows = re.search(rf"#define ONNXC_{table}_FEATURES\(X\)(.*?)\n\n", text, re.DOTALL)
    names = re.findall(r'X\("([^"]+)"', rows[1]) if rows else []
    return {name: bit for bit, name in enumerate(names)}
