/* What measure.c prints: JSON lines on standard output. */

static char line[1 << 14];
static int32_t filled, failed_output;

static void write_out(void) {
    for (int32_t done = 0; done < filled && !failed_output;) {
        const int64_t count = CALL(SYS_write, 1, ADDRESS(line + done), filled - done);
        if (count == -EINTR) continue;
        if (count <= 0) failed_output = 1; /* whoever read it has gone */
        done += (int32_t)count;
    }
    filled = 0;
}

static void put_bytes(const char *text, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (filled == sizeof line) write_out();
        line[filled++] = text[i];
    }
}

static void put(const char *text) { put_bytes(text, strlen(text)); }

/* Ends a line. */
static void flush(void) {
    put("\n");
    write_out();
}

static void put_integer(int64_t value) {
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) digits[--at] = '-';
    put_bytes(digits + at, sizeof digits - at);
}

/* With four decimals, or eight digits and an exponent where that is too coarse; null for what is not finite. */
static void put_real(double value) {
    double size = value < 0 ? -value : value;
    if (!is_finite(value)) {
        put("null");
        return;
    }
    if (value < 0) put("-");
    if (size == 0 || (size >= 1e-2 && size < 1e12)) {
        const int64_t parts = (int64_t)(size * 10000 + 0.5);
        put_integer(parts / 10000);
        put(".");
        for (int64_t unit = 1000; unit; unit /= 10) put_integer(parts / unit % 10);
        return;
    }
    int32_t exponent = 0;
    for (; size >= 1e8; exponent++) size /= 10;
    for (; size < 1e7; exponent--) size *= 10;
    put_integer((int64_t)(size + 0.5));
    put("e");
    put_integer(exponent);
}

static void put_field(const char *name, double value) {
    put(", \"");
    put(name);
    put("\": ");
    put_real(value);
}

static void tell_task(const plan_task *plan, int32_t number) {
    filled = 0;
    put("{\"task\": ");
    put_integer(number);
    put(", \"name\": ");
    put(plan->name);
}

static void tell_failure(const char *why) {
    put(", \"error\": \"");
    put(why);
    put("\"}");
}

static void tell_candidate(const answer *a, int32_t late, int32_t best) {
    static const char *const verdicts[] = {"faster", "even", "slower"};
    put(", {\"verdict\": \"");
    if (late || a->wrong) {
        put(late ? "not measured\"}" : "failed\", \"why\": \"");
        if (late) return;
        put(a->wrong);
        put("\"");
        if (a->difference > 0 && is_finite(a->difference)) put_field("difference", a->difference);
        put("}");
        return;
    }
    put(verdicts[a->outcome.verdict - FASTER]);
    put("\"");
    put_field("ns", a->outcome.ns);
    put_field("other_ns", a->outcome.other_ns);
    put_field("ratio", a->outcome.ratio);
    put_field("spread", a->outcome.spread);
    put_field("difference", a->difference);
    put(", \"rounds\": ");
    put_integer(a->outcome.rounds);
    put(", \"beside\": ");
    put_integer(best);
    put("}");
}

/* `last`: the best beside the first; it is the winner if it is faster once more. */
static void tell_winner(const plan_task *plan, int32_t best, const answer *first, const answer *last) {
    const int32_t won = best && !last->wrong && last->outcome.verdict == FASTER, winner = won ? best : 0;
    const answer *figures = last->wrong ? first : last;
    put(", \"winner\": ");
    put_integer(winner);
    put_field("ns", won ? figures->outcome.ns : figures->outcome.other_ns);
    put_field("default_ns", figures->outcome.other_ns);
    put_field("warm_ns", figures->warm);
    if (won || !best) put_field("min_ns", figures->outcome.least);
    if (won) {
        put(", \"rounds\": ");
        put_integer(figures->outcome.rounds);
        put_field("spread", figures->outcome.spread);
    }
    put(", \"choice\": ");
    put(plan->candidates[winner].choice);
    put("}");
}
