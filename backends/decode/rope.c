/* The five ways in which released models stretch rotary embedding. A kind has a row with the fields that it needs and those
 * that it may have; a field that the kind does not use is refused, since it would have been meant to change something. */
#include "backends/decode/rope.h"

#include "gateway/base/mem.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

enum { FACTOR = 1, LOW = 2, HIGH = 4, FAST = 8, SLOW = 16, ATTENTION = 32, ORIGINAL = 64 };

static const struct {
    const char *name;
    enum rope_kind kind;
    unsigned needs, may;
} kinds[] = {
    {"default", ROPE_DEFAULT, 0, 0},
    {"linear", ROPE_LINEAR, FACTOR, FACTOR},
    {"dynamic", ROPE_DYNAMIC, FACTOR, FACTOR | ORIGINAL},
    {"llama3", ROPE_LLAMA3, FACTOR | LOW | HIGH | ORIGINAL, FACTOR | LOW | HIGH | ORIGINAL},
    {"yarn", ROPE_YARN, FACTOR, FACTOR | FAST | SLOW | ATTENTION | ORIGINAL},
};
static const struct {
    const char *name;
    unsigned bit;
    size_t at;
} numbers[] = {
    {"factor", FACTOR, offsetof(struct rope, factor)},
    {"low_freq_factor", LOW, offsetof(struct rope, low_freq)},
    {"high_freq_factor", HIGH, offsetof(struct rope, high_freq)},
    {"beta_fast", FAST, offsetof(struct rope, beta_fast)},
    {"beta_slow", SLOW, offsetof(struct rope, beta_slow)},
    {"attention_factor", ATTENTION, offsetof(struct rope, attention)},
    {"rope_theta", 0, offsetof(struct rope, theta)},
};

struct rope_reading {
    const char *file;
    struct span field;
    size_t kind; /* index into kinds */
    unsigned seen;
    struct str *why;
};

#define SHOWN(v) (int)((v).raw.n < 60 ? (v).raw.n : 60), (v).raw.at

static bool read_kind(struct rope_reading *r, struct json v, struct rope *out) {
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (json_is(v, kinds[i].name)) {
            r->kind = i;
            out->kind = kinds[i].kind;
            return true;
        }
    return complain(r->why, r->file,
                    "%.*s.rope_type = %.*s is not supported; default, linear, dynamic, llama3 and yarn are",
                    SPAN_ARG(r->field), SHOWN(v));
}

static bool read_number(struct rope_reading *r, struct span name, struct json v, struct rope *out) {
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        double *to = (double *)(void *)((char *)out + numbers[i].at);
        if (!json_name_is(name, numbers[i].name))
            continue;
        r->seen |= numbers[i].bit;
        return (json_f64(v, to) && *to > 0 && *to < 1e12) ||
               complain(r->why, r->file, "%.*s.%s must be a positive number", SPAN_ARG(r->field), numbers[i].name);
    }
    if (!json_name_is(name, "original_max_position_embeddings"))
        return complain(r->why, r->file, "%.*s.%.*s = %.*s is not supported", SPAN_ARG(r->field), SPAN_ARG(name),
                        SHOWN(v));
    r->seen |= ORIGINAL;
    return (json_i64(v, &out->original) && out->original > 0) ||
           complain(r->why, r->file, "%.*s.original_max_position_embeddings must be a positive whole number",
                    SPAN_ARG(r->field));
}

static const char *name_of(unsigned bits) {
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (bits & numbers[i].bit)
            return numbers[i].name;
    return "original_max_position_embeddings";
}

static bool check_fields(const struct rope_reading *r, const struct rope *out) {
    unsigned missing = kinds[r->kind].needs & ~r->seen, extra = r->seen & ~kinds[r->kind].may;
    const char *kind = kinds[r->kind].name;
    if (missing)
        return complain(r->why, r->file, "%.*s.%s is missing, which rope_type %s needs", SPAN_ARG(r->field),
                        name_of(missing), kind);
    if (extra)
        return complain(r->why, r->file, "%.*s.%s is not supported with rope_type %s", SPAN_ARG(r->field),
                        name_of(extra), kind);
    if (out->kind == ROPE_LLAMA3 && out->high_freq <= out->low_freq)
        return complain(r->why, r->file, "%.*s.high_freq_factor must be over low_freq_factor", SPAN_ARG(r->field));
    return true;
}

bool rope_read(const char *file, struct span field, struct json v, struct rope *out, struct str *why) {
    struct rope_reading r = {file, field, 0, 0, why};
    struct json_walk w;
    struct span name;
    struct json one;
    if (v.kind == JSON_NULL)
        return true;
    if (v.kind != JSON_OBJECT)
        return complain(why, file, "%.*s must be null or an object", SPAN_ARG(field));
    for (json_walk_init(&w, v); json_walk_next(&w, &name, &one);) {
        bool kind = json_name_is(name, "rope_type") || json_name_is(name, "type");
        if (kind ? !read_kind(&r, one, out) : !read_number(&r, name, one, out))
            return false;
    }
    return check_fields(&r, out);
}

static double llama3(const struct rope *r, double turn) {
    double wave = 2 * M_PI / turn, original = (double)r->original;
    if (wave < original / r->high_freq)
        return turn;
    if (wave > original / r->low_freq)
        return turn / r->factor;
    double smooth = (original / wave - r->low_freq) / (r->high_freq - r->low_freq);
    return (1 - smooth) * turn / r->factor + smooth * turn;
}

/* The pair that turns `rotations` times over the original positions. */
static double yarn_pair(const struct rope *r, double rotations, double original, int64_t head_dim) {
    return (double)head_dim * log(original / (rotations * 2 * M_PI)) / (2 * log(r->theta));
}

static void yarn(const struct rope *r, int64_t head_dim, int64_t max_positions, double *turn) {
    double original = (double)(r->original ? r->original : max_positions);
    double low = floor(yarn_pair(r, r->beta_fast > 0 ? r->beta_fast : 32, original, head_dim));
    double high = ceil(yarn_pair(r, r->beta_slow > 0 ? r->beta_slow : 1, original, head_dim));
    low = fmax(low, 0);
    high = fmin(high, (double)head_dim - 1);
    if (low == high)
        high += 0.001; /* as the reference does, so that the ramp has a length */
    for (int64_t i = 0; i < head_dim / 2; i++) {
        double ramp = fmin(fmax(((double)i - low) / (high - low), 0), 1);
        turn[i] = turn[i] / r->factor * ramp + turn[i] * (1 - ramp);
    }
}

double rope_turns(const struct rope *r, int64_t head_dim, int64_t max_positions, double *turn) {
    for (int64_t i = 0; i < head_dim / 2; i++) {
        turn[i] = pow(r->theta, -2.0 * (double)i / (double)head_dim);
        if (r->kind == ROPE_LINEAR)
            turn[i] /= r->factor;
        if (r->kind == ROPE_LLAMA3)
            turn[i] = llama3(r, turn[i]);
    }
    if (r->kind != ROPE_YARN)
        return 1;
    yarn(r, head_dim, max_positions, turn);
    return r->attention > 0 ? r->attention : r->factor > 1 ? 0.1 * log(r->factor) + 1 : 1;
}

void rope_angles(const struct rope *r, int64_t head_dim, int64_t max_positions, int64_t n, float *cosines,
                 float *sines) {
    int64_t half = head_dim / 2;
    double *turn = xcalloc((size_t)half, sizeof *turn);
    double length = rope_turns(r, head_dim, max_positions, turn);
    for (int64_t pos = 0; pos < n; pos++)
        for (int64_t i = 0; i < half; i++) {
            cosines[pos * half + i] = (float)(length * cos((double)pos * turn[i]));
            sines[pos * half + i] = (float)(length * sin((double)pos * turn[i]));
        }
    free(turn);
}
