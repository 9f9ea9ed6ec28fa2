/* How an answer of the engine is drawn, read from a call: OpenAI's fields, and those that vLLM added to them. Always true: a number
 * outside its bounds is refused with the field's name, never cut to fit. */
#include "backends/dialect.h"

#include <stdio.h>

#define BIASES_MAX 1024

static const struct {
    const char *name;
    size_t at; /* a double of the ask */
    double least, most;
} NUMBERS[] = {
    {"temperature", offsetof(struct decode_ask, temperature), 0, 100},
    {"top_p", offsetof(struct decode_ask, top_p), 0, 1},
    {"min_p", offsetof(struct decode_ask, min_p), 0, 1},
    {"repetition_penalty", offsetof(struct decode_ask, repetition_penalty), 0.01, 100},
    {"presence_penalty", offsetof(struct decode_ask, presence_penalty), -2, 2},
    {"frequency_penalty", offsetof(struct decode_ask, frequency_penalty), -2, 2},
};

static bool bad(struct call_fault *f, const char *field, const char *text) {
    f->err = ERR_INVALID;
    snprintf(f->field, sizeof f->field, "%s", field);
    snprintf(f->text, sizeof f->text, "%s %s", field, text);
    return false;
}

static bool is_said(struct json v) {
    return v.kind != JSON_NONE && v.kind != JSON_NULL;
}

static bool numbers(struct json body, struct decode_ask *out, struct call_fault *f) {
    char text[80];
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++) {
        struct json v = json_member(body, NUMBERS[i].name);
        double *at = (double *)(void *)((char *)out + NUMBERS[i].at);
        if (!is_said(v))
            continue;
        if (json_f64(v, at) && *at >= NUMBERS[i].least && *at <= NUMBERS[i].most)
            continue;
        snprintf(text, sizeof text, "must be a number from %g to %g.", NUMBERS[i].least, NUMBERS[i].most);
        return bad(f, NUMBERS[i].name, text);
    }
    return true;
}

static bool bias(struct span id, struct json v, struct decode_bias *out, struct call_fault *f) {
    if (!span_to_i64(id, &out->id))
        return bad(f, "logit_bias", "must name tokens by their ids.");
    return (json_f64(v, &out->more) && out->more >= -100 && out->more <= 100) ||
           bad(f, "logit_bias", "must give numbers from -100 to 100.");
}

static bool biases(struct json map, struct arena *a, struct decode_ask *out, struct call_fault *f) {
    size_t n = json_count(map);
    struct json_walk walk;
    struct span id;
    struct json v;
    if (!is_said(map) || (map.kind == JSON_OBJECT && !n))
        return true;
    if (map.kind != JSON_OBJECT || n > BIASES_MAX)
        return bad(f, "logit_bias", "must be an object of at most 1024 token ids and numbers.");
    struct decode_bias *list = arena_alloc(a, n * sizeof *list);
    if (!list)
        return bad(f, "logit_bias", "is too large.");
    out->biases = list;
    for (json_walk_init(&walk, map); json_walk_next(&walk, &id, &v);)
        if (!bias(id, v, &list[out->n_biases++], f))
            return false;
    return true;
}

/* vLLM's -1 and everybody's 0 both mean all. */
static bool top_k(struct json v, struct decode_ask *out, struct call_fault *f) {
    if (!is_said(v))
        return true;
    if (!json_i64(v, &out->top_k) || out->top_k < -1)
        return bad(f, "top_k", "must be a whole number, -1 or 0 for all tokens.");
    out->top_k = out->top_k < 0 ? 0 : out->top_k;
    return true;
}

bool engine_sampling(struct json body, struct arena *a, struct decode_ask *out, struct call_fault *f) {
    struct json seed = json_member(body, "seed"), ends = json_member(body, "ignore_eos"),
                priority = json_member(body, "priority");
    int64_t number = 0;
    out->temperature = out->top_p = 1;
    if (!numbers(body, out, f) || !top_k(json_member(body, "top_k"), out, f) ||
        !biases(json_member(body, "logit_bias"), a, out, f))
        return false;
    if (is_said(ends) && ends.kind != JSON_TRUE && ends.kind != JSON_FALSE)
        return bad(f, "ignore_eos", "must be true or false.");
    if (is_said(priority) && !json_i64(priority, &out->priority))
        return bad(f, "priority", "must be a whole number; lower goes first within the team.");
    out->ignore_ends = ends.kind == JSON_TRUE;
    out->seeded = json_i64(seed, &number);
    out->seed = (uint64_t)number;
    return true;
}
