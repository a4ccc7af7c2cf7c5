"""Packs what was compiled: main, kernels, weights and the stub become a library, an object, an archive or text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onnxc.build_kernel import (
    build_assembly,
    build_kernel,
    build_main,
    build_main_assembly,
    build_main_optimised_ir,
    build_optimised_ir,
)
from onnxc.c_header import write_header
from onnxc.cache import user_cache
from onnxc.compile_pool import CompilePool, Job
from onnxc.link import archive, link_relocatable, link_shared, scratch_beside, write_output
from onnxc.manifest import Manifest, Value, Variant, Weights
from onnxc.options import Options
from onnxc.passes.contract import Program
from onnxc.progress import Progress
from onnxc.stub_object import compile_stub
from onnxc.targets import Target
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

    def manifest(self, workspace: int) -> Manifest:
        name = self.program.name
        variant = Variant("generic", f"{name}_prepare", f"{name}_run", str(self.target), self.target.features,
                          workspace=workspace)
        weights = Weights(self.weight_bytes, WEIGHTS_SYMBOL) if self.weight_bytes else None
        return Manifest(name, self.inputs, self.outputs, (variant,), tuple(self.program.notes["errors"]), weights,
                        dict(self.program.notes.get("metadata", {})))

    def pool(self) -> CompilePool:
        return CompilePool(self.target, self.options.jobs, cache=user_cache(enabled=self.options.cache))


def write_artefact(artefact: Artefact, kind: str, output: Path, progress: Progress) -> None:
    """Writes `output` of the given kind (a value of options.KINDS); for objects and archives also the header beside it."""
    if kind in ("llvm-ir", "assembly"):
        _write_text(artefact, kind, output, progress)
        return
    pool = artefact.pool()
    main = Job("main", artefact.main_ir)
    kernels = pool.map(build_kernel, artefact.kernels, lambda done, total: progress.stage("kernels", done, total))
    code = [*pool.map(build_main, [main]), *kernels]
    progress.stage("link")
    manifest = artefact.manifest(-1)
    stub = compile_stub(manifest, artefact.target.triple, artefact.options.threads != 1)
    with scratch_beside(output) as scratch:
        objects: list[bytes | Path] = [stub, *code]
        if artefact.weight_bytes:
            objects.insert(0, _weights(artefact, scratch / "weights.o"))
        export = [f"{manifest.symbol}_model"]
        if kind == "shared":
            link_shared(objects, output, soname=output.name, export=export)
            return
        if kind == "object":
            link_relocatable(objects, output, export=export)
        else:
            archive(objects, output, member=f"{output.stem}.o", export=export)
        write_output(output.with_suffix(".h"), write_header(manifest).encode())


def _weights(artefact: Artefact, path: Path) -> Path:
    """The weights' object; packed weights are made one after another as they are written."""
    store = artefact.program.weights
    entries = ((store.get(entry) if isinstance(entry, str) else entry, offset)
               for entry, offset in artefact.program.notes["weights"])
    write_weights_object(path, entries, artefact.weight_bytes, WEIGHTS_SYMBOL, artefact.target)
    return path


def _write_text(artefact: Artefact, kind: str, output: Path, progress: Progress) -> None:
    builds = {"assembly": (build_main_assembly, build_assembly), "llvm-ir": (build_main_optimised_ir, build_optimised_ir)}
    build_main_text, build_kernel_text = builds[kind]
    pool = CompilePool(artefact.target, artefact.options.jobs)
    parts = pool.map(build_main_text, [Job("main", artefact.main_ir)])
    parts += pool.map(build_kernel_text, artefact.kernels, lambda done, total: progress.stage("kernels", done, total))
    write_output(output, b"\n".join(parts))
