/* On which CPU a thread wakes that has slept, and how long it takes. Run by wakeups.py.
 *
 * Prints "NAME SAME ROUNDS MEDIAN MOST" lines, ns, for a thread that is woken 5 ms after it went to sleep: `plain`; `moves`
 * away from its waker's CPU by itself once awake; `barred` from that CPU by the waker (placing.c). SAME: how often it did
 * its work on the waker's CPU. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "placing.c"

enum { PLAIN, MOVES, BARRED, KINDS, MOST_ROUNDS = 4000 };
static const char *const names[KINDS] = {"plain", "moves", "barred"};

static _Atomic int32_t called, answered, ended;
static int32_t kind, waker_cpu, worker_cpu;
static int64_t woken_at;
static place worker_place;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void wait_while(_Atomic int32_t *word, int32_t value) {
    while (atomic_load(word) == value) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* To any CPU but the waker's, as far as there is one. */
static void move_away(void) {
    unsigned long mask[1024 / sizeof(unsigned long)];
    const long got = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    const unsigned long bit = 1ul << (size_t)waker_cpu % (8 * sizeof(long)), word = (size_t)waker_cpu / (8 * sizeof(long));
    if (got <= 0 || sched_getcpu() != waker_cpu) return;
    mask[word] &= ~bit;
    syscall(SYS_sched_setaffinity, 0, got, mask);
    mask[word] |= bit;
    syscall(SYS_sched_setaffinity, 0, got, mask);
}

static void *work(void *unused) {
    worker_place.thread = (int32_t)syscall(SYS_gettid);
    atomic_store(&answered, 1);
    for (int32_t seen = 0; !atomic_load(&ended); seen++) {
        wait_while(&called, seen);
        if (kind == MOVES) move_away();
        if (kind == BARRED) lift_bar(&worker_place);
        woken_at = now();
        worker_cpu = sched_getcpu();
        atomic_store(&answered, 1);
    }
    return unused;
}

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t wake(void) {
    atomic_store(&answered, 0);
    waker_cpu = sched_getcpu();
    if (kind == BARRED) bar_own_cpu(&worker_place);
    const int64_t start = now();
    atomic_fetch_add(&called, 1);
    syscall(SYS_futex, &called, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    while (!atomic_load(&answered)) continue; /* as a caller that goes on with its own part of the work */
    return woken_at - start;
}

int main(int count, char **arguments) {
    static int64_t times[MOST_ROUNDS];
    const int rounds = count > 1 ? atoi(arguments[1]) : 400;
    const struct timespec pause = {0, 5000000};
    pthread_t worker;
    if (rounds < 1 || rounds > MOST_ROUNDS || pthread_create(&worker, NULL, work, NULL)) return 1;
    while (!atomic_load(&answered)) sched_yield();
    for (kind = 0; kind < KINDS; kind++) {
        int same = 0;
        for (int i = 0; i < rounds; i++) {
            nanosleep(&pause, NULL);
            times[i] = wake();
            same += worker_cpu == waker_cpu;
        }
        qsort(times, (size_t)rounds, sizeof *times, ascending);
        printf("%s %d %d %lld %lld\n", names[kind], same, rounds, (long long)times[rounds / 2],
               (long long)times[rounds - 1]);
    }
    atomic_store(&ended, 1);
    kind = PLAIN;
    wake();
    return pthread_join(worker, NULL);
}
