/* The door, as the hall uses it: asks in, pieces out on the loop, the same text alone and in company. */
#include "backends/decode/decode.h"
#include "gateway/base/mem.h"
#include "tests/support/random_model.h"

#include <criterion/criterion.h>
#include <event2/event.h>
#include <stdlib.h>

#define RUNS 8

struct house {
    struct random_model model;
    struct loop *loop;
    struct decode *engine;
    int live;
};
struct reader {
    struct house *house;
    struct decode_run *run;
    struct str text;
    struct decode_piece last;
    int end_after; /* calls of on_ready after which the handle is ended; 0: never early */
    int calls;
};

static void house_open(struct house *h, int64_t context, int64_t sequences, int64_t batch, int64_t threads) {
    struct decode_options o = {.device = "auto",
                               .dtype = "auto",
                               .max_context = context,
                               .max_sequences = sequences,
                               .batch_tokens = batch,
                               .threads = threads};
    struct str why;
    str_init(&why, 4000);
    random_model_write(&h->model, &shape_small);
    o.directory = h->model.directory;
    h->live = 0;
    h->loop = loop_new();
    h->engine = decode_open(&o, h->loop, &why);
    cr_assert(h->engine, "%s", why.n ? why.at : "");
    str_fini(&why);
}

static void house_close(struct house *h) {
    decode_close(h->engine);
    loop_free(h->loop);
    random_model_remove(&h->model);
}

static void end(struct reader *r) {
    decode_end(r->run);
    r->run = NULL;
    r->house->live--;
}

static void on_ready(void *user) {
    struct reader *r = user;
    struct decode_piece p;
    cr_assert(r->run, "called after the end");
    while (r->run && decode_take(r->run, &p)) {
        str_put(&r->text, p.text);
        r->last = p;
        if (p.last)
            end(r);
    }
    if (r->run && ++r->calls == r->end_after)
        end(r);
}

static enum err start(struct house *h, struct reader *r, const struct decode_ask *ask) {
    *r = (struct reader){.house = h, .end_after = r->end_after};
    str_init(&r->text, 1 << 20);
    enum err e = decode_start(h->engine, ask, on_ready, r, &r->run);
    h->live += e == ERR_NONE;
    return e;
}

static void finish_all(struct house *h) {
    while (h->live)
        event_base_loop(loop_base(h->loop), EVLOOP_ONCE);
}

static struct decode_ask mixed(int i) {
    static const char *const prompts[] = {"the",
                                          "hi there",
                                          "and then, one day in the land",
                                          "x",
                                          "a b c d e f g h",
                                          "on",
                                          "The thing is that nothing here means a thing, and on it goes",
                                          "!"};
    return (struct decode_ask){.prompt = span_of(prompts[i]),
                               .max_output_tok = 10 + i * 6,
                               .temperature = i % 2 ? 0.9 : 0,
                               .top_p = i % 3 ? 1 : 0.8,
                               .seeded = true,
                               .seed = (uint64_t)i};
}

Test(decode, eight_runs_give_the_same_text_alone_and_together) {
    struct house h;
    struct reader alone[RUNS] = {0}, together[RUNS] = {0};
    house_open(&h, 0, 8, 0, 1);
    for (int i = 0; i < RUNS; i++) {
        struct decode_ask ask = mixed(i);
        cr_assert_eq(start(&h, &alone[i], &ask), ERR_NONE);
        finish_all(&h);
        cr_expect_eq(alone[i].last.usage.in, decode_count(h.engine, &ask));
        cr_expect(alone[i].last.last && alone[i].last.err == ERR_NONE && alone[i].last.usage.reported);
        cr_expect(alone[i].last.usage.out <= ask.max_output_tok && alone[i].last.usage.out > 0);
        cr_expect_str_eq(alone[i].last.finish, alone[i].last.usage.out == ask.max_output_tok ? "length" : "stop");
    }
    house_close(&h);
    house_open(&h, 0, 5, 6, 2); /* fewer places than runs, and prompts in chunks of a few tokens */
    for (int i = 0; i < RUNS; i++) {
        struct decode_ask ask = mixed(i);
        cr_assert_eq(start(&h, &together[i], &ask), ERR_NONE);
    }
    finish_all(&h);
    for (int i = 0; i < RUNS; i++) {
        cr_expect(span_equal(str_span(&alone[i].text), str_span(&together[i].text)), "run %d: %s / %s", i,
                  alone[i].text.at, together[i].text.at);
        cr_expect_eq(alone[i].last.usage.out, together[i].last.usage.out);
        str_fini(&alone[i].text);
        str_fini(&together[i].text);
    }
    struct decode_view v;
    decode_view(h.engine, &v);
    cr_expect(v.steps > 0 && v.tokens > v.steps && v.running == 0 && v.queued == 0 && v.layers == 2);
    house_close(&h);
}

Test(decode, a_stop_string_ends_the_text_before_it) {
    struct house h;
    struct reader whole = {0}, cut = {0};
    struct decode_ask ask = {
        .prompt = SPAN("the"), .max_output_tok = 40, .temperature = 0.8, .top_p = 1, .seeded = true, .seed = 3};
    house_open(&h, 0, 0, 0, 1);
    cr_assert_eq(start(&h, &whole, &ask), ERR_NONE);
    finish_all(&h);
    cr_assert(whole.text.n > 12);
    ask.stops[ask.n_stops++] = span_from(whole.text.at + 8, 4);
    cr_assert_eq(start(&h, &cut, &ask), ERR_NONE);
    finish_all(&h);
    const char *at = memmem(whole.text.at, whole.text.n, whole.text.at + 8, 4);
    cr_expect(span_equal(str_span(&cut.text), span_from(whole.text.at, (size_t)(at - whole.text.at))));
    cr_expect_str_eq(cut.last.finish, "stop");
    cr_expect(cut.last.usage.out < whole.last.usage.out);
    str_fini(&whole.text);
    str_fini(&cut.text);
    house_close(&h);
}

Test(decode, what_cannot_fit_or_be_rendered_is_refused_at_the_door) {
    struct house h;
    struct reader r = {0};
    char text[400];
    struct decode_message m = {.role = SPAN("user"), .text = SPAN("hi")};
    struct decode_ask ask = {
        .prompt = span_from(memset(text, 'x', sizeof text), sizeof text), .max_output_tok = -1, .top_p = 1};
    house_open(&h, 64, 2, 0, 1);
    cr_expect_eq(start(&h, &r, &ask), ERR_CONTEXT);
    str_fini(&r.text);
    ask.prompt.n = 64; /* the whole context: no room for an answer */
    cr_expect_eq(start(&h, &r, &ask), ERR_CONTEXT);
    str_fini(&r.text);
    ask.prompt.n = 60;
    ask.max_output_tok = 5;
    cr_expect_eq(start(&h, &r, &ask), ERR_CONTEXT);
    str_fini(&r.text);
    ask.max_output_tok = 0;
    cr_expect_eq(start(&h, &r, &ask), ERR_NONE);
    finish_all(&h);
    cr_expect(r.last.usage.in == 60 && r.last.usage.out == 0 && strcmp(r.last.finish, "length") == 0);
    str_fini(&r.text);
    ask = (struct decode_ask){.max_output_tok = 3, .top_p = 1};
    cr_expect_eq(decode_count(h.engine, &ask), -1);
    cr_expect_eq(start(&h, &r, &ask), ERR_UNSUPPORTED);
    str_fini(&r.text);
    ask.messages = &m;
    ask.n_messages = 1;
    cr_expect(decode_count(h.engine, &ask) > 10);
    house_close(&h);
}

Test(decode, ending_early_is_quiet_and_closing_tells_the_others) {
    struct house h;
    struct reader r[6] = {{.end_after = 1}, {.end_after = 2}, {0}, {0}, {0}, {0}};
    struct decode_ask ask = {.prompt = SPAN("the"), .max_output_tok = 150, .temperature = 1, .top_p = 1};
    house_open(&h, 0, 2, 0, 1);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(start(&h, &r[i], &ask), ERR_NONE);
    end(&r[5]); /* while it waits */
    while (r[0].run || r[1].run)
        event_base_loop(loop_base(h.loop), EVLOOP_ONCE);
    decode_close(h.engine);
    finish_all(&h); /* handles outlive the engine */
    for (int i = 2; i < 5; i++)
        cr_expect(r[i].last.last && (r[i].last.err == ERR_NO_TARGET) == (r[i].last.finish == NULL));
    for (int i = 0; i < 6; i++)
        str_fini(&r[i].text);
    loop_free(h.loop);
    random_model_remove(&h.model);
}

Test(decode, a_plan_tells_the_memory_without_loading) {
    struct random_model m;
    struct str plan, why;
    struct decode_options o = {.device = "cpu", .dtype = "auto", .max_context = 100, .max_sequences = 3, .threads = 2};
    str_init(&plan, 4000);
    str_init(&why, 4000);
    random_model_write(&m, &shape_small);
    o.directory = m.directory;
    cr_assert(decode_plan(&o, &plan, &why), "%s", why.at);
    cr_expect(strstr(plan.at, "21 blocks of 16 tokens of 320 bytes"), "%s", plan.at);
    cr_expect(strstr(plan.at, "100 tokens a sequence, 3 sequences"), "%s", plan.at);
    random_file_save(&m, "tokenizer.json", SPAN("{"));
    cr_expect_not(decode_plan(&o, &plan, &why), "a directory that will not open has no plan");
    cr_expect(strstr(why.at, "tokenizer.json"), "%s", why.at);
    str_clear(&why);
    o.directory = "/nonexistent";
    cr_expect_not(decode_plan(&o, &plan, &why));
    cr_expect(strstr(why.at, "config.json: cannot be opened in /nonexistent"));
    str_fini(&plan);
    str_fini(&why);
    random_model_remove(&m);
}
