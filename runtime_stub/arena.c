/* The context's memory: one growing block (workspace, owned outputs) and an arena for sizes known only in a run.
 *
 * Every address handed out is 64-byte aligned. */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    ALIGNMENT = 64,
    FIRST_CHUNK = 1 << 20,
    LARGE_PAGE = 2 << 20,
    MADVISE_LARGE = 14,
    MADVISE_SMALL = 15,
    LARGE_PAGES_TRIED = 8,
    LARGE_PAGE_SLOW = 2000000 /* ns of CPU time to get one: clearing it takes a tenth */
};

typedef struct memory {
    void *(*alloc)(void *user, size_t bytes);
    void (*free)(void *user, void *block);
    void *user;
} memory;

static int64_t cpu_time(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* First touches of large pages take a 512th of the faults, but a system may have to move others' pages together for one,
 * or a host to find its memory anew (5 ms each on a machine that gives free memory back): the first that takes long is
 * the last. */
static void use_large_pages(uintptr_t begin, uintptr_t end) {
    syscall(SYS_madvise, begin, end - begin, MADVISE_LARGE);
    for (int32_t i = 0; i < LARGE_PAGES_TRIED && begin < end; i++) {
        const int64_t start = cpu_time();
        *(volatile char *)begin = 0;
        begin += LARGE_PAGE;
        if (cpu_time() - start < LARGE_PAGE_SLOW) continue;
        syscall(SYS_madvise, begin, end - begin, MADVISE_SMALL);
        return;
    }
}

static void *plain_alloc(void *user, size_t bytes) {
    (void)user;
    void *block = malloc(bytes);
    if (block && bytes >= 2 * LARGE_PAGE) {
        const uintptr_t begin = ((uintptr_t)block + LARGE_PAGE - 1) & ~(uintptr_t)(LARGE_PAGE - 1);
        const uintptr_t end = ((uintptr_t)block + bytes) & ~(uintptr_t)(LARGE_PAGE - 1);
        use_large_pages(begin, end);
    }
    return block;
}

static void plain_free(void *user, void *block) {
    (void)user;
    free(block);
}

/* The caller's own address of a block is kept in the word before it. */
static void *aligned_get(const memory *m, int64_t bytes) {
    if (bytes < 0 || (uint64_t)bytes > SIZE_MAX / 2) return NULL;
    char *raw = m->alloc(m->user, (size_t)bytes + ALIGNMENT + sizeof(void *));
    if (!raw) return NULL;
    uintptr_t at = ((uintptr_t)raw + sizeof(void *) + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    ((void **)at)[-1] = raw;
    return (void *)at;
}

static void aligned_put(const memory *m, void *block) {
    if (block) m->free(m->user, ((void **)block)[-1]);
}

typedef struct block {
    void *data;
    int64_t bytes;
} block;

/* Makes room for `bytes`; what it held is lost. */
static void *block_reserve(const memory *m, block *b, int64_t bytes) {
    if (b->data && b->bytes >= bytes) return b->data;
    aligned_put(m, b->data);
    b->data = aligned_get(m, bytes);
    b->bytes = b->data ? bytes : 0;
    return b->data;
}

/* Chunks form a list; `base` counts the bytes of all chunks before, so that a mark is one number. */
typedef struct chunk {
    struct chunk *previous, *next;
    int64_t base, used, capacity;
    char *data;
} chunk;

typedef struct arena {
    chunk *first, *current;
} arena;

static void chunks_put(const memory *m, chunk *c) {
    while (c) {
        chunk *next = c->next;
        aligned_put(m, c->data);
        m->free(m->user, c);
        c = next;
    }
}

/* A chunk for at least `bytes` after the current one: the next in the list where that is large enough. */
static chunk *chunk_after(const memory *m, arena *a, int64_t bytes) {
    chunk *c = a->current ? a->current->next : a->first;
    if (c && c->capacity < bytes) {
        chunks_put(m, c);
        c = NULL;
    }
    if (!c) {
        int64_t capacity = a->current ? 2 * a->current->capacity : FIRST_CHUNK;
        c = m->alloc(m->user, sizeof(chunk));
        if (c) {
            *c = (chunk){.capacity = capacity < bytes ? bytes : capacity};
            c->data = aligned_get(m, c->capacity);
            if (!c->data) {
                m->free(m->user, c);
                c = NULL;
            }
        }
    }
    if (a->current)
        a->current->next = c;
    else
        a->first = c;
    if (!c) return NULL;
    c->previous = a->current;
    c->base = a->current ? a->current->base + a->current->capacity : 0;
    c->used = 0;
    return c;
}

static void *arena_get(const memory *m, arena *a, int64_t bytes) {
    if (bytes < 0 || bytes > INT64_MAX / 4) return NULL;
    bytes = (bytes + ALIGNMENT - 1) & ~(int64_t)(ALIGNMENT - 1);
    if (!a->current || a->current->capacity - a->current->used < bytes) {
        chunk *c = chunk_after(m, a, bytes);
        if (!c) return NULL;
        a->current = c;
    }
    void *at = a->current->data + a->current->used;
    a->current->used += bytes;
    return at;
}

static int64_t arena_mark(const arena *a) {
    return a->current ? a->current->base + a->current->used : 0;
}

static void arena_release(arena *a, int64_t mark) {
    while (a->current && a->current->base > mark) a->current = a->current->previous;
    if (a->current) a->current->used = mark - a->current->base;
}
