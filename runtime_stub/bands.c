/* Kernels that take turns: each makes some rows of its result, which the next one reads while they are in cache.
 *
 * What a thread makes but for the last result lies in room of its own, in buffers for a part of the rows. A thread that
 * goes on where it was finds there what the band before has left; else it makes the rows that bands share once more. Bits
 * do not depend on that: a row is computed by the same code from the same numbers. Who provides rooms: env_bands.c, and
 * timing.c for candidates. */

/* A thread's room; whoever runs a piece takes one that is free, and there are as many as threads. */
typedef struct band_room {
    _Alignas(64) _Atomic int32_t taken;
    _Atomic int64_t next; /* the band after the last one that was run with it */
    char *memory;
} band_room;

typedef struct band_job {
    const onnxc_bands *bands;
    const int64_t *args;
    int32_t count; /* of rooms */
    band_room *rooms;
} band_job;

static const onnxc_band_kernel *band_kernels(const onnxc_bands *b) {
    return (const onnxc_band_kernel *)(b + 1);
}

static const onnxc_band_step *band_steps(const onnxc_bands *b, int64_t band) {
    return (const onnxc_band_step *)(band_kernels(b) + b->kernels) + band * b->kernels;
}

/* Lets the buffer begin with its new base, and the two kernels' arguments point to it. */
static void place_buffer(const onnxc_band_kernel *k, const onnxc_band_step *now, const onnxc_band_step *before,
                         char *memory) {
    int64_t *args = (int64_t *)(void *)memory;
    char *buffer = memory + k->buffer;
    if (before && now->base != before->base && before->top > now->base)
        memmove(buffer, buffer + (now->base - before->base), (size_t)(before->top - now->base));
    args[k->result] = args[k->operand] = (int64_t)(uintptr_t)buffer - now->base; /* the kernel adds at least base */
}

static void run_band(const onnxc_bands *b, int64_t band, int goes_on, char *memory) {
    const onnxc_band_step *now = band_steps(b, band), *before = goes_on ? band_steps(b, band - 1) : NULL;
    const int64_t *args = (const int64_t *)(const void *)memory;
    for (int64_t i = 0; i < b->kernels; i++) {
        const onnxc_band_kernel *k = band_kernels(b) + i;
        const int64_t first = before && before[i].end > now[i].fresh ? before[i].end : now[i].fresh;
        if (i + 1 < b->kernels) place_buffer(k, now + i, before ? before + i : NULL, memory);
        const onnxc_kernel kernel = (onnxc_kernel)(uintptr_t)args[k->kernel];
        if (first < now[i].end) kernel(args + k->kernel + 1, first, now[i].end);
    }
}

static int room_take(band_room *r) {
    int32_t free = 0;
    return atomic_compare_exchange_strong_explicit(&r->taken, &free, 1, memory_order_acquire, memory_order_relaxed);
}

/* The room in which the band before `begin` was run, if nobody else has it; else any. */
static band_room *find_room(const band_job *j, int64_t begin) {
    for (int32_t i = 0; i < j->count; i++)
        if (atomic_load_explicit(&j->rooms[i].next, memory_order_relaxed) == begin && room_take(&j->rooms[i]))
            return &j->rooms[i];
    for (;;)
        for (int32_t i = 0; i < j->count; i++)
            if (room_take(&j->rooms[i])) return &j->rooms[i];
}

/* A kernel of its own for the pool: args are a job, the extent counts bands. */
static void run_bands(const int64_t *args, int64_t begin, int64_t end) {
    const band_job *j = (const void *)args;
    band_room *room = find_room(j, begin);
    const int goes_on = atomic_load_explicit(&room->next, memory_order_relaxed) == begin && begin > 0;
    for (int64_t band = begin; band < end; band++) run_band(j->bands, band, goes_on || band > begin, room->memory);
    atomic_store_explicit(&room->next, end, memory_order_relaxed);
    atomic_store_explicit(&room->taken, 0, memory_order_release);
}

static void room_set_up(band_room *r, const band_job *j, char *memory) {
    r->memory = memory;
    atomic_store_explicit(&r->taken, 0, memory_order_relaxed);
    atomic_store_explicit(&r->next, 0, memory_order_relaxed);
    memcpy(memory, j->args, (size_t)j->bands->words * sizeof *j->args);
}
