/* What generated code, descriptors and the stub agree on; above all the environment that a run entry is given.
 *
 * The offsets are fixed: generated code loads the function pointers by them. */
#ifndef ONNXC_ENTRY_H
#define ONNXC_ENTRY_H

#include "onnxc.h"

/* Works on [begin, end) of its parallel extent. */
typedef void (*onnxc_kernel)(const int64_t *args, int64_t begin, int64_t end);

struct onnxc_bands;

typedef struct onnxc_env {
    /* round: units of the extent that are independent, the next as many having to wait for them, and which divide it;
     * picoseconds: about what a unit takes */
    void (*parallel)(struct onnxc_env *, onnxc_kernel, const int64_t *args, int64_t extent, int64_t round,
                     int64_t picoseconds);
    void *(*alloc)(struct onnxc_env *, int64_t bytes);      /* 64-byte aligned, NULL: out of memory */
    int64_t (*mark)(struct onnxc_env *);                    /* the arena's height … */
    void (*release)(struct onnxc_env *, int64_t mark);      /* … to fall back to */
    void *(*output)(struct onnxc_env *, int32_t index, const int64_t *dims, int64_t bytes); /* NULL: no room */
    const void *weights;
    _Atomic int32_t status; /* kernels set it to an error's number, in any order */
    int32_t threads;
    /* kernels that take turns; `scratch` is room for one thread, as much as the plan tells */
    void (*bands)(struct onnxc_env *, const struct onnxc_bands *, const int64_t *args, void *scratch);
} onnxc_env;

/* A kernel of those that take turns. Its function is args[kernel], its arguments follow; its result goes to a buffer at
 * byte `buffer` of a thread's room, which argument args[result] and the next kernel's args[operand] shall point to. */
typedef struct onnxc_band_kernel {
    int64_t kernel, result, operand, buffer;
} onnxc_band_kernel;

/* What a kernel does in a band: passes/band_plan.py. */
typedef struct onnxc_band_step {
    int64_t fresh, end, base, top;
} onnxc_band_step;

/* In memory: this, `kernels` times onnxc_band_kernel, `count` times as many onnxc_band_step. */
typedef struct onnxc_bands {
    int64_t count;
    int64_t kernels;
    int64_t words;       /* args, at the beginning of a thread's room */
    int64_t bytes;       /* of a thread's room, a multiple of 64 */
    int64_t picoseconds; /* about what a band takes */
} onnxc_bands;

/* What descriptors refer to. */
extern __attribute__((visibility("hidden"))) const onnxc_api onnxc_stub;
extern __attribute__((visibility("hidden"))) const char *const onnxc_feature_names[];

/* What a run entry returns besides 0 and the errors' numbers. */
enum { ONNXC_RUN_NO_MEMORY = -1 };

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(onnxc_env, parallel) == 0, "parallel");
_Static_assert(offsetof(onnxc_env, alloc) == 8, "alloc");
_Static_assert(offsetof(onnxc_env, mark) == 16, "mark");
_Static_assert(offsetof(onnxc_env, release) == 24, "release");
_Static_assert(offsetof(onnxc_env, output) == 32, "output");
_Static_assert(offsetof(onnxc_env, weights) == 40, "weights");
_Static_assert(offsetof(onnxc_env, status) == 48, "status");
_Static_assert(offsetof(onnxc_env, threads) == 52, "threads");
_Static_assert(offsetof(onnxc_env, bands) == 56, "bands");
#endif

#endif
