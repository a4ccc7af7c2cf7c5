/* How a thread waits for a word that another thread will change: spinning as long as that pays, then asleep (futex).
 *
 * Waking a sleeper takes 30 to 40 µs on a virtual machine, a spinner notices in a tenth of one. But where threads share
 * a core, a spin takes the time from the very thread it waits for. A hole in a spinner's time, between two looks at the
 * clock, tells that another thread has run on its core: then it sleeps at once, and does not spin for a while. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { HOLE = 50000, REST = 10000000 /* ns without spinning after a hole */ };

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Spins while the word is `value`, at most `*limit` ns (another thread may change it) and not before `*rested`, which a
 * hole moves on; returns the last value seen. */
static uint32_t spin_while(_Atomic uint32_t *word, uint32_t value, const _Atomic int64_t *limit, int64_t *rested) {
    uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
    if (seen != value) return seen;
    const int64_t start = now();
    int64_t last = start;
    if (start < *rested) return seen;
    while (last - start < atomic_load_explicit(limit, memory_order_relaxed)) {
        for (int i = 0; i < 16; i++) {
            relax();
            seen = atomic_load_explicit(word, memory_order_acquire);
            if (seen != value) return seen;
        }
        const int64_t before = last;
        last = now();
        if (last - before > HOLE) {
            *rested = last + REST;
            return seen;
        }
    }
    return seen;
}

/* Sleeps from `awake`, shown to others as `asleep`, until the word is neither; returns what it is. */
static uint32_t sleep_while(_Atomic uint32_t *word, uint32_t awake, uint32_t asleep) {
    uint32_t seen = awake;
    if (!atomic_compare_exchange_strong(word, &seen, asleep)) return seen;
    do {
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, asleep, NULL, NULL, 0);
        seen = atomic_load_explicit(word, memory_order_acquire);
    } while (seen == asleep);
    return seen;
}

static void wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
