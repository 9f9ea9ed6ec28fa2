/* Acts carried over a real Redis between hosts that are lists of lines: everybody ends with everything, whatever was lost. */
#include "gateway/redis/redis.h"
#include "gateway/state/acts.h"

#include "gateway/base/clock.h"
#include "gateway/base/log.h"
#include "gateway/base/mem.h"
#include "tests/support/real_redis.h"

#include <criterion/criterion.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#define LINES_MAX 400

struct host {
    struct redis *redis;
    struct acts *acts;
    char *lines[LINES_MAX];
    int n, taken;
    bool full; /* its disk */
};

static struct loop *loop;
static struct real_redis real;
static struct host a, b;

static bool stands(const struct host *h, struct span line) {
    for (int i = 0; i < h->n; i++)
        if (span_is(line, h->lines[i]))
            return true;
    return false;
}

static enum err take(struct span line, void *user) {
    struct host *h = user;
    if (line.at[0] != '{')
        return ERR_INVALID;
    if (h->full)
        return ERR_INTERNAL;
    if (stands(h, line))
        return ERR_NONE;
    h->lines[h->n++] = xstrndup(line.at, line.n);
    h->taken++;
    return ERR_NONE;
}

static void each(void (*see)(struct span line, void *acts), void *acts, void *user) {
    struct host *h = user;
    for (int i = 0; i < h->n; i++)
        see(span_of(h->lines[i]), acts);
}

static const struct acts_ops ops = {take, each};

static void write_own(struct host *h, const char *line) {
    h->lines[h->n++] = xstrdup(line);
    acts_add(h->acts, span_of(line));
}

static void host_open(struct host *h) {
    struct redis_options o = {
        .address = real.socket, .prefix = "t:", .timeout_us = 10 * US_PER_S, .connect_us = 10 * US_PER_S};
    struct str why;
    str_init(&why, 1000);
    h->redis = redis_open(loop, &o, &why);
    cr_assert(h->redis);
    h->acts = acts_new(h->redis, &ops, h);
}

static void host_close(struct host *h) {
    acts_free(h->acts);
    redis_close(h->redis);
    for (int i = 0; i < h->n; i++)
        free(h->lines[i]);
}

static void tick(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what, (void)arg;
}

/* In false time: each round is a look. */
static bool run_until(bool (*is)(void)) {
    static int64_t now_us = 1;
    struct timeval step = {0, 1000};
    int64_t end_us = clock_mono_us() + 5 * US_PER_S;
    while (!is() && clock_mono_us() < end_us) {
        now_us += ACTS_LOOK_US;
        acts_tick(a.acts, now_us);
        acts_tick(b.acts, now_us);
        event_base_once(loop_base(loop), -1, EV_TIMEOUT, tick, NULL, &step);
        event_base_loop(loop_base(loop), EVLOOP_ONCE);
    }
    return is();
}

static int wanted;
static bool both_have(void) {
    return a.n == wanted && b.n == wanted && redis_up(a.redis) && acts_settled(a.acts) && redis_up(b.redis) &&
           acts_settled(b.acts);
}

static void begin(void) {
    log_setup(LOG_ERROR, LOG_TEXT);
    loop = loop_new();
    real_redis_begin(&real, NULL);
    host_open(&a);
    host_open(&b);
}

static void end(void) {
    host_close(&a);
    host_close(&b);
    real_redis_end(&real);
    loop_free(loop);
}

TestSuite(acts, .init = begin, .fini = end, .timeout = 40);

Test(acts, what_one_host_does_every_host_hears_once) {
    write_own(&a, "{\"act\":\"before the connection\"}");
    wanted = 1;
    cr_assert(run_until(both_have));
    write_own(&b, "{\"act\":\"after it\"}");
    write_own(&a, "{\"act\":\"\\u0000 \\r\\n\"}");
    wanted = 3;
    cr_assert(run_until(both_have));
    cr_expect(a.taken == 1 && b.taken == 2);
    for (int i = 0; i < a.n; i++)
        cr_expect(stands(&b, span_of(a.lines[i])), "%s", a.lines[i]);
}

Test(acts, more_than_a_page_comes_whole) {
    char line[32];
    for (int i = 0; i < 250; i++) {
        snprintf(line, sizeof line, "{\"n\":%d}", i);
        write_own(&a, line);
    }
    wanted = 250;
    cr_assert(run_until(both_have));
}

Test(acts, a_redis_that_lost_its_data_is_filled_again_by_whoever_knows) {
    write_own(&a, "{\"act\":\"revoke\"}");
    wanted = 1;
    cr_assert(run_until(both_have));
    real_redis_kill(&real);
    write_own(&b, "{\"act\":\"while it was away\"}");
    real_redis_start(&real);
    wanted = 2;
    cr_assert(run_until(both_have));
    struct host late = {0};
    struct host was = a;
    a = late; /* a host that was never there before hears of both */
    host_open(&a);
    cr_assert(run_until(both_have));
    host_close(&was);
}

static bool b_is_up(void) {
    return redis_up(b.redis) && redis_up(a.redis) && acts_settled(a.acts);
}

Test(acts, a_line_that_cannot_be_written_is_asked_for_again_and_one_that_is_none_is_passed_over) {
    struct redis_call call = {.done = NULL};
    struct span argv[] = {SPAN("XADD"), SPAN("t:state"), SPAN("*"), SPAN("other"), SPAN("x")};
    b.full = true;
    cr_assert(run_until(b_is_up));
    cr_assert(redis_send(a.redis, &call, ARRAY_LEN(argv), argv));
    redis_forget(a.redis, &call);
    write_own(&a, "{\"act\":\"revoke\"}");
    cr_assert(run_until(b_is_up));
    wanted = 1;
    for (int i = 0; i < 10; i++)
        run_until(b_is_up);
    cr_expect_eq(b.n, 0);
    b.full = false;
    cr_assert(run_until(both_have));
}
