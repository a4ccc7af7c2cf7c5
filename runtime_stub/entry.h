/* What generated code, descriptors and the stub agree on; above all the environment that a run entry is given.
 *
 * The offsets are fixed: generated code loads the function pointers by them. */
#ifndef ONNXC_ENTRY_H
#define ONNXC_ENTRY_H

#include "onnxc.h"

/* Works on [begin, end) of its parallel extent. */
typedef void (*onnxc_kernel)(const int64_t *args, int64_t begin, int64_t end);

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
} onnxc_env;

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
#endif

#endif
