/* Which CPU a worker runs on: another one than the caller's, as far as there is one.
 *
 * A kernel places a thread that it wakes by rules of its own: beside the waker where it takes the CPUs for idle enough to
 * be packed, or where all are busy. There the worker takes the caller's time instead of saving it, until some tick moves
 * one of them. So the caller bars its own CPU to a worker that it is about to wake, and the worker, once awake, lifts that. */
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct place {
    int32_t thread; /* its id */
    long bytes;     /* of `mask`, the CPUs it may use; 0: nothing is barred to it */
    unsigned long mask[1024 / sizeof(unsigned long)];
} place;

/* Bars this thread's CPU to a thread that sleeps. */
static void bar_own_cpu(place *p) {
    const int cpu = sched_getcpu();
    const size_t word = (size_t)cpu / (8 * sizeof(long));
    const long got = syscall(SYS_sched_getaffinity, p->thread, sizeof p->mask, p->mask);
    if (got <= 0 || cpu < 0 || word >= (size_t)got / sizeof(long)) return;
    const unsigned long mask = p->mask[word];
    p->mask[word] &= ~(1ul << (size_t)cpu % (8 * sizeof(long)));
    const long failed = syscall(SYS_sched_setaffinity, p->thread, got, p->mask); /* there is no other */
    p->mask[word] = mask;
    p->bytes = failed ? 0 : got;
}

/* Lifts it; called by the thread itself. */
static void lift_bar(place *p) {
    if (p->bytes) syscall(SYS_sched_setaffinity, 0, p->bytes, p->mask);
    p->bytes = 0;
}
