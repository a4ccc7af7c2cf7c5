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
#include "bands.c"

/* One call of a kernel, as main would make it; or, with `bands`, kernels that take turns: args are theirs and begin each
 * with its function, the extent counts bands, and each thread has a room at `rooms`. */
typedef struct onnxc_step {
    onnxc_kernel kernel;
    const int64_t *args;
    int64_t extent, round, picoseconds;
    const onnxc_bands *bands;
    char *rooms;
} onnxc_step;

static int64_t cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A call of the bands [begin, end) for the pool, or by this thread alone. */
static band_job turns_of(const onnxc_step *s, band_room *rooms, int32_t count) {
    const band_job job = {s->bands, s->args, count, rooms};
    for (int32_t i = 0; i < count; i++) room_set_up(&rooms[i], &job, s->rooms + i * s->bands->bytes);
    return job;
}

static void run_turns(const onnxc_step *s, int32_t threads) {
    band_room rooms[MOST_THREADS];
    const int32_t parts = parts_worth(threads, s->extent, s->picoseconds);
    const band_job job = turns_of(s, rooms, parts > 1 ? parts : 1);
    const int64_t *args = (const int64_t *)(const void *)&job;
    if (parts > 1)
        pool_run(&onnxc_pool_4, threads, run_bands, args, 0, s->extent, s->picoseconds);
    else
        run_bands(args, 0, s->extent);
}

static void run_step(const onnxc_step *s, int32_t threads) {
    if (s->bands) {
        run_turns(s, threads);
        return;
    }
    for (int64_t begin = 0; begin < s->extent; begin += s->round)
        pool_run(&onnxc_pool_4, threads, s->kernel, s->args, begin, begin + s->round, s->picoseconds);
}

/* Nanoseconds of `runs` runs of `count` steps each: CPU time for one thread, which other processes do not change, else
 * wall time. Run i takes the steps at `steps + (first + i) % copies * count`: each copy has weights of its own. */
__attribute__((visibility("default"))) int64_t onnxc_time_steps(const onnxc_step *steps, int32_t count, int32_t copies,
                                                                int32_t first, int32_t runs, int32_t threads) {
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    pool_attach(&onnxc_pool_4);
    int32_t copy = first % copies;
    const int64_t start = threads == 1 ? cpu_now() : now();
    for (int32_t i = 0; i < runs; i++) {
        const onnxc_step *step = steps + (int64_t)copy * count;
        for (int32_t k = 0; k < count; k++, step++)
            run_step(step, threads);
        if (++copy == copies) copy = 0;
    }
    const int64_t end = threads == 1 ? cpu_now() : now();
    pool_detach(&onnxc_pool_4);
    return end - start;
}

/* One run in which each round of each kernel is done in `pieces`, the last one first. */
__attribute__((visibility("default"))) void onnxc_run_pieces(const onnxc_step *steps, int32_t count, int32_t pieces) {
    for (const onnxc_step *s = steps; s < steps + count; s++) {
        band_room room;
        const band_job job = s->bands ? turns_of(s, &room, 1) : (band_job){0};
        const onnxc_kernel kernel = s->bands ? run_bands : s->kernel;
        const int64_t *args = s->bands ? (const int64_t *)(const void *)&job : s->args;
        for (int64_t begin = 0, units = s->round; begin < s->extent; begin += units)
            for (int64_t i = pieces; i-- > 0;)
                kernel(args, begin + units * i / pieces, begin + units * (i + 1) / pieces);
    }
}
