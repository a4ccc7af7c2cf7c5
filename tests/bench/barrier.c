/* What a parallel region costs: the pool of the stub, alone, on two threads. Run by barrier.py.
 *
 * Prints "NAME MEDIAN P90" lines, ns: `hot` an empty region straight after another; `woken` after 5 ms of idling;
 * `serial`, `shared` 40 µs of arithmetic on one thread and in one region; `…,idle` 400 µs after 5 ms; `…,run` 60 regions
 * of 80 µs. Arguments, both optional: how many times fewer rounds, and a CPU to which a busy process is pinned meanwhile. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "entry.h"

#include "placing.c"
#include "waiting.c"
#include "shares.c"
#include "pool.c"

enum { UNITS = 40, UNIT = 1000 /* ns */, ROUNDS = 4000 };
static double per_unit; /* steps of the arithmetic */
static volatile double sink;

/* Each of two threads waits for the other, if there is one. */
static void meet(const int64_t *args, int64_t begin, int64_t end) {
    (void)args;
    if (end - begin > 1) return;
    static _Atomic uint32_t arrived;
    const uint32_t before = atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) / 2 == before / 2) relax();
}

static void arithmetic(const int64_t *args, int64_t begin, int64_t end) {
    (void)args;
    double x = 1;
    for (int64_t i = 0; i < (int64_t)(per_unit * (double)(end - begin)); i++) x = x * 1.0000001 + 1e-9;
    if (x < 0) sink = x;
}

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, int64_t *times, int count) {
    qsort(times, (size_t)count, sizeof *times, ascending);
    printf("%s %lld %lld\n", name, (long long)times[count / 2], (long long)times[count * 9 / 10]);
}

static void measure(const char *name, int threads, onnxc_kernel kernel, int64_t extent, int64_t cost, int regions,
                    int idle_us, int count) {
    static int64_t times[ROUNDS];
    onnxc_pool *p = &onnxc_pool_4;
    for (int i = -20; i < count; i++) {
        if (idle_us) usleep((unsigned)idle_us);
        p->attach(p);
        const int64_t start = now();
        for (int k = 0; k < regions; k++) p->run(p, threads, kernel, NULL, 0, extent, cost);
        if (i >= 0) times[i] = now() - start;
        p->detach(p);
    }
    report(name, times, count);
}

static void calibrate(void) {
    per_unit = 100000;
    const int64_t start = now();
    arithmetic(NULL, 0, 10);
    per_unit *= UNIT * 10.0 / (double)(now() - start);
}

static pid_t busy_process(int cpu) {
    const pid_t parent = getpid(), child = fork();
    if (child) return child;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent) arithmetic(NULL, 0, 1000);
    _exit(0);
}

int main(int count, char **arguments) {
    calibrate();
    const int few = count > 1 ? atoi(arguments[1]) : 1;
    const pid_t busy = count > 2 ? busy_process(atoi(arguments[2])) : 0;
    const int64_t unit = UNIT * 1000;
    if (few < 1 || few > 200) return 1;
    measure("hot", 2, meet, 2, 1000 * (int64_t)WAKING * 2, 1, 0, ROUNDS / few);
    measure("woken", 2, meet, 2, 1000 * (int64_t)WAKING * 2, 1, 5000, 200 / few);
    measure("serial", 1, arithmetic, UNITS, unit, 1, 0, ROUNDS / few);
    measure("shared", 2, arithmetic, UNITS, unit, 1, 0, ROUNDS / few);
    measure("serial,idle", 1, arithmetic, 10 * UNITS, unit, 1, 5000, 200 / few);
    measure("shared,idle", 2, arithmetic, 10 * UNITS, unit, 1, 5000, 200 / few);
    measure("serial,run", 1, arithmetic, 2 * UNITS, unit, 60, 0, 400 / few);
    measure("shared,run", 2, arithmetic, 2 * UNITS, unit, 60, 0, 400 / few);
    if (busy) {
        kill(busy, SIGKILL);
        waitpid(busy, NULL, 0);
    }
    return 0;
}
