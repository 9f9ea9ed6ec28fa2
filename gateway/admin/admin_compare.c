/* Two versions of an adapter asked the same: POST /admin/adapters/NAME/compare. Always true here: both answer at temperature 0 in one
 * batch, nobody is billed for it, the job ends when every answer has, and who asked is told figures and no verdict. */
#include "gateway/admin/admin_adapters.h"

#include "backends/backends.h"
#include "gateway/base/clock.h"
#include "gateway/gateway.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PROMPTS_MAX 64
#define SIDES 2
#define OUTPUT_TOK_DEFAULT 128
#define OUTPUT_TOK_MAX 1024
#define TEXT_BYTES_MAX (64 << 10)
#define LIKENESS_BYTES_MAX 4096 /* of each text: the work grows with the square */
#define TEAM "(compare)"

struct answering {
    struct comparing *of;
    struct decode_run *run; /* owned; NULL: it is over */
    struct str text;        /* owned */
    double logprob;
    int64_t tokens, began_us, took_us;
    bool stopped; /* it came to its own end */
};
struct comparing {
    struct admin_call *call;
    char name[ADAPTER_TEXT_MAX], versions[SIDES][ADAPTER_TEXT_MAX];
    size_t n, left; /* prompts; answers that are awaited */
    enum err err;
    struct answering at[PROMPTS_MAX][SIDES];
};

/* --- figures --- */

/* How much of two texts is the same, in order: 2 * longest common subsequence / both lengths. */
static double likeness(struct span a, struct span b) {
    size_t n = a.n < LIKENESS_BYTES_MAX ? a.n : LIKENESS_BYTES_MAX,
           m = b.n < LIKENESS_BYTES_MAX ? b.n : LIKENESS_BYTES_MAX;
    if (!n && !m)
        return 1;
    uint16_t *row = xcalloc(m + 1, sizeof *row);
    for (size_t i = 0; i < n; i++) {
        uint16_t corner = 0;
        for (size_t k = 0; k < m; k++) {
            uint16_t above = row[k + 1];
            row[k + 1] = a.at[i] == b.at[k] ? (uint16_t)(corner + 1) : above > row[k] ? above : row[k];
            corner = above;
        }
    }
    double common = row[m];
    free(row);
    return 2 * common / (double)(n + m);
}

static void put_f64(struct str *out, const char *name, double v) {
    json_put_name(out, name);
    str_printf(out, "%.6g", isfinite(v) ? v : 0);
}

static void put_side(const struct comparing *j, int side, struct str *out) {
    int64_t tokens = 0, us = 0;
    double logprob = 0, stopped = 0, n = (double)j->n;
    for (size_t i = 0; i < j->n; i++) {
        const struct answering *a = &j->at[i][side];
        tokens += a->tokens;
        us += a->took_us;
        logprob += a->logprob;
        stopped += a->stopped;
    }
    str_puts(out, side ? ",{" : "{");
    json_put_str(out, "version", j->versions[side]);
    put_f64(out, "finish", stopped / n);
    put_f64(out, "length", (double)tokens / n);
    put_f64(out, "logprob", tokens ? logprob / (double)tokens : 0);
    put_f64(out, "tokens_per_second", us ? (double)tokens * 1e6 / (double)us : 0);
    json_put_i64(out, "tokens", tokens);
    str_puts(out, "}");
}

static void tell(struct comparing *j) {
    struct str *out = &j->call->out;
    double similarity = 0;
    size_t same = 0;
    for (size_t i = 0; i < j->n; i++) {
        struct span a = str_span(&j->at[i][0].text), b = str_span(&j->at[i][1].text);
        similarity += likeness(a, b);
        same += span_equal(a, b);
    }
    str_puts(out, "{");
    json_put_str(out, "name", j->name);
    json_put_i64(out, "prompts", (int64_t)j->n);
    json_put_i64(out, "same", (int64_t)same);
    put_f64(out, "similarity", similarity / (double)j->n);
    str_puts(out, ",\"versions\":[");
    put_side(j, 0, out);
    put_side(j, 1, out);
    str_puts(out, "]}\n");
}

/* --- the job --- */

static void job_free(struct comparing *j) {
    j->call->gateway->adapter_jobs--;
    for (size_t i = 0; i < j->n; i++)
        for (int side = 0; side < SIDES; side++)
            str_fini(&j->at[i][side].text);
    free(j);
}

static void job_end(struct comparing *j) {
    struct admin_call *c = j->call;
    if (j->err)
        admin_say(c, j->err, NULL);
    else
        tell(j);
    job_free(j);
    admin_finish(c);
}

static void add_logprobs(struct answering *a, struct span entries) {
    struct str list;
    struct json v, one;
    struct json_walk w;
    double p;
    str_init(&list, entries.n + 2);
    str_putc(&list, '[');
    str_put(&list, entries);
    str_putc(&list, ']');
    if (json_check(str_span(&list), JSON_DEPTH_MAX, &v, NULL))
        for (json_walk_init(&w, v); json_walk_next(&w, NULL, &one);)
            a->logprob += json_f64(json_get(one, "logprob"), &p) ? p : 0;
    str_fini(&list);
}

static void on_ready(void *user) {
    struct answering *a = user;
    struct comparing *j = a->of;
    struct decode_piece piece;
    while (a->run && decode_take(a->run, &piece)) {
        str_put(&a->text, piece.text);
        add_logprobs(a, piece.logprobs);
        if (!piece.last)
            continue;
        j->err = piece.err ? piece.err : j->err;
        a->stopped = piece.finish && strcmp(piece.finish, "stop") == 0;
        a->tokens = piece.usage.out;
        a->took_us = clock_mono_us() - a->began_us;
        decode_end(a->run);
        a->run = NULL;
        if (--j->left == 0) {
            job_end(j);
            return;
        }
    }
}

static enum err start_one(struct comparing *j, struct decode *d, size_t i, int side, struct span prompt, int64_t most) {
    struct answering *a = &j->at[i][side];
    char adapter[2 * ADAPTER_TEXT_MAX];
    struct decode_message m = {.role = SPAN("user"), .text = prompt};
    struct decode_ask ask = {
        .messages = &m, .n_messages = 1, .max_output_tok = most, .top_p = 1, .logprobs = true, .team = SPAN(TEAM)};
    snprintf(adapter, sizeof(adapter), "%s@%s", j->name, j->versions[side]);
    ask.adapter = span_of(adapter);
    *a = (struct answering){.of = j, .began_us = clock_mono_us()};
    str_init(&a->text, TEXT_BYTES_MAX);
    enum err e = decode_start(d, &ask, on_ready, a, &a->run);
    j->left += e == ERR_NONE;
    return e;
}

/* All are started before any can be heard of: the loop is ours until we return. */
static void start_all(struct comparing *j, struct decode *d, struct json prompts, int64_t most, struct arena *a) {
    struct json_walk w;
    struct json prompt;
    for (json_walk_init(&w, prompts); !j->err && j->n < PROMPTS_MAX && json_walk_next(&w, NULL, &prompt); j->n++)
        for (int side = 0; side < SIDES && !j->err; side++)
            j->err = start_one(j, d, j->n, side, json_text(prompt, a), most);
    if (j->left)
        return;
    j->call->later = false; /* none could be started: it is told at once */
    admin_say(j->call, j->err, NULL);
    job_free(j);
}

static bool read_versions(struct comparing *j, struct json list, struct arena *a) {
    for (size_t i = 0; i < SIDES; i++) {
        struct span v = json_text(json_at(list, i), a);
        if (!v.n || v.n > 64)
            return false;
        snprintf(j->versions[i], ADAPTER_TEXT_MAX, "%.*s", SPAN_ARG(v));
    }
    return json_count(list) == SIDES;
}

static bool are_texts(struct json list) {
    struct json_walk w;
    struct json one;
    for (json_walk_init(&w, list); json_walk_next(&w, NULL, &one);)
        if (one.kind != JSON_STRING)
            return false;
    return json_count(list) > 0 && json_count(list) <= PROMPTS_MAX;
}

void admin_compare_adapter(struct admin_call *c, struct decode *engine, struct span name) {
    struct comparing *j = xcalloc(1, sizeof(*j));
    struct arena a;
    struct json body, prompts;
    int64_t most = OUTPUT_TOK_DEFAULT;
    j->call = c;
    snprintf(j->name, sizeof(j->name), "%.*s", (int)(name.n < 64 ? name.n : 64), name.at);
    arena_init(&a, ADMIN_BODY_MAX);
    bool good =
        json_check(str_span(&c->body), JSON_DEPTH_MAX, &body, NULL) && read_versions(j, json_get(body, "versions"), &a);
    prompts = good ? json_get(body, "prompts") : (struct json){0};
    struct json said = good ? json_get(body, "max_tokens") : (struct json){0};
    good = good && are_texts(prompts) && (!said.kind || (json_i64(said, &most) && most > 0 && most <= OUTPUT_TOK_MAX));
    if (good) {
        c->later = true;
        c->gateway->adapter_jobs++;
        start_all(j, engine, prompts, most, &a);
    } else {
        admin_say(c, ERR_INVALID,
                  "The body is {\"versions\": [A, B], \"prompts\": [TEXT, ...], \"max_tokens\": N}: at most 64 prompts "
                  "and 1024 tokens.");
        free(j);
    }
    arena_fini(&a);
}
