/* Hit, miss and shared: one answer, several readers, whoever leaves or fails. */
#include "cache/store.h"
#include "tests/support/late.h"
#include "tests/support/story.h"

#define CACHED_ALIASES "aliases: {m: {ladder: [{targets: [up/model-x]}], attempts: 1, cache: {enabled: true}}}\n"
#define CONF FLOW_BASE FLOW_BACKENDS CACHED_ALIASES FLOW_TEAMS
#define SURE "\"temperature\":0,"
#define PLAIN_CALL                                                                                                     \
    "{" SURE "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"max_tokens\":100}"
#define STREAM_CALL                                                                                                    \
    "{" SURE "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"max_tokens\":100,"            \
    "\"stream\":true}"

static size_t following(const struct flow *f) {
    size_t n = 0;
    const struct list *l = &f->g->by_state[STATE_CACHE];
    for (struct link *k = list_first(l); k; k = list_next(l, k))
        n += container_of(k, struct request, in_state)->answer != NULL;
    return n;
}

static void answer_stream(struct up *u) {
    up_stream(u);
    up_event(u, SPAN("data: "));
    up_event(u, span_of(flow_stream + 6));
    up_end(u);
}

STORY(cache_story, the_second_call_is_a_hit_that_costs_nothing, CONF) {
    f->up.script = answer_stream;
    struct caller *miss = flow_call(f, STREAM_CALL);
    UNTIL(f, miss->whole);
    cr_expect_str_eq(caller_field(miss, "x-tollgate-cache"), "miss");
    UNTIL(f, flow_idle(f));
    struct caller *plain = flow_call(f, PLAIN_CALL), *stream = flow_call(f, STREAM_CALL);
    UNTIL(f, plain->whole && stream->whole);
    cr_expect_eq(f->up.calls.n, 1);
    cr_expect_eq(plain->status, 200);
    cr_expect_str_eq(caller_field(plain, "x-tollgate-cache"), "hit");
    cr_expect_str_eq(caller_field(plain, "age"), "0");
    cr_expect_str_eq(caller_field(plain, "x-tollgate-cost"), "0");
    cr_expect_not_null(strstr(plain->body.at, "Hi th"), "%s", plain->body.at);
    cr_expect_not_null(strstr(stream->body.at, "data: [DONE]"));
    UNTIL(f, flow_idle(f));
    cr_expect_eq(flow_count(f, "admit"), 1);
    cr_expect_eq(flow_count(f, "settle"), 3);
    cr_expect_eq(flow_i64(flow_record(f, "settle", 1), "cost_nanousd"), 0);
    cr_expect(json_is(json_get(flow_record(f, "settle", 2), "cache"), "hit"));
}

STORY(cache_story, equal_calls_at_once_share_one_answer_and_the_leader_pays, CONF) {
    struct caller *lead = flow_call(f, STREAM_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    struct caller *early = flow_call(f, STREAM_CALL);
    UNTIL(f, following(f) == 1);
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(early->body.at, "\"Hi\"") && strstr(lead->body.at, "\"Hi\""));
    struct caller *late = flow_call(f, PLAIN_CALL);
    UNTIL(f, f->g->by_state[STATE_STREAM].n == 3);
    up_event(u, span_of(flow_rest));
    up_end(u);
    UNTIL(f, lead->whole && early->whole && late->whole);
    cr_expect_eq(f->up.calls.n, 1);
    cr_expect_str_eq(caller_field(early, "x-tollgate-cache"), "shared");
    cr_expect_str_eq(caller_field(late, "x-tollgate-cache"), "shared");
    cr_expect_str_eq(caller_field(late, "x-tollgate-cost"), "0");
    cr_expect_not_null(strstr(early->body.at, "[DONE]"));
    UNTIL(f, flow_idle(f));
    int64_t sum_nanousd = 0;
    for (size_t i = 0; i < 3; i++)
        sum_nanousd += flow_i64(flow_record(f, "settle", i), "cost_nanousd");
    cr_expect_eq(sum_nanousd, FLOW_COST_NANOUSD);
}

STORY(cache_story, a_leader_that_fails_before_content_leaves_the_lead_to_a_follower, CONF) {
    struct caller *lead = flow_call(f, STREAM_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    struct caller *one = flow_call(f, STREAM_CALL), *two = flow_call(f, PLAIN_CALL);
    UNTIL(f, following(f) == 2);
    up_answer(provider_call(&f->up, 0), 500, "", "{\"error\":{\"message\":\"broken\"}}");
    UNTIL(f, lead->whole && provider_call(&f->up, 1));
    cr_expect_eq(lead->status, 502);
    UNTIL(f, following(f) == 1);
    answer_stream(provider_call(&f->up, 1));
    UNTIL(f, one->whole && two->whole);
    cr_expect_eq(one->status, 200);
    cr_expect_eq(two->status, 200);
    cr_expect_eq(f->up.calls.n, 2);
}

STORY(cache_story, the_leaders_client_leaves_while_a_follower_reads, CONF) {
    struct caller *lead = flow_call(f, STREAM_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    struct caller *follower = flow_call(f, STREAM_CALL);
    UNTIL(f, following(f) == 1);
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(follower->body.at, "\"Hi\""));
    caller_leave(lead, true);
    flow_pump(f, 20);
    cr_expect_not(u->gone, "the try goes on for the one who reads");
    up_event(u, span_of(flow_rest));
    up_end(u);
    UNTIL(f, follower->whole);
    cr_expect_not_null(strstr(follower->body.at, "[DONE]"));
    UNTIL(f, flow_idle(f));
    struct json settle = flow_record(f, "settle", 0);
    bool first = json_is(json_get(settle, "cache"), "miss");
    settle = first ? settle : flow_record(f, "settle", 1);
    cr_expect_eq(json_get(settle, "aborted").kind, JSON_TRUE);
    cr_expect_eq(flow_i64(settle, "cost_nanousd"), FLOW_COST_NANOUSD, "the leader pays all the same");
}

STORY(cache_story, a_leader_without_client_or_reader_ends_its_try, CONF) {
    struct caller *lead = flow_call(f, STREAM_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    struct caller *follower = flow_call(f, STREAM_CALL);
    UNTIL(f, following(f) == 1);
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(follower->body.at, "\"Hi\""));
    caller_leave(lead, true);
    flow_pump(f, 20);
    caller_leave(follower, false);
    UNTIL(f, u->gone);
    UNTIL(f, flow_idle(f));
    cr_expect_eq(flow_count(f, "settle") + flow_count(f, "refuse"), 2);
}

STORY(cache_story, a_follower_that_leaves_does_not_wait_for_its_leader, CONF) {
    struct caller *lead = flow_call(f, STREAM_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    struct caller *follower = flow_call(f, STREAM_CALL);
    UNTIL(f, following(f) == 1);
    caller_leave(follower, true);
    UNTIL(f, f->g->by_id.n == 1);
    cr_expect_not(lead->whole);
    answer_stream(provider_call(&f->up, 0));
    UNTIL(f, lead->whole);
}

/* A look-up that is on its way when the client leaves comes back with a lead, a leader or an entry: all are given back. */
Test(cache_story, a_client_that_leaves_during_its_look_up_gives_back_what_that_found) {
    struct flow f;
    void *store;
    flow_open(&f, CONF, false);
    cache_free(f.g->cache);
    f.g->cache = late_cache(1 << 20, NULL, &store);
    for (int round = 0; round < 4; round++) {
        struct caller *lead = round == 2 ? flow_call(&f, STREAM_CALL) : NULL;
        UNTIL(&f, !lead || late_cache_step(store));
        UNTIL(&f, !lead || provider_call(&f.up, 0));
        struct caller *c = flow_call(&f, STREAM_CALL);
        UNTIL(&f, f.g->by_state[STATE_CACHE].n == 1);
        caller_leave(c, true);
        UNTIL(&f, container_of(list_first(&f.g->by_state[STATE_CACHE]), struct request, in_state)->client_left);
        cr_assert(late_cache_step(store));
        UNTIL(&f, f.g->by_id.n == (lead ? 1 : 0));
        if (lead)
            answer_stream(provider_call(&f.up, 0));
        UNTIL(&f, flow_idle(&f)); /* the first two had a lead, the third a leader, the fourth a hit */
    }
    cr_expect_eq(f.up.calls.n, 1);
    flow_close(&f);
}

/* The look-up of the follower is answered at any instant of its leader's end. */
Test(cache_story, a_leader_that_ends_between_a_look_up_and_its_use_is_still_there) {
    struct flow f;
    flow_open(&f, CONF, true);
    for (int turns = 0; turns < 24; turns++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{" SURE "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"%d\"}],\"stream\":true}",
                 turns);
        struct caller *lead = flow_call(&f, body);
        UNTIL(&f, provider_call(&f.up, f.up.calls.n - 1) && f.g->by_state[STATE_SEND].n == 1);
        struct caller *follower = flow_call(&f, body);
        UNTIL(&f, f.g->by_state[STATE_CACHE].n == 1 || f.g->by_state[STATE_RATE].n == 1);
        flow_pump(&f, turns);
        size_t before = f.up.calls.n;
        f.up.script = answer_stream;
        answer_stream(provider_call(&f.up, before - 1));
        UNTIL(&f, lead->whole && follower->whole);
        cr_expect_eq(follower->status, 200);
        f.up.script = NULL;
        UNTIL(&f, flow_idle(&f));
    }
    flow_close(&f);
}

static struct request *in_state(const struct flow *f, enum state s) {
    return container_of(list_first(&f->g->by_state[s]), struct request, in_state);
}

STORY(cache_story, a_cancelled_leader_is_told_and_its_follower_reads_on, CONF) {
    struct caller *lead = flow_call(f, STREAM_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(lead->body.at ? lead->body.at : "", "\"Hi\""));
    struct request *r = in_state(f, STATE_STREAM);
    struct caller *follower = flow_call(f, STREAM_CALL);
    UNTIL(f, strstr(follower->body.at ? follower->body.at : "", "\"Hi\""));
    cr_expect(request_cancel(r));
    cr_expect_not(request_cancel(r), "once");
    UNTIL(f, lead->whole);
    cr_expect_not_null(strstr(lead->body.at, "cancelled"));
    cr_expect_null(strstr(lead->body.at, "[DONE]"));
    up_event(u, span_of(flow_rest));
    up_end(u);
    UNTIL(f, follower->whole);
    cr_expect_not_null(strstr(follower->body.at, "[DONE]"));
}

STORY(cache_story, a_cancelled_follower_leaves_its_leader_alone, CONF) {
    struct caller *lead = flow_call(f, STREAM_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    struct caller *follower = flow_call(f, PLAIN_CALL);
    UNTIL(f, following(f) == 1);
    cr_expect(request_cancel(in_state(f, STATE_CACHE)));
    UNTIL(f, follower->whole);
    cr_expect_eq(follower->status, 503);
    cr_expect_str_eq(caller_field(follower, "x-should-retry"), "false");
    answer_stream(provider_call(&f->up, 0));
    UNTIL(f, lead->whole);
    cr_expect_not_null(strstr(lead->body.at, "[DONE]"));
}

#define STALE_CONF                                                                                                     \
    FLOW_BASE FLOW_BACKENDS CACHED_ALIASES FLOW_TEAMS "cache: {ttl: 1m, stale_if_error: 1h}\n"                         \
                                                      "health: {samples: 3, errors: \"50%\", cool_down: [1m, 5m]}\n"

static void break_down(struct up *u) {
    up_answer(u, 500, "", "{\"error\":{\"message\":\"broken\"}}");
}

static struct caller *call_on(struct flow *f, void (*script)(struct up *u), const char *fields, const char *body) {
    f->up.script = script;
    char head[256];
    snprintf(head, sizeof head, "authorization: Bearer " FLOW_KEY "\r\n%s", fields);
    struct caller *c = flow_call_with(f, head, body);
    UNTIL(f, c->whole);
    UNTIL(f, flow_idle(f));
    return c;
}

STORY(cache_story, an_expired_answer_stands_in_when_every_rung_failed_and_says_so, STALE_CONF) {
    cr_assert_str_eq(caller_field(call_on(f, answer_stream, "", PLAIN_CALL), "x-tollgate-cache"), "miss");
    *f->clock_us += 2 * US_PER_MIN;
    struct caller *plain = call_on(f, break_down, "", PLAIN_CALL), *stream = call_on(f, break_down, "", STREAM_CALL);
    cr_expect_eq(plain->status, 200);
    cr_expect_str_eq(caller_field(plain, "x-tollgate-cache"), "stale");
    cr_expect_str_eq(caller_field(plain, "age"), "120");
    cr_expect_str_eq(caller_field(plain, "x-tollgate-attempts"), "1");
    cr_expect_str_eq(caller_field(plain, "x-tollgate-cost"), "0");
    cr_expect_null(caller_field(plain, "x-should-retry"));
    cr_expect_not_null(strstr(plain->body.at, "Hi th"));
    cr_expect_not_null(strstr(plain->body.at, "\"tollgate\":{\"stale\":120}"), "%s", plain->body.at);
    cr_expect_str_eq(caller_field(stream, "x-tollgate-cache"), "stale");
    cr_expect(strstr(stream->body.at, "\"tollgate\":{\"stale\":120}") && strstr(stream->body.at, "[DONE]"), "%s",
              stream->body.at);
    struct json settle = flow_record(f, "settle", 1);
    cr_expect(json_is(json_get(settle, "cache"), "stale") && flow_i64(settle, "status") == 200);
    cr_expect_eq(json_count(json_get(settle, "attempts")), 1);
    cr_expect_eq(json_get(settle, "saved_nanousd").kind, JSON_NONE, "a failure saved nothing");
    cr_assert_str_eq(caller_field(call_on(f, answer_stream, "", PLAIN_CALL), "x-tollgate-cache"), "miss");
    cr_expect_str_eq(caller_field(call_on(f, break_down, "", PLAIN_CALL), "x-tollgate-cache"), "hit",
                     "the stale one was not kept again, the fresh one was");
}

STORY(cache_story, an_expired_answer_is_not_for_those_who_want_none_nor_for_ever, STALE_CONF) {
    call_on(f, answer_stream, "", PLAIN_CALL);
    *f->clock_us += 2 * US_PER_MIN;
    cr_expect_eq(call_on(f, break_down, "cache-control: no-cache\r\n", PLAIN_CALL)->status, 502);
    cr_expect_eq(call_on(f, break_down, "cache-control: max-age=60\r\n", PLAIN_CALL)->status, 502);
    *f->clock_us += 2 * US_PER_HOUR;
    cr_expect_eq(call_on(f, break_down, "", PLAIN_CALL)->status, 502);
}

STORY(cache_story, what_is_kept_answers_also_when_no_target_is_healthy, STALE_CONF) {
    call_on(f, answer_stream, "", PLAIN_CALL);
    for (int i = 0; i < 6; i++)
        call_on(f, break_down, "cache-control: no-cache\r\n", PLAIN_CALL);
    size_t calls = f->up.calls.n;
    struct caller *none = call_on(f, break_down, "cache-control: no-cache\r\n", PLAIN_CALL);
    cr_assert_eq(none->status, 503);
    cr_expect_null(caller_field(none, "x-tollgate-cache"));
    cr_expect_not_null(caller_field(none, "retry-after"));
    struct caller *hit = call_on(f, break_down, "", PLAIN_CALL);
    cr_expect_eq(hit->status, 200);
    cr_expect_str_eq(caller_field(hit, "x-tollgate-cache"), "hit");
    cr_expect_str_eq(caller_field(hit, "x-tollgate-attempts"), "0");
    cr_expect_eq(f->up.calls.n, calls);
    struct json settle = flow_record(f, "settle", flow_count(f, "settle") - 1);
    cr_expect_eq(flow_i64(settle, "saved_nanousd"), FLOW_COST_NANOUSD);
}

/* ---- another process leads ---- */

/* Somebody else has the lead, until the test says otherwise. */
static bool theirs;

static enum progress claim_theirs(void *store, struct store_claim *c) {
    (void)store;
    c->answer = theirs ? CLAIM_THEIRS : CLAIM_OURS;
    return PROGRESS_DONE;
}

static enum progress find_ours(void *store, struct store_op *op) {
    for (size_t i = 0; i < op->n; i++)
        op->entries[i] = NULL;
    return theirs ? PROGRESS_DONE : memory_store.find(store, op);
}

static void no_claim(void *store, const uint8_t key[SHA256_BYTES]) {
    (void)store, (void)key;
}

static void shared_by_others(struct flow *f) {
    static struct store_ops ops;
    ops = memory_store;
    ops.find = find_ours;
    ops.claim = claim_theirs;
    ops.renew = ops.release = no_claim;
    theirs = true;
    cache_free(f->g->cache);
    f->g->cache = cache_new_on(&ops, memory_store_new(1 << 20));
}

static bool waits_in_cache(struct flow *f) {
    return f->g->by_state[STATE_CACHE].n == 1 && in_state(f, STATE_CACHE)->asking;
}

Test(cache_story, a_follower_of_another_process_that_leaves_or_is_cancelled_waits_no_longer) {
    struct flow f;
    flow_open(&f, CONF, false);
    shared_by_others(&f);
    struct caller *left = flow_call(&f, PLAIN_CALL);
    UNTIL(&f, waits_in_cache(&f));
    caller_leave(left, true);
    UNTIL(&f, flow_idle(&f));
    struct caller *cancelled = flow_call(&f, PLAIN_CALL);
    UNTIL(&f, waits_in_cache(&f));
    cr_expect(request_cancel(in_state(&f, STATE_CACHE)));
    UNTIL(&f, cancelled->whole);
    cr_expect_eq(cancelled->status, 503);
    cr_expect_eq(f.up.calls.n, 0);
    flow_close(&f);
}

Test(cache_story, a_follower_of_another_process_goes_by_itself_when_that_gave_up) {
    struct flow f;
    flow_open(&f, CONF, false);
    shared_by_others(&f);
    f.up.script = answer_stream;
    struct caller *one = flow_call(&f, PLAIN_CALL), *two = flow_call(&f, STREAM_CALL);
    UNTIL(&f, f.g->by_state[STATE_CACHE].n == 2);
    theirs = false;
    *f.clock_us += US_PER_S;
    UNTIL(&f, one->whole && two->whole);
    cr_expect_eq(f.up.calls.n, 1);
    cr_expect_str_eq(caller_field(one, "x-tollgate-cache"), "miss");
    cr_expect_str_eq(caller_field(two, "x-tollgate-cache"), "shared");
    flow_close(&f);
}

Test(cache_story, a_follower_of_another_process_is_given_what_that_kept) {
    struct flow f;
    flow_open(&f, CONF, false);
    shared_by_others(&f);
    theirs = false;
    call_on(&f, answer_stream, "", STREAM_CALL);
    theirs = true; /* and nobody has kept anything yet */
    struct caller *one = flow_call(&f, PLAIN_CALL), *two = flow_call(&f, STREAM_CALL);
    UNTIL(&f, f.g->by_state[STATE_CACHE].n == 2);
    theirs = false;
    *f.clock_us += US_PER_S;
    UNTIL(&f, one->whole && two->whole);
    cr_expect_str_eq(caller_field(one, "x-tollgate-cache"), "shared");
    cr_expect_str_eq(caller_field(two, "x-tollgate-cache"), "shared");
    cr_expect_str_eq(caller_field(one, "x-tollgate-cost"), "0");
    cr_expect_eq(f.up.calls.n, 1);
    UNTIL(&f, flow_idle(&f));
    cr_expect_eq(flow_i64(flow_record(&f, "settle", 2), "saved_nanousd"), FLOW_COST_NANOUSD);
    flow_close(&f);
}
