/* The CPU features that an artefact can require: LLVM's names, and where the CPU tells of them.
 *
 * A feature's bit in a mask is its line's number here, so lines are only ever added at the end of a table.
 * The compiler reads these tables too (compiler/manifest.py). */
#ifndef ONNXC_CPU_FEATURES_H
#define ONNXC_CPU_FEATURES_H

/* CPUID leaves */
enum { LEAF_1, LEAF_7_0, LEAF_7_1, LEAF_80000001, LEAVES };
enum { EAX, EBX, ECX, EDX };
/* register state that the operating system must save */
enum { PLAIN, YMM, ZMM, TILE };

#define ONNXC_X86_FEATURES(X)                 \
    X("sse3", LEAF_1, ECX, 0, PLAIN)          \
    X("pclmul", LEAF_1, ECX, 1, PLAIN)        \
    X("ssse3", LEAF_1, ECX, 9, PLAIN)         \
    X("fma", LEAF_1, ECX, 12, YMM)            \
    X("cx16", LEAF_1, ECX, 13, PLAIN)         \
    X("sse4.1", LEAF_1, ECX, 19, PLAIN)       \
    X("sse4.2", LEAF_1, ECX, 20, PLAIN)       \
    X("crc32", LEAF_1, ECX, 20, PLAIN)        \
    X("movbe", LEAF_1, ECX, 22, PLAIN)        \
    X("popcnt", LEAF_1, ECX, 23, PLAIN)       \
    X("aes", LEAF_1, ECX, 25, PLAIN)          \
    X("avx", LEAF_1, ECX, 28, YMM)            \
    X("f16c", LEAF_1, ECX, 29, YMM)           \
    X("bmi", LEAF_7_0, EBX, 3, PLAIN)         \
    X("avx2", LEAF_7_0, EBX, 5, YMM)          \
    X("bmi2", LEAF_7_0, EBX, 8, PLAIN)        \
    X("avx512f", LEAF_7_0, EBX, 16, ZMM)      \
    X("avx512dq", LEAF_7_0, EBX, 17, ZMM)     \
    X("adx", LEAF_7_0, EBX, 19, PLAIN)        \
    X("avx512ifma", LEAF_7_0, EBX, 21, ZMM)   \
    X("avx512cd", LEAF_7_0, EBX, 28, ZMM)     \
    X("sha", LEAF_7_0, EBX, 29, PLAIN)        \
    X("avx512bw", LEAF_7_0, EBX, 30, ZMM)     \
    X("avx512vl", LEAF_7_0, EBX, 31, ZMM)     \
    X("avx512vbmi", LEAF_7_0, ECX, 1, ZMM)    \
    X("avx512vbmi2", LEAF_7_0, ECX, 6, ZMM)   \
    X("gfni", LEAF_7_0, ECX, 8, PLAIN)        \
    X("vaes", LEAF_7_0, ECX, 9, YMM)          \
    X("vpclmulqdq", LEAF_7_0, ECX, 10, YMM)   \
    X("avx512vnni", LEAF_7_0, ECX, 11, ZMM)   \
    X("avx512bitalg", LEAF_7_0, ECX, 12, ZMM) \
    X("avx512vpopcntdq", LEAF_7_0, ECX, 14, ZMM) \
    X("amx-bf16", LEAF_7_0, EDX, 22, TILE)    \
    X("avx512fp16", LEAF_7_0, EDX, 23, ZMM)   \
    X("amx-tile", LEAF_7_0, EDX, 24, TILE)    \
    X("amx-int8", LEAF_7_0, EDX, 25, TILE)    \
    X("avxvnni", LEAF_7_1, EAX, 4, YMM)       \
    X("avx512bf16", LEAF_7_1, EAX, 5, ZMM)    \
    X("avxifma", LEAF_7_1, EAX, 23, YMM)      \
    X("avxvnniint8", LEAF_7_1, EDX, 4, YMM)   \
    X("avxneconvert", LEAF_7_1, EDX, 5, YMM)  \
    X("avxvnniint16", LEAF_7_1, EDX, 10, YMM) \
    X("sahf", LEAF_80000001, ECX, 0, PLAIN)   \
    X("lzcnt", LEAF_80000001, ECX, 5, PLAIN)  \
    X("sse4a", LEAF_80000001, ECX, 6, PLAIN)  \
    X("xop", LEAF_80000001, ECX, 11, YMM)     \
    X("fma4", LEAF_80000001, ECX, 16, YMM)    \
    X("tbm", LEAF_80000001, ECX, 21, PLAIN)

/* AT_HWCAP or AT_HWCAP2, bit */
enum { HWCAP = 16, HWCAP2 = 26 };

#define ONNXC_ARM64_FEATURES(X) \
    X("fp-armv8", HWCAP, 0)     \
    X("neon", HWCAP, 1)         \
    X("aes", HWCAP, 3)          \
    X("sha2", HWCAP, 6)         \
    X("crc", HWCAP, 7)          \
    X("lse", HWCAP, 8)          \
    X("fullfp16", HWCAP, 10)    \
    X("rdm", HWCAP, 12)         \
    X("jsconv", HWCAP, 13)      \
    X("complxnum", HWCAP, 14)   \
    X("rcpc", HWCAP, 15)        \
    X("sha3", HWCAP, 17)        \
    X("dotprod", HWCAP, 20)     \
    X("sve", HWCAP, 22)         \
    X("fp16fml", HWCAP, 23)     \
    X("sve2", HWCAP2, 1)        \
    X("i8mm", HWCAP2, 13)       \
    X("bf16", HWCAP2, 14)

#define ONNXC_RISCV_FEATURES(X) \
    X("a", HWCAP, 0)            \
    X("c", HWCAP, 2)            \
    X("d", HWCAP, 3)            \
    X("f", HWCAP, 5)            \
    X("m", HWCAP, 12)           \
    X("v", HWCAP, 21)

#endif
