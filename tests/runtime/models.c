/* Hand-made compiled models: what the compiler emits, in little. Each MODEL_x is one translation unit of entries. */
#include <string.h>

#include "entry.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define PREPARE(name) \
    HIDDEN int32_t name##_prepare(const int64_t *in, int64_t *out, int64_t *workspace)
#define RUN(name)                                                                                          \
    HIDDEN int32_t name##_run(onnxc_env *env, const void *const *inputs, const int64_t *in, void *const *outputs, \
                              void *workspace)

/* y = x + 1: x f32 [N, 4] */
static void add_one(const int64_t *args, int64_t begin, int64_t end) {
    const float *x = (const float *)args[0];
    float *y = (float *)args[1];
    for (int64_t i = begin * 4; i < end * 4; i++) y[i] = x[i] + 1;
}

PREPARE(add) {
    if (in[0] > 1000000) return 1;
    out[0] = in[0];
    out[1] = 4;
    *workspace = 0;
    return 0;
}

RUN(add) {
    (void)workspace;
    const int64_t args[] = {(int64_t)inputs[0], (int64_t)outputs[0]};
    env->parallel(env, add_one, args, in[0], in[0], 100000);
    return 0;
}

/* y = x * weights + 100: the other variant of the same interface tells itself apart */
RUN(scale) {
    (void)env, (void)workspace;
    const float *x = inputs[0], *w = env->weights;
    float *y = outputs[0];
    for (int64_t i = 0; i < in[0] * 4; i++) y[i] = x[i] * (w ? w[i % 4] : 1) + 100;
    return 0;
}

/* y = the positive elements of x, i64 [N] -> [M]; through the arena */
PREPARE(positive) {
    (void)in;
    out[0] = -1;
    *workspace = 256;
    return 0;
}

RUN(positive) {
    const int64_t *x = inputs[0];
    int64_t count = 0;
    memset(workspace, 1, 256);
    int64_t mark = env->mark(env);
    int64_t *kept = env->alloc(env, in[0] * 8);
    if (!kept || (uintptr_t)kept % 64) return -1;
    for (int64_t i = 0; i < in[0]; i++)
        if (x[i] > 0) kept[count++] = x[i];
    int64_t *y = env->output(env, 0, &count, count * 8);
    if (!y) return -1;
    memcpy(y, kept, (size_t)count * 8);
    env->release(env, mark);
    return 0;
}

/* The arena's marks: loops that allocate and release more than any chunk holds, checked by their content. */
RUN(arena) {
    (void)workspace, (void)in;
    const int64_t rounds = *(const int64_t *)inputs[0];
    int64_t bad = 0;
    unsigned char *outer = env->alloc(env, 1000);
    memset(outer, 7, 1000);
    for (int64_t i = 0; i < rounds; i++) {
        int64_t mark = env->mark(env);
        unsigned char *a = env->alloc(env, 100 + i * 50000), *b = env->alloc(env, 3 << 19);
        if (!a || !b) return -1;
        memset(a, 1, (size_t)(100 + i * 50000));
        memset(b, 2, 3 << 19);
        bad += a[0] != 1 || a[99 + i * 50000] != 1 || ((uintptr_t)a | (uintptr_t)b) % 64;
        env->release(env, mark);
        bad += env->mark(env) != mark;
    }
    for (int i = 0; i < 1000; i++) bad += outer[i] != 7;
    if (env->alloc(env, INT64_MAX) || env->alloc(env, -1)) bad++;
    *(int64_t *)outputs[0] = bad;
    return 0;
}

PREPARE(arena) {
    (void)in, (void)out;
    *workspace = 0;
    return 0;
}

/* y = table[x]: an error in a kernel, on any thread */
static void gather(const int64_t *args, int64_t begin, int64_t end) {
    const int64_t *x = (const int64_t *)args[0];
    float *y = (float *)args[1];
    _Atomic int32_t *status = (_Atomic int32_t *)args[2];
    for (int64_t i = begin; i < end; i++)
        if (x[i] < 0 || x[i] > 9)
            *status = 2;
        else
            y[i] = (float)(x[i] * x[i]);
}

PREPARE(gather) {
    out[0] = in[0];
    *workspace = 0;
    return 0;
}

RUN(gather) {
    (void)workspace;
    const int64_t args[] = {(int64_t)inputs[0], (int64_t)outputs[0], (int64_t)&env->status};
    env->parallel(env, gather, args, in[0], in[0], 1000000);
    return 0;
}

/* y = a + b, f32 [N, M] both; one scalar input c that is not used */
PREPARE(sum) {
    out[0] = in[0];
    out[1] = in[1];
    *workspace = in[0] * in[1] * 4;
    return 0;
}

RUN(sum) {
    (void)env;
    const float *a = inputs[0], *b = inputs[1];
    float *y = outputs[0], *w = workspace;
    for (int64_t i = 0; i < in[0] * in[1]; i++) w[i] = a[i] + b[i];
    memcpy(y, w, (size_t)(in[0] * in[1]) * 4);
    return 0;
}

/* y = x with every string doubled, string [N] */
PREPARE(twice) {
    out[0] = in[0];
    *workspace = 0;
    return 0;
}

RUN(twice) {
    (void)workspace;
    const onnxc_string *x = inputs[0];
    onnxc_string *y = outputs[0];
    for (int64_t i = 0; i < in[0]; i++) {
        char *text = env->alloc(env, (int64_t)(2 * x[i].size));
        memcpy(text, x[i].data, x[i].size);
        memcpy(text + x[i].size, x[i].data, x[i].size);
        y[i] = (onnxc_string){text, 2 * x[i].size};
    }
    return 0;
}

/* y = x bit for bit, two-byte elements [N] */
RUN(copy) {
    (void)env, (void)workspace;
    memcpy(outputs[0], inputs[0], (size_t)in[0] * 2);
    return 0;
}

/* y = x[0] once the caller has set it, who learns by x[1] = 1 that this runs; i64 [2] -> [1] */
PREPARE(meeting) {
    (void)in;
    out[0] = 1;
    *workspace = 0;
    return 0;
}

RUN(meeting) {
    (void)env, (void)workspace, (void)in;
    volatile int64_t *x = (volatile int64_t *)(uintptr_t)inputs[0];
    x[1] = 1;
    while (!x[0]) continue;
    *(int64_t *)outputs[0] = x[0];
    return 0;
}

/* rounds of parallel regions of the extent and cost given; y[i] counts how often i was run; i64 [3] -> [extent] */
static void count_up(const int64_t *args, int64_t begin, int64_t end) {
    int64_t *y = (int64_t *)args[0];
    for (int64_t i = begin; i < end; i++) y[i]++;
}

PREPARE(regions) {
    (void)in;
    out[0] = -1;
    *workspace = 0;
    return 0;
}

RUN(regions) {
    (void)workspace, (void)in;
    const int64_t *x = inputs[0];
    int64_t *y = env->output(env, 0, x, x[0] * 8);
    if (!y) return -1;
    memset(y, 0, (size_t)x[0] * 8);
    const int64_t args[] = {(int64_t)y};
    for (int64_t i = 0; i < x[2]; i++) env->parallel(env, count_up, args, x[0], x[0], x[1]);
    return 0;
}
