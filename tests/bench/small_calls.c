/* Runs a model again and again for small_calls.py, as a C program would. */
#define _GNU_SOURCE
#include <time.h>

#include "onnxc.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds of CPU time a run; negative: the status of one that failed. */
double nanoseconds(onnxc_context *context, const onnxc_tensor *inputs, int32_t input_count, onnxc_tensor *outputs,
                   int32_t output_count, int32_t runs) {
    const double start = now();
    for (int32_t i = 0; i < runs; i++) {
        const int32_t status = onnxc_run(context, inputs, input_count, outputs, output_count);
        if (status) return -status;
    }
    return (now() - start) / runs;
}
