/* The whole run-time part of compiled models, as one translation unit.
 *
 * ONNXC_THREADS=0 leaves all thread code out. The two names that descriptors refer to become local when a model is
 * packed, so that models can be linked together. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"

#include "arena.c"
#include "cpu.c"
#if ONNXC_THREADS
#include "limits.c"
#include "placing.c"
#include "waiting.c"
#include "shares.c"
#include "pool.c"
#endif
#include "context.c"
#include "bands.c"
#include "env_bands.c"
#include "weights.c"
#include "check.c"
#include "pick.c"
#include "run.c"
#include "create.c"

const onnxc_api onnxc_stub = {
    .context_create = context_create,
    .context_destroy = context_destroy,
    .output_shapes = output_shapes,
    .run = run,
    .message = context_message,
    .variant = context_variant,
    .pool = context_pool,
    .threads = context_threads,
    .call = call,
    .cpu_features = cpu_features,
    .explain = explain,
};

/* Tells a loader what this is before it loads it: the ABI's version, readable in the file. */
__attribute__((section(".note.onnxc"), used, aligned(4))) static const struct {
    uint32_t name_bytes, bytes, type;
    char name[8];
    uint32_t major, minor;
} note = {6, 8, 1, "onnxc", ONNXC_ABI_MAJOR, ONNXC_ABI_MINOR};
