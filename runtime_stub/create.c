/* Making and ending contexts, and the typed entry that needs none. */

static void context_destroy(onnxc_context *context_) {
    context *c = whole(context_);
    const memory m = c->memory;
    if (c->owned)
        for (int32_t i = 0; i < c->head.model->output_count; i++) aligned_put(&m, c->owned[i].data);
    aligned_put(&m, c->workspace.data);
    aligned_put(&m, c->slab);
    chunks_put(&m, c->arena.first);
    weights_drop(c);
    m.free(m.user, c);
}

/* The next `count` elements of the slab; counts only while it has no memory. */
#define TAKE(c, field, count)                                                                             \
    do {                                                                                                  \
        if ((c)->slab) (c)->field = (void *)((char *)(c)->slab + used);                                   \
        used += ((int64_t)(count) * (int64_t)sizeof *(c)->field + ALIGNMENT - 1) & ~(int64_t)(ALIGNMENT - 1); \
    } while (0)

/* Lays out the context's arrays; returns the bytes that they take. */
static int64_t slab_lay_out(context *c) {
    const onnxc_model *m = c->head.model;
    int64_t used = 0;
    TAKE(c, in_dims, m->in_dim_count);
    TAKE(c, out_dims, m->out_dim_count);
    TAKE(c, real_dims, m->out_dim_count);
    TAKE(c, same_as, m->in_dim_count);
    TAKE(c, in_data, m->input_count);
    TAKE(c, out_data, m->output_count);
    TAKE(c, owned, m->output_count);
    TAKE(c, room, m->output_count);
    TAKE(c, out_bytes, m->output_count);
    return used;
}

static int32_t slab_create(context *c) {
    const int64_t bytes = slab_lay_out(c);
    c->slab = aligned_get(&c->memory, bytes);
    if (!c->slab) return fail(c, ONNXC_OUT_OF_MEMORY, "out of memory");
    memset(c->slab, 0, (size_t)bytes);
    slab_lay_out(c);
    return ONNXC_OK;
}

static const onnxc_dim *input_dim(const onnxc_model *m, int32_t dim) {
    int32_t axis;
    const onnxc_value *value = dim_owner(m, dim, &axis);
    return &value->dims[axis];
}

/* Which free dims must agree, and no dims known yet. */
static void link_dims(context *c) {
    const onnxc_model *m = c->head.model;
    for (int32_t i = 0; i < m->in_dim_count; i++) {
        const onnxc_dim *dim = input_dim(m, i);
        c->in_dims[i] = -1;
        c->same_as[i] = i;
        if (dim->value >= 0 || !dim->name) continue;
        for (int32_t j = i - 1; j >= 0; j--) {
            const onnxc_dim *before = input_dim(m, j);
            if (before->value < 0 && before->name && !strcmp(before->name, dim->name)) c->same_as[i] = c->same_as[j];
        }
    }
}

/* Some variant must run here. */
static int32_t check_cpu(context *c) {
    const onnxc_model *m = c->head.model;
    const onnxc_variant *last = m->variants[m->variant_count - 1];
    for (int32_t i = 0; i < m->variant_count; i++)
        if (!lacking(c, m->variants[i])) return ONNXC_OK;
    fail(c, ONNXC_BAD_CPU, "model '%s' was compiled for %s, but this CPU lacks", m->name, last->target);
    append_lacking(c->message, MESSAGE_ROOM, c, last);
    return ONNXC_BAD_CPU;
}

static int32_t use_threads(context *c, const onnxc_options *options) {
    if (options->threads < 0)
        return fail(c, ONNXC_BAD_ARGUMENT, "%d threads are asked for; 0 means all that this process may use",
                    options->threads);
#if ONNXC_THREADS
    c->pool = options->pool ? options->pool : &onnxc_pool_4;
    c->env.threads = options->threads ? options->threads : usable_cpus();
    if (c->env.threads > MOST_THREADS) c->env.threads = MOST_THREADS;
#endif
    return ONNXC_OK;
}

/* Everything but the memory of the context itself. */
static int32_t set_up(context *c, const onnxc_options *options) {
    c->env = (onnxc_env){.parallel = env_parallel, .alloc = env_alloc, .mark = env_mark, .release = env_release,
                         .output = env_output, .bands = env_bands, .threads = 1};
    c->given_workspace = options->workspace;
    c->given_bytes = options->workspace_bytes > INT64_MAX ? INT64_MAX : (int64_t)options->workspace_bytes;
    c->features = cpu_features() & ~options->hidden_features;
    int32_t status = check_cpu(c);
    if (!status && (uintptr_t)options->workspace % ALIGNMENT)
        status = fail(c, ONNXC_BAD_ARGUMENT, "the given workspace is not aligned to %d bytes", ALIGNMENT);
    if (!status) status = use_threads(c, options);
    if (!status) status = weights_map(c, options->weights_path);
    if (!status) status = slab_create(c);
    if (status) return status;
    c->env.weights = c->weights;
    link_dims(c);
    return ONNXC_OK;
}

static int32_t context_create(const onnxc_model *model, const onnxc_options *given, onnxc_context **result) {
    onnxc_options options = {.size = sizeof options};
    if (given) memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    const int own = options.alloc && options.free;
    const memory m = {own ? options.alloc : plain_alloc, own ? options.free : plain_free, options.user};
    context *c = m.alloc(m.user, sizeof *c);
    *result = (onnxc_context *)c;
    if (!c) return ONNXC_OUT_OF_MEMORY;
    memset(c, 0, sizeof *c);
    c->head.model = model;
    c->memory = m;
    c->unusable = set_up(c, &options);
    return c->unusable;
}

/* Runs a model of fixed shapes on one thread; the workspace is 64-byte aligned and of the variant's size. */
static int32_t call(const onnxc_model *model, const void *const *inputs, void *const *outputs, void *workspace) {
    enum { MOST_DIMS = 128 };
    const onnxc_variant *v = model->variants[model->variant_count - 1];
    int64_t dims[MOST_DIMS];
    if (model->in_dim_count > MOST_DIMS) return ONNXC_BAD_ARGUMENT;
    for (int32_t i = 0, at = 0; i < model->input_count; i++)
        for (int32_t axis = 0; axis < model->inputs[i]->rank; axis++) dims[at++] = model->inputs[i]->dims[axis].value;
    context c = {.head = {model}, .memory = {plain_alloc, plain_free, NULL}};
    c.env = (onnxc_env){.parallel = env_parallel, .alloc = env_alloc, .mark = env_mark, .release = env_release,
                        .output = env_output, .bands = env_bands, .weights = model->weights, .threads = 1};
    int32_t number = v->run(&c.env, inputs, dims, outputs, workspace);
    if (!number) number = atomic_load_explicit(&c.env.status, memory_order_relaxed);
    chunks_put(&c.memory, c.arena.first);
    if (!number) return ONNXC_OK;
    return number == ONNXC_RUN_NO_MEMORY ? ONNXC_OUT_OF_MEMORY : ONNXC_MODEL_ERROR;
}
