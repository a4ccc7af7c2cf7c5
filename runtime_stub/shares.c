/* A kernel's range, divided among the threads that run it: a share each, and what is left of a share for whoever is done.
 *
 * The owner takes from the front of its share, the others from the back, each time half of what is left, but no less than
 * is worth a call: so in the even case every thread keeps to its own part (whose weights its cache holds from the last
 * run), and none waits longer than one small piece for another. Bits do not depend on who takes what. */

enum { PIECE = 2000000 /* ps worth a call */, BLOCK = 50000 /* ps: bounds are multiples of so much work */ };

typedef struct job {
    onnxc_kernel kernel;
    const int64_t *args;
    int64_t begin, end;
    int64_t block; /* units: a power of two, so that vectors and cache lines are rarely cut */
    int64_t least; /* blocks worth a call */
} job;

/* First block and end of what is left. */
typedef _Atomic uint64_t share;

static uint64_t share_of(int64_t first, int64_t end) {
    return (uint64_t)first << 32 | (uint64_t)end;
}

static job job_of(onnxc_kernel kernel, const int64_t *args, int64_t begin, int64_t end, int64_t picoseconds) {
    job j = {.kernel = kernel, .args = args, .begin = begin, .end = end, .block = 1};
    while (picoseconds < BLOCK / j.block || (end - begin) / j.block >= INT32_MAX) j.block *= 2;
    j.least = picoseconds < PIECE / j.block ? PIECE / (j.block * picoseconds) : 1;
    return j;
}

static int64_t job_blocks(const job *j) {
    return (j->end - j->begin + j->block - 1) / j->block;
}

/* Runs one piece of the share; 0: nothing is left of it. */
static int share_run(share *s, const job *j, int is_own) {
    uint64_t seen = atomic_load_explicit(s, memory_order_relaxed), rest;
    int64_t first, end;
    do {
        first = (int64_t)(seen >> 32);
        end = (int64_t)(seen & UINT32_MAX);
        if (first >= end) return 0;
        const int64_t half = (end - first + 1) / 2, most = half > j->least ? half : j->least;
        const int64_t taken = most < end - first ? most : end - first;
        rest = is_own ? share_of(first + taken, end) : share_of(first, end - taken);
        if (is_own)
            end = first + taken;
        else
            first = end - taken;
    } while (!atomic_compare_exchange_weak_explicit(s, &seen, rest, memory_order_relaxed, memory_order_relaxed));
    const int64_t stop = j->begin + end * j->block;
    j->kernel(j->args, j->begin + first * j->block, stop < j->end ? stop : j->end);
    return 1;
}
