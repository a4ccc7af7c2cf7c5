/* Runs a model of one input on each shape given, in one context: what `explain` tells, or the message. The shapes are the
 * arguments, each dims with an x between them. Tells at the end whether the memory of the first run was used again. */
#include <stdio.h>
#include <stdlib.h>

#include "onnxc.h"

extern const onnxc_model *picks_model(void);

/* The C library's own start file, so that only the linker is needed to make this program. */
__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %rdx, %r9\n pop %rsi\n mov %rsp, %rdx\n and $-16, %rsp\n"
        "push %rax\n push %rsp\n xor %r8d, %r8d\n xor %ecx, %ecx\n lea main(%rip), %rdi\n"
        "call *__libc_start_main@GOTPCREL(%rip)\n hlt\n");

static float x[1 << 16];

int main(int count, char **arguments) {
    onnxc_context *context;
    if (onnxc_context_create(picks_model(), NULL, &context)) return puts(onnxc_message(context)), 1;
    const void *first = NULL;
    int same = 1;
    for (int i = 1; i < count; i++) {
        int64_t dims[8], bytes;
        int32_t rank = 0;
        for (char *at = arguments[i]; *at; at += *at == 'x') dims[rank++] = strtoll(at, &at, 10);
        const onnxc_tensor input = {.data = x, .dims = dims, .rank = rank, .dtype = 1};
        onnxc_tensor output = {.data = NULL};
        int32_t status = onnxc_output_shapes(context, &input, 1, &output, 1, &bytes);
        if (!status) status = onnxc_run(context, &input, 1, &output, 1);
        char text[4096];
        onnxc_context_explain(context, text, sizeof text);
        puts(status ? onnxc_message(context) : text);
        if (status) continue;
        if (!first) first = output.data;
        same &= output.data == first;
        printf("%s %d\n", onnxc_context_variant(context)->name, output.rank);
    }
    printf("memory used again: %d\n", same);
    onnxc_context_destroy(context);
    return 0;
}
