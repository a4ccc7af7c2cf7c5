/* A program that measures candidates on a device that has neither Python nor a C library: measure.py in C.
 *
 * Linked with the candidates' kernels and a plan (plan.h); the weights follow the program in its file. Prints JSON lines:
 * a head, then the results of each task. A task, and in it each candidate, has a process of its own, so that one that
 * crashes or hangs costs only its own answer. */
#include "bare.c"

#include "timing.c"

#include "contents.c"
#include "rounds.c"
#include "task.c"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>

typedef struct side {
    task *task;
    int32_t number, warm;
} side;

/* What a candidate's process says of it. */
typedef struct answer {
    const char *wrong; /* a string of this program; NULL: nothing */
    outcome outcome;
    double difference, warm;
} answer;

typedef answer (*work_of_child)(task *t, int32_t number, int32_t best);

static double clock_side(void *which, int32_t runs) {
    side *s = which;
    ready *r = s->task->candidates + s->number;
    const int32_t copies = s->warm ? 1 : r->copies, first = s->warm ? 0 : r->next;
    const int32_t count = s->task->plan->candidates[s->number].count;
    if (!s->warm) r->next = (int32_t)(((int64_t)r->next + runs) % r->copies);
    return (double)onnxc_time_steps(r->steps, count, copies, first, runs, onnxc_plan.threads) / runs;
}

/* The time with the weights in the caches. */
static double warm_ns(task *t, int32_t number) {
    side warm = {t, number, 1};
    return alone(clock_side, &warm).ns;
}

static answer profile(task *t, int32_t number, int32_t best) {
    side one = {t, number, 0};
    answer a = {0};
    int64_t size;
    uint8_t *kept = room_for_outputs(t, 1, &size);
    (void)best;
    a.wrong = kept ? run_once(t, number, 1, kept) : "there is not enough memory";
    if (a.wrong) return a;
    a.outcome = alone(clock_side, &one);
    a.warm = warm_ns(t, number);
    return a;
}

static answer try(task *t, int32_t number, int32_t best) {
    side ours = {t, number, 0}, theirs = {t, best, 0};
    answer a = {0};
    a.wrong = check(t, number, &a.difference);
    if (!a.wrong) a.outcome = compare(clock_side, &ours, &theirs);
    return a;
}

static answer confirm(task *t, int32_t number, int32_t best) {
    side ours = {t, number, 0}, theirs = {t, best, 0};
    answer a = {.outcome = compare(clock_side, &ours, &theirs)};
    a.warm = warm_ns(t, a.outcome.verdict == FASTER ? number : best);
    return a;
}

static const char *ended_by(int32_t status) {
    const int32_t signal_number = status & 127;
    if (!signal_number) return "left without an answer";
    return signal_number == SIGSEGV  ? "ended by SIGSEGV"
           : signal_number == SIGILL  ? "ended by SIGILL"
           : signal_number == SIGBUS  ? "ended by SIGBUS"
           : signal_number == SIGFPE  ? "ended by SIGFPE"
           : signal_number == SIGTRAP ? "ended by SIGTRAP"
           : signal_number == SIGABRT ? "ended by SIGABRT"
           : signal_number == SIGKILL ? "ended by SIGKILL"
                                      : "ended by a signal";
}

/* 0 in the new process, which ends with this one; negative: there is none. */
static int32_t fork_child(void) {
    const int32_t child = (int32_t)CALL(SYS_clone, SIGCHLD);
    if (child == 0) CALL(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    return child;
}

static int32_t wait_for(int32_t child) {
    int32_t status = 0;
    while (CALL(SYS_wait4, child, ADDRESS(&status), 0, 0) == -EINTR) continue;
    return status;
}

static const char *await(int32_t from, int32_t child, answer *a) {
    const int64_t step = 500000000; /* time in which the whole machine is stopped counts as one */
    struct pollfd ready = {.fd = from, .events = POLLIN};
    int64_t seen = 0;
    for (int64_t left = (int64_t)(onnxc_plan.rules.longest * 1e9); left > 0 && seen <= 0; left -= step) {
        struct timespec wait = {0, left < step ? left : step};
        seen = CALL(SYS_ppoll, ADDRESS(&ready), 1, ADDRESS(&wait), 0, 0);
    }
    const int64_t got = seen > 0 ? CALL(SYS_read, from, ADDRESS(a), sizeof *a) : 0;
    if (got != sizeof *a) CALL(SYS_kill, child, seen > 0 ? 0 : SIGKILL);
    const int32_t status = wait_for(child);
    return got == sizeof *a ? a->wrong : seen > 0 ? ended_by(status) : "took too long";
}

/* What `work` answers in a process of its own; `wrong` also tells how that ended without an answer. */
static answer isolated(work_of_child work, task *t, int32_t number, int32_t best) {
    int32_t pipe[2];
    answer a = {0};
    if (CALL(SYS_pipe2, ADDRESS(pipe), O_CLOEXEC) < 0) return (answer){.wrong = "there is no pipe"};
    const int32_t child = fork_child();
    if (child == 0) {
        a = work(t, number, best);
        CALL(SYS_write, pipe[1], ADDRESS(&a), sizeof a);
        for (;;) CALL(SYS_exit_group, 0);
    }
    CALL(SYS_close, pipe[1]);
    a.wrong = child < 0 ? "there is no process" : await(pipe[0], child, &a);
    CALL(SYS_close, pipe[0]);
    return a;
}

#include "measure_output.c"

/* Tries each candidate beside the best, then the best beside the first in rounds that did not choose it. */
static void measure_task(const plan_task *plan, int32_t number, const uint8_t *weights) {
    task t;
    const int64_t until = now() + (int64_t)(plan->seconds * 1e9);
    int32_t best = 0;
    tell_task(plan, number);
    answer first = {.wrong = "there is not enough memory"};
    if (make_task(&t, plan, weights)) first = isolated(profile, &t, 0, 0);
    if (first.wrong) {
        tell_failure(first.wrong);
        return;
    }
    put(", \"candidates\": [{\"verdict\": \"reference\"}");
    for (int32_t c = 1; c < plan->count; c++) {
        const int32_t late = now() >= until;
        const answer a = late ? (answer){0} : isolated(try, &t, c, best);
        tell_candidate(&a, late, best);
        if (!late && !a.wrong && a.outcome.verdict == FASTER) best = c;
    }
    put("]");
    answer last = first;
    if (best) last = isolated(confirm, &t, best, 0);
    tell_winner(plan, best, &first, &last);
}

/* The process of one task prints its line; should it not get that far, this one does. */
static void measure_isolated(const plan_task *plan, int32_t number, const uint8_t *weights) {
    const int32_t child = fork_child();
    if (child == 0) {
        measure_task(plan, number, weights);
        flush();
        for (;;) CALL(SYS_exit_group, 0);
    }
    const int32_t status = child < 0 ? 0 : wait_for(child);
    if (child >= 0 && status == 0) return;
    tell_task(plan, number);
    tell_failure(child < 0 ? "there is no process" : ended_by(status));
    flush();
}

/* As many CPUs as there are threads: the last ones, which have less to do with interrupts. */
static void pin(int32_t threads) {
    uint64_t mask[16] = {0};
    if (CALL(SYS_sched_getaffinity, 0, sizeof mask, ADDRESS(mask)) < 0) return;
    for (int32_t i = 1023; i >= 0; i--) {
        const uint64_t bit = (uint64_t)1 << (i % 64);
        if (!(mask[i / 64] & bit)) continue;
        if (threads-- <= 0) mask[i / 64] &= ~bit;
    }
    CALL(SYS_sched_setaffinity, 0, sizeof mask, ADDRESS(mask));
}

/* The bytes behind the program in its file; NULL where it cannot be read, or ends early. Its last 16 bytes are a mark and
 * how many there are. */
static const uint8_t *find_weights(const char *path) {
    const int64_t file = CALL(SYS_openat, AT_FDCWD, ADDRESS(path), O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    const int64_t size = CALL(SYS_lseek, file, 0, 2 /* SEEK_END */);
    const int64_t at = size < 32 ? -1 : CALL(SYS_mmap, 0, size, PROT_READ, MAP_PRIVATE, file, 0);
    CALL(SYS_close, file);
    if (at < 0 && at > -4096) return NULL;
    const uint8_t *whole = (const uint8_t *)(intptr_t)at, *end = whole + size - 16;
    int64_t bytes;
    memcpy(&bytes, end + 8, 8);
    return memcmp(end, "onnxc-w1", 8) || bytes < 0 || bytes > size - 16 ? NULL : end - bytes;
}

int main(int count, char **arguments) {
    const uint8_t *weights = find_weights("/proc/self/exe");
    if (!weights && count > 0) weights = find_weights(arguments[0]); /* an emulator is not us; there may be no /proc */
    if (!weights) {
        static const char told[] = "error: the end of this program's file is missing: copy it once more\n";
        CALL(SYS_write, 2, ADDRESS(told), sizeof told - 1);
        return 2;
    }
    pin(onnxc_plan.threads);
    put(onnxc_plan.head);
    flush();
    for (int32_t i = 0; i < onnxc_plan.count; i++) measure_isolated(onnxc_plan.tasks + i, i, weights);
    return failed_output ? 2 : 0;
}
