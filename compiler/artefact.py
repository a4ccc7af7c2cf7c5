"""Packs what was compiled: main, kernels, weights and the stub become a library, an object, an archive or text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from onnxc import __version__
from onnxc.build_kernel import build_bitcode, build_object, join_listing
from onnxc.c_header import write_header
from onnxc.cache import user_cache
from onnxc.compile_pool import CompilePool, Job
from onnxc.dialects import dims
from onnxc.dialects.weights import WeightStore
from onnxc.link import archive, link_relocatable, link_shared, publish, scratch_beside, write_output
from onnxc.manifest import Manifest, Value, Variant, Weights, specificity
from onnxc.options import Options
from onnxc.passes.artefact_parts import Parts
from onnxc.progress import Progress
from onnxc.realisations import Realisation
from onnxc.report import describe_weights, write_report
from onnxc.stub_object import compile_stub
from onnxc.targets import Target
from onnxc.weights_file import LARGEST_SECTION, write_weights_file
from onnxc.weights_object import weights_object
from onnxc.weights_section import fill_section

WEIGHTS_SYMBOL = "onnxc_weights"
WEIGHTS_SECTION = ".onnxc.weights"  # of libraries: by itself; of objects it is one of those that linkers put in .rodata


@dataclass(frozen=True)
class Code:
    """One realisation: LLVM IR of its prepare and run, whose names begin with `symbol`, and its kernels' texts."""

    realisation: Realisation
    symbol: str
    workspace: dims.Dim
    main_ir: str
    kernels: Mapping[str, str]
    report: Mapping[str, Any]

    def variant(self) -> Variant:
        """As the descriptor tells it."""
        target = self.realisation.target
        return Variant(
            self.realisation.variant.name,
            f"{self.symbol}_prepare",
            f"{self.symbol}_run",
            str(target),
            target.features,
            self.realisation.variant.guards,
            self.workspace if isinstance(self.workspace, int) else -1,
            len(self.kernels),
        )


@dataclass
class Artefact:
    """All parts of one compiled model. `inputs`, `outputs`: its signature; `target`: the machine it is for."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    metadata: Mapping[str, str]
    target: Target
    options: Options
    codes: list[Code]
    parts: Parts
    weights: WeightStore

    def manifest(self, weights: Weights | None) -> Manifest:
        llvm_version = ".".join(map(str, llvm.llvm_version_info))
        return Manifest(
            self.name,
            self.inputs,
            self.outputs,
            tuple(code.variant() for code in self.codes),
            tuple(self.parts.errors),
            weights,
            {**self.metadata, "onnxc.llvm": llvm_version},
            producer=f"onnxc {__version__}",
            report=self.report,
        )

    @property
    def report(self) -> str:
        """What was chosen, as the artefact tells it."""
        variants = [
            {"name": code.realisation.variant.name, "target": code.realisation.target.key, **code.report}
            for code in sorted(self.codes, key=lambda code: specificity(code.variant()))
        ]
        return write_report(variants, describe_weights(self.parts.weights, self.weights))

    @property
    def kernels(self) -> list[Job]:
        """Each kernel once; those of equal text and target have one name."""
        found: dict[str, Job] = {}
        for code in self.codes:
            for name, text in code.kernels.items():
                found.setdefault(name, Job(name, text, code.realisation.target))
        return list(found.values())

    @property
    def jobs(self) -> list[Job]:
        """What becomes code: each realisation's main, then the kernels."""
        return [*(Job("main", code.main_ir, code.realisation.target) for code in self.codes), *self.kernels]

    def pool(self) -> CompilePool:
        return CompilePool(self.target, self.options.jobs, cache=user_cache(enabled=self.options.cache))


def write_artefact(artefact: Artefact, kind: str, output: Path, progress: Progress) -> None:
    """Writes `output` of the given kind (a value of options.KINDS), with a header beside objects and archives."""
    if kind in ("llvm-ir", "assembly"):
        _write_text(artefact, kind, output, progress)
        return
    with scratch_beside(output) as scratch:
        objects: list[bytes | Path] = []
        weights, size = None, artefact.parts.weight_bytes
        section = WEIGHTS_SECTION if kind == "shared" else f".rodata.{WEIGHTS_SYMBOL}"
        made: dict[Path, Path] = {}  # what goes to the output's folder at the end → where it lies until then
        if size > LARGEST_SECTION:
            beside = output.with_name(f"{output.name}.weights")
            weights = write_weights_file(scratch / "weights", _entries(artefact), size, beside.name)
            made[beside] = scratch / "weights"
        elif size:
            weights = Weights(size, WEIGHTS_SYMBOL)
            objects.append(weights_object(size, WEIGHTS_SYMBOL, section, artefact.target))
        manifest = artefact.manifest(weights)
        pool, threaded = artefact.pool(), artefact.options.threads != 1
        with ThreadPoolExecutor(1) as beside_the_kernels:  # the C compiler is a process of its own
            stub = beside_the_kernels.submit(compile_stub, manifest, artefact.target.triple, threaded, cache=pool.cache)
            objects += pool.map(build_object, artefact.jobs, lambda done, total: progress.stage("kernels", done, total))
            objects.append(stub.result())
        progress.stage("link")
        export, linked = [f"{manifest.symbol}_model"], scratch / "linked"

        def finish(file: Path) -> None:
            if weights is not None and weights.symbol:
                fill_section(file, section, _entries(artefact))

        if kind == "shared":
            link_shared(objects, linked, soname=output.name, export=export, finish=finish)
        elif kind == "object":
            link_relocatable(objects, linked, export=export, finish=finish)
        else:
            archive(objects, linked, member=f"{output.stem}.o", export=export, finish=finish)
        if kind != "shared":
            header = made[output.with_suffix(".h")] = scratch / "header"
            header.write_bytes(write_header(manifest).encode())
        publish({**made, output: linked})


def _entries(artefact: Artefact) -> Iterator[tuple[np.ndarray, int]]:
    """The weights with their offsets; packed ones are made one after another as they are written."""
    for entry, offset in artefact.parts.weights:
        yield (artefact.weights.get(entry) if isinstance(entry, str) else entry), offset


def _write_text(artefact: Artefact, kind: str, output: Path, progress: Progress) -> None:
    """One listing of all functions, which an assembler or LLVM takes as it is. The stub, which is C, is not in it."""
    pool = CompilePool(artefact.target, artefact.options.jobs)
    modules = pool.map(build_bitcode, artefact.jobs, lambda done, total: progress.stage("kernels", done, total))
    with scratch_beside(output) as scratch:
        for number, module in enumerate(modules):
            (scratch / f"{number:05}.bc").write_bytes(module)
        (listing,) = pool.map(join_listing, [Job({"assembly": "asm", "llvm-ir": "ll"}[kind], str(scratch))])
    write_output(output, listing)
