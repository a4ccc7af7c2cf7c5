/* The pool of threads that run one kernel's range together with the caller.
 *
 * A worker is one word that the caller and the worker exchange (futex): there is no queue and no lock to wait for. A part
 * that its worker has not begun by the time the caller has finished its own is taken back and run by the caller, so that a
 * sleeping or preempted worker costs no more than its share. All contexts of the process share one pool; whoever finds it
 * busy runs its kernel alone. Bits do not depend on the split. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST_WORKERS = 255, LONGEST_SPIN = 10000 /* ns: a core that two threads share loses the whole spin */ };

/* IDLE: spinning. SLEEPING: to be woken. POSTED: a part waits. TAKEN: being run. AWAITED: … and the caller sleeps. */
enum { IDLE, SLEEPING, POSTED, TAKEN, AWAITED, STOP };

typedef struct worker {
    _Alignas(64) _Atomic uint32_t word;
    pthread_t thread;
    onnxc_kernel kernel;
    const int64_t *args;
    int64_t begin, end;
} worker;

struct onnxc_pool {
    /* called through the pool, since it may be another library's */
    void (*attach)(onnxc_pool *);
    void (*run)(onnxc_pool *, int32_t threads, onnxc_kernel, const int64_t *args, int64_t extent, int64_t grain);
    _Atomic int32_t owner; /* the process whose threads these are; negative: being reset after a fork */
    _Atomic uint32_t busy;
    int32_t count;
    int64_t spin; /* of the caller */
    worker *workers[MOST_WORKERS];
};

static void pool_attach(onnxc_pool *p);
static void pool_run(onnxc_pool *p, int32_t threads, onnxc_kernel kernel, const int64_t *args, int64_t extent,
                     int64_t grain);

/* Weak and hidden: models that are linked together share it, and no library exports it. The only mutable static. */
extern struct onnxc_pool onnxc_pool_1;
__attribute__((weak, visibility("hidden"))) struct onnxc_pool onnxc_pool_1 = {.attach = pool_attach, .run = pool_run};

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

static void futex_wait(_Atomic uint32_t *word, uint32_t while_it_is) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_it_is, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Spins while the word is `value`, at most `limit` ns; returns the last value seen. */
static uint32_t spin_while(_Atomic uint32_t *word, uint32_t value, int64_t limit) {
    uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
    if (seen != value || limit <= 0) return seen;
    const int64_t until = now() + limit;
    do {
        for (int i = 0; i < 16 && seen == value; i++) {
            relax();
            seen = atomic_load_explicit(word, memory_order_acquire);
        }
    } while (seen == value && now() < until);
    return seen;
}

/* Waits for a change from `idle`, asleep as `asleep` after a spin that adapts: a spin in vain halves the next one, a
 * sleep that a spin would have spared restores it. */
static uint32_t wait_change(_Atomic uint32_t *word, uint32_t idle, uint32_t asleep, int64_t *spin) {
    uint32_t seen = spin_while(word, idle, *spin);
    if (seen != idle) return seen;
    if (!atomic_compare_exchange_strong(word, &seen, asleep)) return seen;
    const int64_t slept = now();
    do {
        futex_wait(word, asleep);
        seen = atomic_load_explicit(word, memory_order_acquire);
    } while (seen == asleep);
    *spin = now() - slept < 2 * LONGEST_SPIN ? LONGEST_SPIN : *spin / 2;
    return seen;
}

static void *work(void *argument) {
    worker *w = argument;
    int64_t spin = LONGEST_SPIN;
    for (;;) {
        uint32_t seen = wait_change(&w->word, IDLE, SLEEPING, &spin);
        if (seen == STOP) return NULL;
        if (seen != POSTED || !atomic_compare_exchange_strong(&w->word, &seen, TAKEN)) continue;
        w->kernel(w->args, w->begin, w->end);
        if (atomic_exchange(&w->word, IDLE) == AWAITED) futex_wake(&w->word);
    }
}

/* A thread that takes no signals: those are the program's own threads' to handle. */
static worker *worker_start(void) {
    worker *w = aligned_alloc(_Alignof(worker), sizeof(worker));
    uint64_t all = ~(uint64_t)0, before;
    if (!w) return NULL;
    memset(w, 0, sizeof *w);
    syscall(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, &before, sizeof all);
    const int failed = pthread_create(&w->thread, NULL, work, w);
    syscall(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &before, NULL, sizeof before);
    if (failed) {
        free(w);
        return NULL;
    }
    return w;
}

static int pool_lock(onnxc_pool *p) {
    return !atomic_load_explicit(&p->busy, memory_order_relaxed) && !atomic_exchange(&p->busy, 1);
}

static void pool_unlock(onnxc_pool *p) {
    atomic_store_explicit(&p->busy, 0, memory_order_release);
}

/* Once a run: in a process that has forked since, the threads are not there, and the pool begins anew. */
static void pool_attach(onnxc_pool *p) {
    const int32_t self = (int32_t)getpid();
    int32_t owner = atomic_load(&p->owner);
    while (owner != self) {
        if (owner == -self) {
            relax();
            owner = atomic_load(&p->owner);
        } else if (atomic_compare_exchange_strong(&p->owner, &owner, -self)) {
            p->count = 0;
            p->spin = LONGEST_SPIN;
            pool_unlock(p);
            atomic_store(&p->owner, self);
            return;
        }
    }
}

/* Its part of the range, which is the caller's to run unless the worker took it; then waits for the worker. */
static void part_finish(onnxc_pool *p, worker *w) {
    uint32_t seen = POSTED;
    if (atomic_compare_exchange_strong(&w->word, &seen, IDLE)) {
        w->kernel(w->args, w->begin, w->end);
        return;
    }
    if (seen == TAKEN) wait_change(&w->word, TAKEN, AWAITED, &p->spin);
}

static void pool_run(onnxc_pool *p, int32_t threads, onnxc_kernel kernel, const int64_t *args, int64_t extent,
                     int64_t grain) {
    const int64_t grains = grain > 0 ? (extent + grain - 1) / grain : extent;
    const int64_t step = grain > 0 ? grain : 1;
    int64_t parts = grains < threads ? grains : threads;
    if (parts < 2 || !pool_lock(p)) {
        kernel(args, 0, extent);
        return;
    }
    while (p->count < parts - 1 && p->count < MOST_WORKERS) {
        worker *w = worker_start();
        if (!w) break;
        p->workers[p->count++] = w;
    }
    if (parts > p->count + 1) parts = p->count + 1;
    const int64_t each = grains / parts, more = grains % parts; /* the first `more` parts have one grain more */
    for (int64_t i = 1; i < parts; i++) {
        worker *w = p->workers[i - 1];
        const int64_t begin = i * each + (i < more ? i : more), end = begin + each + (i < more);
        w->kernel = kernel;
        w->args = args;
        w->begin = begin * step;
        w->end = end * step < extent ? end * step : extent;
        if (atomic_exchange(&w->word, POSTED) == SLEEPING) futex_wake(&w->word);
    }
    const int64_t end = (each + (more > 0)) * step;
    kernel(args, 0, end < extent ? end : extent);
    for (int64_t i = 1; i < parts; i++) part_finish(p, p->workers[i - 1]);
    pool_unlock(p);
}

/* The library is about to go, or the process to end; a run that is under way (the latter) keeps its threads. */
__attribute__((destructor)) static void pool_stop(void) {
    onnxc_pool *p = &onnxc_pool_1;
    if (atomic_load(&p->owner) != (int32_t)getpid() || !pool_lock(p)) return;
    for (int32_t i = 0; i < p->count; i++) {
        worker *w = p->workers[i];
        if (atomic_exchange(&w->word, STOP) == SLEEPING) futex_wake(&w->word);
        pthread_join(w->thread, NULL);
        free(w);
    }
    p->count = 0;
    pool_unlock(p);
}
