"""This file writes a bundle as one program that needs nothing on the device but Linux: neither Python nor a C library.

It is measure.c with the candidates' kernels and a plan (plan.h), tables in C; the weights follow it in its file.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (numpy learns bfloat16)
import numpy as np

from onnxc.cache import ObjectCache
from onnxc.descriptor import quote
from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.link import link_program
from onnxc.runtime import interleaved
from onnxc.runtime.candidates import MOST_COPIES
from onnxc.runtime.measure import ARCHITECTURES, LONGEST
from onnxc.stub_object import compile_measuring, compile_plan
from onnxc.targets import Target

PROGRAM = "measure"
_MAGIC = b"onnxc-w1"
_NARROW = ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")  # a byte each, of which they use few bits
_FLOATS = {"float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64"}


def write_program(
    folder: Path, manifest: Mapping[str, Any], objects: Sequence[bytes], target: Target, cache: ObjectCache | None
) -> Path:
    """The program for a bundle's manifest, with the weights that lie in `folder`; its path there.

    OnnxcError where there is no such program for the target.
    """
    if target.arch not in ARCHITECTURES or "linux" not in target.triple:
        raise OnnxcError(
            f"there is no program that measures on {target.triple}",
            hint=f"Linux on {', '.join(ARCHITECTURES)}",
            exit_code=UNREADABLE,
        )
    triple, out = f"{target.arch}-linux-gnu", folder / PROGRAM
    offsets, tail, size = _weights(folder, manifest["tasks"])
    plan = compile_plan(plan_source(manifest, offsets), triple)
    trailer = _MAGIC + size.to_bytes(8, "little")
    link_program([compile_measuring(triple, cache=cache), plan, *objects], out, tail=[*tail, trailer])
    return out


def _weights(folder: Path, tasks: Iterable[Mapping[str, Any]]) -> tuple[dict[str, int], list[bytes | Path], int]:
    """Each weights file's offset, what follows the program, and how many bytes these are."""
    files = sorted({b["file"] for task in tasks for b in task["buffers"].values() if "file" in b})
    offsets: dict[str, int] = {}
    tail: list[bytes | Path] = []
    size = 0
    for file in files:
        offsets[file] = size
        tail.append(folder / file)
        size += (folder / file).stat().st_size
    return offsets, tail, size


def plan_source(manifest: Mapping[str, Any], offsets: Mapping[str, int]) -> str:
    """The plan in C."""
    tasks = manifest["tasks"]
    head = {**{k: v for k, v in manifest.items() if k != "tasks"}, "tasks": len(tasks)}
    steps = [step for task in tasks for candidate in task["candidates"] for step in candidate["steps"]]
    symbols = sorted({symbol for step in steps for symbol in _functions(step)})
    lines = ['#include "plan.h"', *(f"extern void {s}(const int64_t *, int64_t, int64_t);" for s in symbols)]
    rows = [_task(lines, f"t{n}", task, offsets) for n, task in enumerate(tasks)]
    rules = (
        *(interleaved.ROUNDS, interleaved.FEW, interleaved.SOME, interleaved.MOST_RUNS, MOST_COPIES),
        *(float(interleaved.BLOCK_NANOSECONDS), interleaved.FASTER, interleaved.HOPELESS, interleaved.BEYOND_DOUBT),
        LONGEST,
    )
    lines += [
        _array("plan_task", "tasks", rows),
        f"const plan onnxc_plan = {{{quote(json.dumps(head))}, tasks, {len(tasks)}, {manifest['threads']}, "
        f"{{{', '.join(map(str, rules))}}}}};",
    ]
    return "\n".join([*lines, ""])


def _task(lines: list[str], name: str, task: Mapping[str, Any], offsets: Mapping[str, int]) -> str:
    """Adds a task's tables; its own row."""
    numbers = {known: i for i, known in enumerate(task["buffers"])}
    buffers = [_buffer(known, buffer, offsets) for known, buffer in task["buffers"].items()]
    rows = []
    for n, candidate in enumerate(task["candidates"]):
        steps = []
        for k, step in enumerate(candidate["steps"]):
            arguments = f"{name}_{n}_{k}"
            lines.append(_array("plan_argument", arguments, [_argument(a, numbers) for a in step["args"]]))
            counts = (len(step["args"]), step["extent"], step["round"], step["picoseconds"])
            bands = "0, 0"
            if "bands" in step:
                lines.append(_array("int64_t", f"{arguments}_b", list(map(str, step["bands"]))))
                bands = f"{arguments}_b, {numbers[step['rooms']]}"
            steps.append(f"{{{step.get('symbol', 0)}, {arguments}, {', '.join(map(str, counts))}, {bands}}}")
        lines.append(_array("plan_step", f"{name}_{n}", steps))
        choice = quote(json.dumps(candidate["choice"]))
        rows.append(f"{{{name}_{n}, {len(steps)}, {float(candidate['tolerance'])}, {choice}}}")
    lines += [_array("plan_buffer", f"{name}_b", buffers), _array("plan_candidate", f"{name}_c", rows)]
    counts = (len(buffers), len(rows), task["reference"], task["cold_bytes"], float(task["seconds"]))
    return f"{{{quote(json.dumps(task['name']))}, {name}_b, {name}_c, {', '.join(map(str, counts))}}}"


def _argument(argument: Any, numbers: Mapping[str, int]) -> str:
    if isinstance(argument, str):
        return f"{{0, {numbers[argument]}, 0}}"
    return f"{{0, -1, {argument['function']}}}" if isinstance(argument, Mapping) else f"{{{argument}, -1, 0}}"


def _functions(step: Mapping[str, Any]) -> list[str]:
    """The kernels that a step calls."""
    own = [step["symbol"]] if "symbol" in step else []
    return [*own, *(a["function"] for a in step["args"] if isinstance(a, Mapping))]


def _buffer(name: str, buffer: Mapping[str, Any], offsets: Mapping[str, int]) -> str:
    dtype, role = np.dtype(buffer["dtype"]), buffer["role"].upper()
    kind = _FLOATS.get(dtype.name)
    if kind is None:  # bytes of a code of their own may be any; wider integers are often indices
        whole = dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize > 1) or dtype.name in _NARROW
        kind = "ZEROS_AND_ONES" if whole else "ANY_BYTES"
    facts = (buffer["bytes"], offsets.get(buffer.get("file", ""), 0), f"{zlib.crc32(name.encode())}u", role, kind)
    return f"{{{quote(name)}, {', '.join(map(str, facts))}, {dtype.itemsize}}}"


def _array(kind: str, name: str, rows: Sequence[str]) -> str:
    return f"static const {kind} {name}[] = {{{', '.join(rows) or '{0}'}}};"
