"""Packs what was compiled: main, kernels, weights and the stub become a library, an object, an archive or text."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np

from onnxc import __version__
from onnxc.build_kernel import build_bitcode, build_object, join_listing
from onnxc.c_header import write_header
from onnxc.cache import user_cache
from onnxc.compile_pool import CompilePool, Job
from onnxc.link import archive, link_relocatable, link_shared, publish, scratch_beside, write_output
from onnxc.manifest import Manifest, Value, Variant, Weights
from onnxc.options import Options
from onnxc.passes.contract import Program
from onnxc.progress import Progress
from onnxc.report import describe_weights, write_report
from onnxc.stub_object import compile_stub
from onnxc.targets import Target
from onnxc.weights_file import LARGEST_SECTION, write_weights_file
from onnxc.weights_object import write_weights_object

WEIGHTS_SYMBOL = "onnxc_weights"


@dataclass
class Artefact:
    """All parts of one compiled model. `inputs`, `outputs`: its signature; `main_ir`: LLVM IR of prepare and run."""

    program: Program
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    target: Target
    options: Options
    kernels: list[Job]
    main_ir: str

    @property
    def weight_bytes(self) -> int:
        entries = self.program.notes["weights"]
        if not entries:
            return 0
        lazy, offset = entries[-1]
        return offset + (self.program.weights.nbytes(lazy) if isinstance(lazy, str) else lazy.nbytes)

    def manifest(self, weights: Weights | None) -> Manifest:
        name, workspace = self.program.name, self.program.notes["workspace"]
        variant = Variant(
            "generic",
            f"{name}_prepare",
            f"{name}_run",
            str(self.target),
            self.target.features,
            workspace=workspace if isinstance(workspace, int) else -1,
        )
        llvm_version = ".".join(map(str, llvm.llvm_version_info))
        metadata = {**self.program.notes.get("metadata", {}), "onnxc.llvm": llvm_version}
        return Manifest(
            name,
            self.inputs,
            self.outputs,
            (variant,),
            tuple(self.program.notes["errors"]),
            weights,
            metadata,
            producer=f"onnxc {__version__}",
            report=self.report,
        )

    @property
    def report(self) -> str:
        """What was chosen, as the artefact tells it."""
        weights = describe_weights(self.program.notes["weights"], self.program.weights)
        variant = {"name": "generic", "target": self.target.key, **self.program.notes["report"]}
        return write_report([variant], weights)

    @property
    def jobs(self) -> list[Job]:
        """What becomes code: main, then the kernels."""
        return [Job("main", self.main_ir), *self.kernels]

    def pool(self) -> CompilePool:
        return CompilePool(self.target, self.options.jobs, cache=user_cache(enabled=self.options.cache))


def write_artefact(artefact: Artefact, kind: str, output: Path, progress: Progress) -> None:
    """Writes `output` of the given kind (a value of options.KINDS), with a header beside objects and archives."""
    if kind in ("llvm-ir", "assembly"):
        _write_text(artefact, kind, output, progress)
        return
    with scratch_beside(output) as scratch:
        objects: list[bytes | Path] = []
        weights = None
        made: dict[Path, Path] = {}  # what goes to the output's folder at the end → where it lies until then
        if artefact.weight_bytes > LARGEST_SECTION:
            beside = output.with_name(f"{output.name}.weights")
            weights = write_weights_file(scratch / "weights", _entries(artefact), artefact.weight_bytes, beside.name)
            made[beside] = scratch / "weights"
        elif artefact.weight_bytes:
            weights = Weights(artefact.weight_bytes, WEIGHTS_SYMBOL)
            objects.append(scratch / "weights.o")
            write_weights_object(
                scratch / "weights.o", _entries(artefact), artefact.weight_bytes, WEIGHTS_SYMBOL, artefact.target
            )
        manifest = artefact.manifest(weights)
        pool, threaded = artefact.pool(), artefact.options.threads != 1
        with ThreadPoolExecutor(1) as beside_the_kernels:  # the C compiler is a process of its own
            stub = beside_the_kernels.submit(compile_stub, manifest, artefact.target.triple, threaded, cache=pool.cache)
            objects += pool.map(build_object, artefact.jobs, lambda done, total: progress.stage("kernels", done, total))
            objects.append(stub.result())
        progress.stage("link")
        export, linked = [f"{manifest.symbol}_model"], scratch / "linked"
        if kind == "shared":
            link_shared(objects, linked, soname=output.name, export=export)
        elif kind == "object":
            link_relocatable(objects, linked, export=export)
        else:
            archive(objects, linked, member=f"{output.stem}.o", export=export)
        if kind != "shared":
            header = made[output.with_suffix(".h")] = scratch / "header"
            header.write_bytes(write_header(manifest).encode())
        publish({**made, output: linked})


def _entries(artefact: Artefact) -> Iterator[tuple[np.ndarray, int]]:
    """The weights with their offsets; packed ones are made one after another as they are written."""
    store = artefact.program.weights
    for entry, offset in artefact.program.notes["weights"]:
        yield (store.get(entry) if isinstance(entry, str) else entry), offset


def _write_text(artefact: Artefact, kind: str, output: Path, progress: Progress) -> None:
    """One listing of all functions, which an assembler or LLVM takes as it is. The stub, which is C, is not in it."""
    pool = CompilePool(artefact.target, artefact.options.jobs)
    modules = pool.map(build_bitcode, artefact.jobs, lambda done, total: progress.stage("kernels", done, total))
    with scratch_beside(output) as scratch:
        for number, module in enumerate(modules):
            (scratch / f"{number:05}.bc").write_bytes(module)
        (listing,) = pool.map(join_listing, [Job({"assembly": "asm", "llvm-ir": "ll"}[kind], str(scratch))])
    write_output(output, listing)
