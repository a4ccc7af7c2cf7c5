/* Checks the arguments of a call against the descriptor, and words what is wrong with them. */

enum { FEW = 512 /* room for a part of a message */ };

static const char *const type_names[] = {
    "undefined", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16",
    "double", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz",
    "float8e5m2", "float8e5m2fnuz", "uint4", "int4", "float4e2m1", "float8e8m0", "uint2", "int2"};

enum { TYPES = sizeof type_names / sizeof type_names[0] };

static const char *type_name(int32_t dtype) {
    return dtype >= 0 && dtype < TYPES ? type_names[dtype] : "unknown";
}

/* Bytes of one element. */
static int64_t element_bytes(int32_t dtype) {
    static const uint8_t bytes[TYPES] = {0, 4, 1, 1, 2, 2, 4, 8, sizeof(onnxc_string), 1, 2, 8, 4, 8, 8, 16, 2,
                                         1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    return dtype >= 0 && dtype < TYPES ? bytes[dtype] : 0;
}

/* Bytes of a tensor; -1: more than can be counted. */
static int64_t tensor_bytes(int32_t dtype, int32_t rank, const int64_t *dims) {
    int64_t bytes = element_bytes(dtype);
    for (int32_t i = 0; i < rank; i++)
        if (dims[i] == 0) return 0;
    for (int32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(bytes, dims[i], &bytes)) return -1;
    return bytes;
}

/* "[2, 3]" */
static const char *dims_text(char *text, int32_t rank, const int64_t *dims) {
    *text = 0;
    for (int32_t i = 0; i < rank; i++) append(text, FEW, "%s%lld", i ? ", " : "[", (long long)dims[i]);
    append(text, FEW, "%s", rank ? "]" : "[]");
    return text;
}

/* "['N', 3]" */
static const char *value_text(char *text, const onnxc_value *value) {
    *text = 0;
    for (int32_t i = 0; i < value->rank; i++) {
        const onnxc_dim *d = &value->dims[i];
        append(text, FEW, "%s", i ? ", " : "[");
        if (d->value >= 0)
            append(text, FEW, "%lld", (long long)d->value);
        else
            append(text, FEW, d->name ? "'%s'" : "?", d->name);
    }
    append(text, FEW, "%s", value->rank ? "]" : "[]");
    return text;
}

/* The input that a flattened dim belongs to, and its axis there. */
static const onnxc_value *dim_owner(const onnxc_model *m, int32_t dim, int32_t *axis) {
    int32_t i = 0;
    while (dim >= m->inputs[i]->rank) dim -= m->inputs[i++]->rank;
    *axis = dim;
    return m->inputs[i];
}

/* Dim `axis` of an input, the flattened dim `at`, is legal. */
static int32_t check_dim(context *c, const onnxc_value *value, int32_t axis, int32_t at) {
    const onnxc_dim *declared = &value->dims[axis];
    const int64_t given = c->in_dims[at];
    char text[FEW];
    if (given < 0)
        return fail(c, ONNXC_BAD_ARGUMENT, "input '%s': dim %d is negative (%lld)", value->name, axis,
                    (long long)given);
    if (declared->value >= 0 && given != declared->value)
        return fail(c, ONNXC_BAD_ARGUMENT, "input '%s': dim %d is %lld, not %lld (the model takes %s)", value->name,
                    axis, (long long)given, (long long)declared->value, value_text(text, value));
    const int32_t first = c->same_as[at];
    if (declared->value < 0 && c->in_dims[first] != given) {
        int32_t other_axis;
        const onnxc_value *other = dim_owner(c->head.model, first, &other_axis);
        return fail(c, ONNXC_BAD_ARGUMENT, "input '%s': dim %d ('%s') is %lld, but in dim %d of input '%s' it is %lld",
                    value->name, axis, declared->name, (long long)given, other_axis, other->name,
                    (long long)c->in_dims[first]);
    }
    return ONNXC_OK;
}

/* Type, rank and buffer of one input; its dims go to in_dims[at…], and *changed tells whether they are new. */
static int32_t check_input(context *c, const onnxc_tensor *given, const onnxc_value *value, int32_t at, int *changed) {
    char text[FEW], more[FEW];
    if (given->name && strcmp(given->name, value->name))
        return fail(c, ONNXC_BAD_ARGUMENT, "'%s' is given where input '%s' is expected", given->name, value->name);
    if (given->dtype != value->dtype)
        return fail(c, ONNXC_BAD_ARGUMENT, "input '%s' is tensor(%s), not tensor(%s)", value->name,
                    type_name(given->dtype), type_name(value->dtype));
    if (given->rank > 0 && !given->dims) return fail(c, ONNXC_BAD_ARGUMENT, "input '%s' has no dims", value->name);
    if (given->rank != value->rank)
        return fail(c, ONNXC_BAD_ARGUMENT, "input '%s' has %d dims %s, not %d (the model takes %s)", value->name,
                    given->rank, dims_text(text, given->rank, given->dims), value->rank,
                    value_text(more, value));
    for (int32_t i = 0; i < value->rank; i++) {
        if (c->in_dims[at + i] == given->dims[i]) continue;
        c->in_dims[at + i] = given->dims[i];
        *changed = 1;
    }
    if (given->data && !given->bytes) return ONNXC_OK;
    const int64_t bytes = tensor_bytes(value->dtype, value->rank, given->dims);
    if (!given->data && bytes > 0) return fail(c, ONNXC_BAD_ARGUMENT, "input '%s' has no data", value->name);
    if (given->bytes && (given->bytes < bytes || bytes < 0))
        return fail(c, ONNXC_BAD_ARGUMENT, "input '%s' has %lld bytes, too few for its dims %s", value->name,
                    (long long)given->bytes, dims_text(text, value->rank, given->dims));
    return ONNXC_OK;
}

static int32_t check_count(context *c, const char *what, int32_t given, int32_t expected, const onnxc_value *const *all) {
    char names[FEW] = "";
    if (given == expected) return ONNXC_OK;
    for (int32_t i = 0; i < expected; i++) append(names, FEW, "%s'%s'", i ? ", " : "", all[i]->name);
    return fail(c, ONNXC_BAD_ARGUMENT, "%d %ss are given, the model has %d: %s", given, what, expected, names);
}

/* All inputs. On failure the context forgets what it had prepared. */
static int32_t check_inputs(context *c, const onnxc_tensor *inputs, int32_t count) {
    const onnxc_model *m = c->head.model;
    int changed = 0;
    int32_t status = check_count(c, "input", count, m->input_count, m->inputs);
    for (int32_t i = 0, at = 0; !status && i < count; at += m->inputs[i++]->rank) {
        status = check_input(c, &inputs[i], m->inputs[i], at, &changed);
        c->in_data[i] = inputs[i].data;
    }
    if (status || changed) c->variant = NULL;
    if (status || c->variant) return status;
    for (int32_t i = 0, at = 0; i < count; at += m->inputs[i++]->rank)
        for (int32_t axis = 0; axis < m->inputs[i]->rank; axis++) {
            status = check_dim(c, m->inputs[i], axis, at + axis);
            if (status) return status;
        }
    return ONNXC_OK;
}
