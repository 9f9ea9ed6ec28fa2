/* Arguments of scripts, and what their replies say. Always true here: every operation that changes something has a number
 * of its own, larger than all before it, so that one overtaken on its way is not done late. */
#include "budget/redis_ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/hash.h"

#define NUMBER_TEXT_MAX 24
#define NAME_BYTES 10

void random_name(char out[EPOCH_MAX]) {
    uint8_t random[NAME_BYTES];
    random_bytes(random, sizeof random);
    hex_put(random, sizeof random, out);
}

void words_init(struct words *w) {
    *w = (struct words){0};
}

void words_fini(struct words *w) {
    free(w->bytes);
    free(w->ends);
    *w = (struct words){0};
}

void words_put(struct words *w, struct span text) {
    if (w->n_bytes + text.n > w->cap_bytes) {
        w->cap_bytes = 2 * (w->n_bytes + text.n) + 512;
        w->bytes = xrealloc(w->bytes, w->cap_bytes);
    }
    if (w->n == w->cap) {
        w->cap = 2 * w->cap + 32;
        w->ends = xrealloc(w->ends, w->cap * sizeof w->ends[0]);
    }
    if (text.n)
        memcpy(w->bytes + w->n_bytes, text.at, text.n);
    w->n_bytes += text.n;
    w->ends[w->n++] = w->n_bytes;
}

void words_puts(struct words *w, const char *text) {
    words_put(w, span_of(text));
}

void words_i64(struct words *w, int64_t n) {
    char text[NUMBER_TEXT_MAX];
    int used = snprintf(text, sizeof text, "%" PRId64, n);
    words_put(w, span_from(text, (size_t)used));
}

void words_begin(struct words *w, struct redis_ledger *l, int64_t now_us) {
    words_init(w);
    words_puts(w, l->base);
    words_puts(w, l->own->name);
    words_i64(w, ++l->op);
    words_puts(w, l->epoch);
    words_i64(w, now_us);
    words_puts(w, l->boot);
}

bool words_run(struct redis_ledger *l, struct words *w, struct redis_script *script, struct redis_call *call) {
    struct span *argv = xcalloc(w->n, sizeof *argv);
    for (size_t i = 0, from = 0; i < w->n; from = w->ends[i++])
        argv[i] = span_from(w->bytes + from, w->ends[i] - from);
    bool sent = redis_run(l->redis, call, script, 1, w->n, argv);
    free(argv);
    words_fini(w);
    return sent;
}

/* --- replies --- */

static const struct redis_value *item(const struct redis_value *v, size_t i) {
    return v && v->kind == REDIS_ARRAY && i < v->n ? &v->items[i] : NULL;
}

struct span reply_text(const struct redis_value *v, size_t i) {
    const struct redis_value *it = item(v, i);
    return it && (it->kind == REDIS_TEXT || it->kind == REDIS_STATUS) ? it->text : SPAN_NONE;
}

bool reply_is(const struct redis_value *v, const char *word) {
    return span_is(reply_text(v, 0), word);
}

int64_t reply_i64(const struct redis_value *v, size_t i) {
    const struct redis_value *it = item(v, i);
    if (it && it->kind == REDIS_INTEGER)
        return it->number;
    struct span text = reply_text(v, i);
    bool negative = text.n && text.at[0] == '-';
    int64_t n;
    if (negative)
        text = span_from(text.at + 1, text.n - 1);
    if (!span_to_i64(text, &n))
        return 0;
    return negative ? -n : n;
}

void reply_told(const struct redis_value *v, size_t i, struct told *out) {
    *out = (struct told){reply_i64(v, i), reply_i64(v, i + 1), reply_i64(v, i + 2), (int)reply_i64(v, i + 3),
                         reply_i64(v, i + 4)};
}
