/* The timing entry of a bundle of candidates (see measure.py): runs the steps of one candidate again and again.
 *
 * A unit of its own, linked beside the candidates' kernels in place of the stub; it brings the stub's pool of threads. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"

#include "placing.c"
#include "waiting.c"
#include "shares.c"
#include "pool.c"

/* One call of a kernel, as main would make it. */
typedef struct onnxc_step {
    onnxc_kernel kernel;
    const int64_t *args;
    int64_t extent, round, picoseconds;
} onnxc_step;

static int64_t cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void run_step(const onnxc_step *s, int32_t threads) {
    for (int64_t begin = 0; begin < s->extent; begin += s->round)
        pool_run(&onnxc_pool_3, threads, s->kernel, s->args, begin, begin + s->round, s->picoseconds);
}

/* Nanoseconds of `runs` runs of `count` steps each: CPU time for one thread, which other processes do not change, else
 * wall time. Run i takes the steps at `steps + (first + i) % copies * count`: each copy has weights of its own. */
__attribute__((visibility("default"))) int64_t onnxc_time_steps(const onnxc_step *steps, int32_t count, int32_t copies,
                                                                int32_t first, int32_t runs, int32_t threads) {
    pool_attach(&onnxc_pool_3);
    int32_t copy = first % copies;
    const int64_t start = threads == 1 ? cpu_now() : now();
    for (int32_t i = 0; i < runs; i++) {
        const onnxc_step *step = steps + (int64_t)copy * count;
        for (int32_t k = 0; k < count; k++, step++)
            run_step(step, threads);
        if (++copy == copies) copy = 0;
    }
    const int64_t end = threads == 1 ? cpu_now() : now();
    pool_detach(&onnxc_pool_3);
    return end - start;
}

/* One run in which each round of each kernel is done in `pieces`, the last one first. */
__attribute__((visibility("default"))) void onnxc_run_pieces(const onnxc_step *steps, int32_t count, int32_t pieces) {
    for (int32_t k = 0; k < count; k++)
        for (int64_t begin = 0, units = steps[k].round; begin < steps[k].extent; begin += units)
            for (int64_t i = pieces; i-- > 0;)
                steps[k].kernel(steps[k].args, begin + units * i / pieces, begin + units * (i + 1) / pieces);
}
