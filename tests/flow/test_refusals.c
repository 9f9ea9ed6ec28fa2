/* Refusals in flow: budget, rate, keys, a log that cannot be written, a house that closes. */
#include "tests/support/late.h"
#include "tests/support/story.h"

#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <unistd.h>

/* A call of FLOW_CALL is bounded by 100 output tokens, 200,000 nano-dollars, and its input. */
#define POOR                                                                                                           \
    "teams:\n"                                                                                                         \
    "  search: {" FLOW_KEYS ", allow: [\"*\"], contact: the desk, budgets: [{limit: 0.0005 USD, period: month}]}\n"

STORY(refusals, a_used_up_budget_is_402_with_all_that_explains_it, FLOW_BASE FLOW_BACKENDS FLOW_ALIASES POOR) {
    struct caller *first = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    struct caller *second = flow_call(f, FLOW_CALL);
    UNTIL(f, second->whole);
    cr_expect_eq(second->status, 402);
    cr_expect_eq(f->up.calls.n, 1);
    struct json body, error;
    struct json_fault fault;
    cr_assert(json_check(str_span(&second->body), JSON_DEPTH_MAX, &body, &fault));
    error = json_get(body, "error");
    cr_expect(json_is(json_get(error, "code"), "budget_exceeded"));
    cr_expect(json_is(json_get(error, "type"), "insufficient_quota"));
    cr_expect(json_is(json_get(error, "level"), "team"));
    cr_expect(span_is(json_get(error, "limit").raw, "0.0005"), "%s", second->body.at);
    cr_expect(span_is(json_get(error, "spent").raw, "0"));
    double held = 0, needed = 0;
    cr_expect(json_f64(json_get(error, "held"), &held) && json_f64(json_get(error, "needed"), &needed));
    cr_expect(held > 0.0002 && held < 0.0005 && needed == held && held + needed > 0.0005);
    cr_expect(json_is(json_get(error, "period"), "month"));
    cr_expect(json_is(json_get(error, "contact"), "the desk"));
    cr_expect_eq(json_get(error, "resets").kind, JSON_STRING);
    cr_expect_not_null(strstr(second->body.at, "Contact: the desk"));
    cr_expect_str_eq(caller_field(second, "x-should-retry"), "false");
    cr_expect_null(caller_field(second, "retry-after"));
    up_answer(provider_call(&f->up, 0), 200, "", flow_plain);
    UNTIL(f, first->whole);
    UNTIL(f, flow_idle(f));
    cr_expect(json_is(json_get(flow_record(f, "refuse", 0), "code"), "budget_exceeded"));
    f->up.script = NULL;
    struct caller *third = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 1)); /* what the first call did not use is there again */
    up_answer(provider_call(&f->up, 1), 200, "", flow_plain);
    UNTIL(f, third->whole);
    cr_expect_eq(third->status, 200);
}

#define HASTY                                                                                                          \
    "teams:\n"                                                                                                         \
    "  search: {" FLOW_KEYS ", allow: [\"*\"], rate_limits: {requests_per_minute: 2, in_flight: 10}}\n"

static void answer_plain(struct up *u) {
    up_answer(u, 200, "", flow_plain);
}

STORY(refusals, a_rate_limit_says_the_true_wait, FLOW_BASE FLOW_BACKENDS FLOW_ALIASES HASTY) {
    f->up.script = answer_plain;
    for (int i = 0; i < 2; i++) {
        struct caller *c = flow_call(f, FLOW_CALL);
        UNTIL(f, c->whole);
        cr_expect_eq(c->status, 200);
        cr_expect_str_eq(caller_field(c, "x-ratelimit-limit-requests"), "2");
    }
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 429);
    cr_expect_not_null(strstr(c->body.at, "\"limit\":\"requests_per_minute\""));
    int64_t wait_ms = strtoll(caller_field(c, "retry-after-ms"), NULL, 10);
    cr_expect(wait_ms > 0 && wait_ms <= 60000, "%ld", (long)wait_ms);
#ifdef TOLLGATE_TEST
    *f->clock_us += (wait_ms - 5000) * US_PER_MS;
    struct caller *early = flow_call(f, FLOW_CALL);
    UNTIL(f, early->whole);
    cr_expect_eq(early->status, 429);
    *f->clock_us += 5001 * US_PER_MS;
    struct caller *again = flow_call(f, FLOW_CALL);
    UNTIL(f, again->whole);
    cr_expect_eq(again->status, 200, "after the wait that was told the call passes: %s", again->body.at);
#endif
}

STORY(refusals, a_key_that_a_reload_takes_away_keeps_its_running_stream, FLOW_CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    struct str report;
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(c->body.at, "\"Hi\""));
    flow_conf(f, FLOW_BASE FLOW_BACKENDS FLOW_ALIASES
              "teams:\n  other: {keys: [{id: callers2, name: test, sha256: @OTHER@}], allow: [\"*\"]}\n");
    str_init(&report, 65536);
    cr_assert(gateway_reload(f->g, false, &report), "%s", report.at);
    str_fini(&report);
    struct caller *refused = flow_call(f, FLOW_CALL);
    UNTIL(f, refused->whole);
    cr_expect_eq(refused->status, 401);
    struct caller *other = flow_call_with(f, "x-api-key: " FLOW_OTHER_KEY "\r\n", FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 1));
    up_event(u, span_of(flow_rest));
    up_end(u);
    UNTIL(f, c->whole);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
    struct json settle = flow_record(f, "settle", 0);
    cr_expect(json_is(json_get(settle, "team"), "search"));
    cr_expect_eq(flow_i64(settle, "cost_nanousd"), FLOW_COST_NANOUSD);
    caller_leave(other, true);
    UNTIL(f, flow_idle(f));
    cr_expect_eq(flow_count(f, "settle"), 2);
}

STORY(refusals, a_reload_of_a_wrong_conf_changes_nothing, FLOW_CONF) {
    struct str report;
    const struct conf *before = f->g->conf;
    str_init(&report, 65536);
    flow_conf(f, FLOW_BASE "backends: {up: {protocol: opnai}}\n");
    cr_expect_not(gateway_reload(f->g, false, &report));
    cr_expect_eq(f->g->conf, before);
    str_fini(&report);
    f->up.script = answer_plain;
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 200);
}

#ifdef TOLLGATE_TEST
#define DAILY                                                                                                          \
    "teams:\n"                                                                                                         \
    "  search: {" FLOW_KEYS ", allow: [\"*\"], budgets: [{limit: 1 USD, period: hour}]}\n"

STORY(refusals, a_period_that_ends_during_a_call_is_the_one_that_pays, FLOW_BASE FLOW_BACKENDS FLOW_ALIASES DAILY) {
    int64_t held_nanousd, settled_nanousd, to_edge_us = US_PER_HOUR - clock_wall_us() % US_PER_HOUR;
    *f->clock_us += to_edge_us - 30 * US_PER_S;
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    *f->clock_us += 40 * US_PER_S;
    up_answer(provider_call(&f->up, 0), 200, "", flow_plain);
    UNTIL(f, c->whole);
    UNTIL(f, flow_idle(f));
    struct json admit = flow_record(f, "admit", 0), settle = flow_record(f, "settle", 0);
    cr_expect(span_equal(json_get(admit, "admitted").raw, json_get(settle, "admitted").raw), "%.*s",
              SPAN_ARG(settle.raw));
    flow_held(f, &held_nanousd, &settled_nanousd);
    cr_expect_eq(held_nanousd, 0);
    cr_expect_eq(settled_nanousd, 0, "nothing of it stands in the new hour");
    *f->clock_us -= 40 * US_PER_S;
    flow_held(f, &held_nanousd, &settled_nanousd);
    cr_expect_eq(settled_nanousd, FLOW_COST_NANOUSD, "all of it stands in the old one");
    *f->clock_us += 40 * US_PER_S;
}
#endif

/* ---- a log that cannot be written ---- */

/* The descriptor of the open segment of the log. */
static int log_descriptor(const struct flow *f) {
    char path[320], target[320];
    DIR *d = opendir("/proc/self/fd");
    int found = -1;
    for (struct dirent *e; d && found < 0 && (e = readdir(d));) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strstr(target, f->folder) && strstr(target, ".jsonl"))
            found = (int)strtol(e->d_name, NULL, 10);
    }
    closedir(d);
    return found;
}

STORY(refusals, a_log_that_cannot_be_written_refuses_calls_until_it_can, FLOW_CONF) {
    f->up.script = answer_plain;
    struct caller *good = flow_call(f, FLOW_CALL);
    UNTIL(f, good->whole);
    UNTIL(f, flow_idle(f));
    int fd = log_descriptor(f), kept = dup(fd), full = open("/dev/full", O_RDWR | O_CLOEXEC);
    cr_assert(fd >= 0 && kept >= 0 && full >= 0);
    dup2(full, fd);
    struct caller *first = flow_call(f, FLOW_CALL);
    UNTIL(f, !audit_healthy(f->g->audit));
    flow_pump(f, 20);
    cr_expect_eq(f->up.calls.n, 1, "nothing goes upstream without its admit record");
    cr_expect_not(first->whole && first->status == 200);
    dup2(kept, fd);
    UNTIL(f, audit_healthy(f->g->audit));
    UNTIL(f, first->whole);
    struct caller *last = flow_call(f, FLOW_CALL);
    UNTIL(f, last->whole);
    cr_expect_eq(last->status, 200);
    close(kept);
    close(full);
}

STORY(refusals, an_unhealthy_log_is_503_with_a_wait, FLOW_CONF) {
    f->up.script = answer_plain;
    int fd = log_descriptor(f), kept = dup(fd), full = open("/dev/full", O_RDWR | O_CLOEXEC);
    dup2(full, fd);
    gateway_count_stranger(f->g, "req_x", NULL, "chat", ERR_KEY); /* something to be written */
    UNTIL(f, !audit_healthy(f->g->audit));
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, f->g->by_state[STATE_SETTLE].n || c->whole);
    dup2(kept, fd);
    UNTIL(f, c->whole);
    cr_expect_eq(c->status, 503);
    cr_expect_not_null(strstr(c->body.at, "audit_unavailable"));
    cr_expect_str_eq(caller_field(c, "retry-after"), "1");
    cr_expect_eq(f->up.calls.n, 0);
    close(kept);
    close(full);
}

/* ---- a ledger that is gone ---- */

Test(refusals, a_ledger_that_cannot_promise_is_503) {
    struct flow f;
    flow_open(&f, FLOW_CONF, true);
    late_ledger_break(f.ledger, true);
    struct caller *c = flow_call(&f, FLOW_CALL);
    UNTIL(&f, c->whole);
    cr_expect_eq(c->status, 503);
    cr_expect_not_null(strstr(c->body.at, "ledger_unavailable"));
    cr_expect_str_eq(caller_field(c, "retry-after"), "1");
    cr_expect_eq(f.up.calls.n, 0);
    late_ledger_break(f.ledger, false);
    flow_close(&f);
}

/* ---- drain ---- */

static bool loop_ended(struct flow *f) {
    return event_base_got_break(loop_base(f->g->loop));
}

STORY(refusals, a_drain_takes_nothing_new_and_lets_what_runs_end, FLOW_CONF) {
    struct caller *idle = flow_caller(f), *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(c->body.at, "\"Hi\""));
    gateway_drain(f->g);
    UNTIL(f, idle->closed);
    cr_expect_not(loop_ended(f));
    cr_expect_not(c->closed);
    up_event(u, span_of(flow_rest));
    up_end(u);
    UNTIL(f, c->whole);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
    UNTIL(f, loop_ended(f));
}

#define SHORT_DRAIN "http: {drain: 1s}\n"

/* flow_close reads the log: the call that was cut off has its settle record there. */
STORY(refusals, a_drain_that_ran_out_of_time_settles_what_it_cuts_off, FLOW_CONF SHORT_DRAIN) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    struct caller *silent = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 1));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(c->body.at, "\"Hi\""));
    gateway_drain(f->g);
    UNTIL(f, loop_ended(f));
    cr_expect_not(c->whole || silent->whole);
    f->cut = true;
    (void)!caller_keep(c), (void)!caller_keep(silent), (void)!up_keep(u), (void)!up_keep(provider_call(&f->up, 1));
}
