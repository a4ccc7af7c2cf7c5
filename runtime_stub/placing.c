/* Which CPU a worker runs on: another one than the caller's, as far as there is one.
 *
 * A kernel places a thread that it wakes by rules of its own: beside the waker where it takes the CPUs for idle enough to
 * be packed, or where all are busy. There the worker takes the caller's time instead of saving it, until some tick moves
 * one of them. So the caller bars its own CPU to a worker that it is about to wake, and the worker, once awake, lifts that. */
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MASK_WORDS = 8192 / (8 * sizeof(long)) }; /* as many CPUs as Linux may have */

typedef struct place {
    int32_t thread;    /* its id */
    size_t word;       /* of a mask, and … */
    unsigned long bit; /* … in it: the CPU that is barred to it */
    long bytes;        /* of a mask; 0: nothing is barred to it */
    unsigned long mask[MASK_WORDS]; /* the CPUs it may use: all but that one, for now */
} place;

/* Bars this thread's CPU to a thread that sleeps. */
static void bar_own_cpu(place *p) {
    const int cpu = sched_getcpu();
    const long got = syscall(SYS_sched_getaffinity, p->thread, sizeof p->mask, p->mask);
    p->word = (size_t)cpu / (8 * sizeof(long));
    p->bit = 1ul << (size_t)cpu % (8 * sizeof(long));
    if (got <= 0 || cpu < 0 || p->word >= (size_t)got / sizeof(long) || !(p->mask[p->word] & p->bit)) return;
    p->mask[p->word] &= ~p->bit;
    const long failed = syscall(SYS_sched_setaffinity, p->thread, got, p->mask); /* there is no other */
    p->mask[p->word] |= p->bit;
    p->bytes = failed ? 0 : got;
}

/* Lifts it; called by the thread itself. What another thread has said since of the CPUs that it may use stands. */
static void lift_bar(place *p) {
    unsigned long mask[MASK_WORDS];
    if (p->bytes && syscall(SYS_sched_getaffinity, 0, sizeof mask, mask) == p->bytes) {
        mask[p->word] |= p->bit;
        if (!memcmp(mask, p->mask, (size_t)p->bytes)) syscall(SYS_sched_setaffinity, 0, p->bytes, mask);
    }
    p->bytes = 0;
}
