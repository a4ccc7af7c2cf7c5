/* A program that embeds two models: it prints what each call gives, and the test compares the lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "add.h"
#include "fixed.h"
#include "gather.h"

/* The C library's own start file, so that only the linker is needed to make this program. */
__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %rdx, %r9\n pop %rsi\n mov %rsp, %rdx\n and $-16, %rsp\n"
        "push %rax\n push %rsp\n xor %r8d, %r8d\n xor %ecx, %ecx\n lea main(%rip), %rdi\n"
        "call *__libc_start_main@GOTPCREL(%rip)\n hlt\n");

static float x[12], y[12];
static const int64_t dims[] = {3, 4}, three_dims[] = {3, 4, 1}, wide[] = {3, 5}, negative[] = {-3, 4};
static _Alignas(64) char workspace[FIXED_WORKSPACE_BYTES];

static void show(const char *what, onnxc_context *context, int32_t status) {
    printf("%s: %d%s%s\n", what, status, status ? " " : "", status ? onnxc_message(context) : "");
}

static void arguments(void) {
    onnxc_context *c;
    int32_t status = onnxc_context_create(add_model(), NULL, &c);
    show("create", c, status);
    const onnxc_tensor good = {.data = x, .dims = dims, .rank = 2, .dtype = ADD_INPUT_0_DTYPE};
    const onnxc_tensor mine = {.data = y, .bytes = sizeof y};
    onnxc_tensor in = good, out = mine;
    show("no input", c, onnxc_run(c, &in, 0, &out, 1));
    show("no output", c, onnxc_run(c, &in, 1, &out, 0));
    in.name = "q";
    show("name", c, onnxc_run(c, &in, 1, &out, 1));
    in = good, in.dtype = 11;
    show("type", c, onnxc_run(c, &in, 1, &out, 1));
    in.dtype = 99;
    show("no type", c, onnxc_run(c, &in, 1, &out, 1));
    in = good, in.dims = three_dims, in.rank = 3;
    show("rank", c, onnxc_run(c, &in, 1, &out, 1));
    in.dims = NULL;
    show("no dims", c, onnxc_run(c, &in, 1, &out, 1));
    in = good, in.dims = wide;
    show("dim", c, onnxc_run(c, &in, 1, &out, 1));
    in.dims = negative;
    show("negative", c, onnxc_run(c, &in, 1, &out, 1));
    in = good, in.data = NULL;
    show("no data", c, onnxc_run(c, &in, 1, &out, 1));
    in = good, in.bytes = 47;
    show("few bytes", c, onnxc_run(c, &in, 1, &out, 1));
    in = good, out.bytes = 47;
    show("small output", c, onnxc_run(c, &in, 1, &out, 1));
    out = mine, out.name = "z";
    show("output name", c, onnxc_run(c, &in, 1, &out, 1));
    printf("none served: %d\n", !onnxc_context_variant(c));
    out = mine;
    show("run", c, onnxc_run(c, &in, 1, &out, 1));
    printf("%g %g %lld %d %s\n", (double)y[0], (double)y[11], (long long)out.bytes, out.rank,
           onnxc_context_variant(c)->name);
    out.data = NULL;
    for (int i = 0; i < 2; i++) show("own memory", c, onnxc_run(c, &in, 1, &out, 1));
    printf("%g aligned %d\n", (double)((float *)out.data)[11], (uintptr_t)out.data % 64 == 0);
    int64_t bytes = -1;
    show("shapes", c, onnxc_output_shapes(c, &in, 1, &out, 1, &bytes));
    printf("%lld x %lld, %lld bytes, workspace %lld\n", (long long)out.dims[0], (long long)out.dims[1],
           (long long)out.bytes, (long long)bytes);
    onnxc_context_destroy(c);
}

static void model_errors(void) {
    onnxc_context *c;
    onnxc_options options = {.size = sizeof options, .threads = 3};
    onnxc_context_create(gather_model(), &options, &c);
    int64_t index[] = {1, 2, 30, 4}, count[] = {4};
    onnxc_tensor in = {.data = index, .dims = count, .rank = 1, .dtype = 7}, out = {.data = NULL};
    show("bad data", c, onnxc_run(c, &in, 1, &out, 1));
    index[2] = 3;
    show("good data", c, onnxc_run(c, &in, 1, &out, 1));
    printf("%g, two models share a pool: ", (double)((float *)out.data)[2]);
    onnxc_context *other;
    options.pool = onnxc_context_pool(c);
    onnxc_context_create(add_model(), &options, &other);
    printf("%d\n", onnxc_context_pool(other) == onnxc_context_pool(c));
    onnxc_context_destroy(other);
    onnxc_context_destroy(c);
    options.threads = -2;
    int32_t status = onnxc_context_create(add_model(), &options, &c);
    show("threads", c, status);
    onnxc_tensor none = {.data = NULL};
    show("unusable", c, onnxc_run(c, &in, 1, &none, 1));
    onnxc_context_destroy(c);
}

static int allowed, held;

static void *limited(void *user, size_t bytes) {
    (void)user;
    if (!allowed) return NULL;
    allowed--;
    held++;
    return malloc(bytes);
}

static void returned(void *user, void *memory) {
    (void)user;
    held--;
    free(memory);
}

/* Every allocation fails once: a status, never a crash, and nothing is kept. */
static void out_of_memory(void) {
    int needed = 0;
    for (int32_t status = -1; status; needed++) {
        onnxc_options options = {.size = sizeof options, .alloc = limited, .free = returned, .threads = 1};
        onnxc_context *c;
        allowed = needed;
        status = onnxc_context_create(add_model(), &options, &c);
        const onnxc_tensor in = {.data = x, .dims = dims, .rank = 2, .dtype = 1};
        onnxc_tensor out = {.data = NULL};
        if (!status) status = onnxc_run(c, &in, 1, &out, 1);
        if (status && status != ONNXC_OUT_OF_MEMORY) printf("status %d\n", status);
        if (status && !strstr(onnxc_message(c), "memory")) printf("message %s\n", onnxc_message(c));
        onnxc_context_destroy(c);
        if (held) printf("%d blocks are held\n", held);
    }
    printf("allocations: %d\n", needed - 1);
}

static void own_workspace(void) {
    onnxc_context *c;
    onnxc_options options = {.size = sizeof options, .workspace = workspace + 1, .workspace_bytes = 40};
    int32_t status = onnxc_context_create(fixed_model(), &options, &c);
    show("misaligned", c, status);
    onnxc_context_destroy(c);
    options.workspace = workspace;
    onnxc_context_create(fixed_model(), &options, &c);
    const onnxc_tensor in[] = {{.data = x, .dims = dims, .rank = 2, .dtype = 1},
                               {.data = x, .dims = dims, .rank = 2, .dtype = 1}};
    onnxc_tensor out = {.data = y, .bytes = sizeof y};
    show("small workspace", c, onnxc_run(c, in, FIXED_INPUTS, &out, 1));
    onnxc_context_destroy(c);
    memset(y, 0, sizeof y);
    show("typed", NULL, fixed_run(x, x, y, workspace));
    printf("%g %g\n", (double)y[1], (double)y[FIXED_OUTPUT_0_ELEMENTS - 1]);
}

int main(void) {
    for (int i = 0; i < 12; i++) x[i] = (float)i;
    arguments();
    model_errors();
    out_of_memory();
    own_workspace();
    return 0;
}
