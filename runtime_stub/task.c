/* One task in memory: its buffers, and its candidates as steps with addresses; candidates.py for devices without Python.
 *
 * Weights lie in as many copies as make `cold_bytes`, and runs go from copy to copy. */
#include "plan.h"

enum { FENCE = 256, MARK = 0xA5 }; /* bytes around each buffer that nobody may write */

typedef struct memory {
    uint8_t *inside;
    int64_t stride, copies;
} memory;

typedef struct ready {
    onnxc_step *steps; /* [copies][count] */
    int32_t copies, next;
} ready;

typedef struct task {
    const plan_task *plan;
    const uint8_t *weights; /* what is behind the program */
    memory *memories;
    ready *candidates;
} task;

static int64_t rounded_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/* Bytes of the weights that a candidate reads. */
static int64_t weight_bytes(const task *t, const plan_candidate *c, uint8_t *used) {
    int64_t sum = 0;
    memset(used, 0, (size_t)t->plan->buffer_count);
    for (int32_t k = 0; k < c->count; k++)
        for (int64_t i = 0; i < c->steps[k].count; i++) {
            const int32_t b = c->steps[k].arguments[i].buffer;
            if (b < 0 || used[b] || t->plan->buffers[b].role != WEIGHT) continue;
            used[b] = 1;
            sum += t->plan->buffers[b].bytes;
        }
    return sum;
}

/* How many copies of its weights each candidate has, and so each buffer. 0: no memory. */
static int count_copies(task *t) {
    uint8_t *used = bare_pages(t->plan->buffer_count + 1);
    if (!used) return 0;
    for (int32_t b = 0; b < t->plan->buffer_count; b++) t->memories[b].copies = 1;
    for (int32_t c = 0; c < t->plan->count; c++) {
        const int64_t size = weight_bytes(t, t->plan->candidates + c, used);
        int64_t copies = size ? rounded_up(t->plan->cold_bytes, size) / size : 1;
        if (copies < 1) copies = 1;
        if (copies > onnxc_plan.rules.most_copies) copies = onnxc_plan.rules.most_copies;
        t->candidates[c].copies = (int32_t)copies;
        for (int32_t b = 0; b < t->plan->buffer_count; b++)
            if (used[b] && t->memories[b].copies < copies) t->memories[b].copies = copies;
    }
    return 1;
}

static int provide(task *t, int32_t number) {
    const plan_buffer *b = t->plan->buffers + number;
    memory *m = t->memories + number;
    m->stride = rounded_up(b->bytes, 64);
    /* places differ in their low bits, so that buffers do not fall into the same cache sets */
    const int64_t before = FENCE + 64 * (7 * number % 60), all = m->stride * (m->copies - 1) + b->bytes;
    uint8_t *whole = bare_pages(before + all + FENCE);
    if (!whole) return 0;
    m->inside = whole + before;
    memset(m->inside - FENCE, MARK, FENCE);
    memset(m->inside + all, MARK, FENCE);
    if (b->role == INPUT) fill_input(b, m->inside);
    if (b->role == WEIGHT)
        for (int64_t i = 0; i < m->copies; i++)
            memcpy(m->inside + i * m->stride, t->weights + b->offset, (size_t)b->bytes);
    return 1;
}

static int make_steps(task *t, int32_t number) {
    const plan_candidate *c = t->plan->candidates + number;
    ready *r = t->candidates + number;
    r->steps = bare_pages((int64_t)sizeof(onnxc_step) * r->copies * c->count);
    if (!r->steps) return 0;
    for (int32_t k = 0; k < c->count; k++) {
        const plan_step *s = c->steps + k;
        int64_t *arguments = bare_pages(8 * (s->count * r->copies + 1));
        if (!arguments) return 0;
        for (int32_t copy = 0; copy < r->copies; copy++, arguments += s->count) {
            for (int64_t i = 0; i < s->count; i++) {
                const plan_argument *a = s->arguments + i;
                const memory *m = a->buffer < 0 ? NULL : t->memories + a->buffer;
                arguments[i] = m             ? ADDRESS(m->inside + (m->copies > 1 ? m->stride * copy : 0))
                               : a->function ? (int64_t)(intptr_t)a->function
                                             : a->value;
            }
            r->steps[(int64_t)copy * c->count + k] = (onnxc_step){
                s->kernel, arguments, s->extent, s->round, s->picoseconds, (const onnxc_bands *)(const void *)s->bands,
                s->bands ? (char *)t->memories[s->rooms].inside : NULL};
        }
    }
    return 1;
}

/* 0: there is not enough memory. */
static int make_task(task *t, const plan_task *plan, const uint8_t *weights) {
    *t = (task){.plan = plan, .weights = weights};
    t->memories = bare_pages((int64_t)sizeof(memory) * (plan->buffer_count + 1));
    t->candidates = bare_pages((int64_t)sizeof(ready) * plan->count);
    if (!t->memories || !t->candidates || !count_copies(t)) return 0;
    for (int32_t b = 0; b < plan->buffer_count; b++)
        if (!provide(t, b)) return 0;
    for (int32_t c = 0; c < plan->count; c++)
        if (!make_steps(t, c)) return 0;
    return 1;
}

/* One run, each kernel's extent cut into pieces; copies of the outputs, one after another, if `kept`. NULL, or what went
 * wrong. */
static const char *run_once(task *t, int32_t number, int32_t pieces, uint8_t *kept) {
    const plan_buffer *buffers = t->plan->buffers;
    for (int32_t b = 0; b < t->plan->buffer_count; b++) {
        if (buffers[b].role == OUTPUT) memset(t->memories[b].inside, MARK, (size_t)buffers[b].bytes);
        if (buffers[b].role == STATUS) memset(t->memories[b].inside, 0, (size_t)buffers[b].bytes);
    }
    onnxc_run_pieces(t->candidates[number].steps, t->plan->candidates[number].count, pieces);
    for (int32_t b = 0; b < t->plan->buffer_count; b++) {
        const uint8_t *inside = t->memories[b].inside;
        if (buffers[b].role == STATUS && (inside[0] | inside[1] | inside[2] | inside[3]))
            return "a check inside the kernel failed";
        if (buffers[b].role != OUTPUT && buffers[b].role != SCRATCH) continue;
        for (int64_t i = 0; i < FENCE; i++)
            if (inside[i - FENCE] != MARK || inside[buffers[b].bytes + i] != MARK)
                return "it wrote outside of a buffer";
        if (buffers[b].role != OUTPUT) continue;
        memcpy(kept, inside, (size_t)buffers[b].bytes);
        kept += buffers[b].bytes;
    }
    return NULL;
}

/* Room for that many copies of the outputs. */
static uint8_t *room_for_outputs(const task *t, int32_t copies, int64_t *size) {
    *size = 0;
    for (int32_t b = 0; b < t->plan->buffer_count; b++)
        *size += t->plan->buffers[b].role == OUTPUT ? t->plan->buffers[b].bytes : 0;
    return bare_pages(copies * *size + 1);
}

/* Whether a candidate computes what the reference does, also when its extents are split otherwise. NULL, or what is
 * wrong; `difference` is the largest one as a share of the results' scale. */
static const char *check(task *t, int32_t number, double *difference) {
    const plan_buffer *buffers = t->plan->buffers;
    int64_t size;
    uint8_t *want = room_for_outputs(t, 3, &size), *got = want + size, *split = got + size;
    if (!want) return "there is not enough memory";
    const char *wrong = run_once(t, t->plan->reference, 1, want);
    if (!wrong) wrong = run_once(t, number, 1, got);
    if (!wrong) wrong = run_once(t, number, 3, split);
    if (wrong) return wrong;
    if (memcmp(got, split, (size_t)size)) return "another split of its extent gives other bits";
    *difference = 0;
    for (int32_t b = 0; b < t->plan->buffer_count; b++) {
        if (buffers[b].role != OUTPUT) continue;
        const double own = distance(buffers + b, got, want);
        *difference = own > *difference ? own : *difference;
        got += buffers[b].bytes;
        want += buffers[b].bytes;
    }
    return *difference > t->plan->candidates[number].tolerance ? "its results differ from the reference's" : NULL;
}
