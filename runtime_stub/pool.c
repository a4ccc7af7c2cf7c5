/* The pool of threads that run one kernel's range together with the caller.
 *
 * A worker is one word that the caller and the worker exchange: there is no queue and no lock to wait for. The range is
 * shared out (shares.c); a worker that has not come by the time all is taken is called off, so that a sleeping or
 * preempted one costs nothing but the piece it holds. Workers spin between the kernels of a run, and after it as long as
 * the next run has been coming soon (waiting.c). All contexts of the process share one pool; whoever finds it busy runs
 * its kernel alone. */
#include <pthread.h>

enum {
    MOST_WORKERS = 255,
    MOST_THREADS = MOST_WORKERS + 1, /* the caller is one */
    PART = 5000000,         /* ps of work that are worth a thread that is awake */
    WAKING = 40000,         /* ns that must be saved before a sleeping worker is woken */
    SPIN_IN_RUN = 200000,   /* ns from one kernel to the next */
    SPIN_AFTER = 100000,    /* ns after a run */
    SPIN_FOR_PIECE = 20000, /* ns that the caller spins for a worker's last piece, beside the estimate; */
    SPIN_MOST = 1000000,    /* with it */
};

/* IDLE: spinning. SLEEPING: to be woken. POSTED: called. TAKEN: at work. AWAITED: … and the caller sleeps. */
enum { IDLE, SLEEPING, POSTED, TAKEN, AWAITED, STOP };

typedef struct worker {
    _Alignas(64) _Atomic uint32_t word;
    int32_t number; /* from 1; 0 is the caller */
    share share;
    job job;
    struct onnxc_pool *pool;
    pthread_t thread;
    turn turn;
    place place;
} worker;

struct onnxc_pool {
    /* called through the pool, since it may be another library's */
    void (*attach)(onnxc_pool *); /* a run begins … */
    void (*detach)(onnxc_pool *); /* … and ends */
    void (*run)(onnxc_pool *, int32_t threads, onnxc_kernel, const int64_t *args, int64_t begin, int64_t end,
                int64_t picoseconds);
    _Atomic int32_t owner; /* the process whose threads these are; negative: being reset after a fork */
    _Atomic int32_t runs;  /* under way */
    _Atomic int64_t spin;  /* of the workers, now */
    _Atomic int64_t after; /* what it will be after the run */
    _Atomic int64_t ended; /* when the last run did */
    _Alignas(64) _Atomic uint32_t busy;
    int32_t count, parts;
    _Atomic int64_t debt; /* ns lost since the workers sleep */
    _Atomic int32_t cpu;  /* the caller's */
    share share;
    worker *workers[MOST_WORKERS];
};

static void pool_attach(onnxc_pool *p);
static void pool_detach(onnxc_pool *p);
static void pool_run(onnxc_pool *p, int32_t threads, onnxc_kernel kernel, const int64_t *args, int64_t begin,
                     int64_t end, int64_t picoseconds);

/* Weak and hidden: models that are linked together share it, and no library exports it. The only mutable static. Its
 * number is another one whenever the struct or its functions change: models of other versions must not share it. */
extern struct onnxc_pool onnxc_pool_4;
__attribute__((weak, visibility("hidden"))) struct onnxc_pool onnxc_pool_4 = {
    .attach = pool_attach, .detach = pool_detach, .run = pool_run};

/* The whole kernel, in ps. */
static int64_t work_of(int64_t extent, int64_t picoseconds) {
    int64_t work;
    return __builtin_mul_overflow(extent, picoseconds, &work) ? INT64_MAX : work;
}

/* How many threads a kernel is worth: none gets less than PART, nor less than one unit. */
static int32_t parts_worth(int32_t threads, int64_t extent, int64_t picoseconds) {
    const int64_t most = extent < threads ? extent : threads, parts = work_of(extent, picoseconds) / PART;
    return (int32_t)(parts < most ? parts : most);
}

/* Takes what is to be taken, one's own share first, until a worker's turn is over; whether that is so. */
static int take_part(onnxc_pool *p, int32_t number, const job *j, const turn *t) {
    for (int32_t i = 0; i < p->parts; i++) {
        const int32_t whose = (number + i) % p->parts;
        share *s = whose ? &p->workers[whose - 1]->share : &p->share;
        while (share_run(s, j, i == 0))
            if (t && turn_is_over(t)) return 1;
    }
    return 0;
}

static void *work(void *argument) {
    worker *w = argument;
    w->place.thread = (int32_t)syscall(SYS_gettid);
    w->turn = (turn){now(), &w->pool->cpu};
    for (;;) {
        uint32_t seen = spin_while(&w->word, IDLE, &w->pool->spin, &w->turn);
        if (seen == IDLE) {
            seen = sleep_while(&w->word, IDLE, SLEEPING);
            w->turn.began = now();
            lift_bar(&w->place);
        }
        if (seen == STOP) return NULL;
        if (seen != POSTED || !atomic_compare_exchange_strong(&w->word, &seen, TAKEN)) continue;
        const int over = take_part(w->pool, w->number, &w->job, &w->turn);
        if (atomic_exchange(&w->word, over ? POSTED : IDLE) == AWAITED) wake(&w->word);
        if (over) turn_offer(&w->turn);
    }
}

/* A thread that takes no signals: those are the program's own threads' to handle. */
static worker *worker_start(onnxc_pool *p, int32_t number) {
    worker *w = aligned_alloc(_Alignof(worker), sizeof(worker));
    uint64_t all = ~(uint64_t)0, before;
    if (!w) return NULL;
    memset(w, 0, sizeof *w);
    w->pool = p;
    w->number = number;
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

/* In a process that has forked since, the threads are not there, and the pool begins anew. */
static void pool_own(onnxc_pool *p) {
    const int32_t self = (int32_t)getpid();
    int32_t owner = atomic_load(&p->owner);
    while (owner != self) {
        if (owner == -self) {
            relax();
            owner = atomic_load(&p->owner);
        } else if (atomic_compare_exchange_strong(&p->owner, &owner, -self)) {
            p->count = 0;
            atomic_store(&p->runs, 0);
            atomic_store(&p->share, 0);
            pool_unlock(p);
            atomic_store(&p->owner, self);
            return;
        }
    }
}

/* Workers go on spinning after a run while runs follow each other within SPIN_AFTER; else each time half as long. */
static void pool_attach(onnxc_pool *p) {
    pool_own(p);
    const int64_t gap = now() - atomic_load_explicit(&p->ended, memory_order_relaxed);
    const int64_t after = atomic_load_explicit(&p->after, memory_order_relaxed);
    atomic_store_explicit(&p->after, gap < SPIN_AFTER ? SPIN_AFTER : after / 2, memory_order_relaxed);
    if (gap >= SPIN_AFTER) atomic_store_explicit(&p->debt, 0, memory_order_relaxed);
    atomic_fetch_add(&p->runs, 1);
    atomic_store_explicit(&p->spin, SPIN_IN_RUN, memory_order_relaxed);
}

static void pool_detach(onnxc_pool *p) {
    atomic_store_explicit(&p->ended, now(), memory_order_relaxed);
    if (atomic_fetch_sub(&p->runs, 1) == 1)
        atomic_store_explicit(&p->spin, atomic_load_explicit(&p->after, memory_order_relaxed), memory_order_relaxed);
}

/* How many of `parts` threads take part: those asleep, or not started yet, only if that pays. It does once what this
 * kernel and those before it lose without them is more than waking costs. */
static int32_t parts_ready(onnxc_pool *p, int32_t parts, int64_t work) {
    int32_t ready = 1;
    while (ready < parts && ready <= p->count && atomic_load(&p->workers[ready - 1]->word) != SLEEPING) ready++;
    if (ready == parts) return parts;
    const int64_t lost = (work / ready - work / parts) / 1000;
    const int64_t debt = atomic_load_explicit(&p->debt, memory_order_relaxed) + lost;
    atomic_store_explicit(&p->debt, debt < WAKING ? debt : 0, memory_order_relaxed);
    if (debt < WAKING) return ready;
    while (p->count < parts - 1) {
        worker *w = worker_start(p, p->count + 1);
        if (!w) break;
        p->workers[p->count++] = w;
    }
    return parts < p->count + 1 ? parts : p->count + 1;
}

/* Shares first, posts after: a worker that is early finds every share complete. */
static void share_out(onnxc_pool *p, const job *j) {
    const int64_t blocks = job_blocks(j), each = blocks / p->parts, more = blocks % p->parts;
    for (int32_t i = 0; i < p->parts; i++) { /* the first `more` shares have one block more */
        const int64_t first = i * each + (i < more ? i : more), end = first + each + (i < more);
        atomic_store_explicit(i ? &p->workers[i - 1]->share : &p->share, share_of(first, end), memory_order_relaxed);
        if (i) p->workers[i - 1]->job = *j;
    }
    atomic_store_explicit(&p->cpu, sched_getcpu(), memory_order_relaxed);
    for (int32_t i = 1; i < p->parts; i++) {
        worker *w = p->workers[i - 1];
        if (atomic_load_explicit(&w->word, memory_order_acquire) == SLEEPING) bar_own_cpu(&w->place);
        if (atomic_exchange(&w->word, POSTED) == SLEEPING) wake(&w->word);
    }
}

/* Nothing is left to be taken: a worker that has not come, or not come back, is called off, for another's last piece the
 * caller waits, at first (for about as long as a share takes) spinning. */
static void part_finish(onnxc_pool *p, worker *w, int64_t work) {
    const int64_t longest = work / 1000 / p->parts + SPIN_FOR_PIECE;
    const _Atomic int64_t limit = longest < SPIN_MOST ? longest : SPIN_MOST;
    for (uint32_t seen = POSTED; !atomic_compare_exchange_strong(&w->word, &seen, IDLE); seen = POSTED) {
        if (seen != TAKEN) return;
        if (spin_while(&w->word, TAKEN, &limit, NULL) == TAKEN) sleep_while(&w->word, TAKEN, AWAITED);
    }
}

static void pool_run(onnxc_pool *p, int32_t threads, onnxc_kernel kernel, const int64_t *args, int64_t begin,
                     int64_t end, int64_t picoseconds) {
    const int64_t extent = end - begin;
    int32_t parts = parts_worth(threads, extent, picoseconds);
    if (parts < 2 || !pool_lock(p)) {
        kernel(args, begin, end);
        return;
    }
    for (int32_t i = 0; i < parts - 1 && i < p->count; i++) __builtin_prefetch(p->workers[i], 1); /* to be written */
    const int64_t work = work_of(extent, picoseconds);
    parts = parts_ready(p, parts, work);
    p->parts = parts;
    if (parts < 2) {
        pool_unlock(p);
        kernel(args, begin, end);
        return;
    }
    const job j = job_of(kernel, args, begin, end, picoseconds);
    share_out(p, &j);
    take_part(p, 0, &j, NULL);
    for (int32_t i = 1; i < parts; i++) part_finish(p, p->workers[i - 1], work);
    pool_unlock(p);
}

/* The library is about to go, or the process to end; a run that is under way (the latter) keeps its threads. */
__attribute__((destructor)) static void pool_stop(void) {
    onnxc_pool *p = &onnxc_pool_4;
    if (atomic_load(&p->owner) != (int32_t)getpid() || !pool_lock(p)) return;
    for (int32_t i = 0; i < p->count; i++) {
        worker *w = p->workers[i];
        if (atomic_exchange(&w->word, STOP) == SLEEPING) wake(&w->word);
        pthread_join(w->thread, NULL);
        free(w);
    }
    p->count = 0;
    pool_unlock(p);
}
