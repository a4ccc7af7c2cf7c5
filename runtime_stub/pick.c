/* Which variant runs: the first in the model's order that this CPU can run and whose guards hold; and why. */

static int guard_holds(const onnxc_guard *g, const int64_t *dims) {
    const int64_t d = dims[g->dim];
    return d >= g->low && d <= g->high && (g->multiple < 2 || d % g->multiple == 0);
}

/* The first guard of the variant that fails, or NULL. */
static const onnxc_guard *guard_failing(const onnxc_variant *v, const int64_t *dims) {
    for (int32_t i = 0; i < v->guard_count; i++)
        if (!guard_holds(&v->guards[i], dims)) return &v->guards[i];
    return NULL;
}

static uint64_t lacking(const context *c, const onnxc_variant *v) {
    return v->features & ~c->features;
}

/* "seq", or "x.1" where the dim has no name of its own. */
static const char *dim_text(char *text, const onnxc_model *m, int32_t dim) {
    int32_t axis;
    const onnxc_value *value = dim_owner(m, dim, &axis);
    *text = 0;
    if (value->dims[axis].value < 0 && value->dims[axis].name)
        append(text, FEW, "%s", value->dims[axis].name);
    else
        append(text, FEW, "%s.%d", value->name, axis);
    return text;
}

/* Adds "batch=1", "h%32=0", "seq=1..512" or more than one of them. */
static void append_guard(char *to, size_t room, const onnxc_model *m, const onnxc_guard *g) {
    char name[FEW];
    dim_text(name, m, g->dim);
    if (g->low == g->high) {
        append(to, room, "%s=%lld", name, (long long)g->low);
        return;
    }
    const int ranged = g->low > 0 || g->high != INT64_MAX;
    if (g->multiple > 1) append(to, room, "%s%%%lld=0%s", name, (long long)g->multiple, ranged ? "," : "");
    if (g->high != INT64_MAX)
        append(to, room, "%s=%lld..%lld", name, (long long)g->low, (long long)g->high);
    else if (ranged)
        append(to, room, "%s>=%lld", name, (long long)g->low);
}

/* Adds the shapes that the variant takes: "batch=1,seq=1..512". */
static void append_guards(char *to, size_t room, const onnxc_model *m, const onnxc_variant *v) {
    for (int32_t i = 0; i < v->guard_count; i++) {
        append(to, room, "%s", i ? "," : "");
        append_guard(to, room, m, &v->guards[i]);
    }
    if (!v->guard_count) append(to, room, "any");
}

/* Adds the free dims of the last call: "batch=2,seq=7". */
static void append_dims(char *to, size_t room, const context *c) {
    const onnxc_model *m = c->head.model;
    char name[FEW];
    const char *between = "";
    for (int32_t i = 0; i < m->in_dim_count; i++) {
        int32_t axis;
        if (dim_owner(m, i, &axis)->dims[axis].value >= 0 || c->same_as[i] != i) continue;
        append(to, room, "%s%s=%lld", between, dim_text(name, m, i), (long long)c->in_dims[i]);
        between = ",";
    }
}

static int same_guards(const onnxc_variant *a, const onnxc_variant *b) {
    if (a->guard_count != b->guard_count) return 0;
    for (int32_t i = 0; i < a->guard_count; i++) {
        const onnxc_guard *g = &a->guards[i], *h = &b->guards[i];
        if (g->dim != h->dim || g->low != h->low || g->high != h->high || g->multiple != h->multiple) return 0;
    }
    return 1;
}

/* Whether the variant can run on this CPU and none of the same shapes is tried before it. */
static int is_first_of_its_shapes(const context *c, int32_t index) {
    const onnxc_model *m = c->head.model;
    if (lacking(c, m->variants[index])) return 0;
    for (int32_t i = 0; i < index; i++)
        if (!lacking(c, m->variants[i]) && same_guards(m->variants[i], m->variants[index])) return 0;
    return 1;
}

/* Lists what can run on this CPU, each once. */
static int32_t no_variant(context *c) {
    const onnxc_model *m = c->head.model;
    const char *between = "";
    fail(c, ONNXC_NO_VARIANT, "no variant of model '%s' takes ", m->name);
    append_dims(c->message, MESSAGE_ROOM, c);
    append(c->message, MESSAGE_ROOM, "; it takes ");
    for (int32_t i = 0; i < m->variant_count; i++) {
        if (!is_first_of_its_shapes(c, i)) continue;
        append(c->message, MESSAGE_ROOM, "%s", between);
        append_guards(c->message, MESSAGE_ROOM, m, m->variants[i]);
        between = "; ";
    }
    return ONNXC_NO_VARIANT;
}

static int32_t pick(context *c, const onnxc_variant **picked) {
    const onnxc_model *m = c->head.model;
    for (int32_t i = 0; i < m->variant_count; i++)
        if (!lacking(c, m->variants[i]) && !guard_failing(m->variants[i], c->in_dims)) {
            *picked = m->variants[i];
            return ONNXC_OK;
        }
    return no_variant(c);
}

/* Adds the features of the variant that this CPU lacks: " avx2, fma". */
static void append_lacking(char *to, size_t room, const context *c, const onnxc_variant *v) {
    const char *const *names = c->head.model->feature_names;
    for (int32_t bit = 0, first = 1; names[bit]; bit++) {
        if (!(lacking(c, v) >> bit & 1)) continue;
        append(to, room, "%s %s", first ? "" : ",", names[bit]);
        first = 0;
    }
}

/* Adds why a variant did not serve: "; not 'seq=1..512' for x86_64 x86-64-v3: seq is 700". */
static void append_reason(char *to, size_t room, const context *c, const onnxc_variant *v) {
    const onnxc_model *m = c->head.model;
    const onnxc_guard *g = guard_failing(v, c->in_dims);
    char name[FEW];
    append(to, room, "; not '%s' for %s: ", v->name, v->target);
    if (g) {
        append(to, room, "%s is %lld", dim_text(name, m, g->dim), (long long)c->in_dims[g->dim]);
        return;
    }
    append(to, room, "this CPU lacks");
    append_lacking(to, room, c, v);
}

/* "batch=2: 'generic' for x86_64 x86-64-v3; not 'batch=1' for x86_64 x86-64-v3: batch is 2" */
static void explain(const onnxc_context *context_, char *text, size_t room) {
    const context *c = whole(context_);
    const onnxc_model *m = c->head.model;
    if (!room) return;
    *text = 0;
    if (!c->variant) {
        append(text, room, "%s", c->message);
        return;
    }
    append_dims(text, room, c);
    append(text, room, "%s'%s' for %s", *text ? ": " : "", c->variant->name, c->variant->target);
    for (int32_t i = 0; i < m->variant_count && m->variants[i] != c->variant; i++)
        append_reason(text, room, c, m->variants[i]);
}
