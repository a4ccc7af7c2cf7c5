"""Targets: detected or looked up, refused when unknown, stable as keys."""

import pickle
import platform

import pytest

from onnxc import targets
from onnxc.emit_object import emit
from onnxc.errors import OnnxcError
from onnxc.targets import BASELINE, ISA, PORTABLE, cpu_features, cpu_names, target_for

from .kernels import SCALE
from .test_emit_object import llvm_ir


def test_portable_default():
    target = target_for(None, "x86_64")
    assert target.triple == "x86_64-unknown-linux-gnu"
    assert (target.cpu, target.vector_bits, target.vector_registers, target.has_fma) == ("x86-64-v3", 256, 16, True)
    assert {"avx2", "fma", "f16c", "bmi2"} <= set(target.features)
    arm = target_for(None, "aarch64")
    assert (arm.cpu, arm.vector_bits, arm.vector_registers, arm.has_fma) == ("armv8-a", 128, 32, True)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="model numbers of x86-64")
@pytest.mark.parametrize(
    ("named", "has", "core"),
    [
        ("rocketlake", "sapphirerapids", "sapphirerapids"),
        ("rocketlake", "graniterapids", "graniterapids"),  # as one hypervisor does
        ("haswell", "skylake-avx512", "skylake-avx512"),
        ("znver1", "znver4", "znver4"),
        ("sapphirerapids", "haswell", "sapphirerapids"),  # with some instructions hidden
        ("rocketlake", "rocketlake", "rocketlake"),
        ("goldmont", "goldmont", "goldmont"),
    ],
)
def test_native_under_a_foreign_model_number(monkeypatch, named, has, core):
    """Instructions that the CPU of this name does not have show that it is another one."""
    detected = {name.replace("_", "-"): True for name in cpu_features("x86_64", has)}
    monkeypatch.setattr(targets.llvm, "get_host_cpu_name", lambda: named)
    monkeypatch.setattr(targets.llvm, "get_host_cpu_features", lambda: detected)
    target = target_for("native")
    assert (target.cpu, target.tune, target.isa) == ("native", core, target_for(has, "x86_64").isa)


def test_native_features_are_those_of_this_cpu():
    target = target_for("native")
    if platform.machine() == "x86_64":
        with open("/proc/cpuinfo") as info:
            flags = next(line for line in info if line.startswith("flags")).split()
        assert ("avx512vnni" in target.features) == ("avx512_vnni" in flags)
        assert ("avx2" in target.features) == ("avx2" in flags)
        assert ("avx512fp16" in target.features) == ("avx512_fp16" in flags)
    assert target.l1_bytes >= 8 << 10
    assert target.l2_bytes > target.l1_bytes


@pytest.mark.parametrize(
    ("cpu", "bits", "has", "lacks"),
    [
        ("haswell", 256, {"avx2", "fma"}, {"avx512f"}),
        ("skylake-avx512", 512, {"avx512bw"}, {"avx512vnni"}),
        ("sapphirerapids", 512, {"avx512bf16", "avx512fp16", "avx512vnni", "avxvnni"}, set()),
        ("znver3", 256, {"avx2"}, {"avx512f"}),
        ("znver4", 512, {"avx512bf16"}, {"avx512fp16"}),
        ("alderlake", 256, {"avxvnni"}, {"avx512f"}),
        ("nehalem", 128, {"sse4.2"}, {"avx"}),
        ("x86-64", 128, set(), {"sse4.2"}),
    ],
)
def test_cpu_names(cpu, bits, has, lacks):
    target = target_for(cpu, "x86_64")
    assert target.vector_bits == bits
    assert has <= set(target.features)
    assert not lacks & set(target.features)


@pytest.mark.parametrize("home", ["file", None])
def test_cpu_names_without_a_home(tmp_path, monkeypatch, home):
    """Zig, which knows them, would keep something there."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    if home is not None:
        (tmp_path / home).touch()
        monkeypatch.setenv("HOME", str(tmp_path / home))
    assert "avx512bf16" in cpu_features.__wrapped__("x86_64", "znver4")
    assert "znver4" in cpu_names.__wrapped__("x86_64")
    assert cpu_features.__wrapped__("x86_64", "znver44") is None


def test_arm_cpu_names():
    assert {"dotprod", "fullfp16"} <= set(target_for("neoverse-n1", "aarch64").features)
    assert "dotprod" not in target_for("cortex-a53", "aarch64").features


@pytest.mark.parametrize(
    ("cpu", "triple", "match"),
    [
        ("skylakee", "x86_64", "skylake"),
        ("zen4", "x86_64", "znver4"),
        ("i386", "x86_64", "for example native"),
        ("x86-64-v5", "x86_64", "x86-64-v3"),
        ("cortex-a72x", "aarch64", "cortex-a72"),
        ("", "x86_64", "for example native"),
        ("--help", "x86_64", "unknown CPU"),
    ],
)
def test_unknown_cpus_are_refused_with_close_names(cpu, triple, match):
    with pytest.raises(OnnxcError, match=match) as caught:
        target_for(cpu, triple)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("triple", ["i386", "aarch64-none", "sparc64-unknown-linux-gnu", "x86-64", ""])
def test_unknown_triples_are_refused(triple):
    with pytest.raises(OnnxcError) as caught:
        target_for(None, triple)
    assert caught.value.exit_code == 2


def test_triples_get_four_parts():
    assert target_for(None, "aarch64-linux-gnu").triple == "aarch64-unknown-linux-gnu"


def test_native_is_not_for_another_machine():
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    with pytest.raises(OnnxcError, match="native means this machine"):
        target_for("native", other)


def test_keys_are_stable_and_tell_targets_apart():
    targets = [target_for(cpu, "x86_64") for cpu in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "haswell", "znver4")]
    assert len({target.key for target in targets}) == len(targets)
    for target in targets:
        assert pickle.loads(pickle.dumps(target)) == target
        assert hash(target_for(target.cpu, "x86_64")) == hash(target)
        assert target_for(target.cpu, "x86_64").key == target.key


def test_llvm_knows_every_feature_and_cpu(capfd):
    """LLVM only mumbles on stderr about what it does not know."""
    text = llvm_ir(SCALE)
    for arch, isa in ISA.items():
        assert all(isa.values()) and BASELINE[arch]
        for cpu in (PORTABLE[arch], *cpu_names(arch)[::5]):
            if cpu_features(arch, cpu) or cpu == PORTABLE[arch]:  # none: a 32-bit CPU
                emit(text, target_for(cpu, arch))
    emit(text, target_for("native"))
    assert capfd.readouterr().err == ""
