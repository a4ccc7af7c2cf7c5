/* Reads one handwritten digit with the compiled model: all that C needs is this file, onnxc.h and the model.
 *
 *     onnxc compile digits.onnx -o digits.o
 *     cc digits.c digits.o -o digits -pthread && ./digits
 */
#include "onnxc.h"

#include <stdio.h>

extern const onnxc_model *digits_model(void);

/* A real scan of a 3: a character a pixel, '0' for no ink to 'g' for 16. */
static const char *const scan[8] = {
    "009ggc20", "03d54e50", "00007f20", "0005gb00",
    "00008g70", "00000d80", "00455f40", "00cgf500",
};

int main(void) {
    float image[64];
    for (int i = 0; i < 64; i++) {
        char c = scan[i / 8][i % 8];
        image[i] = (float)(c <= '9' ? c - '0' : c - 'a' + 10);
    }

    onnxc_context *context;
    if (onnxc_context_create(digits_model(), NULL, &context) != ONNXC_OK) {
        fprintf(stderr, "%s\n", onnxc_message(context));
        onnxc_context_destroy(context);
        return 1;
    }
    const int64_t dims[4] = {1, 1, 8, 8}; /* one image of one channel; any number of images would do */
    onnxc_tensor input = {.data = image, .dims = dims, .rank = 4, .dtype = 1 /* float, as ONNX numbers types */};
    onnxc_tensor output = {.data = NULL}; /* memory of the context */
    if (onnxc_run(context, &input, 1, &output, 1) != ONNXC_OK) {
        fprintf(stderr, "%s\n", onnxc_message(context));
        onnxc_context_destroy(context);
        return 1;
    }

    const float *probability = output.data;
    int answer = 0;
    for (int i = 1; i < 10; i++)
        if (probability[i] > probability[answer]) answer = i;
    printf("the digit is %d (probability %.3f)\n", answer, (double)probability[answer]);
    onnxc_context_destroy(context);
    return 0;
}
