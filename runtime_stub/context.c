/* The context: all that changes between and during runs. */

enum { MESSAGE_ROOM = 4096 };

typedef struct context {
    onnxc_context head;
    onnxc_env env; /* generated code gets its address, and gives it back to the functions below */
    memory memory;
    arena arena;
    block workspace;
    void *given_workspace;
    int64_t given_bytes;
    void *slab; /* holds the arrays below */
    int32_t unusable; /* the status that creating it ended with */
    onnxc_pool *pool;
    int32_t attached; /* to the pool, in this run */
    const void *weights;
    int64_t mapped_bytes; /* of the weights' file */
    const onnxc_variant *variant; /* that the dims below were prepared by; NULL: none yet */
    const onnxc_variant *served;
    uint64_t features;
    int64_t workspace_needed;
    /* dims of all inputs, one after another, of the last run; of the outputs as prepared, and as they came out */
    int64_t *in_dims, *out_dims, *real_dims;
    int32_t *same_as; /* a free input dim: the first dim of that name, or itself */
    const void **in_data;
    void **out_data;
    block *owned;        /* outputs' memory */
    int64_t *room;       /* behind a caller's output, -1: the context's own memory */
    int64_t *out_bytes;
    int32_t too_small;   /* an output whose room did not do, or -1 */
    char message[MESSAGE_ROOM];
} context;

static context *whole(const onnxc_context *c) {
    return (context *)(uintptr_t)c;
}

static context *of_env(onnxc_env *env) {
    return (context *)(void *)((char *)env - offsetof(context, env));
}

/* Notes the message and returns the status. */
__attribute__((format(printf, 3, 4))) static int32_t fail(context *c, int32_t status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->message, sizeof c->message, format, arguments);
    va_end(arguments);
    return status;
}

/* Adds to a message that is being put together. */
__attribute__((format(printf, 3, 4))) static void append(char *text, size_t room, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    if (used < room) vsnprintf(text + used, room - used, format, arguments);
    va_end(arguments);
}

static const char *context_message(const onnxc_context *c) {
    return whole(c)->message;
}

static const onnxc_variant *context_variant(const onnxc_context *c) {
    return whole(c)->served;
}

static onnxc_pool *context_pool(const onnxc_context *c) {
    return whole(c)->pool;
}

static int32_t context_threads(const onnxc_context *c) {
    return whole(c)->env.threads;
}

static void *env_alloc(onnxc_env *env, int64_t bytes) {
    context *c = of_env(env);
    return arena_get(&c->memory, &c->arena, bytes);
}

static int64_t env_mark(onnxc_env *env) {
    return arena_mark(&of_env(env)->arena);
}

static void env_release(onnxc_env *env, int64_t mark) {
    arena_release(&of_env(env)->arena, mark);
}

/* Memory for an output whose dims only the run could tell. */
static void *env_output(onnxc_env *env, int32_t index, const int64_t *dims, int64_t bytes) {
    context *c = of_env(env);
    const onnxc_model *m = c->head.model;
    int64_t *to = c->real_dims;
    for (int32_t i = 0; i < index; i++) to += m->outputs[i]->rank;
    for (int32_t i = 0; i < m->outputs[index]->rank; i++) to[i] = dims[i];
    c->out_bytes[index] = bytes;
    if (c->room[index] < 0) return c->out_data[index] = block_reserve(&c->memory, &c->owned[index], bytes);
    if (c->room[index] >= bytes) return c->out_data[index];
    c->too_small = index;
    return NULL;
}

static void env_parallel(onnxc_env *env, onnxc_kernel kernel, const int64_t *args, int64_t extent, int64_t round,
                         int64_t picoseconds) {
#if ONNXC_THREADS
    context *c = of_env(env);
    if (parts_worth(env->threads, round, picoseconds) > 1) {
        if (!c->attached) c->pool->attach(c->pool);
        c->attached = 1;
        for (int64_t begin = 0; begin < extent; begin += round)
            c->pool->run(c->pool, env->threads, kernel, args, begin, begin + round, picoseconds);
        return;
    }
#else
    (void)env, (void)round, (void)picoseconds;
#endif
    kernel(args, 0, extent);
}

/* The run is over. */
static void leave_pool(context *c) {
#if ONNXC_THREADS
    if (c->attached) c->pool->detach(c->pool);
#endif
    c->attached = 0;
}
