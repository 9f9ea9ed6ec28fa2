/* A client that leaves, at any instant: every way out goes by SETTLE and RELEASE. What holds afterwards is checked by
 * flow_close: one settle or refuse a request, nothing held, nothing buffered, no list with anything on it. */
#include "tests/support/story.h"

#define ALIASES                                                                                                        \
    "aliases: {m: {ladder: [{targets: [up/model-x]}, {targets: [low/model-y], degraded: true}], cache: {enabled: "     \
    "true}}}\n"
#define CONF FLOW_BASE FLOW_BACKENDS ALIASES FLOW_TEAMS "health: {samples: 100000}\n"
#define MESSAGES "\"model\":\"m\",\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]"
#define SILENCE_TURNS 3 /* between one thing that a provider says and the next */

static void answer_broken(struct up *u) {
    up_answer(u, 500, "", "{\"error\":{\"message\":\"broken\"}}");
}

/* The lower provider answers in steps, so that each state of a call lasts some turns. */
static void feed(struct flow *f, int *silence, bool stream) {
    struct up *u = f->low.calls.n ? container_of(f->low.calls.head.prev, struct up, link) : NULL;
    if (!u || u->ended || !u->conn || ++*silence % SILENCE_TURNS)
        return;
    if (!stream) {
        up_answer(u, 200, "", flow_plain);
    } else if (*silence == SILENCE_TURNS) {
        up_stream(u);
        up_event(u, span_of(flow_first));
    } else {
        up_event(u, span_of(flow_rest));
        up_end(u);
    }
}

/* One call whose client leaves after some turns; false when it was answered before. */
static bool leave_after(struct flow *f, int turns, bool stream, bool reset, unsigned *seen) {
    char body[512];
    int silence = 0;
    snprintf(body, sizeof body, "{" MESSAGES ",\"seed\":%d,\"stream\":%s}", turns, stream ? "true" : "false");
    struct caller *c = flow_call(f, body);
    for (int i = 0; i < turns && !c->whole; i++) {
        flow_turn(f, 0);
        feed(f, &silence, stream);
    }
    bool whole = c->whole;
    for (enum state s = 0; s < STATE_N; s++)
        *seen |= f->g->by_state[s].n ? 1u << s : 0;
    list_remove(&f->callers, &c->link);
    caller_leave(c, reset);
    caller_free(c);
    UNTIL(f, flow_idle(f));
    return !whole;
}

static void leave_at_every_turn(bool late, bool stream, bool reset) {
    struct flow f;
    unsigned seen = 0;
    int turns = 0;
    flow_open(&f, CONF, late);
    f.up.script = answer_broken;
    while (leave_after(&f, turns, stream, reset, &seen))
        cr_assert_lt(turns++, 500);
    cr_expect(turns > 5);
    cr_expect(seen & 1u << STATE_SEND);
    cr_expect(!stream || seen & 1u << STATE_STREAM);
    cr_expect(!late || (seen & 1u << STATE_RATE && seen & 1u << STATE_HOLD));
    cr_expect_eq(flow_count(&f, "admit"), flow_count(&f, "settle"));
    flow_close(&f);
}

Test(leaving, a_plain_call_at_every_turn) {
    leave_at_every_turn(false, false, false);
    leave_at_every_turn(false, false, true);
}

Test(leaving, a_stream_at_every_turn) {
    leave_at_every_turn(false, true, false);
    leave_at_every_turn(false, true, true);
}

Test(leaving, a_plain_call_at_every_turn_with_late_stores) {
    leave_at_every_turn(true, false, false);
    leave_at_every_turn(true, false, true);
}

Test(leaving, a_stream_at_every_turn_with_late_stores) {
    leave_at_every_turn(true, true, false);
    leave_at_every_turn(true, true, true);
}

STORY(leaving, in_the_middle_of_its_body, FLOW_CONF) {
    struct caller *c = flow_caller(f);
    caller_say(c, SPAN("POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\nauthorization: Bearer " FLOW_KEY
                       "\r\ncontent-length: 1000\r\n\r\n{\"model\":\"m\","));
    UNTIL(f, f->g->by_state[STATE_BODY].n == 1 && f->g->buffered_bytes > 0);
    caller_leave(c, true);
    UNTIL(f, flow_idle(f));
    cr_expect_eq(flow_count(f, "refuse"), 1);
    cr_expect_eq(flow_i64(flow_record(f, "refuse", 0), "status"), 499);
    cr_expect_eq(f->up.calls.n, 0);
}

static const enum state waits[] = {STATE_RATE, STATE_HOLD, STATE_ADMIT, STATE_SEND, STATE_SETTLE};

/* Whether a state lasts past one turn is the stores' affair: where it does, the client leaves just then. */
Test(leaving, in_each_state_that_waits) {
    for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
        struct flow f;
        flow_open(&f, FLOW_CONF, true);
        struct caller *c = flow_call(&f, FLOW_STREAM);
        if (waits[i] == STATE_SETTLE) {
            UNTIL(&f, provider_call(&f.up, 0));
            up_stream(provider_call(&f.up, 0));
            up_event(provider_call(&f.up, 0), span_of(flow_stream));
            up_end(provider_call(&f.up, 0));
        }
        UNTIL(&f, f.g->by_state[waits[i]].n == 1 || c->whole);
        cr_expect_not(c->whole, "%s was never seen", state_names[waits[i]]);
        caller_leave(c, true);
        UNTIL(&f, flow_idle(&f));
        cr_expect_eq(flow_count(&f, "settle") + flow_count(&f, "refuse"), 1, "%s", state_names[waits[i]]);
        UNTIL(&f, !provider_call(&f.up, 0) || provider_call(&f.up, 0)->gone || provider_call(&f.up, 0)->ended);
        flow_close(&f);
    }
}

#define BIG_EVENTS 400
#define BIG_TEXT 8000
#define PATIENCE_TURNS 200

static void say_much(struct up *u, int events) {
    struct str event;
    str_init(&event, 1 << 20);
    str_puts(&event, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"model-x\","
                     "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
    for (int i = 0; i < BIG_TEXT; i++)
        str_putc(&event, 'x');
    str_puts(&event, "\"},\"finish_reason\":null}]}\n\n");
    for (int i = 0; i < events; i++)
        up_event(u, str_span(&event));
    str_fini(&event);
}

STORY(leaving, a_client_that_stopped_reading_holds_little_memory_and_may_leave, FLOW_CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    caller_stop_reading(c, true);
    up_stream(u);
    for (int i = 0; i < 10; i++)
        say_much(u, BIG_EVENTS);
    for (int i = 0; i < PATIENCE_TURNS; i++)
        flow_turn(f, 0);
    cr_expect_not(up_flushed(u), "the provider is not read past what the client takes");
    cr_expect_lt(http_buffered_bytes(), 512 * 1024);
    caller_leave(c, true);
    UNTIL(f, u->gone);
    UNTIL(f, flow_idle(f));
    cr_expect_eq(json_get(flow_record(f, "settle", 0), "aborted").kind, JSON_TRUE);
}

STORY(leaving, a_client_that_reads_again_gets_all_of_it, FLOW_CONF) {
    struct caller *c = flow_call(f, FLOW_STREAM);
    UNTIL(f, provider_call(&f->up, 0));
    struct up *u = provider_call(&f->up, 0);
    caller_stop_reading(c, true);
    up_stream(u);
    say_much(u, BIG_EVENTS);
    for (int i = 0; i < 20; i++)
        flow_turn(f, 0);
    caller_stop_reading(c, false);
    up_event(u, span_of(flow_stream));
    up_end(u);
    UNTIL(f, c->whole);
    cr_expect_not_null(strstr(c->body.at, "[DONE]"));
    cr_expect_gt(c->body.n, (size_t)BIG_EVENTS * BIG_TEXT);
}

/* A shared answer that has grown past what is kept is a window with two readers: the slower one sets the pace, and when
 * it reads on, so does the one who writes. */
Test(leaving, the_slower_of_two_readers_of_a_long_answer_stops_nobody_for_ever) {
    struct flow f;
    flow_open(&f, CONF, false);
    char body[512];
    snprintf(body, sizeof body, "{" MESSAGES ",\"stream\":true}");
    struct caller *lead = flow_call(&f, body);
    UNTIL(&f, provider_call(&f.up, 0));
    struct caller *slow = flow_call(&f, body);
    UNTIL(&f, f.g->by_state[STATE_CACHE].n == 1);
    struct up *u = provider_call(&f.up, 0);
    up_stream(u);
    up_event(u, span_of(flow_first));
    UNTIL(&f, strstr(slow->body.at, "Hi"));
    caller_stop_reading(slow, true);
    for (int i = 0; i < 3; i++)
        say_much(u, BIG_EVENTS);
    up_event(u, span_of(flow_rest));
    up_end(u);
    for (int i = 0; i < PATIENCE_TURNS; i++)
        flow_turn(&f, 0);
    cr_expect_not(lead->whole);
    caller_stop_reading(slow, false);
    UNTIL(&f, lead->whole && slow->whole);
    cr_expect_eq(lead->body.n > 3ul * BIG_EVENTS * BIG_TEXT, true);
    flow_close(&f);
}
