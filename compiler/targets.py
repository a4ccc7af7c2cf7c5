"""Says what a CPU offers: the value every stage that depends on the machine is given.

`target_for` turns what the user wrote (`--mcpu`, `--target`) into a `Target`. Features are detected (native) or
looked up in LLVM's own tables (CPU names); they are never guessed from a name, and a name LLVM does not know is
refused here, because LLVM itself only mumbles on stderr and goes on with a generic CPU.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import platform
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import llvmlite.binding as llvm

from onnxc.cores import CORES, Core, core_of
from onnxc.errors import CompilerBug, OnnxcError
from onnxc.leftovers import run_program, temporary_folder
from onnxc.zig import zig_binary

DEFAULT_TRIPLES = {
    "x86_64": "x86_64-unknown-linux-gnu",
    "aarch64": "aarch64-unknown-linux-gnu",
    "riscv64": "riscv64-unknown-linux-gnu",
}
PORTABLE = {"x86_64": "x86-64-v3", "aarch64": "armv8-a", "riscv64": "rv64gc"}

# Only these features may be relied upon: the stub can check them (runtime_stub/cpu_features.h), so that an artefact is
# refused where one is missing. The features of every target are cut down to them. A level is all of its features.
X86_ISA: dict[str, tuple[str, ...]] = {
    "x86-64-v2": ("cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "avx512vnni": ("avx512vnni",),
    "avx512bf16": ("avx512bf16",),
    "avx512fp16": ("avx512fp16",),
    "avx512ifma": ("avx512ifma",),
    "avx512vbmi": ("avx512vbmi",),
    "avx512vbmi2": ("avx512vbmi2",),
    "avx512bitalg": ("avx512bitalg",),
    "avx512vpopcntdq": ("avx512vpopcntdq",),
    "avxvnni": ("avxvnni",),
    "gfni": ("gfni",),
}
AARCH64_ISA: dict[str, tuple[str, ...]] = {
    "dotprod": ("dotprod",),
    "fullfp16": ("fullfp16",),
    "i8mm": ("i8mm",),
    "bf16": ("bf16",),
}
RISCV64_ISA: dict[str, tuple[str, ...]] = {"v": ("v",)}
ISA = {"x86_64": X86_ISA, "aarch64": AARCH64_ISA, "riscv64": RISCV64_ISA}
# LLVM's CPU for the architecture's baseline, with the features that are always there.
BASELINE = {
    "x86_64": ("x86-64", ()),
    "aarch64": ("generic", ("neon", "fp-armv8")),
    "riscv64": ("generic-rv64", ("m", "a", "f", "d", "c")),
}
X86_LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
# In zig's tables, but not LLVM's names; all others are, with dashes.
ZIG_ONLY = {
    *("atom-sse4-2-movbe", "emag", "exynos-m1", "exynos-m2", "xgene1"),
    *("baseline-rv32", "baseline-rv64", "spacemit-a100", "spacemit-x100"),
}
# What people want to know of a CPU.
NOTABLE = {*X86_LEVELS[1:], "avx512vnni", "avx512bf16", "avx512fp16", "avxvnni", *AARCH64_ISA, "v"}


@dataclass(frozen=True)
class Target:
    """A machine to compile for. Hashable, picklable; `key` is its stable text form."""

    triple: str  # always four parts: LLVM drops the environment of shorter ones
    cpu: str  # what the user asked for: "x86-64-v3", "native", "cascadelake" …
    tune: str  # LLVM's name of the CPU to schedule for
    isa: tuple[str, ...]  # levels and single features it has, in the order of `ISA[arch]`
    features: tuple[str, ...]  # what code may use and the stub checks: LLVM's names, without sign, sorted
    vector_bits: int
    vector_registers: int
    has_fma: bool
    l1_bytes: int
    l2_bytes: int

    @property
    def core(self) -> Core:
        """What estimates go by."""
        return core_of(self.arch, self.tune)

    @property
    def arch(self) -> str:
        """First part of the triple: x86_64, aarch64, riscv64."""
        return self.triple.split("-")[0]

    @property
    def base_cpu(self) -> str:
        """LLVM's CPU that `features` come on top of."""
        return BASELINE[self.arch][0]

    @property
    def converts_halves(self) -> bool:
        """Whether it has instructions between f16 and f32."""
        return self.arch == "aarch64" or "f16c" in self.features

    @property
    def feature_string(self) -> str:
        """The features as LLVM spells them: "+avx,+avx2"."""
        return ",".join(f"+{feature}" for feature in self.features)

    @property
    def key(self) -> str:
        """Names everything that changes generated code."""
        caches = f"l1={self.l1_bytes},l2={self.l2_bytes}"
        return f"{self.triple};{self.base_cpu};tune={self.tune};{self.feature_string};v{self.vector_bits};{caches}"

    def __str__(self) -> str:
        known = [name for name in self.isa if name in NOTABLE and name != self.cpu]
        levels = [name for name in known if name in X86_LEVELS]
        shown = [*levels[-1:], *(name for name in known if name not in X86_LEVELS)]
        named = self.cpu in X86_LEVELS or not shown
        return f"{self.arch} {self.cpu}" + ("" if named else f" ({', '.join(shown)})")


def target_for(mcpu: str | None = None, triple: str | None = None) -> Target:
    """Target for a CPU name, "native", or None: the portable default of the architecture.

    Raises OnnxcError (exit code 2) for an architecture or CPU that is not known, with close matches.
    """
    full_triple = _four_parts(platform.machine() if triple is None else triple)
    arch = full_triple.split("-")[0]
    cpu = PORTABLE[arch] if mcpu is None else mcpu
    if cpu == "native":
        return _native(full_triple, arch)
    if arch == "x86_64" and cpu in X86_LEVELS:
        return _target(full_triple, cpu, cpu, X86_LEVELS[1 : X86_LEVELS.index(cpu) + 1])
    if cpu == PORTABLE[arch]:
        return _target(full_triple, cpu, "generic" if arch == "aarch64" else BASELINE[arch][0], ())
    return _named(full_triple, arch, cpu)


def _four_parts(triple: str) -> str:
    parts = triple.split("-")
    if parts[0] not in DEFAULT_TRIPLES:
        close = difflib.get_close_matches(parts[0], DEFAULT_TRIPLES)
        raise OnnxcError(
            f"no code can be generated for the architecture {parts[0]!r}",
            hint=f"known: {', '.join(close or DEFAULT_TRIPLES)}",
            exit_code=2,
        )
    if len(parts) in (1, 4):
        return triple if len(parts) == 4 else DEFAULT_TRIPLES[triple]
    if len(parts) == 3 and parts[1] == "linux":  # aarch64-linux-gnu, as gcc and zig spell it
        return f"{parts[0]}-unknown-{parts[1]}-{parts[2]}"
    raise OnnxcError(
        f"the triple {triple!r} has {len(parts)} parts, not four",
        hint=f"for example {DEFAULT_TRIPLES[parts[0]]}",
        exit_code=2,
    )


def _native(triple: str, arch: str) -> Target:
    if arch != platform.machine():
        raise OnnxcError(
            f"--mcpu native means this machine ({platform.machine()}), but the triple is {triple}",
            hint="name the CPU of the target",
            exit_code=2,
        )
    detected = {name for name, present in llvm.get_host_cpu_features().items() if present}
    tune = _core_named(arch, llvm.get_host_cpu_name(), detected)
    return _target(triple, "native", tune, _isa_of(arch, detected), *_cache_sizes())


def _core_named(arch: str, name: str, detected: AbstractSet[str]) -> str:
    """LLVM's name of this machine's core: `name`, which LLVM took from the CPU's model number, if that core has all of
    the instructions `detected`.

    Hypervisors give other model numbers than the hardware's: one with AMX calls itself a Rocket Lake, which has half as
    many multiply-adds. Then it is the core of the same maker that has the same instructions and shares most features.
    """
    isa, named = _isa_of(arch, detected), cpu_features(arch, name)
    if arch != "x86_64" or named is None or set(isa) <= set(_isa_of(arch, named)):
        return name

    def differs(core: str) -> bool:
        return _isa_of(arch, cpu_features(arch, core) or frozenset()) != isa

    def shared(core: str) -> int:
        return len({feature.replace("_", "-") for feature in cpu_features(arch, core) or ()} & detected)

    same_maker = [core for core in CORES if core.startswith("znver") == name.startswith("znver")]
    following = itertools.dropwhile(differs, same_maker)  # cores of the same instructions stand together
    return max(itertools.takewhile(lambda core: not differs(core), following), key=shared, default=name)


def _named(triple: str, arch: str, cpu: str) -> Target:
    features = cpu_features(arch, cpu)
    if features is None:
        names = [*cpu_names(arch), "native", PORTABLE[arch]]
        close = difflib.get_close_matches(cpu.lower(), names, n=8, cutoff=0.5)
        close = [name for name in close if name == "native" or cpu_features(arch, name) is not None][:4]
        raise OnnxcError(
            f"unknown CPU {cpu!r} for {arch}",
            hint=f"did you mean {' or '.join(close)}?" if close else f"for example native or {PORTABLE[arch]}",
            exit_code=2,
        )
    return _target(triple, cpu, cpu, _isa_of(arch, features))


def _isa_of(arch: str, features: AbstractSet[str]) -> tuple[str, ...]:
    """The entries of `ISA[arch]` that a CPU with these features has; a level counts only with all those below it."""
    isa = [name for name, needed in ISA[arch].items() if features >= set(needed)]
    for below, level in itertools.pairwise(X86_LEVELS[1:]):
        if below not in isa and level in isa:
            isa.remove(level)
    if X86_LEVELS[3] not in isa:
        isa = [name for name in isa if not name.startswith("avx512")]
    return tuple(isa)


def _target(
    triple: str, cpu: str, tune: str, isa: tuple[str, ...], l1: int | None = None, l2: int | None = None
) -> Target:
    """`l1`, `l2`: bytes of the caches, where they are known better than by the CPU's name."""
    arch = triple.split("-")[0]
    core = core_of(arch, tune)
    l1, l2 = l1 or core.l1_bytes, l2 or core.l2_bytes
    features = set(BASELINE[arch][1])
    for name in isa:
        features.update(ISA[arch][name])
    if arch == "x86_64":
        bits = 512 if "x86-64-v4" in isa else 256 if "x86-64-v3" in isa else 128
        registers = 32 if bits == 512 else 16
        fma = bits >= 256
    else:
        bits, registers, fma = 128, 32, True
    return Target(triple, cpu, tune, isa, tuple(sorted(features)), bits, registers, fma, l1, l2)


@functools.cache
def cpu_features(arch: str, cpu: str) -> frozenset[str] | None:
    """LLVM's features of a CPU by its LLVM name, or None if there is no such CPU (zig's tables: the same LLVM)."""
    if not re.fullmatch(r"[a-z][a-z0-9-]*", cpu) or cpu in ZIG_ONLY:
        return None
    builtin = _show_builtin(arch, cpu.replace("-", "_")).stdout
    listed = re.search(r"\.features = [^{]*\{(.*?)\}\)", builtin, re.DOTALL)
    names = re.findall(r'\.(?:@")?(\w+)"?,', listed[1]) if listed else []
    features = frozenset(name.replace("sse4_", "sse4.").replace("fp_armv8", "fp-armv8") for name in names)
    return features if features and (arch != "x86_64" or "64bit" in features) else None


@functools.cache
def cpu_names(arch: str) -> list[str]:
    """The names among which a mistyped CPU is looked for."""
    listed = _show_builtin(arch, "?").stderr
    names = [name.replace("_", "-") for name in re.findall(r"^ (\w+)$", listed, re.MULTILINE)]
    return [name for name in names if name not in ZIG_ONLY]


def _show_builtin(arch: str, cpu: str) -> CompletedProcess[str]:
    command = [zig_binary(), "build-obj", "--show-builtin", "-target", f"{arch}-linux-gnu", f"-mcpu={cpu}"]
    # zig opens caches even for this, and there may be no home that can be written to
    with temporary_folder() as folder:
        caches = {"ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": str(folder)}
        done = run_program(command, variables=caches)
    if done.returncode and "available CPUs" not in done.stderr:
        raise CompilerBug("targets", f"zig does not tell about CPUs of {arch}: {done.stderr.strip()}")
    return done


def _cache_sizes() -> tuple[int | None, int | None]:
    """Bytes of this machine's first data cache and second cache, as far as sysfs tells."""
    found: dict[int, int | None] = {1: None, 2: None}
    root = Path("/sys/devices/system/cpu/cpu0/cache")
    for index in sorted(root.glob("index*")) if root.is_dir() else ():
        try:
            level, kind, size = (((index / name).read_text().strip()) for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction" and int(level) in found:
            found[int(level)] = int(size.removesuffix("K")) << 10
    return found[1], found[2]
