/* Compares two candidates by short blocks in turn, and says when that is enough: interleaved.py for devices without
 * Python, with the same rules. */
#include "plan.h"

enum { MOST_ROUNDS = 64, FASTER, EVEN, SLOWER };

/* Nanoseconds a run of `runs` runs of a candidate. */
typedef double (*clock_of)(void *side, int32_t runs);

typedef struct outcome {
    int32_t verdict, rounds;
    double ns, other_ns, ratio, spread, least;
} outcome;

static double quantile(const double *values, int32_t count, double share) {
    double sorted[MOST_ROUNDS];
    for (int32_t i = 0; i < count; i++) {
        int32_t k = i;
        for (; k > 0 && sorted[k - 1] > values[i]; k--) sorted[k] = sorted[k - 1];
        sorted[k] = values[i];
    }
    const double at = share * (count - 1);
    const int32_t low = (int32_t)at, high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

static double least_of(const double *values, int32_t count) {
    double least = values[0];
    for (int32_t i = 1; i < count; i++) least = values[i] < least ? values[i] : least;
    return least;
}

/* What the rounds so far say of ours; 0: more are needed. */
static int32_t verdict_of(const double *ours, const double *theirs, int32_t count) {
    const plan_rules *r = &onnxc_plan.rules;
    double ratios[MOST_ROUNDS], most = 0;
    if (count < (r->few < r->rounds ? r->few : r->rounds)) return 0;
    for (int32_t i = 0; i < count; i++) {
        ratios[i] = ours[i] / theirs[i];
        most = ratios[i] > most ? ratios[i] : most;
    }
    const double middle = quantile(ratios, count, 0.5), fastest = least_of(ours, count) / least_of(theirs, count);
    const double better = middle < fastest ? middle : fastest;
    if (better > r->hopeless) return SLOWER;
    if (count >= r->some && better > 1) return EVEN;
    if (count >= r->some && middle < r->beyond_doubt && most < r->faster) return FASTER;
    if (count < r->rounds) return 0;
    return middle < r->faster && quantile(ratios, count, 0.75) < 1 ? FASTER : EVEN;
}

static int32_t between(double value, int32_t low, int32_t high) {
    return value < low ? low : value > high ? high : (int32_t)value;
}

/* How many runs fill a block. */
static int32_t runs_a_block(clock_of clock, void *side) {
    const double block = onnxc_plan.rules.block, one = clock(side, 1), two = clock(side, 1);
    const double once = one < two ? one : two;
    const double some = clock(side, between(block / 4 / (once > 1 ? once : 1), 1, 50));
    return between(block / (some > 1 ? some : 1), 1, onnxc_plan.rules.most_runs);
}

/* Runs both in turn, in alternating order, until the verdict is clear. */
static outcome compare(clock_of clock, void *our_side, void *their_side) {
    double ours[MOST_ROUNDS], theirs[MOST_ROUNDS], ratios[MOST_ROUNDS];
    const int32_t our_runs = runs_a_block(clock, our_side), their_runs = runs_a_block(clock, their_side);
    outcome o = {0};
    while (!o.verdict) {
        const int32_t i = o.rounds++;
        if (i % 2) theirs[i] = clock(their_side, their_runs);
        ours[i] = clock(our_side, our_runs);
        if (i % 2 == 0) theirs[i] = clock(their_side, their_runs);
        ratios[i] = ours[i] / theirs[i];
        o.verdict = verdict_of(ours, theirs, o.rounds);
    }
    o.ns = quantile(ours, o.rounds, 0.5);
    o.other_ns = quantile(theirs, o.rounds, 0.5);
    o.ratio = quantile(ratios, o.rounds, 0.5);
    o.spread = quantile(ratios, o.rounds, 0.75) - quantile(ratios, o.rounds, 0.25);
    o.least = least_of(ours, o.rounds);
    return o;
}

/* The median of a few blocks, and the least. */
static outcome alone(clock_of clock, void *side) {
    double ns[5];
    const int32_t runs = runs_a_block(clock, side);
    for (int32_t i = 0; i < 5; i++) ns[i] = clock(side, runs);
    outcome o = {.rounds = 5, .ns = quantile(ns, 5, 0.5), .least = least_of(ns, 5)};
    o.other_ns = o.ns;
    return o;
}
