/* Stress of the pool alone, for the thread sanitizer: callers with regions of every size, gaps between them, one pool.
 *
 * Every index must be run exactly once, and what a region wrote must be seen after it (plain, not atomic, counters). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"

#include "placing.c"
#include "waiting.c"
#include "shares.c"
#include "pool.c"

enum { CALLERS = 3, ROUNDS = 8000, MOST_UNITS = 200 };

static void count_up(const int64_t *args, int64_t begin, int64_t end) {
    int64_t *counts = (int64_t *)args[0];
    for (int64_t i = begin; i < end; i++) counts[i]++;
}

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* One caller's regions; the number of indices that were not run once. */
static void *regions(void *argument) {
    static const int64_t costs[] = {1, 100000, 20000000, 400000000};
    uint64_t state = (uint64_t)(uintptr_t)argument;
    onnxc_pool *p = &onnxc_pool_4;
    intptr_t wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t counts[MOST_UNITS] = {0};
        const int64_t args[] = {(int64_t)counts}, extent = (int64_t)(next_random(&state) % MOST_UNITS);
        const int32_t threads = 2 + (int32_t)(next_random(&state) % 3), kernels = (int32_t)(next_random(&state) % 4);
        p->attach(p);
        for (int32_t i = 0; i < kernels; i++) {
            p->run(p, threads, count_up, args, 0, extent, costs[next_random(&state) % 4]);
            for (int64_t k = 0; k < extent; k++) wrong += counts[k] != i + 1;
        }
        p->detach(p);
        if (next_random(&state) % 8 == 0) usleep((unsigned)(next_random(&state) % 400));
    }
    return (void *)wrong;
}

int main(void) {
    pthread_t callers[CALLERS];
    intptr_t wrong = 0;
    for (intptr_t i = 0; i < CALLERS; i++) pthread_create(&callers[i], NULL, regions, (void *)(i + 1));
    for (int i = 0; i < CALLERS; i++) {
        void *result;
        pthread_join(callers[i], &result);
        wrong += (intptr_t)result;
    }
    printf("%ld\n", (long)wrong);
    return wrong != 0;
}
