/* A link, callers that remember what they were told, a scripted server, a loop that runs until something is so. */
#ifndef TOLLGATE_TESTS_REDIS_RIG_H
#define TOLLGATE_TESTS_REDIS_RIG_H

#include "gateway/redis/redis.h"

#include "gateway/base/clock.h"
#include "gateway/base/log.h"
#include "tests/support/fake_redis.h"
#include "tests/support/real_redis.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMEOUT_US (40 * US_PER_MS) /* where a test waits for something late */
#define PATIENT_US (10 * US_PER_S)  /* elsewhere: the machine may be busy */
#define CALLS_MAX 64

static struct loop *loop;
static struct fake_redis fake;
static struct redis *redis;
static struct redis_options options;

struct told {
    struct redis_call call;
    int n; /* times done */
    enum redis_kind kind;
    int64_t number, sent_us, done_us;
    char text[64];
};
static struct told told[CALLS_MAX];

static inline void on_done(struct redis_call *call, const struct redis_value *reply) {
    struct told *t = (struct told *)call;
    t->n++;
    t->done_us = clock_mono_us();
    cr_assert_eq(reply == NULL, call->fault != REDIS_OK);
    t->kind = reply ? reply->kind : REDIS_NIL;
    t->number = reply ? reply->number : 0;
    snprintf(t->text, sizeof t->text, "%.*s", reply ? (int)reply->text.n : 0,
             reply && reply->text.at ? reply->text.at : "");
}

static int ups, downs;
static inline void on_up(struct redis_watcher *w) {
    (void)w;
    ups++;
}
static inline void on_down(struct redis_watcher *w) {
    (void)w;
    downs++;
}
static struct redis_watcher watcher = {.on_up = on_up, .on_down = on_down};

static inline void begin(void) {
    log_setup(LOG_ERROR, LOG_TEXT);
    loop = loop_new();
    fake_open(&fake, loop_base(loop));
    options = (struct redis_options){
        .address = fake.address, .prefix = "t:", .timeout_us = PATIENT_US, .connect_us = US_PER_S};
}

static inline void end(void) {
    redis_close(redis);
    fake_close(&fake);
    loop_free(loop);
}

static inline void tick(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what, (void)arg;
}

/* Runs the loop until `is` says so, for `ms` at most; whether it did. */
static inline bool run_until(bool (*is)(void), int ms) {
    struct timeval step = {0, 2000};
    int64_t end_us = clock_mono_us() + ms * US_PER_MS;
    while (!(is && is()) && clock_mono_us() < end_us) {
        event_base_once(loop_base(loop), -1, EV_TIMEOUT, tick, NULL, &step);
        event_base_loop(loop_base(loop), EVLOOP_ONCE);
    }
    return is && is();
}

static inline bool is_up(void) {
    return redis_up(redis);
}
static inline bool is_down(void) {
    return !redis_up(redis);
}
static int n_sent;
static inline bool all_told(void) {
    for (int i = 0; i < n_sent; i++)
        if (told[i].call.open)
            return false;
    return true;
}

static inline void open_link(void) {
    struct str why;
    str_init(&why, 1000);
    redis = redis_open(loop, &options, &why);
    cr_assert(redis, "%s", why.at);
    redis_watch(redis, &watcher);
    str_fini(&why);
}

static inline void open_up(void) {
    open_link();
    cr_assert(run_until(is_up, 3000));
}

static inline struct told *next(void) {
    struct told *t = &told[n_sent++];
    *t = (struct told){.call.done = on_done, .sent_us = clock_mono_us()};
    return t;
}

static inline bool ask(struct told *t, const char *words) {
    struct span argv[8], rest = span_of(words);
    size_t n = 0;
    while (n < 8 && span_cut(&rest, ' ', &argv[n]))
        n++;
    return redis_send(redis, &t->call, n, argv);
}

#endif
