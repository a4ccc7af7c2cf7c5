/* What buffers of a task hold: inputs made from a seed, results compared with the reference's. */
#include "plan.h"

static uint64_t random_bits(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* About normal: the sum of four that are uniform, of variance 1. */
static float random_normal(uint64_t *state) {
    const uint64_t bits = random_bits(state);
    const double sum = (double)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return (float)((sum / 65536 - 2) * 1.7320508);
}

/* Cut off, not rounded; what is too small becomes zero. */
static uint16_t half_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    const int32_t exponent = (int32_t)(bits >> 23 & 0xff) - 112;
    const uint32_t sign = bits >> 16 & 0x8000;
    return (uint16_t)(exponent < 1 ? sign : sign | (uint32_t)exponent << 10 | (bits >> 13 & 0x3ff));
}

static double from_half(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ff;
    if (exponent == 0) return (sign ? -1.0 : 1.0) * mantissa / 16777216.0;
    const uint32_t bits = sign | (exponent == 31 ? 0xffu : exponent + 112) << 23 | mantissa << 13;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* Normal floats; bytes of all values; booleans and wider integers 0 or 1, which are valid indices. */
static void fill_input(const plan_buffer *b, uint8_t *to) {
    uint64_t state = b->seed;
    for (int64_t i = 0; i < b->bytes / b->width; i++) {
        uint8_t *at = to + i * b->width;
        if (b->kind == ANY_BYTES) {
            for (int32_t k = 0; k < b->width; k++) at[k] = (uint8_t)(random_bits(&state) >> 32);
            continue;
        }
        if (b->kind == ZEROS_AND_ONES) {
            memset(at, 0, (size_t)b->width);
            at[0] = (uint8_t)(random_bits(&state) >> 63);
            continue;
        }
        const float value = random_normal(&state);
        const double wide = value;
        const uint16_t half = half_of(value);
        if (b->kind == F16) memcpy(at, &half, 2);
        if (b->kind == BF16) memcpy(at, (const uint8_t *)&value + 2, 2);
        if (b->kind == F32) memcpy(at, &value, 4);
        if (b->kind == F64) memcpy(at, &wide, 8);
    }
}

static double value_at(const plan_buffer *b, const uint8_t *from, int64_t i) {
    double wide;
    float value;
    uint16_t half;
    const uint8_t *at = from + i * b->width;
    if (b->kind == F64) {
        memcpy(&wide, at, 8);
        return wide;
    }
    if (b->kind == F32) {
        memcpy(&value, at, 4);
        return value;
    }
    memcpy(&half, at, 2);
    if (b->kind == F16) return from_half(half);
    const uint32_t bits = (uint32_t)half << 16;
    memcpy(&value, &bits, 4);
    return value;
}

static int is_finite(double x) { return x - x == 0; }

/* The largest difference as a share of the largest value; 0 for the same bits, infinite where only one is finite. */
static double distance(const plan_buffer *b, const uint8_t *got, const uint8_t *want) {
    double most = 0, scale = 0;
    if (memcmp(got, want, (size_t)b->bytes) == 0) return 0;
    if (b->kind >= ANY_BYTES) return __builtin_inf();
    for (int64_t i = 0; i < b->bytes / b->width; i++) {
        const double x = value_at(b, got, i), y = value_at(b, want, i), size = y < 0 ? -y : y;
        if (is_finite(x) != is_finite(y)) return __builtin_inf();
        if (!is_finite(y)) {
            if (!(x == y) && !(x != x && y != y)) return __builtin_inf();
            continue;
        }
        const double difference = x > y ? x - y : y - x;
        most = difference > most ? difference : most;
        scale = size > scale ? size : scale;
    }
    most /= scale > 0 ? scale : 1;
    return most > 5e-324 ? most : 5e-324; /* -0 and 0 are other bits */
}
