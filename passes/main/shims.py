"""LLVM IR of the shims between main and the environment (struct onnxc_env of runtime_stub/onnxc.h; offsets are ABI)."""

PARALLEL, ALLOC, MARK, RELEASE, OUTPUT, WEIGHTS, STATUS, THREADS, BANDS = 0, 8, 16, 24, 32, 40, 48, 52, 56

_SHIMS = {
    "alloc": ("ptr", "i64 %bytes", ALLOC),
    "mark": ("i64", "", MARK),
    "release": ("void", "i64 %mark", RELEASE),
    "output": ("ptr", "i32 %index, ptr %dims, i64 %bytes", OUTPUT),
    "parallel": ("void", "ptr %kernel, ptr %args, i64 %extent, i64 %round, i64 %picoseconds", PARALLEL),
    "bands": ("void", "ptr %plan, ptr %args, ptr %scratch", BANDS),
}

# func.func declarations that main's module needs.
DECLARATIONS = {
    "onnxc_shim_alloc": "(!llvm.ptr, i64) -> !llvm.ptr",
    "onnxc_shim_mark": "(!llvm.ptr) -> i64",
    "onnxc_shim_release": "(!llvm.ptr, i64) -> ()",
    "onnxc_shim_output": "(!llvm.ptr, i32, !llvm.ptr, i64) -> !llvm.ptr",
    "onnxc_shim_parallel": "(!llvm.ptr, (!llvm.ptr, i64, i64) -> (), !llvm.ptr, i64, i64, i64) -> ()",
    "onnxc_shim_function": "(!llvm.ptr, i64, (!llvm.ptr, i64, i64) -> ()) -> ()",
    "onnxc_shim_bands": "(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> ()",
}

# Puts a function among the words that arguments are told in.
_FUNCTION = """define internal void @onnxc_shim_function(ptr %words, i64 %i, ptr %function) {
  %place = getelementptr inbounds i64, ptr %words, i64 %i
  store ptr %function, ptr %place, align 8
  ret void
}"""


def with_shims(llvm_ir: str) -> str:
    """The IR with the declarations of the shims replaced by their definitions."""
    kept = [line for line in llvm_ir.splitlines() if not (line.startswith("declare") and "@onnxc_shim_" in line)]
    return "\n".join([*kept, _FUNCTION, *(_definition(name, *parts) for name, parts in _SHIMS.items())]) + "\n"


def _definition(name: str, result: str, parameters: str, offset: int) -> str:
    passed = ", ".join(["ptr %env", *([parameters] if parameters else [])])
    call = f"call {result} %function({passed})"
    body = f"  %value = {call}\n  ret {result} %value" if result != "void" else f"  {call}\n  ret void"
    return (
        f"define internal {result} @onnxc_shim_{name}({passed}) {{\n"
        f"  %place = getelementptr inbounds i8, ptr %env, i64 {offset}\n"
        f"  %function = load ptr, ptr %place, align 8\n{body}\n}}\n"
    )
