"""Says what one core of a CPU reaches, by LLVM's name of the CPU: what estimates between algorithms go by.

Multiply-adds a cycle and caches are what is published of each core, clocks are usual ones under load. Only
emeraldrapids, graniterapids, znver4 and znver3 were measured (docs/performance.md); rates from caches and memory are
those of the nearer one.
Of cores that are sold with several sizes the smaller usual one; of an L2 that several cores share, a core's part.
Sources, beside the optimization guides of Intel, AMD and Arm and Agner Fog's "The microarchitecture of Intel, AMD and
VIA CPUs":
- Intel's datasheets 792044 (Meteor Lake) and 829568 (Lunar Lake); chipsandcheese.com: "Cannon Lake: Intel's Forgotten
  Generation", "A Preview of Raptor Lake's Improved L2 Caches", the interview on Cougar Cove and Darkmont (Skymont and
  Darkmont have four multiply-adds, Crestmont two), "Intel's Clearwater Forest E-Core Server Chip at Hot Chips 2025";
- LLVM's AArch64SchedA510.td and AArch64SchedA57.td (also for A72); NVIDIA's "Grace CPU Superchip Architecture In
  Depth"; Ampere at Hot Chips 2024; learn.arm.com's "Cache hierarchy" (Neoverse N1 and V2).
Not confirmed: diamondrapids, pantherlake and later; cortex-x925, which may do six multiply-adds of 128 bits.
Nothing here is asked of the machine that compiles, and nothing here says what code may use.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Core:
    """fma_bits   of the vectors that all pipes together multiply and add in a cycle
    gigahertz     under load
    l1_bytes, l2_bytes   a core's data caches
    far, memory   bytes that a core reads in a nanosecond from the cache behind L2, and from memory
    halves   whether 512-bit vectors take two pipes of 256 bits at once ("Software Optimization Guide for the AMD Zen4
             Microarchitecture", 57647), so that code with narrow ones does as much; only for cores that were measured
    reads_ahead   whether hardware brings streams so early that asking for them costs more than it gains
    streams_rows   rows, at most, with which weights from memory are multiplied for which the same holds
    near_l3   whether what lies in L3 comes so soon that long chains of kernels that take turns gain little
    """

    fma_bits: int
    gigahertz: float
    l1_bytes: int
    l2_bytes: int
    far: float
    memory: float
    halves: bool = False
    reads_ahead: bool = False
    streams_rows: int = 0
    near_l3: bool = False

    @property
    def gigaflops(self) -> float:
        """Of f32 multiply-adds in whole vectors, each of which counts twice."""
        return self.fma_bits / 16 * self.gigahertz


def _core(
    fma_bits: int,
    gigahertz: float,
    l1: int,
    l2: int,
    far: float = 28,
    memory: float = 14,
    streams_rows: int = 0,
    **flags: bool,
) -> Core:
    return Core(fma_bits, gigahertz, l1 << 10, l2 << 10, far, memory, streams_rows=streams_rows, **flags)


# A CPU of which only the level or the architecture is known: as wide as most of those sold, the smallest usual caches
UNKNOWN = {
    "x86_64": _core(512, 2.7, 32, 512),
    "aarch64": _core(256, 2.6, 32, 512),
    "riscv64": _core(128, 2.0, 32, 512),
}

_KINDS: tuple[tuple[Core, str], ...] = (
    # two pipes of 512 bits
    (_core(1024, 2.7, 32, 1024), "skylake-avx512 skx cascadelake cooperlake"),
    (_core(1024, 2.7, 48, 1280), "icelake-server"),
    (_core(1024, 2.7, 48, 2048), "sapphirerapids emeraldrapids"),
    (_core(1024, 3.9, 48, 2048, 29, 15.5, streams_rows=1), "graniterapids graniterapids-d diamondrapids"),
    (_core(1024, 3.7, 48, 1024, 53, 29, reads_ahead=True, near_l3=True), "znver5"),
    # one of 512, or two of 256
    (_core(512, 3.0, 32, 256), "cannonlake"),
    (_core(512, 3.5, 48, 512), "icelake-client rocketlake"),
    (_core(512, 3.5, 48, 1280), "tigerlake"),
    (_core(512, 3.7, 32, 1024, 53, 29, halves=True, reads_ahead=True, near_l3=True), "znver4"),
    (_core(512, 3.3, 32, 512, 53, 29, streams_rows=2, near_l3=True), "znver2 znver3"),
    (_core(512, 3.0, 32, 256), "haswell broadwell skylake"),
    (_core(512, 3.5, 48, 1280), "alderlake"),
    (_core(512, 3.5, 48, 2048), "raptorlake meteorlake"),
    (_core(512, 3.5, 48, 2560), "lunarlake pantherlake wildcatlake novalake"),
    (_core(512, 3.5, 48, 3072), "arrowlake arrowlake-s"),
    # four of 128
    (_core(512, 2.5, 32, 1024), "clearwaterforest"),
    # two of 128 in one cycle, whatever vectors code has
    (_core(256, 3.3, 32, 512, 53, 29, streams_rows=2, near_l3=True), "znver1"),
    (_core(256, 2.5, 32, 512), "gracemont"),
    (_core(256, 2.5, 32, 1024), "sierraforest grandridge"),
    # NEON: four pipes, two, one
    (_core(512, 2.6, 64, 1024), "neoverse-v1 neoverse-512tvb cortex-x1 cortex-x1c cortex-x2 cortex-x3"),
    (_core(512, 3.0, 64, 1024), "grace"),
    (_core(512, 3.0, 64, 2048), "neoverse-v2 neoverse-v3 neoverse-v3ae cortex-x4 cortex-x925"),
    (_core(512, 3.2, 128, 3072, 53, 29), "apple-m1 apple-m2 apple-m3 apple-m4 apple-m5"),
    (_core(256, 2.6, 64, 1024), "neoverse-n1 neoverse-n2 neoverse-n3 cobalt-100"),
    (_core(256, 3.0, 64, 2048), "ampere1 ampere1a ampere1b"),
    (_core(256, 2.2, 64, 512), "cortex-a76 cortex-a77 cortex-a78 cortex-a78c cortex-a710 cortex-a715 cortex-a720"),
    (_core(128, 1.5, 32, 512, 8, 4), "cortex-a53 cortex-a55 cortex-a510 cortex-a520 cortex-a72 cortex-a73"),
)
CORES = {name: core for core, names in _KINDS for name in names.split()}


def core_of(arch: str, cpu: str) -> Core:
    """The core of a CPU by LLVM's name; one that is not listed counts as an unknown one of its architecture."""
    return CORES.get(cpu, UNKNOWN[arch])
