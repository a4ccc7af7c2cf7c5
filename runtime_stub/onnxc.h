/* onnxc.h: the interface of a compiled model, for C11 and C++17.
 *
 * A compiled model exports one function, `const onnxc_model *NAME_model(void)`; everything else hangs on the constant
 * descriptor which that returns. The functions at the end of this file are inline calls through it: nothing to link.
 *
 *     onnxc_context *context;
 *     onnxc_context_create(NAME_model(), NULL, &context);
 *     onnxc_run(context, inputs, 1, outputs, 1);     non-zero: onnxc_message(context) tells why
 *     onnxc_context_destroy(context);
 *
 * One context serves one caller at a time; contexts of one model may run at the same time. */
#ifndef ONNXC_H
#define ONNXC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A reader accepts a model of its own major version. Minor versions only add fields at the end of structs. */
#define ONNXC_ABI_MAJOR 1
#define ONNXC_ABI_MINOR 1

enum {
    ONNXC_OK = 0,
    ONNXC_BAD_ARGUMENT = 1,  /* count, name, type, rank, dim or buffer of an argument */
    ONNXC_NO_VARIANT = 2,    /* no variant takes these shapes */
    ONNXC_BAD_CPU = 3,       /* this CPU lacks what every variant needs */
    ONNXC_OUT_OF_MEMORY = 4,
    ONNXC_BAD_WEIGHTS = 5,   /* the weights' file is missing or another one */
    ONNXC_MODEL_ERROR = 6    /* the data made a node fail, such as an index out of range */
};

/* Dense, row-major. Types are numbered as in ONNX (TensorProto.DataType); bool and types below 8 bits take one byte;
 * a string element is an onnxc_string. */
typedef struct onnxc_tensor {
    void *data;          /* may be NULL where there are no elements. An output: NULL asks for memory of the context,
                            which stays valid until its next run; otherwise the caller's memory */
    const int64_t *dims; /* an output: set by the call, valid until the context's next call */
    int64_t bytes;       /* room behind data. An input: 0 for "not told"; an output: set to the used part */
    const char *name;    /* NULL, or checked against the model's name for this place */
    int32_t rank;        /* an output: set by the call */
    int32_t dtype;       /* an output: set by the call */
} onnxc_tensor;

typedef struct onnxc_string {
    const char *data; /* need not end in a zero byte. Of an output: valid until the context's next run */
    size_t size;
} onnxc_string;

typedef struct onnxc_dim {
    int64_t value;    /* -1: any */
    const char *name; /* of a free dim, or NULL; inputs' dims of one name must agree */
} onnxc_dim;

typedef struct onnxc_value {
    const char *name;
    const onnxc_dim *dims;
    int32_t rank;
    int32_t dtype;
} onnxc_value;

/* `low <= d <= high && d % multiple == 0` for the dim d: an index into the dims of all inputs, one after another. */
typedef struct onnxc_guard {
    int64_t low, high, multiple;
    int32_t dim;
    int32_t reserved;
} onnxc_guard;

struct onnxc_env;
typedef int32_t (*onnxc_prepare_entry)(const int64_t *in_dims, int64_t *out_dims, int64_t *workspace_bytes);
typedef int32_t (*onnxc_run_entry)(struct onnxc_env *env, const void *const *inputs, const int64_t *in_dims,
                                   void *const *outputs, void *workspace);

/* One precompiled realisation of the model. The first in the model's order whose guards hold is taken. */
typedef struct onnxc_variant {
    const char *name;
    const char *target;      /* the CPU it was compiled for, such as "x86-64-v3" */
    uint64_t features;       /* bits of the CPU features it needs; named by onnxc_model.feature_names */
    int64_t workspace_bytes; /* -1: depends on the shapes */
    const onnxc_guard *guards;
    onnxc_prepare_entry prepare;
    onnxc_run_entry run;
    int32_t guard_count;
    int32_t kernel_count;    /* functions that a run calls; 0: not told (before minor version 1) */
} onnxc_variant;

typedef struct onnxc_pair {
    const char *key, *value;
} onnxc_pair;

typedef struct onnxc_model {
    uint16_t abi_major, abi_minor;
    uint32_t threaded; /* 1: can use threads */
    const struct onnxc_api *api;
    const char *name;
    const char *producer; /* "onnxc 0.1.0" */
    const onnxc_value *const *inputs;
    const onnxc_value *const *outputs;
    const onnxc_variant *const *variants;
    const char *const *errors;        /* messages of a model error, by its number less one */
    const onnxc_pair *metadata;       /* the ONNX model's own and the compiler's */
    const char *const *feature_names; /* by bit number, NULL at the end */
    const char *report;               /* the compiler's account as JSON, or NULL */
    const void *weights;              /* NULL: none, or in a file beside the model */
    const char *weights_file;         /* its name, or NULL */
    const char *weights_id;           /* the hexadecimal digest that ends that file */
    int64_t weights_bytes;
    int32_t input_count, output_count, variant_count, error_count, metadata_count;
    int32_t in_dim_count, out_dim_count; /* of all inputs, of all outputs together */
    int32_t reserved;
} onnxc_model;

typedef struct onnxc_pool onnxc_pool;

/* All zero (with size set) is the default. */
typedef struct onnxc_options {
    size_t size;              /* sizeof(onnxc_options) */
    uint64_t hidden_features; /* CPU features to do without */
    void *(*alloc)(void *user, size_t bytes); /* NULL: malloc and free */
    void (*free)(void *user, void *memory);
    void *user;
    void *workspace;          /* NULL: the context's own; else 64-byte aligned */
    size_t workspace_bytes;
    const char *weights_path; /* of the weights' file, where it is not beside the model */
    onnxc_pool *pool;         /* onnxc_context_pool of another model of this ABI version, whose library must stay
                               * loaded; NULL: own */
    int32_t threads;          /* 0: the CPUs that this process may use */
    int32_t reserved;
} onnxc_options;

/* What follows the model is private. */
typedef struct onnxc_context {
    const onnxc_model *model;
} onnxc_context;

typedef struct onnxc_api {
    int32_t (*context_create)(const onnxc_model *, const onnxc_options *, onnxc_context **);
    void (*context_destroy)(onnxc_context *);
    int32_t (*output_shapes)(onnxc_context *, const onnxc_tensor *, int32_t, onnxc_tensor *, int32_t, int64_t *);
    int32_t (*run)(onnxc_context *, const onnxc_tensor *, int32_t, onnxc_tensor *, int32_t);
    const char *(*message)(const onnxc_context *);
    const onnxc_variant *(*variant)(const onnxc_context *);
    onnxc_pool *(*pool)(const onnxc_context *);
    int32_t (*threads)(const onnxc_context *);
    int32_t (*call)(const onnxc_model *, const void *const *, void *const *, void *);
    uint64_t (*cpu_features)(void);
    void (*explain)(const onnxc_context *, char *, size_t); /* from minor version 1 on */
} onnxc_api;

/* On failure, too, *context is to be destroyed (its message tells why); NULL only for want of memory. */
static inline int32_t onnxc_context_create(const onnxc_model *model, const onnxc_options *options,
                                           onnxc_context **context) {
    return model->api->context_create(model, options, context);
}

static inline void onnxc_context_destroy(onnxc_context *context) {
    if (context) context->model->api->context_destroy(context);
}

/* Sets the outputs' type, rank, bytes and dims, -1 where only a run can tell; workspace_bytes may be NULL. */
static inline int32_t onnxc_output_shapes(onnxc_context *context, const onnxc_tensor *inputs, int32_t input_count,
                                          onnxc_tensor *outputs, int32_t output_count, int64_t *workspace_bytes) {
    return context->model->api->output_shapes(context, inputs, input_count, outputs, output_count, workspace_bytes);
}

static inline int32_t onnxc_run(onnxc_context *context, const onnxc_tensor *inputs, int32_t input_count,
                                onnxc_tensor *outputs, int32_t output_count) {
    return context->model->api->run(context, inputs, input_count, outputs, output_count);
}

/* Of the last failed call on this context. */
static inline const char *onnxc_message(const onnxc_context *context) {
    return context ? context->model->api->message(context) : "out of memory";
}

/* That served the last successful call, or NULL. */
static inline const onnxc_variant *onnxc_context_variant(const onnxc_context *context) {
    return context->model->api->variant(context);
}

/* Writes into `text`, of `room` bytes, which variant served the last call and why no more specific one did. */
static inline void onnxc_context_explain(const onnxc_context *context, char *text, size_t room) {
    if (context->model->abi_minor >= 1)
        context->model->api->explain(context, text, room);
    else if (room)
        *text = 0;
}

static inline onnxc_pool *onnxc_context_pool(const onnxc_context *context) {
    return context->model->api->pool(context);
}

#ifdef __cplusplus
}
#endif
#endif
