/* Where main's kernels that take turns (bands.c) get their rooms. */

/* The caller has room for one thread; more comes from the arena, and where that has none, one thread does it all. */
static void env_bands(onnxc_env *env, const onnxc_bands *b, const int64_t *args, void *scratch) {
    band_room one;
    band_job job = {b, args, 1, &one};
    context *c = of_env(env);
    const int64_t mark = arena_mark(&c->arena);
#if ONNXC_THREADS
    const int32_t threads = parts_worth(env->threads, b->count, b->picoseconds);
    if (threads > 1) {
        band_room *rooms = arena_get(&c->memory, &c->arena, threads * (int64_t)sizeof *rooms);
        char *more = rooms ? arena_get(&c->memory, &c->arena, (threads - 1) * b->bytes) : NULL;
        if (more) {
            job.rooms = rooms;
            job.count = threads;
            for (int32_t i = 1; i < threads; i++) room_set_up(&rooms[i], &job, more + (i - 1) * b->bytes);
        }
    }
#endif
    room_set_up(job.rooms, &job, scratch);
    if (job.count > 1)
        env_parallel(env, run_bands, (const int64_t *)(const void *)&job, b->count, b->count, b->picoseconds);
    else
        run_bands((const int64_t *)(const void *)&job, 0, b->count);
    arena_release(&c->arena, mark);
}
