/* What a program that measures candidates (measure.c) is told: written out for each bundle by the tuner.
 *
 * Tables instead of a file, so that nothing has to be read, and can be damaged, on the device. */
#ifndef ONNXC_PLAN_H
#define ONNXC_PLAN_H

#include "entry.h"

enum { INPUT, OUTPUT, SCRATCH, WEIGHT, STATUS };        /* a buffer's role */
enum { F16, BF16, F32, F64, ANY_BYTES, ZEROS_AND_ONES }; /* what it holds */

typedef struct plan_buffer {
    const char *name;
    int64_t bytes;
    int64_t offset; /* of a weight's content behind the program */
    uint32_t seed;  /* of an input's content */
    int32_t role, kind, width;
} plan_buffer;

/* A buffer by its number, or, if that is negative, a kernel's function or the value itself. */
typedef struct plan_argument {
    int64_t value;
    int32_t buffer;
    onnxc_kernel function;
} plan_argument;

/* A call of a kernel, or of kernels that take turns (onnxc_step in timing.c): `rooms` is a buffer's number. */
typedef struct plan_step {
    onnxc_kernel kernel;
    const plan_argument *arguments;
    int64_t count, extent, round, picoseconds;
    const int64_t *bands;
    int32_t rooms;
} plan_step;

typedef struct plan_candidate {
    const plan_step *steps;
    int32_t count;
    double tolerance;   /* how far its results may be from the reference's, as a share of their scale */
    const char *choice; /* JSON */
} plan_candidate;

typedef struct plan_task {
    const char *name; /* JSON */
    const plan_buffer *buffers;
    const plan_candidate *candidates;
    int32_t buffer_count, count, reference;
    int64_t cold_bytes; /* of weights between two uses of the same copy */
    double seconds;     /* that it may take */
} plan_task;

/* When two candidates have been compared for long enough: interleaved.py says what these mean. */
typedef struct plan_rules {
    int32_t rounds, few, some, most_runs, most_copies;
    double block, faster, hopeless, beyond_doubt, longest;
} plan_rules;

typedef struct plan {
    const char *head; /* the first line of the results */
    const plan_task *tasks;
    int32_t count, threads;
    plan_rules rules;
} plan;

extern const plan onnxc_plan;

#endif
