/* How a thread waits for a word that another thread will change: spinning as long as that pays, then asleep (futex).
 *
 * Waking a sleeper takes 30 to 50 µs on a virtual machine, a spinner notices in a tenth of one. Where others want its CPU, a
 * worker is taken off it at the end of its time slice, for some ms, and if it holds a piece of a kernel then, all wait for
 * it. So it offers its CPU by itself, well before that, whenever it has run for a while and holds nothing. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    HOLE = 50000,   /* ns between two looks at the clock: another thread had the CPU */
    TURN = 1000000, /* ns at a stretch: less than the time slices of Linux' schedulers */
};

/* A worker's time on its CPU. */
typedef struct turn {
    int64_t began;
    const _Atomic int32_t *callers; /* CPU */
} turn;

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

static int turn_is_over(const turn *t) {
    return now() - t->began > TURN;
}

/* Lets others run, who may be waiting for this CPU. */
static void turn_offer(turn *t) {
    sched_yield();
    t->began = now();
}

static int turn_is_in_the_way(const turn *t) {
    return sched_getcpu() == atomic_load_explicit(t->callers, memory_order_relaxed);
}

/* Spins while the word is `value`, at most `*limit` ns of this thread's own time (another thread may change it); returns
 * the last value seen. A worker (with a turn) does so only on another CPU than the caller. */
static uint32_t spin_while(_Atomic uint32_t *word, uint32_t value, const _Atomic int64_t *limit, turn *t) {
    uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
    if (seen != value || (t && turn_is_in_the_way(t))) return seen;
    int64_t spun = 0, last = now();
    while (spun < atomic_load_explicit(limit, memory_order_relaxed)) {
        for (int i = 0; i < 16; i++) {
            relax();
            seen = atomic_load_explicit(word, memory_order_acquire);
            if (seen != value) return seen;
        }
        const int64_t before = last;
        last = now();
        if (last - before < HOLE) {
            spun += last - before;
        } else if (t) {
            t->began = last;
            if (turn_is_in_the_way(t)) return seen;
        }
        if (t && last - t->began > TURN) turn_offer(t);
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
