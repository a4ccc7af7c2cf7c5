/* The weights: a section of the model's own, or a file beside it that is mapped.
 *
 * That file is the weights followed by a trailer: 16 bytes "onnxc weights 1\n", then 64 hexadecimal digits of an ID. */

#if ONNXC_WEIGHTS_FILE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char weights_magic[] = "onnxc weights 1\n";
enum { MAGIC_BYTES = 16, ID_BYTES = 64, TRAILER_BYTES = MAGIC_BYTES + ID_BYTES, WEIGHTS_PATH_ROOM = 4096 };

/* The path of the file in the folder of the library (or program) that holds this model. */
static const char *weights_path(const onnxc_model *m, char *path) {
    Dl_info library;
    const char *folder = dladdr(m, &library) && library.dli_fname ? library.dli_fname : "";
    const char *slash = strrchr(folder, '/');
    const int length = slash ? (int)(slash - folder) + 1 : 0;
    snprintf(path, WEIGHTS_PATH_ROOM, "%.*s%s", length, folder, m->weights_file);
    return path;
}

static int32_t weights_check(context *c, int file, const char *path) {
    const onnxc_model *m = c->head.model;
    char trailer[TRAILER_BYTES];
    struct stat facts;
    if (fstat(file, &facts)) return fail(c, ONNXC_BAD_WEIGHTS, "cannot read %s: %s", path, strerror(errno));
    const long long wanted = (long long)m->weights_bytes + TRAILER_BYTES;
    if (facts.st_size != wanted)
        return fail(c, ONNXC_BAD_WEIGHTS, "%s has %lld bytes, but the weights of model '%s' have %lld", path,
                    (long long)facts.st_size, m->name, wanted);
    if (pread(file, trailer, TRAILER_BYTES, m->weights_bytes) != TRAILER_BYTES ||
        memcmp(trailer, weights_magic, MAGIC_BYTES) || memcmp(trailer + MAGIC_BYTES, m->weights_id, ID_BYTES))
        return fail(c, ONNXC_BAD_WEIGHTS, "%s holds other weights than model '%s' was compiled with", path, m->name);
    return ONNXC_OK;
}

static int32_t weights_map(context *c, const char *given) {
    const onnxc_model *m = c->head.model;
    char room[WEIGHTS_PATH_ROOM];
    const char *path = given ? given : weights_path(m, room);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return fail(c, ONNXC_BAD_WEIGHTS, "cannot open %s, the weights of model '%s': %s", path, m->name,
                    strerror(errno));
    int32_t status = weights_check(c, file, path);
    if (!status && m->weights_bytes) {
        void *at = mmap(NULL, (size_t)m->weights_bytes, PROT_READ, MAP_SHARED, file, 0);
        if (at == MAP_FAILED) {
            status = fail(c, ONNXC_BAD_WEIGHTS, "cannot map %s: %s", path, strerror(errno));
        } else {
            c->weights = at;
            c->mapped_bytes = m->weights_bytes;
        }
    }
    close(file);
    return status;
}

static void weights_drop(context *c) {
    if (c->mapped_bytes) munmap((void *)(uintptr_t)c->weights, (size_t)c->mapped_bytes);
}

#else

static int32_t weights_map(context *c, const char *given) {
    (void)given;
    c->weights = c->head.model->weights;
    return ONNXC_OK;
}

static void weights_drop(context *c) {
    (void)c;
}
#endif
