/* Stories of the scheduler through the door: bits that do not depend on company, preemption or what was found in the cache;
 * adapters that do not mix; shares, deadlines and cancelling. */
#include "backends/decode/decode.h"
#include "gateway/base/clock.h"
#include "gateway/base/mem.h"
#include "tests/support/random_adapter.h"
#include "tests/support/temp_folder.h"

#include <criterion/criterion.h>
#include <event2/event.h>
#include <stdlib.h>

#define RUNS 64
#define ADAPTERS 5

struct house {
    struct random_model model;
    struct random_adapter adapters[ADAPTERS];
    struct temp_folder folder;
    struct loop *loop;
    struct decode *engine;
    int live, ended;
};
struct reader {
    struct house *house;
    struct decode_run *run;
    struct str text;
    struct decode_piece last;
    int place;     /* in the order of endings, from 1 */
    size_t tokens; /* whose logprobs were told */
};

static void files_make(struct house *h) {
    static const struct adapter_kind kinds[ADAPTERS] = {
        {.rank = 4, .alpha = 8, .dtype = "F32", .seed = 21},
        {.rank = 1, .alpha = 2, .dtype = "BF16", .seed = 22, .only = "q_proj,v_proj"},
        {.rank = 9, .alpha = 9, .dtype = "F16", .seed = 23, .rslora = true},
        {.rank = 3, .alpha = 6, .dtype = "F32", .seed = 24, .dora = true},
        {.rank = 2, .alpha = 6, .dtype = "F32", .seed = 25, .only = "lm_head,embed_tokens"},
    };
    char name[20];
    h->folder = temp_new();
    random_model_write(&h->model, &shape_small);
    for (int i = 0; i < ADAPTERS; i++) {
        snprintf(name, sizeof name, "a%d", i);
        random_adapter_write(&h->adapters[i], &h->model, &kinds[i], temp_name(&h->folder, name));
    }
}

static void files_remove(struct house *h) {
    for (int i = 0; i < ADAPTERS; i++)
        random_adapter_remove(&h->adapters[i]);
    random_model_remove(&h->model);
    temp_free(&h->folder);
}

static void engine_open(struct house *h, const struct decode_options *more) {
    struct decode_options o = *more;
    struct str why;
    str_init(&why, 4000);
    o.directory = h->model.directory;
    o.adapters = h->folder.path;
    h->live = h->ended = 0;
    h->loop = loop_new();
    h->engine = decode_open(&o, h->loop, &why);
    cr_assert(h->engine, "%s", why.n ? why.at : "");
    str_fini(&why);
}

static void engine_close(struct house *h) {
    decode_close(h->engine);
    loop_free(h->loop);
}

static void on_ready(void *user) {
    struct reader *r = user;
    struct decode_piece p;
    while (r->run && decode_take(r->run, &p)) {
        str_put(&r->text, p.text);
        for (size_t i = 0; i + 16 < p.logprobs.n; i++) /* one such member a token */
            r->tokens += memcmp(p.logprobs.at + i, "\"top_logprobs\":", 15) == 0;
        r->last = p;
        if (!p.last)
            continue;
        decode_end(r->run);
        r->run = NULL;
        r->house->live--;
        r->place = ++r->house->ended;
    }
}

static enum err start(struct house *h, struct reader *r, const struct decode_ask *ask) {
    *r = (struct reader){.house = h};
    str_init(&r->text, 1 << 20);
    enum err e = decode_start(h->engine, ask, on_ready, r, &r->run);
    h->live += e == ERR_NONE;
    return e;
}

static void finish_all(struct house *h) {
    while (h->live)
        event_base_loop(loop_base(h->loop), EVLOOP_ONCE);
}

static struct decode_view view(const struct house *h) {
    struct decode_view v;
    decode_view(h->engine, &v);
    return v;
}

/* Some begin alike, some are long, some are greedy; each adapter and the base are asked, by three teams. */
static struct decode_ask mixed(int i) {
    static const char *const prompts[] = {
        "the thing and the other thing on which the land is standing", "hi",
        "the thing and the other thing on which the hill is standing",
        "a b c d e f g h and then, one day, in the land of the ants, the hen was in it", "on"};
    static const char *const adapters[] = {"a0", "a1", "", "a2", "a3", "a4", ""};
    static const char *const teams[] = {"red", "green", "blue"};
    return (struct decode_ask){.prompt = span_of(prompts[i % 5]),
                               .max_output_tok = 4 + i % 17,
                               .temperature = i % 3 ? 0.9 : 0,
                               .top_p = i % 4 ? 1 : 0.8,
                               .seeded = true,
                               .seed = (uint64_t)i,
                               .adapter = span_of(adapters[i % 7]),
                               .team = span_of(teams[i % 3]),
                               .priority = i % 2,
                               .top_k = i % 5 == 1 ? 20 : 0,
                               .repetition_penalty = i % 6 == 2 ? 1.2 : 0,
                               .frequency_penalty = i % 7 == 3 ? 0.7 : 0,
                               .ignore_ends = i % 8 == 4};
}

static void all_at_once(struct house *h, const struct decode_options *o, int stride, const struct reader *alone,
                        const char *how) {
    struct reader *r = calloc(RUNS, sizeof *r);
    engine_open(h, o);
    for (int k = 0; k < RUNS; k++) {
        int i = k * stride % RUNS;
        struct decode_ask ask = mixed(i);
        cr_assert_eq(start(h, &r[i], &ask), ERR_NONE);
    }
    finish_all(h);
    for (int i = 0; i < RUNS; i++) {
        cr_expect(span_equal(str_span(&alone[i].text), str_span(&r[i].text)), "%s: run %d", how, i);
        cr_expect_eq(alone[i].last.usage.out, r[i].last.usage.out, "%s: run %d", how, i);
        str_fini(&r[i].text);
    }
    free(r);
}

Test(
    schedule,
    sixty_four_mixed_runs_have_the_same_bits_alone_and_together_in_any_order_with_and_without_preemption_and_prefixes) {
    struct house h;
    struct reader *alone = calloc(RUNS, sizeof *alone);
    files_make(&h);
    struct decode_options o = {
        .device = "auto", .dtype = "auto", .max_sequences = 64, .threads = 1, .no_prefixes = true};
    engine_open(&h, &o);
    for (int i = 0; i < RUNS; i++) {
        struct decode_ask ask = mixed(i);
        cr_assert_eq(start(&h, &alone[i], &ask), ERR_NONE);
        finish_all(&h);
        cr_assert(alone[i].last.err == ERR_NONE && alone[i].last.usage.out > 0);
    }
    cr_expect(!span_equal(str_span(&alone[0].text), str_span(&alone[15].text)), "an adapter has a say");
    engine_close(&h);
    all_at_once(&h, &o, 1, alone, "together");
    cr_expect(view(&h).preemptions == 0 && view(&h).prefix_hit_tok == 0);
    engine_close(&h);
    o.no_prefixes = false;
    o.batch_tokens = 7;
    o.max_sequences = 11;
    o.threads = 2;
    all_at_once(&h, &o, 37, alone, "with prefixes, in small chunks, in another order");
    cr_expect_gt(view(&h).prefix_hit_tok, 0);
    engine_close(&h);
    o = (struct decode_options){.device = "cpu", .dtype = "auto", .max_sequences = 40, .kv_blocks = 14, .threads = 1};
    all_at_once(&h, &o, 13, alone, "with too few blocks");
    cr_expect_gt(view(&h).preemptions, 0);
    engine_close(&h);
    o.adapter_memory = 60000; /* about two of them at a time */
    all_at_once(&h, &o, 29, alone, "with too little memory for the adapters");
    cr_expect_gt(view(&h).adapter_evictions, 0);
    engine_close(&h);
    for (int i = 0; i < RUNS; i++)
        str_fini(&alone[i].text);
    free(alone);
    files_remove(&h);
}

static void ask_one(struct house *h, const char *adapter, const char *team, struct str *text) {
    struct reader r;
    struct decode_ask ask = {.prompt = SPAN("the thing and the other thing on which the land is standing"),
                             .max_output_tok = 12,
                             .top_p = 1,
                             .adapter = span_of(adapter),
                             .team = span_of(team)};
    cr_assert_eq(start(h, &r, &ask), ERR_NONE);
    finish_all(h);
    if (text)
        str_put(text, str_span(&r.text));
    str_fini(&r.text);
}

Test(schedule, a_prompt_is_found_again_by_the_same_team_and_adapter_only) {
    static const struct {
        const char *adapter, *team;
        bool found;
    } rows[] = {{"", "a", false},  {"", "a", true},    {"", "b", false},  {"a0", "a", false}, {"a1", "a", false},
                {"a0", "a", true}, {"a0", "b", false}, {"a1", "a", true}, {"", "b", true}};
    struct house h;
    files_make(&h);
    engine_open(&h, &(struct decode_options){.device = "auto", .dtype = "auto", .max_sequences = 64, .threads = 1});
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t before = view(&h).prefix_hit_tok;
        ask_one(&h, rows[i].adapter, rows[i].team, NULL);
        cr_expect_eq(view(&h).prefix_hit_tok > before, rows[i].found, "row %zu", i);
    }
    engine_close(&h);
    files_remove(&h);
}

Test(schedule, no_team_and_no_adapter_starves_another) {
    struct house h;
    struct reader many[12], few, other;
    files_make(&h);
    engine_open(&h, &(struct decode_options){.device = "auto", .dtype = "auto", .max_sequences = 3, .threads = 1});
    struct decode_ask ask = {.prompt = SPAN("on"),
                             .max_output_tok = 60,
                             .temperature = 1,
                             .top_p = 1,
                             .seeded = true,
                             .adapter = SPAN("a0"),
                             .team = SPAN("crowd")};
    for (int i = 0; i < 12; i++) {
        ask.seed = (uint64_t)i;
        cr_assert_eq(start(&h, &many[i], &ask), ERR_NONE);
    }
    ask.adapter = SPAN("a1");
    cr_assert_eq(start(&h, &other, &ask), ERR_NONE);
    ask.team = SPAN("single");
    ask.max_output_tok = 8;
    cr_assert_eq(start(&h, &few, &ask), ERR_NONE);
    finish_all(&h);
    cr_expect(few.place <= 3, "the other team's run ended as number %d", few.place);
    cr_expect(other.place <= 8, "the other adapter's run ended as number %d", other.place);
    cr_expect_gt(view(&h).preemptions, 0, "it was given a place");
    for (int i = 0; i < 12; i++)
        str_fini(&many[i].text);
    str_fini(&few.text);
    str_fini(&other.text);
    engine_close(&h);
    files_remove(&h);
}

Test(schedule, within_a_team_the_lower_priority_number_goes_first) {
    struct house h;
    struct reader r[4];
    files_make(&h);
    engine_open(&h, &(struct decode_options){.device = "auto", .dtype = "auto", .max_sequences = 1, .threads = 1});
    for (int i = 0; i < 4; i++) {
        struct decode_ask ask = {.prompt = SPAN("on"),
                                 .max_output_tok = 60,
                                 .temperature = 1,
                                 .top_p = 1,
                                 .seeded = true,
                                 .team = SPAN("t"),
                                 .priority = i == 3 ? -1 : i};
        cr_assert_eq(start(&h, &r[i], &ask), ERR_NONE);
    }
    finish_all(&h);
    cr_expect(r[3].place < r[1].place && r[1].place < r[2].place, "%d %d %d", r[3].place, r[1].place, r[2].place);
    for (int i = 0; i < 4; i++)
        str_fini(&r[i].text);
    engine_close(&h);
    files_remove(&h);
}

Test(schedule, a_deadline_is_one_of_the_first_text_and_ends_no_stream_that_runs) {
    struct house h;
    struct reader r;
    files_make(&h);
    engine_open(&h, &(struct decode_options){.device = "auto", .dtype = "auto", .max_sequences = 2, .threads = 1});
    struct decode_ask ask = {.prompt = SPAN("on"), .max_output_tok = 150, .team = SPAN("t"), .ignore_ends = true};
    int64_t began_us = clock_mono_us(), took_us = 0;
    for (int i = 0; i < 5; i++) {
        ask.deadline_us = i ? clock_mono_us() + took_us / 2 : 0;
        cr_assert_eq(start(&h, &r, &ask), ERR_NONE);
        finish_all(&h);
        took_us = i ? took_us : clock_mono_us() - began_us;
        cr_expect(r.text.n == 0 || (r.last.err == ERR_NONE && r.last.usage.out == 150), "ended after %lld tokens",
                  (long long)r.last.usage.out);
        str_fini(&r.text);
    }
    engine_close(&h);
    files_remove(&h);
}

Test(schedule, a_deadline_ends_a_run_and_an_unknown_adapter_never_begins_one) {
    static const char *const unknown[] = {"a", "A0", "a0@", "a0@000000000000", "a0@@", "base", "../a0", "a0/", "a9"};
    struct house h;
    struct reader r;
    files_make(&h);
    engine_open(&h, &(struct decode_options){.device = "auto", .dtype = "auto", .max_sequences = 2, .threads = 1});
    struct decode_ask ask = {.prompt = SPAN("on"),
                             .max_output_tok = 100,
                             .temperature = 1,
                             .top_p = 1,
                             .team = SPAN("t"),
                             .deadline_us = clock_mono_us()};
    cr_assert_eq(start(&h, &r, &ask), ERR_NONE);
    finish_all(&h);
    cr_expect(r.last.err == ERR_DEADLINE && r.last.usage.out == 0);
    str_fini(&r.text);
    ask.deadline_us = 0;
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
        ask.adapter = span_of(unknown[i]);
        cr_expect_eq(start(&h, &r, &ask), ERR_MODEL, "%s", unknown[i]);
        str_fini(&r.text);
    }
    engine_close(&h);
    files_remove(&h);
}

/* Whatever a random model would say, in any company: JSON when it stops, and the logprobs of all that is shown. */
Test(schedule, forms_are_kept_and_logprobs_told_alone_and_in_company) {
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"maxItems\":2,\"items\":{"
        "\"type\":\"integer\"}},\"b\":{\"enum\":[\"x\",null]}},\"required\":[\"a\",\"b\"]}";
    struct house h;
    struct reader alone[8], r[8];
    struct arena a;
    struct json v;
    struct decode_fault fault;
    int whole = 0;
    arena_init(&a, 1 << 20);
    cr_assert(json_check(SPAN(schema), JSON_DEPTH_MAX, &v, NULL));
    const struct decode_form *form = decode_form_of_schema(v, &a, "schema", &fault);
    cr_assert(form);
    files_make(&h);
    engine_open(&h, &(struct decode_options){.device = "auto", .dtype = "auto", .max_sequences = 8, .threads = 1});
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 8; i++) {
            struct decode_ask ask = mixed(i);
            ask.prompt = SPAN("on");
            ask.max_output_tok = 120;
            ask.form = form;
            ask.logprobs = true;
            ask.top_logprobs = 2;
            cr_assert_eq(start(&h, round ? &r[i] : &alone[i], &ask), ERR_NONE);
            if (!round)
                finish_all(&h);
        }
    finish_all(&h);
    for (int i = 0; i < 8; i++) {
        cr_expect(span_equal(str_span(&alone[i].text), str_span(&r[i].text)), "%s / %s", alone[i].text.at,
                  r[i].text.at);
        bool stop = strcmp(r[i].last.finish, "stop") == 0;
        whole += stop;
        cr_expect(!stop || json_check(str_span(&r[i].text), JSON_DEPTH_MAX, &v, NULL), "%s", r[i].text.at);
        cr_expect(r[i].tokens >= (size_t)r[i].last.usage.out - 1 && r[i].tokens <= (size_t)r[i].last.usage.out,
                  "%zu of %lld", r[i].tokens, (long long)r[i].last.usage.out);
        str_fini(&alone[i].text);
        str_fini(&r[i].text);
    }
    cr_expect_gt(whole, 0);
    engine_close(&h);
    files_remove(&h);
    arena_fini(&a);
}
