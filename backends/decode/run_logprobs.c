/* Log-probabilities are those of the model itself, before temperature, penalties, biases and forms; in double precision over the whole
 * vocabulary, so that they are the same in any batch. */
#include "backends/decode/run_logprobs.h"

#include <math.h>
#include <stdlib.h>

#define LEAST (-9999.0) /* what OpenAI says of a token that cannot come */

void run_logprobs_init(struct run_logprobs *l, const struct decode_ask *ask, size_t bytes_max) {
    *l = (struct run_logprobs){.on = ask->logprobs, .top = ask->top_logprobs};
    if (l->top > LOGPROBS_TOP_MAX)
        l->top = LOGPROBS_TOP_MAX;
    str_init(&l->held, bytes_max);
}

void run_logprobs_fini(struct run_logprobs *l) {
    str_fini(&l->held);
    free(l->places);
}

/* What is taken off a logit to make it a log-probability. */
static double normal_of(const float *logits, int64_t n) {
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        if ((double)logits[i] > top)
            top = (double)logits[i];
    for (int64_t i = 0; i < n; i++)
        if (!isnan(logits[i]))
            sum += exp((double)logits[i] - top);
    return top + log(sum);
}

static void put_token(struct str *out, const struct tokenizer *t, const float *logits, int32_t id, double normal) {
    struct span bytes = tokenizer_bytes(t, id);
    double p = (double)logits[id] - normal;
    str_puts(out, "{");
    json_put_span(out, "token", bytes.n ? bytes : SPAN(""));
    str_printf(out, ",\"logprob\":%.9g,\"bytes\":[", isfinite(p) ? p : LEAST);
    for (size_t i = 0; i < bytes.n; i++)
        str_printf(out, i ? ",%d" : "%d", (unsigned char)bytes.at[i]);
    str_putc(out, ']');
}

/* The likeliest, the lowest id first among equals. */
static int64_t find_top(const float *logits, int64_t n, int64_t most, int32_t top[LOGPROBS_TOP_MAX]) {
    int64_t found = 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t at = found < most ? found++ : most;
        if (isnan(logits[i]) || (at == most && !(logits[i] > logits[top[most - 1]]))) {
            found -= at < most;
            continue;
        }
        for (at = at == most ? most - 1 : at; at > 0 && logits[i] > logits[top[at - 1]]; at--)
            top[at] = top[at - 1];
        top[at] = i;
    }
    return found;
}

static void remember(struct run_logprobs *l, size_t bytes) {
    if (l->n == l->capacity) {
        l->capacity = l->capacity ? 2 * l->capacity : 16;
        l->places = xrealloc(l->places, l->capacity * sizeof *l->places);
    }
    l->places[l->n++] = (struct place){l->text, bytes};
}

void run_logprobs_see(struct run_logprobs *l, const struct tokenizer *t, const float *logits, int32_t id) {
    int32_t top[LOGPROBS_TOP_MAX];
    double normal = normal_of(logits, t->size);
    size_t before = l->held.n;
    int64_t n = l->top > 0 ? find_top(logits, t->size, l->top, top) : 0;
    put_token(&l->held, t, logits, id, normal);
    str_puts(&l->held, ",\"top_logprobs\":[");
    for (int64_t i = 0; i < n; i++) {
        str_puts(&l->held, i ? "," : "");
        put_token(&l->held, t, logits, top[i], normal);
        str_putc(&l->held, '}');
    }
    str_puts(&l->held, "]}");
    remember(l, l->held.n - before);
    l->text += tokenizer_bytes(t, id).n;
}

void run_logprobs_tell(struct run_logprobs *l, size_t shown, bool all, struct str *out) {
    size_t n = 0, bytes = 0;
    for (; n < l->n && (all || l->places[n].text < shown); n++) {
        str_puts(out, n ? "," : "");
        str_put(out, span_from(l->held.at + bytes, l->places[n].bytes));
        bytes += l->places[n].bytes;
    }
    if (!n)
        return;
    str_cut(&l->held, bytes);
    memmove(l->places, l->places + n, (l->n -= n) * sizeof *l->places);
}
