/* Calls that go well: plain, streamed, cut anywhere. */
#include "tests/support/story.h"

STORY(answers, a_plain_call_is_answered_priced_and_recorded, FLOW_CONF) {
    struct caller *c = flow_call(f, FLOW_CALL);
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    cr_expect_not_null(strstr(u->body.at, "\"model\":\"model-x\""));
    cr_expect_not_null(strstr(u->head.at, "Bearer sk-upstream-canary"));
    cr_expect_null(strstr(u->head.at, FLOW_KEY));
    cr_expect_eq(flow_count(f, "admit"), 1, "the admit record is written before anything goes upstream");
    cr_expect_eq(flow_count(f, "settle"), 0);
    up_answer(u, 200, "", flow_plain);
    UNTIL(f, c->whole);
    cr_expect_eq(flow_count(f, "settle"), 1, "the settle record is written before the last byte leaves");
    cr_expect_eq(c->status, 200);
    cr_expect_not_null(strstr(c->body.at, "\"model\":\"m\""));
    cr_expect_not_null(strstr(c->body.at, "Hi there"));
    cr_expect_str_eq(caller_field(c, "x-tollgate-cost"), FLOW_COST);
    cr_expect_str_eq(caller_field(c, "x-tollgate-target"), "up/model-x");
    cr_expect_str_eq(caller_field(c, "x-tollgate-attempts"), "1");
    cr_expect_null(caller_field(c, "x-tollgate-degraded"));
    struct json settle = flow_record(f, "settle", 0);
    cr_expect_eq(flow_i64(settle, "cost_nanousd"), FLOW_COST_NANOUSD);
    cr_expect_eq(flow_i64(settle, "status"), 200);
    cr_expect_eq(json_count(json_get(settle, "attempts")), 1);
    char id[64];
    snprintf(id, sizeof id, "%s", caller_field(c, "x-request-id"));
    cr_expect(json_is(json_get(settle, "request"), id));
}

STORY(answers, a_stream_arrives_event_by_event_and_ends_after_its_settle, FLOW_CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(f, strstr(c->body.at, "\"content\":\"Hi\""));
    cr_expect_eq(c->status, 200);
    cr_expect_str_eq(caller_field(c, "content-type"), "text/event-stream");
    cr_expect_null(strstr(c->body.at, "[DONE]"));
    up_event(u, span_of(flow_rest));
    up_end(u);
    UNTIL(f, c->whole);
    cr_expect_eq(flow_count(f, "settle"), 1);
    cr_expect_not_null(strstr(c->body.at, "data: [DONE]\n\n"));
    cr_expect_not_null(strstr(c->body.at, "\"prompt_tokens\":9"));
    cr_expect_not_null(strstr(c->body.at, "\"cost\":" FLOW_COST));
    cr_expect_null(strstr(c->body.at, "model-x"));
    struct json settle = flow_record(f, "settle", 0);
    cr_expect_eq(flow_i64(settle, "cost_nanousd"), FLOW_COST_NANOUSD);
    cr_expect(flow_i64(settle, "first_content_us") >= 0);
}

/* What a client may see differ from one call to the next is its own id and the time of its making. */
static void stream_in_pieces(struct flow *f, size_t i, size_t cut, size_t piece, struct str *out) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    struct span rest = span_of(flow_stream);
    UNTIL(f, provider_call(&f->up, i));
    struct up *u = provider_call(&f->up, i);
    up_stream(u);
    while (rest.n) {
        size_t n = cut ? cut : piece;
        n = n && n < rest.n ? n : rest.n;
        up_event(u, span_from(rest.at, n));
        rest = span_from(rest.at + n, rest.n - n);
        cut = 0;
        UNTIL(f, up_flushed(u));
        flow_pump(f, 2);
    }
    up_end(u);
    UNTIL(f, c->whole);
    cr_assert_eq(c->status, 200);
    str_clear(out);
    str_put(out, str_span(&c->body));
    for (char *id = out->at; (id = strstr(id, "\"created\":"));)
        for (id += 10; *id >= '0' && *id <= '9'; id++)
            *id = '0';
    list_remove(&f->callers, &c->link);
    caller_free(c);
    UNTIL(f, flow_idle(f));
    cr_assert_not_null(strstr(out->at, "\"prompt_tokens\":9,\"completion_tokens\":3"), "%zu", i);
}

static void same_for_any_cut(bool late, size_t step) {
    struct flow f;
    struct str whole, cut;
    size_t n = 0, i = 0;
    flow_open(&f, FLOW_CONF, late);
    str_init(&whole, 1 << 20);
    str_init(&cut, 1 << 20);
    stream_in_pieces(&f, i++, 0, 0, &whole);
    cr_assert_not_null(strstr(whole.at, "[DONE]"));
    for (n = 1; n < strlen(flow_stream); n += step) {
        stream_in_pieces(&f, i++, n, 0, &cut);
        cr_assert_str_eq(cut.at, whole.at, "cut at %zu", n);
    }
    stream_in_pieces(&f, i++, 0, 1, &cut);
    cr_assert_str_eq(cut.at, whole.at, "one byte a segment");
    str_fini(&whole);
    str_fini(&cut);
    int64_t held_nanousd, settled_nanousd;
    flow_held(&f, &held_nanousd, &settled_nanousd);
    cr_assert_eq(settled_nanousd, (int64_t)i * FLOW_COST_NANOUSD);
    flow_close(&f);
}

Test(answers, a_stream_cut_at_every_offset_gives_the_same_bytes_and_usage) {
    same_for_any_cut(false, 1);
}

Test(answers, a_stream_cut_anywhere_gives_the_same_with_late_stores) {
    same_for_any_cut(true, 17);
}
