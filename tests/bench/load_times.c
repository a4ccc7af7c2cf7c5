/* load_times MODEL.so SYMBOL INPUTS: milliseconds of CPU time of dlopen, of making a context, of bringing the pages of the
 * library in, of the first run and of a run later on; then the page faults of the first run.
 * INPUTS: the inputs' bytes one after another, as int32 rank, int64 dims, int64 bytes, data each. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "onnxc.h"

enum { MOST = 64, RUNS = 7 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static long faults(void) {
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) ? 0 : used.ru_minflt + used.ru_majflt;
}

/* Brings the pages of the library in, which belong to the weights for the most part. */
static void page_in(const char *path) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        char readable;
        if (strstr(line, path) && sscanf(line, "%lx-%lx %c", &begin, &end, &readable) == 3 && readable == 'r')
            for (volatile const char *p = (const char *)begin; p < (const char *)end; p += 4096) (void)*p;
    }
    if (maps) fclose(maps);
}

int main(int count, char **arguments) {
    static onnxc_tensor inputs[MOST], outputs[MOST];
    if (count != 4) return 2;
    FILE *file = fopen(arguments[3], "rb");
    int32_t given = 0, rank;
    while (file && fread(&rank, sizeof rank, 1, file) == 1) {
        int64_t *dims = malloc(8 * (size_t)rank + 8), bytes;
        if (fread(dims, 8, (size_t)rank, file) != (size_t)rank || fread(&bytes, 8, 1, file) != 1) return 2;
        void *data = malloc((size_t)bytes + 1);
        if (fread(data, 1, (size_t)bytes, file) != (size_t)bytes) return 2;
        inputs[given++] = (onnxc_tensor){.data = data, .dims = dims, .rank = rank};
    }
    const double start = now();
    void *library = dlopen(arguments[1], RTLD_NOW);
    const onnxc_model *(*get)(void) = library ? (const onnxc_model *(*)(void))dlsym(library, arguments[2]) : NULL;
    if (!get) return fprintf(stderr, "%s\n", dlerror()), 1;
    const onnxc_model *model = get();
    const double opened = now();
    const onnxc_options options = {.size = sizeof options, .threads = 1};
    onnxc_context *context;
    for (int32_t i = 0; i < given; i++) inputs[i].dtype = model->inputs[i]->dtype;
    if (onnxc_context_create(model, &options, &context)) return fprintf(stderr, "%s\n", onnxc_message(context)), 1;
    const double created = now();
    page_in(arguments[1]);
    const double ready = now();
    const long before = faults();
    double least = 1e9, first = 0;
    long taken_faults = 0;
    for (int run = 0; run < RUNS; run++) {
        memset(outputs, 0, sizeof outputs);
        const double begin = now();
        if (onnxc_run(context, inputs, given, outputs, model->output_count))
            return fprintf(stderr, "%s\n", onnxc_message(context)), 1;
        const double taken = now() - begin;
        if (!run) first = taken, taken_faults = faults() - before;
        else if (taken < least) least = taken;
    }
    printf("%.3f %.3f %.3f %.3f %.3f %ld\n", opened - start, created - opened, ready - created, first, least, taken_faults);
    return 0;
}
