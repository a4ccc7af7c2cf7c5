/* A run: check the inputs, pick a variant (pick.c), prepare it, find memory, call it, hand out the outputs. */

static int32_t model_error(context *c, int32_t number) {
    const onnxc_model *m = c->head.model;
    if (number > 0 && number <= m->error_count) return fail(c, ONNXC_MODEL_ERROR, "%s", m->errors[number - 1]);
    return fail(c, ONNXC_MODEL_ERROR, "the model failed with the unknown error %d", number);
}

/* Leaves the context ready to run on these inputs' dims: variant, output dims and workspace size are known. */
static int32_t prepare(context *c, const onnxc_tensor *inputs, int32_t count) {
    if (c->unusable) return c->unusable;
    int32_t status = check_inputs(c, inputs, count);
    if (status || c->variant) return status;
    const onnxc_variant *v;
    status = pick(c, &v);
    if (status) return status;
    const int32_t number = v->prepare(c->in_dims, c->out_dims, &c->workspace_needed);
    if (number == ONNXC_RUN_NO_MEMORY) return fail(c, ONNXC_OUT_OF_MEMORY, "out of memory");
    if (number) return model_error(c, number);
    c->variant = v;
    return ONNXC_OK;
}

static int dims_known(int32_t rank, const int64_t *dims) {
    for (int32_t i = 0; i < rank; i++)
        if (dims[i] < 0) return 0;
    return 1;
}

/* Where output i goes. */
static int32_t place_output(context *c, int32_t i, const onnxc_tensor *given, const int64_t *dims) {
    const onnxc_value *value = c->head.model->outputs[i];
    if (given->name && strcmp(given->name, value->name))
        return fail(c, ONNXC_BAD_ARGUMENT, "'%s' is given where output '%s' is expected", given->name, value->name);
    const int owned = !given->data || given->data == c->owned[i].data; /* the latter: left there by the last run */
    c->out_data[i] = owned ? NULL : given->data;
    c->room[i] = owned ? -1 : given->bytes;
    c->out_bytes[i] = -1;
    if (!dims_known(value->rank, dims)) return ONNXC_OK;
    const int64_t bytes = tensor_bytes(value->dtype, value->rank, dims);
    char text[FEW];
    if (!owned && (given->bytes < bytes || bytes < 0))
        return fail(c, ONNXC_BAD_ARGUMENT, "output '%s' %s needs %lld bytes, its buffer has %lld", value->name,
                    dims_text(text, value->rank, dims), (long long)bytes, (long long)given->bytes);
    if (owned) c->out_data[i] = bytes < 0 ? NULL : block_reserve(&c->memory, &c->owned[i], bytes);
    if (!c->out_data[i])
        return fail(c, ONNXC_OUT_OF_MEMORY, "no memory for output '%s' %s", value->name,
                    dims_text(text, value->rank, dims));
    c->out_bytes[i] = bytes;
    return ONNXC_OK;
}

static int32_t find_memory(context *c, const onnxc_tensor *outputs, int32_t count) {
    const onnxc_model *m = c->head.model;
    int32_t status = check_count(c, "output", count, m->output_count, m->outputs);
    for (int32_t i = 0, at = 0; !status && i < count; at += m->outputs[i++]->rank)
        status = place_output(c, i, &outputs[i], c->out_dims + at);
    if (status) return status;
    memcpy(c->real_dims, c->out_dims, (size_t)m->out_dim_count * sizeof *c->out_dims);
    if (c->given_workspace) {
        if (c->given_bytes >= c->workspace_needed) return ONNXC_OK;
        return fail(c, ONNXC_BAD_ARGUMENT, "the given workspace has %lld bytes, these shapes need %lld",
                    (long long)c->given_bytes, (long long)c->workspace_needed);
    }
    if (block_reserve(&c->memory, &c->workspace, c->workspace_needed)) return ONNXC_OK;
    return fail(c, ONNXC_OUT_OF_MEMORY, "no memory for a workspace of %lld bytes", (long long)c->workspace_needed);
}

static int32_t execute(context *c) {
    void *workspace = c->given_workspace ? c->given_workspace : c->workspace.data;
    arena_release(&c->arena, 0);
    c->too_small = -1;
    atomic_store_explicit(&c->env.status, 0, memory_order_relaxed);
    int32_t number = c->variant->run(&c->env, c->in_data, c->in_dims, c->out_data, workspace);
    leave_pool(c);
    if (!number) number = atomic_load_explicit(&c->env.status, memory_order_relaxed);
    if (!number) return ONNXC_OK;
    if (number != ONNXC_RUN_NO_MEMORY) return model_error(c, number);
    if (c->too_small < 0) return fail(c, ONNXC_OUT_OF_MEMORY, "out of memory");
    return fail(c, ONNXC_BAD_ARGUMENT, "output '%s' needs %lld bytes, its buffer has %lld",
                c->head.model->outputs[c->too_small]->name, (long long)c->out_bytes[c->too_small],
                (long long)c->room[c->too_small]);
}

static int32_t run(onnxc_context *context_, const onnxc_tensor *inputs, int32_t input_count, onnxc_tensor *outputs,
                   int32_t output_count) {
    context *c = whole(context_);
    int32_t status = prepare(c, inputs, input_count);
    if (!status) status = find_memory(c, outputs, output_count);
    if (!status) status = execute(c);
    if (status) return status;
    const onnxc_model *m = c->head.model;
    for (int32_t i = 0, at = 0; i < output_count; at += m->outputs[i++]->rank) {
        outputs[i].data = c->out_data[i];
        outputs[i].dims = c->real_dims + at;
        outputs[i].bytes = c->out_bytes[i];
        outputs[i].rank = m->outputs[i]->rank;
        outputs[i].dtype = m->outputs[i]->dtype;
    }
    c->served = c->variant;
    return ONNXC_OK;
}

static int32_t output_shapes(onnxc_context *context_, const onnxc_tensor *inputs, int32_t input_count,
                             onnxc_tensor *outputs, int32_t output_count, int64_t *workspace_bytes) {
    context *c = whole(context_);
    const onnxc_model *m = c->head.model;
    int32_t status = prepare(c, inputs, input_count);
    if (!status) status = check_count(c, "output", output_count, m->output_count, m->outputs);
    if (status) return status;
    for (int32_t i = 0, at = 0; i < output_count; at += m->outputs[i++]->rank) {
        const onnxc_value *value = m->outputs[i];
        const int64_t *dims = c->out_dims + at;
        outputs[i].dims = dims;
        outputs[i].rank = value->rank;
        outputs[i].dtype = value->dtype;
        outputs[i].bytes = dims_known(value->rank, dims) ? tensor_bytes(value->dtype, value->rank, dims) : -1;
    }
    if (workspace_bytes) *workspace_bytes = c->workspace_needed;
    c->served = c->variant;
    return ONNXC_OK;
}
