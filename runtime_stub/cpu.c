/* Which features this CPU (and its operating system) has, as a mask over cpu_features.h. */
#include "cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ONNXC_FEATURES ONNXC_X86_FEATURES
enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

/* States, as a set of the enumerators above, that the operating system saves. */
static uint32_t saved_states(const uint32_t leaf1[4]) {
    uint32_t states = 1u << PLAIN, low, high;
    if (!(leaf1[ECX] >> 27 & 1)) return states;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 6) == 6) states |= 1u << YMM;
    if ((low & 0xe6) == 0xe6) states |= 1u << ZMM;
    if ((low >> 17 & 3) == 3 && !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA))
        states |= 1u << TILE;
    return states;
}

static uint64_t cpu_features(void) {
    uint32_t leaf[LEAVES][4] = {{0}};
    uint32_t *l = leaf[LEAF_1];
    uint64_t mask = 0;
    int bit = 0;
    __get_cpuid(1, &l[EAX], &l[EBX], &l[ECX], &l[EDX]);
    l = leaf[LEAF_7_0];
    __get_cpuid_count(7, 0, &l[EAX], &l[EBX], &l[ECX], &l[EDX]);
    if (l[EAX]) { /* the highest sub-leaf */
        l = leaf[LEAF_7_1];
        __get_cpuid_count(7, 1, &l[EAX], &l[EBX], &l[ECX], &l[EDX]);
    }
    l = leaf[LEAF_80000001];
    __get_cpuid(0x80000001, &l[EAX], &l[EBX], &l[ECX], &l[EDX]);
    const uint32_t states = saved_states(leaf[LEAF_1]);
#define X(name, number, reg, shift, state) \
    mask |= (uint64_t)(leaf[number][reg] >> (shift) & states >> (state) & 1) << bit++;
    ONNXC_FEATURES(X)
#undef X
    return mask;
}

#else
#include <sys/auxv.h>

#if defined(__aarch64__)
#define ONNXC_FEATURES ONNXC_ARM64_FEATURES
#elif defined(__riscv)
#define ONNXC_FEATURES ONNXC_RISCV_FEATURES
#else
#define ONNXC_FEATURES(X) X("", HWCAP, 0)
#endif

static uint64_t cpu_features(void) {
    uint64_t mask = 0;
    int bit = 0;
#define X(name, word, shift) mask |= (uint64_t)(getauxval(word) >> (shift) & 1) << bit++;
    ONNXC_FEATURES(X)
#undef X
    return mask;
}
#endif

#define X(name, ...) name,
const char *const onnxc_feature_names[] = {ONNXC_FEATURES(X) NULL};
#undef X
